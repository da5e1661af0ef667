"""What the cases of changes share: hearing what a server tells by itself.

A session hears of everything: over stdio on its one stream, over HTTP on a GET. At
2026-07-28 a client hears what it listens for.
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

__all__ = [
    "ACKNOWLEDGED",
    "EVERYTHING",
    "WAIT_S",
    "Listening",
    "change",
    "hearing",
    "listening",
    "subscription_of",
]

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
WAIT_S: Final = 2.0  # seconds for an event that shows that there is something to judge
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
    """Return the id of the subscription that a notification is of."""
    meta = message.params.get("_meta")
    return meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None


@attrs.frozen
class Listening:
    """One subscription of 2026-07-28."""

    subject: Subject
    id: Any
    first: Message
    """The first message for it: a notification, or an answer."""
    begins: int
    """How many messages had come before."""
    response: Response | None = None

    @property
    def messages(self) -> list[Message]:
        """The notifications with its id, of the same JSON type."""
        return [
            each
            for each in self.subject.received[self.begins :]
            if each.method is not None and self.is_of(each)
        ]

    @property
    def granted(self) -> dict[str, Any]:
        """What the server agreed to tell."""
        found = self.first.params.get("notifications")
        return found if isinstance(found, dict) else {}

    def is_of(self, message: Message) -> bool:
        """Tell whether a notification is of this subscription."""
        found = subscription_of(message)
        return type(found) is type(self.id) and bool(found == self.id)

    async def end(self) -> None:
        """End it as a client does."""
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
    """Subscribe, and wait for the first message that comes for it."""
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
    """Subscribe for the time of a block; absent where the server has no such method.

    One that declares no changes may refuse it by any error.
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
    """Hear of all changes for the time of a block."""
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
            subject.absent("stream for what the server tells by itself")
        try:
            yield
        finally:
            await subject.http.abandon(stream)


async def change(subject: Subject) -> None:
    """Call the tool that changes what is listed."""
    try:
        params = call_of(subject.need_tool("change"))
        answer = await subject.request("tools/call", params)
    except NoAnswer:
        subject.absent("tool for the role 'change' that answers")
    if answer.result is None:
        subject.absent("tool for the role 'change' that succeeds")
