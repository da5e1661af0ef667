"""The record's peer over HTTP: Streamable HTTP in both eras, and HTTP+SSE."""

import contextlib
import json
import queue
import select
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from record.peer import OLDEST, Fail, Leave, Peer, Raw, Reply, Silence, failure, run


class HttpPeer(Peer):
    """The peer over HTTP; it records heads and messages."""

    session = "session-1"

    def __init__(self, era, **options):
        super().__init__(era, **options)
        self.waiting = {}
        self.streams = {}
        self.lock = threading.Lock()

    def push(self, id, message):
        self.streams[id].put(message)


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server_version, sys_version = "peer", ""

    @property
    def peer(self):
        return self.server.peer

    def log_message(self, *_):
        """Log nothing."""

    def note(self, body=None):
        fields = {name.lower(): value for name, value in self.headers.items()}
        with self.peer.lock:
            self.peer.seen.append([self.command, self.path, fields, body])

    def reply(self, status, body=b"", **fields):
        self.send_response_only(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_DELETE(self):
        self.note()
        self.reply(200)

    def do_GET(self):
        self.note()
        if self.peer.is_stateless or self.peer.options.get("no_get"):
            self.reply(405, Allow="POST")
            return
        is_legacy = self.peer.era == OLDEST
        outgoing = self.peer.streams[None] = queue.SimpleQueue()
        self.begin_stream()
        if is_legacy:
            self.write_event("/messages", "endpoint")
        with self.peer.changed:
            self.peer.listeners[None] = {}
            self.peer.flush()
        self.relay(outgoing, None)
        self.peer.listeners.pop(None, None)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.peer.era == OLDEST and self.path != "/messages":
            self.note()
            self.reply(405, Allow="GET")
            return
        message = json.loads(body)
        self.note(message)
        known = self.headers.get("Mcp-Session-Id") in {None, self.session}
        if not known:
            self.reply(404)
        elif "method" not in message:
            self.accepted()
            self.go_on(*self.peer.waiting.pop(message["id"]), message)
        elif "id" in message:
            self.answer(message)
        else:
            self.peer.note_message(message)
            self.accepted()

    @property
    def session(self):
        return f"session-{self.peer.begun}"

    def accepted(self):
        self.reply(202)

    def answer(self, message):
        id = message["id"]
        is_legacy = self.peer.era == OLDEST
        outgoing = self.peer.streams[None] if is_legacy else queue.SimpleQueue()
        self.peer.streams[id] = outgoing
        if is_legacy:
            self.accepted()
        self.go_on(id, self.peer.answer(message), None)
        if is_legacy:
            return
        first = outgoing.get() if not outgoing.empty() else None
        if type(first) is dict and "method" not in first:
            fields = (
                {"Mcp_Session_Id": self.session}
                if message["method"] == "initialize"
                else {}
            )
            status = (
                404
                if self.peer.is_stateless
                and first.get("error", {}).get("code") == -32601
                else 200
            )
            self.reply(
                status,
                json.dumps(first).encode(),
                Content_Type="application/json",
                **fields,
            )
        elif type(first) is Leave:
            self.close_connection = True
        elif type(first) is Raw:
            self.reply(200, first.args[0].encode(), Content_Type="application/json")
        elif type(first) is Reply:
            status, fields, body = first.args
            self.reply(status, body.encode(), **fields)
        else:
            self.begin_stream()
            if first is not None:
                self.write_event(first)
            self.relay(outgoing, id)

    def go_on(self, id, steps, value):
        outgoing = self.peer.streams[id]
        try:
            self.peer.waiting[run(steps, value, outgoing.put)] = id, steps
        except StopIteration as end:
            outgoing.put({"jsonrpc": "2.0", "id": id, "result": end.value})
        except Fail as error:
            outgoing.put({"jsonrpc": "2.0", "id": id, "error": failure(error)})
        except (Leave, Raw, Reply) as error:
            outgoing.put(error)
        except Silence:
            pass

    def begin_stream(self):
        self.send_response_only(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        self.wfile.flush()

    def write_event(self, data, event="message"):
        data = data if type(data) is str else json.dumps(data)
        self.wfile.write(f"event: {event}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def relay(self, outgoing, id):
        """Write messages until the response is sent or the client disconnected."""
        while True:
            with contextlib.suppress(queue.Empty):
                message = outgoing.get(timeout=0.005)
                if type(message) is Leave:
                    return
                with contextlib.suppress(OSError):
                    self.write_event(message)
                if (
                    id is not None
                    and message.get("id") == id
                    and "method" not in message
                ):
                    return
                continue
            if select.select([self.connection], [], [], 0)[0]:
                self.peer.note_gone(id)
                return


class WebServer(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64

    def handle_error(self, *_):
        """A disconnected client is not an error."""


@contextlib.contextmanager
def serve(era, **options):
    """Serve over HTTP in threads; all threads have ended on exit."""
    server = WebServer(("127.0.0.1", 0), Handler)
    server.peer = HttpPeer(era, **options)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.peer, server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
