"""The tools of many servers as one set, for a model: names, rules, calls.

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.tools.catalog import CatalogEntry as CatalogEntry
    from mcpwire.tools.lock import ToolLock as ToolLock
    from mcpwire.tools.options import ToolOptions as ToolOptions
    from mcpwire.tools.results import flatten as flatten
    from mcpwire.tools.rules import ServerRules as ServerRules
    from mcpwire.tools.toolset import ToolSet as ToolSet
    from mcpwire.tools.transforms import ToolCall as ToolCall
    from mcpwire.tools.transforms import ToolTransform as ToolTransform
    from mcpwire.tools.transforms import ToolView as ToolView

_load, __dir__, __all__ = lazy_names(
    __name__,
    {
        "catalog": "CatalogEntry",
        "lock": "ToolLock",
        "options": "ToolOptions",
        "results": "flatten",
        "rules": "ServerRules",
        "toolset": "ToolSet",
        "transforms": "ToolCall ToolTransform ToolView",
    },
)

if not TYPE_CHECKING:  # a type checker would take any name for a public one
    __getattr__ = _load
