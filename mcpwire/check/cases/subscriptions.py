"""`subscriptions/listen` of 2026-07-28."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import MODERN, Family, NoAnswer, Start
from mcpwire.check.cases._exchange import Error, Request, add_exchange_case
from mcpwire.check.cases._subscriptions import (
    ACKNOWLEDGED,
    ALL_LIST_CHANGES,
    EVENT_TIMEOUT_S,
    call_change_tool,
    open_subscription,
    subscription_id_of,
)
from mcpwire.check.roles import call_params

if TYPE_CHECKING:
    from mcpwire.check.cases._subscriptions import Subscription
    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("subscriptions")

case = FAMILY.with_defaults(revisions=MODERN)
changing = case.with_defaults(needs=("role:change",))


@case.with_defaults(start=Start.LAST).must(
    "SUB-12.a",
    "the result that ends a subscription has its id, of the same JSON type",
    source="basic/patterns/subscriptions#graceful-closure",
    rules=("SUB-11",),
    sends="nothing; checks all messages of the connection",
    expects="io.modelcontextprotocol/subscriptionId in each result of "
    "subscriptions/listen",
    why="the client cannot tell which subscription has ended",
)
async def end_has_its_id(subject: Subject) -> None:
    for message in subject.received:
        is_end = subject.method_of(message) == "subscriptions/listen"
        if is_end and "result" in message.value:
            ids = [subscription_id_of(message), message.value["id"]]
            expected = f"subscriptionId {ids[1]!r}"
            fits = type(ids[0]) is type(ids[1]) and ids[0] == ids[1]
            subject.expect(fits, expected, message.raw)
    subject.need_expectation("result that ends a subscription")


def _is_change(method: str | None) -> bool:
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
    async with open_subscription(subject, ALL_LIST_CHANGES) as subscription:
        is_first = subscription.first.method == ACKNOWLEDGED
        subject.expect(is_first, ACKNOWLEDGED, subscription.first.raw)


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
        async with open_subscription(subject, ALL_LIST_CHANGES, id=id) as subscription:
            fits = subscription.contains(subscription.first)
            subject.expect(fits, f"subscriptionId {id!r}", subscription.first.raw)


@changing.must(
    "SUB-06.b",
    "notifications of a subscription have its id",
    source="basic/patterns/subscriptions#receiving-notifications",
    rules=("META-13",),
    sends="a call to the `change` tool during a subscription",
    expects="subscriptionId in each notification of a change",
    why="the client cannot tell which subscription they belong to",
)
async def changes_have_its_id(subject: Subject) -> None:
    async with open_subscription(subject, ALL_LIST_CHANGES) as subscription:
        start = await _cause_changes(subject)
        for message in subject.received[start:]:
            if str(message.method).endswith("/list_changed"):
                fits = subscription.contains(message)
                subject.expect(fits, f"subscriptionId {subscription.id!r}", message.raw)


async def _cause_changes(subject: Subject) -> int:
    """Call the changing tool twice; return the length of `received` before the calls.

    The verdict is `absent` if no notification of the change arrives.
    """
    start = len(subject.received)
    await call_change_tool(subject)
    try:
        await subject.wait_for(
            lambda message: _is_change(message.method),
            "a change",
            timeout=EVENT_TIMEOUT_S,
            after=start,
        )
    except NoAnswer:
        subject.raise_absent("notification of a change")
    finally:
        await call_change_tool(subject)
    await subject.barrier()
    return start


@case.robust(
    "D18.a",
    "only requested notifications are acknowledged",
    rules=("SUB-04",),
    sends="subscriptions/listen for no notifications, and for changes to the list of "
    "tools",
    expects="an acknowledgement that lists no other notifications",
    why="the client gets notifications that it did not request",
)
async def only_requested(subject: Subject) -> None:
    for requested in ({}, {"toolsListChanged": True}):
        async with open_subscription(subject, requested) as subscription:
            extra = {k for k, v in subscription.granted.items() if v} - requested.keys()
            subject.expect(
                not extra, f"no more than {requested}", subscription.first.raw
            )


@case.robust(
    "D18.b",
    "unknown types of notifications are not acknowledged",
    rules=("SUB-04",),
    sends="subscriptions/listen with an unknown type of notification",
    expects="an acknowledgement that does not list it",
    why="the client waits for notifications that are never sent",
)
async def unknown_type(subject: Subject) -> None:
    async with open_subscription(subject, {"mcpwireChanged": True}) as subscription:
        is_left_out = "mcpwireChanged" not in subscription.granted
        subject.expect(is_left_out, "no mcpwireChanged", subscription.first.raw)


@case.robust(
    "D18.c",
    "the list changes that the server declares are acknowledged, and no others",
    rules=("SUB-04", "SUB-08"),
    sends="subscriptions/listen for all list changes",
    expects="the lists with listChanged in the acknowledgement, and no others",
    why="the client misses changes that the server declares",
)
async def declared_changes(subject: Subject) -> None:
    async with open_subscription(subject, ALL_LIST_CHANGES) as subscription:
        for word in ("tools", "prompts", "resources"):
            declares = subject.facts.declares(f"{word}.listChanged")
            grants = subscription.granted.get(f"{word}ListChanged") is True
            expected = f"{word}ListChanged {'acknowledged' if declares else 'left out'}"
            subject.expect(grants == declares, expected, subscription.first.raw)


@case.robust(
    "D18.d",
    "two subscriptions of one client are kept apart",
    rules=("SUB-09",),
    sends="subscriptions/listen twice, the first for tools, the second for prompts",
    expects="an acknowledgement for each, with its own id and filter",
    why="one part of the client gets notifications for another",
)
async def separate_subscriptions(subject: Subject) -> None:
    async with (
        open_subscription(subject, {"toolsListChanged": True}) as tools,
        open_subscription(subject, {"promptsListChanged": True}) as prompts,
    ):
        for subscription, other in (
            (tools, "promptsListChanged"),
            (prompts, "toolsListChanged"),
        ):
            is_own = subscription.contains(subscription.first)
            subject.expect(
                is_own, f"subscriptionId {subscription.id!r}", subscription.first.raw
            )
            is_separate = not subscription.granted.get(other)
            subject.expect(is_separate, f"no {other}", subscription.first.raw)


@changing.must(
    "SUB-02.a",
    "notifications that a client did not request are not sent",
    source="basic/patterns/subscriptions#opening-a-stream",
    sends="a change, during subscriptions for all lists and for nothing",
    expects="notifications for the first, and none for the second",
    why="clients get notifications that they cannot use",
)
async def only_requested_changes(subject: Subject) -> None:
    async with (
        open_subscription(subject, {}) as none,
        open_subscription(subject, ALL_LIST_CHANGES) as all_,
    ):
        await _cause_changes(subject)
        if not _changes_on(all_):
            subject.raise_absent("notification of a change with the subscription id")
        subject.expect_none(_changes_on(none), "none for the empty subscription")


def _changes_on(subscription: Subscription) -> list[Message]:
    """Return the notifications of a subscription, found by its id or its stream."""
    on_stream = [
        each
        for each in subscription.subject.received[subscription.start :]
        if subscription.response is not None
        and each.stream == subscription.response.number
    ]
    return [e for e in (*subscription.messages, *on_stream) if _is_change(e.method)]


@case.robust(
    "D18.e",
    "resource updates are sent for the requested URIs only",
    rules=("SUB-02",),
    needs=("resources.subscribe", "resource:", "role:change"),
    sends="a change, during subscriptions for listed resources and for an unknown URI",
    expects="no update for the second",
    why="clients read resources again unnecessarily",
)
async def only_those_uris(subject: Subject) -> None:
    uris = [str(each.get("uri")) for each in subject.facts.resources[:20]]
    other = {"resourceSubscriptions": ["mcpwire-check://no-such/resource"]}
    async with (
        open_subscription(subject, other) as none,
        open_subscription(subject, {"resourceSubscriptions": uris}) as all_,
    ):
        await _cause_changes(subject)
        if not _changes_on(all_):
            subject.raise_absent("notification of a changed resource")
        subject.expect_none(_changes_on(none), "no update of other resources")


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
async def cancelled_subscription(subject: Subject) -> None:
    async with open_subscription(subject, ALL_LIST_CHANGES) as all_:
        async with open_subscription(subject, ALL_LIST_CHANGES) as cancelled:
            pass
        start = await _cause_changes(subject)
        if not _changes_on(all_):
            subject.raise_absent("notification of a change with the subscription id")
        late = [each for each in subject.received[start:] if cancelled.contains(each)]
        subject.expect_none(late, f"no notification for {cancelled.id!r}")


add_exchange_case(
    case.robust,
    "D18.f",
    "a subscription without a filter is refused",
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
    sends="a call to the `notify` tool, during a subscription",
    expects="no progress or log notification on the stream of the subscription",
    why="the client mistakes them for changes",
)
async def not_on_this_stream(subject: Subject) -> None:
    meta: dict[str, Any] = {
        "progressToken": "mcpwire-progress",
        "io.modelcontextprotocol/logLevel": "debug",
    }
    params = {**call_params(subject.need_tool("notify")), "_meta": meta}
    async with open_subscription(subject, ALL_LIST_CHANGES) as subscription:
        start = len(subject.received)
        await subject.request("tools/call", params)
        messages = [
            each
            for each in subject.received[start:]
            if each.method in {"notifications/progress", "notifications/message"}
        ]
        if not messages:
            subject.raise_absent("notification of the call")
        number = subscription.response.number if subscription.response else 0
        wrong = [each for each in messages if each.stream == number]
        subject.expect_none(wrong, "no notification of a call on the subscription")
