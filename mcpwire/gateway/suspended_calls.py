"""Calls that wait for an answer which only the client's next request brings.

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

from mcpwire.errors import InternalError, InvalidParams
from mcpwire.limits import check_timeout
from mcpwire.protocol.multistep import INPUT_REQUIRED
from mcpwire.protocol.request_state import request_digest
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.input_rounds import StateSealer

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from mcpwire.gateway.downstream import RelayedCall
    from mcpwire.server.request import RequestContext


__all__ = ["SuspendedCall", "SuspendedCalls", "SuspensionLimits"]

TIMEOUT_S: Final = 300.0

TURNS: Final = 3
"""Turns of the loop in which questions that are asked together find each other."""

EXCERPT: Final = 40


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
        """Return the result of a call, or a question of its server.

        Cancelling it cancels the work.
        """
        call.suspended = SuspendedCall(self, call, work)
        return await call.suspended.outcome()

    async def go_on(self, request: RequestContext) -> dict[str, Any]:
        """Return the next outcome of a call, with the answers that a request brings.

        Raises:
            InvalidParams: The state is not this request's, was used, or is too old; or
                the answers are malformed.
        """
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
        """Return the server's state that a request brings.

        Raises:
            InvalidParams: It is not this request's, or too old.
        """
        state = self.limits.sealer.open(request.params["requestState"], request)
        return state.kept.get("state")

    # For the calls...

    def add(self, call: SuspendedCall) -> None:
        """Let a call wait, for which another may end.

        Raises:
            InternalError: Too many do already.
        """
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
        """Return the client's answer to a question; cancelling it takes it back.

        Raises:
            InternalError: Too many calls wait already.
        """
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
        """Hand the answers of a round to the waiting questions.

        Raises:
            InvalidParams: One of them is no object; nothing has changed then.
        """
        given = {key: responses[key] for key in self._questions if key in responses}
        for key, answer in given.items():
            if type(answer) is not dict:
                raise InvalidParams(
                    f"params.inputResponses[{key[:EXCERPT]!r}] must be an object"
                )
        self._stop_timer()
        self.is_attended = True
        self._call.goes_on(request)
        for key, answer in given.items():
            future = self._questions.pop(key).answer
            if not future.done():
                future.set_result(answer)

    async def outcome(self) -> dict[str, Any]:
        """Return the call's result, or what its server asks first.

        Raises:
            RPCError: It failed so, or was cancelled for other calls.
        """
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
