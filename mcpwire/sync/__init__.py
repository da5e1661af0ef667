"""The blocking client: the names, types and errors of the asyncio client.

::

    with mcpwire.sync.Client("uvx mcp-server-time") as client:
        result = client.call_tool("get_current_time", {"timezone": "UTC"})

A facade of the asyncio client: a thread that waits for a call runs the event loop, so
no thread is started unless an option needs one. Any number of threads may share it.
"""

# ruff: noqa: F403 - the names in `__all__` of `_functions`

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.client import CallOptions as CallOptions
    from mcpwire.sync._facade import PendingCall as PendingCall
    from mcpwire.sync._functions import *
    from mcpwire.sync._generated import Client as Client
    from mcpwire.sync._generated import EventStream as EventStream
    from mcpwire.sync._generated import LoadedSkill as LoadedSkill
    from mcpwire.sync._generated import ResourceWatch as ResourceWatch
    from mcpwire.sync._generated import Subscription as Subscription
    from mcpwire.sync._generated_group import Group as Group
    from mcpwire.sync._generated_group import ToolSet as ToolSet

_load, __dir__, __all__ = lazy_names(
    __name__,
    {
        ".client": "CallOptions",
        "_facade": "PendingCall",
        "_functions": """
            begin_login cancel_task finish_login get_task list_tasks login login_status
            logout resolve_links start_task update_task wait_for_task
        """,
        "_generated": "Client EventStream LoadedSkill ResourceWatch Subscription",
        "_generated_group": "Group ToolSet",
    },
)

if not TYPE_CHECKING:  # a type checker would take any name for a public one
    __getattr__ = _load
