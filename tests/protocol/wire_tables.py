"""Rows of wire tables for a `Peer`: bytes in, events of its owner, bytes out.

Each row is delivered three times: whole, byte by byte, and with more bytes behind it
in the same read. The outcome must be the same each time.
"""

import json
from typing import Any

import attrs
import pytest

from mcpwire.errors import MCPError
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.peer import Peer
from mcpwire.versions import REVISIONS, find_revision

ALL = tuple(revision.name for revision in REVISIONS)
SESSION = ALL[:-1]
BATCHES = ("2025-03-26",)
STATELESS = ALL[-1:]
ERRORS_WITHOUT_ID = (None, "2025-11-25", "2026-07-28")
NO_ERRORS_WITHOUT_ID = ("2024-11-05", "2025-03-26", "2025-06-18")

AFTER = b'{"jsonrpc":"2.0","method":"after"}\n'
AFTER_EVENT = ("notified", "after", None, None)
DELIVERIES = ("whole", "byte by byte", "with trailing data")


def msg(*members: str) -> bytes:
    return '{{"jsonrpc":"2.0",{}}}\n'.format(",".join(members)).encode()


def params(text: str) -> str:
    return f'"params":{text}'


@attrs.define(eq=False)
class Call:
    """A call of ours, as its owner keeps it."""

    method: str
    number: int | None = None


class Error:
    """Equal to errors of exactly that class, with these words and attributes."""

    __hash__ = None

    def __init__(self, cls: type[MCPError], *words: str, **attributes: Any) -> None:
        self.cls = cls
        self.words = words
        self.attributes = attributes

    def __eq__(self, other: object) -> bool:
        text = str(other).lower()
        return (
            type(other) is self.cls
            and all(word.lower() in text for word in self.words)
            and all(getattr(other, n) == v for n, v in self.attributes.items())
        )

    def __repr__(self) -> str:
        return f"{self.cls.__name__} with {self.words} and {self.attributes}"

    def check(self, error: Any) -> None:
        assert error == self, (error, getattr(error, "__dict__", None))


class Recorder:
    """An owner that records each event as one tuple."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.transmitted: list[bytes] = []

    def on_result(self, call, result):
        self.events.append(("answered", call.number, result))

    def on_error(self, call, error):
        self.events.append(("failed", call.number, error))

    def on_notification(self, method, params, call):
        number = call and call.number
        self.events.append(("notified", method, params, number))

    def on_request(self, id, method, params):
        self.events.append(("requested", id, method, params))

    def on_cancelled(self, id):
        self.events.append(("withdrawn", id))

    def transmit(self, data):
        self.transmitted.append(data)


def make_peer(role="client", revision="2025-11-25", opens=(), limits=DEFAULT_LIMITS):
    """Return a peer with open calls, and its owner."""
    owner = Recorder()
    peer = Peer(owner, role=role, limits=limits)
    peer.revision = find_revision(revision)
    for method in opens:
        open_call(peer, method)
    return peer, owner


def open_call(peer, method="tools/call", params=None, **options):
    """Open a call whose record holds its id; return the id and its line."""
    call = Call(method)
    call.number, line = peer.start_request(method, params, call, **options)
    return call.number, line


def one_message(line: bytes) -> Any:
    """Return the single message of a line; there must be exactly one line."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


@attrs.frozen(kw_only=True)
class Row:
    """One line of a wire table.

    Attributes:
        opens: The methods of our open calls; their ids count from 1.
        cancels: The ids of those that are cancelled before the bytes arrive.
        answers: Whether the owner answers each request after all bytes have arrived.
        stats: The counters that are not zero; the messages default to the newlines.
        open_after: The ids of our calls that are still open at the end.
    """

    name: str
    data: bytes
    role: str = "client"
    revisions: tuple[str | None, ...] = ALL
    opens: tuple[str, ...] = ("tools/call",)
    cancels: tuple[int, ...] = ()
    answers: bool = False
    events: tuple[tuple[Any, ...], ...] = ()
    sent: tuple[Any, ...] = ()
    stats: dict[str, Any] = attrs.field(factory=dict)
    open_after: tuple[int, ...] = ()


def table(*rows: Any) -> pytest.MarkDecorator:
    """Parametrize a test with `row`."""
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


def check(row: Row) -> None:
    """Deliver a row at each revision and in each way, and compare the outcome."""
    for revision in row.revisions:
        for delivery in DELIVERIES:
            assert (revision, delivery, deliver(row, revision, delivery)) == (
                revision,
                delivery,
                expected_of(row, delivery),
            )


def deliver(row: Row, revision: str | None, delivery: str) -> dict[str, Any]:
    """Return the events, messages, counters and open calls after one delivery."""
    peer, owner = make_peer(row.role, revision, row.opens)
    for id in row.cancels:
        peer.cancel(id, "test")
    if delivery == "byte by byte":
        for byte in row.data:
            peer.receive(bytes([byte]))
    elif delivery == "whole":
        peer.receive(row.data)
    else:
        peer.receive(row.data + AFTER + b'{"jsonrpc":"2.0","me')
    if row.answers:
        answer_all(peer, owner)
    return {
        "events": exact(owner.events),
        "sent": exact([one_message(line) for line in owner.transmitted]),
        "stats": counts(peer.stats),
        "open": list(peer.outstanding),
    }


def expected_of(row: Row, delivery: str) -> dict[str, Any]:
    """Return the outcome that a row expects."""
    has_more = delivery == "with trailing data"
    messages = row.data.count(b"\n")
    stats = {"messages": messages, **row.stats}
    stats["messages"] += has_more
    return {
        "events": exact([*row.events, *[AFTER_EVENT] * has_more]),
        "sent": exact(list(row.sent)),
        "stats": stats,
        "open": list(row.open_after),
    }


def exact(value: Any) -> Any:
    """Return a value in which 1, 1.0 and true are different, unlike in Python."""
    if isinstance(value, dict):
        return {name: exact(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    return f"{value!r}" if isinstance(value, (bool, float)) else value


def answer_all(peer: Peer[Call], owner: Recorder) -> None:
    """Answer each received request with its id and method."""
    for event, *args in owner.events:
        if event == "requested":
            id, method, _ = args
            line = peer.answer(id, {"to": [id, method]})
            if line is not None:
                owner.transmit(line)


def answered(id: int | str, method: str = "ask") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": {"to": [id, method]}}


class Refusal:
    """Equal to an error response with that id and code, whatever its message."""

    __hash__ = None

    def __init__(self, code: int, **id: Any) -> None:
        self.code = code
        self.id = id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, dict) or not isinstance(other.get("error"), dict):
            return False
        error = other["error"]
        envelope = {k: v for k, v in other.items() if k != "error"}
        return (
            envelope == {"jsonrpc": "2.0", **self.id}
            and set(error) == {"code", "message"}
            and error["code"] == self.code
            and bool(error["message"])
        )

    def __repr__(self) -> str:
        return f"refusal {self.code} {self.id}"


def counts(stats: Any) -> dict[str, Any]:
    """Return the counters of received messages that are not zero."""
    return {
        name: value
        for name, value in attrs.asdict(stats).items()
        if value
        and name not in {"noise_lines", "line_bytes", "unanswered", "before_open"}
    }
