"""Who is in a group on asyncio: its seats, its loop, and the tasks it has begun."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpwire.client import Client
from mcpwire.errors import LocalProtocolError
from mcpwire.group.base import GroupBase
from mcpwire.group.hearing import Hearing
from mcpwire.group.seat import CLOSE_S, Seat
from mcpwire.group.verbs import Verbs
from mcpwire.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from mcpwire.group.reports import GroupEvent
    from mcpwire.group.source import GroupSource

__all__ = ["Roster"]


class Roster(GroupBase[Seat, Client], Verbs):
    """The part of a group that waits for nothing, and what its verbs need of it.

    Attributes:
        source: The group, as its tool sets see it.
    """

    source: GroupSource

    def __init__(
        self,
        servers: Mapping[str, Any],
        options: Mapping[str, Any],
        *,
        on_notification: Callable[[GroupEvent], Any] | None,
        **settings: Any,
    ) -> None:
        super().__init__(servers, options, **settings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore | None = None
        self._background: set[asyncio.Task[Any]] = set()
        self._hearing = Hearing(self._limits, self._is_kept, on_notification)
        self._seat_lazy()

    @property
    def slots(self) -> asyncio.Semaphore:
        """Bounds how many are being connected at once."""
        if self._slots is None:
            self._slots = asyncio.Semaphore(self._concurrency)
        return self._slots

    def heard(
        self, server: str, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Take a notification; for `Seat`."""
        self._hearing.heard(server, method, params, size)
        if method == "notifications/tools/list_changed":
            self.source.tell(server)

    def turned(self, server: str) -> None:
        """Take note that a server joined, came back or left; for `Seat`."""
        self.source.tell(server)

    def _seat_lazy(self) -> None:
        """Let every server be there that is connected with its first use."""
        if self._is_lazy:
            for name, member in self._known.items():
                if member.enabled and name not in self._seats:
                    self._take_seat(name)

    def _take_seat(self, name: str) -> Seat:
        """Put a server into the group, in the place of one of the same name."""
        member = self._known[name]
        options = self._client_arguments(name)
        limits = options.get("limits", DEFAULT_LIMITS)
        make: Any = self._make_client or _client
        seat = Seat(
            self,
            name,
            member,
            partial(make, name, member.target, **options),
            is_lazy=self._is_lazy,
            patience=CLOSE_S + limits.close_grace + limits.terminate_grace,
        )
        old = self._seats.get(name)
        if old is not None:
            old.leave()
            seat.before = self._spawn(old.close_quietly(), "replace")
        self._seats[name] = seat
        return seat

    def _fresh(self, seat: Seat) -> Seat:
        """Return the seat to connect: another one where this one never was."""
        if seat.state in {"failed", "needs_auth"} and not seat.has_lived:
            return self._take_seat(seat.name)
        return seat

    def _vacate(self, seat: Seat) -> None:
        """Take a server out of the group, at once."""
        del self._seats[seat.name]
        self._left[seat.name] = monotonic()
        seat.leave()
        self.source.tell(seat.name)

    def _seat(self, server: str) -> Seat:
        seat = self._seats.get(server)
        if seat is None or not (seat.is_there or seat.is_connecting):
            raise self._not_connected(server)
        if self._loop is None:
            self._check_loop()
        return seat

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] = loop.create_task(work, name=f"mcpwire-group-{name}")
        self._background.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # seen, even where nobody waits any more

    def _check_loop(self) -> None:
        """Refuse another loop than the one that it is used on.

        Raises:
            LocalProtocolError: There is no asyncio loop, or it is another one.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise LocalProtocolError(
                "mcpwire.Group needs a running asyncio loop; "
                "without one use mcpwire.sync.Group"
            ) from None
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise LocalProtocolError(
                "this group belongs to another event loop; use it where it was "
                "connected, or close it there first"
            )
        if self._loop is not None:  # it ended under the group
            for seat in self._seats.values():
                seat.forget_loop()
            self._background.clear()
        self._loop = loop
        self._slots = None


def _client(_: str, target: Any, **options: Any) -> Client:
    return Client(target, **options)
