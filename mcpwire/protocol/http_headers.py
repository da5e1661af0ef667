"""The heads of our HTTP requests: request line and fields, as bytes.

`Heads` composes them for one target and session. `Mirror` adds what a request of the
stateless era repeats from its body (2026-07-28 streamable-http, "Standard Request
Headers" and "Custom Headers from Tool Parameters"), so that intermediaries can route
without reading it. No control character leaves here but the CRLFs that end the lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire._version import __version__
from mcpwire.errors import InvalidMessage, LocalProtocolError, RemoteProtocolError
from mcpwire.protocol.methods import METHODS
from mcpwire.wire.headers import (
    LAST_EVENT_ID,
    METHOD,
    NAME,
    PARAM_PREFIX,
    PROTOCOL_VERSION,
    SESSION_ID,
    encode_value,
    find_param_headers,
    is_session_id,
    is_token,
    mirror_params,
)
from mcpwire.wire.urls import mask_url, resolve_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpwire.versions import Revision
    from mcpwire.wire.headers import ParamHeader
    from mcpwire.wire.urls import Url

__all__ = [
    "LONGEST_ENDPOINT",
    "Heads",
    "Mirror",
    "can_resume_from",
    "check_headers",
    "field_line",
    "resolve_endpoint",
]

USER_AGENT: Final = f"mcpwire/{__version__}"

# RFC 9110, 5.5, without the tab it allows: it is a control character all the same.
_VALUE: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_TARGET: Final = re.compile(r"/[!\"$-~]*")  # a fragment is no part of a request

_EVENT_ID: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")
_EVENT_ID_BYTES: Final = 4 * 1024  # many servers refuse heads of more than 8 KiB

_VERSION: Final = PROTOCOL_VERSION.lower()
_SESSION: Final = SESSION_ID.lower()
_MIRRORED: Final = PARAM_PREFIX.lower()

# What a user's own header would break: the framing, or what MCP says in the head.
_OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        LAST_EVENT_ID.lower(),
        METHOD.lower(),
        NAME.lower(),
        _SESSION,
        _VERSION,
    }
)


def check_headers(
    headers: Mapping[str, str], what: str = "headers"
) -> tuple[tuple[str, str], ...]:
    """Return a user's own headers as pairs, names in lower case and each only once.

    Of names that differ only in case the last counts. `what` names the headers in the
    message, which never shows a value.

    Raises:
        LocalProtocolError: One of them cannot be a header, or is for mcpwire to write.
    """
    if not isinstance(headers, Mapping):
        raise LocalProtocolError(
            f"{what} must be a mapping of names to values, got {type(headers).__name__}"
        )
    given: Mapping[Any, Any] = headers
    checked = {}
    for name, value in given.items():
        if not isinstance(name, str) or not is_token(name):
            # A whole line may have been given as the name: its value stays hidden.
            shown = type(name).__name__
            if isinstance(name, str):
                shown = repr(name.partition(":")[0][:40])
            raise LocalProtocolError(f"{what}: {shown} cannot be a header's name")
        lower = name.lower()
        if lower in _OURS or lower.startswith(_MIRRORED):
            raise LocalProtocolError(f"{what}: {name!r} is for mcpwire to write")
        if not isinstance(value, str):
            raise LocalProtocolError(
                f"{what}: the value of {name!r} must be str, got {type(value).__name__}"
            )
        checked[lower] = _check_value(name, value, what)
    return tuple(checked.items())


def _check_value(name: str, value: str, what: str) -> str:
    if _VALUE.fullmatch(value) is None:
        raise LocalProtocolError(
            f"{what}: the value of {name!r} must be visible ASCII, with spaces only "
            "inside"
        )
    return value


def can_resume_from(event_id: str) -> bool:
    """Tell whether an event id can travel in `Last-Event-ID`.

    Beyond ASCII it travels as UTF-8 (HTML standard, 9.2.3), and spaces around it are no
    part of a field. An id with control characters, of spaces only or of more than 4 KiB
    has no way to travel: resume from one before it, and drop what comes twice.
    """
    return (
        _EVENT_ID.fullmatch(event_id) is not None
        and event_id.strip(" ") != ""
        and len(event_id.encode()) <= _EVENT_ID_BYTES
    )


def field_line(name: str, value: str) -> bytes:
    """Return one field line; the name is in lower case.

    Raises:
        LocalProtocolError: They cannot be a field's name and value.
    """
    if not is_token(name):
        raise LocalProtocolError(f"{name[:40]!r} cannot be a header's name")
    return f"{name}: {_check_value(name, value, 'headers')}\r\n".encode("ascii")


class Heads:
    """The heads of the requests to one target on one session.

    `own` are the user's headers for all requests, as `check_headers` accepts them.

    `extra` are further fields of one request, such as the mirrored ones, or headers
    that `check_headers` has accepted. A later field takes the place of an earlier one
    of the same name, in whatever case.

    Raises:
        LocalProtocolError: A header, of all requests or of one, cannot be one.
    """

    __slots__ = ("_delete", "_get", "_own", "_post", "_revision", "_session_id", "_url")

    def __init__(self, url: Url, own: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._own = dict(check_headers(own or {}))
        self._session_id: str | None = None
        self._revision: Revision | None = None
        self._compose()

    @property
    def session_id(self) -> str | None:
        """The session that the requests belong to.

        Raises:
            LocalProtocolError: On setting: it is no session id.
        """
        return self._session_id

    @session_id.setter
    def session_id(self, session_id: str | None) -> None:
        if session_id is not None and not is_session_id(session_id):
            raise LocalProtocolError("a session id must be visible ASCII")
        self._session_id = session_id
        self._compose()

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` before there is one, as on `initialize`."""
        return self._revision

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._revision = revision
        self._compose()

    def with_target(self, target: str) -> Heads:
        """Return the same heads for another path and query of the same origin.

        Raises:
            LocalProtocolError: That is no path and query of a request line.
        """
        path, mark, query = target.partition("?")
        url = attrs.evolve(self._url, path=path, query=query if mark else None)
        heads = Heads(url, self._own)
        heads._session_id = self._session_id
        heads._revision = self._revision
        heads._compose()
        return heads

    def post(
        self, extra: Iterable[tuple[str, str]] = (), *, version: str | None = None
    ) -> bytes:
        """Return the head of a POST that carries one message.

        `version` is for a request that comes before the agreement and names its
        revision all the same, as each one of the stateless era does.
        """
        if version is not None:
            extra = (*extra, (_VERSION, version))
        return self._post.start(extra) if extra else self._post.bare

    def get(
        self, last_event_id: str | None = None, extra: Iterable[tuple[str, str]] = ()
    ) -> bytes:
        """Return the head of a GET that opens an event stream, or resumes one.

        Raises:
            LocalProtocolError: `can_resume_from` refuses the id.
        """
        start = self._get.start(extra)
        if not last_event_id:
            return start
        if not can_resume_from(last_event_id):
            raise LocalProtocolError("the event id cannot travel in a header")
        # 2025-11-25 basic/transports, "Resumability and Redelivery".
        return b"%slast-event-id: %s\r\n" % (start, last_event_id.strip(" ").encode())

    def delete(self, extra: Iterable[tuple[str, str]] = ()) -> bytes:
        """Return the head of the DELETE that ends the session."""
        return self._delete.start(extra)

    def _compose(self) -> None:
        common = {
            "host": self._url.authority,
            "user-agent": USER_AGENT,
            # A handful of bytes: compressing them costs more than it saves.
            "accept-encoding": "identity",
            **self._own,
        }
        if self._revision is not None:
            common[_VERSION] = self._revision.name
        if self._session_id is not None:
            common[_SESSION] = self._session_id
        # 2025-11-25 basic/transports, "Sending Messages to the Server": both types.
        both = "application/json, text/event-stream"
        body = {"content-type": "application/json", "accept": both}
        target = self._url.target
        self._post = _Head("POST", target, {**common, **body})
        self._get = _Head("GET", target, {**common, "accept": "text/event-stream"})
        self._delete = _Head("DELETE", target, common)


class _Head:
    """The head of one kind of request."""

    __slots__ = ("_fields", "_request_line", "bare")

    def __init__(self, verb: str, target: str, fields: dict[str, str]) -> None:
        if _TARGET.fullmatch(target) is None:
            raise LocalProtocolError("a request's target must be a path and query")
        self._request_line = f"{verb} {target} HTTP/1.1\r\n".encode("ascii")
        self._fields = {name: field_line(name, value) for name, value in fields.items()}
        self.bare = self._request_line + b"".join(self._fields.values())
        """The head with nothing extra."""

    def start(self, extra: Iterable[tuple[str, str]]) -> bytes:
        """Return the head with something extra."""
        lines = {}
        for name, value in extra:
            lower = name.lower()
            lines[lower] = field_line(lower, value)
        if self._fields.keys().isdisjoint(lines):
            return self.bare + b"".join(lines.values()) if lines else self.bare
        return self._request_line + b"".join((self._fields | lines).values())


_MEMBERS: Final = {spec.name: spec.mirrored for spec in METHODS if spec.mirrored}
"""Method -> the member of its params that `Mcp-Name` repeats."""

_HEADERS_MAX: Final = 16_384  # of all tools together
_LINES_MAX: Final = 1_024  # that are kept to be used again
_LINE_LENGTH_MAX: Final = 256
_STARTS_MAX: Final = 128  # whole heads: users' headers in them may be long


class Mirror:
    """Composes the mirrored fields of requests to one server.

    It knows the annotations of the tools whose lists went through `learn`; the newest
    list counts. `on_dropped` is told the name of each tool that a list loses, and why.
    """

    __slots__ = ("_count", "_known", "_lines", "_on_dropped", "_starts")

    def __init__(self, on_dropped: Callable[[str, str], object]) -> None:
        self._on_dropped = on_dropped
        self._known: dict[str, tuple[ParamHeader, ...]] = {}
        self._count = 0
        self._lines: dict[tuple[str, str], bytes] = {}
        self._starts: dict[tuple[bytes, str, str | None], bytes] = {}

    def forget(self) -> None:
        """Forget every tool: another server may answer now."""
        self._known.clear()
        self._count = 0

    # Requests...

    def standard(
        self, method: str, params: Mapping[str, Any] | None
    ) -> list[tuple[str, str]]:
        """Return names and encoded values of the fields that go with any method.

        A name that is missing in the params, or is no text, has no field: what is wrong
        with such a request is for the server to say.

        Raises:
            LocalProtocolError: The name is not Unicode.
        """
        fields = [(METHOD, method)]
        name = _name_in(method, params)
        if name is not None:
            fields.append((NAME, encode_value(name)))
        return fields

    def params(self, name: Any, arguments: Any) -> list[tuple[str, str]]:
        """Return names and encoded values of the fields for a tool's arguments.

        Of a tool that no list has shown nothing is known, and nothing is mirrored: the
        server then refuses the call, and the list is asked for.

        Raises:
            LocalProtocolError: An argument that is mirrored has no header form.
        """
        headers = self._known.get(name) if isinstance(name, str) else None
        if headers is None or not isinstance(arguments, dict):
            return []
        return mirror_params(headers, arguments)

    def start(
        self, head: bytes, method: str, params: Mapping[str, Any] | None
    ) -> bytes:
        """Return that head with all mirrored fields of a message behind it.

        Heads are remembered for what depends on nothing but method and name, which
        most calls do not: give one here that comes again, as `Heads.post` does.

        Raises:
            LocalProtocolError: As `lines`.
        """
        # As `_name_in`, without its call for each request.
        member = _MEMBERS.get(method)
        name = params.get(member) if member is not None and params else None
        if not isinstance(name, str):
            name = None
        # Asked each time and not when a list is learnt: another thread may be calling.
        if name in self._known and method == "tools/call":
            return head + self.lines(method, params)
        key = (head, method, name)
        start = self._starts.get(key)
        if start is None:
            start = head + self._standard_lines(method, name)
            if name is None or len(name) <= _LINE_LENGTH_MAX:
                if len(self._starts) >= _STARTS_MAX:  # threads may add at once
                    self._starts.clear()
                self._starts[key] = start
        return start

    def lines(self, method: str, params: Mapping[str, Any] | None) -> bytes:
        """Return all mirrored fields of a message, as lines to put behind its head.

        Raises:
            LocalProtocolError: The method's name, or what is mirrored, cannot be said
                in a header.
        """
        name = _name_in(method, params)
        lines = self._standard_lines(method, name)
        if name is not None and self._known and method == "tools/call":
            assert params is not None
            for header, value in self.params(name, params.get("arguments")):
                lines += field_line(header.lower(), value)
        return lines

    def _standard_lines(self, method: str, name: str | None) -> bytes:
        lines = self._line(METHOD, method)
        return lines if name is None else lines + self._line(NAME, name)

    def _line(self, header: str, text: str) -> bytes:
        """Return the line of a standard field, which is often the one of before."""
        line = self._lines.get((header, text))
        if line is None:
            # Only names have the encoded form (2026-07-28, "Value Encoding").
            value = encode_value(text) if header == NAME else text
            line = field_line(header.lower(), value)
            if len(self._lines) >= _LINES_MAX:  # threads may add at once
                self._lines.clear()
            if len(text) <= _LINE_LENGTH_MAX:
                self._lines[header, text] = line
        return line

    # Lists of tools...

    def learn(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a `tools/list` result without the tools whose annotations are invalid.

        It is the same object when all of them stay. What is no tool at all stays too:
        the decoder says better what is wrong with it.
        """
        tools = result.get("tools")
        if not isinstance(tools, list):
            return result
        kept = [tool for tool in tools if self._learn_tool(tool)]
        return result if len(kept) == len(tools) else {**result, "tools": kept}

    def _learn_tool(self, tool: Any) -> bool:
        """Take note of a tool's annotations; tell whether it may stay."""
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            return True
        try:
            headers = find_param_headers(tool.get("inputSchema"))
        except InvalidMessage as error:
            self._forget_tool(name)
            self._on_dropped(name, str(error))
            return False
        if headers and self._known.get(name) == headers:
            return True  # another thread may be calling it
        self._forget_tool(name)
        if headers:
            self._known[name] = headers
            self._count += len(headers)
            self._make_room()
        return True

    def _forget_tool(self, name: str) -> None:
        known = self._known.pop(name, ())
        self._count -= len(known)

    def _make_room(self) -> None:
        """Forget the tools that were learnt first, where there are too many."""
        while self._count > _HEADERS_MAX:
            self._count -= len(self._known.pop(next(iter(self._known))))


def _name_in(method: str, params: Mapping[str, Any] | None) -> str | None:
    """Return what a request is about, for the methods that mirror it."""
    member = _MEMBERS.get(method)
    name = params.get(member) if member is not None and params else None
    return name if isinstance(name, str) else None


LONGEST_ENDPOINT: Final = 8_000
"""As much as any server must take in a request line (RFC 9110, 4.1), and no more: it is
sent with every message."""


def resolve_endpoint(stream: Url, data: bytes) -> Url:
    """Return the URL that an ``endpoint`` event names.

    Args:
        stream: Where the event stream came from.
        data: The event's data: a path, relative or not, or a URL of the same origin.

    Raises:
        RemoteProtocolError: It names another origin, or it is nothing that every
            reader of URLs reads alike; says which, without its secrets.
    """
    text = data[: LONGEST_ENDPOINT + 1].decode("utf-8", "replace")
    if not text or len(data) > LONGEST_ENDPOINT:
        raise _refused(text, f"it must be 1 to {LONGEST_ENDPOINT} bytes long")
    if text.startswith("//"):
        raise _refused(text, "it must not begin with the name of a host")
    try:
        url = resolve_url(stream, text)
    except ValueError as error:
        # The reason stands behind the masked text, which is shown already.
        raise _refused(text, str(error).rpartition("': ")[2]) from error
    if not same_origin(stream, url):
        raise _refused(text, f"it must be of the same origin, {stream.origin}")
    return url


def _refused(text: str, reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"the server's endpoint '{mask_url(text)}' is refused: {reason}"
    )
