"""Many servers at once: one connection each, by name.

`Group` connects them in parallel, says how each of them is, calls them by name, hears
what they tell, and makes one set of all their tools.
"""

from __future__ import annotations

from mcpwire.group.errors import NotConnected
from mcpwire.group.group import Group
from mcpwire.group.hearing import GroupEvents
from mcpwire.group.member import Member
from mcpwire.protocol.many.reports import GroupEvent, Report, ServerStatus
from mcpwire.protocol.many.restarting import Backoff

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
