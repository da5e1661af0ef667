"""Helpers for cases of change notifications: streams, subscriptions, triggers.

A session receives all notifications: over stdio on stdout, over HTTP on a GET stream.
In 2026-07-28 a client receives the notifications that it subscribes to.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import NoAnswer
from mcpwire.check.cases._items import declaring
from mcpwire.check.roles import call_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Message, Subject

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
WAIT_S: Final = 2.0  # seconds until an event without which a case is absent
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_CHANGES: Final = (
    *("tools.listChanged", "prompts.listChanged"),
    *("resources.listChanged", "resources.subscribe"),
)
EVERYTHING: Final = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
}


def subscription_of(message: Message) -> Any:
    """Return the subscription id of a notification."""
    meta = message.params.get("_meta")
    return meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None


@attrs.frozen
class Listening:
    """One subscription by `subscriptions/listen` (2026-07-28)."""

    subject: Subject
    id: Any
    first: Message
    """The first message of the subscription: a notification, or an answer."""
    begins: int
    """The number of messages received before the request."""
    response: Response | None = None

    @property
    def messages(self) -> list[Message]:
        """The notifications with this subscription id, of the same JSON type."""
        return [
            each
            for each in self.subject.received[self.begins :]
            if each.method is not None and self.is_of(each)
        ]

    @property
    def granted(self) -> dict[str, Any]:
        """The notifications that the server acknowledged."""
        found = self.first.params.get("notifications")
        return found if isinstance(found, dict) else {}

    def is_of(self, message: Message) -> bool:
        """Return whether a notification belongs to this subscription."""
        found = subscription_of(message)
        return type(found) is type(self.id) and bool(found == self.id)

    async def end(self) -> None:
        """Cancel the subscription; over HTTP by closing its response."""
        if self.response is not None:
            await self.subject.need_http().abandon(self.response)
        else:
            params = {"requestId": self.id}
            await self.subject.notify("notifications/cancelled", params)
            await self.subject.barrier()


async def listen(
    subject: Subject,
    wanted: Mapping[str, Any],
    *,
    id: Any = None,
    capabilities: Mapping[str, Any] | None = None,
) -> Listening:
    """Subscribe, and wait for the first message of the subscription."""
    begins = len(subject.received)
    id = subject.next_id() if id is None else id
    params = {"notifications": dict(wanted)}
    message = subject.message(
        "subscriptions/listen", declaring(capabilities or {}, params), id=id
    )
    response = await subject.send(message)

    def is_first(each: Message) -> bool:
        if each.is_answer:
            return bool(each.value.get("id") == id)
        is_acknowledgement = each.method == ACKNOWLEDGED
        return is_acknowledgement or subscription_of(each) == id

    first = await subject.wait_for(is_first, "an acknowledgement", after=begins)
    return Listening(subject, id, first, begins, response)


@asynccontextmanager
async def listening(
    subject: Subject,
    wanted: Mapping[str, Any],
    *,
    id: Any = None,
    capabilities: Mapping[str, Any] | None = None,
) -> AsyncIterator[Listening]:
    """Subscribe during a block; raise `Absent` if the server has no such method.

    A server that declares no changes may refuse with any error.
    """
    found = await listen(subject, wanted, id=id, capabilities=capabilities)
    if found.first.is_answer:
        error = found.first.value.get("error")
        if isinstance(error, dict):
            has_changes = any(map(subject.facts.declares, _CHANGES))
            if error.get("code") == -32601 or not (has_changes or capabilities):
                subject.absent("subscriptions/listen")
        subject.broken("an acknowledgement", found.first.raw)
    try:
        yield found
    finally:
        await found.end()


@asynccontextmanager
async def hearing(subject: Subject) -> AsyncIterator[None]:
    """Receive all change notifications during a block, or raise `Absent`."""
    if subject.is_modern:
        uris = [str(each.get("uri")) for each in subject.facts.resources[:8]]
        async with listening(subject, {**EVERYTHING, "resourceSubscriptions": uris}):
            yield
    elif subject.http is None:
        yield
    else:
        headers = {"Accept": "text/event-stream"}
        stream = await subject.exchange("GET", headers, complete=False)
        if not stream.is_stream:
            subject.absent("GET stream for notifications of the server")
        try:
            yield
        finally:
            await subject.http.abandon(stream)


async def change(subject: Subject) -> None:
    """Call the tool for `change`; raise `Absent` if the call fails."""
    try:
        params = call_of(subject.need_tool("change"))
        answer = await subject.request("tools/call", params)
    except NoAnswer:
        subject.absent("`change` tool that answers")
    if answer.result is None:
        subject.absent("`change` tool that succeeds")
