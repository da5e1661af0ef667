"""Calls of tools that are slow, or that send notifications or requests meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.roles import arguments_for, call_params, is_named_like
from mcpwire.protocol.json_schema import properties_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.check.peer import Response
    from mcpwire.check.subject import Answer, Message, Subject

SHORT_CALL_S: Final = 0.02
"""Duration of a call that need not last, if the tool has an argument for it."""
_SECOND_WORDS: Final = ("second", "duration", "delay", "sleep", "wait", "time", "secs")
_MILLISECOND_WORDS: Final = ("milli", "ms")


def params_with_duration(tool: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return params of a call with a duration, if the tool has an argument for it."""
    arguments = dict(arguments_for(tool) or {})
    schema = tool.get("inputSchema")
    for name, property_ in properties_of(schema or {}).items():
        kind = property_.get("type") if isinstance(property_, dict) else None
        lower = name.lower()
        if kind not in {"number", "integer"}:
            continue
        if any(word in lower for word in _MILLISECOND_WORDS):
            arguments[name] = round(seconds * 1000)
        elif any(word in lower for word in _SECOND_WORDS):
            arguments[name] = seconds if kind == "number" else max(1, round(seconds))
    return call_params(tool, arguments)


@attrs.frozen
class SlowCall:
    """A call in progress."""

    id: Any
    params: dict[str, Any]
    response: Response | None


async def start_slow_call(subject: Subject, seconds: float) -> SlowCall:
    """Start a call of the slow tool, and check that it is in progress.

    Raises:
        Absent: The server has no slow tool, or the call has ended already.
    """
    params = params_with_duration(subject.need_tool("slow"), seconds)
    id = subject.next_id()
    response = await subject.send(subject.message("tools/call", params, id=id))
    await subject.barrier()
    if subject.answers_to(id):
        subject.raise_absent(
            "slow tool that still runs when the next request is answered"
        )
    return SlowCall(id, params, response)


async def call_notify_tool(
    subject: Subject, method: str, meta: Mapping[str, Any] | None = None
) -> tuple[Answer, list[Message]]:
    """Call the `notify` tool; return the answer, and notifications up to a barrier."""
    params = params_with_duration(subject.need_tool("notify"), SHORT_CALL_S)
    if meta is not None:
        params["_meta"] = meta
    start = len(subject.received)
    answer = await subject.request("tools/call", params, timeout=15.0)
    await subject.barrier()
    notifications = [each for each in subject.received[start:] if each.method == method]
    return answer, notifications


def expect_before_answer(
    subject: Subject, answer: Answer, notifications: Iterable[Message], expected: str
) -> None:
    """Raise `Broken` if a notification was received after an answer."""
    answer_index = index_of(subject, answer.message)
    for notification in notifications:
        subject.expect(
            index_of(subject, notification) < answer_index, expected, notification.raw
        )


def echo_params(subject: Subject, text: str) -> dict[str, Any]:
    """Return the params of a call of the echo tool."""
    tool = subject.need_tool("echo")
    return call_params(tool, arguments_for(tool, text))


def texts_of(message: Message) -> str:
    """Return the texts in the result of a call, one per line."""
    result = message.value.get("result")
    content = result.get("content") if isinstance(result, dict) else None
    parts = content if isinstance(content, list) else []
    return "\n".join(str(p.get("text", "")) for p in parts if isinstance(p, dict))


def index_of(subject: Subject, message: Message) -> int:
    """Return the index of a received message, compared by identity."""
    return next(i for i, each in enumerate(subject.received) if each is message)


# --- requests to the client -----------------------------------------------------------

ALL_CAPABILITIES: Final[dict[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
INPUT_METHODS: Final = frozenset(
    {"elicitation/create", "sampling/createMessage", "roots/list"}
)


def calls_requesting_input(subject: Subject) -> list[dict[str, Any]]:
    """Return call params of the callable tools that send requests to the client."""
    role = subject.facts.roles.get("ask")
    return [
        call_params(tool)
        for tool in subject.facts.callable_tools
        if tool is role or is_named_like(tool, "ask")
        if arguments_for(tool) is not None
    ]


def client_result(
    method: str, params: Mapping[str, Any], action: str = "accept"
) -> dict[str, Any]:
    """Return a valid client result for a server request."""
    if method == "roots/list":
        return {"roots": [{"uri": "file:///mcpwire-check", "name": "check"}]}
    if method == "sampling/createMessage":
        return {
            "role": "assistant",
            "content": {"type": "text", "text": "mcpwire"},
            "model": "mcpwire-check",
            "stopReason": "endTurn",
        }
    if action != "accept" or params.get("mode") == "url":
        return {"action": action}
    content = arguments_for({"inputSchema": params.get("requestedSchema")})
    return {"action": "accept", "content": content or {}}


def set_request_handlers(subject: Subject, action: str = "accept") -> None:
    """Set handlers for all server requests on a connection."""
    for method in INPUT_METHODS:
        subject.request_handlers[method] = lambda params, method=method: client_result(  # type: ignore[misc]
            method, params, action
        )
