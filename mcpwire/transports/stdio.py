"""MCP over the stdin and stdout of a child process.

2026-07-28 basic/transports/stdio: one JSON text per line, nothing else on stdout,
anything on stderr; shutdown closes stdin first and forces afterwards.

`FallbackChannel` is for loops that cannot watch descriptors, as asyncio's default loop
on Windows. It goes through asyncio's own pipes, costs more per message, and ends the
child alone, for there are no process groups to signal. It is tested on Linux, on a loop
without `add_reader`; on Windows it is untested.
"""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError, ConnectionClosed, TransportError
from mcpwire.transports.base import wait_at_most
from mcpwire.transports.duplex import LAST_WORDS_S, Duplex, PipeDuplex
from mcpwire.transports.process import (
    KILLED_S,
    ChildProcess,
    StderrTail,
    describe_exit,
    spawn,
    spawn_error,
)

if TYPE_CHECKING:
    from mcpwire.limits import Limits
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.targets import Stdio

__all__ = ["FallbackChannel", "StdioChannel"]

STDOUT_FD: Final = 1


class ChildChannel(Duplex):
    """What a connection to a child process says of its end."""

    @property
    def exit_code(self) -> int | None:
        """How the child ended (negative: by that signal); ``None`` while it runs."""
        raise NotImplementedError

    @property
    def stderr_tail(self) -> str:
        """The end of what the child wrote to stderr."""
        raise NotImplementedError

    def _end(self, why: str, cause: BaseException | None = None) -> None:
        if self._dead is None:
            if self.exit_code is not None:
                why = f"the server {describe_exit(self.exit_code)}"
            self._lose(TransportError(why, target=self.target), cause)

    def _closed_error(
        self, *, sent: bool = True, cause: BaseException | None = None
    ) -> ConnectionClosed:
        error = super()._closed_error(sent=sent, cause=cause)
        error.exit_code = self.exit_code
        error.stderr_tail = self.stderr_tail
        return error


class StdioChannel(ChildChannel, PipeDuplex):
    """A connection to a child process."""

    def __init__(self, inbound: Inbound, target: Stdio, limits: Limits) -> None:
        tail = StderrTail(limits.stderr_tail, target.stderr)
        self._child = child = spawn(target, tail)
        self._is_given_up = False
        self._last_words: asyncio.TimerHandle | None = None
        pipes = self._take_pipes(child)
        super().__init__(inbound, *pipes, limits=limits, target=str(target))
        child.on_exit(self._child_exited)

    def _take_pipes(self, child: ChildProcess) -> tuple[int, int]:
        """Return the ends to read and to write, which the channel owns now."""
        pipes = child.stdout, child.stdin
        child.stdin = child.stdout = -1
        return pipes

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """How the child ended (negative: by that signal); ``None`` while it runs."""
        return self._child.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of what the child wrote to stderr."""
        self._child.drain_stderr()
        return self._child.stderr.text

    def _child_exited(self) -> None:
        # Its last answers may still be in the pipe, and a grandchild may hold the pipe
        # open for ever: so the end of the stream is waited for, but not for long.
        if self._dead is None:
            self._end_later("")

    def _stream_ended(self, why: str, cause: BaseException | None = None) -> None:
        """Wait a moment to learn how the child ended: it says more than its silence."""
        self._stop_reading()
        if self._dead is not None or self._child.exited.is_set():
            self._end(why, cause)
        else:
            self._child.on_exit(lambda: self._end(why, cause))
            self._end_later(why, cause)

    def _end_later(self, why: str, cause: BaseException | None = None) -> None:
        self._last_words = self._loop.call_later(LAST_WORDS_S, self._end, why, cause)

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        if self._dead is not None:
            return
        super()._lose(error, cause)
        if self._last_words is not None:
            self._last_words.cancel()
        if self._closing is None and not self._is_abandoned:
            self._closing = self._loop.create_task(
                self._stop(), name=f"mcpwire-stop-{self._child.pid}"
            )
            self._closing.add_done_callback(self._stopped)

    def give_up(self, error: TransportError) -> None:
        """Take the server for dead, and kill it: it would only delay the next one."""
        self._is_given_up = True
        super().give_up(error)

    async def _stop(self) -> None:
        self._stop_writing()
        limits = self.limits
        try:
            await self._child.stop(
                close_grace=0 if self._is_given_up else limits.close_grace,
                terminate_grace=0 if self._is_given_up else limits.terminate_grace,
            )
        finally:
            self._stop_reading()

    def _stopped(self, _: asyncio.Task[None]) -> None:
        # A loop that closes in the same turn cancels the task before its first step.
        self._child.kill()
        self._stop_writing()
        self._stop_reading()

    def forked(self) -> None:
        """Leave the child to the parent."""
        super().forked()
        self._child.forked()

    def abandon(self) -> None:
        """Kill the child's group now, from anywhere, without a loop to wait on."""
        self._child.on_exit(None)
        if self._closing is not None and not self._loop.is_closed():
            self._closing.cancel()
        self._child.kill()
        super().abandon()


class FallbackChannel(ChildChannel, asyncio.SubprocessProtocol):
    """A connection to a child process through asyncio's pipes; see the module."""

    def __init__(self, inbound: Inbound, target: Stdio, limits: Limits) -> None:
        super().__init__(inbound, limits=limits, target=str(target))
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._ended = asyncio.Event()
        self._stderr = StderrTail(limits.stderr_tail, target.stderr)
        self._spawning: asyncio.Task[None] | None = None
        # An eager task runs, and may fail, before its name is bound.
        self._spawning = self._loop.create_task(self._spawn(target))

    @property
    def exit_code(self) -> int | None:
        """How the child ended; ``None`` while it runs."""
        return self._process.get_returncode() if self._process is not None else None

    @property
    def stderr_tail(self) -> str:
        """The end of what the child wrote to stderr."""
        return self._stderr.text

    async def _spawn(self, target: Stdio) -> None:
        try:
            process, _ = await self._loop.subprocess_exec(
                lambda: self,
                target.command,
                *target.args,
                env=target.environment(),
                cwd=target.cwd,
                stderr=None if target.stderr == "inherit" else subprocess.PIPE,
            )
        except (ConnectError, OSError, ValueError) as error:
            if not isinstance(error, ConnectError):
                failure = spawn_error(target, error)
                failure.__cause__ = error
                error = failure
            self._ended.set()
            self._lose(error, error.__cause__)
            return
        self._process = process
        if self._is_abandoned:  # meanwhile
            process.close()
            return
        stdin = process.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._stdin = stdin
        self._flush()

    def _write(self, data: bytes) -> None:
        if self._stdin is None:
            self._gathered.append(data)  # until it is there
        else:
            self._stdin.write(data)

    def _flush(self) -> None:
        if self._stdin is not None:
            super()._flush()

    def _recount(self) -> None:
        """Count what asyncio's pipe has passed on by now."""
        if self._stdin is not None:
            gathered = sum(map(len, self._gathered))
            kept = self._stdin.get_write_buffer_size()
            self._written = self._queued - gathered - kept

    # What asyncio tells (`asyncio.SubprocessProtocol`)...

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take in what the child wrote."""
        if fd != STDOUT_FD:
            self._stderr.feed(data)
        elif self._dead is None:
            self.receive(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """End the connection with the child's output."""
        del exc
        if fd == STDOUT_FD:  # its exit code follows at once, if it is gone
            self._loop.call_later(LAST_WORDS_S, self._end, "the peer closed its output")

    def process_exited(self) -> None:
        """End the connection: what the child wrote has come."""
        self._ended.set()
        self._end("the server ended")

    # The end...

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        if self._dead is None:
            self._recount()
            super()._lose(error, cause)
            if not self._is_abandoned:
                self._closing = self._loop.create_task(self._stop())

    async def _stop(self) -> None:
        if self._spawning is not None:
            await asyncio.wait([self._spawning])
        process = self._process
        if process is None:
            return
        try:
            if self._stdin is not None:
                self._stdin.close()
            if not await self._wait(self.limits.close_grace):
                process.terminate()
                if not await self._wait(self.limits.terminate_grace):
                    process.kill()
                    await self._wait(KILLED_S)
        finally:
            process.close()

    async def _wait(self, seconds: float) -> bool:
        await wait_at_most(seconds, self._ended.wait())
        return self._ended.is_set()

    def abandon(self) -> None:
        """Kill the child now, from anywhere, without a loop to wait on."""
        if self._process is not None and not self._loop.is_closed():
            self._process.close()  # which kills it
        super().abandon()
