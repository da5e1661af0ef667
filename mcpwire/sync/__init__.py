"""The blocking client: the same names, types and errors, without an event loop.

::

    with mcpwire.sync.Client("uvx mcp-server-time") as client:
        result = client.call_tool("get_current_time", {"timezone": "UTC"})

It is the asyncio client: the thread that waits for a call runs its event loop, so there
is no thread of ours unless something asks for one. Any number of threads may share it.
"""

# ruff: noqa: F403, F405 - the names in `__all__` of `_functions`

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.client import CallOptions
    from mcpwire.sync._facade import PendingCall
    from mcpwire.sync._functions import *
    from mcpwire.sync._made import (
        Client,
        EventStream,
        LoadedSkill,
        ResourceWatch,
        Subscription,
    )
    from mcpwire.sync._made_group import Group, ToolSet

_ELSEWHERE: Final = {
    "CallOptions": "mcpwire.client",
    "Group": "mcpwire.sync._made_group",
    "PendingCall": "mcpwire.sync._facade",
    "ToolSet": "mcpwire.sync._made_group",
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
    if name not in __all__:
        raise AttributeError(f"module 'mcpwire.sync' has no attribute {name!r}")
    made = "_functions" if name.islower() else "_made"
    module = importlib.import_module(_ELSEWHERE.get(name, f"mcpwire.sync.{made}"))
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
