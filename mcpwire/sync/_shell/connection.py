"""Owns a blocking client's connection: opens it, agrees, closes it, reopens it.

Whoever connects first opens the connection in its own thread; others who want it wait
and share the outcome. Closing works from any thread, also from a handler or a callback,
and ends an opening that is under way::

    idle ──connect──► opening ──agreed──► open ──close──► closing ──► idle
      ▲                  └─failed / interrupted─┐   └─lost─┐
      └────────────────────────────────────────◄┴─────────◄┘   connect() works again

What was connected and got lost is opened again by whoever needs it (`revive`): one new
connection for all who wait, the handshake and what the server has to know replayed
before any of them goes on.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    CallCancelled,
    ConnectionClosed,
    LocalProtocolError,
    MCPError,
    NegotiationError,
    RequestTimeout,
    RPCError,
    SessionExpired,
)
from mcpwire.protocol import lifecycle
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.negotiation import Negotiation
from mcpwire.sync._bell import Bell
from mcpwire.sync._made.inbound import ClientInbound, ask
from mcpwire.sync._shell.handshake import Handshake, OutOfTime
from mcpwire.sync._shell.reviver import Reviver
from mcpwire.sync._shell.threads import keep_alive, read_on
from mcpwire.sync._shell.turns import Closing, Opening, Turns
from mcpwire.transports.client.state import ConnectionState
from mcpwire.transports.failures import connect_failure
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.protocol.host.features import Question
    from mcpwire.protocol.negotiation import Agreement
    from mcpwire.protocol.profile import Profile
    from mcpwire.sync._shell.shared import Signal
    from mcpwire.sync._targets import BlockingOpener, OpenChannel
    from mcpwire.transports.base import CallHandle, NotifyFn
    from mcpwire.transports.client.settings import Settings
    from mcpwire.versions import Revision

    ReplayFn = Callable[[OpenChannel, Profile], None]
    EndFn = Callable[[dict[str, Any] | Exception], None]

__all__ = ["Connection"]

logger = logging.getLogger("mcpwire")

CALLBACK_END_S: Final = 2.0
"""How long closing waits for callbacks and handlers that still run."""


class Connection(ConnectionState):
    """A client's one connection, over and over.

    Attributes:
        replay: Tells a new connection what the server has to know.
    """

    how_to_connect = "`with client:` or `client.connect()`"

    channel: OpenChannel | None
    inbound: ClientInbound
    _current: OpenChannel | None

    def __init__(
        self, opener: BlockingOpener, settings: Settings, *, background: bool = False
    ) -> None:
        super().__init__(opener.target, settings)
        self._trace = None
        if settings.trace is not None:
            from mcpwire.transports.tracing import Trace

            self._trace = Trace(settings.trace, settings.limits)
            opener = self._trace.watching(opener)
        self._opener = opener
        self.patience = opener.patience
        self._background = background
        self._process: int | None = None
        self._turns = Turns()
        self._threads: list[threading.Thread] = []
        self._over = Bell()  # of the connection in use
        self._draining: list[Any] = []
        self._reviver = Reviver(self)
        self.replay: ReplayFn | None = None
        self.inbound = ClientInbound(
            settings.features,
            settings.on_notification,
            self._lost,
            lambda uri: self.is_kept(uri),  # noqa: PLW0108 - it is set later
            settings.limits,
        )
        self.inbound.on_missed = self._missed

    def _turn(self) -> str | None:
        if self._turns.closing is not None:
            return "closing"
        return "connecting" if self._turns.opening is not None else None

    # Ownership...

    def connect(self) -> None:
        """Open the connection, or wait for whoever is opening it.

        Raises:
            ConnectError: The server could not be reached or ended before it agreed.
            RequestTimeout: It did not agree in time.
            NegotiationError: There is no common revision.
            ConnectionClosed: It was closed while it was being opened.
        """
        self._check_process()
        self._reviver.reset()
        self.open()

    def open(self, until: float | None = None) -> None:
        """Do what `connect` does, and count it as one more attempt after a loss.

        Raises:
            OutOfTime: `until`, a time of `monotonic`, has passed.
        """
        self._check_process()
        opening = Opening(Handshake(self._opener, self.inbound))
        try:
            if self._turns.take(opening, lambda: self.is_open, until):
                self._process = os.getpid()
                self._open(opening, until)
        except BaseException as error:
            opening.error = error
            raise
        finally:
            # Again where an interrupt came first: else the others wait for ever.
            try:
                self._turns.leave(opening)
            except BaseException:
                self._turns.leave(opening)
                raise
        if opening.handshake.is_stopped:
            # By a hook, or a signal handler, when nothing looked any more.
            self.close()
            raise ConnectionClosed("closed while connecting", sent=False)

    def revive(self, method: str, deadline: Deadline | None) -> None:
        """Have a lost connection opened again, for a call that needs it.

        Raises:
            LocalProtocolError: It was never opened, or closed by us.
            ConnectionClosed: It is lost, and `Recovery` says to leave it so.
            RequestTimeout: The call's deadline passed meanwhile.
            TransportError, NegotiationError: It could not be opened again.
        """
        self._check_process()
        if self.is_open:
            return
        if not self._is_wanted or not self._may_reopen():
            raise self.not_connected()
        self._reviver.revive(method, deadline)

    def close(self) -> None:
        """Close the connection; afterwards `connect` works again.

        It may be called from a handler or a callback of this connection. Interrupted,
        it kills what it would have waited for.
        """
        self._check_process()
        closing = Closing()
        try:
            if not self._turns.begin_closing(closing, self._begin_closing):
                return
            self._close(closing, self._turns.opening)
        except BaseException:
            self.abandon()
            raise
        finally:
            try:
                self._turns.end_closing(closing)
            except BaseException:  # as above
                self._turns.end_closing(closing)
                raise
        self.inbound.wake()
        self._end_of_use()

    def _begin_closing(self, opening: Opening | None) -> list[threading.Thread] | None:
        """Want it no longer; return the threads to wait for, or ``None``: no need."""
        self._is_wanted = False
        self._reviver.close()
        if opening is not None:
            opening.handshake.is_stopped = True
        ending = [*self.inbound.close(), *self._threads]
        is_idle = self._current is None and not self._draining
        if is_idle and opening is None and not ending:
            self.channel = None
            self._end_of_use()
            return None
        return ending

    def _close(self, closing: Closing, opening: Opening | None) -> None:
        if opening is not None:
            if opening.is_ours:
                return  # a hook of ours closes what it watches: the opening ends next
            opening.handshake.stop()
            self._turns.wait_for_end(opening)
            self._is_wanted = False  # it may have been through before it was stopped
        self._over.ring()
        channel, self.channel = self._current, None
        if channel is not None:
            # In the middle of reading or writing nothing can be waited for.
            close = channel.close if channel.can_enter() else channel.abandon
            close()
            self._current = None
            self._retire(channel)
            if self._trace is not None:
                self._trace("close", channel.target)
        for session in self._draining:
            session.close()
        self._draining = []
        closing.threads += self.inbound.close()  # what came while it was being closed
        patience = monotonic() + CALLBACK_END_S
        for thread in closing.threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, patience - monotonic()))
        self._threads = [thread for thread in self._threads if thread.is_alive()]

    def abandon(self) -> bool:
        """Let go at once, from anywhere; return whether there was something to let go.

        For finalisers: it kills what it must and waits for nothing.
        """
        self._is_wanted = False
        channel, self._current, self.channel = self._current, None, None
        if self._process != os.getpid():
            return False
        draining, self._draining = self._draining, []
        for each in (*draining, channel):
            if each is not None:
                self._over.ring()
                each.abandon()
        return channel is not None or bool(draining)

    def _check_process(self) -> None:
        """Refuse where this process was forked off the one that connected.

        Asked before any lock: another thread may have held it during the fork.
        """
        if self._process is not None and self._process != os.getpid():
            raise LocalProtocolError(
                "this client belongs to the process that this one was forked from; "
                "make a client of your own"
            )

    # Opening...

    def _open(self, opening: Opening, until: float | None) -> None:
        self._see_off(until)
        self.inbound.revision = None  # until this connection has agreed on its own
        handshake = opening.handshake
        timeout = self.settings.connect_timeout
        own = None if timeout is None else monotonic() + timeout
        ends = [at for at in (own, until) if at is not None]
        handshake.until = min(ends) if ends else None
        try:
            with handshake.patient():
                agreement = self._agree(handshake)
                channel = handshake.channel
                assert channel is not None
                profile = self._prepare(channel, agreement)
                if self.replay is not None:
                    with handshake.bounded() if self.serial else nullcontext():
                        self.replay(channel, profile)
            handshake.check()
            self._settle(channel, profile)
        except BaseException as error:
            self._current = self.channel = None
            failure: MCPError | None = None
            if handshake.is_stopped:
                failure = ConnectionClosed("closed while connecting", sent=False)
            elif type(error) is not OutOfTime or handshake.until == own:
                failure = connect_failure(
                    error,
                    handshake.channel,
                    method=handshake.last_method,
                    timeout=timeout,
                    elapsed=handshake.elapsed,
                    allowed=self.settings.allowed,
                )
            handshake.discard()
            if failure is None or not isinstance(error, Exception):
                raise
            raise failure from error

    def _see_off(self, until: float | None) -> None:
        """Close the connection that was lost, within the time there is.

        Raises:
            OutOfTime: The server takes longer to leave; the next attempt waits on.
        """
        old = self._current
        session: Any = old  # only one over HTTP expires
        is_busy = (
            old is not None and isinstance(old.lost, SessionExpired) and session.is_busy
        )
        if is_busy:
            # Before it is let go: closing, and cancelling a call, must find it.
            busy = [each for each in self._draining if each.is_busy]
            self._draining = [*busy, session]
        self.channel = None
        if old is None:
            return
        if is_busy:
            leaving = threading.Thread(
                target=session.drain, name="mcpwire-drain", daemon=True
            )
            leaving.start()
        elif until is None:
            old.close()
        else:
            leaving = threading.Thread(
                target=old.close, name="mcpwire-close", daemon=True
            )
            leaving.start()
            leaving.join(max(0.0, until - monotonic()))
            if leaving.is_alive():
                raise OutOfTime
        self._current = None
        self._retire(old)

    def _agree(self, handshake: Handshake) -> Agreement:
        """Negotiate; what a server of the session era proved to be is tried first."""
        # 2026-07-28 basic/versioning, "Backward Compatibility": the era is remembered
        # for the process, or the URL, and probed again when that fails.
        allowed = self.settings.allowed
        memory = self._opener.memory
        known = self.profile.era is Era.SESSION and self._is_wanted
        if memory is not None:
            known = memory.era is Era.SESSION
        if known and not self._doubts_era:
            legacy = tuple(r for r in allowed if r.era is Era.SESSION)
            self._doubts_era = True  # unless it goes well, in whatever way it does not
            try:
                agreement = self._negotiate(handshake, legacy)
            except NegotiationError:
                if legacy == allowed:
                    raise
                handshake.reset()
            else:
                self._doubts_era = False
                return agreement
        agreement = self._negotiate(handshake, allowed)
        self._doubts_era = False
        return agreement

    def _negotiate(
        self, handshake: Handshake, allowed: tuple[Revision, ...]
    ) -> Agreement:
        self.negotiation = Negotiation()
        steps = lifecycle.negotiate(
            self.settings.identity,
            allowed,
            probe_timeout=self.settings.probe_timeout,
            record=self.negotiation,
            over_http=self._opener.memory is not None,
        )
        agreement = handshake.drive(steps)
        memory = self._opener.memory
        if memory is not None:
            memory.era = agreement.revision.era
            memory.legacy = handshake.is_legacy
        return agreement

    def _prepare(self, channel: OpenChannel, agreement: Agreement) -> Profile:
        """Make a connection that has agreed ready for use."""
        channel.reset_on_progress = self.settings.reset_on_progress
        self.inbound.revision = agreement.revision
        self.inbound.stats = channel.stats
        return self.compose(agreement)

    def _settle(self, channel: OpenChannel, profile: Profile) -> None:
        """Take over a connection that is ready."""
        self._begin_use(channel, profile)
        self._reviver.opened(channel)
        if self._trace is not None:
            self._trace("agree", self.negotiation)
        self._start_threads(channel, profile)
        channel.hear(wanted=self.hears() or self._background)
        self.inbound.wake()

    def _start_threads(self, channel: OpenChannel, profile: Profile) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._over = Bell()
        if self._background:
            self._threads.append(read_on(self, channel))
        if self.settings.keepalive is not None and profile.era is Era.SESSION:
            self._threads.append(
                keep_alive(channel, self.settings.keepalive, self._over)
            )

    # While it is open...

    def open_call(
        self,
        channel: OpenChannel,
        method: str,
        params: dict[str, Any],
        *,
        handle: CallHandle,
        on_notification: NotifyFn | None = None,
        on_end: EndFn,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Begin a call that nobody waits for; `on_end` takes its result or error."""
        try:
            channel.begin(
                method,
                params,
                deadline=None,
                handle=handle,
                on_notification=on_notification,
                on_end=on_end,
                headers=headers,
            )
        except MCPError as error:
            on_end(error)

    def cancel(self, handle: CallHandle, reason: str) -> bool:
        """End the call with that handle, also one on a session that was lost."""
        return super().cancel(handle, reason) or any(
            session.cancel(handle, reason) for session in self._draining
        )

    def ask(
        self, method: str, question: Question, deadline: Deadline | None
    ) -> dict[str, Any]:
        """Let our handler answer what a call needs to go on.

        Raises:
            CallCancelled: The handler refused, by an `RPCError`.
            RequestTimeout: It took longer than the call waits for answers of ours.
        """
        try:
            answer = ask(question)
        except RPCError as error:
            # 2026-07-28 client/sampling, "Error Handling": there is no request that
            # could be answered with an error; the call is just not gone on with.
            raise CallCancelled(
                method, reason=f"our handler refused: {error.message}"
            ) from error
        now = self.time()
        if deadline is not None and deadline.expired(now):
            raise deadline.error(method, now)
        return answer

    def sleep(self, seconds: float) -> None:
        """Wait so long; closing the connection ends it early."""
        self._over.wait(seconds)

    def attend(self, signal: Signal, until: float | None = None) -> None:
        """Wait until a signal is set; a connection lost meanwhile is opened again.

        Returns early at the time `until`, and when the connection is closed by us.

        Raises:
            MCPError: The connection is lost and stays so.
        """
        while not signal.is_set and self._is_wanted:
            left = None if until is None else until - self.time()
            if left is not None and left <= 0:
                return
            if not self.is_open:
                deadline = None if left is None else Deadline(self.time(), left)
                try:
                    self.revive("notifications", deadline)
                except RequestTimeout:
                    if until is None or self.time() < until:
                        raise  # the handshake's
            elif self.wait(signal, left):
                return

    def wait(self, signal: Signal, seconds: float | None) -> bool:
        """Wait until a signal is set; return whether it is.

        Returns early when the connection is lost or closed.
        """
        self._check_process()
        channel = self.channel
        if channel is None or channel.lost is not None:
            return signal.is_set
        return channel.wait(signal, seconds)

    def _lost(self, error: Any) -> None:
        """The connection is gone; calls say so, and who needs it opens another.

        Told under the channel's mutex.
        """
        logger.debug("connection lost: %s", error)
        self._over.ring()
        if self._trace is not None:
            self._trace("lost", error)
        if self._is_wanted and self._current is not None:
            self._reviver.lost(self._current)
