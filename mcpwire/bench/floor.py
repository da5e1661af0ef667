"""Measure the minimum cost of a call on this machine over each transport.

Each side does a blocking write and a blocking read of fixed bytes, one call at a time,
without parsing. Both sides are standard library iterators around the system calls, so
no Python bytecode runs between two calls. Both run on one core where the system can pin
a process: waking another core takes ten times as long as a call, and happens in some
runs only.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from itertools import compress, pairwise, repeat, starmap
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire.bench.null import READ_SIZE, percentile, process_cpu_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUEST: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
    b'"params":{"name":"echo","arguments":{"text":"hi"}}}'
)
_ANSWER: Final = (
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}]}}'
)
_POST: Final = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%b"
) % (len(_REQUEST), _REQUEST)
_JSON: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
) % (len(_ANSWER), _ANSWER)
_EVENT: Final = b"event: message\r\ndata: %b\r\n\r\n" % _ANSWER
_SSE: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
) % (len(_EVENT), _EVENT)

KINDS: Final = {
    "pipe": (_REQUEST + b"\n", _ANSWER + b"\n"),
    "socket": (_REQUEST + b"\n", _ANSWER + b"\n"),
    "http": (_POST, _JSON),
    "sse": (_POST, _SSE),
}
"""Request and response for two pipes, a socket pair, and HTTP with JSON or SSE."""

_SERVER: Final = """
import os, sys
from collections import deque
from functools import partial
from itertools import compress, repeat
size, answer = int(sys.argv[1]), sys.argv[2].encode()
reads = iter(partial(os.read, 0, size), b"")
deque(map(os.write, repeat(1), compress(repeat(answer), reads)), maxlen=0)
"""
"""A program that writes the response after each read, until its input ends."""

_SLICE_CALLS: Final = 200
_WARM_UP_CALLS: Final = 50
_EXIT_TIMEOUT_S: Final = 10.0


@attrs.frozen
class Floor:
    """The cost of sequential calls.

    Attributes:
        p50_us: The median duration of a call, in microseconds.
        p99_us: The 99th percentile of this duration.
        calls_per_s: Calls per second.
        client_cpu_us: CPU time of the client for each call, in microseconds.
        server_cpu_us: CPU time of the server for each call; 0 where not available.
        calls: The number of measured calls.
    """

    p50_us: float
    p99_us: float
    calls_per_s: float
    client_cpu_us: float
    server_cpu_us: float
    calls: int


class FloorLoop:
    """A client that repeatedly writes one request and reads its response."""

    def __init__(self, kind: str, pid: int, write_fd: int, read_fd: int) -> None:
        self.pid = pid
        self._write_fd = write_fd
        self._read_fd = read_fd
        self._request, self._answer = KINDS[kind]
        self._durations: list[int] = []
        self._cpu_ns = 0
        self._server_cpu_ns = 0

    def run(self, calls: int) -> list[int]:
        """Make calls; return the start of each and the end of the last, in nanoseconds.

        Raises:
            ConnectionError: The server has exited.
        """
        writes = map(os.write, repeat(self._write_fd), repeat(self._request, calls))
        reads = map(os.read, repeat(self._read_fd), compress(repeat(READ_SIZE), writes))
        clock = starmap(time.perf_counter_ns, repeat(()))
        results = list(zip(clock, map(len, reads), strict=False))
        end = time.perf_counter_ns()
        # So few bytes arrive in one read.
        if any(size != len(self._answer) for _, size in results):
            raise ConnectionError("the server of the floor has ended")
        return [*(start for start, _ in results), end]

    def measure(self, calls: int = _SLICE_CALLS) -> None:
        """Make calls after a warm-up and record their times."""
        self.run(_WARM_UP_CALLS)
        cpu, server_cpu = time.thread_time_ns(), process_cpu_ns(self.pid)
        times = self.run(calls)
        self._cpu_ns += time.thread_time_ns() - cpu
        self._server_cpu_ns += process_cpu_ns(self.pid) - server_cpu
        self._durations += [end - start for start, end in pairwise(times)]

    def floor(self) -> Floor:
        """Return the figures of all measured calls."""
        count, ordered = len(self._durations), sorted(self._durations)
        return Floor(
            p50_us=(percentile(ordered, 0.5) or 0) / 1e3,
            p99_us=(percentile(ordered, 0.99) or 0) / 1e3,
            calls_per_s=count / sum(ordered) * 1e9,
            client_cpu_us=self._cpu_ns / count / 1e3,
            server_cpu_us=self._server_cpu_ns / count / 1e3,
            calls=count,
        )


@contextmanager
def floor_loop(kind: str) -> Iterator[FloorLoop]:
    """Start the server process of a transport and yield a connected client.

    Args:
        kind: One of `KINDS`.
    """
    with ExitStack() as stack:
        if kind == "pipe":
            child = stack.enter_context(
                _running_server(kind, subprocess.PIPE, subprocess.PIPE)
            )
            assert child.stdin is not None
            assert child.stdout is not None
            stack.callback(child.stdin.close)
            fds = child.stdin.fileno(), child.stdout.fileno()
        else:
            near, far = socket.socketpair() if kind == "socket" else _tcp_pair()
            with far:
                fd = far.fileno()
                child = stack.enter_context(_running_server(kind, fd, fd))
            stack.enter_context(near)
            fds = near.fileno(), near.fileno()
        yield FloorLoop(kind, child.pid, *fds)


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pair = socket.create_connection(listener.getsockname()), listener.accept()[0]
    for end in pair:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return pair


@contextmanager
def _running_server(
    kind: str, stdin: int, stdout: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the server process; it exits when its input is closed."""
    _, answer = KINDS[kind]
    words = (sys.executable, "-I", "-S", "-c", _SERVER, str(READ_SIZE), answer.decode())
    with subprocess.Popen(words, stdin=stdin, stdout=stdout, process_group=0) as child:  # noqa: S603 (ours)
        try:
            yield child
            with suppress(subprocess.TimeoutExpired):
                child.wait(_EXIT_TIMEOUT_S)
        finally:
            child.kill()


@contextmanager
def pinned_to_core() -> Iterator[None]:
    """Pin this thread, and the processes that it starts, to one core."""
    if sys.platform != "linux":
        yield
        return
    cores = os.sched_getaffinity(0)
    with suppress(OSError):  # a sandbox may refuse
        os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, cores)


def _measure(seconds: float, stopped: threading.Event) -> dict[str, Floor]:
    with pinned_to_core(), ExitStack() as stack:
        loops = {kind: stack.enter_context(floor_loop(kind)) for kind in KINDS}
        deadline = time.monotonic() + seconds
        while True:  # in turns, so that changes of the machine affect all
            for loop in loops.values():
                loop.measure()
            if time.monotonic() >= deadline or stopped.is_set():
                return {kind: loop.floor() for kind, loop in loops.items()}


async def measure_floor(seconds: float = 2.0) -> dict[str, Floor]:
    """Measure all transports of `KINDS` in turns.

    Args:
        seconds: The duration of the measurement, without the start of the servers.

    Safe to cancel: the server processes are ended.
    """
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(_measure, seconds, stopped)
    finally:
        stopped.set()
