"""What one consumer of notifications has not taken yet, bounded whatever a peer sends.

It knows no consumer and no waiting: a shell puts in what comes and takes out what is
asked for.

A notification that only says "look again" is worth the same once as ten times, so it is
**coalesced**: one entry waits for each subject, with the newest params, at the place of
the first. A notification that must not get lost is **kept**; all others are
**ordinary**, and beyond a limit, or beyond the room in bytes that it may take, the
oldest ordinary one is dropped and counted.

=========================================  =============  ============================
notification                               coalesced by   kept
=========================================  =============  ============================
``list_changed`` of the specification      method         always: there are four
``notifications/resources/updated``        uri            where the consumer says so
``notifications/tasks``, ``tasks/status``  taskId         no: `tasks/get` tells as much
``notifications/elicitation/complete``     elicitationId  no: it may fail to come anyway
everything else                            not            no
=========================================  =============  ============================
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpwire.protocol.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["EventBuffer"]

Event: TypeAlias = tuple[str, "dict[str, Any] | None"]

# By name and not by ending: a peer may invent as many `.../list_changed` as it likes.
_LISTS: Final = frozenset(
    spec.name for spec in METHODS if spec.name.endswith("/list_changed")
)

_UPDATED: Final = "notifications/resources/updated"

# Task notifications carry the whole state (SEP-2663, "Task Status Notifications"), so
# the newest tells everything that is still true.
_SUBJECTS: Final = {
    _UPDATED: "uri",
    "notifications/tasks": "taskId",
    "notifications/tasks/status": "taskId",
    "notifications/elicitation/complete": "elicitationId",
}
"""Method -> the member of its params that names what it is about."""


_SMALL: Final = 4_096
"""What is kept beside the room is cut to what it is about where it is larger."""


def _nothing_is_kept(_uri: str) -> bool:
    return False


def _no_size() -> int:
    return 0


class EventBuffer:
    """Notifications in the order they came, at most `limit` ordinary ones of them.

    `is_kept` tells of which resources no update may get lost. It must hold for finitely
    many URIs (those subscribed to, not all that begin like one), as each of them may
    wait beside the ordinary ones. `size` tells how many bytes the notification that is
    being put in had on the wire. Every operation takes constant time.

    Attributes:
        dropped: How many ordinary notifications were lost.
        coalesced: How many notifications found one like them still waiting.
    """

    __slots__ = (
        "_is_kept",
        "_left",
        "_limit",
        "_ordinary",
        "_serial",
        "_size",
        "_waiting",
        "coalesced",
        "dropped",
    )

    def __init__(
        self,
        limit: int,
        is_kept: Callable[[str], bool] = _nothing_is_kept,
        *,
        room: float = inf,
        size: Callable[[], int] = _no_size,
    ) -> None:
        self._limit = limit
        self._is_kept = is_kept
        self._left = room
        self._size = size
        # Ordered dicts, since taking the first entry of a plain dict again and again
        # walks over the places of those taken before.
        self._waiting: OrderedDict[Hashable, Event] = OrderedDict()
        self._ordinary: OrderedDict[Hashable, int] = OrderedDict()  # and its size
        self._serial = 0
        self.dropped = 0
        self.coalesced = 0

    def put(self, method: str, params: dict[str, Any] | None) -> bool:
        """Let a notification wait; tell whether something new waits now."""
        key, is_kept = self._place(method, params)
        is_new = key not in self._waiting
        size = self._size()
        # What was kept while it waits stays so.
        is_kept = is_kept or not (is_new or key in self._ordinary)
        if is_kept:
            self._left += self._ordinary.pop(key, 0)
            if size > _SMALL:
                params = _cut(method, params)
        else:
            self._left += self._ordinary.get(key, 0) - size
            self._ordinary[key] = size
        self._waiting[key] = (method, params)
        if not is_new:
            self.coalesced += 1
        while len(self._ordinary) > self._limit or self._left < 0:
            oldest, freed = self._ordinary.popitem(last=False)
            self._left += freed
            del self._waiting[oldest]
            self.dropped += 1
        return is_new

    def _place(
        self, method: str, params: dict[str, Any] | None
    ) -> tuple[Hashable, bool]:
        """Return the key a notification waits under, and whether it is kept."""
        if method in _LISTS:
            return method, True
        if (member := _SUBJECTS.get(method)) is not None and params is not None:
            subject = params.get(member)
            if isinstance(subject, str):
                is_kept = method == _UPDATED and self._is_kept(subject)
                return (method, subject), is_kept
        self._serial += 1
        return self._serial, False

    def pop(self) -> Event:
        """Take the oldest notification out.

        Raises:
            IndexError: None waits.
        """
        if not self._waiting:
            raise IndexError("no notification waits")
        key, event = self._waiting.popitem(last=False)
        self._left += self._ordinary.pop(key, 0)
        return event

    def clear(self) -> None:
        """Forget what waits; the counters stay."""
        self._waiting.clear()
        self._left += sum(self._ordinary.values())
        self._ordinary.clear()

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)


def _cut(method: str, params: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the params with nothing but what the notification is about."""
    member = _SUBJECTS.get(method)
    return None if member is None or params is None else {member: params[member]}
