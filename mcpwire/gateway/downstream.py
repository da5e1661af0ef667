"""The client side of a set of connections: receives its requests and notifications.

A session is one client: whatever its servers ask or tell is for it. Requests that stand
alone share a set where they look alike, and may be several clients all the same: what
no call of theirs can be told to have caused reaches none of them.

A server of the session era asks with a request of its own, in the midst of a call. At
2026-07-28 a client cannot be asked so: its call is answered with the question, and the
answer comes with the same call, made again. Meanwhile the server's call stays open::

    call ──► running ──► answered: the result, and nothing was suspended
               │  ▲
      question │  │ the call again, with the answers and our state
               ▼  │
           suspended ──► too late, or the set is closed: the server's call is cancelled

The state that the client brings back is sealed, names the suspended call, and is good
for one round of the very request that it was given to (`server.input_rounds`).
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final

from mcpwire._text import excerpt
from mcpwire.errors import (
    InternalError,
    InvalidParams,
    MCPError,
    RPCError,
    rpc_error,
)
from mcpwire.limits import check_timeout
from mcpwire.protocol.multistep import INPUT_REQUIRED
from mcpwire.protocol.request_state import request_digest
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.input_rounds import StateSealer
from mcpwire.transports.base import CallHandle
from mcpwire.versions import REVISIONS
from mcpwire.wire.jsonrpc import is_request_id

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from mcpwire.gateway.translation import InFlightCalls, TaskIds
    from mcpwire.server.request import RequestContext, Session
    from mcpwire.versions import Revision

__all__ = ["Downstream", "RelayedCall", "SuspendedCalls", "SuspensionLimits"]


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
        """Return the call of a server's request; ``None``: it needs none."""
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
        """Return the client's answer; cancelling it takes the request back."""
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


# Suspended calls...

TIMEOUT_S: Final = 300.0

TURNS: Final = 3
"""Turns of the loop in which questions that are asked together find each other."""


class SuspensionLimits:
    """Bounds the suspended calls of one gateway, and seals their states.

    A client has `timeout` seconds for its answers. At `most` calls the one that has
    waited for longest ends, of the client with the most.
    """

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT_S,
        most: int = 1024,
        keys: Iterable[bytes] = (),
    ) -> None:
        check_timeout(timeout, "timeout")
        self.timeout = timeout
        self.most = most
        self.calls: FairPool[SuspendedCall] = FairPool()
        self.sealer = StateSealer(keys, lifetime=timeout)


class SuspendedCalls:
    """The suspended calls of one set, by their ids."""

    def __init__(self, limits: SuspensionLimits) -> None:
        self.limits = limits
        self._calls: dict[str, SuspendedCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    async def perform(
        self, call: RelayedCall, work: Coroutine[Any, Any, dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the result of a call, or a question of its server."""
        call.suspended = SuspendedCall(self, call, work)
        return await call.suspended.outcome()

    async def go_on(self, request: RequestContext) -> dict[str, Any]:
        """Return the next outcome of a call, with the answers that a request brings."""
        state = self.limits.sealer.open(request.params["requestState"], request)
        call = self._calls.get(str(state.kept.get("call")))
        if call is None:
            raise InvalidParams(
                "the call of params.requestState is not waiting any more: make it anew"
            )
        if call.is_attended or call.round != state.round:
            raise InvalidParams("params.requestState was used before")
        responses = request.params.get("inputResponses", {})
        if type(responses) is not dict:
            raise InvalidParams("params.inputResponses must be an object")
        call.take(responses, request)
        return await call.outcome()

    # The states of servers that are asked anew with each round...

    def sealed_state(self, state: Any, request: RequestContext) -> str:
        """Return a server's state, bound to the client of the request."""
        return self.limits.sealer.close(
            request, round=1, asked={}, answers={}, kept={"state": state}
        )

    def opened_state(self, request: RequestContext) -> Any:
        """Return the server's state that a request brings."""
        state = self.limits.sealer.open(request.params["requestState"], request)
        return state.kept.get("state")

    # For the calls...

    def add(self, call: SuspendedCall) -> None:
        """Let a call wait, for which another may end."""
        if call.id in self._calls:
            return
        waiting = self.limits.calls
        if len(waiting) >= self.limits.most:
            displaced = waiting.to_displace(
                call.owner, lambda other: not other.is_attended
            )
            if displaced is None:
                raise InternalError("too many calls wait for answers already")
            displaced.cancel()
        self._calls[call.id] = call
        waiting.add(call, call.owner)

    def remove(self, call: SuspendedCall) -> None:
        """Remove a call that does not wait any more."""
        if self._calls.pop(call.id, None) is not None:
            self.limits.calls.discard(call)

    def close(self) -> None:
        """Cancel all of them."""
        for call in list(self._calls.values()):
            call.cancel()


class SuspendedCall:
    """One call of a server that may have to wait for its client."""

    def __init__(
        self,
        calls: SuspendedCalls,
        call: RelayedCall,
        work: Coroutine[Any, Any, dict[str, Any]],
    ) -> None:
        self._calls = calls
        self._call = call
        self._changed = asyncio.Event()  # something was asked, or the call has ended
        self._questions: dict[str, _Question] = {}
        self._asked = 0
        self._timer: asyncio.TimerHandle | None = None
        self.id = secrets.token_urlsafe(16)
        self.owner = call.request.info.owner
        self.round = 0  # how often the client was asked
        self.is_attended = True  # a request of the client waits for it
        self._task = asyncio.get_running_loop().create_task(
            work, name="mcpwire-relayed-call"
        )
        self._task.add_done_callback(self._ended)

    async def ask(self, method: str, params: dict[str, Any] | None) -> dict[str, Any]:
        """Return the client's answer to a question; cancelling it takes it back."""
        self._calls.add(self)
        self._asked += 1
        key = f"{method.partition('/')[0]}-{self._asked}"
        question = self._questions[key] = _Question(method, params)
        self._changed.set()
        try:
            return await question.answer
        finally:
            self._questions.pop(key, None)

    def take(self, responses: dict[str, Any], request: RequestContext) -> None:
        """Hand the answers of a round to the waiting questions."""
        given = {key: responses[key] for key in self._questions if key in responses}
        for key, answer in given.items():
            if type(answer) is not dict:
                raise InvalidParams(
                    f"params.inputResponses[{excerpt(key)}] must be an object"
                )
        self._stop_timer()
        self.is_attended = True
        self._call.goes_on(request)
        for key, answer in given.items():
            future = self._questions.pop(key).answer
            if not future.done():
                future.set_result(answer)

    async def outcome(self) -> dict[str, Any]:
        """Return the call's result, or what its server asks first."""
        try:
            while not self._task.done():
                if self._questions:
                    for _ in range(TURNS):
                        await asyncio.sleep(0)
                    if self._questions and not self._task.done():
                        return self._suspend()
                    continue
                self._changed.clear()
                await self._changed.wait()
        except BaseException:
            self.cancel()
            raise
        self._calls.remove(self)
        if self._task.cancelled():
            raise InternalError("the call was given up for others: try again later")
        return self._task.result()

    def _suspend(self) -> dict[str, Any]:
        """Return the result that asks; the call goes on when it was answered."""
        limits = self._calls.limits
        self.round += 1
        state = limits.sealer.close(
            self._call.request,
            round=self.round,
            asked={key: one.mark for key, one in self._questions.items()},
            answers={},
            kept={"call": self.id},
        )
        self.is_attended = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(limits.timeout, self.cancel)
        return {
            "resultType": INPUT_REQUIRED,
            "inputRequests": {key: one.raw for key, one in self._questions.items()},
            "requestState": state,
        }

    def cancel(self) -> None:
        """Cancel the call; its server is told."""
        self._calls.remove(self)
        self._stop_timer()
        self._task.cancel()

    def _ended(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._changed.set()
        if not task.cancelled():
            task.exception()  # retrieved, also where nobody waits for it

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Question:
    """One question, until it is answered."""

    __slots__ = ("answer", "mark", "raw")

    def __init__(self, method: str, params: dict[str, Any] | None) -> None:
        self.answer: asyncio.Future[dict[str, Any]] = (
            asyncio.get_running_loop().create_future()
        )
        self.mark = request_digest(method, params or {}, is_named=False)
        self.raw: dict[str, Any] = {"method": method}
        if params is not None:
            self.raw["params"] = params
