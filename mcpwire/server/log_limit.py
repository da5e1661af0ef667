"""Rate limits of log messages that clients can cause any number of times."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from types import TracebackType

KINDS_MOST: Final = 16
"""How many kinds of one message have separate limits; further ones share one."""


class LogLimit:
    """Logs one line of each kind per second; the next one counts the dropped lines.

    Safe to use from several threads.
    """

    INTERVAL_S = 1.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # For each message and kind, the time of the last line and the number of lines
        # dropped since.
        self._messages: dict[str, dict[Hashable, tuple[float, int]]] = {}

    def log(
        self,
        write: Callable[..., None],
        message: str,
        *args: Any,
        kind: Hashable = None,
        **options: Any,
    ) -> None:
        """Log a line by `write`, unless one of its kind was logged within a second.

        The `message` is a format string without data of a client; `kind` distinguishes
        lines of one message.
        """
        with self._lock:
            left_out = self._take(message, kind)
        if left_out is None:
            return
        if left_out:
            message = f"{message} ({left_out} more were not logged)"
        write(message, *args, **options)

    def _take(self, message: str, kind: Hashable) -> int | None:
        """Return the number of lines dropped before this; ``None``: drop this, too."""
        now = self._clock()
        kinds = self._messages.setdefault(message, {})
        if kind not in kinds and len(kinds) >= KINDS_MOST:
            for each, (last, _) in list(kinds.items()):
                if now - last >= self.INTERVAL_S:
                    del kinds[each]
            if len(kinds) >= KINDS_MOST:
                kind = None
        last, left_out = kinds.get(kind, (now - self.INTERVAL_S, 0))
        if now - last < self.INTERVAL_S:
            kinds[kind] = last, left_out + 1
            return None
        kinds[kind] = now, 0
        return left_out


shared = LogLimit()
"""The limit for all clients of this process."""


class LimitedLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that limits each message of `INFO` and above to one line per second.

    Its methods take a `kind`; see `LogLimit.log`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(
        self,
        level: int,
        msg: object,
        *args: object,
        kind: Hashable = None,
        **options: Any,
    ) -> None:
        """Log a line, unless one of its kind was logged within the last second."""
        if level < logging.INFO:
            self.logger.log(level, msg, *args, stacklevel=2, **options)
        elif self.logger.isEnabledFor(level):
            write = partial(self.logger.log, level, stacklevel=3)
            shared.log(write, str(msg), *args, kind=kind, **options)


def authors_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error, from the first frame of the author's code.

    The whole traceback, if all frames belong to mcpwire, to Python or to installed
    packages.
    """
    from sysconfig import get_path

    folders = map(get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
    installed = "<frozen ", *folders
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        module = str(frame.f_globals.get("__name__"))
        is_installed = frame.f_code.co_filename.startswith(installed)
        if module.partition(".")[0] != "mcpwire" and not is_installed:
            return traceback
        traceback = traceback.tb_next
    return error.__traceback__


def place_of(error: BaseException) -> Hashable:
    """Return the kind of an error: its type, and the line of code that raised it."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return type(error).__name__
    code = traceback.tb_frame.f_code
    return type(error).__name__, code.co_filename, traceback.tb_lineno
