"""The blocking client: the same names, types and errors, without an event loop.

::

    with mcpwire.sync.Client("uvx mcp-server-time") as client:
        result = client.call_tool("get_current_time", {"timezone": "UTC"})

Any number of threads may share one client. Reading and writing happen in the threads
that call: there is no loop, and no thread of ours unless something asks for one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.sync._made.streams import EventStream, ResourceWatch, Subscription
    from mcpwire.sync._shell.calls import PendingCall
    from mcpwire.sync.client import CallOptions, Client
    from mcpwire.sync.client.links import resolve_links
    from mcpwire.sync.client.login import (
        begin_login,
        finish_login,
        login,
        login_status,
        logout,
    )
    from mcpwire.sync.client.skills import LoadedSkill
    from mcpwire.sync.client.tasks import (
        cancel_task,
        get_task,
        list_tasks,
        start_task,
        update_task,
        wait_for_task,
    )
    from mcpwire.sync.group import Group, ToolSet

_MODULE_OF: Final = {
    "CallOptions": "mcpwire.sync.client",
    "Client": "mcpwire.sync.client",
    "EventStream": "mcpwire.sync._made.streams",
    "Group": "mcpwire.sync.group",
    "LoadedSkill": "mcpwire.sync.client.skills",
    "PendingCall": "mcpwire.sync._shell.calls",
    "ResourceWatch": "mcpwire.sync._made.streams",
    "Subscription": "mcpwire.sync._made.streams",
    "ToolSet": "mcpwire.sync.group",
    "begin_login": "mcpwire.sync.client.login",
    "cancel_task": "mcpwire.sync.client.tasks",
    "finish_login": "mcpwire.sync.client.login",
    "get_task": "mcpwire.sync.client.tasks",
    "list_tasks": "mcpwire.sync.client.tasks",
    "login": "mcpwire.sync.client.login",
    "login_status": "mcpwire.sync.client.login",
    "logout": "mcpwire.sync.client.login",
    "resolve_links": "mcpwire.sync.client.links",
    "start_task": "mcpwire.sync.client.tasks",
    "update_task": "mcpwire.sync.client.tasks",
    "wait_for_task": "mcpwire.sync.client.tasks",
}

__all__ = [
    "CallOptions",
    "Client",
    "EventStream",
    "Group",
    "LoadedSkill",
    "PendingCall",
    "ResourceWatch",
    "Subscription",
    "ToolSet",
    "begin_login",
    "cancel_task",
    "finish_login",
    "get_task",
    "list_tasks",
    "login",
    "login_status",
    "logout",
    "resolve_links",
    "start_task",
    "update_task",
    "wait_for_task",
]


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'mcpwire.sync' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)
