"""Who is in a group: servers that are known, and the seats of those that are there."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpwire.client import Client
from mcpwire.errors import LocalProtocolError, MCPError
from mcpwire.group.errors import NotConnected
from mcpwire.group.hearing import Hearing
from mcpwire.group.member import HANDLERS, Member
from mcpwire.group.seat import CLOSE_S, Seat
from mcpwire.group.verbs import Verbs
from mcpwire.limits import DEFAULT_LIMITS, check_timeout
from mcpwire.protocol.many.errors import UnknownServer
from mcpwire.protocol.many.reports import Report, ServerStatus
from mcpwire.transports.targets import resolve
from mcpwire.types import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from mcpwire.group.source import GroupSource
    from mcpwire.protocol.many.policy.rules import ServerRules
    from mcpwire.protocol.many.reports import GroupEvent
    from mcpwire.protocol.many.restarting import Backoff

__all__ = ["Roster", "taken_already"]


class Roster(Verbs):
    """The part of a group that waits for nothing, and what its verbs need of it.

    Attributes:
        idle: Seconds after which a lazy server is closed that nobody uses.
        backoff: How a lost connection is opened again.
        source: The group, as its tool sets see it.
    """

    source: GroupSource

    def __init__(
        self,
        servers: Mapping[str, Any],
        client_options: dict[str, Any],
        handlers: dict[str, Any],
        *,
        concurrency: int,
        is_lazy: bool,
        idle: float | None,
        restart: Backoff | None,
        on_notification: Callable[[GroupEvent], Any] | None,
        make_client: Callable[..., Client] | None,
    ) -> None:
        self.idle = idle
        self.backoff = restart
        self._client_options = client_options
        self._handlers = handlers
        self._own_handlers: dict[str, dict[str, Any]] = {}
        self._concurrency = concurrency
        self._is_lazy = is_lazy
        self._make_client = make_client
        self._known: dict[str, Member] = {}
        self._seats: dict[str, Seat] = {}
        self._left: dict[str, float] = {}  # when those did that are known
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore | None = None
        self._background: set[asyncio.Task[Any]] = set()
        limits = client_options.get("limits", DEFAULT_LIMITS)
        self._hearing = Hearing(limits, self._is_kept, on_notification)
        self._report = Report()
        self._know(servers)
        self._seat_lazy()

    # Who is there...

    def __getitem__(self, name: str) -> Client:
        """Return a server's client.

        That of a lazy server may not be connected yet: `client` connects it.

        Raises:
            UnknownServer: There is none of that name; `NotConnected` where it is known.
        """
        seat = self._seats.get(name)
        if seat is None or not seat.is_there:
            raise self._not_connected(name)
        seat.is_pinned = True
        return seat.client

    def __contains__(self, name: object) -> bool:
        """Tell whether a server of that name is in the group."""
        seat = self._seats.get(name) if isinstance(name, str) else None
        return seat is not None and seat.is_there

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order they were given."""
        return iter([name for name in self._known if name in self])

    def __len__(self) -> int:
        """Return how many servers are in the group."""
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        """Tell that it is a group, also an empty one."""
        return True

    def __repr__(self) -> str:
        """Return one readable line."""
        said = ", ".join(f"{each.server} {each.state}" for each in self._statuses())
        return f"<mcpwire.Group {said or 'empty'}>"

    @property
    def report(self) -> Report:
        """What came of the last `connect_all`."""
        return self._report

    @property
    def problems(self) -> dict[str, Exception]:
        """Why servers are not ready, by name; of those where something went wrong."""
        seats = (self._seats.get(name) for name in self._known)
        return {
            seat.name: seat.problem
            for seat in seats
            if seat is not None and seat.problem is not None
        }

    def status(self) -> dict[str, ServerStatus]:
        """Return how each known server is just now, by name."""
        return {each.server: each for each in self._statuses()}

    def _statuses(self) -> Iterator[ServerStatus]:
        for name in self._known:
            seat = self._seats.get(name)
            yield (
                ServerStatus(server=name, state="idle", since=self._left.get(name, 0.0))
                if seat is None
                else seat.status()
            )

    def instructions(self) -> dict[str, str]:
        """Return how servers want to be used, by name, of those that said so."""
        said = {name: self._seats[name].client.instructions for name in self}
        return {name: text for name, text in said.items() if text is not None}

    def rules(self, name: str) -> ServerRules | None:
        """Return what holds for a server's tools alone."""
        member = self._known.get(name)
        return None if member is None else member.rules()

    # Inside...

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

    def _is_kept(self, server: str, uri: str) -> bool:
        seat = self._seats.get(server)
        return seat is not None and uri in seat.client.subscribed

    def _know(self, servers: Mapping[str, Any]) -> None:
        """Take servers down, all or none.

        Raises:
            ValueError: A name is empty or no string, or a target is none.
        """
        members: dict[str, Member] = {}
        name: Any
        for name, given in servers.items():
            if not isinstance(name, str) or not name:
                raise ValueError(f"a server's name must be a string, got {name!r}")
            member = members[name] = Member.of(given)
            if self._make_client is None:
                try:
                    resolve(member.target)
                except ValueError as error:
                    raise ValueError(f"server {name!r}: {error}") from None
        self._known.update(members)

    def _seat_lazy(self) -> None:
        """Let every server be there that is connected with its first use."""
        if self._is_lazy:
            for name, member in self._known.items():
                if member.enabled and name not in self._seats:
                    self._take_seat(name)

    def _take_seat(self, name: str) -> Seat:
        """Put a server into the group, in the place of one of the same name."""
        member = self._known[name]
        options = {**self._client_options, **member.client_options()}
        options.update(self._handlers_for(name))
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
        seat.before = self._seats.get(name)
        if seat.before is not None:
            seat.before.leave()
        self._seats[name] = seat
        return seat

    def _vacate(self, seat: Seat) -> None:
        """Take a server out of the group, at once."""
        if self._seats.get(seat.name) is seat:
            del self._seats[seat.name]
            self._left[seat.name] = monotonic()
        seat.leave()
        self.source.tell(seat.name)

    def _handlers_for(self, name: str) -> dict[str, Any]:
        """Return what answers a server's questions: its own before the group's."""
        own = self._known[name].client_options()
        return {
            **dict.fromkeys(HANDLERS),
            **self._handlers,
            **{key: own[key] for key in HANDLERS if key in own},
            **self._own_handlers.get(name, {}),
        }

    def _check_free(self, name: str) -> None:
        seat = self._seats.get(name)
        if seat is not None and (seat.is_connecting or seat.state == "ready"):
            raise taken_already(name)

    def _seat(self, server: str) -> Seat:
        seat = self._seats.get(server)
        if seat is None or not (seat.is_there or seat.is_connecting):
            raise self._not_connected(server)
        if self._loop is None:
            self._check_loop()
        return seat

    def _not_connected(self, server: str) -> MCPError:
        if server not in self._known:
            return UnknownServer(server, known=self._known)
        seat = self._seats.get(server)
        problem = None if seat is None else seat.problem
        return NotConnected(server, known=self._known, problem=problem)

    def _timeout_of(self, seat: Seat) -> float | None:
        timeout = seat.member.timeout
        found = self._client_options["timeout"] if timeout is UNSET else timeout
        return check_timeout(found)

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
            self._seats.clear()
            self._background.clear()
            self._seat_lazy()
        self._loop = loop
        self._slots = None


def _client(_: str, target: Any, **options: Any) -> Client:
    return Client(target, **options)


def taken_already(name: str) -> LocalProtocolError:
    """Build the error for a name that is in use."""
    return LocalProtocolError(
        f"the server {name!r} is connected already; replace=True closes that one first"
    )
