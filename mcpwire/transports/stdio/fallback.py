"""A connection to a child process on loops that cannot watch descriptors.

That is asyncio's default loop on Windows. It goes through asyncio's own pipes, costs
more per message, and ends the child alone, for there are no process groups to signal.
It is tested on Linux, on a loop without `add_reader`; on Windows it is untested.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError, ConnectionClosed, TransportError
from mcpwire.transports._duplex import Duplex
from mcpwire.transports.stdio.process import (
    KILLED_S,
    StderrTail,
    describe_exit,
    spawn_error,
    tell_stderr,
)

if TYPE_CHECKING:
    from mcpwire.limits import Limits
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.stdio.target import Stdio

__all__ = ["FallbackChannel"]

STDOUT_FD: Final = 1


class FallbackChannel(Duplex):
    """A connection to a child process through asyncio's pipes."""

    def __init__(self, inbound: Inbound, target: Stdio, limits: Limits) -> None:
        super().__init__(inbound, limits=limits, target=str(target))
        self._early: list[bytes] = []
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._ended = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._stderr = StderrTail(limits.stderr_tail)
        self._on_stderr = None if isinstance(target.stderr, str) else target.stderr
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
        argv = (target.command, *target.args)
        inherit = target.stderr == "inherit"
        try:
            process, _ = await self._loop.subprocess_exec(
                lambda: _Protocol(self),
                *argv,
                env=target.environment(),
                cwd=target.cwd,
                stderr=None if inherit else subprocess.PIPE,
            )
        except (ConnectError, OSError, ValueError) as error:
            if not isinstance(error, ConnectError):
                failure = spawn_error(argv, target.cwd, error)
                failure.__cause__ = error
                error = failure
            self._ended.set()
            self._lose(error, error.__cause__)
            return
        self._process = process
        stdin = process.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._stdin = stdin
        for data in self._early:
            stdin.write(data)
        self._early.clear()

    def _write(self, data: bytes) -> None:
        if self._stdin is None:
            self._early.append(data)
        else:
            self._stdin.write(data)

    def _recount(self) -> None:
        """Take over what asyncio's pipe has passed on by now."""
        if self._stdin is not None:
            gathered = sum(map(len, self._gathered))
            kept = self._stdin.get_write_buffer_size()
            self._written = self._queued - gathered - kept

    def heard(self, fd: int, data: bytes) -> None:
        """Take in what the child wrote."""
        if fd != STDOUT_FD:
            self._stderr.feed(data)
            if self._on_stderr is not None:
                tell_stderr(self._on_stderr, data)
        elif self._dead is None:
            self.receive(data)

    def ended(self, why: str) -> None:
        """The child's output, or the child itself, has ended."""
        if self._dead is None:
            if self.exit_code is not None:
                why = f"the server {describe_exit(self.exit_code)}"
            self._lose(TransportError(why, target=self.target))

    def exited(self) -> None:
        """The child is gone; what it wrote before has been heard."""
        self._ended.set()
        self.ended("the server ended")

    def _closed_error(
        self, *, sent: bool = True, cause: BaseException | None = None
    ) -> ConnectionClosed:
        error = super()._closed_error(sent=sent, cause=cause)
        error.exit_code = self.exit_code
        error.stderr_tail = self.stderr_tail
        return error

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        if self._dead is None:
            self._recount()
            super()._lose(error, cause)
            if not self._is_abandoned:
                self._stopping = self._loop.create_task(self._stop())

    async def _stop(self) -> None:
        if self._spawning is not None:
            await asyncio.wait([self._spawning])
        process = self._process
        if process is None:
            return
        try:
            if self._stdin is not None:
                self._stdin.close()
            if not await self._wait(self._limits.close_grace):
                process.terminate()
                if not await self._wait(self._limits.terminate_grace):
                    process.kill()
                    await self._wait(KILLED_S)
        finally:
            process.close()

    async def _wait(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return self._ended.is_set()

    async def aclose(self) -> None:
        """Close stdin, wait, terminate, wait, kill; bounded by `Limits`' graces."""
        self._closed_by_us = True
        self._flush()
        self._lose(self._closed_error())
        if self._stopping is not None:
            await asyncio.shield(self._stopping)

    def abandon(self) -> None:
        """Kill the child now, from anywhere, without a loop to wait on."""
        if self._process is not None and not self._loop.is_closed():
            self._process.close()  # which kills it
        super().abandon()


class _Protocol(asyncio.SubprocessProtocol):
    def __init__(self, channel: FallbackChannel) -> None:
        self._channel = channel

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._channel.heard(fd, data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        if fd == STDOUT_FD:
            # Its exit code follows at once, if it is gone.
            self._channel._loop.call_later(  # noqa: SLF001 - its other half
                0.1, self._channel.ended, "the peer closed its output"
            )

    def process_exited(self) -> None:
        self._channel.exited()
