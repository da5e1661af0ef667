"""A server of 2024-11-05's HTTP+SSE: a GET stream of messages, and a POST endpoint.

    with legacy_server() as server:
        ...  # server.url is that of the stream

`endpoint` is what the first event names, to be tried with what no server should name;
`on` is keyed by JSON-RPC method, or by "POST" and "GET", as in `mcp_server`.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

from http_bytes import LAST_CHUNK, chunk, json_reply, reply, sse_event, sse_head
from raw_server import Connection, RawRequest, Served, raw_server

VERSION: Final = "2024-11-05"
CAPABILITIES: Final = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}


class LegacyServer(Served):
    """Responds as a server of 2024-11-05 does.

    Attributes:
        executed: Each run of a tool's body: name, arguments, id of the request.
        streams: The open streams, by session.
    """

    def __init__(
        self, *, endpoint: str | Callable[[str], str] = "/messages?session={session}"
    ) -> None:
        self.endpoint = endpoint
        self.on: dict[str, Callable[[RawRequest, Connection], Any]] = {}
        self.executed: list[tuple[str, dict[str, Any], Any]] = []
        self.answered: dict[Any, Any] = {}
        self.streams: dict[str, Connection] = {}
        self._counter = itertools.count(1)

    # Streams...

    def push(self, message: dict[str, Any], session: str | None = None) -> None:
        """Send a message on a session's stream, else on the newest one."""
        session = session or list(self.streams)[-1]
        self.send(session, sse_event({"jsonrpc": "2.0", **message}, event="message"))

    def send(self, session: str, data: bytes) -> None:
        with contextlib.suppress(KeyError, OSError):  # the client left
            self.streams[session].send(chunk(data))

    def close_streams(self, *, clean: bool = True, reset: bool = False) -> None:
        for conn in tuple(self.streams.values()):
            if clean and not reset:
                conn.send(LAST_CHUNK)
            conn.cut(reset=reset)

    # ... and responses to requests.

    def serve(self, conn: Connection) -> None:
        while request := conn.receive(None):
            handler = self.on.get(request.verb)
            if handler is not None and handler(request, conn):
                continue
            if request.verb == "GET":
                self._stream(conn)
                return
            if request.target == self.raw.path:
                conn.send(reply(405, allow="GET"))
            else:
                self._post(request, conn)

    def _stream(self, conn: Connection) -> None:
        session = f"s{next(self._counter)}"
        named = self.endpoint
        text = named(session) if callable(named) else named.format(session=session)
        self.streams[session] = conn
        try:
            conn.send(sse_head() + chunk(sse_event(text, event="endpoint")))
            self.raw.wake()
            conn.wait_closed(None)
        finally:
            del self.streams[session]
            self.raw.wake()

    def _post(self, request: RawRequest, conn: Connection) -> None:
        session = request.target.rpartition("=")[2]
        message = request.json
        method = message.get("method")
        handler = self.on.get(method)
        if handler is not None and handler(request, conn):
            return
        if session not in self.streams:
            error = {"code": -32000, "message": "no such session"}
            conn.send(json_reply({"jsonrpc": "2.0", "id": None, "error": error}, 404))
            return
        conn.send(reply(202, b"Accepted", content_type="text/plain"))
        if method is None:
            self.answered[message["id"]] = message
            self.raw.wake()  # the request woke waiters before this entry existed
        elif "id" in message:
            outcome = self._outcome(message, message.get("params") or {})
            self.push({"id": message["id"], **outcome}, session)

    def _outcome(self, message: dict[str, Any], params: dict[str, Any]) -> Any:
        method = message["method"]
        if method == "initialize":
            return {
                "result": {
                    "protocolVersion": VERSION,
                    "capabilities": CAPABILITIES,
                    "serverInfo": {"name": "legacy", "version": "1"},
                }
            }
        if method == "tools/list":
            schema = {"type": "object"}
            return {"result": {"tools": [{"name": "echo", "inputSchema": schema}]}}
        if method == "tools/call":
            arguments = params.get("arguments") or {}
            self.executed.append((params["name"], arguments, message["id"]))
            content = {"type": "text", "text": str(arguments.get("text", ""))}
            return {"result": {"content": [content]}}
        if method in {"ping", "resources/subscribe", "logging/setLevel"}:
            return {"result": {}}
        return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


@contextlib.contextmanager
def legacy_server(*, ssl_context: Any = None, **options: Any) -> Iterator[LegacyServer]:
    server = LegacyServer(**options)
    with raw_server(
        server.serve, starts=server.take, path="/sse", ssl_context=ssl_context
    ):
        yield server
