"""Drives the negotiation over a blocking channel.

The rules stand in `mcpwire.protocol.lifecycle`; here requests are sent beside each
other, silence is measured, and a connection that ends is opened again.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    ConnectionClosed,
    LocalProtocolError,
    MCPError,
    TransportError,
)
from mcpwire.protocol import lifecycle
from mcpwire.protocol.deadline import Deadline
from mcpwire.sync._bell import Bell
from mcpwire.sync._lead import Waiter
from mcpwire.transports.base import CallHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwire.protocol.negotiation import Agreement
    from mcpwire.sync._targets import BlockingOpener, OpenChannel
    from mcpwire.transports.base import Inbound

    OpenFn = Callable[[Inbound], OpenChannel]

__all__ = ["Handshake", "OutOfTime"]

LOOK_S: Final = 0.05
"""How often is looked whether a user who logs in has come back."""

ENDING_S: Final = 1.0
"""How long is waited for a thread that has nothing more to do, so that none is left."""


class OutOfTime(TimeoutError):
    """The time for connecting is over."""


class Handshake:
    """Drives the negotiation's generator: sends, waits, and opens again if it must.

    Attributes:
        channel: What was opened last.
        last_method: The request sent last.
        until: When there is no more time; a time of `monotonic`, as far as it counts.
        is_stopped: Whether somebody closes what is being opened.
        is_legacy: Whether what was opened last is HTTP+SSE.
    """

    def __init__(self, opener: BlockingOpener, inbound: Inbound) -> None:
        self._opener = opener
        self._inbound = inbound
        self._started = monotonic()
        self._open: list[CallHandle] = []
        self._answers: deque[lifecycle.Answer] = deque()
        self._waiter = Waiter()
        self._failure: Exception | None = None
        self._is_deserted = False
        self._is_late = False
        self.channel: OpenChannel | None = None
        self.last_method = "initialize"
        self.until: float | None = None
        self.is_stopped = False
        self.is_legacy = False
        self._paused_at: float | None = None
        self._paused = 0.0
        self._over = Bell()  # what `bounded` watches

    def _now(self) -> float:
        """Return the time that counts: it stands still while a user logs in."""
        at = self._paused_at
        return (monotonic() if at is None else at) - self._paused

    def pause(self) -> None:
        """Let the time that follows not count; from any thread."""
        self._paused_at = monotonic()

    def resume(self) -> None:
        """Let it count again; from any thread."""
        at, self._paused_at = self._paused_at, None
        if at is not None:
            self._paused += monotonic() - at

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Let no time pass in there while a user logs in."""
        patience = self._opener.patience
        if patience is None:
            yield
            return
        patience.add(self)
        try:
            yield
        finally:
            patience.remove(self)

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return monotonic() - self._started

    def stop(self) -> None:
        """Have it end soon, from another thread."""
        self.is_stopped = True
        channel = self.channel
        if channel is not None:
            channel.close()

    def drive(self, steps: lifecycle.Negotiating) -> Agreement:
        """Open a connection and carry the negotiation to its end.

        Raises:
            OutOfTime: There is no more time.
            ConnectionClosed: It was stopped.
        """
        memory = self._opener.memory
        if memory is not None and memory.legacy:
            memory.legacy = self._downgrade() is None
        channel = self.channel if self.is_legacy else None
        channel = channel or self._reopen()
        try:
            step = next(steps)
            while True:
                outcome = self._perform(channel, step)
                self.check()
                if type(step) is lifecycle.Reopen:
                    channel = self._reopen()
                elif type(step) is lifecycle.Downgrade and self.channel is not None:
                    channel = self.channel
                step = steps.send(outcome)
        except StopIteration as done:
            agreement: Agreement = done.value
        self._forget_calls(channel)
        channel.revision = agreement.revision
        return agreement

    def check(self) -> None:
        """Go no further when nobody wants it to.

        Raises:
            ConnectionClosed: It was stopped.
        """
        if self.is_stopped:
            raise ConnectionClosed("closed while connecting", sent=False)

    def _reopen(self) -> OpenChannel:
        self.check()
        self._open_channel(self._opener.open)
        self.check()  # a stop that came meanwhile found nothing to close
        assert self.channel is not None
        return self.channel

    def _open_channel(self, opens: OpenFn) -> None:
        """Open what becomes the channel, in place of the one there is."""
        if threading.current_thread() is threading.main_thread():
            self._open_undisturbed(opens)
        else:
            self._open_now(opens)
        if self._failure is not None:
            raise self._failure

    def _open_now(self, opens: OpenFn) -> None:
        try:
            channel = self.channel = opens(self._inbound)
        except Exception as error:  # noqa: BLE001 - raised where it was asked for
            self._failure = error
            return
        if self._is_deserted:
            channel.abandon()

    def _open_undisturbed(self, opens: OpenFn) -> None:
        """Open in a thread of its own, where no signal handler runs.

        Ctrl-C in the middle of starting a child, or a thread, would leave one that
        nobody knows.
        Interrupted twice, this no longer waits, and what comes of it is killed.
        """
        # Neither `start` nor `join` says after an interrupt whether the thread runs:
        # who takes the claim first decides, and only the one that took it opens.
        claim = threading.Lock()
        is_over = Bell()

        def run() -> None:
            if claim.acquire(blocking=False):
                try:
                    self._open_now(opens)
                finally:
                    is_over.ring()

        try:
            thread = threading.Thread(target=run, name="mcpwire-open", daemon=True)
            thread.start()
            is_over.wait()
            thread.join(ENDING_S)
        except BaseException:
            try:
                if not claim.acquire(blocking=False):
                    is_over.wait()
            except BaseException:
                self._is_deserted = True
                raise
            raise

    def _perform(self, channel: OpenChannel, step: lifecycle.Step) -> Any:
        if type(step) is lifecycle.Send:
            self._send(channel, step.method, step.params)
        elif type(step) is lifecycle.Receive:
            return self._receive(channel, step.patience)
        elif type(step) is lifecycle.Notify:
            self._forget_calls(channel)
            channel.revision = step.revision
            if self._opener.memory is None:
                channel.notify(step.method)
            else:  # over HTTP the server has to accept it
                with self.bounded():
                    channel.notify(step.method)
        elif type(step) is lifecycle.Downgrade:
            self._forget_calls(channel)
            return self._downgrade()
        else:
            assert type(step) is lifecycle.Reopen
            self.reset()
        return None

    def _send(self, channel: OpenChannel, method: str, params: dict[str, Any]) -> None:
        self.last_method = method
        handle = CallHandle()
        end = partial(self._ended, self._answers, method)
        self._open.append(handle)
        try:
            channel.begin(method, params, deadline=None, handle=handle, on_end=end)
        except MCPError as error:
            end(error)

    def _ended(
        self,
        answers: deque[lifecycle.Answer],
        method: str,
        outcome: dict[str, Any] | Exception,
    ) -> None:
        # Told by whichever thread reads: it stores, and does nothing else.
        if isinstance(outcome, (dict, MCPError)):
            answers.append(lifecycle.Answer(method, outcome, self.elapsed))
        elif answers is self._answers:
            self._failure = outcome  # of a function of the user's
        self._waiter.set()

    def _receive(
        self, channel: OpenChannel, patience: float | None
    ) -> lifecycle.Answer | lifecycle.Silence:
        silence = None if patience is None else self._now() + patience
        while not self._answers:
            self.check()
            if self._failure is not None:
                raise self._failure
            now = self._now()
            if self.until is not None and now >= self.until:
                raise OutOfTime
            if silence is not None and now >= silence:
                return lifecycle.Silence(self.elapsed)
            ends = [at for at in (silence, self.until) if at is not None]
            self._waiter.clear()
            if not self._answers and self._failure is None:
                channel.wait(self._waiter, min(ends) - now if ends else None)
        return self._answers.popleft()

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Give the channel up when the time is over, whatever waits on it here.

        Raises:
            OutOfTime: That came to be.
        """
        if self.until is None:
            yield
            return
        left = max(0.0, self.until - self._now())
        self._over = Bell()
        timer = threading.Timer(left, self._too_late)
        timer.daemon = True
        try:
            timer.start()
            yield
        except MCPError as error:
            if self._is_late:
                raise OutOfTime from error
            raise
        finally:
            try:
                self._over.ring()
            finally:  # also when that is interrupted
                timer.cancel()
            if timer.is_alive():
                timer.join(ENDING_S)

    def _too_late(self) -> None:
        while self.until is not None and self._now() < self.until:
            # A user was asked meanwhile: the rest of the time is still to come.
            if self._over.wait(max(LOOK_S, self.until - self._now())):
                return
        self._is_late = True
        channel = self.channel
        if channel is not None:
            channel.give_up(TransportError("connecting takes too long"))

    def _forget_calls(self, channel: OpenChannel) -> None:
        """Give up what is still open, and tell the server nothing of it.

        A call given up before the revision is set leaves no trace on the wire.
        """
        self._answers = deque()
        for handle in self._open:
            channel.cancel(handle)
        self._open.clear()

    def _downgrade(self) -> MCPError | None:
        """Open HTTP+SSE in place of what is open; return why that is not to be had."""
        open_legacy = self._opener.open_legacy
        if open_legacy is None or self.is_legacy:
            return LocalProtocolError("there is no other transport to try")
        old = self.channel
        try:
            self._open_channel(open_legacy)
            legacy: Any = self.channel
            self.check()
        except BaseException:
            self._take_back(old)
            raise
        try:
            legacy.ready(self._deadline())
        except TimeoutError as error:
            self._take_back(old)
            raise OutOfTime from error
        except MCPError as error:
            legacy.close()
            self.channel = old
            self.check()
            return error
        except BaseException:
            self._take_back(old)
            raise
        self.is_legacy = True
        if old is not None:
            old.close()
        return None

    def _take_back(self, old: OpenChannel | None) -> None:
        """Let go of what was opened in place of another."""
        opened = self.channel
        if opened is not None and opened is not old:
            opened.abandon()
        self.channel = old

    def _deadline(self) -> Deadline | None:
        if self.until is None:
            return None
        return Deadline(monotonic(), max(self.until - self._now(), 0.0))

    def reset(self) -> None:
        """Close what was opened, so that it can be opened anew."""
        channel, self.channel = self.channel, None
        self.is_legacy = False
        if channel is not None:
            self._forget_calls(channel)
            channel.close()

    def discard(self) -> None:
        """Close what was opened; bounded in time, and at once when interrupted."""
        channel = self.channel
        if channel is not None:
            try:
                channel.close()
            except BaseException:
                channel.abandon()
                raise
