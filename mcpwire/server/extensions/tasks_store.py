"""Where tasks are kept, and the store that forgets them with its process."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Protocol

from mcpwire.errors import MCPError
from mcpwire.protocol.tasks import HeldTask, select_evictions

if TYPE_CHECKING:
    from mcpwire.protocol.tasks import TaskLimits, TaskRecord

__all__ = ["MemoryTaskStore", "StoreFullError", "TaskStore"]


class StoreFullError(MCPError):
    """There is no room for another task.

    Attributes:
        to_end: The id of a task under way whose end may make room; ``None``: no task
            is to be ended.
    """

    def __init__(
        self, message: str = "there are too many tasks", *, to_end: str | None = None
    ) -> None:
        super().__init__(message)
        self.to_end = to_end


class TaskStore(Protocol):
    """Keeps the tasks of a server; called on its loop, by one call at a time per task.

    A task under way is run by the process that created it, which knows best how it
    stands; the store is asked for the others, and for all of an owner's.
    """

    async def open(self, now: float) -> None:
        """Get ready; called before anything else, and again after `aclose`.

        Whoever ran the tasks that are still under way here may be gone: those are to
        end with `TaskRecord.stop`, as `INTERRUPTED`.
        """

    async def create(self, record: TaskRecord, limits: TaskLimits) -> None:
        """Keep a new task; what is returned from stays.

        Raises:
            StoreFullError: `select_evictions` finds no room for it; it also gives the
                `to_end` of the error.
        """

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task, or ``None`` if there is none with that id."""

    async def update(self, record: TaskRecord) -> None:
        """Keep how a task stands now, if it is still there."""

    async def list(
        self, owner: str, *, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        """Return tasks of one owner, ordered by creation time and id.

        Args:
            owner: Whose.
            after: Creation time and id of the task that they come after, which may be
                gone; ``None``: from the first one.
            limit: At most so many.
        """

    async def delete(self, task_id: str) -> None:
        """Forget a task, if it is there."""

    async def expire(self, now: float) -> None:
        """Forget the tasks whose time is over."""

    async def aclose(self) -> None:
        """Let go of everything; called twice, it does no more."""


class MemoryTaskStore:
    """Keeps tasks for as long as its process lives."""

    def __init__(self) -> None:
        self._records: dict[str, TaskRecord] = {}  # the oldest first
        self._under_way: Counter[str] = Counter()  # by owner
        self._next_expiry = inf  # or earlier: it only says when to look

    async def open(self, now: float) -> None:
        """Get ready, which takes nothing."""

    async def create(self, record: TaskRecord, limits: TaskLimits) -> None:
        """Keep a new task; see `TaskStore`.

        Raises:
            StoreFullError: There is no room for it.
        """
        is_roomy = (
            len(self._records) < limits.kept
            and self._under_way[record.owner] < limits.unfinished
        )
        if not is_roomy:
            self._make_room(record.owner, limits)
        self._records[record.id] = record
        self._under_way[record.owner] += 1
        if record.expires_at is not None:
            self._next_expiry = min(self._next_expiry, record.expires_at)

    def _make_room(self, owner: str, limits: TaskLimits) -> None:
        held = [HeldTask(r.id, r.owner, r.is_final) for r in self._records.values()]
        evicted, to_end = select_evictions(held, owner, limits)
        if evicted is None:
            raise StoreFullError(to_end=to_end)
        for task_id in evicted:
            self._remove(task_id)

    def _remove(self, task_id: str) -> None:
        record = self._records.pop(task_id, None)
        if record is not None and not record.is_final:
            self._ended(record.owner)

    def _ended(self, owner: str) -> None:
        self._under_way[owner] -= 1
        if not self._under_way[owner]:
            del self._under_way[owner]

    async def get(self, task_id: str) -> TaskRecord | None:
        """Return a task; see `TaskStore`."""
        return self._records.get(task_id)

    async def update(self, record: TaskRecord) -> None:
        """Keep how a task stands now, if it is still there."""
        before = self._records.get(record.id)
        if before is None:
            return
        self._records[record.id] = record
        if record.is_final and not before.is_final:
            self._ended(record.owner)

    async def list(
        self, owner: str, *, after: tuple[float, str] | None, limit: int
    ) -> list[TaskRecord]:
        """Return tasks of one owner; see `TaskStore`."""
        found = [
            record
            for record in self._records.values()
            if record.owner == owner and (after is None or _place(record) > after)
        ]
        return sorted(found, key=_place)[:limit]

    async def delete(self, task_id: str) -> None:
        """Forget a task, if it is there."""
        self._remove(task_id)

    async def expire(self, now: float) -> None:
        """Forget the tasks whose time is over."""
        if now < self._next_expiry:
            return
        for record in [r for r in self._records.values() if r.is_expired(now)]:
            self._remove(record.id)
        times = (record.expires_at for record in self._records.values())
        self._next_expiry = min((t for t in times if t is not None), default=inf)

    async def aclose(self) -> None:
        """Keep what there is: the process lives on."""


def _place(record: TaskRecord) -> tuple[float, str]:
    return record.created_at, record.id
