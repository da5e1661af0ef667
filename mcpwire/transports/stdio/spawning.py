"""Children without a loop: started, their groups signalled, their ends put in words.

Both shells use it: nothing here waits for anything but the kernel's last second.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwire.errors import ConnectError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DRAIN_READS",
    "KILLED_S",
    "LAST_WORDS_S",
    "READ_BYTES",
    "SWEEP_INTERVAL_S",
    "Started",
    "StderrTail",
    "describe_exit",
    "group_runs",
    "kill_forgotten",
    "signal_group",
    "spawn_error",
    "start",
]

READ_BYTES: Final = 65_536
"""What a pipe holds on Linux, so more per read would not be filled."""

DRAIN_READS: Final = 16
"""A pipe holds at most 1 MiB, unless its writer is privileged."""

SWEEP_INTERVAL_S: Final = 0.01
"""The first pause between looks at a group whose leader is gone."""

KILLED_S: Final = 1.0
"""How long the kernel may take to end what got SIGKILL."""

LAST_WORDS_S: Final = 0.1
"""How long a peer that no longer reads may still take to end its own output."""


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
    """Start a command, exactly these arguments, no shell, in a group of its own.

    Raises:
        ConnectError: It could not be started; names the command and the reason.
    """
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
    """Signal whoever is left of a child's group; return whether anybody is."""
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
