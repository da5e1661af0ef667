"""Helpers for cases of change notifications: streams, subscriptions, triggers.

A session receives all notifications: over stdio on stdout, over HTTP on a GET stream.
In 2026-07-28 a client receives the notifications that it subscribes to.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import NoAnswer
from mcpwire.check.cases._items import with_capabilities
from mcpwire.check.roles import call_params

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Message, Subject

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
EVENT_TIMEOUT_S: Final = 2.0  # seconds until an event without which a case is absent
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
_CHANGE_CAPABILITIES: Final = (
    *("tools.listChanged", "prompts.listChanged"),
    *("resources.listChanged", "resources.subscribe"),
)
ALL_LIST_CHANGES: Final = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
}


def subscription_id_of(message: Message) -> Any:
    """Return the subscription id of a notification or a result."""
    result = message.value.get("result") if message.is_answer else None
    meta = (result if isinstance(result, dict) else message.params).get("_meta")
    return meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None


@attrs.frozen
class Subscription:
    """One subscription by `subscriptions/listen` (2026-07-28)."""

    subject: Subject
    id: Any
    first: Message
    """The first message of the subscription: a notification, or an answer."""
    start: int
    """The number of messages received before the request."""
    response: Response | None = None

    @property
    def messages(self) -> list[Message]:
        """The notifications with this subscription id, of the same JSON type."""
        return [
            each
            for each in self.subject.received[self.start :]
            if each.method is not None and self.contains(each)
        ]

    @property
    def granted(self) -> dict[str, Any]:
        """The notifications that the server acknowledged."""
        notifications = self.first.params.get("notifications")
        return notifications if isinstance(notifications, dict) else {}

    def contains(self, message: Message) -> bool:
        """Return whether a notification belongs to this subscription."""
        id = subscription_id_of(message)
        return type(id) is type(self.id) and bool(id == self.id)

    async def cancel(self) -> None:
        """Cancel the subscription; over HTTP by closing its response."""
        if self.response is not None:
            await self.subject.need_http().close_exchange(self.response)
        else:
            params = {"requestId": self.id}
            await self.subject.notify("notifications/cancelled", params)
            await self.subject.barrier()


async def subscribe(
    subject: Subject,
    requested: Mapping[str, Any],
    *,
    id: Any = None,
    capabilities: Mapping[str, Any] | None = None,
) -> Subscription:
    """Subscribe, and wait for the first message of the subscription."""
    start = len(subject.received)
    id = subject.next_id() if id is None else id
    params = {"notifications": dict(requested)}
    message = subject.message(
        "subscriptions/listen", with_capabilities(capabilities or {}, params), id=id
    )
    response = await subject.send(message)

    def is_first(candidate: Message) -> bool:
        if candidate.is_answer:
            return bool(candidate.value.get("id") == id)
        is_acknowledgement = candidate.method == ACKNOWLEDGED
        return is_acknowledgement or subscription_id_of(candidate) == id

    first = await subject.wait_for(is_first, "an acknowledgement", after=start)
    return Subscription(subject, id, first, start, response)


@asynccontextmanager
async def open_subscription(
    subject: Subject,
    requested: Mapping[str, Any],
    *,
    id: Any = None,
    capabilities: Mapping[str, Any] | None = None,
) -> AsyncIterator[Subscription]:
    """Subscribe during a block; raise `Absent` if the server has no such method.

    A server that declares no changes may refuse with any error.
    """
    subscription = await subscribe(subject, requested, id=id, capabilities=capabilities)
    if subscription.first.is_answer:
        error = subscription.first.value.get("error")
        if isinstance(error, dict):
            has_changes = any(map(subject.facts.declares, _CHANGE_CAPABILITIES))
            if error.get("code") == -32601 or not (has_changes or capabilities):
                subject.raise_absent("subscriptions/listen")
        subject.raise_broken("an acknowledgement", subscription.first.raw)
    try:
        yield subscription
    finally:
        await subscription.cancel()


@asynccontextmanager
async def open_change_stream(subject: Subject) -> AsyncIterator[None]:
    """Receive all change notifications during a block, or raise `Absent`."""
    if subject.is_modern:
        uris = [str(each.get("uri")) for each in subject.facts.resources[:8]]
        async with open_subscription(
            subject, {**ALL_LIST_CHANGES, "resourceSubscriptions": uris}
        ):
            yield
    elif subject.http is None:
        yield
    else:
        headers = {"Accept": "text/event-stream"}
        stream = await subject.exchange("GET", headers, complete=False)
        if not stream.is_stream:
            subject.raise_absent("GET stream for notifications of the server")
        try:
            yield
        finally:
            await subject.http.close_exchange(stream)


async def call_change_tool(subject: Subject) -> None:
    """Call the tool for `change`; raise `Absent` if the call fails."""
    try:
        params = call_params(subject.need_tool("change"))
        answer = await subject.request("tools/call", params)
    except NoAnswer:
        subject.raise_absent("`change` tool that answers")
    if answer.result is None:
        subject.raise_absent("`change` tool that succeeds")
