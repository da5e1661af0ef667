"""Rate limits of log messages that clients can cause any number of times."""

from __future__ import annotations

import logging
import threading
import time
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from types import TracebackType

MAX_KINDS: Final = 16
"""How many kinds of one message have separate limits; further ones share one."""


class LogLimit:
    """Allows one line of each kind per second, from any thread."""

    INTERVAL_S = 1.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # For each message and kind, the time of the last line and the number of lines
        # dropped since.
        self._messages: dict[str, dict[Hashable, tuple[float, int]]] = {}

    def take(self, message: str, kind: Hashable) -> int | None:
        """Return the number of lines dropped before this; ``None``: drop this, too."""
        with self._lock:
            now, kinds = self._clock(), self._messages.setdefault(message, {})
            if kind not in kinds and len(kinds) >= MAX_KINDS:
                for old_kind, (last, _) in list(kinds.items()):
                    if now - last >= self.INTERVAL_S:
                        del kinds[old_kind]
                if len(kinds) >= MAX_KINDS:
                    kind = None
            last, dropped = kinds.get(kind, (now - self.INTERVAL_S, 0))
            if now - last < self.INTERVAL_S:
                kinds[kind] = last, dropped + 1
                return None
            kinds[kind] = now, 0
            return dropped


shared = LogLimit()
"""The limit for all clients of this process."""


class LimitedLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that limits each message of `INFO` and above to one line per second.

    The next line counts the dropped ones. A message is a format string without data of
    a client; the parameter `kind` distinguishes lines of one message.
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
        if level >= logging.INFO and self.logger.isEnabledFor(level):
            dropped = shared.take(str(msg), kind)
            if dropped is None:
                return
            if dropped:
                msg = f"{msg} ({dropped} more were not logged)"
        self.logger.log(level, msg, *args, stacklevel=2, **options)


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


def error_kind(error: BaseException) -> Hashable:
    """Return the kind of an error: its type, and the line of code that raised it."""
    kind: Hashable = type(error).__name__
    for frame, line in walk_tb(error.__traceback__):
        kind = type(error).__name__, frame.f_code.co_filename, line
    return kind
