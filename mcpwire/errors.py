"""The exceptions that mcpwire raises on purpose; each class names the side at fault.

::

    MCPError
    ├── TransportError                the bytes did not get through
    │   ├── ConnectError              no connection came about
    │   ├── ConnectionClosed          gone while in use
    │   ├── SessionExpired            the server forgot the session
    │   └── HTTPError                 non-2xx without a JSON-RPC body
    ├── ProtocolError                 abstract
    │   ├── LocalProtocolError        you asked for something illegal now
    │   └── RemoteProtocolError       the peer broke the rules
    │       ├── InvalidMessage        one message is malformed
    │       ├── MessageTooLarge       one message is over its limit
    │       └── TooManyQuestions      it asks more than one call answers
    ├── RPCError                      the peer answered with an error
    │   └── ParseError, InvalidRequest, MethodNotFound, InvalidParams,
    │       InternalError, ResourceNotFound, HeaderMismatch,
    │       MissingCapability, UnsupportedVersion, UrlElicitationRequired
    ├── RequestTimeout(TimeoutError)  no answer before the deadline
    ├── CallCancelled                 somebody else cancelled the call
    ├── NegotiationError              no common revision
    ├── AuthError                     authorization failed
    ├── GroupError                    a group of servers refused; nothing was sent
    │   ├── UnknownServer             no server of that name
    │   │   └── NotConnected          known, and not connected
    │   ├── UnknownTool               no tool of that name
    │   ├── NotAllowed                a rule or a person refused the call
    │   ├── NeedsConfirmation         somebody has to confirm the call first
    │   ├── NameCollision             two tools would have one name
    │   └── ConfigError               a configuration breaks a rule
    └── ToolError                     a tool reported failure

Local failures never wear a JSON-RPC code (2026-07-28 basic/index, "Error Codes":
local errors must not be mistakable for the peer's), and each class carries what it
knows as attributes, so no caller has to read a message to decide.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "AuthError",
    "CallCancelled",
    "ConfigError",
    "ConnectError",
    "ConnectionClosed",
    "GroupError",
    "HTTPError",
    "HeaderMismatch",
    "InternalError",
    "InvalidMessage",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "MCPError",
    "MessageTooLarge",
    "MethodNotFound",
    "MissingCapability",
    "NameCollision",
    "NeedsConfirmation",
    "NegotiationError",
    "NotAllowed",
    "NotConnected",
    "ParseError",
    "ProtocolError",
    "RPCError",
    "RemoteProtocolError",
    "RequestTimeout",
    "ResourceNotFound",
    "SessionExpired",
    "TooManyQuestions",
    "ToolError",
    "TransportError",
    "UnknownServer",
    "UnknownTool",
    "UnsupportedVersion",
    "UrlElicitationRequired",
    "rpc_error",
]

RAW_EXCERPT_BYTES: Final = 200
"""How much of an offending message an error keeps."""

QUOTED_CHARACTERS: Final = 200
"""How much of the last line of stderr a message quotes: its end."""

MESSAGE_SHOWN: Final = 2_000
"""How many characters of a peer's own error message `str` shows."""

NAME_EXCERPT: Final = 100
"""How many characters of a foreign name a message repeats."""

NAMES_LISTED: Final = 5
"""How many of the known names a message repeats."""


def shorten(text: str, limit: int) -> str:
    """Cut a peer's text to what a record or a message can show, and say so."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text) - limit:,} characters more)"


class MCPError(Exception):
    """Everything mcpwire raises on purpose."""

    # Most classes take keywords only, and Exception's own way of pickling and copying
    # would pass the finished text by position.
    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling and copying with every attribute."""
        return _remade, (type(self), *self.args), self.__dict__.copy()


def _remade(cls: type[MCPError], *args: Any) -> MCPError:
    return cls.__new__(cls, *args)


class TransportError(MCPError):
    """The bytes did not get through.

    Attributes:
        target: What the connection was to, as one readable line without secrets.
    """

    def __init__(self, message: str, *, target: str | None = None) -> None:
        super().__init__(message)
        self.target = target


_ADDED: Final = re.compile(r"\s+(?![\s|+])|Node\.js v\d|note: run with `RUST_")
"""The lines that JavaScript and Rust add behind an error: its place, their version."""


def last_said(stderr_tail: str) -> str:
    """Return the last line of stderr that says something, or the last one there is.

    The traceback of an `ExceptionGroup` ends with a rule, and each line has a bar; that
    of Go stands behind the error.
    """
    lines = stderr_tail.partition("\ngoroutine ")[0].rstrip().splitlines()
    said = [line for line in lines if any(map(str.isalpha, line))]
    said = [line for line in said if not _ADDED.match(line)] or said
    last = said[-1].strip().lstrip("|+ ") if said else "".join(lines[-1:]).strip()
    if len(last) > QUOTED_CHARACTERS:
        last = f"...{last[-QUOTED_CHARACTERS:]}"
    return last


def _with_stderr(message: str, stderr_tail: str) -> str:
    last = last_said(stderr_tail)
    return f"{message}; last line of stderr: {last!r}" if last else message


class ConnectError(TransportError):
    """No connection came about: spawn, early exit, DNS, TLS, refused.

    Attributes:
        errno: The operating system's error number, where there is one.
        reason: What failed on the way to an HTTP server: ``dns``, ``refused``,
            ``unreachable``, ``timeout`` or ``tls``; ``None`` where it was none of them.
        exit_code: How the child ended (negative: by that signal), where it did.
        stderr_tail: The end of what the child wrote to stderr.
        noise: The first lines of the peer that were no protocol messages.
    """

    def __init__(
        self,
        message: str,
        *,
        target: str | None = None,
        errno: int | None = None,
        reason: str | None = None,
        exit_code: int | None = None,
        stderr_tail: str = "",
        noise: Sequence[str] = (),
    ) -> None:
        super().__init__(message, target=target)
        self.errno = errno
        self.reason = reason
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        self.noise = tuple(noise)

    def __str__(self) -> str:
        """Tell the message, the first line of noise and the last line of stderr."""
        text = str(self.args[0])
        if self.noise:
            text += (
                f"; {len(self.noise)} line(s) it wrote were no protocol messages, "
                f"first: {self.noise[0]!r}"
            )
        return _with_stderr(text, self.stderr_tail)


class ConnectionClosed(TransportError):
    """The connection ended while it was in use.

    Attributes:
        exit_code: How the child ended (negative: by that signal), where it did.
        stderr_tail: The end of what the child wrote to stderr.
        sent: Whether the peer may have seen the request: ``True`` means the call
            could have run, ``False`` that it provably did not.
    """

    def __init__(
        self,
        message: str,
        *,
        target: str | None = None,
        exit_code: int | None = None,
        stderr_tail: str = "",
        sent: bool = True,
    ) -> None:
        super().__init__(message, target=target)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        self.sent = sent

    def __str__(self) -> str:
        """Tell the message and the last line of stderr."""
        return _with_stderr(str(self.args[0]), self.stderr_tail)


class SessionExpired(TransportError):
    """The server answered 404 on a live session and it was not recovered."""


class HTTPError(TransportError):
    """A non-2xx answer without a JSON-RPC body.

    Attributes:
        status: The HTTP status code.
        headers: The answer's headers, names in lower case.
        body: The first bytes of the body.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        target: str | None = None,
    ) -> None:
        super().__init__(message, target=target)
        self.status = status
        self.headers = dict(headers or {})
        self.body = body


class ProtocolError(MCPError):
    """A rule of the protocol was broken; raised only as one of its subclasses."""

    def __init__(self, message: str) -> None:
        if type(self) is ProtocolError:
            raise TypeError("ProtocolError is abstract: say whose fault it is")
        super().__init__(message)


class LocalProtocolError(ProtocolError):
    """You asked for something that is illegal now; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules.

    Attributes:
        hint: What the peer probably did wrong, in one sentence, or ``None``.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        """Tell the message and the hint."""
        text = str(self.args[0])
        return f"{text} ({self.hint})" if self.hint else text


class InvalidMessage(RemoteProtocolError):
    """One message of the peer is malformed.

    Attributes:
        path: Where, such as ``CallToolResult.content[0].text``.
        expected: What the rules ask for there, such as ``str``.
        got: What stood there instead.
        raw: The first 200 bytes of the message, where they are known.
    """

    def __init__(
        self,
        path: str,
        *,
        expected: str,
        got: str,
        raw: bytes | bytearray = b"",
        hint: str | None = None,
    ) -> None:
        super().__init__(f"{path}: expected {expected}, got {got}", hint=hint)
        self.path = path
        self.expected = expected
        self.got = got
        self.raw = bytes(raw[:RAW_EXCERPT_BYTES])


class MessageTooLarge(RemoteProtocolError):
    """One message of the peer is over its limit.

    Attributes:
        limit: The limit, in bytes; where it is `Limits.values`, in values.
    """

    def __init__(self, message: str, *, limit: int) -> None:
        super().__init__(message)
        self.limit = limit


class TooManyQuestions(RemoteProtocolError):
    """The server asks more in one call than the call answers; it was told to stop.

    Attributes:
        method: The request of the call.
        limit: How many questions one call answers (`Limits.questions`).
    """

    def __init__(self, method: str, *, limit: int) -> None:
        super().__init__(
            f"{method}: the server asks more than {limit} questions in one call "
            "(Limits.questions)",
            hint="raise Limits.questions if the call needs more",
        )
        self.method = method
        self.limit = limit


class RPCError(MCPError):
    """The peer answered a request with a JSON-RPC error.

    Raised by a handler of ours, it is the answer that the peer gets.

    Attributes:
        code: The JSON-RPC error code.
        message: The peer's one sentence, whole; ``str`` shows its first 2,000
            characters and how many more there are.
        data: The peer's further data, or ``None``.
        method: The request that was answered, where it is known.
        status: The HTTP status it came with, where that was none of success.
    """

    default_code: ClassVar[int] = 0

    status: int | None = None

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        data: Any = None,
        method: str | None = None,
    ) -> None:
        if code is None:
            code = self.default_code
            if not code:
                raise TypeError("RPCError needs a code")
        super().__init__(shorten(message, MESSAGE_SHOWN))
        self.code = code
        self.message = message
        self.data = data
        self.method = method

    def __str__(self) -> str:
        """Tell method, message and code."""
        where = f"{self.method}: " if self.method else ""
        shown = shorten(self.message, MESSAGE_SHOWN) or "no message"
        return f"{where}{shown} (JSON-RPC error {self.code})"


class ParseError(RPCError):
    """-32700: the peer could not parse what it received."""

    default_code = -32700


class InvalidRequest(RPCError):
    """-32600: the message is no valid request."""

    default_code = -32600


class MethodNotFound(RPCError):
    """-32601: the method is unknown, or gated by a capability not advertised."""

    default_code = -32601


class InvalidParams(RPCError):
    """-32602: the parameters are wrong (unknown tool, bad cursor, ...)."""

    default_code = -32602


class InternalError(RPCError):
    """-32603: the peer failed."""

    default_code = -32603


class ResourceNotFound(RPCError):
    """-32002: no such resource (revisions up to 2025-11-25)."""

    default_code = -32002


class HeaderMismatch(RPCError):
    """-32020: an HTTP header and the body disagree (2026-07-28)."""

    default_code = -32020


class MissingCapability(RPCError):
    """-32021: the request needs a client capability not declared (2026-07-28)."""

    default_code = -32021


class UnsupportedVersion(RPCError):
    """-32022: the protocol version is not supported (2026-07-28)."""

    default_code = -32022


class UrlElicitationRequired(RPCError):
    """-32042: the user must visit URLs first (2025-11-25 only)."""

    default_code = -32042


_BY_CODE: Final = {cls.default_code: cls for cls in RPCError.__subclasses__()}


def rpc_error(
    code: int, message: str, *, data: Any = None, method: str | None = None
) -> RPCError:
    """Build the error class that the code stands for, else a plain `RPCError`."""
    cls = _BY_CODE.get(code, RPCError)
    return cls(message, code=code, data=data, method=method)


class RequestTimeout(MCPError, TimeoutError):
    """No answer came before the deadline; the peer was told to stop.

    Attributes:
        method: The request that was not answered.
        timeout: The limit that ran out, in seconds.
        elapsed: How long the call had been running, in seconds.
        detail: What else is known (lines that were no messages, stderr), or ``None``.
    """

    # TimeoutError is an OSError: its constructor reads positional arguments as
    # errno and text: everything travels by keyword and the text is made by __str__.
    def __init__(
        self,
        *,
        method: str,
        timeout: float,
        elapsed: float,
        detail: str | None = None,
    ) -> None:
        super().__init__()
        self.method = method
        self.timeout = timeout
        self.elapsed = elapsed
        self.detail = detail

    def __str__(self) -> str:
        """Tell the request, the limit and the time it took."""
        text = (
            f"{self.method}: no answer within {self.timeout:g} s "
            f"(after {self.elapsed:.3g} s)"
        )
        return f"{text}; {self.detail}" if self.detail else text


class CallCancelled(MCPError):
    """The call was cancelled through its handle; task cancellation stays Python's.

    Attributes:
        method: The request that was cancelled.
        reason: Why, as given to the handle, or ``None``.
    """

    def __init__(self, method: str, *, reason: str | None = None) -> None:
        super().__init__(f"{method}: cancelled" + (f": {reason}" if reason else ""))
        self.method = method
        self.reason = reason


class NegotiationError(MCPError):
    """No common protocol revision was found.

    Attributes:
        negotiation: The ordered record of probes, answers and the verdict.
        supported: The revisions the peer named, where it named any.
    """

    def __init__(
        self,
        message: str,
        *,
        negotiation: Any = None,
        supported: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.negotiation = negotiation
        self.supported = tuple(supported)


class AuthError(MCPError):
    """Authorization failed."""

    is_passing: ClassVar[bool] = False
    """Whether the same may go well a moment later."""


class GroupError(MCPError):
    """A group of servers refused a request."""


class UnknownServer(GroupError):
    """There is no server of that name.

    Attributes:
        server: The name that was asked for.
        known: The names that there are.
    """

    def __init__(self, server: str, *, known: Iterable[str] = ()) -> None:
        self.server = server
        self.known = tuple(known)
        super().__init__(
            f"no server named {_cut(server)}{_listed('known', self.known)}"
        )


class NotConnected(UnknownServer):
    """There is a server of that name, and it is not connected.

    Attributes:
        problem: Why it could not be connected; ``None``: nobody tried, or it was
            disconnected.
    """

    def __init__(
        self,
        server: str,
        *,
        known: Iterable[str] = (),
        problem: BaseException | None = None,
    ) -> None:
        super().__init__(server, known=known)
        self.problem = problem
        why = "" if problem is None else f" ({type(problem).__name__}: {problem})"
        self.args = (f"the server {server!r} is not connected{why}",)


class UnknownTool(GroupError):
    """There is no tool of that name.

    Attributes:
        tool: The name that was asked for.
        close: Names that look like it.
    """

    def __init__(self, tool: str, *, close: Iterable[str] = ()) -> None:
        self.tool = tool
        self.close = tuple(close)
        super().__init__(
            f"no tool named {_cut(tool)}{_listed('did you mean', self.close)}"
        )


class NotAllowed(GroupError):
    """A rule, or a person that was asked, refused the call.

    Attributes:
        tool: The tool's name.
        rule: What refused it, such as ``"deny: mcp__files__*"``.
    """

    def __init__(self, tool: str, *, rule: str) -> None:
        self.tool = tool
        self.rule = rule
        super().__init__(f"the tool {_cut(tool)} is not allowed ({rule})")


class NeedsConfirmation(GroupError):
    """Somebody has to confirm the call: make it again with ``confirmed=True`` then.

    Attributes:
        tool: The tool's name.
        arguments: What it would be called with, to be shown for the confirmation.
    """

    def __init__(
        self, tool: str, *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        self.tool = tool
        self.arguments = dict(arguments or {})
        super().__init__(f"the tool {_cut(tool)} needs confirmation")


class NameCollision(GroupError):
    """Two tools would have one name, and the policy is to raise.

    Attributes:
        name: That name.
        owners: Server and tool of each tool that would have it.
    """

    def __init__(self, name: str, *, owners: Iterable[tuple[str, str]]) -> None:
        self.name = name
        self.owners = tuple(owners)
        whose = ", ".join(f"{tool!r} of {server!r}" for server, tool in self.owners)
        super().__init__(f"the name {_cut(name)} would belong to {whose}")


class ConfigError(GroupError):
    """A configuration breaks a rule; says where, never what a secret is.

    Attributes:
        problem: What is wrong.
        file: The file, or ``None`` where it came from the program.
        entry: The server's name, or its place, such as ``"servers[2]"``.
        field: The field, such as ``"env.TOKEN"``.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        entry: str | None = None,
        field: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.entry = entry
        self.field = field
        where = [each for each in (file, entry, field) if each is not None]
        super().__init__(": ".join((*where, problem)))


class ToolError(MCPError):
    """A tool reported failure; raised by server handlers to say so.

    Attributes:
        result: The whole `CallToolResult`, where a client raised this.
    """

    def __init__(self, message: str, *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


def _cut(name: str) -> str:
    return repr(name if len(name) <= NAME_EXCERPT else name[:NAME_EXCERPT] + "...")


def _listed(before: str, names: tuple[str, ...]) -> str:
    if not names:
        return ""
    more = ", ..." if len(names) > NAMES_LISTED else ""
    return f" ({before}: {', '.join(map(_cut, names[:NAMES_LISTED]))}{more})"
