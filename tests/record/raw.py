"""Raw clients of the record's server, over stdio and HTTP: standard library only."""

import contextlib
import http.client
import json
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from record import shown

SERVER: Final = Path(__file__).with_name("server.py")
TIMEOUT_S: Final = 60.0
META: Final = shown.META
STATELESS: Final = "2026-07-28"
OPAQUE: Final = frozenset(
    {
        "taskId",
        "createdAt",
        "lastUpdatedAt",
        "requestState",
        "nextCursor",
        "ttl",
        "elicitationId",
    }
)
"""Members whose values are random or opaque."""

UNSHOWN: Final = frozenset({"date", "content-length", "connection", "keep-alive"})
NOTIFICATION_PARTS: Final = (
    "list_changed",
    "resources/updated",
    "subscriptions/",
    "notifications/tasks",
)
ANSWERS: Final = {
    "elicitation/create": {
        "action": "accept",
        "content": {"city": "Rome", "degrees": 1, "value": 3},
    },
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Ho."},
        "model": "m",
    },
    "roots/list": {"roots": [{"uri": "file:///srv"}]},
}
CAPABILITIES: Final = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {},
    "extensions": {META + "tasks": {}, META + "skills": {}},
}


def blank(value: Any) -> Any:
    """Also hide opaque values."""
    if isinstance(value, dict):
        return {
            key: "*"
            if key in OPAQUE and isinstance(member, (str, int))
            else blank(member)
            for key, member in value.items()
        }
    return (
        [blank(each) for each in value]
        if isinstance(value, list)
        else shown.blank(value)
    )


class Raw:
    """A client that sends what a case specifies; received messages are in `came`."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.is_stateless = era == STATELESS
        self.came: list[Any] = []
        self.case = ""
        self.count = 0
        self.answers: dict[str, Any] = ANSWERS
        self.notifications: deque[Any] = deque()
        self.capabilities: dict[str, Any] = CAPABILITIES
        self.meta: dict[str, Any] = {}

    def begin(self, case: str) -> None:
        """Begin a case, in its own session."""
        self.case, self.count, self.came = case, 0, []
        self.answers, self.capabilities, self.meta = ANSWERS, CAPABILITIES, {}
        self.notifications.clear()

    def handshake(self, version: str | None = None, **members: Any) -> Any:
        """Open a session, or send server/discover."""
        if self.is_stateless:
            return self.ask("server/discover")
        params = {
            "protocolVersion": version or self.era,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
            **members,
        }
        result = self.ask("initialize", params)
        self.send_notification("notifications/initialized")
        return result

    def message(self, method: str, params: Any, *, is_request: bool) -> dict[str, Any]:
        """Make a message, with its `_meta` in the stateless era."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if is_request:
            self.count += 1
            message["id"] = f"{self.case}-{self.count}"
        meta = dict(self.meta)
        if self.is_stateless and is_request:
            meta |= {
                META + "protocolVersion": self.era,
                META + "clientInfo": {"name": "raw", "version": "1"},
                META + "clientCapabilities": self.capabilities,
            }
        if meta or params is not None:
            message["params"] = {**({"_meta": meta} if meta else {}), **(params or {})}
        return message

    def see(self, message: Any, **beside: Any) -> None:
        """Record a received message."""
        self.came.append(
            {**beside, "message": blank(message)} if beside else blank(message)
        )

    def call(self, name: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def ask(self, method: str, params: Any = None) -> Any:
        """Send a request; record all messages up to its response; return the result."""
        return self.exchange(self.message(method, params, is_request=True))

    def send_notification(self, method: str, params: Any = None) -> None:
        self.notify(self.message(method, params, is_request=False))

    def answered(self, message: Any) -> dict[str, Any]:
        outcome = self.answers.get(message["method"], {"code": -32601, "message": "no"})
        key = "error" if "code" in outcome else "result"
        return {"jsonrpc": "2.0", "id": message["id"], key: outcome}

    def exchange(self, message: dict[str, Any]) -> Any:
        raise NotImplementedError

    def notify(self, message: dict[str, Any]) -> None:
        raise NotImplementedError


def is_notification(message: Any) -> bool:
    """Return whether a message is a notification that may arrive at any time."""
    method = message.get("method", "") if isinstance(message, dict) else ""
    return "id" not in message and any(each in method for each in NOTIFICATION_PARTS)


class StdioRaw(Raw):
    def __init__(self, era: str) -> None:
        super().__init__(era)
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), "stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()
        self.process.stdout.close()

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self) -> Any:
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def notify(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def exchange(self, message: Any) -> Any:
        self.notify(message)
        return self.until(message["id"])

    def until(self, id: Any) -> Any:
        while (came := self.read()) is not None:
            if is_notification(came):
                self.notifications.append(came)
                continue
            self.see(came)
            if "method" not in came and came.get("id") == id:
                return came.get("result")
            if "method" in came and "id" in came:
                self.notify(self.answered(came))
        self.see("the server is gone")
        return None

    def send(self, data: bytes) -> None:
        """Send these bytes; record all messages before the response to a request."""
        self.write(data)
        self.ask("vendor/echo")
        self.came.pop()

    def start(self, name: str) -> dict[str, Any]:
        """Call a tool that does not end, up to its progress."""
        message = self.message("tools/call", {"name": name}, is_request=True)
        self.notify(message)
        self.see(self.read())
        return message

    def give_up(self, message: dict[str, Any]) -> None:
        """Cancel that call."""
        self.send_notification(
            "notifications/cancelled", {"requestId": message["id"], "reason": "enough"}
        )

    def listen(self, **filters: Any) -> None:
        if self.is_stateless:
            params = {"notifications": filters}
            self.notify(self.message("subscriptions/listen", params, is_request=True))
            self.next()

    def next(self) -> None:
        """Record the next notification."""
        self.see(self.notifications.popleft() if self.notifications else self.read())

    def unlisten(self) -> None:
        if self.is_stateless:
            id = next(f"{self.case}-{n}" for n in range(self.count, 0, -1))
            self.send_notification("notifications/cancelled", {"requestId": id})


class HttpRaw(Raw):
    """Requests to one server, each over its own connection."""

    def __init__(self, era: str) -> None:
        super().__init__(era)
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), "http"], stderr=subprocess.PIPE, text=True
        )
        line = self.process.stderr.readline()
        self.port = int(re.search(r":(\d+)/", line).group(1))
        self.draining = threading.Thread(target=self.process.stderr.read)
        self.draining.start()
        self.session: str | None = None
        self.stream: Any = None
        self.events: Any = None

    def close(self) -> None:
        self.process.terminate()
        self.draining.join()
        self.process.wait()
        self.process.stderr.close()

    def begin(self, case: str) -> None:
        super().begin(case)
        self.session = None

    def request(
        self, verb: str, body: bytes | None, fields: dict[str, str], path: str = "/mcp"
    ) -> http.client.HTTPResponse:
        """Send one request, and record status and head of its response."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=TIMEOUT_S
        )
        connection.request(verb, path, body, fields)
        response = connection.getresponse()
        head = {
            k.lower(): v for k, v in response.getheaders() if k.lower() not in UNSHOWN
        }
        if "mcp-session-id" in head:
            head["mcp-session-id"] = "*"
        self.came.append({"status": response.status, "head": shown.blank(head)})
        response.connection = connection
        return response

    def fields(self, message: Any) -> dict[str, str]:
        """Return the header fields of a message."""
        fields = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        method = message.get("method") if isinstance(message, dict) else None
        if self.is_stateless and method:
            fields |= {"MCP-Protocol-Version": self.era, "Mcp-Method": method}
            params = message.get("params") or {}
            if name := params.get("name", params.get("uri", params.get("taskId"))):
                fields["Mcp-Name"] = str(name)
            arguments = params.get("arguments")
            if isinstance(arguments, dict) and (city := arguments.get("city")):
                fields["Mcp-Param-City"] = city
        elif self.session is not None:
            fields |= {"MCP-Protocol-Version": self.era, "Mcp-Session-Id": self.session}
        return fields

    def post(self, message: Any, **fields: str) -> Any:
        """Post a message; `Mcp_Name=""` leaves that field out."""
        named = {k.replace("_", "-"): v for k, v in fields.items()}
        head = {k: v for k, v in (self.fields(message) | named).items() if v}
        return self.request("POST", json.dumps(message).encode(), head)

    def notify(self, message: Any) -> None:
        self.body(self.post(message))

    def exchange(self, message: Any, **fields: str) -> Any:
        response = self.post(message, **fields)
        if message["method"] == "initialize":
            self.session = response.headers.get("Mcp-Session-Id")
        return self.body(response)

    def body(self, response: Any) -> Any:
        """Record the body of a response; return the result."""
        if "event-stream" not in (response.headers.get("Content-Type") or ""):
            data = response.read()
            response.connection.close()
            with contextlib.suppress(ValueError):
                self.see(came := json.loads(data))
                return came.get("result") if isinstance(came, dict) else None
            if data:
                self.see(data.decode())
            return None
        result = None
        for came in self.read_events(response):
            if isinstance(came, dict) and "method" not in came:
                result = came.get("result")
        response.connection.close()
        return result

    def read_events(self, response: Any) -> Iterator[Any]:
        """Record each event, and answer the requests."""
        fields: dict[str, str] = {}
        while line := response.readline().decode():
            name, _, value = line.rstrip("\n").partition(":")
            if line == "\n" and fields:
                data = fields.pop("data", "")
                message = json.loads(data) if data else None
                if "id" in fields:
                    fields["id"] = "*"
                self.see(message, event=fields)
                if isinstance(message, dict) and {"id", "method"} <= message.keys():
                    self.notify(self.answered(message))
                yield message
                fields = {}
            elif name:
                fields[name] = value.strip()

    def send(
        self, data: bytes, verb: str = "POST", path: str = "/mcp", **fields: str
    ) -> None:
        """Send these bytes, or none, and record the response."""
        named = {k.replace("_", "-"): v for k, v in fields.items()}
        head = self.fields({}) | named
        head = {k: v for k, v in head.items() if v}
        self.body(self.request(verb, data or None, head, path))

    def start(self, name: str) -> Any:
        """Call a tool that does not end, up to its progress."""
        message = self.message("tools/call", {"name": name}, is_request=True)
        response = self.post(message)
        events = self.read_events(response)
        while (next(events) or {}).get("method") != "notifications/progress":
            pass
        return message, response, events

    def give_up(self, started: Any) -> None:
        message, response, events = started
        if not self.is_stateless:
            params = {"requestId": message["id"], "reason": "enough"}
            self.send_notification("notifications/cancelled", params)
            list(events)
        self.shut(response)

    def shut(self, response: Any) -> None:
        response.close()
        response.connection.close()

    def listen(self, **filters: Any) -> None:
        if self.is_stateless:
            params = {"notifications": filters}
            message = self.message("subscriptions/listen", params, is_request=True)
            self.stream = self.post(message)
        else:
            fields = self.fields({}) | {"Accept": "text/event-stream"}
            self.stream = self.request("GET", None, fields)
        self.events = self.read_events(self.stream)
        if self.is_stateless:
            next(self.events)

    def next(self) -> None:
        """Record the next notification."""
        while next(self.events) is None:
            pass

    def unlisten(self) -> None:
        self.shut(self.stream)


@contextlib.contextmanager
def opened(wire: str, era: str) -> Iterator[Any]:
    """Run the server; it is killed if a client waits for too long."""
    raw = StdioRaw(era) if wire == "stdio" else HttpRaw(era)
    watch = threading.Timer(TIMEOUT_S, raw.process.kill)
    watch.start()
    try:
        yield raw
    finally:
        watch.cancel()
        watch.join()
        raw.close()
