"""MCP over HTTP+SSE, the transport of 2024-11-05, for the blocking client.

An event stream brings what it brings while nobody waits, and each message is a request
of its own: so a loop in a thread moves the bytes (`mcpwire.sync._relay`), exactly as it
does for the asyncio client, and hands on lines. Calls are this side's.
"""

from __future__ import annotations

import contextlib
import socket
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import ref

from mcpwire.errors import ConnectError, ConnectionClosed, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.sync._bell import Bell
from mcpwire.sync._duplex import Pending
from mcpwire.sync._relay import Relay, RelayedPipes
from mcpwire.transports.http import opening
from mcpwire.transports.http.legacy.link import LegacyLink
from mcpwire.transports.http.legacy.owner import OwnFields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.sync._lead import Waiter
    from mcpwire.sync._pending import EndFn
    from mcpwire.transports.base import CallHandle, Inbound, NotifyFn
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.legacy.owner import Fields
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.patience import Patience
    from mcpwire.transports.tracing import Trace

    OpenEngine: TypeAlias = Callable[[Http, Limits], Engine]

__all__ = ["BlockingLegacy"]

NAME: Final = "mcpwire-sse"

LONGEST_WAIT_S: Final = 1.0
"""Nobody waits longer at a time: a deadline can be moved."""


class BlockingLegacy(RelayedPipes):
    """A connection to a server that speaks HTTP+SSE."""

    __slots__ = ("_http", "_patience")

    _relay: _Host

    def __init__(
        self,
        target: Http,
        inbound: Inbound,
        ours: socket.socket,
        host: _Host,
        limits: Limits,
    ) -> None:
        self._http = target
        self._patience: Patience | None = None
        super().__init__(inbound, ours, host, limits=limits, target=str(target))
        host.channel = ref(self)

    @classmethod
    def open(
        cls,
        target: Http,
        inbound: Inbound,
        limits: Limits = DEFAULT_LIMITS,
        *,
        open_engine: OpenEngine | None = None,
        patience: Patience | None = None,
    ) -> BlockingLegacy:
        """Begin to connect; `ready` waits for it, and calls may be made before.

        Their clocks stand still when `patience` says so.

        Raises:
            ConnectError: The target brings a client that cannot be used here.
        """
        if target.http_client is not None:
            raise ConnectError(
                f"{target}: HTTP+SSE runs on a loop of its own, where a blocking "
                "http_client= cannot be used; leave it out",
                target=str(target),
            )
        ours, theirs = socket.socketpair()
        host = _Host(target, theirs, limits, open_engine or opening.open_engine)
        try:
            host.start()
            made = cls(target, inbound, ours, host, limits)
            made._patience = patience
            return made
        except BaseException:
            ours.close()
            host.join(limits)
            raise

    def ready(self, deadline: Deadline | None = None) -> None:
        """Wait until the server has named its endpoint.

        Raises:
            ConnectError: It could not be reached, or does not speak HTTP+SSE.
            RemoteProtocolError: The endpoint it named is refused.
            ConnectionClosed: The connection was closed meanwhile, or since.
            TimeoutError: The deadline passed.
        """
        self._refuse_fork()
        host = self._relay
        seconds = LONGEST_WAIT_S
        while not host.is_settled.wait(max(seconds, 0.0)):
            if deadline is not None:
                left = deadline.at - monotonic()
                if left <= 0:
                    raise TimeoutError(f"no endpoint event from {self.target}")
                seconds = min(left, LONGEST_WAIT_S)
        if host.refused is not None:
            raise host.refused
        if self._dead is not None:
            raise self._closed_error(sent=False)
        if host.lost is not None:
            raise ConnectionClosed(
                str(host.lost.args[0]), target=self.target, sent=False
            )

    # What is sent...

    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Perform a request; see `mcpwire.transports.base.Channel.call`."""
        with self._patient(deadline):
            return super().call(
                method,
                self._with_fields(params, headers),
                deadline=deadline,
                handle=handle,
                on_notification=on_notification,
            )

    @contextlib.contextmanager
    def _patient(self, deadline: Deadline | None) -> Iterator[None]:
        """Let no time pass for a call in there while a user logs in."""
        if self._patience is None or deadline is None:
            yield
            return
        from mcpwire.transports.oauth.patience import DeadlineClock

        with self._patience.applied(DeadlineClock(deadline, monotonic)):
            yield

    def begin(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        on_end: EndFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Pending:
        """Send a request and wait for nothing; see `BlockingDuplex.begin`."""
        return super().begin(
            method,
            self._with_fields(params, headers),
            deadline=deadline,
            handle=handle,
            on_notification=on_notification,
            on_end=on_end,
        )

    def _with_fields(
        self, params: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> Mapping[str, Any] | None:
        return _Params(params, self._http.check(headers)) if headers else params

    def _open(self, waiter: Waiter) -> None:
        assert type(waiter) is Pending
        params = waiter.params
        if type(params) is not _Params:
            super()._open(waiter)
            return
        waiter.params = params.plain
        # Inside the mutex, so the peer's next id is this call's.
        id = self._peer.requests_sent + 1
        self._relay.own.keep(id, params.fields)
        try:
            super()._open(waiter)
        finally:
            if self._peer.requests_sent < id:
                self._relay.own.drop(id)

    def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `BlockingDuplex.notify`."""
        if not headers:
            super().notify(method, params)
            return
        fields = self._http.check(headers)
        line = self._peer.notify(method, params).rstrip(b"\n")
        self._relay.own.keep(line, fields)
        try:
            super().notify(method, params)
        except BaseException:
            self._relay.own.drop(line)
            raise

    def watch_heads(self, trace: Trace) -> None:
        """Tell a hook of the heads of requests and answers, too."""
        self._relay.watch_heads(trace)

    # From the thread that moves the bytes...

    def is_waiting(self, id: int) -> bool:
        """Tell whether that call is open."""
        return id in self._peer.outstanding

    def post_failed(self, id: int, error: Exception) -> None:
        """End the call whose request was not accepted, and no other."""
        self._locked(partial(self._fail, id, error))

    def _fail(self, id: int, error: Any) -> None:
        call = self._peer.outstanding.get(id)
        if call is not None:
            self._peer.forget(id)
            self._end_call(call, error)

    # The end...

    def _end(self, why: str, cause: BaseException | None = None) -> None:
        lost = self._relay.lost
        if lost is not None:
            self._lose(lost, lost.__cause__)
        else:
            super()._end(why, cause)


class _Params(dict[str, Any]):
    """Params of a request that has header fields of its own."""

    def __init__(self, params: Mapping[str, Any] | None, fields: Fields) -> None:
        super().__init__()
        self.plain = params
        self.fields = fields


class _Host(Relay):
    """The thread and the loop of one connection's HTTP.

    Attributes:
        channel: The connection; weakly, for it may be forgotten.
        own: The fields of single messages.
        is_settled: Set when the endpoint is known, or never will be.
        lost: Why nothing more will come, once that is so.
    """

    _link: LegacyLink

    def __init__(
        self,
        target: Http,
        theirs: socket.socket,
        limits: Limits,
        open_engine: OpenEngine,
    ) -> None:
        super().__init__(theirs, limits, NAME)
        self._http = target
        self._open_engine = open_engine
        self.channel: Callable[[], BlockingLegacy | None] = _nobody
        self.own = OwnFields()
        self.is_settled = Bell()
        self.lost: TransportError | None = None

    @property
    def refused(self) -> Exception | None:
        """Why no connection came about, where none did."""
        return self._link.refused

    def watch_heads(self, trace: Trace) -> None:
        """Tell a hook of heads, in the thread that moves the bytes."""
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._link.watch_heads, trace)

    def _begin(self) -> None:
        engine = self._open_engine(self._http, self._limits)
        self._link = LegacyLink(
            self._http, engine, self, self._limits, owns_engine=True
        )

    def _pass_on(self, lines: bytes) -> None:
        self._link.write(lines)

    def _closing(self) -> Awaitable[None]:
        self.is_settled.ring()
        return self._link.aclose()

    def forked(self) -> None:
        """Close the copies of the sockets."""
        super().forked()
        self._link.forked()

    # What the link tells (`LinkOwner`)...

    def endpoint_known(self) -> None:
        """Let who waits for the connection go on."""
        self.is_settled.ring()

    def lines_came(self, lines: bytes) -> None:
        """Hand messages on."""
        self._send(lines)

    def has_left(self, size: int) -> None:
        """Count nothing: to the connection, what its pipe took has left."""

    def is_waiting(self, id: int) -> bool:
        """Tell whether that call is open."""
        channel = self.channel()
        return channel is not None and channel.is_waiting(id)

    def fields_of(self, line: bytes, id: int | None) -> Fields:
        """Return the fields that the caller gave for one message."""
        return self.own.find(line, id)

    def post_failed(self, id: int, error: Exception) -> None:
        """End the call whose request was not accepted."""
        channel = self.channel()
        if channel is not None:
            channel.post_failed(id, error)

    def link_lost(self, error: TransportError, cause: BaseException | None) -> None:
        """End too; the connection finds the reason when it reads the end."""
        error.__cause__ = cause
        for id in self._link.unsent:
            self.post_failed(
                id,
                ConnectionClosed(
                    str(error.args[0]), target=self._link.target, sent=False
                ),
            )
        self.lost = error
        self.is_settled.ring()
        self._end()


def _nobody() -> None:
    return None
