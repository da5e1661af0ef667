"""Requests of a server to its client in the session revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, Family, Start, since
from mcpwire.check.cases._calls import (
    ALL_CAPABILITIES,
    INPUT_METHODS,
    calls_requesting_input,
    set_request_handlers,
)

if TYPE_CHECKING:
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("asking")

SENDS_CALLS: Final = "calls to tools that send requests to the client"
_MAX_TOOLS: Final = 4  # maximum number per case

case = FAMILY.with_defaults(
    revisions=LEGACY,
    needs=("role:ask",),
    start=Start.OWN,
    is_quick=False,
    capabilities=ALL_CAPABILITIES,
)


async def _collect_requests(subject: Subject) -> list[Message]:
    """Call tools that send requests to the client; return these requests."""
    start = len(subject.received)
    for params in calls_requesting_input(subject)[:_MAX_TOOLS]:
        await subject.request("tools/call", params)
    return [
        each
        for each in subject.received[start:]
        if each.method in INPUT_METHODS and "id" in each.value
    ]


async def _no_capabilities(subject: Subject) -> None:
    requests = await _collect_requests(subject)
    subject.expect_none(requests, "no request for sampling, elicitation or roots")
    capable = await subject.open_another(capabilities=ALL_CAPABILITIES)
    set_request_handlers(capable)
    if not await _collect_requests(capable):
        subject.raise_absent(
            "tool that sends requests to a client with all capabilities"
        )


for _id, _add, _revisions in (
    ("LIFE-11.b", FAMILY.must, since("2025-06-18", "2025-11-25")),
    ("LIFE-11.c", FAMILY.should, since("2024-11-05", "2025-03-26")),
):
    _add(
        _id,
        "a client without capabilities gets no requests",
        source="basic/lifecycle#operation",
        revisions=_revisions,
        needs=("role:ask",),
        sends=f"{SENDS_CALLS}, from a client without capabilities",
        expects="an answer, and no request for sampling, elicitation or roots",
        why="the client cannot answer, and the call fails or hangs",
    )(_no_capabilities)


async def _collect_requests_of(subject: Subject, method: str) -> list[Message]:
    set_request_handlers(subject)
    return [each for each in await _collect_requests(subject) if each.method == method]


@case.must(
    "ELIC-02.a",
    "a client that declares only elicitation.form gets no URL-mode elicitation",
    source="client/elicitation#capabilities",
    revisions=("2025-11-25",),
    capabilities={"elicitation": {"form": {}}},
    sends=f"{SENDS_CALLS}, from a client that declares only elicitation.form",
    expects="no elicitation in URL mode",
    why="the client cannot open the URL, and the call fails",
)
async def only_forms(subject: Subject) -> None:
    for request in await _collect_requests_of(subject, "elicitation/create"):
        mode = request.params.get("mode", "form")
        subject.expect(mode == "form", "the mode form", request.raw)
    subject.need_expectation("elicitation")


@case.must(
    "ELIC-02.b",
    "a client that declares only elicitation.url gets no form-mode elicitation",
    source="client/elicitation#capabilities",
    revisions=("2025-11-25",),
    capabilities={"elicitation": {"url": {}}},
    sends=f"{SENDS_CALLS}, from a client that declares only elicitation.url, then from "
    "one that declares all capabilities",
    expects="no form-mode elicitation for the first client",
    why="the client cannot show the form, and the call fails",
)
async def no_form(subject: Subject) -> None:
    for request in await _collect_requests_of(subject, "elicitation/create"):
        subject.expect(request.params.get("mode") == "url", "the mode url", request.raw)
    if not subject.expect_count:
        capable = await subject.open_another(capabilities=ALL_CAPABILITIES)
        requests = await _collect_requests_of(capable, "elicitation/create")
        if all(request.params.get("mode") == "url" for request in requests):
            subject.raise_absent("elicitation by form")


@case.must(
    "SAMP-02.a",
    "a client without sampling.tools gets no tools in sampling requests",
    source="client/sampling#tools-in-sampling",
    revisions=("2025-11-25",),
    capabilities={"sampling": {}},
    sends=f"{SENDS_CALLS}, from a client that declares sampling",
    expects="neither tools nor toolChoice in the requests",
    why="the client must refuse the request",
)
async def no_tools(subject: Subject) -> None:
    for request in await _collect_requests_of(subject, "sampling/createMessage"):
        has_any = {"tools", "toolChoice"} & request.params.keys()
        subject.expect(not has_any, "neither tools nor toolChoice", request.raw)
    subject.need_expectation("sampling request")


@case.robust(
    "C07.a",
    "a call returns a result after the client answers the server's requests",
    sends=f"{SENDS_CALLS}, and valid answers to the requests",
    expects="a result for each call",
    why="the tool cannot be used",
)
async def requests_answered(subject: Subject) -> None:
    set_request_handlers(subject)
    if not await _collect_requests(subject):
        subject.raise_absent("request to the client")
    failed = [e for e in subject.received if e.is_answer and "error" in e.value]
    subject.expect_none(failed, "a result")


for _letter, _action in (("a", "decline"), ("b", "cancel")):

    async def elicitation_declined(subject: Subject, action: str = _action) -> None:
        set_request_handlers(subject, action)
        if not any(
            e.method == "elicitation/create" for e in await _collect_requests(subject)
        ):
            subject.raise_absent("elicitation")

    case.must(
        f"ELIC-09.{_letter}",
        f"a call is answered if an elicitation is answered with {_action}",
        source="client/elicitation#error-handling",
        revisions=since("2025-06-18", "2025-11-25"),
        sends=f"{SENDS_CALLS}, and {_action} for each elicitation",
        expects="an answer to the call",
        why="the call hangs if the user does not want to answer",
    )(elicitation_declined)


@case.robust(
    "C07.b",
    "a call is answered if the client answers the server's requests with errors",
    sends=f"{SENDS_CALLS}, and the error -32601 for each request",
    expects="an answer to the call",
    why="the call hangs if the client cannot answer",
)
async def requests_refused(subject: Subject) -> None:
    if not await _collect_requests(subject):
        subject.raise_absent("request to the client")
