"""MCP over the stdin and stdout of a child process.

2026-07-28 basic/transports/stdio: one JSON text per line, nothing else on stdout,
anything on stderr; shutdown closes stdin first and forces afterwards.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcpwire.errors import ConnectionClosed, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.transports.stdio.pipes import LAST_WORDS_S, PipeDuplex
from mcpwire.transports.stdio.process import ChildProcess, describe_exit, spawn

if TYPE_CHECKING:
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.stdio.target import Stdio

__all__ = ["StdioChannel", "can_watch"]


def can_watch(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether a loop watches descriptors for us."""
    return type(loop).add_reader is not asyncio.AbstractEventLoop.add_reader


class StdioChannel(PipeDuplex):
    """A connection to a child process."""

    def __init__(
        self, inbound: Inbound, child: ChildProcess, target: str, limits: Limits
    ) -> None:
        self._child = child
        self._stopping: asyncio.Task[None] | None = None
        self._is_given_up = False
        self._last_words: asyncio.TimerHandle | None = None
        super().__init__(
            inbound, child.stdout, child.stdin, limits=limits, target=target
        )
        child.stdin = child.stdout = -1  # the pipes are the channel's now
        child.on_exit(self._child_exited)

    @classmethod
    def open(
        cls, target: Stdio, inbound: Inbound, *, limits: Limits = DEFAULT_LIMITS
    ) -> StdioChannel:
        """Start the child and connect to it."""
        stderr = target.stderr
        child = spawn(
            (target.command, *target.args),
            target.environment(),
            target.cwd,
            limits.stderr_tail,
            inherit_stderr=stderr == "inherit",
            on_stderr=None if isinstance(stderr, str) else stderr,
        )
        return cls(inbound, child, str(target), limits)

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

    def _end(self, why: str, cause: BaseException | None = None) -> None:
        if self._dead is None:
            if self._child.exited.is_set():
                why = f"the server {describe_exit(self._child.exit_code)}"
            self._lose(TransportError(why, target=self.target), cause)

    def _closed_error(
        self, *, sent: bool = True, cause: BaseException | None = None
    ) -> ConnectionClosed:
        error = super()._closed_error(sent=sent, cause=cause)
        error.exit_code = self._child.exit_code
        error.stderr_tail = self.stderr_tail
        return error

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        if self._dead is not None:
            return
        super()._lose(error, cause)
        if self._last_words is not None:
            self._last_words.cancel()
        if self._stopping is None and not self._is_abandoned:
            self._stopping = self._loop.create_task(
                self._stop(), name=f"mcpwire-stop-{self._child.pid}"
            )
            self._stopping.add_done_callback(self._stopped)

    def give_up(self, error: TransportError) -> None:
        """Take the server for dead, and kill it: it would only delay the next one."""
        self._is_given_up = True
        super().give_up(error)

    async def _stop(self) -> None:
        self._stop_writing()
        limits = self._limits
        graces = (limits.close_grace, limits.terminate_grace)
        try:
            close_grace, terminate_grace = (0, 0) if self._is_given_up else graces
            await self._child.stop(
                close_grace=close_grace, terminate_grace=terminate_grace
            )
        finally:
            self._stop_reading()

    def _stopped(self, _: asyncio.Task[None]) -> None:
        # A loop that is closed in the very turn in which the ladder was begun cancels
        # it before its first step.
        self._child.kill()
        self._stop_writing()
        self._stop_reading()

    async def aclose(self) -> None:
        """Close stdin, wait, TERM, wait, KILL; bounded by `Limits`' graces.

        Cancelling it leaves the ladder running; call it again to wait for its end.
        """
        self._closed_by_us = True
        self._flush()
        self._lose(super()._closed_error())
        if self._stopping is not None:
            await asyncio.shield(self._stopping)

    def forked(self) -> None:
        """Leave the child to the parent."""
        super().forked()
        self._child.forked()

    def abandon(self) -> None:
        """Kill the child's group now, from anywhere, without a loop to wait on."""
        self._child.on_exit(None)
        if self._stopping is not None and not self._loop.is_closed():
            self._stopping.cancel()
        self._child.kill()
        super().abandon()
