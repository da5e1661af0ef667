"""The exceptions of mcpwire; each class names the side at fault.

::

    MCPError
    ├── TransportError                the bytes did not get through
    │   ├── ConnectError              no connection was established
    │   ├── ConnectionClosed          the connection ended while in use
    │   ├── SessionExpired            the server has discarded the session
    │   └── HTTPError                 non-2xx without a JSON-RPC body
    ├── ProtocolError                 abstract
    │   ├── LocalProtocolError        the caller's request is not allowed now
    │   └── RemoteProtocolError       the peer violated the protocol
    │       ├── InvalidMessage        one message is malformed
    │       ├── MessageTooLarge       one message is over its limit
    │       └── TooManyQuestions      too many server requests in one call
    ├── RPCError                      the peer answered with an error
    │   └── ParseError, InvalidRequest, MethodNotFound, InvalidParams,
    │       InternalError, ResourceNotFound, HeaderMismatch,
    │       MissingCapability, UnsupportedVersion, UrlElicitationRequired
    ├── RequestTimeout(TimeoutError)  no answer before the deadline
    ├── CallCancelled                 the call was cancelled by its handle
    ├── NegotiationError              no common protocol version
    ├── AuthError                     authorization failed
    ├── GroupError                    a group refused the request; nothing was sent
    │   ├── UnknownServer             no server with that name
    │   │   └── NotConnected          known but not connected
    │   ├── UnknownTool               no tool with that name
    │   ├── NotAllowed                a rule or an approver refused the call
    │   ├── NeedsConfirmation         the call needs confirmation first
    │   ├── NameCollision             two tools would get the same name
    │   └── ConfigError               a configuration is invalid
    └── ToolError                     a tool reported failure

Local failures have no JSON-RPC code (2026-07-28 basic/index, "Error Codes": local
errors must not be mistaken for the peer's). Each class has its details as attributes,
so that callers do not have to parse messages.
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
"""Bytes of an invalid message that an error keeps."""

MAX_STDERR_SHOWN: Final = 200
"""Characters at the end of the last stderr line that a message quotes."""

MAX_MESSAGE_SHOWN: Final = 2_000
"""Characters of a peer's error message that `str` shows."""

MAX_NAME_SHOWN: Final = 100
"""Characters of a name from a peer that a message repeats."""

MAX_NAMES_LISTED: Final = 5
"""Known names that a message lists."""

MAX_EXCERPT_CHARS: Final = 40
"""Characters of a value that a message quotes."""


def shorten(text: str, limit: int) -> str:
    """Cut a peer's text at a limit and append how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text) - limit:,} characters more)"


def excerpt(value: object) -> str:
    """Return a short `repr` for a sentence about a value of unknown size."""
    kind = type(value).__name__
    if isinstance(value, str):
        is_short = len(value) <= MAX_EXCERPT_CHARS
        return repr(value if is_short else value[:MAX_EXCERPT_CHARS] + "…")
    if value is None or isinstance(value, (bool, int, float)):
        text = repr(value)
        return text if len(text) <= MAX_EXCERPT_CHARS else f"a huge {kind}"
    return f"a value of type {kind}"


class MCPError(Exception):
    """The base class of all errors that mcpwire raises."""

    # Most classes take keywords only; Exception's own pickling would pass the text by
    # position.
    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling and copying with every attribute."""
        return _recreate, (type(self), *self.args), self.__dict__.copy()


def _recreate(cls: type[MCPError], *args: Any) -> MCPError:
    return cls.__new__(cls, *args)


class TransportError(MCPError):
    """The bytes were not transported.

    Attributes:
        target: The target of the connection, as one line without secrets.
    """

    def __init__(self, message: str, *, target: str | None = None) -> None:
        super().__init__(message)
        self.target = target


_TRACE_LINE: Final = re.compile(
    r"\s+at |Node\.js v\d|note: run with `RUST_|"
    r"goroutine \d+ \[|created by |\t/|[\w./*()-]+\(.*\)$"
)
"""Lines that JavaScript, Rust and Go append to an error: its place, their version."""


def last_error_line(stderr_tail: str) -> str:
    """Return the last line of stderr with an error text, or else the last line.

    The traceback of an `ExceptionGroup` ends with a rule, and each line has a bar.
    """
    lines = stderr_tail.rstrip().splitlines()
    texts = [line for line in lines if any(map(str.isalpha, line))]
    texts = [line for line in texts if not _TRACE_LINE.match(line)] or texts
    last = texts[-1].strip().lstrip("|+ ") if texts else "".join(lines[-1:]).strip()
    if len(last) > MAX_STDERR_SHOWN:
        last = f"...{last[-MAX_STDERR_SHOWN:]}"
    return last


def _add_stderr(message: str, stderr_tail: str) -> str:
    last = last_error_line(stderr_tail)
    return f"{message}; last line of stderr: {last!r}" if last else message


class ConnectError(TransportError):
    """No connection was established: spawn, early exit, DNS, TLS, refused.

    Attributes:
        errno: The operating system's error number, or ``None``.
        reason: What failed on the way to an HTTP server: ``dns``, ``refused``,
            ``unreachable``, ``timeout`` or ``tls``; ``None`` for any other failure.
        exit_code: The exit code of the child (negative: the signal), or ``None``.
        stderr_tail: The end of the child's stderr.
        noise: The first lines of the peer that were not protocol messages.
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
        """Return the message, the first line of noise and the last line of stderr."""
        text = str(self.args[0])
        if self.noise:
            text += (
                f"; {len(self.noise)} line(s) of its output were not protocol "
                f"messages, first: {self.noise[0]!r}"
            )
        return _add_stderr(text, self.stderr_tail)


class ConnectionClosed(TransportError):
    """The connection ended while it was in use.

    Attributes:
        exit_code: The exit code of the child (negative: the signal), or ``None``.
        stderr_tail: The end of the child's stderr.
        sent: Whether the peer may have received the request: ``True`` means that the
            call may have run, ``False`` that it certainly did not.
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
        """Return the message and the last line of stderr."""
        return _add_stderr(str(self.args[0]), self.stderr_tail)


class SessionExpired(TransportError):
    """The server answered an open session with 404, and it was not recovered."""


class HTTPError(TransportError):
    """A non-2xx response without a JSON-RPC body.

    Attributes:
        status: The HTTP status code.
        headers: The response's headers, names in lower case.
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
            raise TypeError(
                "ProtocolError is abstract: raise LocalProtocolError or "
                "RemoteProtocolError"
            )
        super().__init__(message)


class LocalProtocolError(ProtocolError):
    """The caller's request is not allowed in this state; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol.

    Attributes:
        hint: The probable cause, in one sentence, or ``None``.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        """Return the message and the hint."""
        text = str(self.args[0])
        return f"{text} ({self.hint})" if self.hint else text


class InvalidMessage(RemoteProtocolError):
    """One message of the peer is malformed.

    Attributes:
        path: The place, such as ``CallToolResult.content[0].text``.
        expected: What the protocol requires there, such as ``str``.
        got: What the message has there.
        raw: The first 200 bytes of the message; empty where they are not known.
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
        limit: The limit, in bytes; of `Limits.values` in values.
    """

    def __init__(self, message: str, *, limit: int) -> None:
        super().__init__(message)
        self.limit = limit


class TooManyQuestions(RemoteProtocolError):
    """The server sent too many requests within one call; the call was cancelled.

    Attributes:
        method: The method of the call.
        limit: The server requests that one call answers (`Limits.questions`).
    """

    def __init__(self, method: str, *, limit: int) -> None:
        super().__init__(
            f"{method}: the server sent more than {limit} requests during one call "
            "(Limits.questions)",
            hint="raise Limits.questions if the call needs more",
        )
        self.method = method
        self.limit = limit


class RPCError(MCPError):
    """The peer answered a request with a JSON-RPC error.

    If a handler on this side raises it, the peer gets it as the answer.

    Attributes:
        code: The JSON-RPC error code.
        message: The peer's message, whole; ``str`` shows its first 2,000
            characters and how many more there are.
        data: The peer's `data` member, or ``None``.
        method: The method of the request, or ``None`` where it is not known.
        status: The HTTP status of the response, where that was not 2xx.
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
        super().__init__(shorten(message, MAX_MESSAGE_SHOWN))
        self.code = code
        self.message = message
        self.data = data
        self.method = method

    def __str__(self) -> str:
        """Return method, message and code."""
        prefix = f"{self.method}: " if self.method else ""
        shown = shorten(self.message, MAX_MESSAGE_SHOWN) or "no message"
        return f"{prefix}{shown} (JSON-RPC error {self.code})"


class ParseError(RPCError):
    """-32700: the peer could not parse what it received."""

    default_code = -32700


class InvalidRequest(RPCError):
    """-32600: the message is not a valid request."""

    default_code = -32600


class MethodNotFound(RPCError):
    """-32601: the method is unknown, or its capability was not declared."""

    default_code = -32601


class InvalidParams(RPCError):
    """-32602: the parameters are wrong (unknown tool, bad cursor, ...)."""

    default_code = -32602


class InternalError(RPCError):
    """-32603: an internal error of the peer."""

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
    """Return the error of the class for a code, or a plain `RPCError`."""
    cls = _BY_CODE.get(code, RPCError)
    return cls(message, code=code, data=data, method=method)


class RequestTimeout(MCPError, TimeoutError):
    """The deadline passed without an answer; the peer was sent a cancellation.

    Attributes:
        method: The method of the request.
        timeout: The timeout, in seconds.
        elapsed: How long the call had been running, in seconds.
        detail: More information (lines that were not messages, stderr), or ``None``.
    """

    # TimeoutError is an OSError: its constructor takes positional arguments for errno
    # and text. So all arguments are keywords, and __str__ makes the text.
    def __init__(
        self, *, method: str, timeout: float, elapsed: float, detail: str | None = None
    ) -> None:
        super().__init__()
        self.method = method
        self.timeout = timeout
        self.elapsed = elapsed
        self.detail = detail

    def __str__(self) -> str:
        """Return the method, the timeout and the elapsed time."""
        text = (
            f"{self.method}: no answer within {self.timeout:g} s "
            f"(after {self.elapsed:.3g} s)"
        )
        return f"{text}; {self.detail}" if self.detail else text


class CallCancelled(MCPError):
    """The call was cancelled by its handle; a cancelled task gets `CancelledError`.

    Attributes:
        method: The method of the request.
        reason: The reason given to the handle, or ``None``.
    """

    def __init__(self, method: str, *, reason: str | None = None) -> None:
        super().__init__(f"{method}: cancelled" + (f": {reason}" if reason else ""))
        self.method = method
        self.reason = reason


class NegotiationError(MCPError):
    """No common protocol revision was found.

    Attributes:
        negotiation: The record of probes, answers and the outcome, in order.
        supported: The versions that the peer named; empty if it named none.
    """

    def __init__(
        self, message: str, *, negotiation: Any = None, supported: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.negotiation = negotiation
        self.supported = tuple(supported)


class AuthError(MCPError):
    """Authorization failed."""

    is_passing: ClassVar[bool] = False
    """Whether the same attempt may succeed a moment later."""

    retry_after: float | None = None
    """The delay in seconds that the authorization server asked for, if any."""


class GroupError(MCPError):
    """A group of servers refused a request."""


class UnknownServer(GroupError):
    """There is no server with that name.

    Attributes:
        server: The unknown name.
        known: The known names.
    """

    def __init__(self, server: str, *, known: Iterable[str] = ()) -> None:
        self.server = server
        self.known = tuple(known)
        super().__init__(
            f"no server named {_quote_name(server)}{_list_names('known', self.known)}"
        )


class NotConnected(UnknownServer):
    """The server with that name is not connected.

    Attributes:
        problem: Why connecting failed; ``None``: it was not tried, or the server was
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
        reason = "" if problem is None else f" ({type(problem).__name__}: {problem})"
        self.args = (f"the server {server!r} is not connected{reason}",)


class UnknownTool(GroupError):
    """There is no tool with that name.

    Attributes:
        tool: The unknown name.
        close: Similar names.
    """

    def __init__(self, tool: str, *, close: Iterable[str] = ()) -> None:
        self.tool = tool
        self.close = tuple(close)
        super().__init__(
            f"no tool named {_quote_name(tool)}"
            f"{_list_names('did you mean', self.close)}"
        )


class NotAllowed(GroupError):
    """A rule or an approver refused the call.

    Attributes:
        tool: The tool's name.
        rule: The rule that refused it, such as ``"deny: mcp__files__*"``.
    """

    def __init__(self, tool: str, *, rule: str) -> None:
        self.tool = tool
        self.rule = rule
        super().__init__(f"the tool {_quote_name(tool)} is not allowed ({rule})")


class NeedsConfirmation(GroupError):
    """The call needs confirmation; repeat it with ``confirmed=True`` after that.

    Attributes:
        tool: The tool's name.
        arguments: The arguments of the call, to be shown for the confirmation.
    """

    def __init__(
        self, tool: str, *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        self.tool = tool
        self.arguments = dict(arguments or {})
        super().__init__(f"the tool {_quote_name(tool)} needs confirmation")


class NameCollision(GroupError):
    """Two tools would get the same name, and the policy is to raise.

    Attributes:
        name: The name.
        owners: Server and tool of each tool that would get it.
    """

    def __init__(self, name: str, *, owners: Iterable[tuple[str, str]]) -> None:
        self.name = name
        self.owners = tuple(owners)
        tools = ", ".join(f"{tool!r} of {server!r}" for server, tool in self.owners)
        super().__init__(f"the name {_quote_name(name)} would belong to {tools}")


class ConfigError(GroupError):
    """A configuration is invalid; the message has the place and no secret.

    Attributes:
        problem: What is wrong.
        file: The file, or ``None`` if the program passed the configuration.
        entry: The server's name, or its position, such as ``"servers[2]"``.
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
        places = [place for place in (file, entry, field) if place is not None]
        super().__init__(": ".join((*places, problem)))


class ToolError(MCPError):
    """A tool reported failure; server handlers raise it to report one.

    Attributes:
        result: The whole `CallToolResult` if a client raised this, else ``None``.
    """

    def __init__(self, message: str, *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


def _quote_name(name: str) -> str:
    return repr(name if len(name) <= MAX_NAME_SHOWN else name[:MAX_NAME_SHOWN] + "...")


def _list_names(label: str, names: tuple[str, ...]) -> str:
    if not names:
        return ""
    rest = ", ..." if len(names) > MAX_NAMES_LISTED else ""
    return f" ({label}: {', '.join(map(_quote_name, names[:MAX_NAMES_LISTED]))}{rest})"
