"""A client that relays: what its server asks and tells is for somebody behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from mcpwire.client import Client
from mcpwire.client.connection import Connection
from mcpwire.client.inbound import ClientInbound
from mcpwire.client.requests import Requests
from mcpwire.gateway.bridge.headers import forwarding
from mcpwire.gateway.bridge.relay import Relay
from mcpwire.gateway.translation import declared_again
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.client_features import ClientFeatures, ServerRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.negotiation import Profile
    from mcpwire.protocol.subscriptions import Filter
    from mcpwire.transports.base import CallHandle, ReplyFn
    from mcpwire.transports.targets import OpenChannel
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["RelayClient", "RelayFeatures", "make_client"]

QUESTIONS: Final = 256
"""Questions of a server's that wait for their answers at once; people take time."""


class RelayFeatures(ClientFeatures):
    """What the client behind the gateway can be asked, declared and asked as it came.

    Args:
        relay: Who asks it.

    Attributes:
        handle: The call on whose stream a question just came, where that is known.
    """

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay
        self.handle: object | None = None

    @property
    def extensions(self) -> frozenset[str]:
        """The ids of the extensions that are switched on."""
        return frozenset(self._relay.downstream.capabilities.get("extensions") or ())

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return what the client behind declared, as that revision says it."""
        downstream = self._relay.downstream
        return declared_again(downstream.capabilities, downstream.revision, revision)

    def prepare(
        self, method: str, params: dict[str, Any] | None, revision: Revision
    ) -> ServerRequest:
        """Return what asks the client behind.

        Raises:
            RPCError: It cannot be asked that.
        """
        return self._relay.question(method, params, revision, self.handle)

    def complete_elicitation(self, params: dict[str, Any] | None) -> bool:
        """Let it through: who has opened it knows."""
        return True


class RelayInbound(ClientInbound):
    """Tells a relay of what the server starts, and of the call it belongs to.

    Attributes:
        relay: Who hears; ``None`` until the client is made.
    """

    relay: Relay | None = None

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """Hand a notification to all who hear of it, the relay last."""
        super().notification(method, params, call)
        if self.relay is not None:
            self.relay.heard(method, params, call)

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Answer what the server asks."""
        features: Any = self.features
        features.handle = call
        try:
            super().request(id, method, params, reply, call)
        finally:
            features.handle = None


class RelayConnection(Connection):
    """A connection that a relay hears of."""

    _inbound_type = RelayInbound


class RelayRequests(Requests):
    """Requests whose progress is passed on as it came."""

    async def _begin_with_progress(  # noqa: PLR0917 - all of `begin`'s
        self,
        channel: OpenChannel,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        on_progress: Any,
        headers: Mapping[str, str] | None,
        handle: CallHandle | None,
    ) -> dict[str, Any]:
        return await channel.call(
            method,
            params,
            deadline=deadline,
            handle=handle,
            on_notification=on_progress,
            headers=headers,
        )


class RelayClient(Client):
    """A connection to a server behind the gateway.

    Args:
        target: As for `Client`.
        relay: Who hears what the server asks and tells.
        limits: As for `Client`; more questions may wait at once.
        options: As for `Client`, without what its handlers are.

    Attributes:
        relay: As given.
    """

    _connection_type: ClassVar[type[Connection]] = RelayConnection
    _requests_type: ClassVar[type[Requests]] = RelayRequests

    _connection: RelayConnection

    def __init__(
        self,
        target: Any,
        *,
        relay: Relay,
        limits: Limits = DEFAULT_LIMITS,
        **options: Any,
    ) -> None:
        self.relay = relay
        inbound = max(limits.inbound, QUESTIONS)
        super().__init__(
            target, limits=attrs.evolve(limits, inbound=inbound), **options
        )
        connection = self._connection
        heard: Any = connection.inbound
        heard.relay = relay
        heard.renewed.append(self._renewed)
        self._subscriptions.hear_lists()

    def _client_features(self, **_: Any) -> ClientFeatures:
        return RelayFeatures(self.relay)

    async def aclose(self) -> None:
        """Close the connection; see `Client.aclose`."""
        self.relay.teller.close()
        await super().aclose()

    def _renewed(self) -> None:
        if self._connection.serial:  # not the first one
            self.relay.renewed(self._connection.profile)

    @property
    def connection(self) -> RelayConnection:
        """The connection, for the bridge."""
        return self._connection

    @property
    def requests(self) -> Requests:
        """What makes requests, for the bridge."""
        return self._requests

    @property
    def profile(self) -> Profile:
        """How requests are made now."""
        return self._connection.profile

    def may_repeat(self, method: str, params: Mapping[str, Any]) -> bool | None:
        """Return what the hints of a tool say about calling it again."""
        name = params.get("name")
        if method != "tools/call" or type(name) is not str:
            return None
        return self._may_repeat(name, None)

    async def hear(self, wanted: Filter) -> Filter:
        """Have the server tell of this too; return what of it it will tell.

        Raises:
            MCPError: As any request; nothing more is wanted then than before.
        """
        return await self._subscriptions.add(wanted, {})

    async def unhear(self, wanted: Filter) -> None:
        """Want this no longer.

        Raises:
            MCPError: As any request; it is not wanted any longer all the same.
        """
        await self._subscriptions.remove(wanted, {})

    def keep_level(self, level: str) -> None:
        """Tell each new session that log level too."""
        self._connection.log_level = level


def make_client(
    upstreams: Upstreams, name: str, target: Any, **options: Any
) -> RelayClient:
    """Return the client for a server of a set, with what stands beside it."""
    relay = Relay(upstreams, name)
    return RelayClient(forwarding(target, upstreams), relay=relay, **options)
