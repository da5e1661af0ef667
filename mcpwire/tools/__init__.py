"""The tools of many servers as one set, for a model: names, rules, calls.

Each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.tools.catalog import CatalogEntry
    from mcpwire.tools.lock import ToolLock
    from mcpwire.tools.options import ToolOptions
    from mcpwire.tools.results import flatten
    from mcpwire.tools.rules import ServerRules
    from mcpwire.tools.toolset import ToolSet
    from mcpwire.tools.transforms import ToolCall, ToolTransform, ToolView

__all__ = [
    "CatalogEntry",
    "ServerRules",
    "ToolCall",
    "ToolLock",
    "ToolOptions",
    "ToolSet",
    "ToolTransform",
    "ToolView",
    "flatten",
]

_MODULES: Final = {
    "CatalogEntry": "mcpwire.tools.catalog",
    "ServerRules": "mcpwire.tools.rules",
    "ToolCall": "mcpwire.tools.transforms",
    "ToolLock": "mcpwire.tools.lock",
    "ToolOptions": "mcpwire.tools.options",
    "ToolSet": "mcpwire.tools.toolset",
    "ToolTransform": "mcpwire.tools.transforms",
    "ToolView": "mcpwire.tools.transforms",
    "flatten": "mcpwire.tools.results",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
