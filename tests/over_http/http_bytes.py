"""The bytes of HTTP responses and event streams, valid or invalid."""

import http
import json
from typing import Any, Final

LAST_CHUNK: Final = b"0\r\n\r\n"


def head(status: int, **fields: Any) -> bytes:
    """Return the head of a response; `content_type="..."`, a list repeats its name."""
    phrase = http.HTTPStatus(status).phrase if status in _PHRASED else "Odd"
    lines = [f"HTTP/1.1 {status} {phrase}"]
    for name, values in fields.items():
        repeated = values if isinstance(values, list) else [values]
        lines += [f"{name.replace('_', '-')}: {value}" for value in repeated]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


_PHRASED: Final = frozenset(int(status) for status in http.HTTPStatus)


def reply(status: int, body: bytes = b"", **fields: Any) -> bytes:
    return head(status, content_length=len(body), **fields) + body


def json_reply(obj: object, status: int = 200, **fields: Any) -> bytes:
    body = json.dumps(obj).encode()
    return reply(status, body, **{"content_type": "application/json", **fields})


def sse_head(*, chunked: bool = True, **fields: Any) -> bytes:
    """Return the head of an event stream, in chunks or up to the connection's end."""
    how = {"transfer_encoding": "chunked"} if chunked else {"connection": "close"}
    return head(200, **{"content_type": "text/event-stream", **how, **fields})


def sse_event(
    obj: object = None,
    id: str | None = None,
    retry: int | None = None,
    event: str | None = None,
) -> bytes:
    """Return one event; text is sent as it is, None sends no `data` at all."""
    lines = [] if event is None else [f"event: {event}"]
    lines += [] if id is None else [f"id: {id}"]
    lines += [] if retry is None else [f"retry: {retry}"]
    if obj is not None:
        text = obj if isinstance(obj, str) else json.dumps(obj)
        lines += [f"data: {line}" for line in text.split("\n")]
    return "\n".join([*lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
