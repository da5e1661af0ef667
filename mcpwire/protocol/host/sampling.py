"""Sampling: a server wants an answer of the client's model (deprecated in 2026-07-28).

Here stand the rules for the conversation that a server sends and for the answer that a
handler gives. How to choose and call a model is the handler's (client/sampling).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.errors import InvalidParams, LocalProtocolError
from mcpwire.protocol.host.question import (
    Question,
    decode_params,
    encode_answer,
    excerpt,
)
from mcpwire.protocol.methods import capability_declared
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcpwire.types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        JsonObject,
        SamplingCapability,
        SamplingMessage,
    )
    from mcpwire.versions import Revision

__all__ = [
    "USER_REJECTED",
    "Sampling",
    "SamplingHandler",
    "as_sampling",
    "ask",
    "capability",
]

SamplingHandler: TypeAlias = (
    "Callable[[CreateMessageRequestParams], "
    "CreateMessageResult | Awaitable[CreateMessageResult]]"
)
"""Answers with the client's model; plain or async."""

USER_REJECTED: Final = -1
"""The code of the `RPCError` to raise when the user rejects what a server asks.

2025-11-25 client/sampling, "Error Handling".
"""

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, *_ = REVISIONS

_METHOD: Final = "sampling/createMessage"
_ANSWER: Final = "sampling answer"

_BLOCKS: Final[Mapping[object, Revision]] = {
    "text": _NOV_2024,
    "image": _NOV_2024,
    "audio": _MAR_2025,
    "tool_use": _NOV_2025,
    "tool_result": _NOV_2025,
}
"""The kinds of content in sampling, and since when each is one."""


def _check_handler(_: Any, __: Any, value: Any) -> None:
    if not callable(value):
        raise ValueError(f"sampling must be a function, got {excerpt(value)}")


@attrs.frozen
class Sampling:
    """A handler for sampling, and what it can do beyond text and images.

    The handler gets `CreateMessageRequestParams` and returns a `CreateMessageResult`.
    It keeps to `max_tokens`, lets the user see and stop what is sent, and keeps
    `meta` of tool uses and results when it hands them to the model. To reject a request
    it raises ``RPCError("...", code=USER_REJECTED)``.

    Raises:
        ValueError: The handler is no function.
    """

    handler: SamplingHandler = attrs.field(validator=_check_handler)

    tools: bool = attrs.field(default=False, kw_only=True)
    """Whether it heeds `tools` and `tool_choice` (since 2025-11-25).

    Without it a request that has them is refused before the handler sees it.
    """

    context: bool = attrs.field(default=False, kw_only=True)
    """Whether it heeds `include_context` (declared since 2025-11-25)."""


def as_sampling(given: SamplingHandler | Sampling | None) -> Sampling | None:
    """Return what the user gave for sampling as a `Sampling`.

    Raises:
        ValueError: It is no function.
    """
    if given is None or isinstance(given, Sampling):
        return given
    return Sampling(given)


def capability(feature: Sampling | None) -> SamplingCapability | None:
    """Return what is declared, as of the newest revision."""
    if feature is None:
        return None
    from mcpwire.types import SamplingCapability

    return SamplingCapability(
        context={} if feature.context else None, tools={} if feature.tools else None
    )


def ask(
    feature: Sampling,
    params: JsonObject | None,
    revision: Revision,
    capabilities: JsonObject,
) -> Question:
    """Check a server's request for an answer of the model.

    Raises:
        InvalidParams: It breaks a rule; says which and where.
    """
    from mcpwire.types import CreateMessageRequestParams

    request = decode_params(CreateMessageRequestParams, params, _METHOD)
    # 2025-11-25 schema, CreateMessageRequestParams: MUST return an error.
    asks_for_tools = request.tools is not None or request.tool_choice is not None
    if asks_for_tools and not capability_declared(capabilities, "sampling.tools"):
        given = "tools" if request.tools is not None else "toolChoice"
        raise InvalidParams(
            f"CreateMessageRequestParams.{given}: this client did not declare "
            "sampling.tools",
            method=_METHOD,
        )
    problem = _find_imbalance(request.messages)
    if problem is not None:
        raise InvalidParams(
            f"CreateMessageRequestParams.messages{problem}", method=_METHOD
        )
    return Question(feature.handler, request, partial(_finish, request, revision))


# --- the conversation: tool uses and their results


def _find_imbalance(messages: list[SamplingMessage]) -> str | None:
    """Return what is wrong with the tool uses and results of a conversation.

    2025-11-25 client/sampling, "Tool Use and Result Balance". A conversation of an
    earlier revision has neither.
    """
    open_uses: list[str] = []
    for index, message in enumerate(messages):
        uses, results = _tools_in(message)
        problem = (
            _misplaced(message, uses, results)
            or _first(
                Counter(open_uses) - Counter(results),
                "the tool use {} before it has no result here",
            )
            or _first(
                Counter(results) - Counter(open_uses),
                "the tool result {} answers no tool use of the message before",
            )
        )
        if problem is not None:
            return f"[{index}]: {problem}"
        open_uses = uses
    if open_uses:
        return (
            f"[{len(messages) - 1}]: the tool use {excerpt(open_uses[0])} has no result"
        )
    return None


def _tools_in(message: SamplingMessage) -> tuple[list[str], list[str]]:
    from mcpwire.types import ToolResultContent, ToolUseContent

    blocks = message.blocks
    return (
        [block.id for block in blocks if type(block) is ToolUseContent],
        [block.tool_use_id for block in blocks if type(block) is ToolResultContent],
    )


def _misplaced(
    message: SamplingMessage, uses: list[str], results: list[str]
) -> str | None:
    if results and len(results) < len(message.blocks):
        return "a message with tool results must hold nothing else"
    if results and message.role != "user":
        return "tool results stand in messages of the user"
    if uses and message.role != "assistant":
        return "tool uses stand in messages of the assistant"
    return None


def _first(ids: Counter[str], sentence: str) -> str | None:
    return next((sentence.format(excerpt(id)) for id in ids), None)


# --- the answer


def _finish(
    request: CreateMessageRequestParams, revision: Revision, value: Any
) -> JsonObject:
    from mcpwire.types import CreateMessageResult

    if not isinstance(value, CreateMessageResult):
        raise LocalProtocolError(
            f"{_ANSWER}: expected CreateMessageResult, got {type(value).__name__}"
        )
    if isinstance(value.content, (list, tuple)):
        content = list(value.content)
        value = attrs.evolve(value, content=_unwrapped(content, revision))
    answer = encode_answer(value, revision, _ANSWER)
    blocks = answer["content"]
    for block in blocks if type(blocks) is list else [blocks]:
        problem = _problem_of(block.get("type"), request, revision)
        if problem is not None:
            raise LocalProtocolError(f"{_ANSWER}: {problem}")
    return answer


def _unwrapped(blocks: list[Any], revision: Revision) -> Any:
    # SEP-1577: several blocks since 2025-11-25, exactly one before.
    if revision >= _NOV_2025:
        return blocks
    if len(blocks) != 1:
        raise LocalProtocolError(
            f"{_ANSWER}: content must be one block at {revision}, got {len(blocks)}"
        )
    return blocks[0]


def _problem_of(
    kind: object, request: CreateMessageRequestParams, revision: Revision
) -> str | None:
    since = _BLOCKS.get(kind)
    if since is None:
        return f"content of type {excerpt(kind)} is none that sampling knows"
    if revision < since:
        return f"content of type {kind!r} exists since {since}, not at {revision}"
    if kind == "tool_use":
        return _problem_of_tool_use(request)
    # Each tool use of the conversation has its result already.
    return "a tool result answers no tool use" if kind == "tool_result" else None


def _problem_of_tool_use(request: CreateMessageRequestParams) -> str | None:
    if not request.tools:
        return "a tool use where the server offers no tools"
    choice = request.tool_choice
    if choice is not None and choice.mode == "none":
        # 2025-11-25 client/sampling, "Tool Choice Modes": MUST NOT use any tools.
        return "a tool use where the server chose 'none'"
    return None
