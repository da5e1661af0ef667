"""The client's operations of several steps: input rounds of a call, pages of a list.

Each is a generator. It yields a step (`Call`, `Ask` or `Sleep`); the shell performs it
and sends the outcome back, or throws the exception that stood in its place::

    try:
        step = next(operation)
        while True:
            step = operation.send(await perform(step))
    except StopIteration as done:
        return done.value

A result of the stateless era says what it is in `resultType`. One that is
``input_required`` asks our handlers for something and is followed by the same request
with the answers, until the server has what it needs (2026-07-28 mrtr)::

    Call ──► input_required ──► Ask each ──► Call ──► ... ──► complete, or a task
                   ▲                           │
                   └───────── a new round ◄────┘

Each round carries the answers to the latest questions and the latest `requestState`,
which is the server's own memory and never looked into.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from mcpwire._text import excerpt
from mcpwire.errors import (
    InvalidMessage,
    InvalidParams,
    LocalProtocolError,
    RemoteProtocolError,
    TooManyQuestions,
)
from mcpwire.limits import DEFAULT_LIMITS, DEFAULT_RECOVERY
from mcpwire.protocol.methods import TASKS, Kind, available, find
from mcpwire.protocol.retry import full_jitter
from mcpwire.versions import LATEST, Era

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from mcpwire.limits import Recovery
    from mcpwire.protocol.methods import MethodSpec
    from mcpwire.versions import Revision

__all__ = [
    "COMPLETE",
    "INPUT_REQUIRED",
    "TASK",
    "Ask",
    "Call",
    "CursorGoneError",
    "PageWalk",
    "Sleep",
    "Step",
    "Steps",
    "input_rounds",
    "is_task",
    "next_cursor",
    "pages",
    "read_questions",
    "result_kind",
]

T = TypeVar("T")


@attrs.frozen
class Call:
    """Send this request; the outcome is its raw result object."""

    method: str
    params: dict[str, Any]


@attrs.frozen
class Ask:
    """Let our handler answer the peer's question; the outcome is the raw answer."""

    key: str  # the peer's name for this question, unique within its round
    method: str
    params: dict[str, Any] | None


@attrs.frozen
class Sleep:
    """Wait before the next step; the outcome is ``None``."""

    seconds: float


Step: TypeAlias = Call | Ask | Sleep

Steps: TypeAlias = Generator[Step, Any, T]
"""An operation that ends with a `T`."""


def _check_type(value: Any, expected: type, path: str) -> None:
    if type(value) is not expected:
        name = "object" if expected is dict else expected.__name__
        raise InvalidMessage(path, expected=name, got=type(value).__name__)


# Input rounds...

COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
TASK: Final = "task"


def result_kind(
    result: Mapping[str, Any], extensions: AbstractSet[str] = frozenset()
) -> str:
    """Return what a raw result of the stateless era is; absent means ``complete``."""
    kind = result.get("resultType")
    if kind is None:
        return COMPLETE
    _check_type(kind, str, "Result.resultType")
    known = [COMPLETE, INPUT_REQUIRED, *([TASK] if TASKS in extensions else [])]
    if kind not in known:
        is_off = f"the extension {TASKS} is not on for this request"
        raise InvalidMessage(
            "Result.resultType",
            expected=" or ".join(map(repr, known)),
            got=excerpt(kind),
            hint=is_off if kind == TASK else None,
        )
    return str(kind)


def is_task(result: Mapping[str, Any], revision: Revision) -> bool:
    """Tell whether what `input_rounds` ended with is a task, and no result yet."""
    return revision.era is Era.STATELESS and result.get("resultType") == TASK


def input_rounds(
    method: str,
    params: Mapping[str, Any],
    result: dict[str, Any],
    *,
    revision: Revision = LATEST,
    extensions: AbstractSet[str] = frozenset(),
    limit: int = DEFAULT_LIMITS.input_rounds,
    most: int = DEFAULT_LIMITS.questions,
    recovery: Recovery = DEFAULT_RECOVERY,
) -> Steps[dict[str, Any]]:
    """Bring a call from its first raw result to the final one, which is returned."""
    if revision.era is Era.SESSION:
        return result
    spec = available(method, revision, "client", extensions)
    # Answers and state belong to one round and are never carried into the next.
    original = dict(params)
    original.pop("inputResponses", None)
    original.pop("requestState", None)
    rounds = empty = asked = 0
    while (kind := result_kind(result, extensions)) == INPUT_REQUIRED:
        _check_round(method, spec, rounds, limit)
        rounds += 1
        questions, answered = _read_round(result, revision)
        asked += len(questions)
        if asked > most:
            raise TooManyQuestions(method, limit=most)
        if questions:
            empty = 0
            answers = answered["inputResponses"] = {}
            for question in questions:
                answers[question.key] = yield question
        else:
            # A busy server may send us away with nothing but state. The first retry
            # goes at once (mrtr, "Client Requirements"); then it gets time.
            empty += 1
            if empty > 1:
                yield Sleep(full_jitter(recovery, empty - 1, 1.0))
        result = yield Call(method, original | answered)
    if kind == TASK and not (spec and spec.task_capable):
        # The tasks extension, "Capability Negotiation": only a tool call becomes one.
        raise InvalidMessage(
            "Result.resultType", expected=repr(COMPLETE), got=f"{kind!r} for {method}"
        )
    return result


def _check_round(method: str, spec: MethodSpec | None, done: int, limit: int) -> None:
    if spec is None or not spec.may_need_input:
        raise RemoteProtocolError(
            f"{method}: the server asks for input, which this method cannot need",
            hint="only tools/call, prompts/get and resources/read have such results",
        )
    if done >= limit:
        raise RemoteProtocolError(
            f"{method}: the server still asks for input after {limit} rounds",
            hint="raise Limits.input_rounds if it really needs more",
        )


def _read_round(
    result: Mapping[str, Any], revision: Revision
) -> tuple[list[Ask], dict[str, Any]]:
    """Return a round's questions, all of them checked, and the state to send back."""
    requests, state = result.get("inputRequests"), result.get("requestState")
    path = "InputRequiredResult"
    if requests is None and state is None:
        raise InvalidMessage(
            path, expected="inputRequests or requestState", got="neither"
        )
    questions: list[Ask] = []
    if requests is not None:
        questions = read_questions(requests, f"{path}.inputRequests", revision)
    if state is None:
        return questions, {}
    _check_type(state, str, f"{path}.requestState")
    return questions, {"requestState": state}


def read_questions(requests: Any, path: str, revision: Revision) -> list[Ask]:
    """Return the questions that stand at a path of a result, in their order."""
    _check_type(requests, dict, path)
    return [
        _read_question(key, request, f"{path}[{excerpt(key)}]", revision)
        for key, request in requests.items()
    ]


def _read_question(key: str, request: Any, path: str, revision: Revision) -> Ask:
    _check_type(request, dict, path)
    method, params = request.get("method"), request.get("params")
    _check_type(method, str, f"{path}.method")
    spec = available(method, revision, "server")
    if spec is None or spec.kind is not Kind.INPUT:
        raise InvalidMessage(
            f"{path}.method",
            expected="elicitation/create, sampling/createMessage or roots/list",
            got=excerpt(method),
        )
    # Only a question without params of its own may leave them out.
    if params is not None or spec.params is not None:
        _check_type(params, dict, f"{path}.params")
    return Ask(key, method, params)


# Pages...


class CursorGoneError(LocalProtocolError):
    """A cursor is of a session that is gone: thrown in where its page was asked for."""


def next_cursor(method: str, result: Mapping[str, Any]) -> str | None:
    """Return the cursor of the page after this one, or ``None`` after the last."""
    cursor: str | None = result.get("nextCursor")
    # 2026-07-28 server/utilities/pagination, "Implementation Guidelines": an empty
    # string is a cursor; only a missing one ends the list. Some servers write null.
    if cursor is not None:
        spec = find(method)
        name = (spec and spec.result) or "PaginatedResult"
        _check_type(cursor, str, f"{name}.nextCursor")
    return cursor


class PageWalk:
    """A walk through one list, guarded against servers that never end it."""

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        limit: int = DEFAULT_LIMITS.pages,
    ) -> None:
        self._base = params
        self.params: dict[str, Any] | None = dict(params)
        self.at_start = True
        self._method = method
        self._limit = limit
        self._seen = {params.get("cursor")}

    def receive(self, result: Mapping[str, Any]) -> None:
        """Move on: this is the page that `params` asked for."""
        cursor = next_cursor(self._method, result)
        self.at_start = False
        if cursor is None:
            self.params = None
            return
        if cursor in self._seen:
            raise RemoteProtocolError(
                f"{self._method}: the cursor {excerpt(cursor)} came twice",
                hint="the server's list would never end",
            )
        if len(self._seen) >= self._limit:  # one for each page
            raise RemoteProtocolError(
                f"{self._method}: the list has more than {self._limit} pages",
                hint="raise Limits.pages if it is really that long",
            )
        self._seen.add(cursor)
        self.params = {**self._base, "cursor": cursor}


def pages(
    method: str, params: Mapping[str, Any], *, limit: int = DEFAULT_LIMITS.pages
) -> Steps[list[dict[str, Any]]]:
    """Fetch all pages of a list and return their raw results in order.

    The list begins anew once where the server refuses a cursor that it gave, or where
    the session is gone, which no cursor outlives (2025-11-25 pagination).
    """
    walk = PageWalk(method, params, limit=limit)
    found: list[dict[str, Any]] = []
    restarted = False
    while walk.params is not None:
        try:
            result = yield Call(method, walk.params)
        except (InvalidParams, CursorGoneError):
            if restarted or walk.at_start:
                raise
            walk = PageWalk(method, params, limit=limit)
            found.clear()
            restarted = True
            continue
        walk.receive(result)
        found.append(result)
    return found
