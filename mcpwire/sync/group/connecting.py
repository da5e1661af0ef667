"""Connecting the servers of a blocking group, all or one, and letting them go."""

from __future__ import annotations

import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.group.base import GroupBase, report_of, taken_already
from mcpwire.group.logs import warn
from mcpwire.group.member import Member
from mcpwire.protocol.many.errors import UnknownServer
from mcpwire.sync._shell.callbacks import check_handlers, discard_awaitable
from mcpwire.sync.client import Client
from mcpwire.sync.group.hearing import Hearing
from mcpwire.sync.group.parallel import run_all
from mcpwire.sync.group.seat import Seat
from mcpwire.sync.group.verbs import Verbs
from mcpwire.types import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Unpack

    from mcpwire.group.member import ClientOptions
    from mcpwire.protocol.host.elicitation import Elicitation, FormHandler
    from mcpwire.protocol.host.roots import Roots
    from mcpwire.protocol.host.sampling import Sampling, SamplingHandler
    from mcpwire.protocol.many.reports import GroupEvent, Report
    from mcpwire.sync.group.source import GroupSource
    from mcpwire.types import Unset

__all__ = ["Connecting"]


class Connecting(Verbs, GroupBase[Seat, Client]):
    """The part of a group that connects and disconnects.

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
        background: bool,
        listen: bool,
        **settings: Any,
    ) -> None:
        # Who is in the group; held for no longer than that takes to look up and change.
        # A signal handler may close the group in the middle of it.
        self._guard = threading.RLock()
        self._background = background
        self._listens = listen
        super().__init__(servers, options, idle=None, restart=None, **settings)
        self._slots = threading.BoundedSemaphore(self._concurrency)
        check_handlers(**self._handlers, on_error=self._on_error)
        for member in self._known.values():
            check_handlers(**member.client_options())
        self._hearing = Hearing(self._limits, self._is_kept, on_notification)
        self._seat_lazy()

    # Who is there...

    def __getitem__(self, name: str) -> Client:
        """Return a server's client.

        That of a lazy server may not be connected yet: `client` connects it.

        Raises:
            UnknownServer: There is none of that name; `NotConnected` where it is known.
        """
        return self.client_of(name)

    def instructions(self) -> dict[str, str]:
        """Return how servers want to be used, by name, of those that said so."""
        with self._guard:
            return super().instructions()

    def heard(
        self, server: str, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Take a notification; for `Seat`."""
        self._hearing.heard(server, method, params, size)
        if method == "notifications/tools/list_changed":
            self.source.tell(server)

    def turned(self, server: str) -> None:
        """Take note that a server came back; for `Seat`."""
        self.source.tell(server)

    def _seat_lazy(self) -> None:
        """Let every server be there that is connected with its first use."""
        if self._is_lazy:
            with self._guard:
                for name, member in self._known.items():
                    if member.enabled and name not in self._seats:
                        self._take_seat(name)

    def _take_seat(self, name: str) -> Seat:
        """Put a server into the group, in the place of one of the same name."""
        member = self._known[name]
        options = self._client_arguments(name)
        if self._background:
            options["background"] = True
        make: Callable[[], Client] = (
            partial(Client, member.target, **options)
            if self._make_client is None
            else partial(self._make_client, name, member.target, **options)
        )
        seat = Seat(
            self, name, member, make, is_lazy=self._is_lazy, listens=self._listens
        )
        seat.before = self._seats.get(name)
        if seat.before is not None:
            seat.before.leave()
        self._seats[name] = seat
        return seat

    def _fresh(self, name: str) -> Seat:
        """Return the seat to connect: another one where this one never was."""
        seat = self._seats.get(name)
        if seat is None or (
            seat.state in {"failed", "needs_auth"} and not seat.has_lived
        ):
            return self._take_seat(name)
        return seat

    def _vacate(self, seat: Seat) -> None:
        """Take a server out of the group, at once."""
        with self._guard:
            if self._seats.get(seat.name) is seat:
                del self._seats[seat.name]
                self._left[seat.name] = monotonic()
        seat.leave()
        self.source.tell(seat.name)

    def _seat(self, server: str) -> Seat:
        seat = self._seats.get(server)
        if seat is None or not (seat.is_there or seat.is_connecting):
            raise self._not_connected(server)
        return seat

    def set_handlers(
        self,
        name: str | None = None,
        *,
        sampling: SamplingHandler | Sampling | Unset | None = UNSET,
        elicitation: FormHandler | Elicitation | Unset | None = UNSET,
        roots: Roots | Unset | None = UNSET,
    ) -> None:
        """Have others answer what a server asks, or all that have none of their own.

        At any time, also for a name that is not known yet; it takes effect at once.
        ``None`` takes a handler away, what is left out stays. What is declared follows
        as `Client.set_handlers` says: in a session with the next handshake.

        Raises:
            ValueError: One of them is nothing of the kind, or an async function; names
                it, changes nothing.
        """
        check_handlers(sampling=sampling, elicitation=elicitation, roots=roots)
        super().set_handlers(
            name, sampling=sampling, elicitation=elicitation, roots=roots
        )

    # All of them...

    def connect_all(self, servers: Mapping[str, Any] | None = None) -> Report:
        """Connect servers in parallel, and say what came of it.

        Each is connected in a thread, at most `concurrency` of them; they have ended
        when this returns.

        Args:
            servers: Targets or `Member`s by name; omitted: all that are known, enabled
                and not connected.

        Where `on_error` has it that a failure is raised, that ends it all: what this
        call had connected is closed again. So it is on Ctrl-C.

        Raises:
            LocalProtocolError: One of these names is connected already.
            Exception: A server could not be connected, and `on_error` is ``"raise"``
                (of several at once the first by order), or what it raised.
        """
        with self._guard:
            if servers is not None:
                for name in servers:
                    self._check_free(name)
                self._know(servers)
            names = tuple(self._known if servers is None else servers)
            seats = [
                self._fresh(name) if servers is None else self._take_seat(name)
                for name in names
                if self._known[name].enabled and not self._is_ready(name)
            ]
        attempts = _Attempts(self._on_error)
        try:
            attempts.run(seats, self._concurrency)
        except BaseException:
            self._undo(attempts.taken)
            raise
        finally:
            order = [seat.name for seat in seats]
            self._report = report_of(order, attempts.failed, self._seats)
        for seat in attempts.taken:
            self.source.tell(seat.name)
        return self._report

    def _undo(self, taken: Iterable[Seat]) -> None:
        """Close what this call alone had connected."""
        unwanted = [seat for seat in taken if seat.give_back() and not seat.is_closed]
        for seat in unwanted:
            self._vacate(seat)
        run_all([seat.close_quietly for seat in unwanted], len(unwanted))

    # One of them...

    def connect(
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
        outcome. Ctrl-C undoes what had begun.

        Raises:
            LocalProtocolError: It is connected already, and is not to be replaced.
            UnknownServer: There is no target, and none is known.
            ConnectionClosed: It was disconnected meanwhile.
            Exception: What `Client.connect` raises.
        """
        with self._guard:
            is_new = name not in self._known
            seat = self._seat_for(name, target, replace=replace, options=options)
        try:
            self._connect_seat(seat)
        except Exception:
            raise
        except BaseException:
            if is_new and name not in self._seats:
                self._known.pop(name, None)
            raise
        return seat.client

    def _seat_for(
        self, name: str, target: Any, *, replace: bool, options: Mapping[str, Any]
    ) -> Seat:
        if target is None and not options and not replace:
            seat = self._seats.get(name)
            if seat is not None and (seat.is_connecting or seat.has_lived):
                if not seat.is_connecting and seat.state == "ready":
                    raise taken_already(name)
                return seat
        if not replace:
            self._check_free(name)
        if target is None:
            member = self._known.get(name)
            if member is None:
                raise UnknownServer(name, known=self._known)
        else:
            member = Member.of(target)
        member = attrs.evolve(member, **options)
        check_handlers(**member.client_options())
        self._know({name: member})
        return self._take_seat(name)

    def client(self, name: str) -> Client:
        """Return a server's client, connected: a lazy one is connected first.

        Raises what `connect` does.
        """
        return self.connected(name)

    def connected(self, name: str) -> Client:
        """Do what `client` does; for `GroupSource`."""
        seat = self._seat(name)
        if seat.needs_opening:
            self._connect_seat(seat)
        return seat.client

    def connected_in_turn(self, name: str) -> Client:
        """Do what `connected` does, with no more of them at once than may be.

        For what is done to many servers together; what is asked of one waits for none.
        """
        if not self._seat(name).needs_opening:
            return self.client_of(name)
        with self._slots:
            return self.connected(name)

    def _connect_seat(self, seat: Seat) -> None:
        try:
            seat.connect()
        except Exception as error:
            warn("connecting", seat.name, error)
            raise
        except BaseException:
            if not (seat.is_connecting or seat.has_lived or seat.is_closed):
                self._vacate(seat)  # nobody wants it any more
            raise
        self.source.tell(seat.name)

    # The end...

    def disconnect(self, name: str) -> None:
        """Close a server's connection; a name that is unknown is fine.

        It leaves the group at once, and what waits for it gets `ConnectionClosed`.
        Ctrl-C ends the server's process at once. The same name can be connected again
        at any time, also without a target.
        """
        seat = self._seats.get(name)
        if seat is None:
            return
        self._vacate(seat)
        try:
            seat.close()
        except Exception as error:
            warn("disconnecting", name, error)
            raise

    def disconnect_all(self) -> None:
        """Close every connection, in parallel; all are tried.

        Raises:
            Exception: The first that could not be closed (by order of the servers);
                the others are logged.
        """
        with self._guard:
            seats = list(self._seats.values())
            for seat in seats:
                self._vacate(seat)
        endings = _Endings(seats)
        run_all(
            [partial(endings.end, seat) for seat in seats], len(seats), whole=endings
        )
        for seat in seats:
            if seat.name in endings.failed:
                raise endings.failed[seat.name]


class _Attempts:
    """The connecting of several servers, as a whole."""

    def __init__(self, on_error: Any) -> None:
        self._on_error = on_error
        self._judging = threading.Lock()
        self._verdicts: dict[str, BaseException] = {}
        self._busy: dict[Seat, None] = {}
        self.is_stopped = False
        self.failed: dict[str, Exception] = {}
        self.taken: list[Seat] = []

    def run(self, seats: list[Seat], limit: int) -> None:
        """Connect them; raise what ends it all."""
        tasks = [partial(self._attempt, seat) for seat in seats]
        run_all(tasks, limit, whole=self)
        for seat in seats:
            if seat.name in self._verdicts:
                raise self._verdicts[seat.name]

    def stop(self) -> None:
        """End what nobody else waits for."""
        self.is_stopped = True
        for seat in tuple(self._busy):
            seat.interrupt()

    def _attempt(self, seat: Seat) -> None:
        if self.is_stopped:
            return
        self._busy[seat] = None
        try:
            seat.connect()
        except Exception as error:  # noqa: BLE001 - `_judge` raises it, or nobody
            if not self.is_stopped:
                self._note(seat, error)
        else:
            self.taken.append(seat)
        finally:
            self._busy.pop(seat, None)

    def _note(self, seat: Seat, error: Exception) -> None:
        error.add_note(f"connecting the server {seat.name!r} of a group")
        self.failed[seat.name] = error
        warn("connecting", seat.name, error)
        if seat.is_closed:  # somebody disconnected it meanwhile, and wants that
            return
        try:
            with self._judging:
                self._judge(seat.name, error)
        except BaseException as verdict:  # noqa: BLE001 - raised where it is waited for
            self._verdicts[seat.name] = verdict
            self.stop()

    def _judge(self, name: str, error: Exception) -> None:
        """Raise what ends it all, or return: it is left out."""
        if self._on_error == "raise":
            raise error
        if callable(self._on_error) and discard_awaitable(self._on_error(name, error)):
            raise LocalProtocolError(
                "on_error must be a plain function in mcpwire.sync, "
                f"got {self._on_error!r}"
            )


class _Endings:
    """The closing of several servers, as a whole."""

    def __init__(self, seats: list[Seat]) -> None:
        self._seats = seats
        self.is_stopped = False
        self.failed: dict[str, Exception] = {}

    def end(self, seat: Seat) -> None:
        """Close one."""
        try:
            seat.close()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            warn("disconnecting", seat.name, error)
            self.failed[seat.name] = error

    def stop(self) -> None:
        """Wait for no server any more."""
        self.is_stopped = True
        for seat in self._seats:
            seat.abandon()
