"""Input rounds of the server: the questions and answers of a call, over its requests.

At 2026-07-28 a server sends no requests. A question without an answer ends the run of
its handler, and the client calls again with the answer (basic/patterns/mrtr)::

    request ── get_rounds ──> the handler runs ── question ──> answered: it continues
                                   ▲                  │ not yet: InputNeeded
                                   │                  ▼ finish_round
    same, with answers <───────────┴────────── input_required

The handler starts again each time, and gets the answers so far. If the client can be
asked during the call, as in sessions and tasks, there are no rounds; only the keys and
`once` are the same.

The client keeps the state of a call between its rounds, sealed by `StateSealer`. The
contents and the binding of a sealed state are defined in `protocol.request_state`.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import secrets
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.errors import InternalError, InvalidParams, LocalProtocolError
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.methods import available_method
from mcpwire.protocol.multistep import INPUT_REQUIRED
from mcpwire.protocol.request_state import (
    ANONYMOUS,
    CallState,
    RecordedAnswer,
    check_key,
    request_digest,
    seal,
    state_binding,
    unseal,
)
from mcpwire.server.fair_pool import FairPool, client_key, client_of
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.versions import Era
from mcpwire.wire.json import Json, encode, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.server.request import RequestContext

STATE_LIFETIME_S: Final = 600.0
"""How long a client may take to answer, in seconds: its user may have to think."""

_MAX_USED_STATES: Final = 100_000


class SingleUse(Protocol):
    """Records the used states, for servers that accept each state only once.

    2026-07-28 basic/patterns/mrtr: if a state may be consumed only once, the server
    MUST enforce that itself. A client then cannot continue after a broken connection.
    """

    def use(self, nonce: str, expires_at: int) -> bool:
        """Return whether this is the first use; must neither block nor raise.

        The record can be deleted when the state expires, in seconds since 1970. The
        part of the nonce after its dot identifies the client of the state.
        """
        ...


class MemorySingleUse:
    """Records the used states in memory, for one process.

    Args:
        most: The maximum number of records. While a client has more records than there
            is room left, its states count as used.
        clock: Returns the seconds since 1970.
    """

    def __init__(
        self, most: int = _MAX_USED_STATES, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._maximum = most
        self._clock = clock
        self._used: dict[str, int] = {}
        self._pool: FairPool[str] = FairPool()
        self._earliest = math.inf  # the first expiry of a state
        self._lock = threading.Lock()

    def use(self, nonce: str, expires_at: int) -> bool:
        """Return whether this is the first use."""
        owner = client_of(nonce)
        with self._lock:
            if nonce in self._used:
                return False
            if not self._has_room(owner):
                self._delete_expired()
                if not self._has_room(owner):
                    return False
            self._used[nonce] = expires_at
            self._pool.add(nonce, owner)
            self._earliest = min(self._earliest, expires_at)
            return True

    def _has_room(self, owner: str) -> bool:
        # No record is evicted for another: its state could be used again.
        room = self._maximum - len(self._used)
        return room > 0 and self._pool.count(owner) <= room

    def _delete_expired(self) -> None:
        now = self._clock()
        if now < self._earliest:
            return
        for nonce in [nonce for nonce, end in self._used.items() if end <= now]:
            del self._used[nonce]
            self._pool.discard(nonce)
        self._earliest = min(self._used.values(), default=math.inf)


def _check_keys(keys: Iterable[bytes]) -> tuple[bytes, ...]:
    return tuple(map(check_key, keys)) or (secrets.token_bytes(32),)


@attrs.frozen(eq=False, repr=False)
class StateSealer:
    """Seals and unseals the states of one server's calls."""

    _keys: tuple[bytes, ...] = attrs.field(default=(), converter=_check_keys)
    _lifetime: float = attrs.field(default=STATE_LIFETIME_S, kw_only=True)
    rounds: int = attrs.field(default=DEFAULT_LIMITS.input_rounds, kw_only=True)
    _single_use: SingleUse | None = attrs.field(default=None, kw_only=True)
    _clock: Callable[[], float] = attrs.field(default=time.time, kw_only=True)

    def seal_state(
        self,
        request: RequestContext,
        *,
        round: int,
        digests: Mapping[str, str],
        answers: Mapping[str, RecordedAnswer],
        stored: Mapping[str, Json],
    ) -> str:
        """Return the sealed state of a call that continues with another request."""
        state = CallState(
            round=round,
            nonce=client_key(secrets.token_urlsafe(16), request.info.owner),
            expires_at=int(self._clock() + self._lifetime),
            digests=digests,
            answers=answers,
            stored=stored,
        )
        return seal(state, _binding(request), self._keys[0])

    def unseal_state(self, sealed: Any, request: RequestContext) -> CallState:
        """Return the state of a request. Raises `InvalidParams`."""
        state = unseal(sealed, _binding(request), self._keys, self._clock())
        if self._single_use is not None and not self._single_use.use(
            state.nonce, state.expires_at
        ):
            raise InvalidParams("params.requestState was used before")
        return state


def _binding(request: RequestContext) -> bytes:
    principal = request.info.principal
    owner = ANONYMOUS if principal is None else principal.key
    return state_binding(owner, request.method, request.params)


_JOIN_ITERATIONS: Final = 2
"""Loop iterations in which more questions may join the first one without an answer."""

_EXCERPT_CHARACTERS: Final = 40

logger = LimitedLogger("mcpwire")


class InputNeeded(BaseException):
    """A question has no answer yet; the run of the handler ends here.

    Not an `Exception`, so that handlers that catch `Exception` do not catch it.
    """


class InputRounds:
    """The questions of one call; see the module docstring."""

    def __init__(self, sealer: StateSealer, request: RequestContext) -> None:
        self._sealer = sealer
        self._request = request
        self._round = 0
        self._digests: Mapping[str, str] | None = None  # of the last round's questions
        self._responses: Mapping[str, Json] = {}
        self._answers: dict[str, RecordedAnswer] = {}
        self._stored: dict[str, Json] = {}
        self._running: dict[str, asyncio.Event] = {}
        self._names: set[str] = set()
        self._questions: dict[str, tuple[dict[str, Json], str]] = {}  # with its digest
        if can_request_input(request):
            self._read(request.params)

    # Answers and state in the request

    def _read(self, params: Mapping[str, Json]) -> None:
        """Read the client's answers and the sealed state."""
        if "requestState" in params:
            state = self._sealer.unseal_state(params["requestState"], self._request)
            self._round = state.round
            self._digests = state.digests
            self._answers = dict(state.answers)
            self._stored = dict(state.stored)
        if "inputResponses" in params:
            responses = params["inputResponses"]
            if type(responses) is not dict:
                raise InvalidParams("params.inputResponses must be an object")
            self._responses = responses
        # These answers count even if this run does not repeat the question.
        for key, digest in (self._digests or {}).items():
            if key in self._responses:
                self._answers[key] = RecordedAnswer(digest, self._response(key))

    def _response(self, key: str) -> dict[str, Json]:
        answer = self._responses[key]
        if type(answer) is not dict:
            excerpt = key[:_EXCERPT_CHARACTERS]
            raise InvalidParams(f"params.inputResponses[{excerpt!r}] must be an object")
        return answer

    # Questions

    def key_for(self, kind: str, key: str | None) -> str:
        """Return a question's key: the author's, or a numbered one."""
        if key is None:
            numbered = (f"{kind}-{number}" for number in count(1))
            key = next(name for name in numbered if name not in self._names)
        elif type(key) is not str or not key:
            raise ValueError(f"key must be a name for the question, got {key!r}")
        elif key in self._names:
            # 2026-07-28 basic/patterns/mrtr: keys MUST be unique within the request.
            raise ValueError(f"each question of a call needs its own key, got {key!r}")
        self._names.add(key)
        return key

    async def ask(
        self, key: str, method: str, params: dict[str, Json], *, is_named: bool
    ) -> dict[str, Json]:
        """Return the answer to a question, or raise `InputNeeded`."""
        if not can_request_input(self._request):
            # 2026-07-28 basic/patterns/mrtr, "Supported Requests".
            raise LocalProtocolError(
                f"{self._request.method}: the client cannot be asked for anything here "
                f"at {self._request.revision}"
            )
        digest = request_digest(method, params, is_named=is_named)
        answer = self._answer(key, digest, is_named=is_named)
        if answer is not None:
            return answer
        self._questions[key] = {"method": method, "params": params}, digest
        for _ in range(_JOIN_ITERATIONS):
            await asyncio.sleep(0)  # concurrent questions join the same round
        raise InputNeeded(key)

    def _answer(
        self, key: str, digest: str, *, is_named: bool
    ) -> dict[str, Json] | None:
        recorded = self._answers.get(key)
        if recorded is not None:
            if recorded.digest == digest:
                return recorded.answer
            logger.warning(
                "%s: the question %r has changed since it was answered, so it is "
                "asked again; a question with changing text needs a key=",
                self._request.method,
                key,
            )
        elif self._digests is None and is_named and key in self._responses:
            # Without our state the text of the answered question is unknown.
            answer = self._response(key)
            self._answers[key] = RecordedAnswer(digest, answer)
            return answer
        return None

    # Values of `once`

    def stored_value(self, key: str) -> tuple[Json] | None:
        """Return the stored value in a tuple, as it may be ``None``."""
        return (_copy(self._stored[key]),) if key in self._stored else None

    def store_value(self, key: str, value: Json) -> Json:
        """Store a value for all rounds; return it as later rounds will get it."""
        self._stored[key] = _copy(value)
        return _copy(value)

    async def once(self, key: str, function: Callable[[], Any]) -> Json:
        """Return the value that the function returned in its first call."""
        while (finished := self._running.get(key)) is not None:
            await finished.wait()
        if (stored := self.stored_value(key)) is not None:
            return stored[0]
        finished = self._running[key] = asyncio.Event()
        try:
            value = function()
            return self.store_value(
                key, await value if inspect.isawaitable(value) else value
            )
        finally:
            del self._running[key]
            finished.set()

    # The result

    def result(self) -> dict[str, Json]:
        """Return the result with the questions and the sealed state."""
        request, number = self._request, self._round + 1
        if not self._questions or not can_request_input(request):
            logger.error(
                "%s: the result has no input requests, or must not have any",
                request.method,
            )
            raise InternalError("the handler failed")
        if number > self._sealer.rounds:
            logger.error(
                "%s: it still requests input after %d rounds (Limits.input_rounds): %s",
                request.method,
                self._sealer.rounds,
                ", ".join(self._questions),
            )
            raise InternalError(
                f"the call has requested input {self._sealer.rounds} times, the limit "
                "of this server"
            )
        state = self._sealer.seal_state(
            request,
            round=number,
            digests={key: digest for key, (_, digest) in self._questions.items()},
            answers=self._answers,
            stored=self._stored,
        )
        return {
            "resultType": INPUT_REQUIRED,
            "inputRequests": {
                key: question for key, (question, _) in self._questions.items()
            },
            "requestState": state,
        }


def _copy(value: Json) -> Json:
    return loads(encode(value))


def can_request_input(request: RequestContext) -> bool:
    """Return whether a request's result may contain questions to the client."""
    if request.revision.era is not Era.STATELESS:
        return False
    spec = available_method(request.method, request.revision, "client")
    return spec is not None and spec.may_need_input


def get_rounds(request: RequestContext, sealer: StateSealer) -> InputRounds:
    """Return the input rounds of a request; create them if necessary."""
    if request.rounds is None:
        request.rounds = InputRounds(sealer, request)
    return request.rounds


def finish_round(request: RequestContext) -> dict[str, Json]:
    """Return the result of a request after its handler raised `InputNeeded`."""
    if request.rounds is None:
        logger.error("%s: InputNeeded was raised by hand", request.method)
        raise InternalError("the handler failed")
    try:
        return request.rounds.result()
    except LocalProtocolError as error:
        logger.error("%s: %s", request.method, error)  # noqa: TRY400 - the sentence says all there is
        raise InternalError("the handler failed") from error


def deciding_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception of a group that decides the response.

    Concurrent tasks that ask fail together: `InputNeeded` decides only if the group
    contains no other error, since that error would occur in the next round, too.
    """
    errors: list[BaseException] = [group]
    for error in errors:  # the list grows meanwhile
        if isinstance(error, BaseExceptionGroup):
            errors += error.exceptions
        elif not isinstance(error, InputNeeded):
            return error
    return next(error for error in errors if isinstance(error, InputNeeded))
