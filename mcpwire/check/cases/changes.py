"""Notifications of changed lists and resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, Family, NoAnswer, Start, since
from mcpwire.check.cases._items import PROMPTS, RESOURCES, TOOLS, ListKind, fetch_names
from mcpwire.check.cases._subscriptions import (
    EVENT_TIMEOUT_S,
    call_change_tool,
    open_change_stream,
)

if TYPE_CHECKING:
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("list_changed")

UPDATED: Final = "notifications/resources/updated"
CHANGED: Final = "notifications/{}/list_changed"
_MAX_URIS: Final = 20  # maximum number per case

for _id, _kind in (("TOOL-05", TOOLS), ("RES-03", RESOURCES), ("PROMPT-03", PROMPTS)):

    async def change_is_notified(subject: Subject, kind: ListKind = _kind) -> None:
        method = CHANGED.format(kind.capability)
        before = await fetch_names(subject, kind)
        async with open_change_stream(subject):
            start = len(subject.received)
            await call_change_tool(subject)
            try:
                if await fetch_names(subject, kind) == before:
                    subject.raise_absent(f"tool that changes {kind.method}")
                await subject.wait_for(
                    lambda message: message.method == method, method, after=start
                )
            except NoAnswer as error:
                subject.raise_broken(error.expected, error.actual)
            finally:
                await call_change_tool(subject)

    FAMILY.should(
        f"{_id}.a",
        f"clients are notified of a change of {_kind.method}",
        source=f"server/{_kind.capability}#list-changed-notification",
        rules=("SUB-15",),
        needs=(f"{_kind.capability}.listChanged", "role:change"),
        sends="a call to the `change` tool, while the client listens",
        expects=f"{CHANGED.format(_kind.capability)}, if the list changed",
        why="clients show an outdated list",
    )(change_is_notified)


def _updates(subject: Subject, start: int) -> list[Message]:
    return [each for each in subject.received[start:] if each.method == UPDATED]


async def _expect_no_updates(subject: Subject, when: str) -> None:
    """Call the changing tool twice; check that no resource update arrives."""
    start = len(subject.received)
    await call_change_tool(subject)
    await call_change_tool(subject)
    await subject.barrier()
    await subject.barrier()
    notifications = _updates(subject, start)
    subject.expect_none(notifications, f"no resource update {when} a subscription")


@FAMILY.robust(
    "F06.d",
    "resource updates are sent only during a subscription",
    rules=("RES-13",),
    revisions=LEGACY,
    needs=("resources.subscribe", "resource:", "role:change"),
    sends="calls to the `change` tool before, during and after a subscription",
    expects="notifications/resources/updated during the subscription only",
    why="clients read resources again unnecessarily",
)
async def updates_while_subscribed(subject: Subject) -> None:
    uris = [str(each.get("uri")) for each in subject.facts.resources[:_MAX_URIS]]
    async with open_change_stream(subject):
        await _expect_no_updates(subject, "before")
        start = len(subject.received)
        for uri in uris:
            await subject.request("resources/subscribe", {"uri": uri})
        try:
            await call_change_tool(subject)
            await subject.wait_for(
                lambda each: each.method == UPDATED,
                UPDATED,
                timeout=EVENT_TIMEOUT_S,
                after=start,
            )
        except NoAnswer:
            subject.raise_absent("tool that updates a resource")
        finally:
            for uri in uris:
                await subject.request("resources/unsubscribe", {"uri": uri})
            await call_change_tool(subject)
        await _expect_no_updates(subject, "after")
        updated_uri = _updates(subject, start)[0].params.get("uri")
        fits = any(str(updated_uri).startswith(uri) for uri in uris)
        subject.expect(
            fits, "the URI of the subscription, or one below it", updated_uri
        )


CHANGE_CAPABILITIES: Final = {
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
    expects="no list_changed notification for a list without the capability "
    "listChanged",
    why="the client has no handler for undeclared notifications",
)
async def list_changed_is_declared(subject: Subject) -> None:
    for message in subject.received:
        if (capability := CHANGE_CAPABILITIES.get(str(message.method))) is not None:
            declares = subject.facts.declares(capability)
            subject.expect(declares, "no list_changed without listChanged", message.raw)
    subject.need_expectation("list_changed notification")
