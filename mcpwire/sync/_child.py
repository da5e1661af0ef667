"""A child process watched without a loop, and surely gone at the end.

As `mcpwire.transports.stdio.process`, by polling: a pidfd tells its exit, and what it
writes is drained meanwhile, for a child that waits for a full pipe cannot exit.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import weakref
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final

from mcpwire.transports.stdio.spawning import (
    DRAIN_READS,
    KILLED_S,
    READ_BYTES,
    SWEEP_INTERVAL_S,
    StderrTail,
    group_runs,
    kill_forgotten,
    signal_group,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.transports.stdio.spawning import Started

__all__ = ["BlockingChild", "spawn"]

LOOK_S: Final = 0.02
"""The pause between looks at a child where there is no pidfd."""

logger = logging.getLogger("mcpwire")


class BlockingChild:
    """A running child whose stdin and stdout are plain descriptors.

    Attributes:
        pid: The child's process id, which is also its group's.
        stdin: Our writing end, or -1 once it was given away or closed.
        stdout: Our reading end, or -1 once it was given away.
        stderr_fd: Our reading end, or -1 where there is none, or none any more.
        pidfd: Becomes readable when the child ends; -1 where the system has none.
        stderr: The end of what it wrote to stderr.
        untold: What of it the user's function has not got yet.
        exit_code: How it ended (negative: by that signal); ``None`` while it runs.
        has_exited: Whether it is known to have ended.
    """

    def __init__(
        self,
        started: Started,
        tail: StderrTail,
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        self._popen, self.stdin, self.stdout, self.stderr_fd = started
        self._forgotten = weakref.finalize(
            self, kill_forgotten, self._popen, os.getpid()
        )
        self._on_stderr = on_stderr
        self.untold: deque[bytes] = deque()
        self.pid = self._popen.pid
        self.stderr = tail
        self.exit_code: int | None = None
        self.has_exited = False
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            self.pidfd = -1
        if self.stderr_fd >= 0:
            os.set_blocking(self.stderr_fd, False)

    def look(self) -> bool:
        """Return whether the child has ended."""
        if not self.has_exited:
            self.exit_code = self._popen.poll()
            self.has_exited = self.exit_code is not None
        return self.has_exited

    def read_stderr(self) -> bool:
        """Take in some of what stderr holds; return whether there was any."""
        if self.stderr_fd < 0:
            return False
        try:
            data = os.read(self.stderr_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._close_stderr()
            return False
        self.stderr.feed(data)
        if self._on_stderr is not None:
            self.untold.append(data)
        return True

    def drain_stderr(self) -> None:
        """Take in what stderr holds now, so that an error can quote it."""
        for _ in range(DRAIN_READS):
            if not self.read_stderr():
                return

    def tell_stderr(self) -> None:
        """Hand what was read to the user's function, whose failures stay its own."""
        while self.untold and self._on_stderr is not None:
            try:
                self._on_stderr(self.untold.popleft())
            except Exception:
                logger.exception("stderr function %r raised", self._on_stderr)

    def stop(self, stdout: int, *, close_grace: float, terminate_grace: float) -> None:
        """End the child and its group; bounded by the two graces and a second each.

        Its stdin must have been closed; what it writes to `stdout` is thrown away.
        Interrupted, the group is killed before the interrupt goes on.
        """
        if not self._forgotten.alive:
            return
        try:
            drain = _Drain(self, stdout)
            drain.until_exit(close_grace)
            if self._signal_group(signal.SIGTERM):
                drain.until_group_is_gone(terminate_grace)
                if self._signal_group(signal.SIGKILL):
                    drain.until_group_is_gone(KILLED_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the whole group now and let go of everything; never blocks for long."""
        if not self._forgotten.alive:
            return
        if self._signal_group(signal.SIGKILL) and not self.has_exited:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(KILLED_S)
        self.look()
        self.drain_stderr()
        self._close_descriptors()
        # Last: until then an interrupted one can be called again.
        self._forgotten.detach()

    def forked(self) -> None:
        """Close our copies; the child is neither waited for nor ended: not ours."""
        self._forgotten.detach()
        self._popen.returncode = 0  # or its finaliser would warn, and look for it
        self._close_descriptors()

    def _close_stderr(self) -> None:
        fd, self.stderr_fd = self.stderr_fd, -1
        if fd >= 0:
            os.close(fd)

    def _close_descriptors(self) -> None:
        self._close_stderr()
        # One at a time, and no call between taking it and closing it: an interrupt must
        # not lose those that are still open.
        fd, self.stdin = self.stdin, -1
        if fd >= 0:
            os.close(fd)
        fd, self.stdout = self.stdout, -1
        if fd >= 0:
            os.close(fd)
        fd, self.pidfd = self.pidfd, -1
        if fd >= 0:
            os.close(fd)

    def _signal_group(self, number: int) -> bool:
        return signal_group(self.pid, number, child_runs=not self.has_exited)


class _Drain:
    """Waits for a child and throws away what it writes meanwhile."""

    def __init__(self, child: BlockingChild, stdout: int) -> None:
        self._child = child
        self._stdout = stdout
        self._poller = select.poll()
        for fd in (stdout, child.stderr_fd, child.pidfd):
            if fd >= 0:
                self._poller.register(fd, select.POLLIN)

    def until_exit(self, seconds: float) -> bool:
        """Wait for the child's own end; return whether it has come."""
        child = self._child
        until = monotonic() + seconds
        while not child.look():
            left = until - monotonic()
            if left <= 0:
                return False
            self._turn(left if child.pidfd >= 0 else min(left, LOOK_S))
        return True

    def until_group_is_gone(self, seconds: float) -> None:
        """Wait until nobody of the group is left, the child itself included."""
        until = monotonic() + seconds
        if not self.until_exit(seconds):
            return
        interval = SWEEP_INTERVAL_S
        # There is no event to wait for: grandchildren are not ours.
        while group_runs(self._child.pid) and monotonic() < until:
            self._turn(interval)
            interval = min(2 * interval, 10 * SWEEP_INTERVAL_S)

    def _turn(self, seconds: float) -> None:
        child = self._child
        for fd, _ in self._poller.poll(seconds * 1000):
            if fd == child.stderr_fd:
                if not child.read_stderr() and child.stderr_fd < 0:
                    self._poller.unregister(fd)
            elif fd != self._stdout or not self._discard():
                self._poller.unregister(fd)

    def _discard(self) -> bool:
        """Throw away some output; return whether there may be more."""
        try:
            return bool(os.read(self._stdout, READ_BYTES))
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    tail_limit: int,
    *,
    inherit_stderr: bool = False,
    on_stderr: Callable[[bytes], None] | None = None,
) -> BlockingChild:
    """Start a command; see `mcpwire.transports.stdio.spawning.start`.

    Raises:
        ConnectError: It could not be started; names the command and the reason.
    """
    started = start(argv, env, cwd, inherit_stderr=inherit_stderr)
    return BlockingChild(started, StderrTail(tail_limit), on_stderr)
