"""Calls that wait for an answer which only the client's next request brings.

A server of the session era asks with a request of its own, in the midst of a call. At
2026-07-28 a client cannot be asked so: its call is answered with the question, and the
answer comes with the same call, made again. Meanwhile the server's call stays open::

    call ──► running ──► answered: the result, and nothing was parked
               │  ▲
      question │  │ the call again, with the answers and our state
               ▼  │
             parked ──► too late, or the set is closed: the server's call is cancelled

The state that the client brings back is sealed, names the parked call, and is good for
one round of the very request that it was given to (`server.input_rounds`).
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
    from collections.abc import Callable, Coroutine, Iterable

    from mcpwire.gateway.relay import RelayedCall
    from mcpwire.server.request import RequestContext


__all__ = [
    "ParkedCall",
    "Parking",
    "ParkingLot",
]

PARK_TIMEOUT_S: Final = 300.0

TURNS: Final = 2
"""Turns of the loop in which questions that are asked together find each other."""

EXCERPT: Final = 40


class Parking:
    """What bounds the calls of one gateway that wait for answers.

    Args:
        timeout: How long a client has for its answers, in seconds.
        most: How many calls may wait. Beyond that the one that has waited for longest
            ends, of the client with the most; one that its client waits for only for
            a client with fewer.
        keys: What seals the states, as for `Server`; without any, a random one.

    Attributes:
        timeout: As given.
        most: As given.
        calls: Those that wait now, by client.
        keeper: What seals the states.

    Raises:
        ValueError: The timeout is zero, negative or NaN, or a key is none.
    """

    def __init__(
        self,
        *,
        timeout: float = PARK_TIMEOUT_S,
        most: int = 1024,
        keys: Iterable[bytes] = (),
    ) -> None:
        check_timeout(timeout, "timeout")
        self.timeout = timeout
        self.most = most
        self.calls: FairPool[ParkedCall] = FairPool()
        self.keeper = StateSealer(keys, lifetime=timeout)


class ParkingLot:
    """The calls of one set that wait, by their ids.

    Args:
        parking: What bounds them.
    """

    def __init__(self, parking: Parking) -> None:
        self.parking = parking
        self._calls: dict[str, ParkedCall] = {}

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._calls)

    async def perform(
        self, call: RelayedCall, work: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    ) -> dict[str, Any]:
        """Return what a call comes to: its result, or a question of its server's.

        Raises:
            RPCError: As `work`.

        Cancelling it cancels the work.
        """
        parked = ParkedCall(self, call, work())
        call.parked = parked
        return await parked.attend()

    async def go_on(self, request: RequestContext) -> dict[str, Any]:
        """Return what a parked call comes to, with the answers that a request brings.

        Raises:
            InvalidParams: The state is not this request's, was used, or is too old; or
                the answers are malformed.
            RPCError: As the call.
        """
        state = self.parking.keeper.open(request.params["requestState"], request)
        parked = self._calls.get(str(state.kept.get("call")))
        if parked is None:
            raise InvalidParams(
                "the call of params.requestState is not waiting any more: make it anew"
            )
        if parked.is_attended or parked.round != state.round:
            raise InvalidParams("params.requestState was used before")
        parked.take(_responses(request.params), request)
        return await parked.attend()

    # The states of servers that are asked anew with each round...

    def sealed_state(self, state: Any, request: RequestContext) -> str:
        """Return a server's state, bound to the client of the request.

        Raises:
            LocalProtocolError: It is too long.
        """
        keeper, kept = self.parking.keeper, {"state": state}
        return keeper.close(request, round=1, asked={}, answers={}, kept=kept)

    def opened_state(self, request: RequestContext) -> Any:
        """Return the server's state that a request brings.

        Raises:
            InvalidParams: It is not this request's, or too old.
        """
        keeper = self.parking.keeper
        return keeper.open(request.params["requestState"], request).kept.get("state")

    # For the calls...

    def enter(self, parked: ParkedCall) -> None:
        """Let a call wait, for which another may end.

        Raises:
            InternalError: Too many do already.
        """
        if parked.id in self._calls:
            return
        waiting, owner = self.parking.calls, parked.owner
        if len(waiting) >= self.parking.most:
            displaced = waiting.to_displace(owner, lambda other: not other.is_attended)
            if displaced is None:
                raise InternalError("too many calls wait for answers already")
            displaced.cancel()
        self._calls[parked.id] = parked
        waiting.add(parked, owner)

    def leave(self, parked: ParkedCall) -> None:
        """Take note that a call does not wait any more."""
        if self._calls.pop(parked.id, None) is not None:
            self.parking.calls.discard(parked)

    def close(self) -> None:
        """Cancel all of them."""
        for parked in list(self._calls.values()):
            parked.cancel()


class ParkedCall:
    """One call of a server's that may have to wait for its client.

    Attributes:
        id: What the state calls it.
        owner: The key of its client.
        round: How often the client was asked.
        is_attended: Whether a request of the client waits for it now.
    """

    def __init__(
        self,
        lot: ParkingLot,
        call: RelayedCall,
        work: Coroutine[Any, Any, dict[str, Any]],
    ) -> None:
        self._lot = lot
        self._call = call
        self._task = asyncio.get_running_loop().create_task(
            work, name="mcpwire-relayed-call"
        )
        self._task.add_done_callback(_seen)
        self._questions: dict[str, _Question] = {}
        self._asked = 0
        self._changed: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.id = secrets.token_urlsafe(16)
        self.owner = call.request.info.owner
        self.round = 0
        self.is_attended = True

    # What the server asks...

    async def ask(self, method: str, params: dict[str, Any] | None) -> dict[str, Any]:
        """Return the client's answer to a question; cancelling it takes it back.

        Raises:
            InternalError: Too many calls wait already.
        """
        self._lot.enter(self)
        self._asked += 1
        key = f"{method.partition('/')[0]}-{self._asked}"
        question = _Question(method, params)
        self._questions[key] = question
        self._wake()
        try:
            return await question.answer
        finally:
            self._questions.pop(key, None)

    # What the client does...

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.is_attended = True
        self._call.goes_on(request)
        for key, answer in given.items():
            self._questions.pop(key).settle(answer)

    async def attend(self) -> dict[str, Any]:
        """Return the call's result, or what its server asks first.

        Raises:
            RPCError: It failed so, or was given up.
        """
        try:
            while not self._task.done():
                if self._questions:
                    await _turns()
                    if self._questions and not self._task.done():
                        return self._leave()
                    continue
                self._changed = asyncio.get_running_loop().create_future()
                await asyncio.wait(
                    (self._task, self._changed),
                    return_when=asyncio.FIRST_COMPLETED,
                )
        except BaseException:
            self.cancel()
            raise
        self._lot.leave(self)
        if self._task.cancelled():
            raise InternalError("the call was given up for others: try again later")
        return self._task.result()

    def _leave(self) -> dict[str, Any]:
        """Return the result that asks; the call goes on when it was answered."""
        parking, request = self._lot.parking, self._call.request
        self.round += 1
        state = parking.keeper.close(
            request,
            round=self.round,
            asked={key: one.mark for key, one in self._questions.items()},
            answers={},
            kept={"call": self.id},
        )
        self.is_attended = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(parking.timeout, self.cancel)
        return {
            "resultType": INPUT_REQUIRED,
            "inputRequests": {key: one.raw for key, one in self._questions.items()},
            "requestState": state,
        }

    def cancel(self) -> None:
        """Give the call up; its server is told."""
        self._lot.leave(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._task.cancel()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


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

    def settle(self, answer: dict[str, Any]) -> None:
        """Hand the answer to the server."""
        if not self.answer.done():
            self.answer.set_result(answer)


def _responses(params: Any) -> dict[str, Any]:
    responses = params.get("inputResponses", {})
    if type(responses) is not dict:
        raise InvalidParams("params.inputResponses must be an object")
    return responses


def _seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # which nobody may ever ask for


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
