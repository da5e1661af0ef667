"""MCP over the stdin and stdout of a child process.

2026-07-28 basic/transports/stdio: one JSON text per line and no other output on stdout,
any text on stderr; shutdown closes stdin first and uses signals afterwards.

`FallbackChannel` is for loops that cannot watch descriptors, such as asyncio's default
loop on Windows. It uses asyncio's own pipes, costs more per message, and ends only the
child itself, because there is no process group to signal. It is tested on Linux, on a
loop without `add_reader`; on Windows it is untested.
"""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError, ConnectionClosed, TransportError
from mcpwire.transports.base import wait_at_most
from mcpwire.transports.duplex import FINAL_OUTPUT_S, Duplex, PipeDuplex
from mcpwire.transports.process import (
    KILL_TIMEOUT_S,
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

STDOUT_FD: Final = 1


class ChildChannel(Duplex):
    """Base class of connections to a child: their errors quote exit code and stderr."""

    @property
    def exit_code(self) -> int | None:
        """The child's exit code (negative: a signal); ``None`` while it runs."""
        raise NotImplementedError

    @property
    def stderr_tail(self) -> str:
        """The last part of the child's stderr."""
        raise NotImplementedError

    def _mark_ended(self, reason: str, cause: BaseException | None = None) -> None:
        if self._lost is None:
            if self.exit_code is not None:
                reason = f"the server {describe_exit(self.exit_code)}"
            self._mark_lost(TransportError(reason, target=self.target), cause)

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
        self._final_output: asyncio.TimerHandle | None = None
        pipes = self._take_pipes(child)
        super().__init__(inbound, *pipes, limits=limits, target=str(target))
        child.on_exit(self._on_child_exit)

    def _take_pipes(self, child: ChildProcess) -> tuple[int, int]:
        """Return the descriptors to read and to write; the channel owns them now."""
        pipes = child.stdout, child.stdin
        child.stdin = child.stdout = -1
        return pipes

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The child's exit code (negative: a signal); ``None`` while it runs."""
        return self._child.exit_code

    @property
    def stderr_tail(self) -> str:
        """The last part of the child's stderr."""
        self._child.drain_stderr()
        return self._child.stderr.text

    def _on_child_exit(self) -> None:
        # The last answers may still be in the pipe, so wait for the end of the stream;
        # not for long, because a grandchild may keep the pipe open for ever.
        if self._lost is None:
            self._end_later("")

    def _on_stream_end(self, reason: str, cause: BaseException | None = None) -> None:
        """Wait a moment for the child's exit code, for a better error message."""
        self._stop_reading()
        if self._lost is not None or self._child.exited.is_set():
            self._mark_ended(reason, cause)
        else:
            self._child.on_exit(lambda: self._mark_ended(reason, cause))
            self._end_later(reason, cause)

    def _end_later(self, reason: str, cause: BaseException | None = None) -> None:
        self._final_output = self._loop.call_later(
            FINAL_OUTPUT_S, self._mark_ended, reason, cause
        )

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        if self._lost is not None:
            return
        super()._mark_lost(error, cause)
        if self._final_output is not None:
            self._final_output.cancel()
        if self._closing is None and not self._is_abandoned:
            self._closing = self._loop.create_task(
                self._stop(), name=f"mcpwire-stop-{self._child.pid}"
            )
            self._closing.add_done_callback(self._on_stopped)

    def give_up(self, error: TransportError) -> None:
        """Treat the server as lost; kill it at once: waiting would delay the next."""
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

    def _on_stopped(self, _: asyncio.Task[None]) -> None:
        # A loop that closes at once may cancel the task before its first step.
        self._child.kill()
        self._stop_writing()
        self._stop_reading()

    def after_fork(self) -> None:
        """Close all descriptors; the child belongs to the parent process."""
        super().after_fork()
        self._child.after_fork()

    def abandon(self) -> None:
        """Kill the child's group at once, from any thread, without waiting."""
        self._child.on_exit(None)
        if self._closing is not None and not self._loop.is_closed():
            self._closing.cancel()
        self._child.kill()
        super().abandon()


class FallbackChannel(ChildChannel, asyncio.SubprocessProtocol):
    """A connection to a child process through asyncio's pipes; see the module text."""

    def __init__(self, inbound: Inbound, target: Stdio, limits: Limits) -> None:
        super().__init__(inbound, limits=limits, target=str(target))
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._exited = asyncio.Event()
        self._stderr = StderrTail(limits.stderr_tail, target.stderr)
        # Not `create_task`: an eager task factory would start it at once.
        self._spawning = asyncio.Task(self._spawn(target), loop=self._loop)

    @property
    def exit_code(self) -> int | None:
        """The child's exit code; ``None`` while it runs."""
        return self._process.get_returncode() if self._process is not None else None

    @property
    def stderr_tail(self) -> str:
        """The last part of the child's stderr."""
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
            self._exited.set()
            self._mark_lost(error, error.__cause__)
            return
        self._process = process
        if self._is_abandoned:  # while the process was starting
            process.close()
            return
        stdin = process.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._stdin = stdin
        self._flush()

    def _write(self, data: bytes) -> None:
        if self._stdin is None:
            self._gathered.append(data)  # written when the process has started
        else:
            self._stdin.write(data)

    def _flush(self) -> None:
        if self._stdin is not None:
            super()._flush()

    def _update_written(self) -> None:
        """Count the bytes that asyncio's pipe has written."""
        if self._stdin is not None:
            gathered = sum(map(len, self._gathered))
            buffered = self._stdin.get_write_buffer_size()
            self._written = self._queued - gathered - buffered

    # Callbacks of asyncio (`asyncio.SubprocessProtocol`)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Process the child's output."""
        if fd != STDOUT_FD:
            self._stderr.feed(data)
        elif self._lost is None:
            self.receive(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """End the connection soon after the end of the child's stdout."""
        del exc
        if fd == STDOUT_FD:  # if the child has ended, its exit code follows at once
            self._loop.call_later(
                FINAL_OUTPUT_S, self._mark_ended, "the peer closed its output"
            )

    def process_exited(self) -> None:
        """End the connection: all output of the child has been received."""
        self._exited.set()
        self._mark_ended("the server ended")

    # End of the connection

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        if self._lost is None:
            self._update_written()
            super()._mark_lost(error, cause)
            if not self._is_abandoned:
                self._closing = self._loop.create_task(self._stop())

    async def _stop(self) -> None:
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
                    await self._wait(KILL_TIMEOUT_S)
        finally:
            process.close()

    async def _wait(self, seconds: float) -> bool:
        await wait_at_most(seconds, self._exited.wait())
        return self._exited.is_set()

    def abandon(self) -> None:
        """Kill the child at once, without waiting."""
        if self._process is not None and not self._loop.is_closed():
            self._process.close()  # also kills the child
        super().abandon()
