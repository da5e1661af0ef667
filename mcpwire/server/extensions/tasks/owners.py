"""Whose a task is.

2025-11-25 basic/utilities/tasks, "Task Isolation and Access Control", and SEP-2663,
"Security Considerations": a task belongs to the principal that made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from mcpwire.server.request import RequestContext

__all__ = ["is_reachable", "owner_of"]

_ADDRESS: Final = "address:"
"""Begins the owners that are no principals, whose texts are JSON arrays."""


def owner_of(request: RequestContext) -> str:
    """Return the client that a task counts to, as a text that a store can compare."""
    info = request.info
    if info.principal is not None:
        return encode(info.principal.key).decode()
    return f"{_ADDRESS}{info.owner}" if info.owner else ""


def is_reachable(owner: str, request: RequestContext) -> bool:
    """Tell whether a client may name a task of this owner.

    Clients without a principal are not told apart: addresses change.
    """
    if request.info.principal is not None:
        return owner == owner_of(request)
    return not owner or owner.startswith(_ADDRESS)
