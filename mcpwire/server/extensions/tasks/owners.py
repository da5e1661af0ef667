"""Whose a task is.

2025-11-25 basic/utilities/tasks, "Task Isolation and Access Control", and SEP-2663,
"Security Considerations": a task belongs to the principal that made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from mcpwire.server.request import RequestContext

__all__ = ["owner_of"]


def owner_of(request: RequestContext) -> str:
    """Return who asks, as a text that a store can compare; empty: nobody proved it."""
    principal = request.facts.principal
    return "" if principal is None else encode(principal.key).decode()
