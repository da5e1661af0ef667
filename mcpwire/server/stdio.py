"""Serves one client on stdin and stdout, and keeps both for the protocol alone.

2026-07-28 basic/transports/stdio: nothing but messages may appear on stdout. While we
serve, descriptor 1 leads to stderr and descriptor 0 to nothing, so neither ``print``
nor a child process of a handler can write between the messages or read them away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import stat
import sys
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.connection import (
    ANSWER_GRACE_S,
    CANCEL_GRACE_S,
    ServerConnection,
)
from mcpwire.server.lifespan import end_soon, leave_threads, refuse_running_loop
from mcpwire.transports.duplex import PipeDuplex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from mcpwire.server.dispatcher import Dispatcher

    Around = Callable[[], AbstractAsyncContextManager[object]]

__all__ = ["run_stdio", "serve_stdio"]

logger = logging.getLogger("mcpwire")

# 2026-07-28 basic/transports/stdio, "Shutdown": a server should exit promptly when its
# input ends. Together with those of a connection these stay under a second.
FLUSH_GRACE_S: Final = 0.2
"""How long the client may take to read the last answers."""

END_BY_S: Final = 0.55
"""How long after the end of input the lifespan is cancelled, if it has not ended."""

STDERR_FD: Final = 2

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

SIGNAL_EXIT: Final = 128
"""What shells add to a signal's number for the exit code."""


class _ServerPipe(PipeDuplex):
    """The server's end: what it reads may be any file, and its end is no loss."""

    def __init__(self, connection: ServerConnection, *fds: int, **options: Any) -> None:
        self._connection = connection
        self._flushed = asyncio.Event()
        self._flushed.set()
        super().__init__(connection, *fds, role="server", target="stdio", **options)

    def _start_reading(self) -> None:
        for fd in (self._read_fd, self._write_fd):
            # A terminal is shared with the shell and with our stderr, which would not
            # wait any more either. It is read when readable, and written to patiently.
            if not os.isatty(fd):
                os.set_blocking(fd, False)
        if not stat.S_ISREG(os.fstat(self._read_fd).st_mode):
            try:
                self._loop.add_reader(self._read_fd, self._readable)
                return
            except PermissionError:
                # epoll takes neither files nor /dev/null: they never make one wait.
                pass
        self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        """Read what is always ready, a piece in each turn of the loop."""
        if self._read_fd >= 0:
            self._readable()
            self._loop.call_soon(self._read_on)

    def _stream_ended(self, why: str, cause: BaseException | None = None) -> None:
        """Take no more, but let go only when `serve_stdio` is done with the rest."""
        self._stop_reading()
        if cause is not None:
            super()._stream_ended(why, cause)
        else:
            self.receive(b"\n")  # the end of input ends its last line
            self._connection.ended.set()

    def _writing_waits(self) -> None:
        super()._writing_waits()
        self._flushed.clear()

    def _writing_done(self) -> None:
        super()._writing_done()
        self._flushed.set()

    async def flush(self, seconds: float) -> None:
        """Wait until the client has taken everything, but not longer than that."""
        self._flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._flushed.wait()


async def serve_stdio(
    dispatcher: Dispatcher,
    *,
    stdin_fd: int = 0,
    stdout_fd: int = 1,
) -> None:
    """Serve one client until the input ends, then within a second.

    Both descriptors belong to the protocol meanwhile and are given back as they were.
    Cancelling it ends it as quickly.
    """
    with _borrowed(stdin_fd, stdout_fd) as fds:
        connection = ServerConnection(dispatcher, transport="stdio")
        channel = _ServerPipe(connection, *fds, limits=dispatcher.limits)
        connection.attach(channel)
        clock = asyncio.get_running_loop().time
        over: float | None = None
        try:
            await connection.ended.wait()
            over = clock()
            await connection.settle(ANSWER_GRACE_S)
            await channel.flush(FLUSH_GRACE_S)
        finally:
            over = clock() if over is None else over
            try:
                await connection.aclose(CANCEL_GRACE_S, by=over + END_BY_S)
            except TimeoutError:
                logger.warning(
                    "the server's lifespan took too long to end and was cancelled"
                )


def run_stdio(dispatcher: Dispatcher, *, around: Around = nullcontext) -> int:
    """Serve on stdin and stdout as this process's whole work; return the exit code.

    It is 0 at the end of input. SIGINT and SIGTERM end it quietly with the code that a
    shell would name. A handler that does not end, be it in a thread, ends with the
    process: then this does not return.

    Args:
        dispatcher: Answers the requests.
        around: Gives what is entered before and left behind serving, on its loop.
    """
    refuse_running_loop()
    if sys.stdin is not None and sys.stderr is not None and sys.stdin.isatty():
        # A person at a terminal wonders why nothing seems to happen.
        sys.stderr.write(
            "mcpwire: waiting for a client's messages on standard input; "
            "Ctrl-C ends it\n"
        )
        sys.stderr.flush()
    last_resort: list[threading.Timer] = []
    known = threading.enumerate()
    try:
        code = asyncio.run(_run(dispatcher, last_resort, around))
    except KeyboardInterrupt:
        code = SIGNAL_EXIT + signal.SIGINT
    finally:
        for timer in last_resort:
            timer.cancel()
    leave_threads(known, code)
    return code


async def _run(
    dispatcher: Dispatcher, last_resort: list[threading.Timer], around: Around
) -> int:
    async def serve() -> None:
        async with around():
            await serve_stdio(dispatcher)

    loop = asyncio.get_running_loop()
    serving = loop.create_task(serve(), name="mcpwire-serve-stdio")
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        serving.cancel()

    for number in SIGNALS:
        # Some platforms' loops have none, and only the main thread can have any; there
        # the defaults stay.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop, number)
    await asyncio.wait([serving])
    code = SIGNAL_EXIT + received[0] if received else 0
    last_resort += end_soon(code)
    if not received:
        serving.result()
    return code


@contextlib.contextmanager
def _borrowed(stdin_fd: int, stdout_fd: int) -> Iterator[tuple[int, int]]:
    """Take both descriptors for the protocol and put harmless ones in their place."""
    with contextlib.ExitStack() as stack:
        nothing = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, nothing)
        # Without a stderr from the start, its number may belong to anything by now.
        elsewhere = nothing if sys.__stderr__ is None else STDERR_FD
        read_fd = _borrow(stack, stdin_fd, nothing)
        write_fd = _borrow(stack, stdout_fd, elsewhere)
        # What handlers printed belongs where descriptor 1 led while they ran.
        stack.callback(_flush_printed)
        yield read_fd, write_fd


def _borrow(stack: contextlib.ExitStack, fd: int, substitute: int) -> int:
    """Return a copy for the channel to own; the stack brings back what was there."""
    was_blocking, was_inheritable = os.get_blocking(fd), os.get_inheritable(fd)
    kept = os.dup(fd)
    stack.callback(os.close, kept)

    def give_back() -> None:
        os.dup2(kept, fd, was_inheritable)
        os.set_blocking(fd, was_blocking)

    stack.callback(give_back)
    os.dup2(substitute, fd, was_inheritable)
    return os.dup(kept)


def _flush_printed() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
