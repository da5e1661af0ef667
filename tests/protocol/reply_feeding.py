"""Replies fed by hand, as an HTTP engine feeds them, and an owner that records events.

Each body is delivered three times: whole, byte by byte, and with more data behind the
part that counts. The outcome must be the same each time.
"""

import json
from typing import Any

import pytest
from wire_tables import Error

from mcpwire.limits import DEFAULT_RECOVERY, Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.http_reply import Reply
from mcpwire.protocol.peer import PeerStats
from mcpwire.versions import find_revision

JSON = "application/json"
SSE = "text/event-stream"
HTML = "text/html"

ID = 7
URL = "http://127.0.0.1:1/mcp"
METHOD = "tools/call"
RESULT = {"content": [{"type": "text", "text": "größe"}]}
LOG = "notifications/message"

an = Error

DELIVERIES = ("whole", "byte by byte", "with more behind")


def text(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def answer(id: Any = ID, result: Any = RESULT, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result, **members}


def failure(
    code: int = -32000, message: str = "no", id: Any = ID, **members: Any
) -> dict[str, Any]:
    error = {"code": code, "message": message, **members}
    return {"jsonrpc": "2.0", "id": id, "error": error}


def log(data: Any = "x") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": LOG, "params": {"level": "info", "data": data}}


def build_ping(id: Any = "s1", method: str = "ping") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method}


def event(message: Any, *, id: str | None = None, name: str | None = None) -> bytes:
    """Return one event; bytes are its data as they are."""
    data = message if type(message) is bytes else text(message)
    lines = [b"data: " + data.replace(b"\n", b"\ndata: ")]
    if id is not None:
        lines.insert(0, b"id: " + id.encode())
    if name is not None:
        lines.insert(0, b"event: " + name.encode())
    return b"\n".join(lines) + b"\n\n"


class Owner:
    def __init__(
        self,
        revision: str | None = "2025-11-25",
        *,
        limits: Limits | None = None,
        recovery: Any = DEFAULT_RECOVERY,
        is_traced: bool = False,
    ) -> None:
        self.target = URL
        self.limits = limits or Limits()
        self.recovery = recovery
        self.stats = PeerStats()
        self.revision = find_revision(revision)
        self.is_traced = is_traced
        self.events: list[tuple[Any, ...]] = []
        self.opened_streams = 0
        self.error_bodies: list[Reply] = []
        self.redirects: Any = "it leads to another origin"

    def redirect(self, reply: Reply) -> Any:
        assert 300 <= reply.status < 400
        return self.redirects

    def on_error_body(self, reply: Reply) -> None:
        self.error_bodies.append(reply)

    def on_stream_open(self, reply: Reply) -> None:
        self.opened_streams += 1

    def trace_head(self, reply: Reply) -> None:
        self.events.append(("head", reply.status))

    def trace_message(self, data: bytes) -> None:
        assert type(data) is bytes
        self.events.append(("message", data))

    def on_notification(self, reply: Reply, method: str, params: Any) -> None:
        self.events.append(("notified", method, (params or {}).get("data")))

    def on_request(self, reply: Reply, id: Any, method: str, params: Any) -> None:
        self.events.append(("requested", id, method))

    @property
    def notes(self) -> list[Any]:
        return [entry[2] for entry in self.events if entry[0] == "notified"]

    def counted(self) -> dict[str, int]:
        """Return the counters that are not zero, apart from that of messages."""
        names = ("noise", "invalid", "unknown")
        counts = {name: getattr(self.stats, name) for name in names}
        return {name: count for name, count in counts.items() if count}


def call(
    owner: Owner,
    method: str = METHOD,
    *,
    id: int = ID,
    deadline: Deadline | None = None,
) -> Reply:
    return Reply(owner, "call", method, deadline, id)


def notice(owner: Owner) -> Reply:
    return Reply(owner, "notification", "notifications/x", Deadline(0.0, 30.0))


def stream(owner: Owner) -> Reply:
    return Reply(owner, "stream", "GET")


def fields(content_type: str | None, **others: str) -> dict[bytes, bytes]:
    """Return header fields as an engine does: names in lower case."""
    given = {name.replace("_", "-"): value for name, value in others.items()}
    if content_type is not None:
        given["content-type"] = content_type
    return {name.encode(): value.encode("latin-1") for name, value in given.items()}


def chunks(body: bytes, way: str, more: bytes = b"") -> list[bytes]:
    """Return a body in pieces, as one of `DELIVERIES` asks for."""
    if way == "byte by byte":
        return [body[index : index + 1] for index in range(len(body))]
    whole = body + more if way == "with more behind" else body
    return [whole] if whole else []


def feed(
    reply: Reply,
    status: int,
    content_type: str | None,
    body: bytes,
    way: str = "whole",
    *,
    more: bytes | None = None,
    ends: bool = True,
    **others: str,
) -> None:
    """Feed a whole reply, as an engine does: also the bytes that follow its end."""
    if more is None:
        more = b": more\n\n" if content_type == SSE else b" \r\n"
    reply.head(status, fields(content_type, **others))
    for chunk in chunks(body, way, more):
        reply.data(chunk)
    if ends:
        reply.end()
        assert reply.is_over


def check(reply: Reply, expected: Any) -> None:
    """Compare the outcome of a call: a result, an error, or ``None`` for neither."""
    if isinstance(expected, Error):
        assert reply.result is None
        expected.check(reply.error)
    else:
        assert reply.error is None, repr(reply.error)
        assert reply.result == expected
    assert kept_bytes(reply) == 0


def kept_bytes(reply: Reply) -> int:
    """Return how many bytes of a body a reply still holds."""
    return len(reply._body)


def in_each_delivery(function: Any) -> Any:
    """Run a test with each way of delivery, as `way`."""
    return pytest.mark.parametrize("way", DELIVERIES)(function)
