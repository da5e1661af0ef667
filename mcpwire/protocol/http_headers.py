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
from mcpwire.protocol.retry import can_resume_from
from mcpwire.wire.headers import (
    LAST_EVENT_ID,
    METHOD,
    NAME,
    PARAM_PREFIX,
    PROTOCOL_VERSION,
    SESSION_ID,
    encode_value,
    find_param_headers,
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
    "check_headers",
    "field_line",
    "resolve_endpoint",
]

USER_AGENT: Final = f"mcpwire/{__version__}"

# RFC 9110, 5.5, without the tab it allows: it is a control character all the same.
_VALUE: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_TARGET: Final = re.compile(r"/[!\"$-~]*")  # a fragment is no part of a request

_VERSION: Final = PROTOCOL_VERSION.lower()
_SESSION: Final = SESSION_ID.lower()
_METHOD: Final = METHOD.lower()
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
        _METHOD,
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
        if _VALUE.fullmatch(value) is None:
            raise _bad_value(name, what)
        checked[lower] = value
    return tuple(checked.items())


def _bad_value(name: str, what: str) -> LocalProtocolError:
    return LocalProtocolError(
        f"{what}: the value of {name!r} must be visible ASCII, with spaces only inside"
    )


def field_line(name: str, value: str) -> bytes:
    """Return one field line; the name is in lower case."""
    if not is_token(name):
        raise LocalProtocolError(f"{name[:40]!r} cannot be a header's name")
    if _VALUE.fullmatch(value) is None:
        raise _bad_value(name, "headers")
    return f"{name}: {value}\r\n".encode("ascii")


class Heads:
    """The heads of the requests to one target and session.

    `own` are the user's headers for all requests, `extra` are further fields of one
    request. A later field takes the place of an earlier one of the same name, in
    whatever case. Every method raises `LocalProtocolError` for what cannot be a field.
    """

    def __init__(self, url: Url, own: Mapping[str, str] | None = None) -> None:
        if _TARGET.fullmatch(url.target) is None:
            raise LocalProtocolError("a request's target must be a path and query")
        self._url = url
        self._own = dict(check_headers(own or {}))
        self.session_id: str | None = None
        self.revision: Revision | None = None
        self._post = b""
        self._post_of: tuple[str | None, Revision | None] | None = None

    def with_target(self, target: str) -> Heads:
        """Return the same heads for another path and query of the same origin."""
        path, mark, query = target.partition("?")
        url = attrs.evolve(self._url, path=path, query=query if mark else None)
        heads = Heads(url, self._own)
        heads.session_id = self.session_id
        heads.revision = self.revision
        return heads

    def post(
        self, extra: Iterable[tuple[str, str]] = (), *, version: str | None = None
    ) -> bytes:
        """Return the head of a POST that carries one message.

        `version` is for a request before the agreement that names its revision all the
        same, as each one of the stateless era does.
        """
        if version is not None:
            extra = (*extra, (PROTOCOL_VERSION, version))
        # 2025-11-25 basic/transports, "Sending Messages to the Server": both types.
        both = "application/json, text/event-stream"
        more = {"content-type": "application/json", "accept": both}
        if extra:
            return self._compose("POST", more, extra)
        made_of = self.session_id, self.revision
        if self._post_of != made_of:  # else the same fields: 15 % of a call
            self._post, self._post_of = self._compose("POST", more, ()), made_of
        return self._post

    def get(
        self, last_event_id: str | None = None, extra: Iterable[tuple[str, str]] = ()
    ) -> bytes:
        """Return the head of a GET that opens an event stream, or resumes one."""
        start = self._compose("GET", {"accept": "text/event-stream"}, extra)
        if not last_event_id:
            return start
        if not can_resume_from(last_event_id):
            raise LocalProtocolError("the event id cannot travel in a header")
        # 2025-11-25 basic/transports, "Resumability and Redelivery".
        return b"%slast-event-id: %s\r\n" % (start, last_event_id.strip(" ").encode())

    def delete(self, extra: Iterable[tuple[str, str]] = ()) -> bytes:
        """Return the head of the DELETE that ends the session."""
        return self._compose("DELETE", {}, extra)

    def _compose(
        self, verb: str, more: dict[str, str], extra: Iterable[tuple[str, str]]
    ) -> bytes:
        fields = {
            "host": self._url.authority,
            "user-agent": USER_AGENT,
            # A handful of bytes: compressing them costs more than it saves.
            "accept-encoding": "identity",
            **self._own,
        }
        if self.revision is not None:
            fields[_VERSION] = self.revision.name
        if self.session_id is not None:
            fields[_SESSION] = self.session_id
        fields |= more
        fields |= {name.lower(): value for name, value in extra}
        lines = b"".join(field_line(name, value) for name, value in fields.items())
        return f"{verb} {self._url.target} HTTP/1.1\r\n".encode("ascii") + lines


# What the stateless era mirrors...

_MEMBERS: Final = {spec.name: spec.mirrored for spec in METHODS if spec.mirrored}
"""Method -> the member of its params that `Mcp-Name` repeats."""

_METHOD_LINES: Final = {spec.name: field_line(_METHOD, spec.name) for spec in METHODS}

_HEADERS_MAX: Final = 16_384  # of all tools together


class Mirror:
    """The fields that requests to one server repeat from their bodies.

    `learn` takes lists of tools; the newest list counts. `on_dropped` is called with
    the name of each tool that a list loses, and why.
    """

    def __init__(self, on_dropped: Callable[[str, str], object]) -> None:
        self._on_dropped = on_dropped
        self._known: dict[str, tuple[ParamHeader, ...]] = {}
        self._count = 0

    def lines(self, method: str, params: Mapping[str, Any] | None) -> bytes:
        """Return the mirrored fields of a message, as lines to put behind its head.

        A name that is missing or is no text has no field: what is wrong with such a
        request is for the server to say. Of a tool that no list has shown, no argument
        is mirrored: the server refuses the call, and the list is asked for.

        Raises:
            LocalProtocolError: The method, the name or an argument has no header form.
        """
        lines = _METHOD_LINES.get(method) or field_line(_METHOD, method)
        member = _MEMBERS.get(method)
        if member is None or not params:
            return lines
        name = params.get(member)
        if not isinstance(name, str):
            return lines
        # Only names have the encoded form (2026-07-28, "Value Encoding").
        lines += f"mcp-name: {encode_value(name)}\r\n".encode("ascii")
        headers = self._known.get(name) if method == "tools/call" else None
        arguments = params.get("arguments")
        if headers and isinstance(arguments, dict):
            for header, value in mirror_params(headers, arguments):
                lines += field_line(header.lower(), value)
        return lines

    def learn(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a `tools/list` result without the tools with invalid annotations.

        What is no tool at all stays: the decoder says better what is wrong with it.
        """
        tools = result.get("tools")
        if not isinstance(tools, list):
            return result
        kept = [tool for tool in tools if self._learn_tool(tool)]
        return result if len(kept) == len(tools) else {**result, "tools": kept}

    def _learn_tool(self, tool: Any) -> bool:
        """Store a tool's annotations; return whether the tool may stay."""
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            return True
        self._count -= len(self._known.pop(name, ()))
        try:
            headers = find_param_headers(tool.get("inputSchema"))
        except InvalidMessage as error:
            self._on_dropped(name, str(error))
            return False
        if headers:
            self._known[name] = headers
            self._count += len(headers)
        while self._count > _HEADERS_MAX:  # those that were learnt first go
            self._count -= len(self._known.pop(next(iter(self._known))))
        return True


# The endpoint of HTTP+SSE...

LONGEST_ENDPOINT: Final = 8_000
"""As much as any server must take in a request line (RFC 9110, 4.1), and no more: it is
sent with every message."""


def resolve_endpoint(stream: Url, data: bytes) -> Url:
    """Return the URL that the ``endpoint`` event of a stream names.

    2024-11-05 basic/transports, "HTTP with SSE". It gets our credentials with every
    message, so another origin than that of the stream is refused.

    Raises:
        RemoteProtocolError: It is refused; says why, without its secrets.
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
