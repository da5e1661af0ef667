"""The tools of many servers as one set, for a model: names, rules, calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.protocol.many.policy.rules import ServerRules
from mcpwire.protocol.many.policy.transforms import ToolTransform
from mcpwire.tools.lock import ToolLock
from mcpwire.tools.options import ToolOptions
from mcpwire.tools.toolset import ToolSet
from mcpwire.tools.view import ToolCall, ToolView

if TYPE_CHECKING:
    from mcpwire.protocol.many.flattening import flatten

__all__ = [
    "ServerRules",
    "ToolCall",
    "ToolLock",
    "ToolOptions",
    "ToolSet",
    "ToolTransform",
    "ToolView",
    "flatten",
]


def __getattr__(name: str) -> Any:
    if name == "flatten":
        from mcpwire.protocol.many.flattening import flatten

        return flatten
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
