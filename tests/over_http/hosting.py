"""Any server object of ours over HTTP, so that in-memory tests also run over HTTP.

    with hosted(server, "sse") as host:
        ...  # host.url

The object (anything with `open_in_memory`) runs on a loop in a thread of its own, and
its lines are passed on unread, but for who gets them: one channel in memory for each
session, one for all requests that stand alone. How a message opens decides its era
(2026-07-28 basic/versioning): with a version in `_meta` it stands alone, `initialize`
without begins a session.

Modes: "json" (answers as JSON, unless something comes before the answer), "sse", and
"legacy" (HTTP+SSE of 2024-11-05).
"""

import asyncio
import collections
import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import mcp_rules
from http_bytes import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head
from mcp_methods import SUBSCRIPTION_KEY
from raw_server import Connection, RawRequest, Served, raw_server

from mcpwire.limits import DEFAULT_LIMITS

Message = dict[str, Any]

STATUSES: Final = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}
"""Where requests stand alone: code -> HTTP status; else 200."""

STOP_S: Final = 30.0


class Outlet:
    """Where messages of the server go: the response to a POST, or a GET stream."""

    def __init__(self, message: Message | None = None) -> None:
        self.id = None if message is None else message["id"]
        meta = ((message or {}).get("params") or {}).get("_meta") or {}
        self.token = meta.get("progressToken")
        self.is_call = (message or {}).get("method") != "subscriptions/listen"
        self.waiting: collections.deque[Message] = collections.deque()
        self.is_over = False
        self.conn: Connection | None = None

    def put(self, message: Message, *, is_last: bool = False) -> None:
        self.waiting.append(message)
        self.end(is_over=is_last)

    def end(self, *, is_over: bool = True) -> None:
        """End after the queued messages."""
        self.is_over = self.is_over or is_over
        if self.conn is not None:
            self.conn.nudge()


class Wire:
    """One channel in memory to the server object, as lines; lives on the loop."""

    def __init__(self, host: "Host", id: str | None) -> None:
        self.host = host
        self.id = id
        self.version: str | None = None
        self.outlets: dict[Any, Outlet] = {}
        self.stream = Outlet()
        self.is_closed = False
        self._near = host.server.open_in_memory(self, DEFAULT_LIMITS)
        self._near.receive = self.receive
        self._near.is_scripted = True

    def send(self, message: Message) -> None:
        self._near.transmit(json.dumps(message).encode() + b"\n")

    def receive(self, data: bytes) -> None:
        """Route messages of the server to their outlets."""
        for line in data.splitlines():
            message = json.loads(line)
            if "method" in message:
                self.outlet_of(message).put(message)
            elif (outlet := self.outlets.pop(message.get("id"), None)) is not None:
                self.host.answered(self, outlet, message)
                outlet.put(message, is_last=True)

    def outlet_of(self, message: Message) -> Outlet:
        """Return the outlet for a message that is not a response."""
        params = message.get("params") or {}
        method = message["method"]
        if method == "notifications/progress":
            token = params["progressToken"]
            found = [o for o in self.outlets.values() if o.token == token]
            return found[0] if found else self.stream
        subscription = (params.get("_meta") or {}).get(SUBSCRIPTION_KEY)
        if subscription is not None:
            return self.outlets.get(subscription, self.stream)
        belongs = "id" in message or method in BELONGING or self.id is None
        calls = [each for each in self.outlets.values() if each.is_call]
        newest = calls[-1] if calls else None
        return newest if belongs and newest is not None else self.stream

    def lost(self, error: Exception) -> None:
        """Record that the server object has closed the channel."""
        self.is_closed = True
        self.host.sessions.pop(self.id, None)
        for outlet in (*self.outlets.values(), self.stream):
            outlet.end()
        self.outlets.clear()

    async def aclose(self) -> None:
        if not self.is_closed:
            self.lost(ConnectionError())
            await self._near.aclose()

    def notification(self, *_: Any) -> None: ...
    def request(self, *_: Any) -> None: ...
    def cancelled(self, *_: Any) -> None: ...


BELONGING: Final = frozenset({"notifications/message", "notifications/cancelled"})
"""Notifications that go with the newest request in flight."""


class Host(Served):
    """Serves one object over HTTP; see the module's text.

    Attributes:
        sessions: The wires of sessions, by id.
        alone: The wires of stateless requests; one, unless ids collide.
        complaints: Rule violations of the client; they fail the test.
    """

    def __init__(self, server: Any, mode: str) -> None:
        self.server = server
        self.mode = mode
        self.complaints: list[str] = []
        self.sessions: dict[str | None, Wire] = {}
        self.alone: list[Wire] = []
        self.tools: list[Message] = []
        self._counter = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="host", daemon=True)
        self.thread.start()

    # The loop...

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def do(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function, or a coroutine function, on the loop; return its result."""

        async def run() -> Any:
            result = function(*args)
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(STOP_S)

    async def _close_wires(self) -> None:
        for wire in (*self.sessions.values(), *self.alone):
            await wire.aclose()
        self.alone.clear()

    async def _finish(self) -> None:
        await self._close_wires()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            # The server object stops its handlers itself after the end of the channel.
            _, rest = await asyncio.wait(rest, timeout=0.5)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def stop(self) -> None:
        try:
            self.do(self._finish)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self.thread.join(STOP_S)
            self._loop.close()

    # Requests...

    def serve(self, conn: Connection) -> None:
        while request := conn.receive(None):
            if self.mode == "legacy":
                self._serve_legacy(request, conn)
            elif request.verb == "POST":
                self._post(request, conn)
            else:
                self._serve_session(request, conn)

    def _post(self, request: RawRequest, conn: Connection) -> None:
        message = request.json
        self.complaints += mcp_rules.of_any_post(request)
        if mcp_rules.is_modern(request):
            refusal = mcp_rules.header_refusal(request, self.tools)
            if refusal is not None and "id" in message:
                answer = {"jsonrpc": "2.0", "id": message["id"], "error": refusal[1]}
                conn.send(json_reply(answer, refusal[0]))
                return
            self._pass_on(self.do(self._wire_for, message), message, conn)
        elif message.get("method") == "initialize":
            self.complaints += mcp_rules.of_initialize(request)
            id = f"session-{next(self._counter)}"
            self._pass_on(self.do(Wire, self, id), message, conn)
        elif (wire := self._session_of(request, conn)) is not None:
            self._pass_on(wire, message, conn)

    def _wire_for(self, message: Message) -> Wire:
        """Return a wire on which the id is free, and reserve the id."""
        for wire in tuple(self.alone):
            if wire.is_closed:
                self.alone.remove(wire)
            elif message.get("id") not in wire.outlets:
                break
        else:
            wire = Wire(self, None)
            self.alone.append(wire)
        if "id" in message:
            # Immediately: the next request may have the same id.
            wire.outlets[message["id"]] = Outlet(message)
        return wire

    def _session_of(self, request: RawRequest, conn: Connection) -> Wire | None:
        id = request.headers.get("mcp-session-id")
        wire = self.sessions.get(id)
        if wire is not None:
            self.complaints += mcp_rules.of_session(request, wire.version or "")
            return wire
        status = 400 if id is None else 404
        error = {"code": -32000, "message": "Bad Request: no such session"}
        conn.send(json_reply({"jsonrpc": "2.0", "id": None, "error": error}, status))
        return None

    def answered(self, wire: Wire, outlet: Outlet, message: Message) -> None:
        """Record what a response means for HTTP: the tools, or the session."""
        result = message.get("result") or {}
        if "tools" in result:
            self.tools = result["tools"]
        elif "protocolVersion" in result:
            wire.version = result["protocolVersion"]
            self.sessions[wire.id] = wire

    def _pass_on(self, wire: Wire, message: Message, conn: Connection) -> None:
        if "method" not in message or "id" not in message:
            self.do(self._deliver, wire, message)
            conn.send(reply(202))
            return
        outlet = Outlet(message)
        outlet.conn = conn
        self.do(self._begin, wire, outlet, message)
        is_alone = wire in self.alone
        stays = self._answer(wire, outlet, conn, is_alone=is_alone)
        if not stays:
            self.do(self._left, wire, outlet, is_alone)

    def _begin(self, wire: Wire, outlet: Outlet, message: Message) -> None:
        if wire.is_closed:
            outlet.end()
            return
        wire.outlets[outlet.id] = outlet
        wire.send(message)

    def _deliver(self, wire: Wire, message: Message) -> None:
        if not wire.is_closed:
            wire.send(message)
        if message.get("method") == "notifications/cancelled":
            outlet = wire.outlets.pop(message["params"].get("requestId"), None)
            if outlet is not None:
                outlet.end()

    def _left(self, wire: Wire, outlet: Outlet, is_alone: bool) -> None:  # noqa: FBT001
        if wire.outlets.get(outlet.id) is outlet and is_alone:
            del wire.outlets[outlet.id]
            params = {"requestId": outlet.id}
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
            wire.send({**cancelled, "params": params})

    def _answer(
        self, wire: Wire, outlet: Outlet, conn: Connection, *, is_alone: bool
    ) -> bool:
        """Send an outlet's messages to the client; False if the client leaves."""

        def is_idle() -> bool:
            return not outlet.waiting and not outlet.is_over

        if not conn.wait_while(is_idle, None):
            return False
        if not outlet.waiting:  # cancelled, or the server object is gone
            conn.close()
            return True
        first = outlet.waiting[0]
        fields = {}
        if (first.get("result") or {}).get("protocolVersion") and wire.id is not None:
            fields["mcp_session_id"] = wire.id
        if "method" not in first and (self.mode == "json" or "error" in first):
            code = (first.get("error") or {}).get("code")
            status = STATUSES.get(code, 200) if is_alone or not wire.version else 200
            conn.send(json_reply(first, status, **fields))
            return True
        conn.send(sse_head(**fields))
        return self._stream(outlet, conn)

    def _stream(self, outlet: Outlet, conn: Connection) -> bool:
        """Send messages as events until the outlet ends; False if the client leaves."""
        while True:
            while outlet.waiting:
                event = sse_event(outlet.waiting.popleft(), event="message")
                conn.send(chunk(event))
            if outlet.is_over:
                conn.send(LAST_CHUNK)
                return True
            if not conn.wait_while(
                lambda: not outlet.waiting and not outlet.is_over, None
            ):
                return False

    def _serve_session(self, request: RawRequest, conn: Connection) -> None:
        wire = self._session_of(request, conn)
        if wire is None:
            return
        if request.verb == "DELETE":
            self.do(wire.aclose)
            conn.send(head(204))
            return
        self.complaints += mcp_rules.of_get(request)
        self._hold(wire, conn)

    def _hold(self, wire: Wire, conn: Connection, first: bytes = b"") -> None:
        if wire.stream.conn is not None and wire.stream.conn is not conn:
            # 2025-11-25 allows several streams; here the newest one gets everything.
            wire.stream.conn.cut()
        wire.stream.conn = conn
        conn.send(sse_head() + first)
        try:
            self._stream(wire.stream, conn)
        finally:
            if wire.stream.conn is conn:
                wire.stream.conn = None

    # ... and requests of HTTP+SSE.

    def _serve_legacy(self, request: RawRequest, conn: Connection) -> None:
        id = request.target.partition("?session=")[2]
        wire = self.sessions.get(id)
        if request.verb == "GET" and request.target == self.raw.path:
            id = f"legacy-{next(self._counter)}"
            wire = self.sessions[id] = self.do(LegacyWire, self, id)
            event = sse_event(f"/messages?session={id}", event="endpoint")
            try:
                self._hold(wire, conn, chunk(event))
            finally:
                self.do(wire.aclose)
        elif request.verb != "POST" or request.target == self.raw.path:
            conn.send(reply(405, allow="GET"))
        elif wire is None:
            conn.send(reply(404))
        else:
            self.do(wire.send, request.json)
            conn.send(reply(202, b"Accepted", content_type="text/plain"))


class LegacyWire(Wire):
    """A channel whose messages all go to one stream."""

    def receive(self, data: bytes) -> None:
        for line in data.splitlines():
            self.stream.put(json.loads(line))


@contextlib.contextmanager
def hosted(server: Any, mode: str = "json") -> Iterator[Host]:
    host = Host(server, mode)
    try:
        with raw_server(host.serve, starts=host.take):
            yield host
    finally:
        host.stop()
    assert not host.complaints, "\n".join(host.complaints)
