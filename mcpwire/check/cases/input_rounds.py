"""Multi-round-trip calls: results that request client input (2026-07-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import MODERN, Family, Start
from mcpwire.check.cases._calls import (
    ALL_CAPABILITIES,
    INPUT_METHODS,
    calls_requesting_input,
    client_result,
)
from mcpwire.check.cases._items import quick_tools, results, with_capabilities
from mcpwire.check.roles import call_params
from mcpwire.check.schemas import load_schemas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("input_rounds")

MAX_ROUNDS: Final = 8
MULTI_ROUND_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
SENDS_CALL: Final = "a call that requests input, from a client with all capabilities"
_MISSING: Final = -32021

case = FAMILY.with_defaults(revisions=MODERN, needs=("role:ask",))


@attrs.frozen
class Round:
    """A call and the answer that requests input."""

    params: dict[str, Any]
    answer: Answer

    @property
    def requests(self) -> dict[str, Any]:
        """`inputRequests` of the answer."""
        requests = (self.answer.result or {}).get("inputRequests")
        return requests if isinstance(requests, dict) else {}

    @property
    def state(self) -> dict[str, Any]:
        """`requestState` of the answer as params of the next round; may be empty."""
        result = self.answer.result or {}
        return {k: result[k] for k in ("requestState",) if k in result}

    @property
    def responses(self) -> dict[str, Any]:
        """`inputResponses` for all input requests."""
        return {
            key: client_result(str(request.get("method")), _request_params(request))
            for key, request in self.requests.items()
            if isinstance(request, dict)
        }


def _request_params(request: Mapping[str, Any]) -> dict[str, Any]:
    params = request.get("params")
    return params if isinstance(params, dict) else {}


def _requests_input(answer: Answer) -> bool:
    return (answer.result or {}).get("resultType") == "input_required"


async def _call(
    subject: Subject,
    params: Mapping[str, Any],
    capabilities: Mapping[str, Any] = ALL_CAPABILITIES,
    **extra: Any,
) -> Answer:
    return await subject.request(
        "tools/call", with_capabilities(capabilities, {**params, **extra})
    )


async def _start_round(
    subject: Subject,
    capabilities: Mapping[str, Any] = ALL_CAPABILITIES,
    *,
    with_state: bool = False,
) -> Round:
    """Call tools until one requests input; return that round."""
    for params in calls_requesting_input(subject)[:4]:
        round_ = Round(params, await _call(subject, params, capabilities))
        if _requests_input(round_.answer) and (round_.state or not with_state):
            return round_
    return subject.raise_absent(
        "call with a requestState" if with_state else "call that requests input"
    )


@case.must(
    "MRTR-05.a",
    "a result that requests input has inputRequests or requestState",
    source="basic/patterns/mrtr#server-requirements-basic-workflow",
    sends=SENDS_CALL,
    expects="at least one of the two",
    why="the client does not know what to do",
)
async def has_requests_or_state(subject: Subject) -> None:
    round_ = await _start_round(subject)
    has_any = {"inputRequests", "requestState"} & (round_.answer.result or {}).keys()
    subject.expect(has_any, "inputRequests or requestState", round_.answer)


@case.must(
    "MRTR-03.a",
    "inputRequests are valid requests for elicitation, sampling or roots",
    source="basic/patterns/mrtr#server-requirements-basic-workflow",
    sends=SENDS_CALL,
    expects="valid ElicitRequest, CreateMessageRequest or ListRootsRequest values",
    why="the client cannot answer, and the call cannot continue",
)
async def valid_requests(subject: Subject) -> None:
    round_ = await _start_round(subject)
    schema = load_schemas()[subject.revision.name]
    if not round_.requests:
        subject.raise_absent("inputRequests")
    for request in round_.requests.values():
        method = request.get("method") if isinstance(request, dict) else None
        subject.expect(
            method in INPUT_METHODS, "one of the three methods", round_.answer
        )
        name = {"elicitation/create": "ElicitRequest", "roots/list": "ListRootsRequest"}
        problem = schema.problem(name.get(str(method), "CreateMessageRequest"), request)
        subject.expect(problem is None, f"a valid request: {problem}", round_.answer)


async def _check_declared(
    subject: Subject, capabilities: dict[str, Any], allowed: dict[str, str]
) -> None:
    """Check that tools request only `allowed` input (method -> mode, or "")."""
    for params in calls_requesting_input(subject)[:4]:
        round_ = Round(params, await _call(subject, params, capabilities))
        for request in round_.requests.values():
            method = str(request.get("method")) if isinstance(request, dict) else ""
            mode = (
                _request_params(request).get("mode", "form")
                if method[:4] == "elic"
                else ""
            )
            fits = allowed.get(method) == mode
            subject.expect(fits, f"only declared requests: {allowed}", round_.answer)


@case.must(
    "MRTR-06.a",
    "a client without capabilities gets no inputRequests",
    source="basic/patterns/mrtr#server-requirements-basic-workflow",
    rules=("META-09",),
    sends="a call that requests input, from a client without capabilities",
    expects="no inputRequests",
    why="the client cannot answer, and the call cannot continue",
)
async def nothing_declared(subject: Subject) -> None:
    await _start_round(subject)
    await _check_declared(subject, {}, allowed={})


@case.must(
    "MRTR-06.b",
    "inputRequests are limited to the capabilities that the request declares",
    source="basic/patterns/mrtr#server-requirements-basic-workflow",
    rules=("META-09", "META-14"),
    sends="calls that declare forms only, URLs only, sampling only and roots only",
    expects="inputRequests of that kind only",
    why="the client cannot answer, and the call cannot continue",
)
async def only_declared(subject: Subject) -> None:
    await _start_round(subject)  # declares all; the server must not remember that
    for capabilities, allowed in (
        ({"elicitation": {"form": {}}}, {"elicitation/create": "form"}),
        ({"elicitation": {"url": {}}}, {"elicitation/create": "url"}),
        ({"sampling": {}}, {"sampling/createMessage": ""}),
        ({"roots": {}}, {"roots/list": ""}),
    ):
        await _check_declared(subject, capabilities, allowed)


async def _collect_refusals(subject: Subject) -> list[Answer]:
    """Return answers to calls that need input, from a client without capabilities."""
    await _start_round(subject)
    refusals = []
    for params in calls_requesting_input(subject)[:4]:
        answer = await _call(subject, params)
        if _requests_input(answer):
            refusals.append(await _call(subject, params, {}))
    return refusals


@case.must(
    "META-10.a",
    "a call that needs an undeclared capability is answered with -32021, which names "
    "it",
    source="basic/index#meta",
    sends="a call that requests input, from a client without capabilities",
    expects="a result without isError, or an error -32021 with requiredCapabilities; "
    "lenient: a result with isError",
    why="the client cannot tell which capability is missing",
)
async def missing_capability(subject: Subject) -> None:
    for answer in await _collect_refusals(subject):
        if answer.error is None:
            if (answer.result or {}).get("isError") is True:
                subject.raise_lenient("an error -32021", answer)
            continue
        subject.expect_error(answer, _MISSING)
        data = answer.error.get("data")
        required = data.get("requiredCapabilities") if isinstance(data, dict) else None
        is_map = isinstance(required, dict) and bool(required)
        subject.expect(is_map, "data.requiredCapabilities", answer)


@case.must(
    "META-10.b",
    "over HTTP the error for a missing capability has the status 400",
    source="basic/index#meta",
    transports=("http",),
    sends="a call that requests input, from a client without capabilities",
    expects="the status 400 with the error -32021",
    why="intermediaries take the failure for a success",
)
async def missing_status(subject: Subject) -> None:
    for answer in await _collect_refusals(subject):
        if answer.code == _MISSING:
            subject.expect(answer.status == 400, "the status 400", answer)
    subject.need_expectation("error -32021")


@case.robust(
    "F16.a",
    "a call completes after all requested input is given",
    sends="a call that requests input, and its rounds with valid answers",
    expects="a complete result within 8 rounds",
    why="the tool cannot be used",
)
async def call_completes(subject: Subject) -> None:
    round_ = await _start_round(subject)
    for _ in range(MAX_ROUNDS):
        inputs = {"inputResponses": round_.responses} if round_.requests else {}
        answer = await _call(subject, round_.params, **inputs, **round_.state)
        if not _requests_input(answer):
            subject.expect(answer.result is not None, "a complete result", answer)
            return
        round_ = Round(round_.params, answer)
    subject.raise_broken(f"a complete result within {MAX_ROUNDS} rounds", round_.answer)


@case.should(
    "MRTR-19.a",
    "missing input is requested again",
    source="basic/patterns/mrtr#error-handling",
    sends="the second round of a call, with empty inputResponses",
    expects="a result that requests input again",
    why="a client that has only part of the input cannot continue",
)
async def missing_input(subject: Subject) -> None:
    round_ = await _start_round(subject)
    if not round_.requests:
        subject.raise_absent("inputRequests")
    answer = await _call(subject, round_.params, inputResponses={}, **round_.state)
    subject.expect(_requests_input(answer), "a result that requests input", answer)


@case.should(
    "MRTR-18.a",
    "unrequested input is ignored",
    source="basic/patterns/mrtr#error-handling",
    sends="the second round of a call, with all answers and an unrequested one",
    expects="no error",
    why="clients that answer more than once fail",
)
async def unrequested_input(subject: Subject) -> None:
    round_ = await _start_round(subject)
    responses = {**round_.responses, "mcpwire-none": {"action": "cancel"}}
    answer = await _call(
        subject, round_.params, inputResponses=responses, **round_.state
    )
    subject.expect(answer.error is None, "no error", answer)


@case.should(
    "MRTR-17.a",
    "malformed inputResponses are refused with an error",
    source="basic/patterns/mrtr#error-handling",
    sends="the second round of a call, with an array as its inputResponses",
    expects="an error",
    why="the tool runs without the input that it requested",
)
async def malformed_responses(subject: Subject) -> None:
    round_ = await _start_round(subject)
    answer = await _call(subject, round_.params, inputResponses=[1], **round_.state)
    subject.expect(answer.error is not None, "an error", answer)


@case.must(
    "MRTR-08.a",
    "a changed requestState is not accepted",
    source="basic/patterns/mrtr#server-requirements-basic-workflow",
    rules=("MRTR-07",),
    sends="the second round of a call, twice: with another string and with an altered "
    "requestState",
    expects="an error, a result with isError, or a request for input; lenient: another "
    "result",
    why="clients can tamper with the state of the server",
)
async def tampered_state(subject: Subject) -> None:
    round_ = await _start_round(subject, with_state=True)
    state = str(round_.state["requestState"])
    for changed in (
        "mcpwire",
        state[: len(state) // 2] + "AAAA" + state[len(state) // 2 :],
    ):
        answer = await _call(
            *(subject, round_.params),
            inputResponses=round_.responses,
            requestState=changed,
        )
        if not answer.has_failed and not _requests_input(answer):
            subject.raise_lenient("an error", answer)


@case.should(
    "MRTR-09.a",
    "a requestState is valid only for its own request",
    source="basic/patterns/mrtr#server-requirements-basic-workflow",
    sends="a call to one tool with the requestState from a call to another",
    expects="an error, or a result with isError; lenient: another result",
    why="consent to one request is used for another",
)
async def of_another_request(subject: Subject) -> None:
    round_ = await _start_round(subject, with_state=True)
    calls = [call_params(tool) for tool, _ in quick_tools(subject)]
    other_calls = [each for each in calls if each["name"] != round_.params["name"]]
    if not other_calls:
        subject.raise_absent("second tool that may be called")
    extra = {"inputResponses": round_.responses, **round_.state}
    answer = await _call(subject, other_calls[0], **extra)
    if not answer.has_failed:
        subject.raise_lenient("an error", answer)


@FAMILY.must(
    "MRTR-02.a",
    "only tools/call, prompts/get and resources/read request input",
    source="basic/patterns/mrtr#supported-requests",
    revisions=MODERN,
    start=Start.LAST,
    sends="nothing; checks all results of the connection",
    expects="resultType input_required for no other method",
    why="the client cannot continue the request",
)
async def only_three_methods(subject: Subject) -> None:
    for method, message, result in results(subject):
        if method not in MULTI_ROUND_METHODS:
            fits = result.get("resultType") != "input_required"
            subject.expect(fits, f"a complete result of {method}", message.raw)
    subject.need_expectation("result of another method")
