"""The null server: an MCP server of minimal cost to measure clients and generators.

::

    python -I null.py --stdio
    python -I null.py --http [--sse]

It parses only ``id`` and ``method`` of a message and answers with fixed bytes. It
serves both eras: `initialize` opens a session in the requested version, and a request
with its version in ``_meta`` gets the answer of 2026-07-28.

``--http`` listens on 127.0.0.1, prints the port on the first line, and answers with
JSON, or with ``--sse`` as an event stream. The server exits when its stdin ends.

``--legacy``          sessions only: `server/discover` is an unknown method
``--bytes N``         the text of `tools/call` has N characters
``--stall AT,FOR``    sleep once for FOR seconds, AT seconds after the first request
``--delay SECONDS``   use this much more CPU time for each `tools/call`
``--record FILE``     append one line of JSON on exit: the requests of the client
``--watch``           read the client's process id from a line on standard input

It runs as a script and imports only the standard library, for a fast start.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import select
import signal
import socket
import sys
import time
from array import array

TYPE_CHECKING = False  # the module typing costs more than the rest of the start
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn

LEGACY_VERSION: Final = "2025-11-25"
MODERN_VERSION: Final = "2026-07-28"
PATH: Final = "/mcp"
TOOL: Final = "echo"
TEXT: Final = "hello"

READ_SIZE: Final = 64 * 1024
BACKLOG: Final = 1024

# The usual order of members; any other order is parsed as JSON.
_HEAD: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","id":("[^"\\]*"|-?\d+),"method":"([^"\\]*)"'
)
_VERSION: Final = re.compile(rb'"protocolVersion"\s*:\s*("[^"\\]*")')
_MODERN: Final = b'"io.modelcontextprotocol/protocolVersion"'
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)

_SERVER: Final = {"name": "null", "version": "1"}
_CAPABILITIES: Final[dict[str, Any]] = {"tools": {}}
_SCHEMA: Final = {"type": "object", "properties": {"text": {"type": "string"}}}
_TOOL: Final = {
    "name": TOOL,
    "description": "Return a fixed text",
    "inputSchema": _SCHEMA,
}
_CACHEABLE: Final = {"ttlMs": 0, "cacheScope": "public"}

_SESSION: Final = b"Mcp-Session-Id: 00000000-0000-4000-8000-000000000000\r\n"
_EMPTY: Final = b"Content-Length: 0\r\n\r\n"
_ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\n" + _EMPTY
_DELETED: Final = b"HTTP/1.1 200 OK\r\n" + _EMPTY
_NOT_ALLOWED: Final = (
    b"HTTP/1.1 405 Method Not Allowed\r\nAllow: POST, DELETE\r\n" + _EMPTY
)
_NO_LENGTH: Final = b"HTTP/1.1 411 Length Required\r\nConnection: close\r\n" + _EMPTY
_EVENTS: Final = (
    b"Content-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n%x\r\nevent: message\ndata: %b\n\n\r\n0\r\n\r\n"
)
_JSON: Final = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


def parse_request(message: bytes) -> tuple[bytes, bytes] | None:
    """Return id (as JSON) and method of a request, or None for any other message."""
    if match := _HEAD.match(message):
        return match[1], match[2]
    try:
        value = json.loads(message)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    method, id = value.get("method"), value.get("id")
    if not isinstance(method, str) or not isinstance(id, (str, int, float)):
        return None
    return json.dumps(id).encode(), method.encode(errors="replace")


def _response_tail(member: str, value: dict[str, Any]) -> bytes:
    return f',"{member}":{json.dumps(value, separators=(",", ":"))}}}'.encode()


class Answers:
    """The part of each response after the id, by method and era."""

    def __init__(self, text: str, *, legacy: bool) -> None:
        results: dict[str, dict[str, Any]] = {
            "tools/call": {"content": [{"type": "text", "text": text}]},
            "tools/list": {"tools": [_TOOL]},
            "ping": {},
        }
        self.legacy = {
            name.encode(): _response_tail("result", r) for name, r in results.items()
        }
        self.modern: dict[bytes, bytes] = {}
        unknown = {"code": -32601, "message": "Method not found"}
        self.unknown = _response_tail("error", unknown)
        if legacy:
            return
        results["tools/list"] |= _CACHEABLE
        results["server/discover"] = {
            "supportedVersions": [MODERN_VERSION],
            "capabilities": _CAPABILITIES,
            **_CACHEABLE,
        }
        meta = {"io.modelcontextprotocol/serverInfo": _SERVER}
        for name, result in results.items():
            complete = {"resultType": "complete", **result, "_meta": meta}
            self.modern[name.encode()] = _response_tail("result", complete)

    def find(self, method: bytes, message: bytes) -> bytes | None:
        """Return the part after the id, or None if the method is unknown."""
        if method == b"initialize":
            match = _VERSION.search(message)
            version = json.loads(match[1]) if match else LEGACY_VERSION
            result = {
                "protocolVersion": version,
                "capabilities": _CAPABILITIES,
                "serverInfo": _SERVER,
            }
            return _response_tail("result", result)
        if method == b"server/discover" or _MODERN in message:
            return self.modern.get(method)
        return self.legacy.get(method)


class Record:
    """Counts and times of a client's requests, written as one JSON line on exit."""

    def __init__(self, path: str, client: int | None) -> None:
        self.file = open(path, "a", encoding="utf-8")  # noqa: PTH123, SIM115 (fast start)
        fcntl.flock(self.file, fcntl.LOCK_SH)  # held to the end of the process
        self.methods: dict[str, int] = {}
        self.octets = {"in": 0, "out": 0}
        self.first_ns = self.last_ns = self.received_ns = self.written_ns = 0
        self.reads = self.overlapping = 0
        self.is_call = False
        self.turnaround = array("q")
        self.client = client
        self.client_cpu_ns: dict[int, int] = {}
        self.cpu_ns = [0, 0]

    def record_read(self) -> None:
        """Record the time of a read."""
        self.received_ns = time.monotonic_ns()
        self.is_call = False

    def count_request(self, method: bytes, octets_in: int, octets_out: int) -> None:
        """Count a request and its response."""
        name = method.decode(errors="replace")
        self.methods[name] = self.methods.get(name, 0) + 1
        if name != "tools/call":
            return
        self.is_call = True
        self.octets["in"] += octets_in
        self.octets["out"] += octets_out
        if not self.first_ns:
            self.first_ns = self.received_ns
            if self.client is None:
                self.client = int(os.read(0, READ_SIZE) or b"0")
            self.client_cpu_ns = dict.fromkeys(process_tree(self.client), 0)
            self.cpu_ns[0] = self.client_cpu()
        self.last_ns = self.received_ns
        self.cpu_ns[1] = self.client_cpu()

    def client_cpu(self) -> int:
        """Return the CPU time of the client's processes, including finished ones."""
        for pid, before in self.client_cpu_ns.items():
            self.client_cpu_ns[pid] = max(before, process_cpu_ns(pid))
        return sum(self.client_cpu_ns.values())

    def record_overlap(self, requests: int, poller: select.poll) -> None:
        """Record, before responses are written, whether calls overlap."""
        if not self.is_call:
            self.written_ns = 0
            return
        self.reads += 1
        if requests > 1 or any(events & select.POLLIN for _, events in poller.poll(0)):
            self.overlapping += 1
        elif self.written_ns:
            self.turnaround.append(self.received_ns - self.written_ns)

    def record_written(self) -> None:
        """Record when responses to calls were written."""
        if self.is_call:
            self.written_ns = time.monotonic_ns()

    def write(self) -> None:
        """Append the record to the file."""
        ordered = sorted(self.turnaround)
        line = {
            "methods": self.methods,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "octets_in": self.octets["in"],
            "octets_out": self.octets["out"],
            "reads": self.reads,
            "overlapping": self.overlapping,
            "turnaround_ns": [percentile(ordered, 0.5), percentile(ordered, 0.99)],
            "client_cpu_ns": self.cpu_ns,
            "cpu_ns": time.process_time_ns(),
        }
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def percentile(ordered: list[int], share: float) -> int | None:
    """Return the nearest-rank percentile."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def process_tree(pid: int) -> list[int]:
    """Return a process and its descendants, without the current process."""
    pids = [pid]
    for parent in pids:
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208 (fast start)
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                    pids += [int(word) for word in file.read().split()]
        except OSError:
            continue  # not Linux, or the process has just exited
    return [each for each in pids if each != os.getpid()]


def process_cpu_ns(pid: int) -> int:
    """Return the CPU time of another process, or 0 where it is not available.

    The clock is `clock_getcpuclockid` of POSIX; its number is computed as on Linux.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


class NullServer:
    """Creates responses, with delays as its options specify."""

    def __init__(self, options: dict[str, str]) -> None:
        size = options.get("--bytes")
        text = TEXT if size is None else "x" * int(size)
        self.answers = Answers(text, legacy="--legacy" in options)
        self.sse = "--sse" in options
        self.delay_s = float(options.get("--delay", "0"))
        at, _, length = options.get("--stall", "inf,0").partition(",")
        self.stall_at_s, self.stall_s = float(at), float(length)
        self.began_s = 0.0
        path = options.get("--record")
        client = None if "--watch" in options else os.getppid()
        self.record = Record(path, client) if path else None
        self.has_delays = "--stall" in options or "--delay" in options

    def wait(self, method: bytes) -> None:
        """Sleep once for ``--stall``; use the CPU time of ``--delay`` for a call."""
        now = time.monotonic()
        self.began_s = self.began_s or now
        if now - self.began_s >= self.stall_at_s:
            self.stall_at_s = float("inf")
            time.sleep(self.stall_s)
        if method == b"tools/call":
            deadline = time.process_time() + self.delay_s
            while time.process_time() < deadline:
                pass

    def answer_line(self, line: bytes) -> bytes:
        """Return the response to a line of stdio; empty for other messages."""
        request = parse_request(line)
        if request is None:
            return b""
        id, method = request
        if self.has_delays:
            self.wait(method)
        tail = self.answers.find(method, line) or self.answers.unknown
        answer = b'{"jsonrpc":"2.0","id":%b%b\n' % (id, tail)
        if self.record:
            self.record.count_request(method, len(line) + 1, len(answer))
        return answer

    def answer_post(self, body: bytes, octets: int) -> bytes:
        """Return the complete HTTP response to the body of a POST."""
        request = parse_request(body)
        if request is None:
            return _ACCEPTED
        id, method = request
        if self.has_delays:
            self.wait(method)
        tail = self.answers.find(method, body)
        answer = b'{"jsonrpc":"2.0","id":%b%b' % (id, tail or self.answers.unknown)
        fields = _SESSION if method == b"initialize" else b""
        if tail is None:
            is_discovery = (
                method == b"server/discover"
            )  # then clients fall back to sessions
            status = b"400 Bad Request" if is_discovery else b"404 Not Found"
            status = status if is_discovery or _MODERN in body else b"200 OK"
            response = b"HTTP/1.1 %b\r\n" % status + _JSON % (len(answer), answer)
        elif self.sse:
            size = len(answer) + len("event: message\ndata: \n\n")
            response = b"HTTP/1.1 200 OK\r\n" + fields + _EVENTS % (size, answer)
        else:
            response = b"HTTP/1.1 200 OK\r\n" + fields + _JSON % (len(answer), answer)
        if self.record:
            self.record.count_request(method, octets, len(response))
        return response

    def send(self, fd: int, output: list[bytes], poller: select.poll) -> None:
        """Write all responses to one read together."""
        if self.record:
            self.record.record_overlap(len(output), poller)
        rest = b"".join(output)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if self.record:
            self.record.record_written()


def serve_stdio(server: NullServer) -> None:
    """Answer lines until standard input ends."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    chunks: list[bytes] = []
    while data := os.read(0, READ_SIZE):
        if server.record:
            server.record.record_read()
        chunks.append(data)
        if b"\n" not in data:
            continue
        *lines, rest = b"".join(chunks).split(b"\n")
        chunks = [rest]
        if output := [answer for answer in map(server.answer_line, lines) if answer]:
            server.send(1, output, poller)


class Connection:
    """An HTTP connection of complete requests and responses."""

    def __init__(self, server: NullServer, accepted: socket.socket) -> None:
        self.server = server
        self.socket = accepted
        self.buffer = bytearray()
        self.is_open = True

    def answer_input(self, poller: select.poll) -> None:
        """Read and answer requests; close the connection at its end or on an error."""
        fd = self.socket.fileno()
        try:
            data = os.read(fd, READ_SIZE)
            if self.server.record:
                self.server.record.record_read()
            self.is_open = bool(data)
            self.buffer += data
            if output := self.answer_requests():
                self.server.send(fd, output, poller)
        except OSError:
            self.is_open = False

    def answer_requests(self) -> list[bytes]:
        """Remove all complete requests from the buffer and return their responses."""
        output: list[bytes] = []
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[: end + 2]
            length = _LENGTH.search(head)
            is_post = head.startswith(b"POST ")
            if is_post and not length:
                self.is_open = False
                return [*output, _NO_LENGTH]
            size = end + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < size:
                break
            body = bytes(self.buffer[end + 4 : size])
            del self.buffer[:size]
            if is_post:
                output.append(self.server.answer_post(body, size))
            else:
                output.append(_DELETED if head.startswith(b"DELETE ") else _NOT_ALLOWED)
        return output


def serve_http(server: NullServer) -> None:
    """Serve HTTP on a free port until standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    os.write(1, b"%d\n" % listener.getsockname()[1])
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(listener, select.POLLIN)
    connections: dict[int, Connection] = {}
    while True:
        for fd, _ in poller.poll():
            if connection := connections.get(fd):
                connection.answer_input(poller)
                if not connection.is_open:
                    poller.unregister(fd)
                    connections.pop(fd).socket.close()
            elif fd == listener.fileno():
                accepted, _ = listener.accept()
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[accepted.fileno()] = Connection(server, accepted)
                poller.register(accepted, select.POLLIN)
            elif not (line := os.read(0, READ_SIZE)):
                return
            elif server.record:
                server.record.client = int(line)


def parse_options(arguments: list[str]) -> dict[str, str]:
    """Parse the command line; a switch has an empty value."""
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if word in {"--bytes", "--stall", "--delay", "--record"}:
            options[word] = next(words, "")
        elif word in {"--stdio", "--http", "--sse", "--legacy", "--watch"}:
            options[word] = ""
        else:
            sys.exit(f"null.py: unknown option {word!r}")
    return options


def _exit(_number: int, _frame: object) -> NoReturn:
    sys.exit(0)


def main(arguments: list[str]) -> None:
    """Parse the command line and serve."""
    options = parse_options(arguments)
    server = NullServer(options)
    signal.signal(signal.SIGTERM, _exit)
    try:
        (serve_http if "--http" in options else serve_stdio)(server)
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the client has disconnected
    finally:
        if server.record:
            server.record.write()


if __name__ == "__main__":
    main(sys.argv[1:])
