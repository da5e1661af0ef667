"""Sees children end where there is no pidfd: one thread for all of them.

It looks at each child a hundred times a second while there are any, and ends with the
last of them. It does not touch SIGCHLD, which belongs to the application.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    import subprocess
    from collections.abc import Callable

    _Watched = tuple[asyncio.AbstractEventLoop, Callable[[], bool], Callable[[], None]]

__all__ = ["Watch", "watch"]

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
