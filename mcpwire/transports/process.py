"""A child process in a group of its own: spawned, watched, and surely gone at the end.

::

    spawn ──► running ──► exited ──► group swept ──► reaped
                 │ stop()    ▲
                 └─ stdin closed, wait, TERM the group, wait, KILL the group

The group is signalled, not the child: `npx` and `uvx` wrap the real server. Exit is
seen through a pidfd where the kernel has them, else by one thread that serves all
children.
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
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mcpwire.errors import ConnectError
from mcpwire.transports.duplex import READ_BYTES, forget_descriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    _Watched = tuple[asyncio.AbstractEventLoop, Callable[[], bool], Callable[[], None]]

__all__ = [
    "KILLED_S",
    "ChildProcess",
    "StderrTail",
    "describe_exit",
    "spawn",
    "spawn_error",
    "tell_stderr",
]

logger = logging.getLogger("mcpwire")

DRAIN_READS: Final = 16
"""A pipe holds at most 1 MiB, unless its writer is privileged."""

SWEEP_INTERVAL_S: Final = 0.01
"""The first pause between looks at a group without its leader."""

KILLED_S: Final = 1.0
"""How long the kernel may take to end what got SIGKILL."""


def tell_stderr(hook: Callable[[bytes], None], data: bytes) -> None:
    """Hand bytes to the user's function; its failure must not cost a call its end."""
    try:
        hook(data)
    except (Exception, asyncio.CancelledError):
        logger.exception("stderr function %r raised", hook)


class ExitWatch(Protocol):
    """Waits for a child's end."""

    def stop(self) -> None:
        """Stop watching; does nothing where the end was told already."""

    def forked(self) -> None:
        """Let go of what a fork copied, and of nothing that is the parent's too."""


class ChildProcess:
    """A running child; its stdin and stdout are plain descriptors.

    Attributes:
        pid: The child's process id, which is also its group's.
        stdin: Our writing end, or -1 once it was given away or closed.
        stdout: Our reading end, or -1 once it was given away.
        stderr: The end of what it wrote to stderr.
        exit_code: How it ended (negative: by that signal); ``None`` while it runs.
        exited: Set once it has ended.
    """

    def __init__(
        self,
        started: Started,
        tail: StderrTail,
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        popen, stdin, stdout, stderr = started
        self._loop = asyncio.get_running_loop()
        self._popen = popen
        self._stderr_fd = stderr
        self._on_stderr = on_stderr
        self._on_exit: Callable[[], None] | None = None
        self.pid = popen.pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = tail
        self.exit_code: int | None = None
        self.exited = asyncio.Event()
        self._forgotten = weakref.finalize(self, kill_forgotten, popen, os.getpid())
        if stderr >= 0:
            os.set_blocking(stderr, False)
            self._loop.add_reader(stderr, self._drain_stderr)
        self._exit_watch = _watch_exit(self._loop, popen, self._has_exited)

    def on_exit(self, callback: Callable[[], None] | None) -> None:
        """Call this, and nothing else, when the child has ended; at once if it has."""
        self._on_exit = callback
        if callback is not None and self.exited.is_set():
            callback()

    def drain_stderr(self) -> None:
        """Take in what stderr holds now, so that an error can quote it.

        What is written meanwhile may be left: a child that floods its stderr must not
        keep us here.
        """
        for _ in range(DRAIN_READS):
            if self._stderr_fd < 0 or not self._drain_stderr():
                return

    def _drain_stderr(self) -> bool:
        try:
            data = os.read(self._stderr_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._close_stderr()
            return False
        self.stderr.feed(data)
        if self._on_stderr is not None:
            tell_stderr(self._on_stderr, data)
        return True

    def _close_stderr(self) -> None:
        if self._stderr_fd >= 0:
            forget_descriptor(self._loop, self._stderr_fd)
            os.close(self._stderr_fd)
            self._stderr_fd = -1

    def _has_exited(self) -> None:
        if self.exited.is_set():
            return
        self.exit_code = self._popen.poll()
        self.drain_stderr()
        # Nothing that waits on a closed loop can be woken.
        with contextlib.suppress(RuntimeError):
            self.exited.set()
        if self._on_exit is not None:
            self._on_exit()

    async def stop(self, *, close_grace: float, terminate_grace: float) -> None:
        """End the child and its group; bounded by the two graces and a second each.

        Its stdin must have been closed. Safe to call when it has ended already. When
        cancelled, the group is killed before the cancellation goes on.
        """
        try:
            await self._wait_exit(close_grace)
            if self._signal_group(signal.SIGTERM):
                await self._wait_group(terminate_grace)
                if self._signal_group(signal.SIGKILL):
                    await self._wait_group(KILLED_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the whole group now and let go of everything; never blocks for long."""
        if not self._forgotten.alive:
            return
        if self._signal_group(signal.SIGKILL) and not self.exited.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(KILLED_S)
            self._has_exited()
        self._forgotten.detach()
        self._exit_watch.stop()
        self._close_stderr()
        for fd in (self.stdin, self.stdout):
            if fd >= 0:
                os.close(fd)
        self.stdin = self.stdout = -1

    def forked(self) -> None:
        """Close our copies; the child is not ours to wait for, nor to end."""
        self._forgotten.detach()
        self._popen.returncode = 0  # or its finaliser would warn, and look for it
        self._exit_watch.forked()
        for fd in (self.stdin, self.stdout, self._stderr_fd):
            if fd >= 0:
                os.close(fd)
        self.stdin = self.stdout = self._stderr_fd = -1

    async def _wait_exit(self, timeout: float) -> bool:
        if not self.exited.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self.exited.wait()
        return self.exited.is_set()

    async def _wait_group(self, timeout: float) -> None:
        """Wait until nobody of the group is left, the child itself included."""
        deadline = self._loop.time() + timeout
        if not await self._wait_exit(timeout):
            return
        interval = SWEEP_INTERVAL_S
        # There is no event to wait for: grandchildren are not ours.
        while group_runs(self.pid) and self._loop.time() < deadline:
            await asyncio.sleep(interval)
            interval = min(2 * interval, 10 * SWEEP_INTERVAL_S)

    def _signal_group(self, number: int) -> bool:
        return signal_group(self.pid, number, child_runs=not self.exited.is_set())


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    tail_limit: int,
    *,
    inherit_stderr: bool = False,
    on_stderr: Callable[[bytes], None] | None = None,
) -> ChildProcess:
    """Start a command, exactly these arguments, no shell, in a group of its own."""
    started = start(argv, env, cwd, inherit_stderr=inherit_stderr)
    return ChildProcess(started, StderrTail(tail_limit), on_stderr)


def _watch_exit(
    loop: asyncio.AbstractEventLoop,
    popen: subprocess.Popen[bytes],
    callback: Callable[[], None],
) -> ExitWatch:
    """Call back on the loop once the child has ended."""
    try:
        pidfd = os.pidfd_open(popen.pid)
    except (AttributeError, OSError):
        return watch(loop, popen, callback)
    return _PidfdWatch(loop, pidfd, callback)


class _PidfdWatch:
    """Watches a child through a descriptor that becomes readable with its end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pidfd: int, callback: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._pidfd = pidfd
        self._callback = callback
        loop.add_reader(pidfd, self._ended)

    def _ended(self) -> None:
        self.stop()
        self._callback()

    def stop(self) -> None:
        if self._pidfd >= 0:
            forget_descriptor(self._loop, self._pidfd)
        self.forked()

    def forked(self) -> None:
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)


# Without a loop...


def describe_exit(code: int | None) -> str:
    """Say how a child ended: ``exited with code 3``, ``was killed by SIGKILL``."""
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
    """Keeps the end of a stream, within a number of bytes, in linear time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._text: str | None = ""
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take in bytes, forgetting the oldest over the limit."""
        self.total += len(data)
        self._kept += data
        self._text = None
        # Cut in half-limit strides, so that each byte is moved at most once or twice.
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    @property
    def text(self) -> str:
        """What is kept, as text; bytes that are no UTF-8 are replaced.

        The same string until more comes: every call that fails quotes it.
        """
        if self._text is None:
            self._text = bytes(self._kept[-self._limit :]).decode("utf-8", "replace")
        return self._text


class Started(NamedTuple):
    """A child that has just been started, and our ends of its pipes."""

    popen: subprocess.Popen[bytes]
    stdin: int
    stdout: int
    stderr: int
    """-1 where it inherits ours."""


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    *,
    inherit_stderr: bool = False,
) -> Started:
    """Start a command, exactly these arguments, no shell, in a group of its own."""
    fds: list[int] = []
    popen = None
    try:
        child_in, stdin = _pipe(fds)
        stdout, child_out = _pipe(fds)
        stderr, child_err = (-1, -1) if inherit_stderr else _pipe(fds)
        popen = subprocess.Popen(  # noqa: S603 - argv is the user's own command
            list(argv),
            stdin=child_in,
            stdout=child_out,
            stderr=None if inherit_stderr else child_err,
            env=dict(env),
            cwd=cwd,
            process_group=0,
        )
    except BaseException as error:
        for fd in fds:
            os.close(fd)
        if popen is not None:  # an interrupt came in between
            kill_forgotten(popen, os.getpid())
        if not isinstance(error, (OSError, ValueError)):
            raise
        raise spawn_error(argv, cwd, error) from error
    for fd in (child_in, child_out, child_err):
        if fd >= 0:
            os.close(fd)
    return Started(popen, stdin, stdout, stderr)


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened.extend(ends)
    return ends


def spawn_error(
    argv: Sequence[str], cwd: str | None, error: OSError | ValueError
) -> ConnectError:
    """Say why a command could not be started."""
    if isinstance(error, ValueError):
        return ConnectError(f"cannot start {argv[0]!r}: {error}", target=argv[0])
    reason = error.strerror or str(error)
    if cwd is not None and not os.path.isdir(cwd):  # noqa: PTH112 - no Path needed
        reason = f"the working directory {cwd!r} does not exist"
    elif isinstance(error, FileNotFoundError):
        reason = "command not found"
    reason += _meant(argv[0])
    return ConnectError(
        f"cannot start {argv[0]!r}: {reason}", target=argv[0], errno=error.errno
    )


def _meant(word: str) -> str:
    """Say what a target that is no program may mean: a script, or a URL."""
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


def signal_group(group: int, number: int, *, child_runs: bool) -> bool:
    """Signal what is left of a child's group; return whether anything is."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        if not child_runs:
            return False
        # The child has left its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(group, number)
    except PermissionError:
        # macOS answers so for a group of zombies; elsewhere a member changed its
        # user, and then it is not ours to end.
        return False
    return True


def group_runs(group: int) -> bool:
    """Tell whether a process of that group still runs; zombies do not."""
    with contextlib.suppress(ChildProcessError):
        # Where this process is its container's init, orphans have become its children.
        while os.waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG) is not None:
            pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    # Signal 0 also reaches zombies, and an init that never reaps keeps them for ever.
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return True
    return any(_runs_in_group(name, group) for name in names)


def _runs_in_group(pid: str, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            # The name, in parentheses, may hold anything; state, parent, group follow.
            state, _, owner = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False  # gone meanwhile
    return int(owner) == group and state not in {b"Z", b"X"}


def kill_forgotten(popen: subprocess.Popen[bytes], owner_pid: int) -> None:
    """Kill the group of a child nobody stopped; after a fork it is not ours."""
    if os.getpid() != owner_pid:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        popen.wait(KILLED_S)


# Children where there is no pidfd: one thread looks at each a hundred times a second
# while there are any. It does not touch SIGCHLD, which belongs to the application.

INTERVAL_S: Final = 0.01

_lock = threading.Lock()
_changed = threading.Event()
_watched: dict[int, _Watched] = {}
_thread: threading.Thread | None = None


def watch(
    loop: asyncio.AbstractEventLoop,
    popen: subprocess.Popen[bytes],
    callback: Callable[[], None],
) -> Watch:
    """Call back on the loop once the child has ended."""
    global _thread  # noqa: PLW0603 - the one thread is the point of this module
    with _lock:
        _watched[popen.pid] = (loop, lambda: popen.poll() is not None, callback)
        if _thread is None:
            _thread = threading.Thread(target=_look, name="mcpwire-reaper", daemon=True)
            _thread.start()
    return Watch(popen.pid)


class Watch:
    """One child that is being watched."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def stop(self) -> None:
        """Stop watching."""
        with _lock:
            _watched.pop(self._pid, None)
        _changed.set()

    def forked(self) -> None:
        """A fork takes no thread along: there is nothing to let go of."""


def _forked() -> None:
    """Begin anew: the thread is not here, and the lock may have been its."""
    global _lock, _changed, _thread
    _lock, _changed, _thread = threading.Lock(), threading.Event(), None
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _look() -> None:
    global _thread  # noqa: PLW0603 - as above
    while True:
        with _lock:
            ended = [pid for pid, (_, has_ended, _) in _watched.items() if has_ended()]
            told = [_watched.pop(pid) for pid in ended]
            if not _watched:
                _thread = None
        for loop, _, callback in told:
            try:
                loop.call_soon_threadsafe(callback)
            except RuntimeError:
                continue  # the loop is closed: nobody is left to be told
        if _thread is not threading.current_thread():
            return
        _changed.wait(INTERVAL_S)
        _changed.clear()
