"""The heads of our HTTP requests: request line and header fields as bytes.

`RequestHeaders` composes them for one target and session. `MirroredHeaders` adds the
headers that repeat parts of the body in the stateless era (2026-07-28 streamable-http,
"Standard Request Headers" and "Custom Headers from Tool Parameters"), so that
intermediaries can route without parsing the body. The output contains no control
characters except the CRLF at line ends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire._package import __version__
from mcpwire.errors import (
    InvalidMessage,
    LocalProtocolError,
    RemoteProtocolError,
    excerpt,
)
from mcpwire.protocol.json_schema import MAX_DEPTH, children
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
    is_token,
)
from mcpwire.wire.urls import mask_url, resolve_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcpwire.versions import Revision
    from mcpwire.wire.json import Json
    from mcpwire.wire.urls import Url

USER_AGENT: Final = f"mcpwire/{__version__}"

# RFC 9110, 5.5, without the tab, which is a control character.
_VALUE: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_TARGET: Final = re.compile(r"/[!\"$-~]*")  # without a fragment

_VERSION: Final = PROTOCOL_VERSION.lower()
_SESSION: Final = SESSION_ID.lower()
_METHOD: Final = METHOD.lower()

# 2025-11-25 basic/transports, "Sending Messages to the Server": both types.
POST_FIELDS: Final = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}

# Users cannot set these: they would break HTTP framing or contradict MCP.
_RESERVED: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length"}
    | {"content-type", "expect", "host", "keep-alive", "proxy-connection", "te"}
    | {"trailer", "transfer-encoding", "upgrade", LAST_EVENT_ID.lower()}
    | {_METHOD, NAME.lower(), _SESSION, _VERSION}
)


def check_headers(
    headers: Mapping[str, str], what: str = "headers"
) -> tuple[tuple[str, str], ...]:
    """Validate a user's headers; return pairs with unique names in lower case.

    The last of several names that differ only in case wins. `what` names the headers in
    error messages, which never contain a value.
    """
    if not isinstance(headers, Mapping):
        raise LocalProtocolError(
            f"{what} must be a mapping of names to values, got {type(headers).__name__}"
        )
    items: Mapping[Any, Any] = headers
    checked = {}
    for name, value in items.items():
        if not isinstance(name, str) or not is_token(name):
            # The name may be a whole header line by mistake: do not show its value.
            name_shown = type(name).__name__
            if isinstance(name, str):
                name_shown = repr(name.partition(":")[0][:40])
            raise LocalProtocolError(f"{what}: {name_shown} cannot be a header's name")
        lower = name.lower()
        if lower in _RESERVED or lower.startswith(PARAM_PREFIX.lower()):
            raise LocalProtocolError(
                f"{what}: mcpwire sets {name!r}; it must not be given"
            )
        if not isinstance(value, str):
            raise LocalProtocolError(
                f"{what}: the value of {name!r} must be str, got {type(value).__name__}"
            )
        _check_value(name, value, what)
        checked[lower] = value
    return tuple(checked.items())


def _check_value(name: str, value: str, what: str) -> None:
    if _VALUE.fullmatch(value) is None:
        raise LocalProtocolError(
            f"{what}: the value of {name!r} must be visible ASCII, "
            "with spaces only inside"
        )


def field_line(name: str, value: str) -> bytes:
    """Return a field line as bytes; the caller gives the name in lower case."""
    if not is_token(name):
        raise LocalProtocolError(f"{name[:40]!r} cannot be a header's name")
    _check_value(name, value, "headers")
    return f"{name}: {value}\r\n".encode("ascii")


class RequestHeaders:
    """The headers of the requests to one target and session.

    `user_headers` are for all requests, `extra` are additional fields of one
    request. A later field replaces an earlier one of the same name, regardless of case.
    Every method raises `LocalProtocolError` for an invalid field.
    """

    def __init__(self, url: Url, user_headers: Mapping[str, str] | None = None) -> None:
        if _TARGET.fullmatch(url.target) is None:
            raise LocalProtocolError("a request's target must be a path and query")
        self._url = url
        self._user_headers = dict(check_headers(user_headers or {}))
        self.session_id: str | None = None
        self.revision: Revision | None = None
        self._post = b""
        self._post_key: tuple[str | None, Revision | None] | None = None

    def with_target(self, target: str) -> RequestHeaders:
        """Return the same headers for another path and query of the same origin."""
        path, mark, query = target.partition("?")
        url = attrs.evolve(self._url, path=path, query=query if mark else None)
        headers = RequestHeaders(url, self._user_headers)
        headers.session_id = self.session_id
        headers.revision = self.revision
        return headers

    def post(
        self, extra: Iterable[tuple[str, str]] = (), *, version: str | None = None
    ) -> bytes:
        """Return the head of a POST; `version` is for a POST before the agreement."""
        if version is not None:
            extra = (*extra, (PROTOCOL_VERSION, version))
        if extra:
            return self._compose("POST", POST_FIELDS, extra)
        key = self.session_id, self.revision
        if self._post_key != key:  # composing them costs 15 % of a call
            self._post, self._post_key = self._compose("POST", POST_FIELDS, ()), key
        return self._post

    def get(
        self, last_event_id: str | None = None, extra: Iterable[tuple[str, str]] = ()
    ) -> bytes:
        """Return the head of a GET that opens or resumes an event stream."""
        head = self._compose("GET", {"accept": "text/event-stream"}, extra)
        if not last_event_id:
            return head
        if not can_resume_from(last_event_id):
            raise LocalProtocolError("the event id cannot travel in a header")
        # 2025-11-25 basic/transports, "Resumability and Redelivery".
        return b"%slast-event-id: %s\r\n" % (head, last_event_id.strip(" ").encode())

    def delete(self, extra: Iterable[tuple[str, str]] = ()) -> bytes:
        """Return the head of the DELETE that ends the session."""
        return self._compose("DELETE", {}, extra)

    def _compose(
        self,
        method: str,
        method_fields: dict[str, str],
        extra: Iterable[tuple[str, str]],
    ) -> bytes:
        fields = {
            "host": self._url.authority,
            "user-agent": USER_AGENT,
            # Messages are small: compression costs more than it saves.
            "accept-encoding": "identity",
            **self._user_headers,
        }
        if self.revision is not None:
            fields[_VERSION] = self.revision.name
        if self.session_id is not None:
            fields[_SESSION] = self.session_id
        fields |= method_fields
        fields |= {name.lower(): value for name, value in extra}
        lines = b"".join(field_line(name, value) for name, value in fields.items())
        return f"{method} {self._url.target} HTTP/1.1\r\n".encode("ascii") + lines


# Mirrored arguments of tools

_ANNOTATION: Final = "x-mcp-header"
_MIRRORED_TYPES: Final = ("string", "integer", "boolean")
_MAX_TOOL_HEADERS: Final = 256  # servers accept fewer headers
_MAX_HEADERS: Final = 16_384
_SAFE_INTEGER: Final = 2**53 - 1  # the largest exact integer in JavaScript


@attrs.frozen
class ParamHeader:
    """An argument of a tool that is mirrored into a header."""

    name: str
    """The whole name of the header."""

    path: tuple[str, ...]
    """The path of the argument: one property name per level."""

    def value_in(self, arguments: Json) -> Json:
        """Return the value of the argument; ``None`` if absent or null."""
        for name in self.path:
            arguments = arguments.get(name) if isinstance(arguments, dict) else None
        return arguments


def find_param_headers(input_schema: Json) -> tuple[ParamHeader, ...]:
    """Return the mirrored arguments of a tool in the order of the schema.

    Only properties on a path of ``properties`` keywords can be mirrored; their type
    must be string, integer or boolean, or a list of these and null (our
    interpretation). Schemas deeper than `MAX_DEPTH` are ignored.
    """
    headers: dict[str, ParamHeader] = {}
    if isinstance(input_schema, dict):
        for schema, place, path in _annotated_schemas(
            input_schema, ("inputSchema",), ()
        ):
            header = _read_annotation(schema, place, path)
            if header.name.lower() in headers:
                raise _invalid_annotation(place, "unique name", schema[_ANNOTATION])
            if len(headers) == _MAX_TOOL_HEADERS:
                raise _invalid_annotation(
                    place, f"at most {_MAX_TOOL_HEADERS} of them", "more"
                )
            headers[header.name.lower()] = header
    return tuple(headers.values())


def _annotated_schemas(
    schema: dict[str, Any], place: tuple[str, ...], path: tuple[str, ...] | None
) -> Iterator[tuple[dict[str, Any], tuple[str, ...], tuple[str, ...] | None]]:
    """Yield each annotated schema, its place, and its path through ``properties``."""
    if _ANNOTATION in schema:
        yield schema, place, path
    if len(place) > MAX_DEPTH:
        return
    for keyword, name, inner in children(schema):
        if isinstance(inner, dict):
            step = keyword if name is None else f"{keyword}.{str(name)[:40]}"
            base_path = None if path is None or keyword != "properties" else path
            inner_path = None if base_path is None else (*base_path, str(name))
            yield from _annotated_schemas(inner, (*place, step), inner_path)


def _read_annotation(
    schema: dict[str, Any], place: tuple[str, ...], path: tuple[str, ...] | None
) -> ParamHeader:
    name, kinds = schema[_ANNOTATION], schema.get("type")
    if not isinstance(name, str) or not is_token(name):
        raise _invalid_annotation(place, "RFC 9110 token", name)
    if not path:
        raise _invalid_annotation(
            place, "no annotation outside a chain of properties", name
        )
    types = kinds if type(kinds) is list else [kinds]
    types = [kind for kind in types if kind != "null"] or [None]
    if any(kind not in _MIRRORED_TYPES for kind in types):
        raise _invalid_annotation(place, "type string, integer or boolean", kinds)
    return ParamHeader(PARAM_PREFIX + name, path)


def _invalid_annotation(
    place: tuple[str, ...], expected: str, got: Json
) -> InvalidMessage:
    path = f"{'.'.join(place)[:400]}.{_ANNOTATION}"
    return InvalidMessage(path, expected=expected, got=excerpt(got))


def mirror_params(
    headers: Iterable[ParamHeader], arguments: Mapping[str, Json]
) -> list[tuple[str, str]]:
    """Return the names and encoded values of the headers for a call's arguments."""
    mirrored = []
    for header in headers:
        value = header.value_in(arguments)
        if value is not None:
            mirrored.append((header.name, encode_value(_as_text(value, header))))
    return mirrored


def _as_text(value: Json, header: ParamHeader) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    # In JSON Schema, 42.0 is an integer.
    is_integer = isinstance(value, int) or (
        isinstance(value, float) and value.is_integer()
    )
    if is_integer and -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
        return str(int(value))
    raise LocalProtocolError(
        f"argument {'.'.join(header.path)} is mirrored into {header.name}: it must be "
        "a string, a boolean or an integer within 2**53 - 1, "
        f"got {type(value).__name__}"
    )


# Mirrored headers of the stateless era

NAME_MEMBERS: Final = {spec.name: spec.mirrored for spec in METHODS if spec.mirrored}
"""Method -> the member of its params that `Mcp-Name` repeats."""

_METHOD_LINES: Final = {spec.name: field_line(_METHOD, spec.name) for spec in METHODS}


class MirroredHeaders:
    """The headers of requests to one server that repeat parts of their bodies."""

    def __init__(self, on_dropped: Callable[[str, str], object]) -> None:
        self._on_dropped = on_dropped
        self._headers_by_tool: dict[str, tuple[ParamHeader, ...]] = {}
        self._header_count = 0

    def lines(self, method: str, params: Mapping[str, Any] | None) -> bytes:
        """Return the field lines of the mirrored headers of a message.

        A missing or malformed name has no header: the server reports the error. The
        arguments of an unlisted tool are not mirrored: if the server refuses the call,
        the tools are listed.
        """
        lines = _METHOD_LINES.get(method) or field_line(_METHOD, method)
        member = NAME_MEMBERS.get(method)
        name = params.get(member) if member is not None and params else None
        if params is None or not isinstance(name, str):
            return lines
        # The method needs no encoding (2026-07-28, "Value Encoding").
        lines += f"mcp-name: {encode_value(name)}\r\n".encode("ascii")
        headers = self._headers_by_tool.get(name) if method == "tools/call" else None
        if headers and isinstance(arguments := params.get("arguments"), dict):
            for header, value in mirror_params(headers, arguments):
                lines += field_line(header.lower(), value)
        return lines

    def add_tools(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a `tools/list` result without the tools with invalid annotations.

        Entries that are not tools are kept, because the decoder reports them better.
        """
        tools = result.get("tools")
        if not isinstance(tools, list):
            return result
        valid = [tool for tool in tools if self._add_tool(tool)]
        return result if len(valid) == len(tools) else {**result, "tools": valid}

    def _add_tool(self, tool: Any) -> bool:
        """Store a tool's annotations; return whether the tool may stay."""
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            return True
        self._header_count -= len(self._headers_by_tool.pop(name, ()))
        try:
            headers = find_param_headers(tool.get("inputSchema"))
        except InvalidMessage as error:
            self._on_dropped(name, str(error))
            return False
        if headers:
            self._headers_by_tool[name] = headers
            self._header_count += len(headers)
        while self._header_count > _MAX_HEADERS:  # remove the oldest
            self._header_count -= len(
                self._headers_by_tool.pop(next(iter(self._headers_by_tool)))
            )
        return True


# The endpoint of HTTP+SSE

MAX_ENDPOINT_BYTES: Final = 8_000
"""The length of URIs that all servers should support (RFC 9110, 4.1)."""


def resolve_endpoint(stream: Url, data: bytes) -> Url:
    """Return the URL in the ``endpoint`` event of a stream.

    2024-11-05 basic/transports, "HTTP with SSE". Every POST to it contains our
    credentials, so its origin must be the origin of the stream.
    """
    text = data[: MAX_ENDPOINT_BYTES + 1].decode("utf-8", "replace")
    reason, url = "", None
    if not text or len(data) > MAX_ENDPOINT_BYTES:
        reason = f"it must be 1 to {MAX_ENDPOINT_BYTES} bytes long"
    elif text.startswith("//"):
        reason = "it must not begin with the name of a host"
    else:
        try:
            url = resolve_url(stream, text)
        except ValueError as error:
            # Drop the masked URL from the message: it is part of the error below.
            reason = str(error).rpartition("': ")[2]
    if url is not None and same_origin(stream, url):
        return url
    reason = reason or f"it must be of the same origin, {stream.origin}"
    raise RemoteProtocolError(
        f"the server's endpoint '{mask_url(text)}' is refused: {reason}"
    )
