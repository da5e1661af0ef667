"""The Messages API of Anthropic: tools, `tool_use` and `tool_result`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.exporters.neutral import (
    Form,
    Media,
    make_call,
    make_tool,
    members_of,
    parts_of,
)
from mcpwire.exporters.schemas import NameRule

if TYPE_CHECKING:
    from mcpwire.exporters.neutral import ModelCall, Outcomes
    from mcpwire.types import JsonObject


def _calls(answer: object) -> list[ModelCall]:
    """Return the calls of a message, or of its content."""
    return [
        make_call(block.get("name"), block.get("input"), block.get("id"))
        for block in members_of(answer, "content")
        if block.get("type") == "tool_use"
    ]


def _results(outcomes: Outcomes, *, media: bool) -> list[JsonObject]:
    """Return the user message that must contain all results of a turn."""
    content = [_result(call, outcome, media=media) for call, outcome in outcomes]
    return [{"role": "user", "content": content}] if content else []


def _result(call: ModelCall, outcome: Any, *, media: bool) -> JsonObject:
    # "all content must be type `text` if `is_error` is true", and one cannot be empty;
    # "text content blocks must contain non-whitespace text".
    media = media and not getattr(outcome, "is_error", False)
    parts, failed = parts_of(
        outcome, lambda part: media and (part.is_image or part.is_document)
    )
    parts = [part for part in parts if not isinstance(part, str) or part.strip()]
    if failed and not parts:
        parts = ["the tool failed and gave no reason"]
    result: JsonObject = {"type": "tool_result", "tool_use_id": call.id}
    if parts:
        result["content"] = [_block(part) for part in parts]
    if failed:
        result["is_error"] = True
    return result


def _block(part: str | Media) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
    kind = "image" if part.is_image else "document"
    return {"type": kind, "source": source}


# Schemas may have all keywords. Only alternatives at the root are refused, and merged:
# "input_schema does not support oneOf, allOf, or anyOf at the top level".
FORM: Final = Form(
    make_tool,
    _calls,
    _results,
    # Messages API, tools[].name: ^[a-zA-Z0-9_-]{1,64}$.
    names=NameRule(),
    # "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
    arguments=NameRule("A-Za-z0-9_.-", "A-Za-z0-9_.-", 64),
)
