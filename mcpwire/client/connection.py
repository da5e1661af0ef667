"""A client's connection: opening, negotiation of the revision, closing, reconnecting.

No task group and no cancel scope spans user code. `connect` is one inner task that any
number of callers await; it is cancelled with its last caller. `aclose` is one inner
task that outlasts its callers. Both work from any task, in any order, twice::

    idle ──connect──► opening ──agreed──► open ──aclose──► closing ──► idle
      ▲                  └─failed / cancelled─┐   └─lost─┐
      └──────────────────────────────────────◄┴─────────◄┘   connect() works again

A call that needs a lost connection opens it again (`reconnect`): one new connection for
all waiting calls. The handshake, the log level and the subscriptions are repeated
before any of these calls continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from copy import copy
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from mcpwire.client.handshake import Handshake, connect_failure, pause_for_login
from mcpwire.client.inbound import ClientInbound, run_handler
from mcpwire.errors import (
    CallCancelled,
    ConnectionClosed,
    HTTPError,
    LocalProtocolError,
    MCPError,
    NegotiationError,
    RequestTimeout,
    RPCError,
    SessionExpired,
    TransportError,
)
from mcpwire.limits import DEFAULT_LIMITS, DEFAULT_RECOVERY, Limits, Recovery
from mcpwire.protocol import negotiation
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.negotiation import Negotiation, Profile
from mcpwire.protocol.retry import RestartBackoff
from mcpwire.transports.base import (
    is_cancelled_here,
    is_on_loop,
    wait_at_most,
    wait_shared,
)
from mcpwire.transports.handlers import is_blocking, run_until_done
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from mcpwire.client.subscriptions import Subscriptions
    from mcpwire.protocol.client_features import ClientFeatures, ServerRequest
    from mcpwire.protocol.negotiation import Agreement, Identity
    from mcpwire.protocol.subscriptions import Notification
    from mcpwire.transports.base import CallHandle
    from mcpwire.transports.targets import ChannelOpener, OpenChannel
    from mcpwire.versions import Revision


logger = logging.getLogger("mcpwire")

MAX_TARGET_CHARACTERS: Final = 120
"""The maximum length of a command line in a repr."""

CALLBACK_TIMEOUT_S: Final = 2.0
"""The maximum wait for cancelled callbacks and handlers to end."""


@attrs.frozen(kw_only=True)
class Settings:
    """The options of a client that concern its connection; times in seconds."""

    identity: Identity

    allowed: tuple[Revision, ...]
    """The revisions that may be negotiated, newest first."""

    features: ClientFeatures
    """The requests that the server may send to this client."""

    connect_timeout: float | None

    probe_timeout: float

    keepalive: float | None = None

    reset_on_progress: bool = False
    """Whether progress restarts a call's timeout."""

    limits: Limits = DEFAULT_LIMITS

    recovery: Recovery = DEFAULT_RECOVERY

    on_notification: Callable[[Notification], Any] | None = None

    trace: Callable[[str, Any], Any] | None = None


@attrs.define
class ClientStats:
    """Counters, and the first non-protocol lines of the current connection."""

    connections: int = 0
    """Connections opened, the current one included."""

    requests: int = 0
    """Requests sent, the handshake's included."""

    bytes_sent: int = 0
    """Bytes accepted by the operating system."""

    bytes_received: int = 0
    """Bytes received; over HTTP including response heads, and after decryption."""

    messages: int = 0
    """Messages received."""

    noise_lines: int = 0
    """Received lines that are not JSON-RPC messages."""

    invalid_messages: int = 0
    """Received messages that were invalid."""

    late_answers: int = 0
    """Replies to calls that had been cancelled or had timed out."""

    unknown_answers: int = 0
    """Replies that match no pending call, including second replies."""

    dropped_notifications: int = 0
    """Notifications dropped because a callback was too slow."""

    malformed_members: int = 0
    """Malformed members of `ToolAnnotations` that were omitted from tool lists."""

    noise: tuple[str, ...] = ()
    """The first received lines that are not JSON-RPC messages."""

    def add(self, channel: OpenChannel) -> None:
        """Add the counters of one connection."""
        peer = channel.stats
        self.connections += 1
        self.requests += channel.requests_sent
        self.bytes_sent += channel.bytes_sent
        self.bytes_received += channel.bytes_received
        self.messages += peer.messages
        self.noise_lines += peer.noise
        self.invalid_messages += peer.invalid
        self.late_answers += peer.late
        self.unknown_answers += peer.unknown
        self.noise = tuple(peer.noise_lines)


class Connection:
    """The connection of a client, reopened when needed."""

    _inbound_type: ClassVar[type[ClientInbound]] = ClientInbound

    subscriptions: Subscriptions  # set by its constructor

    def __init__(self, opener: ChannelOpener, settings: Settings) -> None:
        self._target = opener.target
        self._trace = None
        if settings.trace is not None:
            from mcpwire.transports.base import Trace

            self._trace = Trace(settings.trace)
            opener = self._trace.wrap(opener)
        self._opener = opener
        self.pauser = opener.pauser
        self.settings = settings
        self.time: Callable[[], float] = monotonic
        self.is_entered = False  # connected and not closed by us since, even if lost
        self.channel: OpenChannel | None = None
        self._current: OpenChannel | None = None  # until it is closed and counted
        self.serial = 0  # number of the current connection
        self.profile = Profile()  # of the last agreement
        self.negotiation: Negotiation | None = None  # the last one, even if it failed
        self.log_level: str | None = None  # sent again on each new connection
        self.malformed_members = 0
        self._closed_stats = ClientStats()
        self._has_warned_of_noise = False
        self._must_probe_era = False  # whether the remembered era may be outdated
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._handshake: Handshake | None = None  # the last one, until it succeeds
        self._shared = _SharedTask()
        self._is_in_use = False  # whether a caller has received this connection
        self._reconnector = Reconnector(self)
        self._background: set[asyncio.Task[Any]] = set()
        self._discarding: set[asyncio.Task[None]] = set()  # close discarded connections
        self._pinging: asyncio.Task[Any] | None = None
        self._wakeup = asyncio.Event()  # ends pauses between requests
        self.inbound = self._inbound_type(
            settings.features,
            settings.on_notification,
            self._on_lost,
            lambda uri: self.subscriptions.is_subscribed(uri),  # noqa: PLW0108 - it is set later
            settings.limits,
        )

    def __str__(self) -> str:
        """Return target, state and revision in one line."""
        channel = self.channel
        if self._closing is not None:
            state = "closing"
        elif self._opening is not None:
            state = "connecting"
        elif channel is None:
            state = "not connected"
        elif (lost := channel.lost) is not None:
            state = f"lost: {lost.args[0]}"
        else:
            state = f"connected, {channel.revision}"
        target = self._target
        if len(target) > MAX_TARGET_CHARACTERS:
            target = f"{target[:MAX_TARGET_CHARACTERS]}..."
        return f"{target!r} {state}"

    @property
    def is_open(self) -> bool:
        """Whether the connection is open for calls."""
        channel = self.channel  # read once: another thread may clear it
        return channel is not None and channel.lost is None

    @property
    def stats(self) -> ClientStats:
        """The counters, summed over all connections."""
        stats = attrs.evolve(self._closed_stats)
        channel = self._current
        if channel is not None:
            stats.add(channel)
        stats.dropped_notifications = self.inbound.dropped
        stats.malformed_members = self.malformed_members
        return stats

    @property
    def session_id(self) -> str | None:
        """The id of the open HTTP session; ``None`` without one."""
        return getattr(self.channel, "session_id", None) if self.is_open else None

    def _can_reopen(self) -> bool:
        """Return whether a lost connection may be reopened, given why it was lost."""
        recovery = self.settings.recovery
        lost = self._current.lost if self._current is not None else None
        if isinstance(lost, SessionExpired):
            return recovery.reinitialize
        return recovery.restart

    def not_connected_error(self) -> MCPError:
        """Build the error for a call without a connection."""
        channel = self.channel
        lost = channel.lost if channel is not None else None
        if isinstance(lost, SessionExpired):
            return SessionExpired(str(lost), target=lost.target)
        if lost is not None:
            return ConnectionClosed(
                str(lost.args[0]),
                target=lost.target,
                exit_code=getattr(channel, "exit_code", None),
                stderr_tail=getattr(channel, "stderr_tail", ""),
                sent=False,
            )
        if self.is_entered:
            return ConnectionClosed(
                f"the connection to {self._target} was lost and has not been reopened",
                target=self._target,
                sent=False,
            )
        how = "`async with client:` or `await client.connect()`"
        if is_blocking():
            how = "`with client:` or `client.connect()`"
        return LocalProtocolError(f"not connected to {self._target}: use {how} first")

    def open_server_stream(self) -> None:
        """Open the GET stream for server messages, if the HTTP session has one."""
        channel = self.channel
        if channel is not None:
            channel.open_server_stream(needed=True)

    # Fields of each request

    def make_profile(self, agreement: Agreement) -> Profile:
        """Return the request profile for an agreement."""
        return Profile.of(agreement, self.settings.identity, log_level=self.log_level)

    def set_log_level(self, level: str) -> None:
        """Set the minimum log level that each later request carries."""
        self.log_level = level
        if self.profile.agreement is not None:
            self.profile = self.make_profile(self.profile.agreement)

    def use_features(self, features: ClientFeatures) -> None:
        """Declare the capabilities of these features in later requests."""
        identity = attrs.evolve(
            self.settings.identity, capabilities=features.capabilities
        )
        self.settings = attrs.evolve(
            self.settings, features=features, identity=identity
        )
        if self.profile.agreement is not None:
            self.profile = self.make_profile(self.profile.agreement)
            self.open_server_stream()

    def cancel(self, handle: CallHandle, reason: str) -> bool:
        """Cancel the call with that handle; return whether it was pending."""
        channel = self.channel
        return channel is not None and bool(channel.cancel(handle, reason))

    def _add_to_totals(self, channel: Any) -> None:
        """Add the counters of a closed connection to the totals."""
        if self._current is channel:  # else it was abandoned
            self._current = None
        self._closed_stats.add(channel)
        self._warn_of_noise(channel)

    def _warn_of_noise(self, channel: Any) -> None:
        """Warn once about a server that writes lines that are not messages."""
        noise = channel.stats.noise_lines
        if noise and not self._has_warned_of_noise:
            self._has_warned_of_noise = True
            logger.warning(
                "%s wrote %d line(s) that are not messages, first: %r",
                channel.target,
                channel.stats.noise,
                noise[0],
            )

    # Opening and closing

    async def connect(self) -> None:
        """Open the connection, or wait for the opening in progress."""
        self._reconnector.reset()
        await self.open()

    async def open(self) -> None:
        """Connect without resetting the reconnect attempts counted since a loss."""
        loop = self._check_loop()
        # `wait` yields to the loop even if the task is done and its callback pending.
        while (ending := self._closing or self._opening) is not None and (
            self._closing or ending.cancelling()
        ):
            await asyncio.wait([ending])
        if not self.is_open:
            if self._opening is None:
                self._loop = loop
                self.time = loop.time
                # A connection in use before stays wanted if a waiting call gives up.
                self._is_in_use = self.is_entered
                self._opening = loop.create_task(self._open(), name="mcpwire-connect")
                self._opening.add_done_callback(self._on_task_done)
            await self._shared.wait(self._opening, self._cancel_opening)
        self._is_in_use = True

    async def _cancel_opening(self, opening: asyncio.Task[None]) -> None:
        """Cancel an opening without waiters; close the connection if already open."""
        if not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
            await self._wait_discarded()
        elif self.channel is not None and not self._is_in_use:
            await self.aclose()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if self._opening is task:  # else it was abandoned
            self._opening = None
        if self._closing is task:
            self._closing = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved if every caller was cancelled

    async def reconnect(self, method: str, deadline: Deadline | None) -> None:
        """Open a lost connection again for a call that needs it."""
        if self.is_open:
            return
        self._check_loop()
        if not self.is_entered or not self._can_reopen():
            raise self.not_connected_error()
        await self._reconnector.reconnect(method, deadline)

    async def aclose(self) -> None:
        """Close the connection; afterwards `connect` works again.

        Closing continues if a caller is cancelled; another call waits for its end.
        It may be called from a callback of this connection.
        """
        loop = self._check_loop()
        if self._closing is None:
            self.is_entered = False
            ending = [*self.inbound.close(), *self._reconnector.close()]
            busy = (self._current, self._opening, ending, self._background)
            if not any((*busy, self._discarding)):
                self._forget()
                return
            closing = self._close(ending, asyncio.current_task())
            self._closing = loop.create_task(closing, name="mcpwire-close")
            self._closing.add_done_callback(self._on_task_done)
        await wait_shared(self._closing)

    async def _close(
        self, ending: list[asyncio.Task[None]], caller: asyncio.Task[Any] | None
    ) -> None:
        opening = self._opening
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        channel, self.channel = self._current, None
        self._wake()
        if channel is not None:
            await channel.aclose()
            self._add_to_totals(channel)
            if self._trace is not None:
                self._trace("close", channel.target)
        await self._wait_discarded()
        background = [task for task in self._background if task is not caller]
        for task in background:
            task.cancel()
        if ending := [*ending, *background]:
            await asyncio.wait(ending, timeout=CALLBACK_TIMEOUT_S)
        self._forget()

    def _wake(self) -> None:
        """Wake the calls that pause between two requests."""
        self._wakeup.set()
        self._wakeup = asyncio.Event()

    def _forget(self) -> None:
        """Clear the state of one period of use, from `connect` to `aclose`."""
        self._wake()
        self.inbound.wake()
        self.log_level = None
        self.subscriptions.clear()
        self._loop = None

    @property
    def needs_loop(self) -> bool:
        """Whether it is open, opening, closing or to be reopened: it needs its loop."""
        return self.is_entered or (self._opening or self._closing) is not None

    def abandon(self) -> bool:
        """Discard the connection now, from any thread; return whether it was open."""
        was_open, self.is_entered = self.is_entered, False
        opening, self._opening = self._opening, None
        self._closing = None  # an interrupted loop may not finish these tasks
        channel, self._current, self.channel = self._current, None, None
        handshake, self._handshake = self._handshake, None
        channels = list(handshake.channels) if handshake is not None else []
        loop = self._loop
        if opening is not None and loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(opening.cancel)  # callers may wait for it
        if channel is not None:
            self._closed_stats.add(channel)
            channels.append(channel)
        for each in channels:
            if loop is not None and loop.is_running() and not is_on_loop(loop):
                loop.call_soon_threadsafe(each.abandon)
            else:
                each.abandon()
        return was_open and channel is not None and not channel.is_forked

    def _check_loop(self) -> asyncio.AbstractEventLoop:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise LocalProtocolError(
                "mcpwire.Client needs a running asyncio loop; "
                "under another library use mcpwire.sync"
            ) from None
        if self._loop is not None and self._loop is not loop:
            if not self._loop.is_closed():
                raise LocalProtocolError(
                    "this client belongs to another event loop; use it where it was "
                    "connected, or close it there first"
                )
            # The loop was closed first: the remains can only be discarded.
            self.abandon()
            if self.pauser is not None:
                self.pauser.reset()
            self._reconnector = Reconnector(self)
            self._background.clear()
            self._discarding.clear()
            self._wakeup = asyncio.Event()
            self.log_level = None
            self.subscriptions.clear()
            self._loop = None
        return loop

    # Handshake

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        limit = self.settings.connect_timeout
        until = None if limit is None else loop.time() + limit
        old, self.channel = self._current, None
        if old is not None:
            self._close_lost(old)
        await self._wait_discarded(until)
        if old is not None:
            self._add_to_totals(old)
        started = loop.time()
        self.inbound.revision = None  # until this connection has negotiated one
        handshake = Handshake(self._opener, self.inbound, started)
        self._handshake = handshake
        try:
            async with asyncio.timeout_at(until) as scope:
                if self._discarding:
                    await asyncio.sleep(0)  # raises if the timeout has passed
                with pause_for_login(self.pauser, scope):
                    agreement = await self._negotiate_remembered(handshake)
                    channel = handshake.channel
                    assert channel is not None
                    channel.reset_on_progress = self.settings.reset_on_progress
                    self.inbound.revision = agreement.revision
                    self.inbound.stats = channel.stats
                    profile = self.make_profile(agreement)
                    await self.subscriptions.restore(channel, profile)
        except BaseException as error:
            failure = connect_failure(
                error,
                handshake.channel,
                method=handshake.last_method,
                timeout=limit,
                elapsed=loop.time() - started,
                allowed=self.settings.allowed,
            )
            self._discard(handshake.discard())
            await self._wait_discarded(until if isinstance(error, Exception) else None)
            if failure is None:
                raise
            raise failure from failure.__cause__ or error
        self._start_use(channel, profile)

    def _close_lost(self, old: OpenChannel) -> None:
        """Close a lost connection as soon as it has no pending calls."""
        session: Any = old  # only HTTP sessions expire
        if isinstance(old.lost, SessionExpired) and session.is_busy:
            self.spawn(session.drain(), "drain")
        else:
            self._discard(old.aclose())

    def _discard(self, closing: Coroutine[Any, Any, None]) -> None:
        """Close a discarded connection in a task independent of the opening."""
        task = asyncio.get_running_loop().create_task(closing, name="mcpwire-leave")
        self._discarding.add(task)
        task.add_done_callback(self._discarding.discard)
        run_until_done(task)

    async def _wait_discarded(self, until: float | None = None) -> None:
        """Wait for the discarded connections to close, at most until that time."""
        if self._discarding:
            left = None if until is None else max(0.0, until - self.time())
            await asyncio.wait(self._discarding, timeout=left)

    async def _negotiate_remembered(self, handshake: Handshake) -> Agreement:
        """Negotiate; try the session era first for a server known to be of it."""
        # 2026-07-28 basic/versioning, "Backward Compatibility": the era is remembered
        # for the process, or the URL, and probed again when that fails.
        allowed = self.settings.allowed
        memory = self._opener.memory
        is_session_server = self.profile.era is Era.SESSION and self.is_entered
        if memory is not None:
            is_session_server = memory.era is Era.SESSION
        if is_session_server and not self._must_probe_era:
            session_revisions = tuple(r for r in allowed if r.era is Era.SESSION)
            self._must_probe_era = True  # cleared only on success
            try:
                agreement = await self._negotiate(handshake, session_revisions)
            except NegotiationError:
                if session_revisions == allowed:
                    raise
                await handshake.reset()
            else:
                self._must_probe_era = False
                return agreement
        agreement = await self._negotiate(handshake, allowed)
        self._must_probe_era = False
        return agreement

    async def _negotiate(
        self, handshake: Handshake, allowed: tuple[Revision, ...]
    ) -> Agreement:
        self.negotiation = Negotiation()
        steps = negotiation.negotiate(
            self.settings.identity,
            allowed,
            probe_timeout=self.settings.probe_timeout,
            record=self.negotiation,
            over_http=self._opener.memory is not None,
        )
        agreement = await handshake.drive(steps)
        memory = self._opener.memory
        if memory is not None:
            # A server that was offered a session first may support both eras.
            if allowed[0].era is Era.STATELESS:
                memory.era = agreement.revision.era
            memory.legacy = handshake.is_legacy
        return agreement

    def _start_use(self, channel: OpenChannel, profile: Profile) -> None:
        """Start to use a connection after its handshake."""
        self._current, self._handshake = channel, None
        self.profile = profile
        self.inbound.missed()
        self.channel = channel
        self.serial += 1
        self.is_entered = self._closing is None  # else `aclose` came first
        self._warn_of_noise(channel)
        self._reconnector.record_open(channel)
        if self._trace is not None:
            self._trace("agree", self.negotiation)
        if self.settings.keepalive is not None and profile.era is Era.SESSION:
            self._pinging = self.spawn(
                keep_alive(channel, self.settings.keepalive), "keepalive"
            )
        assert profile.agreement is not None
        declares = self.settings.features.capabilities(profile.agreement.revision)
        is_needed = bool(declares) or self.subscriptions.has_receivers()
        channel.open_server_stream(needed=is_needed)
        self.inbound.wake()

    # Open connection

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine in a background task, cancelled on closing."""
        # Not `create_task`: an eager task factory would start it at once.
        task = asyncio.Task(work, name=f"mcpwire-{name}")
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def answer_input(
        self, method: str, request: ServerRequest, deadline: Deadline | None
    ) -> dict[str, Any]:
        """Run the handler of a call's input request, within the call's deadline."""
        until = None if deadline is None or deadline.at == inf else deadline.at
        try:
            async with asyncio.timeout_at(until) as limit:
                answer: dict[str, Any]
                answer = await self.spawn(run_handler(request), "handler")
                return answer
        except asyncio.CancelledError as error:
            if is_cancelled_here():
                raise
            if not self.is_entered:
                raise ConnectionClosed("closed by this side", sent=True) from None
            raise CallCancelled(method, reason="our handler was cancelled") from error
        except TimeoutError:
            if not limit.expired():
                raise
            assert deadline is not None
            raise deadline.error(method, self.time()) from None
        except RPCError as error:
            # 2026-07-28 client/sampling, "Error Handling": no request exists to return
            # an error to; the client does not continue the call.
            raise CallCancelled(
                method, reason=f"our handler refused: {error.message}"
            ) from error

    def remaining(self, deadline: Deadline | None) -> float | None:
        """Return the remaining seconds of a deadline; ``None``: no limit."""
        return None if deadline is None else deadline.remaining(self.time())

    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds; closing the connection ends the sleep early."""
        await self.wait(self._wakeup, seconds)

    async def wait_or_reopen(
        self, event: asyncio.Event, until: float | None = None
    ) -> None:
        """Wait until an event is set; reopen a connection that is lost while waiting.

        Returns early at the time `until`, and when `aclose` is called.
        """
        while not event.is_set() and self.is_entered:
            left = None if until is None else until - self.time()
            if left is not None and left <= 0:
                return
            if not self.is_open:
                deadline = None if left is None else Deadline(self.time(), left)
                try:
                    await self.reconnect("notifications", deadline)
                except RequestTimeout:
                    if until is None or self.time() < until:
                        raise  # the handshake timed out, not this wait
            elif await self.wait(event, left):
                return

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Wait until an event is set or the time is over; return whether it is set."""
        await wait_at_most(seconds, event.wait())
        return event.is_set()

    def _on_lost(self, error: TransportError) -> None:
        """Record the loss of the connection; reopen it if a consumer needs it."""
        logger.debug("connection lost: %s", error)
        if self._trace is not None:
            self._trace("lost", error)
        if self._pinging is not None:
            self._pinging.cancel()
        if self.is_entered and self._current is not None:
            self._reconnector.record_loss(self._current)
            if self._can_reopen() and self.subscriptions.has_consumers():
                self._reconnector.start()


class _SharedTask:
    """A task with any number of waiters, ended when the last waiter is cancelled."""

    def __init__(self) -> None:
        self._waiters = 0

    async def wait(
        self,
        task: asyncio.Task[None],
        give_up: Callable[[asyncio.Task[None]], Awaitable[None]],
    ) -> None:
        """Wait for the task; call `give_up` if the last waiter is cancelled."""
        self._waiters += 1
        try:
            await wait_shared(task)
        except asyncio.CancelledError:
            if task.cancelled() and not is_cancelled_here():
                raise ConnectionClosed("closed while connecting", sent=False) from None
            if self._waiters == 1:
                await give_up(task)
            raise
        finally:
            self._waiters -= 1
            del task  # its error refers to this frame: avoid a cycle


class Reconnector:
    """Opens a lost `Connection` again, in one task for all waiting calls."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._recovery = connection.settings.recovery
        self._restarts = RestartBackoff.of(self._recovery)
        self._task: asyncio.Task[None] | None = None
        self._shared = _SharedTask()
        self._failure: MCPError | None = None  # the last
        self._gave_up_at: float | None = None

    def reset(self) -> None:
        """Clear the count of attempts, on an explicit `connect` or `aclose`."""
        self._restarts.reset()
        self._gave_up_at = None

    def record_open(self, channel: OpenChannel) -> None:
        """Start to count the replies of a new connection."""
        self._failure = None
        channel.stats.before_open = channel.requests_sent - channel.stats.unanswered
        self._restarts.record_open(self._connection.time())

    def record_loss(self, channel: OpenChannel) -> None:
        """Count a loss and whether the connection has answered a request."""
        # Notifications do not prove that a server works.
        answered = has_served(channel)
        self._restarts.record_loss(self._connection.time(), answered=answered)

    def close(self) -> list[asyncio.Task[None]]:
        """Stop the attempts; return the task that has yet to end."""
        self.reset()
        task = self._task
        if task is None or task is asyncio.current_task():
            return []
        task.cancel()
        return [task]

    def start(self) -> asyncio.Task[None]:
        """Start to open the connection again; log a failure."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._reopen(), name="mcpwire-reconnect")
            self._task.add_done_callback(self._on_task_done)
        return self._task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.warning("%s could not be reopened: %s", self._connection, error)
            self._connection.inbound.wake()

    async def reconnect(self, method: str, deadline: Deadline | None) -> None:
        """Wait until the connection is open again, within the deadline of a call."""
        connection = self._connection
        try:
            async with asyncio.timeout(connection.remaining(deadline)) as scope:
                with pause_for_login(connection.pauser, scope, deadline):
                    while self._task is not None and self._task.cancelling():
                        await asyncio.wait([self._task])  # cancelled by its last waiter
                    if not connection.is_entered:
                        raise connection.not_connected_error()
                    await self._shared.wait(self.start(), self._cancel_unless_needed)
        except TimeoutError as error:
            if isinstance(error, MCPError) or not scope.expired():
                raise
            assert deadline is not None
            detail = "the connection was lost and is being opened again"
            raise deadline.error(method, connection.time(), detail) from None

    async def _cancel_unless_needed(self, task: asyncio.Task[None]) -> None:
        if not self._connection.subscriptions.has_consumers():
            task.cancel()
            await asyncio.wait([task])

    async def _reopen(self) -> None:
        from random import random

        connection = self._connection
        if self._gave_up_at is not None:
            # Fail at once until `backoff_max` has passed since the last attempt.
            if connection.time() - self._gave_up_at < self._recovery.backoff_max:
                raise self._last_failure()
            self.reset()
        while not connection.is_open:
            delay = self._restarts.delay(connection.time(), random())  # noqa: S311 - jitter
            if delay is None:
                self._gave_up_at = connection.time()
                raise self._last_failure()
            await asyncio.sleep(delay)
            try:
                await connection.open()
            except (NegotiationError, RequestTimeout, TransportError) as error:
                self._failure = error
                self._restarts.record_failure(connection.time())

    def _last_failure(self) -> MCPError:
        if self._failure is None:
            return self._connection.not_connected_error()
        # The error is raised repeatedly: the traceback of each must not be kept.
        failure = copy(self._failure)
        failure.__cause__ = self._failure.__cause__
        return failure


def has_served(channel: OpenChannel) -> bool:
    """Return whether the connection has answered a request since it was opened."""
    counted = channel.stats
    return channel.requests_sent - counted.unanswered > counted.before_open


async def keep_alive(channel: OpenChannel, seconds: float) -> None:
    """Ping an idle server at this interval; drop the connection if it does not reply.

    2025-11-25 basic/utilities/ping: pings should be sent periodically, and a missing
    reply is a failure of the connection. Returns when the channel is lost.
    """
    loop = asyncio.get_running_loop()
    while True:
        before = channel.stats.messages
        await asyncio.sleep(seconds)
        if channel.lost is not None:
            return
        if channel.stats.messages != before:
            continue
        try:
            await channel.call("ping", None, deadline=Deadline(loop.time(), seconds))
        except RequestTimeout:
            channel.give_up(
                TransportError(
                    f"the server did not answer a ping within {seconds:g} s",
                    target=channel.target,
                )
            )
        except HTTPError:
            continue  # an HTTP error status: the server is reachable
        except TransportError as error:
            if channel.lost is None:  # the server does not read
                channel.give_up(error)
        except MCPError:
            continue  # an error reply is a reply
        except Exception:  # over HTTP, a function for headers may raise anything
            logger.exception("no ping was sent")
