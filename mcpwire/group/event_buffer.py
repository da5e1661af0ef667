"""What one consumer of a group's notifications has not taken yet, bounded.

Each server has a buffer of its own (`protocol.subscriptions`), so that none can push
out what another said. They are emptied in turns: what one server said stays in its
order, and a server that never stops keeps nobody else waiting.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpwire.protocol.subscriptions import EventBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GroupBuffer"]

Item: TypeAlias = tuple[str, str, "dict[str, Any] | None", int]
"""Server, method, params, and how many bytes it had on the wire."""


class GroupBuffer:
    """Notifications of many servers, at most `limit` ordinary ones of each.

    Args:
        limit: How many of one server's wait that may get lost.
        room: How many bytes these may have had on the wire.
        is_kept: Tells of a server and a URI whether no update of it may get lost.

    Which may get lost, which are one with an earlier one, is said at `EventBuffer`.
    """

    __slots__ = ("_buffers", "_gone", "_is_kept", "_limit", "_ready", "_room", "_size")

    def __init__(
        self,
        limit: int,
        *,
        room: float,
        is_kept: Callable[[str, str], bool],
    ) -> None:
        self._limit = limit
        self._room = room
        self._is_kept = is_kept
        self._buffers: dict[str, EventBuffer] = {}
        self._ready: deque[str] = deque()  # servers with something waiting, each once
        self._size = 0
        self._gone = 0

    def put(
        self, server: str, method: str, params: dict[str, Any] | None, size: int = 0
    ) -> bool:
        """Let a notification wait; tell whether something new waits now."""
        buffer = self._buffers.get(server)
        if buffer is None:
            buffer = self._buffers[server] = EventBuffer(
                self._limit,
                partial(self._is_kept, server),
                room=self._room,
                size=lambda: self._size,
            )
        was_ready = bool(buffer)
        self._size = size
        is_new = buffer.put(method, params)
        if not was_ready:
            if buffer:
                self._ready.append(server)
        elif not buffer:  # the newest was too large, and is lost with all before it
            self._ready.remove(server)
        return is_new and bool(buffer)

    def pop(self) -> Item:
        """Take the oldest notification of the server that is next.

        Raises:
            IndexError: None waits.
        """
        server = self._ready.popleft()
        buffer = self._buffers[server]
        method, params = buffer.pop()
        if buffer:
            self._ready.append(server)
        elif not buffer.dropped:  # nothing to remember: names may come and go
            del self._buffers[server]
        return server, method, params, 0

    def forget(self, server: str) -> None:
        """Forget what one server said, and the server; its losses stay counted."""
        buffer = self._buffers.pop(server, None)
        if buffer is not None:
            self._gone += buffer.dropped
            if buffer:
                self._ready.remove(server)

    def clear(self) -> None:
        """Forget all that waits; the losses stay counted."""
        for server in tuple(self._buffers):
            self.forget(server)

    @property
    def dropped(self) -> int:
        """How many notifications were lost."""
        return self._gone + sum(each.dropped for each in self._buffers.values())

    def dropped_of(self, server: str) -> int:
        """Return how many notifications of one server were lost since it was known."""
        buffer = self._buffers.get(server)
        return 0 if buffer is None else buffer.dropped

    def __bool__(self) -> bool:
        """Tell whether any waits."""
        return bool(self._ready)
