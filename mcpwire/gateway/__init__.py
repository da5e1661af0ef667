"""One MCP endpoint in front of many servers, with or without sessions on each side.

Public names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.gateway.delegates import ContentDelegate as ContentDelegate
    from mcpwire.gateway.delegates import QueueDelegate as QueueDelegate
    from mcpwire.gateway.delegates import Splicer as Splicer
    from mcpwire.gateway.gateway import Gateway as Gateway
    from mcpwire.gateway.plan import Changes as Changes
    from mcpwire.gateway.plan import FromHeaders as FromHeaders
    from mcpwire.gateway.plan import Plan as Plan
    from mcpwire.gateway.plan import Planned as Planned
    from mcpwire.gateway.plan import Source as Source
    from mcpwire.gateway.plan import Static as Static
    from mcpwire.gateway.session_ids import SessionData as SessionData
    from mcpwire.gateway.sessions import HandleIds as HandleIds
    from mcpwire.gateway.sessions import SealedIds as SealedIds
    from mcpwire.gateway.sessions import SessionIds as SessionIds
    from mcpwire.gateway.splicing import PendingBatch as PendingBatch
    from mcpwire.gateway.splicing import token_of as token_of
    from mcpwire.gateway.splicing import tokens_in as tokens_in
    from mcpwire.gateway.tracing import JsonLines as JsonLines

_load, __dir__, __all__ = lazy_names(
    __name__,
    {
        "delegates": "ContentDelegate QueueDelegate Splicer",
        "gateway": "Gateway",
        "plan": "Changes FromHeaders Plan Planned Source Static",
        "session_ids": "SessionData",
        "sessions": "HandleIds SealedIds SessionIds",
        "splicing": "PendingBatch token_of tokens_in",
        "tracing": "JsonLines",
    },
)

if not TYPE_CHECKING:  # type checkers would accept any name otherwise
    __getattr__ = _load
