"""What of a POST is looked at, in which order, and what each fault is answered with.

::

    Host, Origin          403          origin
    who asks              401, 403     the resource server
    path, verb            404, 405     VERBS
    formats               415, 406     check_formats
    size and pace         413, 408     while reading
    JSON                  400 -32700   read_json
    JSON-RPC              400 -32600   read_message
    the era                            stands_alone
    its head              400 -32020   check_head
    its _meta             400 -32602   check_head, the dispatcher
    its version           400 -32022   the dispatcher
    its method            404 -32601   the dispatcher
    what its head repeats 400 -32020   check_mirrored
    capabilities          400 -32021   handlers
    everything else       200          handlers

The specification gives the faults, and no order; the official suite sends requests with
two of them (no `_meta` beside a version in the head is the fault of `_meta`).
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
from mcpwire.protocol.methods import METHODS
from mcpwire.types.meta import PROTOCOL_VERSION
from mcpwire.versions import Era, find_revision
from mcpwire.wire import headers as names
from mcpwire.wire.json import (
    LARGE,
    Json,
    JSONDecodeError,
    check_values,
    loads,
    outline,
)
from mcpwire.wire.jsonrpc import is_request_id, parse_message
from mcpwire.wire.urls import is_loopback, parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.versions import Revision
    from mcpwire.wire.headers import ParamHeader
    from mcpwire.wire.jsonrpc import Message, RequestId
    from mcpwire.wire.urls import Url


__all__ = [
    "ANY",
    "EVENT_STREAM",
    "JSON",
    "METHOD_HEADER",
    "VERSION_HEADER",
    "HeaderFields",
    "OriginPolicy",
    "UnreadableMessage",
    "accepts",
    "check_formats",
    "check_head",
    "check_mirrored",
    "head_agrees",
    "http_status",
    "is_json",
    "is_stateless",
    "read_json",
    "read_message",
]


# === request_validation


VERSION_HEADER: Final = names.PROTOCOL_VERSION.lower()
METHOD_HEADER: Final = names.METHOD.lower()
NAME_HEADER: Final = names.NAME.lower()

SHOWN: Final = 100
"""How much of what the peer chose is repeated in an error message."""

_NAMED: Final = {spec.name: spec.mirrored for spec in METHODS if spec.mirrored}
"""Method -> the member of its params that `Mcp-Name` repeats."""

_REFUSED: Final = {MethodNotFound.default_code: 404}
"""Error code -> status, of a request that no handler saw; the others are 400."""

_ANSWERED: Final = {
    error.default_code: 400
    for error in (HeaderMismatch, MissingCapability, UnsupportedVersion)
}
"""Error code -> status, of a handler's error; the others are 200."""


class HeaderFields(Protocol):
    """The header fields of a request; names in lower case."""

    def get(self, name: str) -> str | None:
        """Return a field's value without space around it, or ``None``."""

    def repeats(self, name: str) -> bool:
        """Tell whether a field came more than once."""


class UnreadableMessage(Exception):
    """What came is no message.

    Attributes:
        error: What is answered.
        id: The request that it would have been, where that can be read.
    """

    def __init__(self, error: RPCError, id: RequestId | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.id = id


def check_formats(
    fields: HeaderFields, *, is_json_only: bool
) -> tuple[int, str] | None:
    """Return status and reason where the formats of a POST are refused.

    Attributes of a form that a page could send without being asked first end here, too:
    its Content-Type is not JSON.
    """
    if not is_json(fields.get("content-type")):
        return 415, f"the Content-Type must be {JSON}, in UTF-8"
    if fields.get("content-encoding") not in {None, "identity"}:
        return 415, "the body must not be compressed"
    # 2026-07-28 streamable-http, "Sending Messages": the client MUST list both.
    kinds = (JSON,) if is_json_only else (JSON, EVENT_STREAM)
    if not accepts(fields.get("accept"), *kinds):
        return 406, f"the Accept must allow {' and '.join(kinds)}"
    return None


def read_json(body: bytes, most: int) -> Json:
    """Return what a body holds: no more than so many values.

    Raises:
        UnreadableMessage: It is no JSON, or holds more.
    """
    try:
        if body[LARGE]:
            check_values(body, most)
        return loads(body)
    except JSONDecodeError as error:
        raise UnreadableMessage(ParseError("the body is no JSON")) from error
    except MessageTooLarge as error:
        raise UnreadableMessage(
            InvalidRequest(str(error)), _id_in(outline(body))
        ) from error


def read_message(value: Json) -> Message:
    """Return the one message that a body is.

    Raises:
        UnreadableMessage: It is none.
    """
    try:
        return parse_message(value)
    except InvalidMessage as error:
        # 2026-07-28 basic, "Error Responses": with the id, where it can be read.
        raise UnreadableMessage(InvalidRequest(str(error)), _id_in(value)) from error


def _id_in(value: Json) -> RequestId | None:
    """Return the id of what would be a request, where it can be read."""
    id = value.get("id") if type(value) is dict and "method" in value else None
    return id if is_request_id(id) else None


def is_stateless(
    fields: HeaderFields, *, opens_alone: bool, spoken: Sequence[Revision]
) -> bool:
    """Tell whether a message is to be judged by the rules of the stateless era.

    Its `_meta` says so, or the version in its head, or there is no other era here.

    Args:
        fields: Its head.
        opens_alone: Whether its `_meta` says so.
        spoken: The revisions of this server, by age.
    """
    if opens_alone:
        return True
    # One era followed the other; an enum in a set is hashed by Python code.
    eras = (spoken[0].era, spoken[-1].era)
    if Era.STATELESS not in eras:
        return False
    revision = find_revision(fields.get(VERSION_HEADER))
    is_named = revision is not None and revision.era is Era.STATELESS
    return is_named or Era.SESSION not in eras


def check_head(
    fields: HeaderFields, method: str, params: Mapping[str, Any] | None
) -> None:
    """Check what the head of a request says of its version and method.

    2026-07-28 streamable-http, "Server Validation".

    Raises:
        HeaderMismatch: It lacks either, or the body says something else.
        InvalidParams: The body names no version.
    """
    version = fields.get(VERSION_HEADER)
    if version is None:
        raise HeaderMismatch(f"the header {names.PROTOCOL_VERSION} is missing")
    named = fields.get(METHOD_HEADER)
    if named is None:
        raise HeaderMismatch(f"the header {names.METHOD} is missing")
    if named != method or fields.repeats(METHOD_HEADER):
        raise _mismatch(names.METHOD, named, method)
    meta = params.get("_meta") if params is not None else None
    stated = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
    if type(stated) is not str:
        raise InvalidParams(f"params._meta needs {PROTOCOL_VERSION}, a string")
    if version != stated or fields.repeats(VERSION_HEADER):
        raise _mismatch(names.PROTOCOL_VERSION, version, stated)


def head_agrees(
    version: str | None, named: str | None, method: str, params: Mapping[str, Any]
) -> bool:
    """Tell whether `check_head` has nothing to say, of fields that each came once.

    Args:
        version: What the head says of the version.
        named: What it says of the method.
        method: The method.
        params: The params.
    """
    meta = params.get("_meta")
    return (
        named == method
        and version is not None
        and type(meta) is dict
        and meta.get(PROTOCOL_VERSION) == version
    )


def check_mirrored(
    fields: HeaderFields,
    method: str,
    params: Mapping[str, Any],
    headers: Iterable[ParamHeader] = (),
) -> None:
    """Check the rest of what the head repeats: a name or URI, and arguments.

    Args:
        fields: The head.
        method: The method.
        params: The params.
        headers: Which arguments the tool wants repeated.

    Raises:
        HeaderMismatch: The body says something else, or the head cannot be decoded.
    """
    member = _NAMED.get(method)
    if member is not None:
        _compare(fields, names.NAME, params.get(member))
    for header in headers:
        value: Json = params.get("arguments")
        for step in header.path:
            value = value.get(step) if type(value) is dict else None
        _compare(fields, header.name, value)


def _compare(fields: HeaderFields, name: str, body: Json) -> None:
    key = name.lower()
    value = fields.get(key)
    if fields.repeats(key):
        # Joined, they could say what the body says, and each of them something else.
        raise HeaderMismatch(f"the header {name} came more than once")
    if (
        value is not None
        and value == body
        and value.isascii()
        and value.isprintable()
        and value[:1] != "="
    ):
        return  # as nearly always
    try:
        is_same = names.mirrors(value, body, header=name)
    except InvalidMessage as error:
        raise HeaderMismatch(str(error)) from error
    if not is_same:
        raise _mismatch(name, value, body)


def _mismatch(name: str, value: str | None, body: Json) -> HeaderMismatch:
    if value is None:
        return HeaderMismatch(f"the header {name} is missing")
    said = repr(value[:SHOWN])
    if body is None:
        return HeaderMismatch(f"the header {name} says {said}, the body nothing")
    shown = repr(body[:SHOWN]) if isinstance(body, str) else "something else"
    return HeaderMismatch(f"the header {name} says {said}, the body {shown}")


def http_status(error: RPCError, *, is_admitted: bool) -> int:
    """Return the status of an error that is answered as JSON.

    Args:
        error: The error.
        is_admitted: Whether it is a handler's. 2026-07-28 gives a status to those that
            it defines; an error of a handler that is not among them is an answer.
    """
    if is_admitted:
        return _ANSWERED.get(error.code, 200)
    return _REFUSED.get(error.code, 400)


# === accept


JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

# What nearly every client sends: no need to take it apart.
_BOTH: Final = frozenset(
    {
        f"{JSON}, {EVENT_STREAM}",
        f"{JSON},{EVENT_STREAM}",
        f"{EVENT_STREAM}, {JSON}",
        "*/*",
    }
)
_PLAIN_JSON: Final = frozenset({JSON, f"{JSON}; charset=utf-8"})

_UTF_8: Final = frozenset({"utf-8", "utf8"})


def is_json(content_type: str | None) -> bool:
    """Tell whether a Content-Type stands for JSON in UTF-8, its only encoding."""
    if content_type in _PLAIN_JSON:
        return True
    kind, parameters = _parse_media_type(content_type or "")
    return kind == JSON and parameters.get("charset", "utf-8").lower() in _UTF_8


def accepts(accept: str | None, *kinds: str) -> bool:
    """Tell whether an Accept allows each of these media types.

    Without one, everything is allowed (RFC 9110, 12.5.1).
    """
    if accept is None or accept in _BOTH:
        return True
    ranges = [_parse_media_type(part) for part in accept.split(",")]
    return all(_quality(kind, ranges) > 0 for kind in kinds)


def _quality(kind: str, ranges: list[tuple[str, dict[str, str]]]) -> float:
    """Return the weight of a media type: that of the most specific range counts."""
    group = kind.partition("/")[0] + "/*"
    for name in (kind, group, "*/*"):
        weights = [_weight(parameters) for each, parameters in ranges if each == name]
        if weights:
            return max(weights)
    return 0.0


def _weight(parameters: dict[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0


def _parse_media_type(text: str) -> tuple[str, dict[str, str]]:
    """Return a media type, or range, in lower case, and its parameters."""
    # Quoted semicolons occur in no parameter that is looked at.
    kind, *parts = text.split(";")
    parameters = {}
    for part in parts:
        name, _, value = part.partition("=")
        parameters[name.strip().lower()] = value.strip().strip('"')
    return kind.strip().lower(), parameters


# === origin


ANY: Final = "*"

_ANY_PORT: Final = ":*"
_KNOWN_MAX: Final = 256
_SHOWN_MAX: Final = 100
_NULL: Final = "null"  # what a browser calls a page that it does not want to name


class OriginPolicy:
    """Decides by Host and Origin who may come in.

    Args:
        hosts: Names under which the server is asked: ``example.com`` with any port,
            ``example.com:8000`` with this one, ``*.example.com``, ``*``. By default
            those of the machine itself, and the address that it listens on.
        origins: Pages that may ask: ``https://example.com``, with any port
            ``https://example.com:*``, ``null``, ``*``. By default those of the
            machine itself where it is asked itself, and those of the host asked.

    Raises:
        ValueError: One of them is none.
    """

    def __init__(
        self, hosts: Iterable[str] | None = None, origins: Iterable[str] | None = None
    ) -> None:
        self._hosts = None if hosts is None else _Hosts(hosts)
        self._origins = None if origins is None else _Origins(origins)
        # Browsers and proxies send the same few again and again.
        self._known: set[tuple[str, str | None, str | None]] = set()

    def refusal(
        self, host: str | None, origin: str | None, bound: str | None = None
    ) -> str | None:
        """Return why a request must not come in; ``None``: it may.

        Args:
            host: Its Host, as received; ``None``: there is none.
            origin: Its Origin likewise.
            bound: The address that it came to.
        """
        if (host, origin, bound) in self._known:
            return None
        asked = None if host is None else _parse_origin(f"http://{host}")
        if not self._takes_host(asked, bound):
            shown = "is missing" if host is None else f"{_shown(host)} is not allowed"
            return f"the Host {shown}; the server's allowed_hosts says which are"
        if origin is not None and not self._takes_origin(origin, host):
            return (
                f"the Origin {_shown(origin)} is not allowed; "
                "the server's allowed_origins says which are"
            )
        if host is not None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known.add((host, origin, bound))
        return None

    def allows_origin(self, origin: str) -> bool:
        """Tell whether an origin is among those that were given."""
        return self._origins is not None and self._origins.match(origin)

    def _takes_host(self, asked: Url | None, bound: str | None) -> bool:
        if self._hosts is not None:
            return self._hosts.match(asked)
        if asked is None:
            return False
        return is_loopback(asked.host) or asked.host == bound

    def _takes_origin(self, origin: str, host: str | None) -> bool:
        if self._origins is not None:
            return self._origins.match(origin)
        page = _parse_origin(origin)
        if page is None:
            return False
        asked = _parse_origin(f"{page.scheme}://{host}")
        if asked is None:
            return False
        if is_loopback(asked.host) and is_loopback(page.host):
            return True
        return (page.host, page.port) == (asked.host, asked.port)


class _Hosts:
    """The hosts that were given."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._is_any = False
        self._names: set[str] = set()
        self._exact: set[tuple[str, int]] = set()
        self._suffixes: list[str] = []
        for pattern in patterns:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        if pattern == ANY:
            self._is_any = True
            return
        is_below = pattern.startswith("*.")
        text = pattern.removeprefix("*.").removesuffix(_ANY_PORT)
        if text.count(":") > 1 and not text.startswith("["):
            text = f"[{text}]"  # IPv6, as people write it
        url = _parse_origin(f"http://{text}")
        if url is None:
            raise ValueError(f"no host that could be allowed: {pattern!r}")
        if is_below:
            self._suffixes.append(f".{url.host}")
        elif text.endswith(f":{url.port}"):
            self._exact.add((url.host, url.port))
        else:
            self._names.add(url.host)

    def match(self, asked: Url | None) -> bool:
        """Tell whether a host is among them."""
        if self._is_any:
            return True
        return asked is not None and (
            asked.host in self._names
            or (asked.host, asked.port) in self._exact
            or any(asked.host.endswith(suffix) for suffix in self._suffixes)
        )


class _Origins:
    """The origins that were given."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._any_port: set[tuple[str, str]] = set()
        for pattern in patterns:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        if pattern in {ANY, _NULL}:
            self._plain.add(pattern)
            return
        url = _parse_origin(pattern.removesuffix(_ANY_PORT))
        if url is None:
            raise ValueError(f"no origin that could be allowed: {pattern!r}")
        if pattern.endswith(_ANY_PORT):
            self._any_port.add((url.scheme, url.host))
        else:
            self._plain.add(url.origin)

    def match(self, origin: str) -> bool:
        """Tell whether an origin is among them."""
        if ANY in self._plain or (origin == _NULL and _NULL in self._plain):
            return True
        page = _parse_origin(origin)
        return page is not None and (
            page.origin in self._plain or (page.scheme, page.host) in self._any_port
        )


def _parse_origin(origin: str) -> Url | None:
    """Return scheme, host and port of a text that has nothing else."""
    if origin.count("/") != 2 or "?" in origin or "#" in origin:
        return None
    try:
        return parse_url(origin)
    except ValueError:
        return None


def _shown(value: str) -> str:
    return repr(value[:_SHOWN_MAX])
