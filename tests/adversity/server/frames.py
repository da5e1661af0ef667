"""Invalid frames of all kinds, generated from one seed.

Mutations keep most of a message intact, so that the fault is found late.
"""

import copy
import json
import random

from raw_client import CAPABILITIES_KEY, modern, notice, request, session

DEEP = {"<<70>>": 70, "<<300>>": 300, "<<1200>>": 1_200}
"""Markers that are replaced by so many nested lists."""

ODD = (
    *(None, True, False, 0, -1, 1.5, 1e300, 2**53 + 1, 2**64, -(2**63), 10**400),
    *("", "0", "1", "é", "\u2028", "\x00\r\n\x1b", "__proto__", "\ud800", "x" * 5_000),
    *([], [[]], {}, {"": {}}, [None] * 100, {"$ref": "#"}, {"jsonrpc": "2.0"}),
    *("2025-11-25", "2026-07-28", "initialize", "tools/call", "notifications/x"),
    *DEEP,
)

KEYS = (
    *("jsonrpc", "id", "method", "params", "result", "error", "_meta", "name", "uri"),
    *("Method", "ID", "param\u017f", "arguments", "cursor", "progressToken", "ref"),
    *("inputResponses", "requestState", "requestId", "level", "notifications", ""),
)

NAMES = (
    *("accept", "content-type", "content-length", "content-encoding", "host", "origin"),
    *("mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "connection"),
    *("last-event-id", "authorization", "mcp-param-x", "transfer-encoding", "expect"),
)

VALUES = (
    *("", " ", "*", "*/*", "text/event-stream", "application/json", "null", "\xff"),
    *("2025-11-25", "2025-03-26", "2026-07-28", "2026-07-28, 2026-07-28", "x" * 9_000),
    *("=?base64?!?=", "=?base64?w7w=?=", "http://evil.example", "0", "-1", "1e9"),
    *("tools/call", "echo", "127.0.0.1:8000", "[::1", "a\tb", "Bearer x", "0-1", "1"),
)

ECHO = {"name": "echo", "arguments": {"text": "hi"}}
TALK = {"type": "ref/prompt", "name": "talk"}
COMPLETE = {"ref": TALK, "argument": {"name": "style", "value": "s"}}

PLAIN = [
    ("tools/list", {}),
    ("tools/call", ECHO),
    ("tools/call", {"name": "tell", "arguments": {"text": "x"}}),
    ("tools/call", {"name": "threaded", "arguments": {"text": "x", "times": 2}}),
    ("tools/call", {"name": "ask", "arguments": {}}),
    ("resources/list", {"cursor": "x"}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "note://one"}),
    ("resources/read", {"uri": "greet://a/b/c"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "talk", "arguments": {"style": "long"}}),
    ("completion/complete", COMPLETE),
]
"""Requests of both eras."""

IN_SESSION = [
    request(0, "initialize", session()),
    notice("notifications/initialized"),
    notice("notifications/cancelled", requestId=2, reason="x"),
    notice("notifications/progress", progressToken=1, progress=0.5),
    notice("notifications/roots/list_changed"),
    request(1, "ping"),
    request("l", "logging/setLevel", {"level": "debug"}),
    request(2, "resources/subscribe", {"uri": "note://one"}),
    request(2, "resources/unsubscribe", {"uri": "note://one"}),
    {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {}}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}},
    *(
        request(number, method, params, {"progressToken": number})
        for number, (method, params) in enumerate(PLAIN, 10)
    ),
]

LISTEN = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}}

ALONE = [
    modern("d", "server/discover"),
    modern("s", "subscriptions/listen", LISTEN),
    notice("notifications/cancelled", requestId="s"),
    *(
        modern(number, method, params, progressToken=f"p{number}")
        for number, (method, params) in enumerate(PLAIN, 50)
    ),
    modern(
        90,
        "tools/call",
        {
            "name": "ask",
            "arguments": {},
            "requestState": "AAAA",
            "inputResponses": {"elicit-1": {"action": "accept", "content": {}}},
        },
    ),
]


TASKS = "io.modelcontextprotocol/tasks"

WORKS = {"name": "works", "arguments": {"text": "x"}}

IN_SESSION += [
    request(30, "tools/call", {**WORKS, "task": {"ttl": 1_000}}),
    request(31, "tasks/get", {"taskId": "x"}),
    request(32, "tasks/result", {"taskId": "x"}),
    request(33, "tasks/list", {"cursor": "x"}),
    request(34, "tasks/cancel", {"taskId": "x"}),
]

ALONE += [
    modern(number, method, params, **{CAPABILITIES_KEY: {"extensions": {TASKS: {}}}})
    for number, (method, params) in enumerate(
        [
            ("tools/call", WORKS),
            ("tasks/get", {"taskId": "x"}),
            ("tasks/update", {"taskId": "x", "inputResponses": {}}),
            ("tasks/cancel", {"taskId": "x"}),
            ("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
        ],
        100,
    )
]


class Fuzzer:
    """Generates frames from messages; the same seed gives the same frames."""

    def __init__(self, messages, seed=1):
        self.random = random.Random(seed)
        self._messages = messages

    def frame(self):
        """Return the bytes of one frame, which may contain newlines."""
        draw = self.random.random()
        if draw < 0.05:
            return self.random.randbytes(self.random.randrange(200))
        message = self.message()
        if draw < 0.15:
            message = [message, *(self.message() for _ in range(draw < 0.1))]
        data = self.encoded(message)
        return data if draw < 0.75 else self._damaged(data)

    def message(self):
        """Return a message with some of it changed."""
        message = copy.deepcopy(self.random.choice(self._messages))
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            self._change(message)
        return message

    def encoded(self, message):
        """Return a message as bytes, with depth and lone surrogates."""
        text = json.dumps(message, ensure_ascii=self.random.random() < 0.5)
        for name, levels in DEEP.items():
            text = text.replace(f'"{name}"', "[" * levels + "]" * levels)
        return text.encode("utf-8", "surrogatepass")

    def head(self, fields):
        """Return header fields with some of them changed."""
        changed = list(fields)
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            name = self.random.choice(NAMES)
            if self.random.random() < 0.7:
                changed = [field for field in changed if field[0] != name]
            if self.random.random() < 0.7:
                changed.append((name, self.random.choice(VALUES)))
        return changed

    def _change(self, message):
        places = [(message, key) for key in message]
        for holder, key in places:  # which grows during the iteration
            value = holder[key]
            if isinstance(value, dict):
                places += [(value, each) for each in value]
            elif isinstance(value, list):
                places += [(value, each) for each in range(len(value))]
        if not places:
            return
        holder, key = self.random.choice(places)
        draw = self.random.random()
        if draw < 0.2:
            holder.pop(key)
        elif draw < 0.4 and isinstance(holder, dict):
            holder[self.random.choice(KEYS)] = holder.pop(key)
        elif draw < 0.5 and isinstance(holder, dict):
            holder[self.random.choice(KEYS)] = self._odd()
        else:
            holder[key] = self._odd()

    def _odd(self):
        return copy.deepcopy(self.random.choice(ODD))

    def _damaged(self, data):
        damaged = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 8))):
            place = self.random.randrange(len(damaged) + 1)
            draw = self.random.random()
            if draw < 0.4 and place < len(damaged):
                damaged[place] ^= 1 << self.random.randrange(8)
            elif draw < 0.6:
                damaged[place:place] = self.random.randbytes(3)
            elif draw < 0.8:
                del damaged[place:]
            else:
                damaged[place:place] = damaged[: self.random.randrange(64)]
        return bytes(damaged)
