"""What is known of a client's connection."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import ConnectionClosed, LocalProtocolError, SessionExpired
from mcpwire.protocol.profile import Profile
from mcpwire.transports.client.stats import ClientStats

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.errors import MCPError
    from mcpwire.protocol.host.features import HostFeatures
    from mcpwire.protocol.negotiation import Agreement, Negotiation
    from mcpwire.transports.base import CallHandle
    from mcpwire.transports.client.settings import Settings

__all__ = ["ConnectionState"]

logger = logging.getLogger("mcpwire")

TARGET_CHARACTERS: Final = 120
"""How much of a command line a repr shows."""


class ConnectionState:
    """The part of a connection that waits for nothing.

    Attributes:
        settings: What the client was made with.
        channel: Performs calls; ``None`` unless connected.
        profile: How requests are made, by the last agreement; empty before the first.
        negotiation: The record of the last handshake, also of one that failed.
        inbound: Hears what the server starts.
        time: The clock that deadlines are made from, in seconds.
        log_level: What the server was told to log; told again to each new connection.
        serial: Counts the connections opened so far.
        forget: Called when the client is closed, or its loop has ended under it.
        renewed: Called when a connection was opened: what was told may be wrong now.
        is_kept: Tells of which resources no update may get lost.
        is_needed: Tells whether somebody waits for what the server starts.
        hears_always: Whether somebody hears all that the server says.
    """

    how_to_connect: str

    # Of the class until they are set: with more than 30 attributes of its own an object
    # has a dict that nothing shares, and each call looks a few of them up.
    _doubts_era = False  # whether the remembered era may be wrong now
    _is_noise_told = False
    hears_always = False
    malformed_members = 0

    channel: Any
    inbound: Any
    _current: Any

    def __init__(self, target: str, settings: Settings) -> None:
        self._target = target
        self._closed_stats = ClientStats()
        self._is_wanted = False  # connected, and not closed by us since
        self._current = None
        self.settings = settings
        self.channel = None
        self.time: Callable[[], float] = monotonic
        self.negotiation: Negotiation | None = None
        self.profile = Profile()
        self.log_level: str | None = None
        self.serial = 0
        self.forget: Callable[[], None] = _nothing
        self.renewed: list[Callable[[], None]] = []
        self.is_kept: Callable[[str], bool] = _never
        self.is_needed: Callable[[], bool] = bool

    def __str__(self) -> str:
        """Return target, state and revision as one readable line."""
        state, channel = self._turn(), self.channel
        if state is None and channel is None:
            state = "not connected"
        elif state is None and channel.lost is not None:
            state = f"lost: {channel.lost.args[0]}"
        elif state is None:
            state = f"connected, {channel.revision}"
        target = self._target
        if len(target) > TARGET_CHARACTERS:
            target = f"{target[:TARGET_CHARACTERS]}..."
        return f"{target!r} {state}"

    @property
    def is_open(self) -> bool:
        """Whether calls can be made now."""
        channel = self.channel  # another thread may take it away meanwhile
        return channel is not None and channel.lost is None

    @property
    def is_wanted(self) -> bool:
        """Whether it was opened and not closed by us since, lost or not."""
        return self._is_wanted

    @property
    def stats(self) -> ClientStats:
        """What all connections have counted so far."""
        stats = attrs.evolve(self._closed_stats)
        channel = self._current
        if channel is not None:
            stats.add(channel)
        stats.dropped_notifications = self.inbound.dropped
        stats.malformed_members = self.malformed_members
        return stats

    @property
    def session_id(self) -> str | None:
        """What an HTTP server calls the session in use, where it has one."""
        return getattr(self.channel, "session_id", None) if self.is_open else None

    def _may_reopen(self) -> bool:
        """Tell whether what was lost may be opened again, by what lost it."""
        recovery = self.settings.recovery
        lost = self._current.lost if self._current is not None else None
        if isinstance(lost, SessionExpired):
            return recovery.reinitialize
        return recovery.restart

    def not_connected(self) -> MCPError:
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
        if self._is_wanted:
            return ConnectionClosed(
                f"the connection to {self._target} was lost and is not open again",
                target=self._target,
                sent=False,
            )
        return LocalProtocolError(
            f"not connected to {self._target}: use {self.how_to_connect} first"
        )

    def hears(self) -> bool:
        """Tell whether anybody hears what the server says unasked."""
        return (
            self.hears_always or self.settings.features is not None or self.is_needed()
        )

    def hear(self) -> None:
        """Have the server's own stream open, where a session has one over HTTP."""
        channel = self.channel
        if channel is not None:
            channel.hear(wanted=True)

    def _missed(self) -> None:
        """Forget what notifications would have told that may have been lost."""
        for forget in self.renewed:
            forget()

    def _turn(self) -> str | None:
        """Return what is under way, such as ``closing``; ``None``: nothing."""
        raise NotImplementedError

    # What each request asks...

    def compose(self, agreement: Agreement) -> Profile:
        """Return how requests are made under an agreement."""
        return Profile.of(agreement, self.settings.identity, log_level=self.log_level)

    def set_log_level(self, level: str) -> None:
        """Have each request from now on ask for log messages from that level on."""
        self.log_level = level
        if self.profile.agreement is not None:
            self.profile = self.compose(self.profile.agreement)

    def use_features(self, features: HostFeatures) -> None:
        """Declare what these can answer, from now on."""
        identity = attrs.evolve(
            self.settings.identity, capabilities=features.capabilities
        )
        self.settings = attrs.evolve(
            self.settings, features=features, identity=identity
        )
        if self.profile.agreement is not None:
            self.profile = self.compose(self.profile.agreement)
            self.hear()

    def cancel(self, handle: CallHandle, reason: str) -> bool:
        """End the call with that handle; return whether it waited for an answer."""
        channel = self.channel
        return channel is not None and bool(channel.cancel(handle, reason))

    def _begin_use(self, channel: Any, profile: Profile) -> None:
        """Take over a connection that is ready."""
        self._current = channel
        self.profile = profile
        for forget in self.renewed:
            forget()
        self.channel = channel
        self.serial += 1
        self._is_wanted = True
        self._tell_noise(channel)

    def _retire(self, channel: Any) -> None:
        """Keep what a connection has counted that is over."""
        self._closed_stats.add(channel)
        self._tell_noise(channel)

    def _tell_noise(self, channel: Any) -> None:
        """Warn, once, of a server that writes what are no messages."""
        noise = channel.stats.noise_lines
        if noise and not self._is_noise_told:
            self._is_noise_told = True
            logger.warning(
                "%s wrote %d line(s) that are no messages, first: %r",
                channel.target,
                channel.stats.noise,
                noise[0],
            )

    def _end_of_use(self) -> None:
        """Forget what the server was told: the next connection begins anew."""
        self.log_level = None
        self.forget()


def _nothing() -> None:
    return None


def _never(_: str) -> bool:
    return False
