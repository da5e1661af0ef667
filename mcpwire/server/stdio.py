"""Serving one client on stdin and stdout, which are reserved for the protocol.

2026-07-28 basic/transports/stdio: only messages may appear on stdout. While the server
runs, descriptor 1 refers to stderr and descriptor 0 to the null device, so that neither
``print`` nor a handler's child process can write between messages or consume them.
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
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.connection import ANSWER_GRACE_S, CANCEL_GRACE_S, ServerConnection
from mcpwire.server.lifespan import (
    arm_exit_timer,
    join_threads_or_exit,
    refuse_running_loop,
)
from mcpwire.transports.base import wait_at_most
from mcpwire.transports.duplex import PipeDuplex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwire.server.dispatcher import Dispatcher

    Around = Callable[[], AbstractAsyncContextManager[object]]

logger = logging.getLogger("mcpwire")

# 2026-07-28 basic/transports/stdio, "Shutdown": a server should exit promptly when its
# input ends. These times and those of a connection add up to less than a second.
FLUSH_GRACE_S: Final = 0.2
"""How long the client may take to read the last responses, in seconds."""

LIFESPAN_TIMEOUT_S: Final = 0.55
"""When the lifespan is cancelled if it has not ended, in seconds after the input."""

STDERR_FD: Final = 2

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

SIGNAL_EXIT: Final = 128
"""The exit code of a process that a signal ended is this plus the signal's number."""


class _ServerPipe(PipeDuplex):
    """The server's end: its input may be any file, and the end of input is no error."""

    def __init__(self, connection: ServerConnection, *fds: int, **options: Any) -> None:
        self._connection = connection
        self._flushed = asyncio.Event()
        self._flushed.set()
        super().__init__(connection, *fds, role="server", target="stdio", **options)

    def _start_reading(self) -> None:
        for fd in (self._read_fd, self._write_fd):
            # Not a terminal: the shell and our stderr use the same open file, so they
            # would become non-blocking, too. Writing to a terminal may block.
            if not os.isatty(fd):
                os.set_blocking(fd, False)
        if not stat.S_ISREG(os.fstat(self._read_fd).st_mode):
            try:
                self._loop.add_reader(self._read_fd, self._on_readable)
                return
            except PermissionError:
                # epoll supports neither files nor /dev/null: reading never blocks.
                pass
        self._loop.call_soon(self._read_repeatedly)

    def _read_repeatedly(self) -> None:
        """Read input that is always ready, one part in each iteration of the loop."""
        if self._read_fd >= 0:
            self._on_readable()
            self._loop.call_soon(self._read_repeatedly)

    def _on_stream_end(self, reason: str, cause: BaseException | None = None) -> None:
        """Stop reading; at the end of input leave the rest to `serve_stdio`."""
        self._stop_reading()
        if cause is not None:
            super()._on_stream_end(reason, cause)
        else:
            self.receive(b"\n")  # the end of input completes its last line
            self._connection.ended.set()

    def _watch_writable(self) -> None:
        super()._watch_writable()
        self._flushed.clear()

    def _on_all_written(self) -> None:
        super()._on_all_written()
        self._flushed.set()

    async def flush(self, seconds: float) -> None:
        """Wait until the client has read all output, up to this many seconds."""
        self._flush()
        await wait_at_most(seconds, self._flushed.wait())


async def serve_stdio(
    dispatcher: Dispatcher, *, stdin_fd: int = 0, stdout_fd: int = 1
) -> None:
    """Serve one client until the input ends; return within a second after that.

    Both descriptors are reserved for the protocol until the function returns, and then
    restored. Cancellation ends it as quickly.
    """
    with _reserve_fds(stdin_fd, stdout_fd) as fds:
        connection = ServerConnection(dispatcher, transport="stdio")
        channel = _ServerPipe(connection, *fds, limits=dispatcher.limits)
        connection.attach(channel)
        clock = asyncio.get_running_loop().time
        ended_at: float | None = None
        try:
            await connection.ended.wait()
            ended_at = clock()
            await connection.settle(ANSWER_GRACE_S)
            await channel.flush(FLUSH_GRACE_S)
        finally:
            ended_at = clock() if ended_at is None else ended_at
            try:
                await connection.aclose(
                    CANCEL_GRACE_S, by=ended_at + LIFESPAN_TIMEOUT_S
                )
            except TimeoutError:
                logger.warning(
                    "the server's lifespan took too long to end and was cancelled"
                )


def run_stdio(dispatcher: Dispatcher, *, around: Around = nullcontext) -> int:
    """Serve on stdin and stdout as the main work of the process; return the exit code.

    The code is 0 at the end of input. SIGINT and SIGTERM end the server quietly, with
    the exit code of shells. A handler that does not end, also in a thread, ends with
    the process: in that case this function does not return. The context manager that
    `around` returns is entered on the loop before serving.
    """
    refuse_running_loop()
    if sys.stdin is not None and sys.stderr is not None and sys.stdin.isatty():
        # A user at a terminal needs to know why nothing happens.
        sys.stderr.write(
            "mcpwire: waiting for a client's messages on standard input; "
            "Ctrl-C ends it\n"
        )
        sys.stderr.flush()
    exit_timers: list[threading.Timer] = []
    known_threads = threading.enumerate()
    try:
        code = asyncio.run(_run(dispatcher, exit_timers, around))
    except KeyboardInterrupt:
        code = SIGNAL_EXIT + signal.SIGINT
    finally:
        for timer in exit_timers:
            timer.cancel()
    join_threads_or_exit(known_threads, code)
    return code


def run_server(
    server: Any, http: str | None, options: dict[str, Any], around: Around = nullcontext
) -> None:
    """Serve as the main work of the process; see `Server.run`."""
    if http is not None:
        from mcpwire.server.http.uvicorn import run_http

        run_http(server, http, around=around, **options)
        return
    if options:
        raise TypeError(
            f"stdio has no option {next(iter(options))!r}: "
            "run() serves on stdio, run(http='HOST:PORT') over HTTP"
        )
    code = run_stdio(server.dispatcher, around=around)
    if code:
        raise SystemExit(code)


async def _run(
    dispatcher: Dispatcher, exit_timers: list[threading.Timer], around: Around
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
        # Not supported by some platforms' loops and outside the main thread; there the
        # default handlers stay.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop, number)
    await asyncio.wait([serving])
    code = SIGNAL_EXIT + received[0] if received else 0
    exit_timers += arm_exit_timer(code)
    if not received:
        serving.result()
    return code


@contextlib.contextmanager
def _reserve_fds(stdin_fd: int, stdout_fd: int) -> Iterator[tuple[int, int]]:
    """Reserve both descriptors for the protocol and replace them by harmless ones."""
    with contextlib.ExitStack() as stack:
        null_fd = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, null_fd)
        # If stderr was closed at startup, its number may refer to any file by now.
        output_fd = null_fd if sys.__stderr__ is None else STDERR_FD
        read_fd = _reserve_fd(stack, stdin_fd, null_fd)
        write_fd = _reserve_fd(stack, stdout_fd, output_fd)
        # Output that handlers printed goes where descriptor 1 pointed at that time.
        stack.callback(_flush_printed)
        yield read_fd, write_fd


def _reserve_fd(stack: contextlib.ExitStack, fd: int, substitute: int) -> int:
    """Return a copy of a descriptor, which the stack restores in the end."""
    was_blocking, was_inheritable = os.get_blocking(fd), os.get_inheritable(fd)
    saved_fd = os.dup(fd)
    stack.callback(os.close, saved_fd)

    def restore() -> None:
        os.dup2(saved_fd, fd, was_inheritable)
        os.set_blocking(fd, was_blocking)

    stack.callback(restore)
    os.dup2(substitute, fd, was_inheritable)
    return os.dup(saved_fd)


def _flush_printed() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
