"""Client operations of several steps: input rounds of a call, pages of a list.

Each operation is a generator. It yields a step (`Call`, `HandleInput` or `Sleep`); the
shell performs the step and sends its outcome back, or throws its exception in::

    try:
        step = next(operation)
        while True:
            step = operation.send(await perform(step))
    except StopIteration as done:
        return done.value

In the stateless era `resultType` is the kind of a result. An ``input_required`` result
contains input requests for our handlers; the client then repeats the request with the
responses, until the result is final (2026-07-28 mrtr)::

    Call ──► input_required ──► HandleInput each ──► Call ──► ... ──► complete, or task
                   ▲                                   │
                   └─────────── a new round ◄──────────┘

Each round sends the responses to the latest input requests and the latest
`requestState`, the opaque state of the server.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from mcpwire.errors import (
    InvalidMessage,
    InvalidParams,
    LocalProtocolError,
    RemoteProtocolError,
    TooManyQuestions,
    excerpt,
)
from mcpwire.limits import DEFAULT_LIMITS, DEFAULT_RECOVERY
from mcpwire.protocol.methods import TASKS, Kind, available_method, find_method
from mcpwire.protocol.retry import full_jitter
from mcpwire.versions import LATEST, Era

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from mcpwire.limits import Recovery
    from mcpwire.protocol.methods import MethodSpec
    from mcpwire.versions import Revision

T = TypeVar("T")


@attrs.frozen
class Call:
    """Send a request; the outcome is its raw result object."""

    method: str
    params: dict[str, Any]


@attrs.frozen
class HandleInput:
    """Run our handler for an input request; the outcome is the raw response."""

    key: str  # the server's key of the input request, unique in its round
    method: str
    params: dict[str, Any] | None


@attrs.frozen
class Sleep:
    """Wait before the next step; the outcome is ``None``."""

    seconds: float


Step: TypeAlias = Call | HandleInput | Sleep

Steps: TypeAlias = Generator[Step, Any, T]
"""An operation that returns a `T`."""


def _check_type(value: Any, expected: type, path: str) -> None:
    if type(value) is not expected:
        name = "object" if expected is dict else expected.__name__
        raise InvalidMessage(path, expected=name, got=type(value).__name__)


# Input rounds

COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
TASK: Final = "task"


def result_kind(
    result: Mapping[str, Any], extensions: AbstractSet[str] = frozenset()
) -> str:
    """Return the kind of a raw result of the stateless era; default ``complete``."""
    kind = result.get("resultType")
    if kind is None:
        return COMPLETE
    _check_type(kind, str, "Result.resultType")
    allowed = [COMPLETE, INPUT_REQUIRED, *([TASK] if TASKS in extensions else [])]
    if kind not in allowed:
        hint = f"the extension {TASKS} is not on for this request"
        raise InvalidMessage(
            "Result.resultType",
            expected=" or ".join(map(repr, allowed)),
            got=excerpt(kind),
            hint=hint if kind == TASK else None,
        )
    return str(kind)


def is_task(result: Mapping[str, Any], revision: Revision) -> bool:
    """Return whether the result of `run_input_rounds` is a task, not a final result."""
    return revision.era is Era.STATELESS and result.get("resultType") == TASK


def run_input_rounds(
    method: str,
    params: Mapping[str, Any],
    result: dict[str, Any],
    *,
    revision: Revision = LATEST,
    extensions: AbstractSet[str] = frozenset(),
    max_rounds: int = DEFAULT_LIMITS.input_rounds,
    max_requests: int = DEFAULT_LIMITS.questions,
    recovery: Recovery = DEFAULT_RECOVERY,
) -> Steps[dict[str, Any]]:
    """Run the input rounds of a call after its first result; return the final one."""
    if revision.era is Era.SESSION:
        return result
    spec = available_method(method, revision, "client", extensions)
    # Responses and state belong to one round and are not sent in the next one.
    original = dict(params)
    original.pop("inputResponses", None)
    original.pop("requestState", None)
    rounds = empty_rounds = request_count = 0
    while (kind := result_kind(result, extensions)) == INPUT_REQUIRED:
        _check_round(method, spec, rounds, max_rounds)
        rounds += 1
        requests, reply_params = _read_round(result, revision)
        request_count += len(requests)
        if request_count > max_requests:
            raise TooManyQuestions(method, limit=max_requests)
        if requests:
            empty_rounds = 0
            answers = reply_params["inputResponses"] = {}
            for request in requests:
                answers[request.key] = yield request
        else:
            # A busy server may return only a state. The first retry is immediate (mrtr,
            # "Client Requirements"), further ones are delayed.
            empty_rounds += 1
            if empty_rounds > 1:
                yield Sleep(full_jitter(recovery, empty_rounds - 1, 1.0))
        result = yield Call(method, original | reply_params)
    if kind == TASK and not (spec and spec.task_capable):
        # The tasks extension, "Capability Negotiation": only tool calls become tasks.
        raise InvalidMessage(
            "Result.resultType", expected=repr(COMPLETE), got=f"{kind!r} for {method}"
        )
    return result


def _check_round(
    method: str, spec: MethodSpec | None, completed: int, limit: int
) -> None:
    if spec is None or not spec.may_need_input:
        raise RemoteProtocolError(
            f"{method}: the server requests input, which this method does not allow",
            hint="only tools/call, prompts/get and resources/read have such results",
        )
    if completed >= limit:
        raise RemoteProtocolError(
            f"{method}: the server still requests input after {limit} rounds",
            hint="raise Limits.input_rounds if the call needs more",
        )


def _read_round(
    result: Mapping[str, Any], revision: Revision
) -> tuple[list[HandleInput], dict[str, Any]]:
    """Return the validated input requests of a round, and the params to send back."""
    requests, state = result.get("inputRequests"), result.get("requestState")
    path = "InputRequiredResult"
    if requests is None and state is None:
        raise InvalidMessage(
            path, expected="inputRequests or requestState", got="neither"
        )
    inputs: list[HandleInput] = []
    if requests is not None:
        inputs = read_input_requests(requests, f"{path}.inputRequests", revision)
    if state is None:
        return inputs, {}
    _check_type(state, str, f"{path}.requestState")
    return inputs, {"requestState": state}


def read_input_requests(
    requests: Any, path: str, revision: Revision
) -> list[HandleInput]:
    """Validate the input requests at a path of a result; return them in order."""
    _check_type(requests, dict, path)
    return [
        _read_input_request(key, request, f"{path}[{excerpt(key)}]", revision)
        for key, request in requests.items()
    ]


def _read_input_request(
    key: str, request: Any, path: str, revision: Revision
) -> HandleInput:
    _check_type(request, dict, path)
    method, params = request.get("method"), request.get("params")
    _check_type(method, str, f"{path}.method")
    spec = available_method(method, revision, "server")
    if spec is None or spec.kind is not Kind.INPUT:
        raise InvalidMessage(
            f"{path}.method",
            expected="elicitation/create, sampling/createMessage or roots/list",
            got=excerpt(method),
        )
    # Params may only be absent if the method has none of its own.
    if params is not None or spec.params is not None:
        _check_type(params, dict, f"{path}.params")
    return HandleInput(key, method, params)


# Pages


class CursorGoneError(LocalProtocolError):
    """The session of a cursor has ended; the shell throws this into `fetch_pages`."""


def next_cursor(method: str, result: Mapping[str, Any]) -> str | None:
    """Return the cursor of the next page, or ``None`` after the last page."""
    cursor: str | None = result.get("nextCursor")
    # 2026-07-28 server/utilities/pagination, "Implementation Guidelines": an empty
    # string is a cursor; only absence ends the list. Some servers send null.
    if cursor is not None:
        spec = find_method(method)
        name = (spec and spec.result) or "PaginatedResult"
        _check_type(cursor, str, f"{name}.nextCursor")
    return cursor


class PageWalk:
    """The iteration over the pages of a list, protected against endless lists."""

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
        """Process the page for `params`; set `params` for the next one."""
        cursor = next_cursor(self._method, result)
        self.at_start = False
        if cursor is None:
            self.params = None
            return
        if cursor in self._seen:
            raise RemoteProtocolError(
                f"{self._method}: the cursor {excerpt(cursor)} is repeated",
                hint="the list would never end",
            )
        if len(self._seen) >= self._limit:  # one for each page
            raise RemoteProtocolError(
                f"{self._method}: the list has more than {self._limit} pages",
                hint="raise Limits.pages for longer lists",
            )
        self._seen.add(cursor)
        self.params = {**self._base, "cursor": cursor}


def fetch_pages(
    method: str, params: Mapping[str, Any], *, limit: int = DEFAULT_LIMITS.pages
) -> Steps[list[dict[str, Any]]]:
    """Fetch all pages of a list; return their raw results in order.

    If the server refuses its own cursor, or the session ends, which invalidates its
    cursors (2025-11-25 pagination), the list is fetched once more from the start.
    """
    walk = PageWalk(method, params, limit=limit)
    results: list[dict[str, Any]] = []
    restarted = False
    while walk.params is not None:
        try:
            result = yield Call(method, walk.params)
        except (InvalidParams, CursorGoneError):
            if restarted or walk.at_start:
                raise
            walk = PageWalk(method, params, limit=limit)
            results.clear()
            restarted = True
            continue
        walk.receive(result)
        results.append(result)
    return results
