"""Server side validation of a POST: the order of the checks, and the error of each one.

::

    Host, Origin          403          OriginPolicy
    credentials           401, 403     the resource server
    path, HTTP method     404, 405     the application
    formats               415, 406     check_formats
    size and duration     413, 408     while reading
    JSON                  400 -32700   read_json
    JSON-RPC              400 -32600   read_message
    era                                is_stateless
    head                  400 -32020   check_head
    _meta                 400 -32602   check_head, the dispatcher
    version               400 -32022   the dispatcher
    method                404 -32601   the dispatcher
    mirrored headers      400 -32020   check_mirrored
    capabilities          400 -32021   handlers
    all other errors      200          handlers

The specification defines the errors, but no order; the official suite sends requests
with two faults (a version in the head without `_meta` must get the `_meta` error).

A web page can make the browser send requests to servers on the same machine, also under
a domain of the page that resolves to the machine ("DNS rebinding"). `Host` contains the
domain, `Origin` the page (2026-07-28 streamable-http, "Security Endpoint").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import (
    HeaderMismatch,
    InvalidMessage,
    InvalidParams,
    InvalidRequest,
    MessageTooLarge,
    MethodNotFound,
    MissingCapability,
    ParseError,
    RPCError,
    UnsupportedVersion,
)
from mcpwire.protocol.http_headers import NAME_MEMBERS
from mcpwire.types._base import PROTOCOL_VERSION
from mcpwire.versions import Era, find_revision
from mcpwire.wire import headers as names
from mcpwire.wire.json import (
    LARGE,
    Json,
    JSONDecodeError,
    check_values,
    loads,
    peek_members,
)
from mcpwire.wire.jsonrpc import is_request_id, parse_message
from mcpwire.wire.urls import is_loopback, parse_url, plain_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import Message, RequestId
    from mcpwire.wire.urls import Url

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

_VERSION: Final = names.PROTOCOL_VERSION.lower()
_METHOD: Final = names.METHOD.lower()

_MAX_SHOWN: Final = 100
"""Maximum characters of a peer's text in an error message."""

_BAD_REQUEST_CODES: Final = frozenset(
    error.default_code
    for error in (HeaderMismatch, MissingCapability, UnsupportedVersion)
)
"""The codes of errors with the status 400 even if a handler raised them."""


class HeaderFields(Protocol):
    """The header fields of a request, with names in lower case."""

    def get(self, name: str) -> str | None:
        """Return the value of a field without surrounding whitespace, or ``None``."""

    def repeats(self, name: str) -> bool:
        """Return whether a field occurs more than once."""


class UnreadableMessage(Exception):
    """The body is not a JSON-RPC message."""

    def __init__(self, error: RPCError, id: RequestId | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.id = id


# --- formats: RFC 9110, 8.3 (Content-Type) and 12.5.1 (Accept)


def check_formats(
    content_type: str | None,
    content_encoding: str | None,
    accept: str | None,
    *,
    is_json_only: bool,
) -> tuple[int, str] | None:
    """Return status and reason if the formats of a POST are refused, or ``None``.

    This also refuses HTML forms, which a page can send without a preflight request:
    their Content-Type is not JSON.
    """
    if not is_json(content_type):
        return 415, f"the Content-Type must be {JSON}, in UTF-8"
    if content_encoding not in {None, "identity"}:
        return 415, "the body must not be compressed"
    # 2026-07-28 streamable-http, "Sending Messages": the client MUST list both.
    kinds = (JSON,) if is_json_only else (JSON, EVENT_STREAM)
    if not accepts(accept, *kinds):
        return 406, f"the Accept must allow {' and '.join(kinds)}"
    return None


def is_json(content_type: str | None) -> bool:
    """Return whether a Content-Type is JSON in UTF-8."""
    kind, parameters = _parse_media_type(content_type or "")
    return kind == JSON and parameters.get("charset", "utf-8").lower() in {
        "utf-8",
        "utf8",
    }


def accepts(accept: str | None, *kinds: str) -> bool:
    """Return whether an Accept allows each of the media types; ``None`` allows all."""
    if accept is None:
        return True
    weights: dict[str, float] = {}
    for part in accept.split(","):
        name, parameters = _parse_media_type(part)
        weights[name] = max(weights.get(name, 0.0), _weight(parameters))
    return all(_allows(weights, kind) for kind in kinds)


def _allows(weights: Mapping[str, float], kind: str) -> bool:
    # The weight of the most specific range counts.
    ranges = (kind, kind.partition("/")[0] + "/*", "*/*")
    return next((weights[name] for name in ranges if name in weights), 0.0) > 0


def _weight(parameters: Mapping[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0


def _parse_media_type(text: str) -> tuple[str, dict[str, str]]:
    """Return a media type or range in lower case, and its parameters."""
    # The parameters in use contain no quoted semicolons.
    kind, *parts = text.split(";")
    parameters = {}
    for part in parts:
        name, _, value = part.partition("=")
        parameters[name.strip().lower()] = value.strip().strip('"')
    return kind.strip().lower(), parameters


# --- the message


def read_json(body: bytes, max_values: int) -> Json:
    """Parse a JSON body of at most `max_values`, or raise `UnreadableMessage`."""
    try:
        if body[LARGE]:
            check_values(body, max_values)
        return loads(body)
    except JSONDecodeError as error:
        raise UnreadableMessage(ParseError("the body is not JSON")) from error
    except MessageTooLarge as error:
        id = read_request_id(peek_members(body))
        raise UnreadableMessage(InvalidRequest(str(error)), id) from error


def read_message(value: Json) -> Message:
    """Return the message of a decoded body, or raise `UnreadableMessage`."""
    try:
        return parse_message(value)
    except InvalidMessage as error:
        # 2026-07-28 basic, "Error Responses": with the id, if it is readable.
        raise UnreadableMessage(
            InvalidRequest(str(error)), read_request_id(value)
        ) from error


def read_request_id(value: Json) -> RequestId | None:
    """Return the id of the request in a decoded body, or ``None``."""
    id = value.get("id") if type(value) is dict and "method" in value else None
    return id if is_request_id(id) else None


def is_stateless(fields: HeaderFields, supported: Sequence[Revision]) -> bool:
    """Return whether the head shows that a message belongs to the stateless era.

    The head has such a version, or the server supports no revision of another era.
    `supported`, the supported revisions, are ordered by age.
    """
    # The first and last suffice: eras do not interleave, and hashing enums is slow.
    eras = (supported[0].era, supported[-1].era)
    if Era.STATELESS not in eras:
        return False
    revision = find_revision(fields.get(_VERSION))
    is_named = revision is not None and revision.era is Era.STATELESS
    return is_named or Era.SESSION not in eras


# --- the head against the body


def check_head(
    fields: HeaderFields, method: str, params: Mapping[str, Any] | None
) -> None:
    """Check that version and method in the head equal those in the body.

    2026-07-28 streamable-http, "Server Validation".
    """
    version = fields.get(_VERSION)
    if version is None:
        raise HeaderMismatch(f"the header {names.PROTOCOL_VERSION} is missing")
    header_method = fields.get(_METHOD)
    if header_method is None:
        raise HeaderMismatch(f"the header {names.METHOD} is missing")
    if (
        header_method != method
    ):  # a repeated field is joined by commas, so it differs, too
        raise _mismatch(names.METHOD, header_method, method)
    meta = params.get("_meta") if params is not None else None
    body_version = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
    if type(body_version) is not str:
        raise InvalidParams(f"params._meta needs {PROTOCOL_VERSION}, a string")
    if version != body_version:
        raise _mismatch(names.PROTOCOL_VERSION, version, body_version)


def check_mirrored(
    fields: HeaderFields,
    method: str,
    params: Mapping[str, Any],
    headers: Iterable[ParamHeader] = (),
) -> None:
    """Check that the other mirrored headers, for name or URI and arguments, match."""
    member = NAME_MEMBERS.get(method)
    if member is not None:
        _check_header(fields, names.NAME, params.get(member))
    for header in headers:
        _check_header(fields, header.name, header.value_in(params.get("arguments")))


def _check_header(fields: HeaderFields, name: str, body: Json) -> None:
    key = name.lower()
    value = fields.get(key)
    if fields.repeats(key):
        # The joined values may equal the value in the body although none of them does.
        raise HeaderMismatch(f"the header {name} is repeated")
    try:
        is_same = names.header_matches(value, body, header=name)
    except InvalidMessage as error:
        raise HeaderMismatch(str(error)) from error
    if not is_same:
        raise _mismatch(name, value, body)


def _mismatch(name: str, value: str | None, body: Json) -> HeaderMismatch:
    if value is None:
        return HeaderMismatch(f"the header {name} is missing")
    shown_header = _excerpt(value)
    if body is None:
        return HeaderMismatch(
            f"the header {name} is {shown_header}, the body has no such value"
        )
    shown_body = _excerpt(body) if isinstance(body, str) else "something else"
    return HeaderMismatch(
        f"the header {name} is {shown_header}, the body has {shown_body}"
    )


def http_status(error: RPCError, *, is_admitted: bool) -> int:
    """Return the HTTP status for an error with a JSON body."""
    # 2026-07-28 defines a status for its own errors; all other errors of a handler are
    # ordinary responses.
    if is_admitted:
        return 400 if error.code in _BAD_REQUEST_CODES else 200
    return 404 if error.code == MethodNotFound.default_code else 400


# --- Host and Origin


class OriginPolicy:
    """Allows or refuses requests by their Host and Origin.

    Args:
        hosts: Names of the server: ``example.com`` with any port, ``example.com:8000``
            with this port, ``*.example.com``, ``*``. By default the loopback names, and
            the address on which the server listens.
        origins: Origins that may send requests: ``https://example.com``, with any port
            ``https://example.com:*``, ``null``, ``*``. By default loopback origins to
            loopback hosts, and the origin of the requested host.

    Raises:
        ValueError: A host or origin is malformed.
    """

    def __init__(
        self, hosts: Iterable[str] | None = None, origins: Iterable[str] | None = None
    ) -> None:
        self._hosts = None if hosts is None else frozenset(map(_host_pattern, hosts))
        self._origins = (
            None if origins is None else frozenset(map(_origin_pattern, origins))
        )

    def refusal(
        self, host: str | None, origin: str | None, listen_host: str | None = None
    ) -> str | None:
        """Return why a request is refused, or ``None``."""
        if not self._allows_host(host, listen_host):
            shown = "is missing" if host is None else f"{_excerpt(host)} is not allowed"
            return f"the Host {shown}; it must be in allowed_hosts of the server"
        if origin is not None and not self._allows_origin(origin, host):
            return (
                f"the Origin {_excerpt(origin)} is not allowed; add the origin to "
                "allowed_origins of the server"
            )
        return None

    def _allows_host(self, host: str | None, listen_host: str | None) -> bool:
        if self._hosts is not None and ("*", None) in self._hosts:
            return True
        if host is None or (requested := _parse_origin(f"http://{host}")) is None:
            return False
        if self._hosts is None:
            return is_loopback(requested.host) or (
                plain_address(requested.host) == plain_address(listen_host or "")
            )
        labels = requested.host.split(".")
        parents = {(f"*.{'.'.join(labels[n:])}", None) for n in range(1, len(labels))}
        # The scheme is not known here: without a port, the port of either one matches.
        is_named = host.rpartition("]")[2].partition(":")[2] != ""
        ports = (None, requested.port) if is_named else (None, 80, 443)
        matching = {*((requested.host, port) for port in ports), *parents}
        return not matching.isdisjoint(self._hosts)

    def _allows_origin(self, origin: str, host: str | None) -> bool:
        allowed = self._origins
        if allowed is not None and ("*" in allowed or origin == "null" in allowed):
            return True
        page = _parse_origin(origin)
        if page is None:
            return False
        if allowed is not None:
            return page.origin in allowed or f"{page.scheme}://{page.host}:*" in allowed
        requested = _parse_origin(f"{page.scheme}://{host}")
        if requested is None:
            return False
        if is_loopback(requested.host) and is_loopback(page.host):
            return True
        return (page.host, page.port) == (requested.host, requested.port)


def _host_pattern(pattern: str) -> tuple[str, int | None]:
    """Return the host, ``*.domain`` or ``*``, and the port or ``None`` for any."""
    if pattern == "*":
        return pattern, None
    text = pattern.removeprefix("*.").removesuffix(":*")
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"  # IPv6 without brackets
    url = _parse_origin(f"http://{text}")
    if url is None:
        raise ValueError(f"not a host name or address: {pattern!r}")
    if pattern.startswith("*."):
        return f"*.{url.host}", None
    return url.host, url.port if text.endswith(f":{url.port}") else None


def _origin_pattern(pattern: str) -> str:
    """Return an origin in the normalised form that `OriginPolicy` compares."""
    if pattern in {"*", "null"}:  # browsers send null for an opaque origin
        return pattern
    url = _parse_origin(pattern.removesuffix(":*"))
    if url is None:
        raise ValueError(f"not an origin: {pattern!r}")
    return f"{url.scheme}://{url.host}:*" if pattern.endswith(":*") else url.origin


def _parse_origin(text: str) -> Url | None:
    """Parse a text that consists of scheme, host and port only."""
    if text.count("/") != 2 or "?" in text or "#" in text:
        return None
    try:
        return parse_url(text)
    except ValueError:
        return None


def _excerpt(value: str) -> str:
    return repr(value[:_MAX_SHOWN])
