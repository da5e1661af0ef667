"""The client side of a set of connections: receives its requests and notifications.

A session is one client: whatever its servers ask or tell is for it. Requests that stand
alone share a set where they look alike, and may be several clients all the same: what
no call of theirs can be told to have caused reaches none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.errors import InternalError, MCPError, RPCError, rpc_error
from mcpwire.gateway.suspended import ParkingLot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.relay import RelayedCall
    from mcpwire.gateway.suspended import Parking
    from mcpwire.gateway.translation import InFlightCalls, TaskIds
    from mcpwire.server.request import AskFn, Session
    from mcpwire.versions import Revision


__all__ = [
    "Downstream",
    "SessionDownstream",
    "StandaloneDownstream",
]


class Downstream:
    """The client side of a set of connections; see its two subclasses.

    Attributes:
        revision: What it speaks.
        capabilities: What it declared.
        session: The session, where it is one.
        tasks: The ids of the tasks that its calls became.
    """

    session: Session | None = None
    is_one: bool = True
    """Whether all requests of the set are from one client."""

    def __init__(
        self, revision: Revision, capabilities: Mapping[str, Any], tasks: TaskIds
    ) -> None:
        self.revision = revision
        self.capabilities = capabilities
        self.tasks = tasks

    @property
    def is_busy(self) -> bool:
        """Whether something of it waits that closing the set would end."""
        return False

    def whose(
        self, in_flight: InFlightCalls[RelayedCall], handle: object | None, now: float
    ) -> RelayedCall | None:
        """Return the call that a question belongs to; ``None``: it needs none.

        Raises:
            InternalError: Nothing shows which; nobody may be asked.
        """
        raise NotImplementedError

    async def ask(
        self, method: str, params: dict[str, Any] | None, call: RelayedCall | None
    ) -> dict[str, Any]:
        """Return the client's answer; cancelling it takes the question back.

        Raises:
            RPCError: It refused, or could not be asked.
        """
        raise NotImplementedError

    def tell(self, method: str, params: dict[str, Any] | None) -> None:
        """Tell it something that belongs to no request, where it can be told."""

    async def aclose(self) -> None:
        """End what waits for its answers."""


class SessionDownstream(Downstream):
    """One session of a client, up to 2025-11-25.

    Args:
        session: The session.
        tasks: The ids of its tasks.
    """

    session: Session

    def __init__(self, session: Session, tasks: TaskIds) -> None:
        super().__init__(session.revision, session.client_capabilities, tasks)
        self.session = session

    def whose(
        self, in_flight: InFlightCalls[RelayedCall], handle: object | None, now: float
    ) -> RelayedCall | None:
        """Return a call of this client; the question may go on its stream."""
        calls = in_flight.calls
        for call in calls:
            if call is handle:
                return call
        return next(reversed(calls), None) if handle is None else None

    async def ask(
        self, method: str, params: dict[str, Any] | None, call: RelayedCall | None
    ) -> dict[str, Any]:
        """Send the client a request and return its answer, as it came."""
        send = self._asking(call)
        if send is None:
            raise InternalError(
                f"the client behind the gateway cannot be asked {method!r} outside of "
                "a request"
            )
        return await _answer(send, method, params)

    def _asking(self, call: RelayedCall | None) -> AskFn | None:
        if call is not None and call.request.can_ask:
            return call.request.ask
        return self.session.ask

    def tell(self, method: str, params: dict[str, Any] | None) -> None:
        """Send a notification on the session."""
        if not self.session.is_closed:
            self.session.send(method, {} if params is None else params)


class StandaloneDownstream(Downstream):
    """All that shares a set: requests that stand alone (2026-07-28), or sessions.

    Args:
        capabilities: What each of them declared.
        tasks: The ids of their tasks.
        parking: What bounds the calls that wait for answers.
        revision: What each of them speaks.
        is_one: Whether they proved that they are one and the same.
    """

    def __init__(
        self,
        capabilities: Mapping[str, Any],
        tasks: TaskIds,
        *,
        parking: Parking,
        revision: Revision,
        is_one: bool,
    ) -> None:
        super().__init__(revision, capabilities, tasks)
        self.is_one = is_one
        self.lot = ParkingLot(parking)

    @property
    def is_busy(self) -> bool:
        """Whether a call waits for an answer that the next request brings."""
        return bool(len(self.lot))

    def whose(
        self, in_flight: InFlightCalls[RelayedCall], handle: object | None, now: float
    ) -> RelayedCall | None:
        """Return the call that the question belongs to without any doubt."""
        return in_flight.owner(handle, now)

    async def ask(
        self, method: str, params: dict[str, Any] | None, call: RelayedCall | None
    ) -> dict[str, Any]:
        """Ask the caller: on its session, or with the call's answer."""
        if call is not None and call.parked is not None:
            return await call.parked.ask(method, params)
        if call is not None and call.request.can_ask:
            return await _answer(call.request.ask, method, params)
        what = "this" if call is None else call.request.method
        raise InternalError(
            f"the client behind the gateway cannot be asked {method!r} for {what}"
        )

    async def aclose(self) -> None:
        """End the calls that wait for answers."""
        self.lot.close()


async def _answer(
    send: AskFn, method: str, params: dict[str, Any] | None
) -> dict[str, Any]:
    try:
        return await send(method, {} if params is None else params)
    except RPCError as error:
        raise rpc_error(error.code, error.message, data=error.data) from error
    except MCPError as error:
        raise InternalError(
            f"the client behind the gateway did not answer {method!r}: {error}"
        ) from error
