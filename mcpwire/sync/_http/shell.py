"""What a blocking HTTP channel has of its own: threads, pauses, a clock that is none.

Each call ends by itself when its time is over, for it waits in slices; so the clock
that the asyncio channel arms has nothing to do here.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError, MCPError
from mcpwire.sync._bell import Bell
from mcpwire.sync._shell.callbacks import check_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.limits import Limits
    from mcpwire.protocol.http.reply import Reply
    from mcpwire.transports.base import CallHandle

__all__ = ["Shell"]

SLICE_S: Final = 1.0
"""How long a pause goes on before the deadline is looked at anew."""

STARTING_S: Final = 5.0
"""How long who begins a call waits for the thread that performs it."""

logger = logging.getLogger("mcpwire")


class _NoClock:
    """Takes the place of the clock that ends calls on asyncio."""

    at = float("-inf")

    def arm(self, at: float) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class Shell:
    """The threads of one channel.

    Attributes:
        telling: Held while somebody outside is told something: one at a time.
        clock: Rings for nobody.
        has_waiter: Whether somebody waits for the last call's end.
        streams_are_cheap: Whether one more stream costs no thread.
    """

    streams_are_cheap: Final = False

    def __init__(
        self,
        waiting: Mapping[int, Any],
        expire: Callable[[int, Any, float], None],
        limits: Limits,
    ) -> None:
        del expire, limits
        self._waiting = waiting
        self._is_forked = False
        # Re-entrant, for a signal handler may close the client meanwhile.
        self._starting = threading.RLock()
        self._threads: set[threading.Thread] = set()
        self._pauses: dict[Reply, threading.Lock] = {}
        self._begun: dict[CallHandle, Bell] = {}
        self._deserted: dict[CallHandle, Callable[[], object]] = {}
        self._quiet: Bell | None = None
        self.has_waiter = False
        self.telling = threading.RLock()
        self.time = monotonic
        self.clock = _NoClock()

    def follow(self, engine: object) -> None:
        """Do nothing: who waits looks at the deadline, and at nothing else."""

    def is_here(self) -> bool:
        """Tell whether calls may be made from here."""
        return not self._is_forked

    def refusal(self) -> MCPError | None:
        """Say why no call may be made from here, if none may."""
        if self._is_forked:
            return LocalProtocolError(
                "this connection belongs to the process that this one was forked from; "
                "connect a client of your own"
            )
        return None

    def forked(self) -> None:
        """Refuse every use from now on."""
        self._is_forked = True
        self._starting = threading.RLock()  # another thread may have held it
        self._threads.clear()  # they are not here

    # Work beside the calls...

    def spawn(self, work: Callable[..., Any], *args: Any) -> None:
        """Run something in a thread of its own; it ends by itself, or when aborted."""

        def run() -> None:
            try:
                work(*args)
            except MCPError:
                return  # the channel was closed under it
            except Exception:
                logger.exception("%s failed", name)
            finally:
                self._threads.discard(threading.current_thread())

        name = f"mcpwire-http-{work.__name__}"
        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._starting:  # nobody may look for one that has not begun
            self._threads.add(thread)
            thread.start()

    def stop(self) -> None:
        """Do nothing: threads end when what they wait for is aborted."""

    def settle(self, until: float) -> None:
        """Wait for the end of what was spawned, until then at most."""
        with self._starting:
            # An interrupt may have come between, and left one that never began.
            threads = [thread for thread in list(self._threads) if thread.is_alive()]
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - monotonic()))

    def after(
        self, seconds: float, work: Callable[..., object], *args: Any
    ) -> threading.Timer:
        """Have something done later, unless it is cancelled before."""
        timer = threading.Timer(seconds, work, args)
        timer.daemon = True
        timer.start()
        return timer

    # Waiting...

    def pause(self, reply: Reply, seconds: float) -> None:
        """Let so many seconds pass between two requests of a call.

        Raises:
            MCPError: It was aborted, or its time is over.
        """
        # A lock that is held, and no `Event`: who closes the client may be a signal
        # handler, or a finaliser, in the middle of this very wait.
        woken = self._pauses[reply] = threading.Lock()
        woken.acquire()
        end = monotonic() + seconds
        deadline = getattr(reply, "deadline", None)
        try:
            while reply.aborted is None:
                now = monotonic()
                if now >= end:
                    return
                left = min(end - now, SLICE_S)
                if deadline is not None:
                    if deadline.expired(now):
                        raise reply.out_of_time(now)
                    left = min(left, deadline.at - now)
                woken.acquire(timeout=left)
            raise reply.aborted
        finally:
            self._pauses.pop(reply, None)

    def abort(self, reply: Reply, error: MCPError) -> bool:
        """End the pause of a call that was aborted; return whether there was one."""
        del error
        woken = self._pauses.get(reply)
        if woken is None:
            return False
        if woken.locked():
            with contextlib.suppress(RuntimeError):  # another thread was quicker
                woken.release()
        return True

    def paused(self) -> list[Reply]:
        """Return the replies of those who let time pass."""
        return list(self._pauses)

    def quiet(self) -> None:
        """Note that no call is open any more."""
        if self._quiet is not None:
            self._quiet.ring()

    def until_quiet(self) -> None:
        """Wait until no call is open any more."""
        self.has_waiter = True
        # In slices, for the last may have ended before that was seen.
        while True:
            quiet = self._quiet = Bell()
            if not self._waiting:
                return
            quiet.wait(SLICE_S)

    # Calls that nobody waits for...

    def begin(
        self,
        handle: CallHandle,
        work: Callable[[], None],
        withdraw: Callable[[], object],
    ) -> None:
        """Run a call in a thread, and wait until it has its id.

        Where that is interrupted, the call is withdrawn, now or as soon as it has one.
        """
        begun = self._begun[handle] = Bell()

        def run() -> None:
            try:
                work()
            finally:
                self._begun.pop(handle, None)
                self._deserted.pop(handle, None)
                begun.ring()

        try:
            self.spawn(run)
            begun.wait(STARTING_S)
        except BaseException:
            self._deserted[handle] = withdraw
            withdraw()
            raise

    def begun(self, handle: CallHandle) -> None:
        """Note that a call has its id."""
        begun = self._begun.pop(handle, None)
        if begun is not None:
            begun.ring()
        withdraw = self._deserted.pop(handle, None)
        if withdraw is not None:
            withdraw()

    def settled(self, reply: Reply, value: Any) -> Any:
        """Return what a function of the user's gave; nothing here can await it."""
        del reply
        check_outcome(value, "headers")
        return value
