"""Notifications of changed lists and resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, Family, NoAnswer, Start, since
from mcpwire.check.cases._items import PROMPTS, RESOURCES, TOOLS, Listed, names_of
from mcpwire.check.cases._listening import WAIT_S, change, hearing

if TYPE_CHECKING:
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("list_changed")

UPDATED: Final = "notifications/resources/updated"
CHANGED: Final = "notifications/{}/list_changed"
_WATCHED: Final = 20  # maximum number per case

for _id, _listed in (("TOOL-05", TOOLS), ("RES-03", RESOURCES), ("PROMPT-03", PROMPTS)):

    async def told(subject: Subject, listed: Listed = _listed) -> None:
        method = CHANGED.format(listed.capability)
        before = await names_of(subject, listed)
        async with hearing(subject):
            mark = len(subject.received)
            await change(subject)
            try:
                if await names_of(subject, listed) == before:
                    subject.absent(f"tool that changes {listed.method}")
                await subject.wait_for(
                    lambda each: each.method == method, method, after=mark
                )
            except NoAnswer as found:
                subject.broken(found.expected, found.actual)
            finally:
                await change(subject)

    FAMILY.should(
        f"{_id}.a",
        f"clients are notified of a change of {_listed.method}",
        source=f"server/{_listed.capability}#list-changed-notification",
        rules=("SUB-15",),
        needs=(f"{_listed.capability}.listChanged", "role:change"),
        sends="a call of the `change` tool, while the client listens",
        expects=f"{CHANGED.format(_listed.capability)}, if the list changed",
        why="clients show an outdated list",
    )(told)


def _updates(subject: Subject, mark: int) -> list[Message]:
    return [each for each in subject.received[mark:] if each.method == UPDATED]


async def _quiet_change(subject: Subject, when: str) -> None:
    """Call the changing tool twice; check that no resource update arrives."""
    mark = len(subject.received)
    await change(subject)
    await change(subject)
    await subject.barrier()
    await subject.barrier()
    told = _updates(subject, mark)
    subject.expect_none(told, f"no resource update {when} a subscription")


@FAMILY.robust(
    "F06.d",
    "resource updates are sent only during a subscription",
    rules=("RES-13",),
    revisions=LEGACY,
    needs=("resources.subscribe", "resource:", "role:change"),
    sends="calls of the `change` tool before, during and after a subscription",
    expects="notifications/resources/updated during the subscription only",
    why="clients read resources again without need",
)
async def updates(subject: Subject) -> None:
    uris = [str(each.get("uri")) for each in subject.facts.resources[:_WATCHED]]
    async with hearing(subject):
        await _quiet_change(subject, "before")
        mark = len(subject.received)
        for uri in uris:
            await subject.request("resources/subscribe", {"uri": uri})
        try:
            await change(subject)
            await subject.wait_for(
                lambda each: each.method == UPDATED, UPDATED, timeout=WAIT_S, after=mark
            )
        except NoAnswer:
            subject.absent("tool that updates a resource")
        finally:
            for uri in uris:
                await subject.request("resources/unsubscribe", {"uri": uri})
            await change(subject)
        await _quiet_change(subject, "after")
        found = _updates(subject, mark)[0].params.get("uri")
        fits = any(str(found).startswith(uri) for uri in uris)
        subject.expect(fits, "the URI of the subscription, or one below it", found)


LISTS_CHANGED: Final = {
    CHANGED.format(word): f"{word}.listChanged"
    for word in ("tools", "prompts", "resources")
}


@FAMILY.must(
    "LIFE-11.d",
    "list_changed is sent only if listChanged is declared",
    source="basic/lifecycle#operation",
    revisions=since("2025-06-18", "2025-11-25"),
    start=Start.LAST,
    sends="nothing; checks all messages of the connection",
    expects="no list_changed of a list without the capability listChanged",
    why="the client has no handler for undeclared notifications",
)
async def declared(subject: Subject) -> None:
    for each in subject.received:
        if (capability := LISTS_CHANGED.get(str(each.method))) is not None:
            declares = subject.facts.declares(capability)
            subject.expect(declares, "no list_changed without listChanged", each.raw)
    subject.need_judged("list_changed notification")
