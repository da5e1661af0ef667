"""`subscriptions/listen` of 2026-07-28."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import MODERN, Family, NoAnswer
from mcpwire.check.cases._exchange import Error, Request, exchange
from mcpwire.check.cases._listening import (
    ACKNOWLEDGED,
    EVERYTHING,
    WAIT_S,
    change,
    listening,
)
from mcpwire.check.roles import call_of

if TYPE_CHECKING:
    from mcpwire.check.cases._listening import Listening
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("subscriptions")

case = FAMILY.where(revisions=MODERN)
changing = case.where(needs=("role:change",))


def _is_told(method: str | None) -> bool:
    return method is not None and method != ACKNOWLEDGED


@case.must(
    "SUB-03.a",
    "the first message of a subscription acknowledges it",
    source="basic/patterns/subscriptions#acknowledgment",
    sends="subscriptions/listen for all list changes",
    expects="notifications/subscriptions/acknowledged before anything else for it",
    why="the client does not know whether it is subscribed",
)
async def acknowledged(subject: Subject) -> None:
    async with listening(subject, EVERYTHING) as found:
        is_first = found.first.method == ACKNOWLEDGED
        subject.expect(is_first, ACKNOWLEDGED, found.first.raw)


@case.must(
    "SUB-06.a",
    "the acknowledgement has the id of its subscription, of the same JSON type",
    source="basic/patterns/subscriptions#acknowledgment",
    rules=("META-13",),
    sends="subscriptions/listen with a number and with a string as its id",
    expects="io.modelcontextprotocol/subscriptionId with exactly that id",
    why="the client cannot tell its subscriptions apart",
)
async def has_its_id(subject: Subject) -> None:
    for id in (subject.next_id(), f"mcpwire-{subject.next_id()}"):
        async with listening(subject, EVERYTHING, id=id) as found:
            fits = found.is_of(found.first)
            subject.expect(fits, f"subscriptionId {id!r}", found.first.raw)


@changing.must(
    "SUB-06.b",
    "notifications of a subscription have its id",
    source="basic/patterns/subscriptions#receiving-notifications",
    rules=("META-13",),
    sends="a call of the `change` tool during a subscription",
    expects="subscriptionId in each notification of a change",
    why="the client cannot tell which subscription they belong to",
)
async def told_with_its_id(subject: Subject) -> None:
    async with listening(subject, EVERYTHING) as found:
        mark = await _change_and_hear(subject)
        for each in subject.received[mark:]:
            if str(each.method).endswith("/list_changed"):
                fits = found.is_of(each)
                subject.expect(fits, f"subscriptionId {found.id!r}", each.raw)


async def _change_and_hear(subject: Subject) -> int:
    """Call the changing tool twice; return the length of `received` before the calls.

    The verdict is `absent` if no notification of the change arrives.
    """
    mark = len(subject.received)
    await change(subject)
    try:
        await subject.wait_for(
            lambda each: _is_told(each.method), "a change", timeout=WAIT_S, after=mark
        )
    except NoAnswer:
        subject.absent("notification of a change")
    finally:
        await change(subject)
    await subject.barrier()
    return mark


@case.robust(
    "D18.a",
    "only requested notifications are acknowledged",
    rules=("SUB-04",),
    sends="subscriptions/listen for nothing, and for changes of tools",
    expects="an acknowledgement without other notifications",
    why="the client gets notifications that it did not request",
)
async def granted_part(subject: Subject) -> None:
    for wanted in ({}, {"toolsListChanged": True}):
        async with listening(subject, wanted) as found:
            more = {k for k, v in found.granted.items() if v} - wanted.keys()
            subject.expect(not more, f"no more than {wanted}", found.first.raw)


@case.robust(
    "D18.b",
    "unknown types of notifications are not acknowledged",
    rules=("SUB-04",),
    sends="subscriptions/listen with an unknown type of notification",
    expects="an acknowledgement without it",
    why="the client waits for notifications that are never sent",
)
async def unknown_type(subject: Subject) -> None:
    async with listening(subject, {"mcpwireChanged": True}) as found:
        is_left_out = "mcpwireChanged" not in found.granted
        subject.expect(is_left_out, "no mcpwireChanged", found.first.raw)


@case.robust(
    "D18.c",
    "changes that the server declares are acknowledged",
    rules=("SUB-04", "SUB-08"),
    sends="subscriptions/listen for all list changes",
    expects="the lists with listChanged in the acknowledgement, and no others",
    why="the client misses changes that the server declares",
)
async def granted_as_declared(subject: Subject) -> None:
    async with listening(subject, EVERYTHING) as found:
        for word in ("tools", "prompts", "resources"):
            declares = subject.facts.declares(f"{word}.listChanged")
            grants = found.granted.get(f"{word}ListChanged") is True
            told = f"{word}ListChanged {'acknowledged' if declares else 'left out'}"
            subject.expect(grants == declares, told, found.first.raw)


@case.robust(
    "D18.d",
    "two subscriptions of one client are kept apart",
    rules=("SUB-09",),
    sends="subscriptions/listen twice, the first for tools, the second for prompts",
    expects="an acknowledgement for each, with its own id and filter",
    why="one part of the client gets notifications for another",
)
async def two_at_once(subject: Subject) -> None:
    async with (
        listening(subject, {"toolsListChanged": True}) as one,
        listening(subject, {"promptsListChanged": True}) as two,
    ):
        for found, other in ((one, "promptsListChanged"), (two, "toolsListChanged")):
            is_own = found.is_of(found.first)
            subject.expect(is_own, f"subscriptionId {found.id!r}", found.first.raw)
            is_apart = not found.granted.get(other)
            subject.expect(is_apart, f"no {other}", found.first.raw)


@changing.must(
    "SUB-02.a",
    "notifications that a client did not request are not sent",
    source="basic/patterns/subscriptions#opening-a-stream",
    sends="a change, during subscriptions for all lists and for nothing",
    expects="notifications for the first, and none for the second",
    why="clients get notifications that they cannot use",
)
async def only_what_was_asked(subject: Subject) -> None:
    async with listening(subject, {}) as none, listening(subject, EVERYTHING) as all_:
        await _change_and_hear(subject)
        if not _told_on(all_):
            subject.absent("notification of a change with the subscription id")
        subject.expect_none(_told_on(none), "none for the empty subscription")


def _told_on(found: Listening) -> list[Message]:
    """Return the notifications of a subscription, found by its id or its stream."""
    streams = [
        each
        for each in found.subject.received[found.begins :]
        if found.response is not None and each.stream == found.response.number
    ]
    return [e for e in (*found.messages, *streams) if _is_told(e.method)]


@case.robust(
    "D18.e",
    "resource updates are sent for the requested URIs only",
    rules=("SUB-02",),
    needs=("resources.subscribe", "resource:", "role:change"),
    sends="a change, during subscriptions for listed resources and for an unknown URI",
    expects="no update for the second",
    why="clients read resources again without need",
)
async def only_those_uris(subject: Subject) -> None:
    uris = [str(each.get("uri")) for each in subject.facts.resources[:20]]
    other = {"resourceSubscriptions": ["mcpwire-check://no-such/resource"]}
    async with (
        listening(subject, other) as none,
        listening(subject, {"resourceSubscriptions": uris}) as all_,
    ):
        await _change_and_hear(subject)
        if not _told_on(all_):
            subject.absent("notification of a changed resource")
        subject.expect_none(_told_on(none), "no update of other resources")


@changing.must(
    "TR-STDIO-11.l",
    "a cancelled subscription gets no more notifications",
    source="basic/transports/stdio#cancellation",
    rules=("SUB-10",),
    transports=("stdio",),
    sends="notifications/cancelled for one of two subscriptions, then a change",
    expects="no notification with the id of the cancelled one",
    why="clients get notifications for an ended subscription",
)
async def over_is_over(subject: Subject) -> None:
    async with listening(subject, EVERYTHING) as all_:
        async with listening(subject, EVERYTHING) as over:
            pass
        mark = await _change_and_hear(subject)
        if not _told_on(all_):
            subject.absent("notification of a change with the subscription id")
        late = [each for each in subject.received[mark:] if over.is_of(each)]
        subject.expect_none(late, f"no notification for {over.id!r}")


exchange(
    case.robust,
    "D18.f",
    "a subscription without a filter is answered with -32602",
    rules=("SUB-01",),
    needs=("tools.listChanged",),
    send=Request("subscriptions/listen", {}),
    expect=Error(-32602, -32600),
    why="the client waits for notifications that are never sent",
)


@case.must(
    "TR-HTTP-17.a",
    "progress and log messages of calls are not sent on a subscription",
    source="basic/transports/streamable-http#receiving-messages",
    rules=("LOG-03",),
    transports=("http",),
    needs=("role:notify",),
    sends="a call of the `notify` tool, during a subscription",
    expects="its notifications on the stream of the call",
    why="the client mistakes them for changes",
)
async def not_on_this_stream(subject: Subject) -> None:
    meta: dict[str, Any] = {
        "progressToken": "mcpwire-progress",
        "io.modelcontextprotocol/logLevel": "debug",
    }
    params = {**call_of(subject.need_tool("notify")), "_meta": meta}
    async with listening(subject, EVERYTHING) as found:
        mark = len(subject.received)
        await subject.request("tools/call", params)
        came = [
            each
            for each in subject.received[mark:]
            if each.method in {"notifications/progress", "notifications/message"}
        ]
        if not came:
            subject.absent("notification of the call")
        number = found.response.number if found.response else 0
        wrong = [each for each in came if each.stream == number]
        subject.expect_none(wrong, "no notification of a call on the subscription")
