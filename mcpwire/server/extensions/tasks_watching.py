"""Who wants to hear of which task (the extension, "Task Status Notifications")."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mcpwire.protocol.tasks import write_detailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpwire.protocol.tasks import TaskRecord
    from mcpwire.server.request import NotifyFn

__all__ = ["Watching"]

CHANGED: Final = "notifications/tasks"


class Watching:
    """Keeps who listens, and tells them."""

    def __init__(self) -> None:
        # Two who listen may do it with equal functions, so each has its own key.
        self._listeners: dict[str, dict[object, NotifyFn]] = {}

    def add(self, ids: Iterable[str], send: NotifyFn) -> Callable[[], None]:
        """Tell of these tasks from now on; return what ends that."""
        key = object()
        watched = tuple(ids)
        for task_id in watched:
            self._listeners.setdefault(task_id, {})[key] = send
        return partial(self._remove, watched, key)

    def _remove(self, ids: Iterable[str], key: object) -> None:
        for task_id in ids:
            listeners = self._listeners.get(task_id)
            if listeners is None:
                continue
            listeners.pop(key, None)
            if not listeners:
                del self._listeners[task_id]

    def tell(self, record: TaskRecord) -> None:
        """Tell how a task stands, as `tasks/get` would."""
        listeners = self._listeners.get(record.id)
        if listeners is None:
            return
        if record.is_final:
            # There is nothing more to come.
            del self._listeners[record.id]
        for send in tuple(listeners.values()):
            send(CHANGED, write_detailed(record))
