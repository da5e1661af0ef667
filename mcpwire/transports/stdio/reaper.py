"""Sees children end where there is no pidfd: one thread for all of them.

It looks at each child a hundred times a second while there are any, and ends with the
last of them. It does not touch SIGCHLD, which belongs to the application.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    import subprocess
    from collections.abc import Callable

    _Watched = tuple[asyncio.AbstractEventLoop, Callable[[], bool], Callable[[], None]]

__all__ = ["watch"]

INTERVAL_S: Final = 0.01

_lock = threading.Lock()
_changed = threading.Event()
_watched: dict[int, _Watched] = {}
_thread: threading.Thread | None = None


def watch(
    loop: asyncio.AbstractEventLoop,
    popen: subprocess.Popen[bytes],
    callback: Callable[[], None],
) -> Callable[[], None]:
    """Call back on the loop once the child has ended; return what stops watching."""
    global _thread  # noqa: PLW0603 - the one thread is the point of this module
    pid = popen.pid
    with _lock:
        _watched[pid] = (loop, lambda: popen.poll() is not None, callback)
        if _thread is None:
            _thread = threading.Thread(target=_look, name="mcpwire-reaper", daemon=True)
            _thread.start()

    def stop() -> None:
        with _lock:
            _watched.pop(pid, None)
        _changed.set()

    return stop


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
