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

__all__ = ["FAMILY"]

FAMILY: Final = Family("subscriptions")

case = FAMILY.where(revisions=MODERN)
changing = case.where(needs=("role:change",))


def _is_told(method: str | None) -> bool:
    return method is not None and method != ACKNOWLEDGED


@case.must(
    "SUB-03.a",
    "the first message of a subscription acknowledges it",
    source="basic/patterns/subscriptions#acknowledgment",
    sends="subscriptions/listen for all changes of lists",
    expects="notifications/subscriptions/acknowledged before anything else for it",
    why="the client does not know whether it is heard",
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
    sends="subscriptions/listen with a number and with a text as its id",
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
    "what is told on a subscription has its id",
    source="basic/patterns/subscriptions#receiving-notifications",
    rules=("META-13",),
    sends="a call of the tool for the role change, while the client listens",
    expects="subscriptionId in each notification of a change",
    why="the client cannot tell which subscription it is for",
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
        subject.absent("tool whose changes are told")
    finally:
        await change(subject)
    await subject.barrier()
    return mark


@case.robust(
    "D18.a",
    "what is granted is a part of what was asked for",
    rules=("SUB-04",),
    sends="subscriptions/listen for nothing, and for changes of tools",
    expects="an acknowledgement that names nothing else",
    why="the client waits for what does not come, or gets what it did not ask for",
)
async def granted_part(subject: Subject) -> None:
    for wanted in ({}, {"toolsListChanged": True}):
        async with listening(subject, wanted) as found:
            more = {k for k, v in found.granted.items() if v} - wanted.keys()
            subject.expect(not more, f"no more than {wanted}", found.first.raw)


@case.robust(
    "D18.b",
    "what the server does not know is not granted",
    rules=("SUB-04",),
    sends="subscriptions/listen with a type of notification that there is not",
    expects="an acknowledgement without it",
    why="the client waits for what does not come",
)
async def unknown_type(subject: Subject) -> None:
    async with listening(subject, {"mcpwireChanged": True}) as found:
        is_left_out = "mcpwireChanged" not in found.granted
        subject.expect(is_left_out, "mcpwireChanged left out", found.first.raw)


@case.robust(
    "D18.c",
    "changes that the server declares are granted",
    rules=("SUB-04", "SUB-08"),
    sends="subscriptions/listen for all changes of lists",
    expects="the lists with listChanged in the acknowledgement, and no others",
    why="the client hears nothing of changes that were promised",
)
async def granted_as_declared(subject: Subject) -> None:
    async with listening(subject, EVERYTHING) as found:
        for word in ("tools", "prompts", "resources"):
            declares = subject.facts.declares(f"{word}.listChanged")
            grants = found.granted.get(f"{word}ListChanged") is True
            told = f"{word}ListChanged {'granted' if declares else 'left out'}"
            subject.expect(grants == declares, told, found.first.raw)


@case.robust(
    "D18.d",
    "two subscriptions of one client stay apart",
    rules=("SUB-09",),
    sends="subscriptions/listen twice, the first for tools, the second for prompts",
    expects="an acknowledgement for each, with its own id and its own part",
    why="one part of the client hears what is for another",
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
            subject.expect(is_apart, f"{other} left out", found.first.raw)


@changing.must(
    "SUB-02.a",
    "what a client did not ask for is not told",
    source="basic/patterns/subscriptions#opening-a-stream",
    sends="a change, while one subscription is for all lists and another for nothing",
    expects="notifications for the first, and none for the second",
    why="clients get what they have no use for",
)
async def only_what_was_asked(subject: Subject) -> None:
    async with listening(subject, {}) as none, listening(subject, EVERYTHING) as all_:
        await _change_and_hear(subject)
        if not _told_on(all_):
            subject.absent("change that is told with its id")
        subject.expect_none(_told_on(none), "nothing for the subscription to nothing")


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
    "updates of resources are told for the URIs that were asked for",
    rules=("SUB-02",),
    needs=("resources.subscribe", "resource:", "role:change"),
    sends="a change, while two subscriptions are for all resources and for another URI",
    expects="no update for the second",
    why="the client reads resources again that nobody looks at",
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
            subject.absent("change of a resource that is told")
        subject.expect_none(_told_on(none), "no update of other resources")


@changing.must(
    "TR-STDIO-11.l",
    "a subscription that was cancelled is told nothing more",
    source="basic/transports/stdio#cancellation",
    rules=("SUB-10",),
    transports=("stdio",),
    sends="notifications/cancelled for one of two subscriptions, then a change",
    expects="nothing with the id of the one that was cancelled",
    why="clients get messages for what is over",
)
async def over_is_over(subject: Subject) -> None:
    async with listening(subject, EVERYTHING) as all_:
        async with listening(subject, EVERYTHING) as over:
            pass
        mark = await _change_and_hear(subject)
        if not _told_on(all_):
            subject.absent("change that is told with its id")
        late = [each for each in subject.received[mark:] if over.is_of(each)]
        subject.expect_none(late, f"nothing for {over.id!r}")


exchange(
    case.robust,
    "D18.f",
    "a subscription without a filter is answered with -32602",
    rules=("SUB-01",),
    needs=("tools.listChanged",),
    send=Request("subscriptions/listen", {}),
    expect=Error(-32602, -32600),
    why="the client waits for what does not come",
)


@case.must(
    "TR-HTTP-17.a",
    "progress and log messages of calls do not come on a subscription",
    source="basic/transports/streamable-http#receiving-messages",
    rules=("LOG-03",),
    transports=("http",),
    needs=("role:notify",),
    sends="a call of the tool for the role notify, in a subscription",
    expects="its notifications on the stream of the call",
    why="the client takes them for changes",
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
        subject.expect_none(wrong, "nothing of a call on the subscription")
