"""Many servers at once without an event loop: the twin of `mcpwire.group`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.sync.group.group import Group
    from mcpwire.sync.group.hearing import GroupEvents
    from mcpwire.sync.group.toolset import ToolSet

_MODULE_OF: Final = {
    "Group": "mcpwire.sync.group.group",
    "GroupEvents": "mcpwire.sync.group.hearing",
    "ToolSet": "mcpwire.sync.group.toolset",
}

__all__ = ["Group", "GroupEvents", "ToolSet"]


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'mcpwire.sync.group' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value
