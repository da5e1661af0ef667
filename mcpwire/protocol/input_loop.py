"""Calls that end only after the server got what it asked for (2026-07-28 mrtr).

A result of the stateless era says what it is in `resultType`. One that is
``input_required`` asks our handlers for something and is followed by the same request
with the answers, until the server has what it needs::

    Call ──► input_required ──► Ask each ──► Call ──► ... ──► complete, or a task
                   ▲                           │
                   └───────── a new round ◄────┘

Each round stands for itself: it carries the answers to the latest questions and the
latest `requestState`, which is the server's own memory and never looked into. Plain
answers never come here: whoever calls compares one member first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidMessage, RemoteProtocolError, TooManyQuestions
from mcpwire.limits import DEFAULT_LIMITS, DEFAULT_RECOVERY
from mcpwire.protocol.methods import TASKS, Kind, available
from mcpwire.protocol.steps import Ask, Call, Sleep
from mcpwire.versions import LATEST, Era

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from mcpwire.limits import Recovery
    from mcpwire.protocol.methods import MethodSpec
    from mcpwire.protocol.steps import Steps
    from mcpwire.versions import Revision

__all__ = [
    "COMPLETE",
    "INPUT_REQUIRED",
    "TASK",
    "check_count",
    "input_rounds",
    "is_task",
    "read_questions",
    "result_kind",
]

COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
TASK: Final = "task"

_CORE_KINDS: Final = frozenset({COMPLETE, INPUT_REQUIRED})
_EXTENSION_KINDS: Final = {TASK: TASKS}
"""The result types that extensions add, each with its extension."""

_EXCERPT_CHARACTERS: Final = 40


def result_kind(
    result: Mapping[str, Any], extensions: AbstractSet[str] = frozenset()
) -> str:
    """Return what a result of the stateless era is; absent means ``complete``.

    Args:
        result: The raw result object.
        extensions: The ids of the extensions that are on for this request.

    Raises:
        InvalidMessage: Neither the core nor such an extension has that kind.
    """
    kind = result.get("resultType")
    if kind is None:
        return COMPLETE
    if type(kind) is not str:
        raise InvalidMessage(
            "Result.resultType", expected="str", got=type(kind).__name__
        )
    if kind in _CORE_KINDS or _EXTENSION_KINDS.get(kind) in extensions:
        return kind
    raise InvalidMessage(
        "Result.resultType",
        expected=" or ".join(sorted(map(repr, _known_kinds(extensions)))),
        got=_excerpt(kind),
        hint=_off_hint(kind),
    )


def _off_hint(kind: str) -> str | None:
    owner = _EXTENSION_KINDS.get(kind)
    return f"the extension {owner} is not on for this request" if owner else None


def _known_kinds(extensions: AbstractSet[str]) -> frozenset[str]:
    added = (kind for kind, owner in _EXTENSION_KINDS.items() if owner in extensions)
    return _CORE_KINDS.union(added)


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
    """Carry a call from its first result to the final one, which is returned.

    Args:
        method: The request.
        params: Its params as first sent; they are sent again in each round.
        result: The raw result of that first request.
        revision: The revision spoken; before the stateless era `resultType` is just an
            unknown member and every result is final.
        extensions: The ids of the extensions that are on for this request.
        limit: The most rounds.
        most: The most questions in all of them.
        recovery: How long to wait between rounds in which nothing is asked.

    Raises:
        InvalidMessage: A result or a question in it is malformed; nobody was asked.
        RemoteProtocolError: The method may not ask, or the rounds do not end.
        TooManyQuestions: It asks more; nobody was asked what is beyond.
    """
    if revision.era is Era.SESSION:
        return result
    spec = available(method, revision, "client", extensions)
    original = {k: v for k, v in params.items() if k not in _ROUND_MEMBERS}
    rounds = unasked = asked = 0
    while (kind := result_kind(result, extensions)) == INPUT_REQUIRED:
        _check_round(method, spec, rounds, limit)
        rounds += 1
        questions = _questions(result, revision)
        asked += len(questions)
        check_count(method, asked, most)
        answered = _state(result)
        if questions:
            unasked = 0
            answered["inputResponses"] = yield from _ask(questions)
        else:
            # A busy server may send us away with nothing but state. The first retry
            # goes at once (mrtr, "Client Requirements"); then it gets time.
            unasked += 1
            if unasked > 1:
                yield Sleep(_backoff(unasked - 2, recovery))
        result = yield Call(method, original | answered)
    if kind == TASK and not (spec and spec.task_capable):
        # The tasks extension, "Capability Negotiation": only a tool call becomes one.
        raise InvalidMessage(
            "Result.resultType", expected=repr(COMPLETE), got=f"{kind!r} for {method}"
        )
    return result


_ROUND_MEMBERS: Final = frozenset({"inputResponses", "requestState"})
"""What belongs to one round and is never carried into the next."""


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


def check_count(method: str, asked: int, most: int) -> None:
    """Refuse more questions than one call answers.

    Raises:
        TooManyQuestions: There are more.
    """
    if asked > most:
        raise TooManyQuestions(method, limit=most)


def _ask(questions: list[Ask]) -> Steps[dict[str, Any]]:
    answers = {}
    for question in questions:
        answers[question.key] = yield question
    return answers


def _backoff(attempt: int, recovery: Recovery) -> float:
    # Beyond 32 doublings any start has reached any sensible end.
    return min(recovery.backoff_initial * 2.0 ** min(attempt, 32), recovery.backoff_max)


def _state(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state to send back: the very string that came, or nothing."""
    state = result.get("requestState")
    if state is None:
        return {}
    if type(state) is not str:
        raise InvalidMessage(
            "InputRequiredResult.requestState",
            expected="str",
            got=type(state).__name__,
        )
    return {"requestState": state}


def _questions(result: Mapping[str, Any], revision: Revision) -> list[Ask]:
    """Return what the server asks for, all of it checked before anyone is asked."""
    requests = result.get("inputRequests")
    if requests is None:
        if result.get("requestState") is None:
            raise InvalidMessage(
                "InputRequiredResult",
                expected="inputRequests or requestState",
                got="neither",
            )
        return []
    return read_questions(requests, "InputRequiredResult.inputRequests", revision)


def read_questions(requests: Any, path: str, revision: Revision) -> list[Ask]:
    """Return the questions that stand at a path of a result, in their order.

    Raises:
        InvalidMessage: One of them is malformed.
    """
    if type(requests) is not dict:
        raise InvalidMessage(path, expected="object", got=type(requests).__name__)
    return [
        _question(key, request, f"{path}[{_excerpt(key)}]", revision)
        for key, request in requests.items()
    ]


def _question(key: str, request: Any, path: str, revision: Revision) -> Ask:
    if type(request) is not dict:
        raise InvalidMessage(path, expected="object", got=type(request).__name__)
    method, params = request.get("method"), request.get("params")
    if type(method) is not str:
        raise InvalidMessage(
            f"{path}.method", expected="str", got=type(method).__name__
        )
    spec = available(method, revision, "server")
    if spec is None or spec.kind is not Kind.INPUT:
        raise InvalidMessage(
            f"{path}.method",
            expected="elicitation/create, sampling/createMessage or roots/list",
            got=_excerpt(method),
        )
    # Only a question without params of its own may leave them out.
    if type(params) is not dict and (params is not None or spec.params is not None):
        raise InvalidMessage(
            f"{path}.params", expected="object", got=type(params).__name__
        )
    return Ask(key, method, params)


def _excerpt(text: str) -> str:
    return repr(text[:_EXCERPT_CHARACTERS])
