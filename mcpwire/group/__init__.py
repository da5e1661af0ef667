"""Many servers at once: one connection each, by name.

`Group` connects them in parallel, says how each of them is, calls them by name, hears
what they tell, and makes one set of all their tools. Names are imported when they are
first used.
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
