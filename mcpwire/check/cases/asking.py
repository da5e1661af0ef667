"""What a server asks of its client, in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, Case, Family, Level, Run, Start, since
from mcpwire.check.cases._asking import ALL, QUESTIONS, answering, asking_tools

if TYPE_CHECKING:
    from mcpwire.check.subject import Message, Subject

__all__ = ["FAMILY"]

FAMILY: Final = Family("asking")
case = FAMILY.case

CALLS: Final = "calls of the tools that ask"
_TOOLS: Final = 4  # tools that a case calls


async def _ask(subject: Subject) -> list[Message]:
    """Call the tools that ask, and return the requests of the server."""
    mark = len(subject.received)
    for tool, arguments in asking_tools(subject)[:_TOOLS]:
        await subject.request(
            "tools/call", {"name": tool["name"], "arguments": arguments}
        )
    return [
        each
        for each in subject.received[mark:]
        if each.method in QUESTIONS and "id" in each.value
    ]


async def _undeclared(subject: Subject) -> None:
    asked = await _ask(subject)
    subject.expect(not asked, "no question", asked[0].raw if asked else "")
    able = await subject.another(capabilities=ALL)
    answering(able)
    if not await _ask(able):
        subject.absent("tool that asks a client which declares everything")


for _id, _level, _revisions in (
    ("LIFE-11.b", Level.MUST, since("2025-06-18", "2025-11-25")),
    ("LIFE-11.c", Level.SHOULD, since("2024-11-05", "2025-03-26")),
):
    FAMILY.add(
        Case(
            id=_id,
            family=FAMILY.name,
            level=_level,
            title="a client that declares nothing is asked nothing",
            source="basic/lifecycle#operation",
            revisions=_revisions,
            needs=("role:ask",),
            sends=f"{CALLS}, from a client without capabilities",
            expects="an answer, and no request for sampling, elicitation or roots",
            why="the client cannot answer, and the call fails or waits for ever",
            run=_undeclared,
        )
    )


def _modes(wanted: str) -> Run:
    async def run(subject: Subject) -> None:
        answering(subject)
        asked = [e for e in await _ask(subject) if e.method == "elicitation/create"]
        if not asked:
            subject.absent("question to the user")
        for each in asked:
            mode = each.params.get("mode", "form")
            subject.expect(mode == wanted, f"the mode {wanted}", each.raw)

    return run


FAMILY.add(
    Case(
        id="ELIC-02.a",
        family=FAMILY.name,
        level=Level.MUST,
        title="a client that declares forms is asked by forms only",
        source="client/elicitation#capabilities",
        revisions=("2025-11-25",),
        needs=("role:ask",),
        start=Start.OWN,
        is_quick=False,
        capabilities={"elicitation": {"form": {}}},
        sends=f"{CALLS}, from a client that declares elicitation.form",
        expects="no question of the mode url",
        why="the client cannot open it, and the call fails",
        run=_modes("form"),
    )
)


@case(
    "ELIC-02.b",
    Level.MUST,
    "a client that declares URLs only is asked by no form",
    source="client/elicitation#capabilities",
    revisions=("2025-11-25",),
    needs=("role:ask",),
    start=Start.OWN,
    is_quick=False,
    capabilities={"elicitation": {"url": {}}},
    sends=f"{CALLS}, from a client that declares elicitation.url only",
    expects="no question of the mode form",
    why="the client cannot show it, and the call fails",
)
async def no_form(subject: Subject) -> None:
    answering(subject)
    asked = [
        each.raw
        for each in await _ask(subject)
        if each.method == "elicitation/create" and each.params.get("mode") != "url"
    ]
    subject.expect(not asked, "no form", b"".join(asked[:1]))


@case(
    "SAMP-02.a",
    Level.MUST,
    "a client without sampling.tools gets no tools with a question",
    source="client/sampling#tools-in-sampling",
    revisions=("2025-11-25",),
    needs=("role:ask",),
    start=Start.OWN,
    is_quick=False,
    capabilities={"sampling": {}},
    sends=f"{CALLS}, from a client that declares sampling",
    expects="neither tools nor toolChoice in its requests",
    why="the client must refuse the question",
)
async def no_tools(subject: Subject) -> None:
    answering(subject)
    asked = [e for e in await _ask(subject) if e.method == "sampling/createMessage"]
    if not asked:
        subject.absent("question to the model")
    for each in asked:
        has_any = {"tools", "toolChoice"} & each.params.keys()
        subject.expect(not has_any, "neither tools nor toolChoice", each.raw)


@case(
    "C07.a",
    Level.ROBUST,
    "a call has a result once its questions are answered",
    revisions=LEGACY,
    needs=("role:ask",),
    start=Start.OWN,
    is_quick=False,
    capabilities=ALL,
    sends=f"{CALLS}, and answers that fit what they ask",
    expects="questions, and a result of each call",
    why="the tool cannot be used",
)
async def answered(subject: Subject) -> None:
    answering(subject)
    if not await _ask(subject):
        subject.absent("question")
    failed = [e.raw for e in subject.received if e.is_answer and "error" in e.value]
    subject.expect(not failed, "a result", b"".join(failed[:1]))


def _declining(action: str) -> Run:
    async def run(subject: Subject) -> None:
        answering(subject, action)
        asked: list[Any] = await _ask(subject)
        if not any(each.method == "elicitation/create" for each in asked):
            subject.absent("question to the user")

    return run


for _letter, _action in (("a", "decline"), ("b", "cancel")):
    FAMILY.add(
        Case(
            id=f"ELIC-09.{_letter}",
            family=FAMILY.name,
            level=Level.MUST,
            title=f"a call goes on where the user's answer is {_action}",
            source="client/elicitation#error-handling",
            revisions=since("2025-06-18", "2025-11-25"),
            needs=("role:ask",),
            start=Start.OWN,
            is_quick=False,
            capabilities=ALL,
            sends=f"{CALLS}, and {_action} for each question to the user",
            expects="an answer of the call",
            why="the call waits for ever where the user does not want to answer",
            run=_declining(_action),
        )
    )


@case(
    "C07.b",
    Level.ROBUST,
    "a call goes on where the client answers a question with an error",
    revisions=LEGACY,
    needs=("role:ask",),
    start=Start.OWN,
    is_quick=False,
    capabilities=ALL,
    sends=f"{CALLS}, and the error -32601 for each question",
    expects="an answer of the call",
    why="the call waits for ever where the client cannot answer",
)
async def refused(subject: Subject) -> None:
    if not await _ask(subject):
        subject.absent("question")
