"""The client side of a set: relays the requests and notifications of its servers.

A session is one client, which gets all messages of its servers. Stateless requests that
share a set may be of several clients: a message that cannot be assigned to one of their
calls reaches none of them.

A server with a session sends a request of its own during a call. At 2026-07-28 clients
receive no requests: the call returns the server's request as an input request, and the
client repeats the call with its answer. Until then the server's call stays open::

    call ──► running ──► done: the call's result is returned
               │  ▲
       request │  │ the repeated call, with the answers and the state
               ▼  │
           suspended ──► timeout, eviction or end of the set: the call is cancelled

The `requestState` that the client returns is sealed, names the suspended call, and is
valid for one round of the request that it was issued for (`server.input_rounds`).
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from mcpwire.errors import (
    InternalError,
    InvalidParams,
    MCPError,
    RPCError,
    excerpt,
    rpc_error,
)
from mcpwire.gateway.translation import CALL_ENDED, TaskIds
from mcpwire.limits import check_timeout
from mcpwire.protocol.multistep import INPUT_REQUIRED
from mcpwire.protocol.request_state import ANONYMOUS
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.input_rounds import StateSealer
from mcpwire.server.request import IN_MEMORY
from mcpwire.transports.base import CallHandle
from mcpwire.versions import REVISIONS
from mcpwire.wire.jsonrpc import is_request_id

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from mcpwire.gateway.dispatcher import Requester
    from mcpwire.gateway.gateway import Gateway
    from mcpwire.gateway.translation import InFlightCalls
    from mcpwire.server.request import RequestContext, Session


class Downstream:
    """The session of a set (up to 2025-11-25), or all clients that share the set."""

    def __init__(
        self, gateway: Gateway, requester: Requester, session: Session | None
    ) -> None:
        self.revision = requester.revision
        self.capabilities = requester.capabilities
        self.session = session
        # Whether all requests of the set are provably from one client.
        self.is_single_client = session is not None or requester.owner is not None
        self.tasks = TaskIds(gateway.state_keys, requester.owner or ANONYMOUS)
        self.suspended = SuspendedCalls(gateway.suspension)

    def find_call(
        self, in_flight: InFlightCalls, handle: object | None
    ) -> RelayedCall | None:
        """Return the call that a server's request belongs to; ``None``: no call."""
        if self.session is None:
            return in_flight.find_owner(handle, asyncio.get_running_loop().time())
        calls = in_flight.calls
        for call in calls:
            if call is handle:
                return call
        # Any call of this client fits: its stream can carry the request.
        return next(reversed(calls), None) if handle is None else None

    async def send_request(
        self, method: str, params: dict[str, Any] | None, call: RelayedCall | None
    ) -> dict[str, Any]:
        """Send a request to the client; return its result. Cancelling withdraws it."""
        if call is not None and call.suspended is not None:
            return await call.suspended.send_request(method, params)
        send = None if self.session is None else self.session.ask
        if call is not None and call.request.can_ask:
            send = call.request.ask
        if send is None:
            context = "outside of a request"
            if call is not None:
                context = f"for {call.request.method}"
            raise InternalError(
                f"the client of the gateway cannot receive {method!r} {context}"
            )
        try:
            return await send(method, {} if params is None else params)
        except RPCError as error:
            raise rpc_error(error.code, error.message, data=error.data) from error
        except MCPError as error:
            raise InternalError(
                f"the client of the gateway did not answer {method!r}: {error}"
            ) from error

    def notify(self, method: str, params: dict[str, Any] | None) -> None:
        """Send a notification outside of requests, if there is an open session."""
        if self.session is not None and not self.session.is_closed:
            self.session.send(method, {} if params is None else params)


PROGRESS: Final = "notifications/progress"

_PROGRESS_MESSAGE_SINCE: Final = REVISIONS[1]


class RelayedCall(CallHandle):
    """Handle of a relayed call: links a server's messages to the client's request."""

    __slots__ = ("_progress", "request", "suspended")

    def __init__(self, request: RequestContext) -> None:
        self.request_id = None
        # At 2026-07-28, a suspended call continues with another request.
        self.request = request
        self.suspended: SuspendedCall | None = None
        self._progress: float | None = None

    def __repr__(self) -> str:
        return f"<RelayedCall {self.request!r} as {self.request_id!r}>"

    @property
    def wants_progress(self) -> bool:
        """Whether the client sent a progress token."""
        return is_request_id(self.request.meta.get("progressToken"))

    def continue_with(self, request: RequestContext) -> None:
        """Continue with another request of the client, which gets the result."""
        self.request = request
        self._progress = None

    def become_task(self) -> None:
        """Relay further progress in the session: the call has become a task there."""
        session = self.request.session
        assert session is not None  # tasks of 2025-11-25

        def notify(method: str, params: dict[str, Any]) -> None:
            session.send(method, params)  # which is replaced when the session ends

        # Without params and stream, because it may be kept for long.
        self.request = attrs.evolve(
            self.request, ask=None, notify=notify, params={}, info=IN_MEMORY
        )

    def relay_progress(self, method: str, params: dict[str, Any] | None) -> None:
        """Relay a progress notification with the client's own progress token."""
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
        relayed = {**params, "progressToken": request.meta["progressToken"]}
        if request.revision < _PROGRESS_MESSAGE_SINCE:
            relayed.pop("message", None)
        request.notify(method, relayed)


# Suspended calls

TIMEOUT_S: Final = 300.0

GATHER_ITERATIONS: Final = 3
"""Iterations of the event loop in which further input requests join a result."""


class SuspensionLimits:
    """Limits on the suspended calls of one gateway, and the sealer of their states.

    A client has `timeout` seconds for its answers. At the limit of `max_calls`, the
    longest suspended call of the client with the most calls is cancelled.
    """

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT_S,
        max_calls: int = 1024,
        keys: Iterable[bytes] = (),
    ) -> None:
        check_timeout(timeout, "timeout")
        self.timeout = timeout
        self.max_calls = max_calls
        self.calls: FairPool[SuspendedCall] = FairPool()
        self.sealer = StateSealer(keys, lifetime=timeout)

    def seal(
        self, request: RequestContext, round: int, stored: Mapping[str, Any]
    ) -> str:
        """Return the sealed state for the repetition of a request."""
        return self.sealer.seal_state(
            request, round=round, digests={}, answers={}, stored=stored
        )


class SuspendedCalls:
    """The suspended calls of one set by id."""

    def __init__(self, limits: SuspensionLimits) -> None:
        self.limits = limits
        self._calls: dict[str, SuspendedCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    async def perform(
        self, call: RelayedCall, coroutine: Coroutine[Any, Any, dict[str, Any]]
    ) -> dict[str, Any]:
        """Run a call; return its result, or a result with input requests."""
        call.suspended = SuspendedCall(self, call, coroutine)
        return await call.suspended.outcome()

    async def resume(self, request: RequestContext) -> dict[str, Any]:
        """Resume a suspended call with the answers in a request; return its outcome."""
        state = self.limits.sealer.unseal_state(request.params["requestState"], request)
        call = self._calls.get(str(state.stored.get("call")))
        if call is None:
            raise InvalidParams(
                "the call of params.requestState has expired: start a new call "
                "without it"
            )
        if call.is_awaited or call.round != state.round:
            raise InvalidParams("params.requestState was used before")
        responses = request.params.get("inputResponses", {})
        if type(responses) is not dict:
            raise InvalidParams("params.inputResponses must be an object")
        call.accept_answers(responses, request)
        return await call.outcome()

    # States of stateless servers

    def seal_server_state(self, state: Any, request: RequestContext) -> str:
        """Seal a server's `requestState` for the client of the request."""
        return self.limits.seal(request, 1, {"state": state})

    def unseal_server_state(self, request: RequestContext) -> Any:
        """Return the server's `requestState` from the sealed state in a request."""
        state = self.limits.sealer.unseal_state(request.params["requestState"], request)
        return state.stored.get("state")

    # Registration of calls

    def add(self, call: SuspendedCall) -> None:
        """Register a suspended call; at the limit, cancel another one for it."""
        if call.id in self._calls:
            return
        suspended = self.limits.calls
        if len(suspended) >= self.limits.max_calls:
            displaced = suspended.find_displaceable(
                call.owner, lambda other: not other.is_awaited
            )
            if displaced is None:
                raise InternalError("too many calls are waiting for answers")
            displaced.cancel()
        self._calls[call.id] = call
        suspended.add(call, call.owner)

    def remove(self, call: SuspendedCall) -> None:
        """Remove a call that has ended."""
        if self._calls.pop(call.id, None) is not None:
            self.limits.calls.discard(call)

    def close(self) -> None:
        """Cancel all suspended calls."""
        for call in list(self._calls.values()):
            call.cancel()


class SuspendedCall:
    """One call to a server, suspended while the client has to answer input requests."""

    def __init__(
        self,
        calls: SuspendedCalls,
        call: RelayedCall,
        coroutine: Coroutine[Any, Any, dict[str, Any]],
    ) -> None:
        self._calls = calls
        self._call = call
        self._changed = asyncio.Event()  # new input request, or end of the call
        self._requests: dict[str, InputRequest] = {}
        self._request_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self.id = secrets.token_urlsafe(16)
        self.owner = call.request.info.owner
        self.round = 0  # number of results with input requests
        self.is_awaited = True  # a request of the client awaits it
        self._task = asyncio.get_running_loop().create_task(
            coroutine, name="mcpwire-relayed-call"
        )
        self._task.add_done_callback(self._on_task_done)

    async def send_request(
        self, method: str, params: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return the client's answer to an input request; cancelling withdraws it."""
        if self._task.done() or self._task.cancelling():
            raise InternalError(CALL_ENDED)
        self._calls.add(self)
        self._request_count += 1
        key = f"{method.partition('/')[0]}-{self._request_count}"
        answer: asyncio.Future[dict[str, Any]]
        answer = asyncio.get_running_loop().create_future()
        raw = {"method": method} | ({} if params is None else {"params": params})
        self._requests[key] = InputRequest(raw, answer)
        self._changed.set()
        try:
            return await answer
        finally:
            self._requests.pop(key, None)

    def accept_answers(
        self, responses: dict[str, Any], request: RequestContext
    ) -> None:
        """Set the answers of a round as the results of the open input requests."""
        answers = {key: responses[key] for key in self._requests if key in responses}
        for key, answer in answers.items():
            if type(answer) is not dict:
                raise InvalidParams(
                    f"params.inputResponses[{excerpt(key)}] must be an object"
                )
        self._stop_timer()
        self.is_awaited = True
        self._call.continue_with(request)
        for key, answer in answers.items():
            future = self._requests.pop(key).answer
            if not future.done():
                future.set_result(answer)

    async def outcome(self) -> dict[str, Any]:
        """Return the call's result, or suspend it and return its input requests."""
        try:
            while not self._task.done():
                if self._requests:
                    for _ in range(GATHER_ITERATIONS):
                        await asyncio.sleep(0)
                    if self._requests and not self._task.done():
                        return self._suspend()
                    continue
                self._changed.clear()
                await self._changed.wait()
        except BaseException:
            self.cancel()
            raise
        self._calls.remove(self)
        if self._task.cancelled():
            raise InternalError(
                "the call was dropped in favour of others: try again later"
            )
        return self._task.result()

    def _suspend(self) -> dict[str, Any]:
        """Suspend the call; return a result with its input requests and its state."""
        limits = self._calls.limits
        self.round += 1
        state = limits.seal(self._call.request, self.round, {"call": self.id})
        self.is_awaited = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(limits.timeout, self.cancel)
        return {
            "resultType": INPUT_REQUIRED,
            "inputRequests": {key: each.raw for key, each in self._requests.items()},
            "requestState": state,
        }

    def cancel(self) -> None:
        """Cancel the call, also at its server."""
        self._calls.remove(self)
        self._stop_timer()
        self._task.cancel()

    def _on_task_done(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._changed.set()
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_exception(InternalError(CALL_ENDED))
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class InputRequest(NamedTuple):
    """One open input request of a server, and the future of its answer."""

    raw: dict[str, Any]
    answer: asyncio.Future[dict[str, Any]]
