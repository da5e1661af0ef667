"""HTTP servers that send exactly the bytes of a test, from threads.

    def script(conn):
        request = conn.receive()
        answer = {"jsonrpc": "2.0", "id": request.json["id"], "result": {}}
        conn.send(json_reply(answer))

    with raw_server(script) as server:
        ...  # server.url, server.requests, server.connections

The script runs once per connection, in a thread of its own; when it returns, the
connection ends by FIN. What it raises fails the test where the `with` ends, except that
the client left (`ConnectionError`) and that the server stops (`Stopped`), with which
every wait of a `Connection` ends. Nothing here knows MCP.
"""

import contextlib
import json
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final

import unmeasured
from http_bytes import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head

__all__ = [
    "LAST_CHUNK",
    "Connection",
    "RawRequest",
    "RawServer",
    "Served",
    "Stopped",
    "chunk",
    "head",
    "json_reply",
    "raw_server",
    "reply",
    "sse_event",
    "sse_head",
]

HOST: Final = "127.0.0.1"
WAIT_S: Final = 30.0
STOP_S: Final = 30.0
READ_SIZE: Final = 65536
EVENT_POLL_S: Final = 0.002


OBSERVERS: "Final[list[Callable[[RawServer, RawRequest], None]]]" = []
"""Functions that are called with each request of each server; see `checked`."""


class Stopped(Exception):
    """The server stops while a script waits."""


class RawRequest:
    def __init__(self, head: bytes, body: bytes, connection: int) -> None:
        line, *fields = head.decode("latin-1").split("\r\n")
        self.verb, self.target, self.version = line.split(" ")
        self.fields = [
            (name.lower(), value.strip())
            for name, _, value in (field.partition(":") for field in fields)
        ]
        self.headers: dict[str, str] = {}
        """Values by lower-case name; of repeated ones joined by a comma."""
        for name, value in self.fields:
            known = self.headers.get(name)
            self.headers[name] = value if known is None else f"{known}, {value}"
        self.body = body
        self.raw = head + b"\r\n\r\n" + body
        self.connection = connection
        """The number of its connection; the first is 1."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @cached_property
    def method(self) -> str | None:
        """The JSON-RPC method; None if the body is not such a message.

        Cached: a wait for one of thousands of requests reads it of all of them.
        """
        try:
            return self.json.get("method")
        except (ValueError, AttributeError):
            return None

    def __repr__(self) -> str:
        return f"<{self.verb} {self.target} {self.body[:200]!r}>"


class Connection:
    """The server's end of one connection, for the thread that runs its script."""

    def __init__(self, server: "RawServer", sock: socket.socket, number: int) -> None:
        self.server = server
        self.sock = sock
        self.number = number
        """The first connection's is 1."""
        self.unread = b""
        """Received bytes that are not a whole request yet."""
        self.has_ended = False
        """The client sends no more."""
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)  # an unread byte wakes as well as two
        self._cut: Exception | None = None
        self._resets = False
        sock.setblocking(False)

    # Receiving...

    def receive(self, timeout: float | None = WAIT_S) -> RawRequest | None:
        """Return the next request; None when the client has ended the stream."""
        ends_at = _ends_at(timeout)
        while b"\r\n\r\n" not in self.unread:
            if not self._read(ends_at):
                return None
        head, _, rest = self.unread.partition(b"\r\n\r\n")
        length = int(
            RawRequest(head, b"", self.number).headers.get("content-length", 0)
        )
        if len(rest) < length:
            rest = self._body(head, rest, length, ends_at)
            if rest is None:
                return None
        self.unread = rest[length:]
        request = RawRequest(head, rest[:length], self.number)
        self.server.note(request)
        return request

    def _body(
        self, head: bytes, rest: bytes, length: int, ends_at: float | None
    ) -> bytes | None:
        """Return at least so many bytes behind the head; None when there are no more.

        In linear time; an incomplete body stays unread.
        """
        self.unread = b""
        pieces = [head + b"\r\n\r\n", rest]
        missing = length - len(rest)
        try:
            while missing > 0 and self._read(ends_at):
                missing -= len(self.unread)
                pieces.append(self.unread)
                self.unread = b""
        finally:
            if missing > 0:
                self.unread = b"".join(pieces)
        return None if missing > 0 else b"".join(pieces[1:])

    def wait_closed(self, timeout: float | None = WAIT_S) -> bool:
        """Tell whether the client ends the stream in that time, by FIN or RST."""
        try:
            while self._read(_ends_at(timeout)):
                pass
        except TimeoutError:
            return False
        return True

    def read_some(self, timeout: float | None = WAIT_S) -> bytes:
        """Return all unread bytes, at least one; empty at the end of the stream."""
        if not self.unread:
            self._read(_ends_at(timeout))
        found, self.unread = self.unread, b""
        return found

    def wait_while(
        self, holds: Callable[[], Any], timeout: float | None = WAIT_S
    ) -> bool:
        """Wait until the condition is false; return False if the client leaves before.

        The condition is evaluated again after each `nudge`.
        """
        ends_at = _ends_at(timeout)
        while holds():
            if not self._take():
                self._wait(select.POLLIN, ends_at)
            if self.has_ended:
                return False
        return True

    def _read(self, ends_at: float | None) -> bool:
        """Read the next bytes; tell whether any came before the end."""
        while not self.has_ended and not self._take():
            self._wait(select.POLLIN, ends_at)
        return not self.has_ended

    def _take(self) -> bool:
        """Read the available bytes; tell whether there were any, or the end."""
        try:
            data = self.sock.recv(READ_SIZE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            data = b""
        self.unread += data
        self.has_ended = not data
        return True

    # ... sending...

    def send(self, data: bytes, timeout: float | None = WAIT_S) -> None:
        """Send all bytes; the system decides how they are split."""
        ends_at = _ends_at(timeout)
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT, ends_at)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, ends_at)

    def cork(self) -> None:
        """Hold back sent bytes, so that they leave together with the FIN."""
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)

    def close(self, *, notify: bool = True) -> None:
        """Close the connection by FIN, after a TLS close_notify if `notify`."""
        with contextlib.suppress(OSError):
            while self.sock.recv(READ_SIZE):  # unread bytes would make it an RST
                pass
        if notify and isinstance(self.sock, ssl.SSLSocket):
            with contextlib.suppress(OSError, ValueError):
                self.sock.unwrap()
        self.sock.close()

    def reset(self) -> None:
        with contextlib.suppress(OSError):
            option = struct.pack("ii", 1, 0)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
        self.sock.close()

    # ... and waiting.

    def wait(self, seconds: float) -> None:
        ends_at = _ends_at(seconds)
        with contextlib.suppress(TimeoutError):
            while True:
                self._wait(0, ends_at)

    def wait_for(self, event: threading.Event, timeout: float = WAIT_S) -> None:
        ends_at = time.monotonic() + timeout
        while not event.is_set():
            if time.monotonic() > ends_at:
                raise TimeoutError("the event a script waits for does not come")
            self.wait(EVENT_POLL_S)

    def _wait(self, events: int, ends_at: float | None) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if events:
            poll.register(self.sock, events)
        left = None if ends_at is None else max(0.0, ends_at - time.monotonic()) * 1000
        ready = poll.poll(left)
        with contextlib.suppress(BlockingIOError):  # there was no nudge
            self._wake.recv(READ_SIZE)
        # After the nudge: a cut between the two would go unnoticed.
        if self._cut is not None:
            raise self._cut
        if not ready:
            raise TimeoutError(f"nothing happens on connection {self.number}")

    # Called from other threads and by the server.

    def cut(self, *, reset: bool = False, why: Exception | None = None) -> None:
        """End the connection from any thread, even while its script waits."""
        self._resets = reset
        self._cut = why or ConnectionAbortedError("cut by the test")
        self.nudge()

    def nudge(self) -> None:
        """Let the script evaluate its condition again."""
        with contextlib.suppress(OSError):  # it has ended meanwhile
            self._waker.send(b"!")

    def run(self, script: "Callable[[Connection], None]") -> None:
        """Run the script, and close the connection at its end."""
        try:
            if self._is_welcome():
                script(self)
        except (Stopped, ConnectionError, ssl.SSLEOFError):
            pass  # the client may leave at any time
        except BaseException as error:  # noqa: BLE001 - it fails the test, see `stop`
            self.server.errors.append(error)
        finally:
            self.reset() if self._resets else self.close()
            self._waker.close()
            self._wake.close()

    def _is_welcome(self) -> bool:
        if self.server.ssl_context is None:
            return True
        try:
            self._shake_hands(self.server.ssl_context)
        except (
            OSError
        ) as error:  # a client may refuse the handshake; its test checks these errors
            self.server.handshake_errors.append(error)
            return False
        return True

    def _shake_hands(self, context: ssl.SSLContext) -> None:
        self.sock = sock = context.wrap_socket(
            self.sock, server_side=True, do_handshake_on_connect=False
        )
        while True:
            try:
                return sock.do_handshake()
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, _ends_at(WAIT_S))
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, _ends_at(WAIT_S))


class Served:
    """What a `RawServer` serves: the properties that tests inspect."""

    raw: "RawServer"

    def take(self, raw: "RawServer") -> None:
        """Store the raw server, before the first connection comes."""
        self.raw = raw

    @property
    def url(self) -> str:
        return self.raw.url

    @property
    def requests(self) -> list[RawRequest]:
        return self.raw.requests

    @property
    def connections(self) -> int:
        return self.raw.connections

    def wait_until(self, holds: Callable[[], Any], timeout: float = WAIT_S) -> None:
        """Wait until the condition holds; see `RawServer.wait_until`."""
        self.raw.wait_until(holds, timeout)


class RawServer:
    def __init__(
        self,
        script: Callable[[Connection], None],
        *,
        port: int = 0,
        path: str = "/mcp",
        ssl_context: ssl.SSLContext | None = None,
        accepts: bool = True,
        starts: "Callable[[RawServer], None] | None" = None,
    ) -> None:
        self.script = script
        self.ssl_context = ssl_context
        self.requests: list[RawRequest] = []
        self.connections = 0
        self.open: list[Connection] = []
        """The connections whose scripts run."""
        self.errors: list[BaseException] = []
        self.handshake_errors: list[OSError] = []
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._wake, self._waker = socket.socketpair()
        self._listener = socket.create_server((HOST, port), backlog=128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        scheme = "http" if ssl_context is None else "https"
        self.origin = f"{scheme}://{HOST}:{self.port}"
        self.path = path
        self.url = self.origin + path
        if starts is not None:
            starts(self)
        if accepts:
            self._run(self._accept, "acceptor")

    def wait_until(self, holds: Callable[[], Any], timeout: float = WAIT_S) -> None:
        """Wait, in a thread that may block, until a condition on the server holds."""
        with self._changed:
            if not self._changed.wait_for(holds, timeout):
                raise TimeoutError(f"it does not hold after {timeout} s")

    def wake(self) -> None:
        """Make waiting threads evaluate their conditions again."""
        with self._changed:
            self._changed.notify_all()

    def close_connections(self, *, reset: bool = False) -> None:
        """End every connection, regardless of its script."""
        for conn in tuple(self.open):
            conn.cut(reset=reset)

    def stop_accepting(self) -> None:
        """Refuse new connections from now on."""
        self._waker.close()
        if self._threads:
            self._threads[0].join(STOP_S)
        self._listener.close()
        self._wake.close()

    def note(self, request: RawRequest) -> None:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        for observe in OBSERVERS:
            observe(self, request)

    def _run(self, function: Callable[..., None], name: str, *args: Any) -> None:
        thread = threading.Thread(
            target=unmeasured.run,
            name=f"raw-server-{name}",
            args=(function, *args),
            daemon=True,
        )
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        poll.register(self._listener, select.POLLIN)
        while all(descriptor != self._wake.fileno() for descriptor, _ in poll.poll()):
            try:
                sock, _ = self._listener.accept()
            except OSError:  # the client has left
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self.connections += 1
                conn = Connection(self, sock, self.connections)
                self.open.append(conn)
                self._changed.notify_all()
            self._run(self._serve, f"connection-{conn.number}", conn)

    def _serve(self, conn: Connection) -> None:
        conn.run(self.script)
        self.open.remove(conn)
        self.wake()

    def stop(self) -> None:
        self.stop_accepting()
        for conn in tuple(self.open):
            conn.cut(why=Stopped())
        ends_at = time.monotonic() + STOP_S
        for thread in self._threads:
            thread.join(max(0.0, ends_at - time.monotonic()))
            if thread.is_alive():
                self.errors.append(RuntimeError(f"{thread.name} does not end"))


@contextlib.contextmanager
def raw_server(
    script: Callable[[Connection], None], **options: Any
) -> Iterator[RawServer]:
    """Serve a script; see `RawServer` for the options."""
    server = RawServer(script, **options)
    try:
        yield server
    except BaseException as error:
        server.stop()
        for wrong in server.errors:
            error.add_note(f"a script failed, too: {wrong!r}")
        raise
    server.stop()
    if server.errors:
        for wrong in server.errors[1:]:
            server.errors[0].add_note(f"another script failed, too: {wrong!r}")
        raise server.errors[0]


def _ends_at(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
