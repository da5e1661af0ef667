"""MCP over the stdin and stdout of a child process, in the calling thread.

As `mcpwire.transports.stdio.channel`. The child's stderr and its end (a pidfd) are in
the same poll as its answers, so neither a full stderr nor an exit whose pipe a
grandchild holds open goes unseen.
"""

from __future__ import annotations

import select
from threading import get_ident
from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError, ConnectionClosed, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.sync._child import BlockingChild, spawn
from mcpwire.sync._pipes import BlockingPipes
from mcpwire.transports.stdio.spawning import describe_exit

if TYPE_CHECKING:
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.stdio.target import Stdio

__all__ = ["BlockingStdio"]

LOOK_S: Final = 0.1
"""How often a leader looks at a child where there is no pidfd."""


class BlockingStdio(BlockingPipes):
    """A connection to a child process."""

    __slots__ = ("_child",)

    def __init__(
        self, inbound: Inbound, child: BlockingChild, target: str, limits: Limits
    ) -> None:
        self._child = child
        super().__init__(
            inbound, child.stdout, child.stdin, limits=limits, target=target
        )
        child.stdin = child.stdout = -1  # the pipes are the connection's now
        self._untold = child.untold
        if child.pidfd < 0:
            self._longest_poll = LOOK_S
        for fd in (child.stderr_fd, child.pidfd):
            if fd >= 0:
                self._poller.register(fd, select.POLLIN)

    @classmethod
    def open(
        cls, target: Stdio, inbound: Inbound, *, limits: Limits = DEFAULT_LIMITS
    ) -> BlockingStdio:
        """Start the child and connect to it.

        Raises:
            ConnectError: It could not be started.
        """
        if not hasattr(select, "poll"):
            raise ConnectError(
                "the blocking client needs poll(), which this system does not have; "
                "use mcpwire.Client",
                target=str(target),
            )
        stderr = target.stderr
        child = spawn(
            (target.command, *target.args),
            target.environment(),
            target.cwd,
            limits.stderr_tail,
            inherit_stderr=stderr == "inherit",
            on_stderr=None if isinstance(stderr, str) else stderr,
        )
        try:
            return cls(inbound, child, str(target), limits)
        except BaseException:
            child.kill()
            raise

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
        if self._leader == 0 and not self._is_forked and self._holder != get_ident():
            with self._mutex:
                self._drain_stderr()  # who leads does so anyway
        return self._child.stderr.text

    # In the leader's turn...

    def _see(self, fd: int) -> None:
        child = self._child
        if fd == child.stderr_fd:
            child.read_stderr()
            if child.stderr_fd < 0:
                self._unwatch(fd)
        elif fd == child.pidfd:
            self._unwatch(fd)
            self._look()

    def _look(self) -> None:
        """See whether the child has ended."""
        if not self._child.look():
            return
        if self._read_fd < 0:
            self._give_up_ending()
        elif self._ending is None:
            # Its last answers may still be in the pipe, and a grandchild may hold the
            # pipe open for ever: so the end of the stream is waited for, but not long.
            self._end_soon("")

    def _nothing_came(self) -> None:
        if self._child.pidfd < 0:
            self._look()

    def _drain_stderr(self) -> None:
        if self._leader not in {0, get_ident()}:
            return  # only who leads may close it
        fd = self._child.stderr_fd
        self._child.drain_stderr()
        if fd >= 0 and self._child.stderr_fd < 0:
            self._unwatch(fd)

    def _tell_untold(self) -> None:
        self._child.tell_stderr()

    # The end...

    def _stream_ended(self, why: str, cause: BaseException | None = None) -> None:
        """Wait a moment to learn how the child ended: it says more than its silence."""
        self._stop_reading()
        if self._child.look():
            self._end(why, cause)
        else:
            self._end_soon(why, cause)

    def _end(self, why: str, cause: BaseException | None = None) -> None:
        if self._child.look():
            why = f"the server {describe_exit(self._child.exit_code)}"
        super()._end(why, cause)

    def _closed_error(
        self, *, sent: bool = True, cause: BaseException | None = None
    ) -> ConnectionClosed:
        error = super()._closed_error(sent=sent, cause=cause)
        error.exit_code = self._child.exit_code
        error.stderr_tail = self._child.stderr.text
        return error

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        if self._dead is None:
            self._drain_stderr()
        super()._lose(error, cause)

    def _shut(self) -> None:
        try:
            with self._mutex:
                self._stop_writing()
            self._child.stop(
                self._read_fd,
                close_grace=self._limits.close_grace,
                terminate_grace=self._limits.terminate_grace,
            )
        finally:
            super()._shut()
        self._child.tell_stderr()

    def _shut_at_once(self, ident: int) -> None:
        self._child.kill()
        super()._shut_at_once(ident)

    def forked(self) -> None:
        """Leave the child to the parent."""
        super().forked()
        self._child.forked()

    def abandon(self) -> None:
        """Kill the child's group now, from anywhere, without waiting."""
        self._child.kill()
        super().abandon()
