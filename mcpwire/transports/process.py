"""A child process in its own process group: start, exit detection, guaranteed end.

::

    spawn ──► running ──► exited ──► group swept ──► reaped
                 │ stop()    ▲
                 └─ stdin closed, wait, TERM the group, wait, KILL the group

Signals are sent to the group, because `npx` and `uvx` wrap the real server. The exit is
detected by a pidfd if the kernel supports it, else by a thread that waits for the
child. SIGCHLD is not used: it belongs to the application.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
import weakref
from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError
from mcpwire.transports.base import wait_at_most
from mcpwire.transports.duplex import READ_BYTES, unwatch_descriptor

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.transports.targets import Stdio

logger = logging.getLogger("mcpwire")

MAX_DRAIN_READS: Final = 16
"""Maximum number of reads at once: 1 MiB, the largest pipe of unprivileged writers."""

SWEEP_INTERVAL_S: Final = 0.01
"""The first pause between two checks for remaining processes of a group."""

KILL_TIMEOUT_S: Final = 1.0
"""Time for the kernel to end processes after SIGKILL."""


class ChildProcess:
    """A running child; stdin and stdout are descriptors, or -1 if owned elsewhere."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        pipes: tuple[int, int, int],
        tail: StderrTail,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._popen = popen
        self.stdin, self.stdout, self._stderr_fd = pipes
        self._on_exit: Callable[[], None] | None = None
        self.pid = popen.pid  # also the id of the process group
        self.stderr = tail
        self.exit_code: int | None = None  # negative: the number of the ending signal
        self.exited = asyncio.Event()
        self._finalizer = weakref.finalize(self, kill_leaked, popen, os.getpid())
        if self._stderr_fd >= 0:
            os.set_blocking(self._stderr_fd, False)
            self._loop.add_reader(self._stderr_fd, self._drain_stderr)
        try:
            self._pidfd = os.pidfd_open(popen.pid)
        except (AttributeError, OSError):
            self._pidfd = -1
            args = self._loop, popen, weakref.WeakMethod(self._handle_exit)
            threading.Thread(
                target=_wait_in_thread, args=args, name="mcpwire-wait", daemon=True
            ).start()
        else:
            self._loop.add_reader(self._pidfd, self._handle_exit)

    def on_exit(self, callback: Callable[[], None] | None) -> None:
        """Set the one function to call when the child has ended; at once if it has."""
        self._on_exit = callback
        if callback is not None and self.exited.is_set():
            callback()

    def drain_stderr(self) -> None:
        """Read the available bytes of stderr, so that an error can quote them.

        The number of reads is limited: a child that writes stderr without pause must
        not block the loop.
        """
        for _ in range(MAX_DRAIN_READS):
            if self._stderr_fd < 0 or not self._drain_stderr():
                return

    def _drain_stderr(self) -> bool:
        try:
            data = os.read(self._stderr_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if data:
            self.stderr.feed(data)
        else:
            self._stderr_fd = self._close(self._stderr_fd)
        return bool(data)

    def _close(self, fd: int) -> int:
        if fd >= 0:
            unwatch_descriptor(self._loop, fd)
            os.close(fd)
        return -1

    def _handle_exit(self) -> None:
        self._pidfd = self._close(self._pidfd)
        if self.exited.is_set():
            return
        self.exit_code = self._popen.poll()
        self.drain_stderr()
        # Waiting tasks of a closed loop cannot be woken.
        with contextlib.suppress(RuntimeError):
            self.exited.set()
        if self._on_exit is not None:
            self._on_exit()

    async def stop(self, *, close_grace: float, terminate_grace: float) -> None:
        """End the child and its group within both grace times and 2 `KILL_TIMEOUT_S`.

        Its stdin must have been closed. Safe to call after its end. If cancelled, it
        kills the group before it raises `CancelledError`.
        """
        try:
            await self._wait_exit(close_grace)
            if self._signal_group(signal.SIGTERM):
                await self._wait_group(terminate_grace)
                if self._signal_group(signal.SIGKILL):
                    await self._wait_group(KILL_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the whole group and close all descriptors, within `KILL_TIMEOUT_S`."""
        if not self._finalizer.alive:
            return
        if self._signal_group(signal.SIGKILL) and not self.exited.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(KILL_TIMEOUT_S)
            self._handle_exit()
        self._finalizer.detach()
        self._pidfd = self._close(self._pidfd)
        self._stderr_fd = self._close(self._stderr_fd)
        self.stdin = self._close(self.stdin)
        self.stdout = self._close(self.stdout)

    def after_fork(self) -> None:
        """Close all descriptors; neither wait for the child nor end it."""
        self._finalizer.detach()
        self._popen.returncode = 0  # else its finaliser would warn and poll the child
        for fd in (self._pidfd, self._stderr_fd, self.stdin, self.stdout):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self._stderr_fd = self.stdin = self.stdout = -1

    async def _wait_exit(self, timeout: float) -> bool:
        if not self.exited.is_set():
            await wait_at_most(timeout, self.exited.wait())
        return self.exited.is_set()

    async def _wait_group(self, timeout: float) -> None:
        """Wait until the child and all other processes of the group have ended."""
        deadline = self._loop.time() + timeout
        if not await self._wait_exit(timeout):
            return
        interval = SWEEP_INTERVAL_S
        # Poll, because the kernel does not report the exit of grandchildren.
        while is_group_running(self.pid) and self._loop.time() < deadline:
            await asyncio.sleep(interval)
            interval = min(2 * interval, 10 * SWEEP_INTERVAL_S)

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the group; return whether processes may be left."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            if self.exited.is_set():
                return False
            # The child has left its group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)
        except PermissionError:
            # On macOS, the group has only zombies; elsewhere, its processes have
            # changed their user, and this process may not end them.
            return False
        return True


def _wait_in_thread(
    loop: asyncio.AbstractEventLoop,
    popen: subprocess.Popen[bytes],
    callback: weakref.WeakMethod[Callable[[], None]],
) -> None:
    popen.wait()
    has_exited = callback()
    if has_exited is not None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(has_exited)


def spawn(target: Stdio, tail: StderrTail) -> ChildProcess:
    """Start a command with exactly its arguments, without a shell, in its own group."""
    env, inherits = dict(target.environment()), target.stderr == "inherit"
    fds: list[int] = []
    try:
        child_in, stdin = _open_pipe(fds)
        stdout, child_out = _open_pipe(fds)
        stderr, child_err = (-1, -1) if inherits else _open_pipe(fds)
        popen = subprocess.Popen(  # noqa: S603 - the user's own command
            [target.command, *target.args],
            stdin=child_in,
            stdout=child_out,
            stderr=None if inherits else child_err,
            env=env,
            cwd=target.cwd,
            process_group=0,
        )
    except BaseException as error:
        for fd in fds:
            os.close(fd)
        if not isinstance(error, (OSError, ValueError)):
            raise
        raise spawn_error(target, error) from error
    for fd in (child_in, child_out, child_err):
        if fd >= 0:
            os.close(fd)
    return ChildProcess(popen, (stdin, stdout, stderr), tail)


def _open_pipe(fds: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    fds.extend(ends)
    return ends


def describe_exit(code: int | None) -> str:
    """Describe a child's end: ``exited with code 3``, ``was killed by SIGKILL``."""
    if code is None:
        return "ended"
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"


class StderrTail:
    """Buffer of the last bytes of a child's stderr, with a limit and in linear time."""

    def __init__(
        self, limit: int, stderr: str | Callable[[bytes], None] = "tail"
    ) -> None:
        self._limit = limit
        self._hook = None if isinstance(stderr, str) else stderr
        self._buffer = bytearray()
        self._text: str | None = ""

    def feed(self, data: bytes) -> None:
        """Add bytes; discard the oldest bytes over the limit."""
        self._buffer += data
        self._text = None
        # Cut only at twice the limit, so that each byte is moved at most once or twice.
        if len(self._buffer) > 2 * self._limit:
            del self._buffer[: -self._limit]
        if self._hook is not None:
            try:
                self._hook(data)
            except (Exception, asyncio.CancelledError):
                # An error of the user's function must not affect the connection.
                logger.exception("stderr function %r raised", self._hook)

    @property
    def text(self) -> str:
        """The kept bytes as text; cached, because many errors may quote it."""
        if self._text is None:
            self._text = bytes(self._buffer[-self._limit :]).decode("utf-8", "replace")
        return self._text


def spawn_error(target: Stdio, error: OSError | ValueError) -> ConnectError:
    """Return the error for a command that could not be started."""
    command, cwd = target.command, target.cwd
    if isinstance(error, ValueError):
        return ConnectError(f"cannot start {command!r}: {error}", target=command)
    reason = error.strerror or str(error)
    if cwd is not None and not os.path.isdir(cwd):  # noqa: PTH112 - no Path needed
        reason = f"the working directory {cwd!r} does not exist"
    elif isinstance(error, FileNotFoundError):
        reason = "command not found"
    reason += _suggest_command(command)
    return ConnectError(
        f"cannot start {command!r}: {reason}", target=command, errno=error.errno
    )


def _suggest_command(word: str) -> str:
    """Return a hint if a word that is no program may be a script or a URL."""
    import re

    if script := re.search(r"\.(py|js)\Z", word):
        program = "python" if script[1] == "py" else "node"
        return f"; did you mean {f'{program} {word}'!r}?"
    host = re.match(
        r"localhost(?=[:/]|\Z)|[\w.-]+(?=:\d+(/|\Z))|([\w-]+\.)+[A-Za-z]{2,}(?=/)", word
    )
    if host is None:
        return ""
    scheme = "http" if host[0] in {"localhost", "127.0.0.1"} else "https"
    return f"; did you mean {f'{scheme}://{word}'!r}?"


def is_group_running(group: int) -> bool:
    """Return whether a process of the group still runs; zombies do not count."""
    with contextlib.suppress(ChildProcessError):
        # If this process is the init of a container, orphans have become its children.
        while os.waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG) is not None:
            pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    # Signal 0 also reaches zombies, which remain for ever if init never reaps them.
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names only
    except OSError:
        return True
    return any(_is_running_in_group(name, group) for name in names)


def _is_running_in_group(pid: str, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            # After the name, which may contain parentheses: state, parent, group.
            state, _, owner = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False  # the process has ended
    return int(owner) == group and state not in {b"Z", b"X"}


def kill_leaked(popen: subprocess.Popen[bytes], owner_pid: int) -> None:
    """Kill the group of a child that was not stopped, unless in a forked process."""
    if os.getpid() != owner_pid:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        popen.wait(KILL_TIMEOUT_S)
