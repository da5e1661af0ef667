"""One MCP endpoint in front of many servers, both eras on both sides.

Its public names are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.gateway.app import Gateway
    from mcpwire.gateway.plan import Plan, Planned, Source, Static

__all__ = ["Gateway", "Plan", "Planned", "Source", "Static"]

_EXPORTS: Final = {
    "mcpwire.gateway.app": ("Gateway",),
    "mcpwire.gateway.plan": ("Plan", "Planned", "Source", "Static"),
}

_MODULE_OF: Final = {
    name: module for module, names in _EXPORTS.items() for name in names
}


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)
