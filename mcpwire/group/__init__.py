"""Client connections to many named servers.

`Group` connects servers in parallel, reports their states, sends requests to a server
by its name, receives notifications, and combines the tools of all servers in one set.
Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.errors import NotConnected as NotConnected
    from mcpwire.group.backoff import Backoff as Backoff
    from mcpwire.group.events import GroupEvents as GroupEvents
    from mcpwire.group.group import Group as Group
    from mcpwire.group.member import Member as Member
    from mcpwire.group.reports import GroupEvent as GroupEvent
    from mcpwire.group.reports import Report as Report
    from mcpwire.group.reports import ServerStatus as ServerStatus

_load, __dir__, __all__ = lazy_names(
    __name__,
    {
        ".errors": "NotConnected",
        "backoff": "Backoff",
        "events": "GroupEvents",
        "group": "Group",
        "member": "Member",
        "reports": "GroupEvent Report ServerStatus",
    },
)

if not TYPE_CHECKING:  # a type checker would take any name for a public one
    __getattr__ = _load
