"""What stands beside a connection to a server: whose its questions and notices are."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError, MCPError
from mcpwire.gateway.bridge.notices import hear
from mcpwire.gateway.bridge.telling import Teller
from mcpwire.gateway.in_flight import InFlightCalls
from mcpwire.gateway.translation import (
    answer_across,
    lowered,
    question_across,
    refusal,
)
from mcpwire.protocol.client_features import ServerRequest
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections import Counter

    from mcpwire.gateway.bridge.calls import RelayedCall
    from mcpwire.gateway.bridge.client import RelayClient
    from mcpwire.gateway.bridge.downstream import Downstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.protocol.negotiation import Profile
    from mcpwire.server.request import NotifyFn
    from mcpwire.versions import Revision

__all__ = ["Relay"]

logger = logging.getLogger("mcpwire")

LISTS: Final = ("tools", "prompts", "resources")


class Relay:
    """What one server of a set asks and tells, on its way to the set's client.

    Args:
        upstreams: The set.
        name: The server's name in it.

    Attributes:
        upstreams: As given.
        name: As given.
        in_flight: The calls under way on the connection.
        watched: How many want to hear of a resource: by what the server calls it, then
            by what clients do.
        watched_tasks: Who wants to hear of a task, by what the server calls it.
        dropped_logs: Log messages that no call could be found for.
        teller: Says that lists and resources changed.
    """

    def __init__(self, upstreams: Upstreams, name: str) -> None:
        self.upstreams = upstreams
        self.name = name
        self.in_flight: InFlightCalls[RelayedCall] = InFlightCalls()
        self.watched: dict[str, Counter[str]] = {}
        self.watched_tasks: dict[str, dict[object, NotifyFn]] = {}
        self.dropped_logs = 0
        self.teller = Teller(upstreams.hub)
        self._told_level: str | None = None

    @property
    def downstream(self) -> Downstream:
        """Whom the set belongs to."""
        found: Downstream = self.upstreams.downstream
        return found

    # Questions...

    def question(
        self,
        method: str,
        params: dict[str, Any] | None,
        asks: Revision,
        handle: object | None,
    ) -> ServerRequest:
        """Return what gets a question of the server's its answer.

        Whose it is, is decided now: it may not be clear any more a moment later.

        Raises:
            RPCError: Nobody can be asked that.
        """
        now = asyncio.get_running_loop().time()
        call = self.downstream.whose(self.in_flight, handle, now)

        def ask(_: None) -> Any:
            return self.ask(method, params, asks, call)

        return ServerRequest(ask, None, _as_it_is)

    async def ask(
        self,
        method: str,
        params: dict[str, Any] | None,
        asks: Revision,
        call: RelayedCall | None,
    ) -> dict[str, Any]:
        """Return the client's answer to a question, in the asker's revision.

        Raises:
            RPCError: The client refused, or there is no form for what it answered.
        """
        downstream = self.downstream
        revision, declared = downstream.revision, downstream.capabilities
        if call is not None:
            revision, declared = call.request.revision, call.request.client_capabilities
        refused = refusal(method, params, revision, declared)
        if refused is not None:
            raise refused
        put = question_across(
            method, params, revision, new_id=secrets.token_urlsafe(16)
        )
        answer = await downstream.ask(method, put, call)
        return answer_across(method, answer, asks)

    # Notifications...

    def heard(
        self, method: str, params: dict[str, Any] | None, handle: object | None
    ) -> None:
        """Pass a notification on to whom it is for."""
        hear(self, method, params, handle)

    def changed(self, kind: str) -> None:
        """Take note that a list changed: it is forgotten before anybody hears of it."""
        # So who lists again after the notification never gets the old list.
        self.upstreams.catalog.drop(kind, self.name)
        self.teller.tell(f"notifications/{kind}/list_changed")

    def renewed(self, profile: Profile) -> None:
        """Take note that anything may have changed unheard; say so of what there is."""
        for kind in LISTS:
            if profile.offers(kind):
                self.changed(kind)
            else:
                self.upstreams.catalog.drop(kind, self.name)

    # Levels...

    async def lower_level(self, client: RelayClient, wanted: str) -> None:
        """Have a session tell at least what a request wants to hear.

        Each request hears from its own level on, whatever the session tells.
        """
        profile = client.profile
        if profile.era is not Era.SESSION or not profile.offers("logging"):
            return
        if not lowered(self._told_level, wanted):
            return
        told, self._told_level = self._told_level, wanted
        try:
            await client.request("logging/setLevel", {"level": wanted})
        except MCPError as error:
            self._told_level = told
            logger.debug("%r takes no log level: %s", self.name, error)
        else:
            client.keep_level(wanted)


def _as_it_is(answer: Any) -> dict[str, Any]:
    if type(answer) is not dict:
        raise LocalProtocolError("the client's answer must be an object")
    return answer
