"""Connecting the servers of a group, all or one, and letting them go."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.group.base import report_of, taken_already
from mcpwire.group.logs import warn
from mcpwire.group.member import Member
from mcpwire.group.roster import Roster
from mcpwire.group.seat import CLOSE_S
from mcpwire.protocol.many.errors import UnknownServer
from mcpwire.transports.handlers import invoke

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    from mcpwire.client import Client
    from mcpwire.group.member import ClientOptions
    from mcpwire.group.seat import Seat
    from mcpwire.protocol.many.reports import Report

__all__ = ["Connecting"]


class Connecting(Roster):
    """The part of a group that connects and disconnects."""

    async def connect_all(self, servers: Mapping[str, Any] | None = None) -> Report:
        """Connect servers in parallel, and say what came of it.

        Args:
            servers: Targets or `Member`s by name; omitted: all that are known, enabled
                and not connected.

        Where `on_error` has it that a failure is raised, that ends it all: what this
        call had connected is closed again. So it is where the caller is cancelled.

        Raises:
            LocalProtocolError: One of these names is connected already.
            Exception: A server could not be connected, and `on_error` is ``"raise"``
                (of several at once the first by order), or what it raised.
        """
        self._check_loop()
        if servers is not None:
            for name in servers:
                self._check_free(name)
            self._know(servers)
        names = tuple(self._known if servers is None else servers)
        # Who has a place of its own already keeps it, but not for another target.
        seats = [
            (servers is None and self._seats.get(name)) or self._take_seat(name)
            for name in names
            if self._known[name].enabled and not self._is_ready(name)
        ]
        failed: dict[str, Exception] = {}
        taken: list[Seat] = []
        loop = asyncio.get_running_loop()
        attempts = {
            seat.name: loop.create_task(
                self._attempt(seat, failed, taken), name="mcpwire-group-attempt"
            )
            for seat in map(self._fresh, seats)
        }
        try:
            await self._settle(attempts)
        except BaseException:
            await self._undo(taken)
            raise
        finally:
            self._report = report_of(attempts, failed, self._seats)
        return self._report

    async def _attempt(
        self, seat: Seat, failed: dict[str, Exception], taken: list[Seat]
    ) -> None:
        """Connect one server when there is room; raise what ends it all."""
        try:
            async with self.slots:
                await seat.connect()
        except asyncio.CancelledError:
            if seat.is_unclaimed:  # it was about to be told
                taken.append(seat)
            raise
        except Exception as error:  # noqa: BLE001 - `_judge` raises it, or nobody
            error.add_note(f"connecting the server {seat.name!r} of a group")
            failed[seat.name] = error
            warn("connecting", seat.name, error)
            if seat.is_closed:  # somebody disconnected it meanwhile, and wants that
                return
            await self._judge(seat.name, error)
        else:
            taken.append(seat)

    async def _judge(self, name: str, error: Exception) -> None:
        """Raise what ends it all, or return: it is left out."""
        if self._on_error == "raise":
            raise error
        if callable(self._on_error):
            outcome = invoke(self._on_error, name, error)
            if inspect.isawaitable(outcome):
                await outcome

    async def _settle(self, attempts: Mapping[str, asyncio.Task[None]]) -> None:
        """Wait for all of them, or for the first that raises; leave none running."""
        if not attempts:
            return
        tasks = tuple(attempts.values())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            running = [task for task in tasks if not task.done()]
            for task in running:
                task.cancel()
            if running:
                await _all_done(running)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _undo(self, taken: list[Seat]) -> None:
        """Close what this call alone had connected."""
        unwanted = [seat for seat in taken if seat.give_back() and not seat.is_closed]
        for seat in unwanted:
            self._vacate(seat)
        if unwanted:
            closing = [self._spawn(seat.close_quietly(), "undo") for seat in unwanted]
            await _all_done(closing)

    async def connect(
        self,
        name: str,
        target: Any = None,
        *,
        replace: bool = False,
        **options: Unpack[ClientOptions],
    ) -> Client:
        """Connect one server and return its client; `on_error` has no say.

        Args:
            name: What it is called in the group.
            target: A target or `Member`; omitted: the one that the name is known for.
            replace: Whether a server that is connected by that name makes room: it
                leaves the group at once, and is closed before the new one is opened.
            options: Of the client, otherwise than the group's.

        Who connects the same name at the same time, without a target, shares the
        outcome. Cancelling the last who waits undoes what had begun.

        Raises:
            LocalProtocolError: It is connected already, and is not to be replaced.
            UnknownServer: There is no target, and none is known.
            ConnectionClosed: It was disconnected meanwhile.
            Exception: What `Client.connect` raises.
        """
        self._check_loop()
        if target is None and not options and not replace:
            seat = self._seats.get(name)
            if seat is not None and (seat.is_connecting or seat.has_lived):
                if not seat.is_connecting and seat.state == "ready":
                    raise taken_already(name)
                await self._connect_seat(seat)
                return seat.client
        if not replace:
            self._check_free(name)
        if target is None:
            member = self._known.get(name)
            if member is None:
                raise UnknownServer(name, known=self._known)
        else:
            member = Member.of(target)
        is_new = name not in self._known
        self._know({name: attrs.evolve(member, **options)})
        seat = self._take_seat(name)
        seat.is_new = is_new
        await self._connect_seat(seat)
        return seat.client

    async def client(self, name: str) -> Client:
        """Return a server's client, connected: a lazy one is connected first.

        Raises what `connect` does.
        """
        client = await self.connected(name)
        self._seats[name].is_pinned = True
        return client

    async def connected(self, name: str) -> Client:
        """Return a server's client, connected, for a moment; for `GroupSource`."""
        seat = self._seat(name)
        if seat.needs_opening:
            await self._connect_seat(seat)
        return seat.client

    async def connected_in_turn(self, name: str) -> Client:
        """Do what `connected` does, with no more of them at once than may be.

        For what is done to many servers together; what is asked of one waits for none.
        """
        if not self._seat(name).needs_opening:
            return self.client_of(name)
        async with self.slots:
            return await self.connected(name)

    async def _connect_seat(self, seat: Seat) -> None:
        try:
            await seat.connect()
        except asyncio.CancelledError:
            if seat.is_unclaimed and not seat.is_lazy:
                await self._undo([seat])
            elif not (seat.is_connecting or seat.is_there or seat.is_closed):
                self._vacate(seat)  # nobody wants it any more
            if seat.is_new and seat.name not in self._seats:
                self._known.pop(seat.name, None)
            raise
        except Exception as error:
            warn("connecting", seat.name, error)
            raise

    async def disconnect(self, name: str) -> None:
        """Close a server's connection; a name that is unknown is fine.

        It leaves the group at once, and what waits for it gets `ConnectionClosed`.
        Cancelling this leaves the closing under way. The same name can be connected
        again at any time, also without a target.

        Raises:
            RequestTimeout: Closing took too long; what is left goes on by itself.
        """
        seat = self._seats.get(name)
        if seat is None:
            return
        self._check_loop()
        self._vacate(seat)
        try:
            await asyncio.shield(self._spawn(seat.close(), "disconnect"))
        except Exception as error:
            warn("disconnecting", name, error)
            raise

    async def disconnect_all(self) -> None:
        """Close every connection, in parallel; all are tried.

        Raises:
            Exception: The first that could not be closed (by order of the servers);
                the others are logged.
        """
        seats = list(self._seats.values())
        if seats:
            self._check_loop()
        for seat in seats:
            self._vacate(seat)
        closing = [self._spawn(seat.close(), "disconnect") for seat in seats]
        if not closing:
            return
        await asyncio.wait(closing)
        first: BaseException | None = None
        for seat, task in zip(seats, closing, strict=True):
            error = None if task.cancelled() else task.exception()
            if error is not None:
                warn("disconnecting", seat.name, error)
                first = first or error
        if first is not None:
            raise first

    async def aclose(self) -> None:
        """Close every connection, and end events and tool sets; bounded in time.

        Works from any task, twice, and can be connected again. Raises what
        `disconnect_all` does, after all is closed.
        """
        self.source.tell(None)
        try:
            await self.disconnect_all()
        finally:
            await self._hearing.close()
            current = asyncio.current_task()
            left = [task for task in self._background if task is not current]
            if left:
                await asyncio.wait(left, timeout=CLOSE_S)
            if not self._seats:
                self._loop = None


async def _all_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until these have ended, also where the caller is cancelled meanwhile."""
    waiting = [task for task in tasks if not task.done()]
    while waiting:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(waiting)
        waiting = [task for task in waiting if not task.done()]
