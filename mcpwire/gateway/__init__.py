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

_MODULES: Final = {
    "Changes": "plan",
    "ContentDelegate": "delegates",
    "FromHeaders": "plan",
    "Gateway": "gateway",
    "HandleIds": "sessions",
    "JsonLines": "tracing",
    "Kept": "session_ids",
    "PendingBatch": "splicing",
    "Plan": "plan",
    "Planned": "plan",
    "QueueDelegate": "delegates",
    "SealedIds": "sessions",
    "SessionIds": "sessions",
    "Source": "plan",
    "Splicer": "delegates",
    "Static": "plan",
    "token_of": "splicing",
    "tokens_in": "splicing",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
