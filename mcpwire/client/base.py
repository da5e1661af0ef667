"""What every client has: its options, its lifetime, and what was agreed."""

from __future__ import annotations

import sys
import warnings
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from mcpwire._version import __version__
from mcpwire.errors import LocalProtocolError
from mcpwire.limits import (
    DEFAULT_LIMITS,
    DEFAULT_RECOVERY,
    Limits,
    Recovery,
    check_timeout,
)
from mcpwire.protocol.lifecycle import Identity, parse_mode
from mcpwire.protocol.results.known_tools import KnownTools
from mcpwire.transports.client.asking.requests import Requests
from mcpwire.transports.client.connection import Connection
from mcpwire.transports.client.settings import Settings
from mcpwire.transports.client.subscriptions import Subscriptions
from mcpwire.transports.targets import opener
from mcpwire.types import UNSET, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from mcpwire.errors import MCPError
    from mcpwire.protocol.host.elicitation import Elicitation, FormHandler
    from mcpwire.protocol.host.features import HostFeatures
    from mcpwire.protocol.host.roots import Roots
    from mcpwire.protocol.host.sampling import Sampling, SamplingHandler
    from mcpwire.protocol.negotiation import Negotiation
    from mcpwire.protocol.notifications import Notification
    from mcpwire.protocol.results.cache import ResponseCache
    from mcpwire.transports.client.inbound import Observer
    from mcpwire.transports.client.stats import ClientStats
    from mcpwire.transports.targets import Target
    from mcpwire.types import Implementation, JsonObject, ServerCapabilities, Unset

    ProgressFn = Callable[[float, float | None, str | None], Any]

__all__ = ["CallOptions", "ClientBase"]


class CallOptions(TypedDict, total=False):
    """What every request takes beside its own parameters."""

    timeout: float | None
    """Seconds, above zero; omitted: the client's; ``None``: no limit."""

    meta: Mapping[str, Any] | None
    """Further members of the request's `_meta`."""

    on_progress: ProgressFn | None
    """Called with progress, total and message, in order; plain or async."""

    headers: Mapping[str, str] | None
    """Further HTTP headers; refused on any other transport."""

    idempotent: bool | None
    """Whether the request may be sent again when its connection was lost although it
    may have run; omitted: as its method says, or the tool's annotations."""


class ClientBase:
    """A connection to one MCP server, without its verbs."""

    # What one that relays for others puts its own in the place of.
    _connection_type: ClassVar[type[Connection]] = Connection
    _requests_type: ClassVar[type[Requests]] = Requests

    def _host_features(self, **given: Any) -> HostFeatures | None:
        """Return what we declare, and the server may ask of us; ``None``: nothing."""
        return _features(given)

    def __init__(
        self,
        target: Target,
        *,
        timeout: float | None = 30.0,
        connect_timeout: float | None = 60.0,
        probe_timeout: float = 5.0,
        mode: str = "auto",
        client_info: Implementation | None = None,
        limits: Limits = DEFAULT_LIMITS,
        recovery: Recovery = DEFAULT_RECOVERY,
        keepalive: float | None = None,
        reset_timeout_on_progress: bool = False,
        max_timeout: float | None = None,
        sampling: SamplingHandler | Sampling | None = None,
        elicitation: FormHandler | Elicitation | None = None,
        roots: Roots | None = None,
        extensions: Mapping[str, JsonObject | None] | Iterable[str] | None = None,
        experimental: Mapping[str, JsonObject | None] | None = None,
        cache: ResponseCache | bool = False,
        on_notification: Callable[[Notification], Any] | None = None,
        raise_exceptions: bool = False,
        trace: Callable[[str, Any], Any] | None = None,
    ) -> None:
        if raise_exceptions:
            target = _raising(target)
        features = self._host_features(
            sampling=sampling,
            elicitation=elicitation,
            roots=roots,
            extensions=extensions,
            experimental=experimental,
        )
        self._has_roots = roots is not None
        self._connection = self._connection_type(
            opener(target, limits, recovery),
            Settings(
                identity=_identity(client_info, features),
                allowed=parse_mode(mode),
                connect_timeout=check_timeout(connect_timeout, "connect_timeout"),
                probe_timeout=check_timeout(probe_timeout, "probe_timeout") or inf,
                keepalive=check_timeout(keepalive, "keepalive"),
                reset_on_progress=reset_timeout_on_progress,
                limits=limits,
                recovery=recovery,
                features=features,
                on_notification=on_notification,
                trace=trace,
            ),
        )
        self._assemble(timeout, max_timeout, cache)

    def _assemble(
        self,
        timeout: float | None,
        max_timeout: float | None,
        cache: ResponseCache | bool,  # noqa: FBT001 - public option
    ) -> None:
        """Put together what stands on the connection."""
        connection = self._connection
        self._requests = self._requests_type(
            connection,
            timeout=check_timeout(timeout),
            max_timeout=check_timeout(max_timeout, "max_timeout"),
            cache=_cache(cache, connection),
        )
        self._subscriptions = Subscriptions(connection, self._requests)
        self._known_tools = KnownTools()
        connection.inbound.changes.append(self._known_tools.hear)
        connection.renewed.append(self._known_tools.forget)

    # Lifetime...

    async def connect(self) -> None:
        """Connect, or wait for whoever is connecting; does nothing when connected.

        Works from any task, again after `aclose`, and again after the server died.
        Cancelling the last caller undoes what had begun.

        Raises:
            ConnectError: The server could not be reached, or ended before it agreed.
            RequestTimeout: It did not agree within `connect_timeout`.
            NegotiationError: There is no common revision.
            ConnectionClosed: `aclose` was called meanwhile.
        """
        await self._connection.connect()

    async def aclose(self) -> None:
        """Close the connection and end the server's process; bounded in time.

        Works from any task, in any order, twice. Calls still open fail with
        `ConnectionClosed`. When cancelled, the closing goes on by itself.
        """
        await self._connection.aclose()

    def abandon(self) -> bool:
        """Let go of the connection at once, from anywhere; tell whether there was one.

        It waits for nothing: a child process is killed. For `mcpwire.sync`.
        """
        return self._connection.abandon()

    def needs_loop(self) -> bool:
        """Tell whether its connection is open, opening, closing, or wanted back."""
        return self._connection.needs_loop

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(
        self,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
        warn: Callable[..., None] = warnings.warn,
    ) -> None:
        # Where construction failed there is no connection.
        connection = getattr(self, "_connection", None)
        try:
            if connection is not None and connection.abandon():
                text = f"unclosed {self!r}: it was closed by force"
                warn(text, ResourceWarning, source=self, stacklevel=2)
        except ResourceWarning:
            raise  # where warnings are errors
        except Exception:
            # Modules may be empty by now, and what the process holds ends with it.
            if not is_finalizing():
                raise

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<mcpwire.Client {self._connection}>"

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Have somebody look on, before the first connection; return what ends that.

        It hears each notification that belongs to no call, as it came, and is told
        whenever the connection is lost, open again or closed. It opens nothing; the
        server is asked to tell of changed lists. It is for what stands on clients,
        such as `Group`; for programs there are `events` and `on_notification`.

        Raises:
            LocalProtocolError: The client has been connected already.
        """
        connection = self._connection
        if connection.serial or connection.is_wanted:
            raise LocalProtocolError("a client is observed from before it connects")
        observers = connection.inbound.observers
        observers.append(observer)
        self._subscriptions.hear_lists()

        def undo() -> None:
            if observer in observers:
                observers.remove(observer)

        return undo

    def set_handlers(
        self,
        *,
        sampling: SamplingHandler | Sampling | Unset | None = UNSET,
        elicitation: FormHandler | Elicitation | Unset | None = UNSET,
        roots: Roots | Unset | None = UNSET,
    ) -> None:
        """Replace what answers the server's questions, at once; ``None`` takes it away.

        What is left out stays. A question that is being answered is not touched. What
        is declared follows with the next request at 2026-07-28, in a session with the
        next handshake: until then a server need not know that it may ask.

        Raises:
            ValueError: One of them is nothing of the kind; names it, changes nothing.
        """
        connection = self._connection
        features = connection.inbound.features
        given = {"sampling": sampling, "elicitation": elicitation, "roots": roots}
        features.replace({k: v for k, v in given.items() if v is not UNSET})
        if roots is not UNSET:
            self._has_roots = roots is not None
        connection.use_features(features)

    # What was agreed...

    @property
    def lost(self) -> MCPError | None:
        """Why the connection is gone that was not closed by us; ``None``: it is not."""
        connection = self._connection
        if connection.is_open or not connection.is_wanted:
            return None
        return connection.not_connected()

    @property
    def is_connected(self) -> bool:
        """Whether calls can be made now."""
        return self._connection.is_open

    @property
    def protocol_version(self) -> str | None:
        """The agreed revision, such as ``2025-11-25``; ``None`` before."""
        agreement = self._connection.profile.agreement
        return agreement.revision.name if agreement is not None else None

    @property
    def server_info(self) -> Implementation | None:
        """The server's name and version, where it gave them.

        Raises:
            InvalidMessage: What it gave breaks the rules; calls work all the same.
        """
        from mcpwire.types.lifecycle import Implementation

        agreement = self._connection.profile.agreement
        if agreement is None or agreement.server_info is None:
            return None
        return decode(Implementation, agreement.server_info)

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server declared; ``None`` before the first connection.

        Raises:
            InvalidMessage: What it declared breaks the rules; calls work all the same.
        """
        from mcpwire.types.lifecycle import ServerCapabilities

        agreement = self._connection.profile.agreement
        if agreement is None:
            return None
        return decode(ServerCapabilities, agreement.capabilities)

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, where it said so."""
        agreement = self._connection.profile.agreement
        return agreement.instructions if agreement is not None else None

    @property
    def session_id(self) -> str | None:
        """The HTTP session's id; ``None`` where there is none, or none any more."""
        return self._connection.session_id

    @property
    def negotiation(self) -> Negotiation | None:
        """How the last handshake went, step by step, also one that failed."""
        return self._connection.negotiation

    @property
    def stats(self) -> ClientStats:
        """What this client has sent and received, connections taken together."""
        return self._connection.stats


def _features(given: Mapping[str, Any]) -> HostFeatures | None:
    # Most clients can be asked nothing, and import nothing of this.
    if all(value is None for value in given.values()):
        return None
    from mcpwire.protocol.host.features import HostFeatures

    return HostFeatures(**given)


def _identity(info: Implementation | None, features: HostFeatures | None) -> Identity:
    return Identity(
        encode(info) if info else {"name": "mcpwire", "version": __version__},
        {} if features is None else features.capabilities,
    )


def _cache(cache: ResponseCache | bool, connection: Connection) -> ResponseCache | None:  # noqa: FBT001 - public option
    if cache is False:
        return None
    from mcpwire.protocol.results.cache import ResponseCache

    found = ResponseCache() if cache is True else cache
    connection.inbound.changes.append(found.invalidate)
    connection.renewed.append(found.clear)
    return found


def _raising(target: Target) -> Target:
    """Return a server in this process with exceptions that reach the client."""
    from mcpwire.transports.memory import RaisingServer

    return RaisingServer(target)
