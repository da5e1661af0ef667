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
from mcpwire.protocol.serving.accept import EVENT_STREAM, JSON, accepts, is_json
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.versions import Revision
    from mcpwire.wire.headers import ParamHeader
    from mcpwire.wire.jsonrpc import Message, RequestId

__all__ = [
    "METHOD",
    "VERSION",
    "Fields",
    "Unreadable",
    "agrees",
    "check_formats",
    "check_head",
    "check_mirrored",
    "read_json",
    "read_message",
    "stands_alone",
    "status_of",
]

VERSION: Final = names.PROTOCOL_VERSION.lower()
METHOD: Final = names.METHOD.lower()
NAME: Final = names.NAME.lower()

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


class Fields(Protocol):
    """The header fields of a request; names in lower case."""

    def get(self, name: str) -> str | None:
        """Return a field's value without space around it, or ``None``."""

    def repeats(self, name: str) -> bool:
        """Tell whether a field came more than once."""


class Unreadable(Exception):
    """What came is no message.

    Attributes:
        error: What is answered.
        id: The request that it would have been, where that can be read.
    """

    def __init__(self, error: RPCError, id: RequestId | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.id = id


def check_formats(fields: Fields, *, is_json_only: bool) -> tuple[int, str] | None:
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
        Unreadable: It is no JSON, or holds more.
    """
    try:
        if body[LARGE]:
            check_values(body, most)
        return loads(body)
    except JSONDecodeError as error:
        raise Unreadable(ParseError("the body is no JSON")) from error
    except MessageTooLarge as error:
        raise Unreadable(InvalidRequest(str(error)), _id_in(outline(body))) from error


def read_message(value: Json) -> Message:
    """Return the one message that a body is.

    Raises:
        Unreadable: It is none.
    """
    try:
        return parse_message(value)
    except InvalidMessage as error:
        # 2026-07-28 basic, "Error Responses": with the id, where it can be read.
        raise Unreadable(InvalidRequest(str(error)), _id_in(value)) from error


def _id_in(value: Json) -> RequestId | None:
    """Return the id of what would be a request, where it can be read."""
    id = value.get("id") if type(value) is dict and "method" in value else None
    return id if is_request_id(id) else None


def stands_alone(
    fields: Fields, *, opens_alone: bool, spoken: Sequence[Revision]
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
    revision = find_revision(fields.get(VERSION))
    is_named = revision is not None and revision.era is Era.STATELESS
    return is_named or Era.SESSION not in eras


def check_head(fields: Fields, method: str, params: Mapping[str, Any] | None) -> None:
    """Check what the head of a request says of its version and method.

    2026-07-28 streamable-http, "Server Validation".

    Raises:
        HeaderMismatch: It lacks either, or the body says something else.
        InvalidParams: The body names no version.
    """
    version = fields.get(VERSION)
    if version is None:
        raise HeaderMismatch(f"the header {names.PROTOCOL_VERSION} is missing")
    named = fields.get(METHOD)
    if named is None:
        raise HeaderMismatch(f"the header {names.METHOD} is missing")
    if named != method or fields.repeats(METHOD):
        raise _mismatch(names.METHOD, named, method)
    meta = params.get("_meta") if params is not None else None
    stated = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
    if type(stated) is not str:
        raise InvalidParams(f"params._meta needs {PROTOCOL_VERSION}, a string")
    if version != stated or fields.repeats(VERSION):
        raise _mismatch(names.PROTOCOL_VERSION, version, stated)


def agrees(
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
    fields: Fields,
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


def _compare(fields: Fields, name: str, body: Json) -> None:
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


def status_of(error: RPCError, *, is_admitted: bool) -> int:
    """Return the status of an error that is answered as JSON.

    Args:
        error: The error.
        is_admitted: Whether it is a handler's. 2026-07-28 gives a status to those that
            it defines; an error of a handler that is not among them is an answer.
    """
    if is_admitted:
        return _ANSWERED.get(error.code, 200)
    return _REFUSED.get(error.code, 400)
