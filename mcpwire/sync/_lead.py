"""Threads that share one connection: whoever waits first reads for all of them.

::

    call ─► write ─► nobody leads? ─► lead: poll, read, tell whose answer came
                          │                         │ own answer: hand the lead on
                          └─► sleep ◄───────────────┘
                                └─► woken: answered, out of time, or promoted

One mutex guards all state. The lead is the right to poll and to read, held by one
thread at a time and handed on under the mutex by whoever leaves, however it leaves.

A system call lets another thread run, which would only queue up before the mutex. So
the leader reads, and who calls writes its request, outside of it: one thread writes at
a time (`_writer`), others line their requests up, and it writes those too. Who wakes
a thread takes its seat away, and then there is nothing left that it had to agree on.

An interrupt (`KeyboardInterrupt`, or whatever another thread throws in) may come
between any two instructions. `_torn` is set while bytes are between the pipe and the
state they belong to: whoever finds it set and the mutex free knows that somebody was
torn out of there, and ends the connection, which may have lost bytes. Outside the mutex
`_is_reading` and `_writer` say so, and who is torn out ends the connection itself.
"""

from __future__ import annotations

import os
from threading import Lock, get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.deadline import Deadline

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Sized

    from mcpwire.errors import TransportError

    Event = tuple[int, int]

__all__ = ["NEVER", "READ_BYTES", "Lead", "Waiter"]

NEVER: Final = Deadline(0.0, None)
"""The deadline of whoever waits for ever."""

ENTERING_S: Final = 1.0
"""How long the mutex may be taken by others, though nothing waits inside of it."""

LONGEST_POLL_S: Final = 1.0
"""Nobody waits in the system for longer at a time: a signal that comes in the moment
before is heard only afterwards, and Ctrl-C must not wait for the server."""

READ_BYTES: Final = 65_536
"""What one read takes: more would be mapped and unmapped for each answer."""

LEAVING_TRIES: Final = 100
"""More interrupts than come while a few lines are run."""

T = TypeVar("T")


class Rouses(Protocol):
    """A connection whose threads can be woken."""

    def rouse(self, waiter: Waiter) -> None:
        """Wake whoever waits for something that was set."""


class Waiter:
    """Something to wait for, in `wait`, while taking part in reading.

    Attributes:
        is_set: Whether it has happened.
    """

    __slots__ = ("_lead", "is_set", "notices", "threads")

    def __init__(self) -> None:
        self.is_set = False
        self.threads: list[int] = []
        self.notices: deque[tuple[str, dict[str, Any] | None]] | None = None
        self._lead: Rouses | None = None

    def set(self) -> None:
        """Wake whoever waits; from any thread, also while the connection reads."""
        self.is_set = True
        if self._lead is not None:
            self._lead.rouse(self)

    def clear(self) -> None:
        """Wait for the next time."""
        self.is_set = False

    def belongs_to(self, lead: Rouses) -> None:
        """Let `set` wake those who wait on that connection."""
        self._lead = lead


class Lead:
    """The part of a connection that threads have to agree on."""

    # An instance with more than 30 attributes loses what makes them cheap, unless they
    # are slots; the dict is for who shadows a method (`mcpwire.transports.tracing`).
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_dead",
        "_has_dates",
        "_holder",
        "_is_forked",
        "_is_reading",
        "_leader",
        "_longest_poll",
        "_mutex",
        "_opener",
        "_parked",
        "_poll",
        "_read_fd",
        "_torn",
        "_untold",
        "_writer",
    )

    _poll: Callable[[float], list[Event]]
    """Waits for the descriptors, so many milliseconds; where the leader waits."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._holder = 0
        """The thread inside the mutex; 0 outside of it."""
        self._torn = False
        self._is_reading = False
        """Whether the leader is between polling and having taken in what it read."""
        self._writer = 0
        """The thread that writes, outside the mutex; 0 where nobody does."""
        self._opener = 0
        """The thread whose request is opened, which writes it itself."""
        self._read_fd = -1
        self._leader = 0
        """The thread that may poll and read; 0 where nobody waits."""
        self._parked: dict[int, Lock] = {}
        """Threads that sleep until they are woken, each by a lock it cannot get."""
        self._dead: TransportError | None = None
        self._is_forked = False
        self._has_dates = False
        """Whether anything else is due than the deadlines of those who wait."""
        self._untold: Sized = ()
        """What was read, and is for a hook that runs outside the mutex."""
        self._longest_poll = LONGEST_POLL_S

    # What a connection adds; all but the first two are called inside the mutex...

    def _tell(self, waiter: Waiter) -> None:
        """Run what hears a waiter's notices, in the thread that waits."""

    def _tell_untold(self) -> None:
        """Run the hook for what is untold, in the thread that leads."""

    def _open(self, waiter: Waiter) -> None:
        """Begin what is waited for."""
        raise NotImplementedError

    def _take_in(self, events: list[Event]) -> None:
        """Read and write as far as can be done at once."""
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Take in bytes that were read."""
        raise NotImplementedError

    def _look_at_dates(self) -> None:
        """Do what is due."""

    def _write_given(self, ident: int) -> None:
        """Write what this thread has sent; outside the mutex."""
        raise NotImplementedError

    def _stop_giving(self, ident: int) -> None:
        """End what this thread was torn out of writing."""

    def _nudge(self) -> None:
        """Make the leader's `_poll` return."""
        raise NotImplementedError

    def _time_is_up(self, waiter: Waiter) -> None:
        """End what is still waited for: its deadline has passed."""

    def _withdraw(self, waiter: Waiter) -> None:
        """End what nobody waits for any more: its thread was interrupted."""

    def _poison(self) -> None:
        """End the connection: somebody was torn out of reading or writing."""
        raise NotImplementedError

    def _hang_up(self) -> None:
        """Let the peer of a lost connection see its end; the caller leads."""

    def _next_date(self, at: float) -> float:
        """Return when something is due, at the latest at `at`."""
        raise NotImplementedError

    def can_enter(self) -> bool:
        """Tell whether this thread can get the mutex.

        A hook or a signal handler cannot that runs while its thread is inside of it.
        """
        if self._holder == get_ident() and self._mutex.locked():
            return False
        # Nobody holds it for long; who has it so long is this thread, torn out just
        # before it said so.
        if not self._mutex.acquire(timeout=ENTERING_S):
            return False
        self._mutex.release()
        return True

    # Entering...

    def _refuse_reentry(self, ident: int) -> None:
        """Raise where the same thread is inside already: it would wait for itself.

        That is a signal handler, or a hook, which runs while this thread reads.
        """
        self._refuse_fork()
        if (
            ident in {self._leader, self._writer}
            or ident in self._parked
            or (ident == self._holder and self._mutex.locked())
        ):
            raise LocalProtocolError(
                "this thread is waiting on this connection already; what runs "
                "meanwhile (a hook, a signal handler) cannot use it"
            )

    def _refuse_fork(self) -> None:
        if self._is_forked:
            raise LocalProtocolError(
                "this connection belongs to the process that this one was forked from; "
                "connect a client of your own"
            )

    def _locked(self, act: Callable[[], T], waiter: Waiter | None = None) -> T:
        """Do something inside the mutex that waits for nothing."""
        ident = get_ident()
        self._refuse_reentry(ident)
        try:
            with self._mutex:
                self._holder = ident
                if self._torn:
                    self._poison()
                outcome = act()
                self._holder = 0
        except BaseException:
            try:
                self._surely_let_go(ident, waiter)
            except BaseException:
                self._surely_let_go(ident, waiter)
                raise
            raise
        return outcome

    # Waiting...

    def _join(self, waiter: Waiter, until: Deadline, *, is_new: bool = False) -> None:
        """Take part in reading until something is set, out of time, or all is lost.

        What is new is opened first, and taken back if this is interrupted.
        """
        ident = get_ident()
        if self._leader or self._holder or self._writer:
            self._refuse_reentry(ident)
        try:
            with self._mutex:
                self._holder = ident
                if self._torn:
                    self._poison()
                if is_new:
                    self._opener = ident
                    self._open(waiter)
                    self._opener = 0
                waiter.threads.append(ident)
                is_seated = self._sit_down(ident, waiter)
                self._holder = 0
            if self._writer == ident:
                self._write_given(ident)
            while is_seated:
                if self._leader == ident:
                    is_seated = self._read_for_all(ident, waiter, until)
                else:
                    is_seated = self._sleep(ident, waiter, until)
        except BaseException:
            # Twice, for an interrupt may come before the first line of what tries again
            # whatever comes.
            try:
                self._surely_let_go(ident, waiter)
            except BaseException:
                self._surely_let_go(ident, waiter)
                raise
            raise

    def _sit_down(self, ident: int, waiter: Waiter) -> bool:
        """Lead, or sleep among the others, unless there is nothing to wait for.

        Inside the mutex: what is set after this look wakes who sits.
        """
        if waiter.is_set or self._dead is not None:
            return False
        if self._leader == 0:
            self._leader = ident
        else:
            seat = Lock()
            seat.acquire()
            self._parked[ident] = seat
        return True

    def _sit_down_again(self, ident: int, waiter: Waiter, until: Deadline) -> bool:
        """Do what was queued for this thread, look at the time, and sit down."""
        if waiter.notices:
            self._tell(waiter)
        if waiter.is_set:
            return False
        with self._mutex:
            self._holder = ident
            if self._torn:
                self._poison()
            is_late = monotonic() >= until.at
            if is_late:
                self._time_is_up(waiter)
            is_seated = not is_late and self._sit_down(ident, waiter)
            self._holder = 0
        return is_seated

    def _read_for_all(  # noqa: C901, PLR0912 - no function more for each answer
        self, ident: int, waiter: Waiter, until: Deadline
    ) -> bool:
        """Lead until there is a reason not to; return whether there is more to do.

        It reads outside the mutex: who reads lets others run, and they would only queue
        up before it.
        """
        while True:
            at = self._next_date(until.at) if self._has_dates else until.at
            left = at - monotonic()
            if left > self._longest_poll:  # noqa: PLR1730 - a call of `min` per answer
                left = self._longest_poll
            events = self._poll(left * 1000 if left > 0 else 0)
            self._is_reading = True
            data = b""
            if events and events[0][0] == self._read_fd and events[0] is events[-1]:
                try:
                    data = os.read(self._read_fd, READ_BYTES)
                except OSError:
                    data = b""  # `_take_in` tries again, and deals with it
            with self._mutex:
                self._holder = ident
                if self._torn:
                    self._poison()
                self._torn = True
                if data and self._dead is None:
                    self.receive(data)
                    if self._has_dates:
                        self._look_at_dates()
                else:
                    self._take_in(events)
                self._torn = self._is_reading = False
                is_through = (
                    waiter.is_set
                    or waiter.notices
                    or self._dead is not None
                    or monotonic() >= until.at
                )
                if is_through and not self._untold:
                    if self._parked or self._dead is not None:
                        self._step_down()
                    else:
                        self._leader = 0
                    self._holder = 0
                    break
                self._holder = 0
            if self._untold:
                self._tell_untold()
                if is_through:
                    with self._mutex:
                        self._step_down()
                    break
        has_all = waiter.is_set and not waiter.notices
        return not has_all and self._sit_down_again(ident, waiter, until)

    def _sleep(self, ident: int, waiter: Waiter, until: Deadline) -> bool:
        """Sleep until promoted, or until there is a reason to look at what to do.

        Return whether there is more to do.
        """
        seat = self._parked.get(ident)
        if seat is not None:
            left = until.at - monotonic()
            seat.acquire(timeout=min(max(left, 0.0), LONGEST_POLL_S))
        # Whoever wakes a thread takes its seat away. Then there is nothing to agree on:
        # it leaves, or it leads.
        if ident not in self._parked:
            if self._leader != ident:
                if waiter.is_set and not waiter.notices:
                    return False
            elif not (waiter.is_set or waiter.notices or self._dead is not None):
                return True
        with self._mutex:
            self._holder = ident
            if self._torn:
                self._poison()
            self._parked.pop(ident, None)
            has_reason = (
                waiter.is_set
                or waiter.notices
                or self._dead is not None
                or monotonic() >= until.at
            )
            if not has_reason:
                if self._leader != ident:
                    self._sit_down(ident, waiter)
            elif self._leader == ident:
                self._step_down()
            self._holder = 0
        return not has_reason or self._sit_down_again(ident, waiter, until)

    # Waking; all inside the mutex...

    def _step_down(self) -> None:
        """Give the lead to one who sleeps; whoever is awake finds it free.

        A lost connection is hung up first: only who leads may close descriptors.
        """
        if self._dead is not None:
            self._hang_up()
        for ident, seat in self._parked.items():
            if seat.locked():
                self._leader = ident
                seat.release()
                del self._parked[ident]
                return
        self._leader = 0

    def _wake(self, ident: int) -> None:
        """Make a thread look again at what it waits for."""
        seat = self._parked.get(ident)
        if seat is not None:
            if seat.locked():
                seat.release()
            del self._parked[ident]
        elif ident == self._leader and ident != get_ident():
            self._nudge()

    def _wake_leader(self) -> None:
        """Make another thread's poll return: there is more to do for it."""
        if self._leader not in {0, get_ident()}:
            self._nudge()

    def _wake_everybody(self) -> None:
        for seat in self._parked.values():
            if seat.locked():
                seat.release()
        self._parked.clear()
        self._wake_leader()

    def rouse(self, waiter: Waiter) -> None:
        """Wake the threads that wait for this, from inside the mutex or outside."""
        ident = get_ident()
        if self._holder == ident and self._mutex.locked():
            for thread in tuple(waiter.threads):
                self._wake(thread)
        elif not self._is_forked:
            with self._mutex:
                self._holder = ident
                for thread in tuple(waiter.threads):
                    self._wake(thread)
                self._holder = 0

    # Leaving...

    def _surely_let_go(self, ident: int, waiter: Waiter | None) -> None:
        """Leave after an exception, however many interrupts come meanwhile.

        The lead must not stay with a thread that is gone. What is thrown away here was
        thrown at a thread that is raising already.
        """
        for _ in range(LEAVING_TRIES):
            try:
                self._let_go(ident, waiter)
            except BaseException:  # noqa: BLE001, S112 - as the text above says
                continue
            return
        self._let_go(ident, waiter)

    def _let_go(self, ident: int, waiter: Waiter | None) -> None:
        """Leave after an exception; may be begun anew wherever it was interrupted."""
        if self._is_forked:
            return
        with self._mutex:
            self._holder = ident
            if self._opener == ident:
                self._opener = 0
            self._stop_giving(ident)
            if self._torn or (self._is_reading and self._leader == ident):
                self._poison()
                self._is_reading = False
            if waiter is not None:
                self._withdraw(waiter)
            self._parked.pop(ident, None)
            # Whoever was torn out of waking left seats that nobody waits in.
            for other in [i for i, seat in self._parked.items() if not seat.locked()]:
                del self._parked[other]
            if self._leader == ident:
                self._step_down()
            elif self._leader in self._parked:
                # It was promoted, but whoever did that may not have come to wake it.
                self._wake(self._leader)
            self._holder = 0

    def _take_lead(self, seconds: float) -> bool:
        """Wait until nobody else leads; return whether this thread does."""
        ident = get_ident()
        until = monotonic() + seconds
        while True:
            with self._mutex:
                if self._leader in {0, ident}:
                    self._leader = ident
                    self._parked.pop(ident, None)
                    return True
                left = until - monotonic()
                if left <= 0:
                    self._parked.pop(ident, None)
                    return False
                self._parked[ident] = seat = Lock()
                seat.acquire()
            seat.acquire(timeout=left)

    def _drop_lead(self) -> None:
        ident = get_ident()
        with self._mutex:
            self._parked.pop(ident, None)
            if self._leader == ident:
                self._step_down()
