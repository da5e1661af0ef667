"""The client side of a set of connections: receives its requests and notifications.

A session is one client: whatever its servers ask or tell is for it. Requests that stand
alone share a set where they look alike, and may be several clients all the same: what
no call of theirs can be told to have caused reaches none of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, MCPError, RPCError, rpc_error
from mcpwire.gateway.suspended_calls import SuspendedCalls
from mcpwire.transports.base import CallHandle
from mcpwire.versions import REVISIONS
from mcpwire.wire.jsonrpc import is_request_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.suspended_calls import SuspendedCall, SuspensionLimits
    from mcpwire.gateway.translation import InFlightCalls, TaskIds
    from mcpwire.server.request import RequestContext, Session
    from mcpwire.versions import Revision

__all__ = ["Downstream", "RelayedCall"]


class Downstream:
    """One session (up to 2025-11-25), or all clients that share a set.

    `is_one` says whether all requests of the set are provably from one client.
    """

    def __init__(
        self,
        revision: Revision,
        capabilities: Mapping[str, Any],
        tasks: TaskIds,
        limits: SuspensionLimits,
        *,
        session: Session | None = None,
        is_one: bool = True,
    ) -> None:
        self.revision = revision
        self.capabilities = capabilities
        self.tasks = tasks
        self.session = session
        self.is_one = is_one
        self.suspended = SuspendedCalls(limits)

    def call_of(
        self, in_flight: InFlightCalls[RelayedCall], handle: object | None
    ) -> RelayedCall | None:
        """Return the call that a server's request belongs to; ``None``: it needs none.

        Raises:
            InternalError: Nothing shows which of several clients' it is.
        """
        if self.session is None:
            return in_flight.owner(handle, asyncio.get_running_loop().time())
        calls = in_flight.calls
        for call in calls:
            if call is handle:
                return call
        # Any call of this client will do: the request may go on its stream.
        return next(reversed(calls), None) if handle is None else None

    async def ask(
        self, method: str, params: dict[str, Any] | None, call: RelayedCall | None
    ) -> dict[str, Any]:
        """Return the client's answer; cancelling it takes the request back.

        Raises:
            RPCError: It refused, or could not be asked.
        """
        if call is not None and call.suspended is not None:
            return await call.suspended.ask(method, params)
        send = None if self.session is None else self.session.ask
        if call is not None and call.request.can_ask:
            send = call.request.ask
        if send is None:
            where = "outside of a request"
            if call is not None:
                where = f"for {call.request.method}"
            raise InternalError(
                f"the client behind the gateway cannot be asked {method!r} {where}"
            )
        try:
            return await send(method, {} if params is None else params)
        except RPCError as error:
            raise rpc_error(error.code, error.message, data=error.data) from error
        except MCPError as error:
            raise InternalError(
                f"the client behind the gateway did not answer {method!r}: {error}"
            ) from error

    def tell(self, method: str, params: dict[str, Any] | None) -> None:
        """Send a session what belongs to no request."""
        if self.session is not None and not self.session.is_closed:
            self.session.send(method, {} if params is None else params)


PROGRESS: Final = "notifications/progress"

_MESSAGES_SINCE: Final = REVISIONS[1]


class RelayedCall(CallHandle):
    """Follows a request on both sides; what a server sends for it finds it by this."""

    __slots__ = ("_progress", "request", "suspended")

    def __init__(self, request: RequestContext) -> None:
        self.request_id = None
        self.on_cancel = None
        # One that waits for an answer at 2026-07-28 goes on with another request.
        self.request = request
        self.suspended: SuspendedCall | None = None
        self._progress: float | None = None

    def __repr__(self) -> str:
        return f"<RelayedCall {self.request!r} as {self.request_id!r}>"

    @property
    def wants_progress(self) -> bool:
        """Whether the client gave a token for progress."""
        return is_request_id(self.request.meta.get("progressToken"))

    def goes_on(self, request: RequestContext) -> None:
        """Let another request of the same client be the one that is answered."""
        self.request = request
        self._progress = None

    def heard(self, method: str, params: dict[str, Any] | None) -> None:
        """Pass progress on, under the very token that the client gave."""
        if method != PROGRESS or params is None or not self.wants_progress:
            return
        value = params.get("progress")
        if type(value) not in {int, float}:
            return
        if self._progress is not None and not value > self._progress:  # type: ignore[operator] # a number
            # 2026-07-28 basic/patterns/progress: the value MUST increase each time.
            return
        self._progress = value
        request = self.request
        told = {**params, "progressToken": request.meta["progressToken"]}
        if request.revision < _MESSAGES_SINCE:
            told.pop("message", None)
        request.notify(method, told)
