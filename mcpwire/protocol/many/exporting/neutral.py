"""Tools as plain objects, for models that no other form here is made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.protocol.many.exporting.calls import (
    made_call,
    members_of,
    parts_of,
    text_of,
)
from mcpwire.protocol.many.exporting.names import NameRule
from mcpwire.types import UNSET, encode
from mcpwire.types.tools import CallToolResult

if TYPE_CHECKING:
    from mcpwire.protocol.many.exporting.calls import ModelCall, Outcome, Outcomes
    from mcpwire.types import JsonObject

__all__ = ["RULE", "calls_of", "results_to", "tool_to"]

RULE: Final = NameRule(r"\s\S", r"\s\S", 1_000_000)
"""Every name is taken as it is."""


def tool_to(name: str, description: str, schema: JsonObject) -> JsonObject:
    """Return a tool with its whole schema."""
    return {"name": name, "description": description, "input_schema": schema}


def calls_of(answer: object) -> list[ModelCall]:
    """Return the calls of a list of ``{"name", "arguments", "id"}``."""
    return [
        made_call(call.get("name"), call.get("arguments"), call.get("id"))
        for call in members_of(answer, "calls")
    ]


def results_to(outcomes: Outcomes, *, media: bool) -> list[JsonObject]:
    """Return an object for each outcome: its text, its blocks, and if it failed."""
    return [_result(call, outcome, media=media) for call, outcome in outcomes]


def _result(call: ModelCall, outcome: Outcome, *, media: bool) -> JsonObject:
    parts, failed = parts_of(outcome, lambda _: False)
    result: JsonObject = {
        "id": call.id,
        "name": call.said,
        "text": text_of(parts),
        "is_error": failed,
    }
    if media and isinstance(outcome, CallToolResult):
        result["content"] = [encode(block) for block in outcome.content]
        if outcome.structured_content is not UNSET:
            result["structured_content"] = outcome.structured_content
    return result
