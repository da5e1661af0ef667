"""Progress and logs of one request, from any thread, never blocking who sends them.

A tool may report a million steps. So many at once and then so many a second go out; of
progress that comes faster the newest waits, as it says all that the older did, and of
logs the rest is dropped and counted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.request import LEVELS
from mcpwire.transports.base import runs_here
from mcpwire.types._base import LOG_LEVEL

if TYPE_CHECKING:
    import asyncio

    from mcpwire.server.request import RequestContext

__all__ = ["Outbox", "Pace", "is_wanted"]

_PROGRESS_AT_ONCE: Final = 50
_PROGRESS_PER_SECOND: Final = 20.0
_LOGS_AT_ONCE: Final = 200
_LOGS_PER_SECOND: Final = 50.0

_ROUNDING: Final = 1e-6
"""What sums of times may lack: one that has waited for its pause passes."""

_MOST_WAITING: Final = 512
"""What other threads have said and the loop has not yet taken; the oldest go first."""


class Pace:
    """Lets so many pass at once, and later so many a second."""

    __slots__ = ("_at_once", "_left", "_per_second", "_then")

    def __init__(self, at_once: int, per_second: float) -> None:
        self._at_once = self._left = float(at_once)
        self._per_second = per_second
        self._then: float | None = None

    def take(self, now: float) -> bool:
        """Tell whether one may pass now."""
        if self._then is not None:
            gained = (now - self._then) * self._per_second
            self._left = min(self._at_once, self._left + gained)
        self._then = now
        if self._left < 1 - _ROUNDING:
            return False
        self._left = max(0.0, self._left - 1)
        return True

    @property
    def pause(self) -> float:
        """How long until the next one may pass, in seconds; after a refusal."""
        return (1 - self._left) / self._per_second


def is_wanted(level: str, request: RequestContext) -> bool:
    """Tell whether the client wants to hear of that severity."""
    session = request.session
    wanted = request.meta.get(LOG_LEVEL) if session is None else session.log_level
    return wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted)


class Outbox:
    """Sends on the loop; see the module's text."""

    __slots__ = (
        "_dropped",
        "_is_scheduled",
        "_late",
        "_logs",
        "_loop",
        "_progress",
        "_request",
        "_timer",
        "_waiting",
    )

    def __init__(
        self, request: RequestContext, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._request = request
        self._loop = loop
        self._progress = Pace(_PROGRESS_AT_ONCE, _PROGRESS_PER_SECOND)
        self._logs = Pace(_LOGS_AT_ONCE, _LOGS_PER_SECOND)
        self._late: tuple[Any, ...] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dropped = 0
        self._waiting: deque[tuple[bool, tuple[Any, ...]]] = deque(maxlen=_MOST_WAITING)
        self._is_scheduled = False

    def put(self, *values: Any, is_log: bool) -> None:
        """Send progress or a log message soon; from any thread."""
        if runs_here(self._loop):
            self._take(values, is_log=is_log)
            return
        self._waiting.append((is_log, values))
        if not self._is_scheduled:
            self._is_scheduled = True
            call_soon(self._loop, self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False  # first: what comes from now on is scheduled anew
        while self._waiting:
            is_log, values = self._waiting.popleft()
            self._take(values, is_log=is_log)

    def _take(self, values: tuple[Any, ...], *, is_log: bool) -> None:
        if not self._request.is_open:
            return
        now = self._loop.time()
        if is_log:
            if self._logs.take(now):
                self._request.log(*values)
            else:
                self._dropped += 1
        elif self._progress.take(now):
            self._request.progress(*values)
        else:
            self._late = values
            if self._timer is None:
                self._timer = self._loop.call_later(self._progress.pause, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        late, self._late = self._late, None
        if late is not None:
            self._take(late, is_log=False)

    def flush(self) -> None:
        """Send what waits: the handler is done, and its answer is next."""
        self._drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._late is not None:
            self._request.progress(*self._late)
            self._late = None
        if self._dropped:
            text = f"{self._dropped} log messages came too fast and were dropped"
            self._request.log("warning", text, "mcpwire")
            self._dropped = 0


def call_soon(loop: asyncio.AbstractEventLoop, function: Any, *values: Any) -> None:
    """Have a function called on a loop; once that is closed, nobody is left."""
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:
        if not loop.is_closed():
            raise
