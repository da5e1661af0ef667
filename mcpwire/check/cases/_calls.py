"""Calls of slow tools, and of tools that send notifications while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.roles import arguments_for, call_of
from mcpwire.protocol.json_schema import properties_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Answer, Message, Subject

BRIEF_S: Final = 0.02
"""Duration of a call that need not last, if the tool has an argument for it."""
_SECONDS: Final = ("second", "duration", "delay", "sleep", "wait", "time", "secs")
_MILLISECONDS: Final = ("milli", "ms")


def lasting(tool: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return params of a call with a duration, if the tool has an argument for it."""
    arguments = dict(arguments_for(tool) or {})
    schema = tool.get("inputSchema")
    for name, property_ in properties_of(schema or {}).items():
        kind = property_.get("type") if isinstance(property_, dict) else None
        lower = name.lower()
        if kind not in {"number", "integer"}:
            continue
        if any(word in lower for word in _MILLISECONDS):
            arguments[name] = round(seconds * 1000)
        elif any(word in lower for word in _SECONDS):
            arguments[name] = seconds if kind == "number" else max(1, round(seconds))
    return call_of(tool, arguments)


@attrs.frozen
class SlowCall:
    """A call in progress."""

    id: Any
    params: dict[str, Any]
    response: Response | None


async def start_slow(subject: Subject, seconds: float) -> SlowCall:
    """Start a call of the slow tool, and check that it is in progress.

    Raises:
        Absent: The server has no slow tool, or the call has ended already.
    """
    params = lasting(subject.need_tool("slow"), seconds)
    id = subject.next_id()
    response = await subject.send(subject.message("tools/call", params, id=id))
    await subject.barrier()
    if subject.answers_to(id):
        subject.absent("slow tool that still runs when the next request is answered")
    return SlowCall(id, params, response)


async def notified(
    subject: Subject, method: str, meta: Mapping[str, Any] | None = None
) -> tuple[Answer, list[Message]]:
    """Call the `notify` tool; return the answer, and notifications up to a barrier."""
    params = lasting(subject.need_tool("notify"), BRIEF_S)
    if meta is not None:
        params["_meta"] = meta
    before = len(subject.received)
    answer = await subject.request("tools/call", params, timeout=15.0)
    await subject.barrier()
    found = [each for each in subject.received[before:] if each.method == method]
    return answer, found


def expect_before(
    subject: Subject, answer: Answer, found: Iterable[Message], expected: str
) -> None:
    """Raise `Broken` if a notification was received after an answer."""
    at = position(subject, answer.message)
    for each in found:
        subject.expect(position(subject, each) < at, expected, each.raw)


def echo_params(subject: Subject, text: str) -> dict[str, Any]:
    """Return the params of a call of the echo tool."""
    tool = subject.need_tool("echo")
    return call_of(tool, arguments_for(tool, text))


def texts_of(message: Message) -> str:
    """Return the texts in the result of a call, one per line."""
    result = message.value.get("result")
    content = result.get("content") if isinstance(result, dict) else None
    parts = content if isinstance(content, list) else []
    return "\n".join(str(p.get("text", "")) for p in parts if isinstance(p, dict))


def position(subject: Subject, message: Message) -> int:
    """Return the index of a received message, compared by identity."""
    return next(i for i, each in enumerate(subject.received) if each is message)
