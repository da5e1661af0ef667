"""A well-behaved threaded MCP server over HTTP, with each step replaceable.

    with scripted_mcp(era="session", replies="sse") as server:
        server.on["tools/call"] = lambda request, conn: conn.send(reply(500)) or True
        ...  # server.url, server.requests, server.connections, server.executed

`on` is keyed by JSON-RPC method, or by "POST", "GET", "DELETE" and "answer" (the answer
to a request of ours); what a function there returns says whether it has dealt with the
request. Its tools: `echo` (text), `slow` (until `release`, or `seconds`), `notify`
(`steps`: progress and a log message before the answer), `ask` (samples: on the call's
own stream, or with `over="get"` on the GET stream; by input requests where there are no
sessions), `fail` (`isError`) and `mirrored` (`region` travels in a header, too).
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Any, Final

import mcp_rules
from http_bytes import head, json_reply, reply
from mcp_methods import INFO, LATEST, METHODS, SESSION_VERSIONS, SUBSCRIPTION_KEY, Call
from mcp_streams import Stream
from raw_server import Served, raw_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from raw_server import Connection, RawRequest

    Handler = Callable[[RawRequest, Connection], Any]

CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
}


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


TOOLS: Final = [
    tool("echo", text={"type": "string"}),
    tool("slow", seconds={"type": "number"}),
    tool("notify", steps={"type": "integer"}),
    tool("ask", over={"type": "string"}),
    tool("fail"),
    tool("mirrored", region={"type": "string", "x-mcp-header": "Region"}),
]


class Session:
    def __init__(self, id: str | None, version: str) -> None:
        self.id = id
        self.version = version
        self.streams: dict[str, Stream] = {}


class ScriptedMcp(Served):
    """Responds like a server of its era; see the module's text.

    Attributes:
        era: "session" or "stateless"; "dual" is both on one URL.
        executed: Each run of a tool's body: name, arguments, id of the request.
        cancelled: The ids of requests that the client cancelled.
        complaints: Rule violations of the client; they fail the test.
    """

    def __init__(
        self,
        era: str = "session",
        *,
        replies: str = "json",
        session_ids: bool = True,
        version: str | None = None,
        get_stream: bool = True,
        resumable: bool = False,
        retry: int | None = None,
        polls: int = 0,
        tools: list[dict[str, Any]] = TOOLS,
        capabilities: dict[str, Any] = CAPABILITIES,
        complains: bool = True,
        closes: bool = False,
    ) -> None:
        self.era = era
        self.replies = replies
        self.session_ids = session_ids
        self.version = version or SESSION_VERSIONS[-1]
        self.get_stream = get_stream
        self.resumable = resumable
        self.retry = retry
        self.polls = polls
        self.tools = list(tools)
        self.capabilities = capabilities
        self.complains = complains
        self.closes = closes
        """Whether each connection ends, unannounced, with its first response."""
        self.on: dict[str, Handler] = {}
        self.executed: list[tuple[str, dict[str, Any], Any]] = []
        self.cancelled: list[Any] = []
        self.complaints: list[str] = []
        self.subscribed: list[str] = []
        self.answered: dict[str, Any] = {}
        self.sessions: dict[str | None, Session] = {}
        self.streams: list[Stream] = []
        """The GET and listen streams that are open, the newest last."""
        self._counter = itertools.count(1)
        self.is_released = False
        self._lock = threading.Lock()

    # What a test inspects and controls...

    def verbs(self) -> list[str]:
        """Return the JSON-RPC method of each request, else its HTTP verb."""
        return [
            (request.method or "answer") if request.verb == "POST" else request.verb
            for request in self.requests
        ]

    def release(self) -> None:
        """Let current and future slow calls continue."""
        self.is_released = True
        for conn in tuple(self.raw.open):
            conn.nudge()

    def forget_sessions(self) -> None:
        """Drop every session, and end its streams."""
        self.sessions.clear()
        self.close_streams()

    def switch(self, era: str) -> None:
        """Switch to another era, as after a deployment."""
        self.era = era
        self.forget_sessions()

    def close_streams(self) -> None:
        for stream in tuple(self.streams):
            stream.break_off()

    def push(self, message: dict[str, Any], timeout: float = 30.0) -> None:
        """Send a message on the newest GET or listen stream, once there is one."""
        self.raw.wait_until(lambda: self.streams, timeout)
        stream = self.streams[-1]
        params = message.get("params")
        if stream.filter is not None:
            meta = {SUBSCRIPTION_KEY: stream.request_id}
            params = {**(params or {}), "_meta": meta}
        stream.send(
            {
                "jsonrpc": "2.0",
                **message,
                **({} if params is None else {"params": params}),
            }
        )

    def next_number(self) -> int:
        """Return a number that was not used before."""
        with self._lock:
            return next(self._counter)

    # Responses to requests...

    def serve(self, conn: Connection) -> None:
        if self.closes:
            conn.cork()
        while request := conn.receive(None):
            if not self._replaced(request.verb, request, conn):
                VERBS[request.verb](self, request, conn)
            if self.closes:
                return

    def _replaced(self, key: str, request: RawRequest, conn: Connection) -> Any:
        handler = self.on.get(key)
        return handler is not None and handler(request, conn)

    def post(self, request: RawRequest, conn: Connection) -> None:
        message = request.json
        if isinstance(message, dict) and "method" not in message:
            key = "answer"
        else:
            key = message["method"] if isinstance(message, dict) else "batch"
        self._complain(mcp_rules.of_any_post(request))
        if self._replaced(key, request, conn):
            return
        if self.is_stateless(request):
            self._post_stateless(request, message, conn)
        else:
            self._post_session(request, message, conn)

    def is_stateless(self, request: RawRequest) -> bool:
        """Tell whether this request meets a server of the stateless era."""
        if self.era == "dual":
            return mcp_rules.is_modern(request)
        return self.era == "stateless"

    def _complain(self, complaints: Iterator[str]) -> None:
        if self.complains:
            self.complaints += complaints

    def _post_stateless(
        self, request: RawRequest, message: dict[str, Any], conn: Connection
    ) -> None:
        if "id" not in message:
            conn.send(reply(202))
            return
        refusal = mcp_rules.refusal(request, LATEST, self.tools, METHODS[LATEST])
        if refusal is not None:
            status, error = refusal
            conn.send(json_reply(_answer(message, error=error), status))
            return
        self.answer(Call(self, None, request, conn))

    def _post_session(
        self, request: RawRequest, message: dict[str, Any], conn: Connection
    ) -> None:
        if mcp_rules.is_modern(request):
            conn.send(json_reply(_refused(f"no such version ({self.version})"), 400))
        elif message.get("method") == "initialize":
            self._complain(mcp_rules.of_initialize(request))
            self._initialize(message, conn)
        elif (session := self.session_of(request, conn)) is not None:
            if "id" not in message or "method" not in message:
                self._accept(message)
                conn.send(reply(202))
            else:
                self.answer(Call(self, session, request, conn))

    def _initialize(self, message: dict[str, Any], conn: Connection) -> None:
        requested = message["params"]["protocolVersion"]
        version = requested if requested in SESSION_VERSIONS else self.version
        version = min(version, self.version)
        id = f"session-{self.next_number()}" if self.session_ids else None
        self.sessions[id] = Session(id, version)
        result = {
            "protocolVersion": version,
            "capabilities": self.capabilities,
            "serverInfo": INFO,
        }
        fields = {} if id is None else {"mcp_session_id": id}
        conn.send(json_reply(_answer(message, result=result), **fields))

    def session_of(self, request: RawRequest, conn: Connection) -> Session | None:
        """Return the session of a request; without one, respond with an error."""
        id = request.headers.get("mcp-session-id")
        session = self.sessions.get(id)
        if session is not None:
            self._complain(mcp_rules.of_session(request, session.version))
        elif id is None:
            conn.send(json_reply(_refused("Mcp-Session-Id is required"), 400))
        else:
            conn.send(json_reply(_refused("Session not found", -32001), 404))
        return session

    def _accept(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.answered[message["id"]] = message
        elif message["method"] == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
        for conn in tuple(self.raw.open):
            conn.nudge()

    def answer(self, call: Call) -> None:
        version = LATEST if call.session is None else call.session.version
        method = METHODS[version].get(call.method)
        if method is None:
            call.fail(-32601, f"Method not found: {call.method}")
        else:
            method(call)

    def get(self, request: RawRequest, conn: Connection) -> None:
        """Respond to a GET: with a new stream, or with a resumed one."""
        if not self.get_stream or self.era == "stateless":
            conn.send(reply(405, allow="POST"))
            return
        session = self.session_of(request, conn)
        if session is None:
            return
        self._complain(mcp_rules.of_get(request))
        last = request.headers.get("last-event-id")
        name, _, place = (last or "").rpartition("/")
        stream = session.streams.get(name)
        if stream is not None:
            stream.open(conn, int(place.partition("-")[0]))
        else:
            stream = self.stream(session, cycles=0)
            stream.open(conn)
        self.hold(stream, conn, is_listed=stream.request_id is None)

    def delete(self, request: RawRequest, conn: Connection) -> None:
        if self.era == "stateless":
            conn.send(reply(405, allow="POST"))
        elif (session := self.session_of(request, conn)) is not None:
            self.sessions.pop(session.id, None)
            conn.send(head(204))

    # ... and helpers for that.

    def stream(self, session: Session | None, *, cycles: int) -> Stream:
        name = f"stream-{self.next_number()}"
        stream = Stream(name, retry=self.retry, cycles=cycles)
        if session is not None:
            stream.is_resumable = self.resumable
            session.streams[name] = stream
        return stream

    def hold(self, stream: Stream, conn: Connection, *, is_listed: bool) -> None:
        """Keep a connection for its stream, until either ends."""
        if is_listed:
            self.streams.append(stream)
            self.raw.wake()
        try:
            conn.wait_while(lambda: stream.is_on(conn), None)
        finally:
            if is_listed:
                self.streams.remove(stream)
                self.raw.wake()


def _answer(message: dict[str, Any], **outcome: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], **outcome}


def _refused(text: str, code: int = -32000) -> dict[str, Any]:
    error = {"code": code, "message": f"Bad Request: {text}"}
    return {"jsonrpc": "2.0", "id": None, "error": error}


VERBS: Final = {
    "POST": ScriptedMcp.post,
    "GET": ScriptedMcp.get,
    "DELETE": ScriptedMcp.delete,
}

SERVER_OPTIONS: Final = ("port", "path", "ssl_context")


@contextlib.contextmanager
def scripted_mcp(era: str = "session", **options: Any) -> Iterator[ScriptedMcp]:
    """Serve a `ScriptedMcp`; the options are its and those of `RawServer`."""
    of_raw = {name: options.pop(name) for name in SERVER_OPTIONS if name in options}
    server = ScriptedMcp(era, **options)
    with raw_server(server.serve, starts=server.take, **of_raw):
        yield server
    assert not server.complaints, "\n".join(server.complaints)
