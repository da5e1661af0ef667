"""Measure what this machine can do: the least loop in Python over each transport.

A blocking write and a blocking read of fixed octets, one call at a time, against the
null server of `mcpwire.bench.null`. No client can be faster by its own work alone, so a
figure divided by the floor is the same on a fast and on a slow machine.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs

from mcpwire.bench.null import PATH, READ_SIZE, process_cpu_ns, rank
from mcpwire.bench.null_process import null_command, null_process

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KINDS", "Floor", "FloorLoop", "floor_loop", "measure_floor"]

KINDS: Final = ("pipe", "socket", "http", "sse")
"""Lines over two pipes, over a pair of sockets; POST answered by JSON, by events."""

_CALL: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
    b'"params":{"name":"echo","arguments":{"text":"hi"}}}'
)
_POST: Final = (
    b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%b"
)
_SLICE: Final = 200
_WARM_UP: Final = 50
_END_S: Final = 10.0


@attrs.frozen
class Floor:
    """What one call at a time costs.

    Attributes:
        p50_us: The median of the time of a call, in microseconds.
        p99_us: The 99th percentile of it.
        calls_per_s: How many calls this loop makes in a second.
        client_cpu_us: CPU time of our side for each call, in microseconds.
        server_cpu_us: CPU time of the null server; 0 where the system does not tell.
        calls: How many calls were measured.
    """

    p50_us: float
    p99_us: float
    calls_per_s: float
    client_cpu_us: float
    server_cpu_us: float
    calls: int


class FloorLoop:
    """Writes the same request and reads the same answer, again and again."""

    def __init__(self, pid: int, write_fd: int, read_fd: int, request: bytes) -> None:
        self.pid = pid
        self._write_fd = write_fd
        self._read_fd = read_fd
        self._request = request
        self._laps: list[int] = []
        self._cpu_ns = 0
        self._server_cpu_ns = 0
        os.write(write_fd, request)
        # The server writes an answer at once, and the system delivers so few together.
        self._size = len(os.read(read_fd, READ_SIZE))

    def call(self) -> None:
        """Make one call."""
        os.write(self._write_fd, self._request)
        size = 0
        while size < self._size:
            came = len(os.read(self._read_fd, READ_SIZE))
            if not came:
                raise ConnectionError("the null server has ended")
            size += came

    def measure(self, calls: int = _SLICE) -> None:
        """Make calls and keep what they cost, after some to warm up."""
        for _ in range(_WARM_UP):
            self.call()
        call, now, laps = self.call, time.perf_counter_ns, self._laps
        cpu, server_cpu = time.thread_time_ns(), process_cpu_ns(self.pid)
        before = now()
        for _ in range(calls):
            call()
            after = now()
            laps.append(after - before)
            before = after
        self._cpu_ns += time.thread_time_ns() - cpu
        self._server_cpu_ns += process_cpu_ns(self.pid) - server_cpu

    def floor(self) -> Floor:
        """Return the figures of all calls that were measured."""
        count, ordered = len(self._laps), sorted(self._laps)
        return Floor(
            p50_us=(rank(ordered, 0.5) or 0) / 1e3,
            p99_us=(rank(ordered, 0.99) or 0) / 1e3,
            calls_per_s=count / sum(ordered) * 1e9,
            client_cpu_us=self._cpu_ns / count / 1e3,
            server_cpu_us=self._server_cpu_ns / count / 1e3,
            calls=count,
        )


@contextmanager
def floor_loop(kind: str, *command: str) -> Iterator[FloorLoop]:
    """Start a null server and connect to it.

    Args:
        kind: One of `KINDS`.
        command: Another server for lines than ours.
    """
    words = list(command) or null_command("--stdio")
    if kind == "pipe":
        with _child(words, subprocess.PIPE, subprocess.PIPE) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            fds = child.stdin.fileno(), child.stdout.fileno()
            yield FloorLoop(child.pid, *fds, _CALL + b"\n")
            child.stdin.close()
    elif kind == "socket":
        ours, theirs = socket.socketpair()
        with ours, theirs, _child(words, theirs.fileno(), theirs.fileno()) as child:
            theirs.close()
            yield FloorLoop(child.pid, ours.fileno(), ours.fileno(), _CALL + b"\n")
            ours.close()
    else:
        options = ["--sse"] if kind == "sse" else []
        request = _POST % (PATH.encode(), len(_CALL), _CALL)
        with null_process(*options) as server:
            address = server.url.split("/")[2].split(":")
            with socket.create_connection((address[0], int(address[1]))) as ours:
                ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                yield FloorLoop(server.pid, ours.fileno(), ours.fileno(), request)


@contextmanager
def _child(
    words: list[str], stdin: int, stdout: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server that ends when its user closes its input."""
    with subprocess.Popen(  # noqa: S603 (ours)
        words, stdin=stdin, stdout=stdout, start_new_session=True
    ) as child:
        try:
            yield child
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END_S)
        finally:
            child.kill()


def _measure(seconds: float, stopped: threading.Event) -> dict[str, Floor]:
    with ExitStack() as stack:
        loops = {kind: stack.enter_context(floor_loop(kind)) for kind in KINDS}
        until = time.monotonic() + seconds
        while True:  # in turns, so that all see the same moods of the machine
            for loop in loops.values():
                loop.measure()
            if time.monotonic() >= until or stopped.is_set():
                return {kind: loop.floor() for kind, loop in loops.items()}


async def measure_floor(seconds: float = 2.0) -> dict[str, Floor]:
    """Measure each of `KINDS` in turns.

    Args:
        seconds: How long to measure, beside the start of the null servers.

    Safe to cancel: the null servers end.
    """
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(_measure, seconds, stopped)
    finally:
        stopped.set()
