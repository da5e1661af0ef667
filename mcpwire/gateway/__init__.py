"""One MCP endpoint in front of many servers, both eras on both sides.

Its public names are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.gateway.delegates import ContentDelegate, QueueDelegate, Splicer
    from mcpwire.gateway.gateway import Gateway
    from mcpwire.gateway.plan import Changes, FromHeaders, Plan, Planned, Source, Static
    from mcpwire.gateway.session_ids import Kept
    from mcpwire.gateway.sessions import HandleIds, SealedIds, SessionIds
    from mcpwire.gateway.splicing import (
        PendingBatch,
        token_of,
        tokens_in,
    )
    from mcpwire.gateway.tracing import JsonLines

__all__ = [
    "Changes",
    "ContentDelegate",
    "FromHeaders",
    "Gateway",
    "HandleIds",
    "JsonLines",
    "Kept",
    "PendingBatch",
    "Plan",
    "Planned",
    "QueueDelegate",
    "SealedIds",
    "SessionIds",
    "Source",
    "Splicer",
    "Static",
    "token_of",
    "tokens_in",
]

_EXPORTS: Final = {
    "mcpwire.gateway.gateway": ("Gateway",),
    "mcpwire.gateway.delegates": ("ContentDelegate", "QueueDelegate", "Splicer"),
    "mcpwire.gateway.plan": (
        "Changes",
        "FromHeaders",
        "Plan",
        "Planned",
        "Source",
        "Static",
    ),
    "mcpwire.gateway.sessions": ("HandleIds", "SealedIds", "SessionIds"),
    "mcpwire.gateway.tracing": ("JsonLines",),
    "mcpwire.gateway.session_ids": ("Kept",),
    "mcpwire.gateway.splicing": (
        "PendingBatch",
        "token_of",
        "tokens_in",
    ),
}

_MODULE_OF: Final = {
    name: module for module, names in _EXPORTS.items() for name in names
}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
