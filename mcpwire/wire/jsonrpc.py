"""JSON-RPC 2.0 messages, their ids, and newline-delimited framing.

A message is classified by the names of its members, never by their values. Ids are
compared by type and value: ``7`` and ``"7"`` are different ids.

Only byte 0x0A ends a line: U+2028, U+2029 and U+0085 are legal inside JSON strings, and
so is a carriage return between JSON tokens.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import attrs

from mcpwire.errors import InvalidMessage, RPCError, rpc_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.wire.json import Json

RequestId: TypeAlias = int | str


def is_request_id(value: object) -> TypeGuard[RequestId]:
    """Return whether a value is a valid request id: an integer or a string."""
    # Exact types: bool is a subclass of int, and 1.0 equals 1.
    return type(value) is int or type(value) is str


@attrs.frozen
class Request:
    """A request, which requires a response."""

    id: RequestId
    method: str
    params: dict[str, Any] | None = None


@attrs.frozen
class Notification:
    """A notification, which gets no response."""

    method: str
    params: dict[str, Any] | None = None


@attrs.frozen
class Success:
    """A response with a result."""

    id: RequestId
    result: dict[str, Any]


@attrs.frozen
class Failure:
    """A response with an error."""

    id: RequestId | None
    """The id of the request; ``None`` if the peer could not read it."""

    error: RPCError


Message: TypeAlias = Request | Notification | Success | Failure


def parse_message(value: Json) -> Message:
    """Return the message that a decoded JSON value represents.

    Unknown members are ignored. Arrays are refused: only some revisions of the protocol
    allow batches.

    Raises:
        InvalidMessage: The value is not a valid JSON-RPC message.
    """
    if type(value) is not dict:
        raise InvalidMessage("message", expected="object", got=_kind(value))
    if value.get("jsonrpc") != "2.0":
        raise _invalid_member(value, "jsonrpc", "'2.0'")
    if "method" in value:
        return _parse_call(value)
    if "result" in value:
        return _parse_success(value)
    if "error" in value:
        return _parse_failure(value)
    raise InvalidMessage(
        "message", expected="method, result or error", got="none of them"
    )


def _parse_call(value: dict[str, Any]) -> Request | Notification:
    # Other parsers may take such a message for a response.
    if "result" in value or "error" in value:
        raise InvalidMessage(
            "message", expected="one of method, result and error", got="several of them"
        )
    method = value["method"]
    if type(method) is not str:
        raise _invalid_member(value, "method", "str")
    params = value.get("params")
    if type(params) is not dict and "params" in value:
        raise _invalid_member(value, "params", "object")
    if "id" not in value:
        return Notification(method, params)
    return Request(_parse_id(value), method, params)


def _parse_success(value: dict[str, Any]) -> Success:
    if "error" in value:
        raise InvalidMessage(
            "message", expected="one of result and error", got="both of them"
        )
    result = value["result"]
    if type(result) is not dict:
        raise _invalid_member(value, "result", "object")
    return Success(_parse_id(value), result)


def _parse_failure(value: dict[str, Any]) -> Failure:
    error = value["error"]
    if type(error) is not dict:
        raise _invalid_member(value, "error", "object")
    if type(error.get("code")) is not int:
        raise _invalid_member(error, "code", "int", path="message.error.")
    if type(error.get("message")) is not str:
        raise _invalid_member(error, "message", "str", path="message.error.")
    # 2026-07-28 basic/index, "Error Responses": an id that could not be read is
    # omitted; older revisions and the JSON-RPC specification use null.
    request_id = None if value.get("id") is None else _parse_id(value)
    return Failure(
        request_id, rpc_error(error["code"], error["message"], data=error.get("data"))
    )


def _parse_id(value: dict[str, Any]) -> RequestId:
    id = value.get("id")
    if is_request_id(id):
        return id
    raise _invalid_member(value, "id", "int or str")


def _invalid_member(
    holder: dict[str, Any], member: str, expected: str, *, path: str = "message."
) -> InvalidMessage:
    got = _kind(holder[member]) if member in holder else "nothing"
    return InvalidMessage(path + member, expected=expected, got=got)


_KINDS: Final = {dict: "object", list: "array", type(None): "null"}


def _kind(value: Json) -> str:
    if isinstance(value, str) and len(value) <= 20:
        return repr(value)
    return _KINDS.get(type(value), type(value).__name__)


def request(
    id: RequestId, method: str, params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a request as a JSON value."""
    if params is None:
        return {"jsonrpc": "2.0", "id": id, "method": method}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(
    method: str, params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a notification as a JSON value."""
    if params is None:
        return {"jsonrpc": "2.0", "method": method}
    return {"jsonrpc": "2.0", "method": method, "params": params}


def success(id: RequestId, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response with a result as a JSON value."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def escape_surrogates(text: str) -> str:
    """Return a text that can be sent: the name of a file may have lone surrogates."""
    return text.encode(errors="backslashreplace").decode()


def failure(id: RequestId | None, error: RPCError) -> dict[str, Any]:
    """Return a response with an error as a JSON value."""
    body = {"code": error.code, "message": escape_surrogates(str(error.message))}
    if error.data is not None:
        body["data"] = error.data
    if id is None:  # 2026-07-28 basic/index, "Error Responses": no `id` member
        return {"jsonrpc": "2.0", "error": body}
    return {"jsonrpc": "2.0", "id": id, "error": body}


_CANONICAL_INT: Final = re.compile(r"0|-?[1-9][0-9]{0,19}")  # holds all of 64 bits


def intended_id(id: object) -> int | None:
    """Return the integer id that a peer wrote as ``"7"`` or ``7.0``, or ``None``."""
    if type(id) is str and _CANONICAL_INT.fullmatch(id):
        return int(id)
    return int(id) if type(id) is float and id.is_integer() else None


# Line framing

Line: TypeAlias = bytes | bytearray

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_FEED: Final = 0x0A  # `int in bytes` is far faster than `bytes in bytes`


class LineDecoder:
    """Splits a byte stream into lines of at most `limit` bytes, newline excluded.

    A carriage return before the newline is kept; a byte order mark at the start is
    dropped. A line from several chunks is returned as the bytearray that collected it,
    which saves a copy.

    Attributes:
        overflow: Whether a line exceeded the limit; no further line is returned.
        received: The number of received bytes, without the byte order mark.
    """

    def __init__(self, limit: int) -> None:
        self.overflow = False
        self.received = 0
        self._limit = limit
        self._partial = bytearray()
        self._at_start = True

    def feed(self, data: bytes) -> Sequence[Line]:
        """Add received bytes and return the lines that they complete."""
        if self.overflow:
            return ()
        if self._at_start:
            data = self._skip_mark(data)
        max_length = len(data)
        self.received += max_length
        lines: list[Line] = []
        if _LINE_FEED in data:
            # Splitting is slow, and most chunks with a newline end with the only one.
            if data.find(_LINE_FEED) == max_length - 1:
                lines = [data[:-1]]
                data = b""
            else:
                *complete, data = data.split(b"\n")
                lines += complete
        if self._partial:
            max_length += len(self._partial)
            if lines:
                self._partial += lines[0]
                lines[0], self._partial = self._partial, bytearray()
        if data:
            self._partial += data
        # No line is longer than `max_length`: usually no line needs its own check.
        return self._stop_at_overflow(lines) if max_length > self._limit else lines

    def finish(self) -> Sequence[Line]:
        """Return the unterminated last line, if any, at the end of the stream."""
        line, self._partial = self._partial, bytearray()
        return (line,) if line else ()

    def _skip_mark(self, data: bytes) -> bytes:
        """Return the received bytes without a byte order mark; wait for all of it."""
        data = bytes(self._partial) + data
        self.received -= len(self._partial)
        self._partial.clear()
        if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
            return data
        self._at_start = False
        return data.removeprefix(_BYTE_ORDER_MARK)

    def _stop_at_overflow(self, lines: list[Line]) -> list[Line]:
        for index, line in enumerate(lines):
            if len(line) > self._limit:
                del lines[index:]
                self.close()
                return lines
        if len(self._partial) > self._limit:
            self.close()
        return lines

    def close(self) -> None:
        """Ignore all further bytes, as after an overflow."""
        self.overflow = True
        self._partial = bytearray()
