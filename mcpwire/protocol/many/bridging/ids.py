"""Whose task an id names, where many servers have tasks of their own."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from mcpwire.types.meta import RELATED_TASK

__all__ = ["TASKS_KEPT", "TaskIds", "with_task_id"]

TASKS_KEPT: Final = 10_000
"""How many tasks are remembered; the one that was used longest ago goes first."""


class TaskIds:
    """The ids of tasks and their owners.

    An id stays what its server called it. Should another server use the same one, the
    later of them is called ``<server>/<id>``, which is looked up like any other and
    never taken apart.

    Args:
        limit: How many are remembered.
    """

    def __init__(self, limit: int = TASKS_KEPT) -> None:
        self._limit = limit
        self._owners: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._names: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._owners)

    def claim(self, server: str, raw: str) -> str:
        """Return what a server's task is called from now on."""
        owner = (server, raw)
        name = self._names.get(owner)
        if name is None:
            name = raw
            while name in self._owners:
                name = f"{server}/{name}"
            self._names[owner] = name
            self._owners[name] = owner
            if len(self._owners) > self._limit:
                del self._names[self._owners.popitem(last=False)[1]]
        else:
            self._owners.move_to_end(name)
        return name

    def owner(self, name: object) -> tuple[str, str] | None:
        """Return the server of a task and what it calls it; ``None``: nobody's."""
        if type(name) is not str or name not in self._owners:
            return None
        self._owners.move_to_end(name)
        return self._owners[name]


def with_task_id(fields: dict[str, Any], raw: str, name: str) -> dict[str, Any]:
    """Return what says something of a task as clients know it; most often the same.

    Args:
        fields: A result, or params.
        raw: What the server calls the task.
        name: What clients do.
    """
    if raw == name:
        return fields
    made = dict(fields)
    if made.get("taskId") == raw:
        made["taskId"] = name
    task = made.get("task")
    if type(task) is dict and task.get("taskId") == raw:
        made["task"] = {**task, "taskId": name}
    meta = made.get("_meta")
    related = meta.get(RELATED_TASK) if type(meta) is dict else None
    if type(related) is dict and related.get("taskId") == raw:
        made["_meta"] = {**made["_meta"], RELATED_TASK: {**related, "taskId": name}}
    return made
