"""Many servers at once: one connection each, by name.

`Group` connects them in parallel, says how each of them is, calls them by name, hears
what they tell, and makes one set of all their tools. Names are imported when they are
first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.errors import NotConnected
    from mcpwire.group.backoff import Backoff
    from mcpwire.group.events import GroupEvents
    from mcpwire.group.group import Group
    from mcpwire.group.member import Member
    from mcpwire.group.reports import GroupEvent, Report, ServerStatus

_MODULE_OF: Final = {
    "Backoff": "mcpwire.group.backoff",
    "Group": "mcpwire.group.group",
    "GroupEvent": "mcpwire.group.reports",
    "GroupEvents": "mcpwire.group.events",
    "Member": "mcpwire.group.member",
    "NotConnected": "mcpwire.errors",
    "Report": "mcpwire.group.reports",
    "ServerStatus": "mcpwire.group.reports",
}

__all__ = [
    "Backoff",
    "Group",
    "GroupEvent",
    "GroupEvents",
    "Member",
    "NotConnected",
    "Report",
    "ServerStatus",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'mcpwire.group' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
