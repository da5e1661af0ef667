"""Calls that go on after they were answered, in both dialects of the protocol.

`Tasks` is the extension; a store keeps what there is to know of each task.
"""

from __future__ import annotations

from mcpwire.server.extensions.tasks_extension import Tasks
from mcpwire.server.extensions.tasks_sqlite_store import SqliteTaskStore
from mcpwire.server.extensions.tasks_store import (
    MemoryTaskStore,
    StoreFullError,
    TaskStore,
)

__all__ = ["MemoryTaskStore", "SqliteTaskStore", "StoreFullError", "TaskStore", "Tasks"]
