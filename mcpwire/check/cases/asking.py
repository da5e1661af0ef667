"""Requests of a server to its client in the session revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, Family, Start, since
from mcpwire.check.cases._asking import ALL, QUESTIONS, answering, asking_calls

if TYPE_CHECKING:
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("asking")

CALLS: Final = "calls of tools that send requests"
_TOOLS: Final = 4  # maximum number per case

case = FAMILY.where(
    revisions=LEGACY,
    needs=("role:ask",),
    start=Start.OWN,
    is_quick=False,
    capabilities=ALL,
)


async def _ask(subject: Subject) -> list[Message]:
    """Call tools that send requests to the client; return these requests."""
    mark = len(subject.received)
    for params in asking_calls(subject)[:_TOOLS]:
        await subject.request("tools/call", params)
    return [
        each
        for each in subject.received[mark:]
        if each.method in QUESTIONS and "id" in each.value
    ]


async def _undeclared(subject: Subject) -> None:
    asked = await _ask(subject)
    subject.expect_none(asked, "no request for sampling, elicitation or roots")
    able = await subject.another(capabilities=ALL)
    answering(able)
    if not await _ask(able):
        subject.absent("tool that sends requests to a client with all capabilities")


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
        sends=f"{CALLS}, from a client without capabilities",
        expects="an answer, and no request for sampling, elicitation or roots",
        why="the client cannot answer, and the call fails or hangs",
    )(_undeclared)


async def _asked_for(subject: Subject, method: str) -> list[Message]:
    answering(subject)
    return [each for each in await _ask(subject) if each.method == method]


@case.must(
    "ELIC-02.a",
    "a client with elicitation.form only gets no elicitation by URL",
    source="client/elicitation#capabilities",
    revisions=("2025-11-25",),
    capabilities={"elicitation": {"form": {}}},
    sends=f"{CALLS}, from a client that declares elicitation.form",
    expects="no elicitation of the mode url",
    why="the client cannot open the URL, and the call fails",
)
async def only_forms(subject: Subject) -> None:
    for each in await _asked_for(subject, "elicitation/create"):
        mode = each.params.get("mode", "form")
        subject.expect(mode == "form", "the mode form", each.raw)
    subject.need_judged("elicitation")


@case.must(
    "ELIC-02.b",
    "a client with elicitation.url only gets no elicitation by form",
    source="client/elicitation#capabilities",
    revisions=("2025-11-25",),
    capabilities={"elicitation": {"url": {}}},
    sends=f"{CALLS}, from a client that declares elicitation.url only, then all",
    expects="no elicitation of the mode form for the first",
    why="the client cannot show the form, and the call fails",
)
async def no_form(subject: Subject) -> None:
    for each in await _asked_for(subject, "elicitation/create"):
        subject.expect(each.params.get("mode") == "url", "the mode url", each.raw)
    if not subject.judged:
        able = await subject.another(capabilities=ALL)
        found = await _asked_for(able, "elicitation/create")
        if all(each.params.get("mode") == "url" for each in found):
            subject.absent("elicitation by form")


@case.must(
    "SAMP-02.a",
    "a client without sampling.tools gets no tools in sampling requests",
    source="client/sampling#tools-in-sampling",
    revisions=("2025-11-25",),
    capabilities={"sampling": {}},
    sends=f"{CALLS}, from a client that declares sampling",
    expects="neither tools nor toolChoice in the requests",
    why="the client must refuse the request",
)
async def no_tools(subject: Subject) -> None:
    for each in await _asked_for(subject, "sampling/createMessage"):
        has_any = {"tools", "toolChoice"} & each.params.keys()
        subject.expect(not has_any, "neither tools nor toolChoice", each.raw)
    subject.need_judged("sampling request")


@case.robust(
    "C07.a",
    "a call has a result after its requests are answered",
    sends=f"{CALLS}, and valid answers to the requests",
    expects="requests, and a result of each call",
    why="the tool cannot be used",
)
async def answered(subject: Subject) -> None:
    answering(subject)
    if not await _ask(subject):
        subject.absent("request to the client")
    failed = [e for e in subject.received if e.is_answer and "error" in e.value]
    subject.expect_none(failed, "a result")


for _letter, _action in (("a", "decline"), ("b", "cancel")):

    async def declined(subject: Subject, action: str = _action) -> None:
        answering(subject, action)
        if not any(e.method == "elicitation/create" for e in await _ask(subject)):
            subject.absent("elicitation")

    case.must(
        f"ELIC-09.{_letter}",
        f"a call is answered if the user's answer is {_action}",
        source="client/elicitation#error-handling",
        revisions=since("2025-06-18", "2025-11-25"),
        sends=f"{CALLS}, and {_action} for each elicitation",
        expects="an answer to the call",
        why="the call hangs if the user does not want to answer",
    )(declined)


@case.robust(
    "C07.b",
    "a call is answered if the client answers its requests with an error",
    sends=f"{CALLS}, and the error -32601 for each request",
    expects="an answer to the call",
    why="the call hangs if the client cannot answer",
)
async def refused(subject: Subject) -> None:
    if not await _ask(subject):
        subject.absent("request to the client")
