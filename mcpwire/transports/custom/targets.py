"""Targets with connections that users bring: `Stream`, `Messages` and `Reverse`.

The server of a `Reverse` stands behind a firewall, in a browser or on a phone, and
dials out to its client. Requests and answers go as ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Self, cast

from mcpwire.errors import ConnectError
from mcpwire.limits import DEFAULT_LIMITS, check_timeout

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from os import PathLike

    from mcpwire.limits import Limits
    from mcpwire.transports.base import Channel, Inbound
    from mcpwire.transports.custom.links import CloseFn, Link, ReceiveFn, SendFn

    Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
    OpenStreamFn = Callable[[], Awaitable[Pair]]
    OpenMessagesFn = Callable[[], Awaitable["Messages"]]

__all__ = ["FORM_NAMES", "Custom", "Messages", "Reverse", "Stream"]

FORM_NAMES = ("bytes", "text", "dict")


class Custom:
    """A target that is connected by a `Link`; subclasses open it."""

    name: str

    def __str__(self) -> str:
        """Return its name, for error messages."""
        return self.name

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} {self.name!r}>"

    def open_channel(self, inbound: Inbound, limits: Limits) -> Channel:
        """Begin to open a connection and return it; clients call this."""
        from mcpwire.transports.custom.links import LinkChannel

        channel = LinkChannel(inbound, self.open_link, limits=limits, target=self.name)
        # To pyright, a property does not fit the attribute of a protocol.
        return cast("Channel", channel)

    async def open_link(self) -> Link:
        """Open what the channel reads and writes.

        Raises whatever opening raises.
        """
        raise NotImplementedError


class Stream(Custom):
    """A server behind a byte stream: TCP, a Unix socket, a pipe, a tunnel.

    ::

        client = mcpwire.Client(mcpwire.Stream.tcp("127.0.0.1", 9000))

    The framing is that of stdio: one JSON text per line (2026-07-28 basic/transports,
    "Custom Transports").

    Args:
        open: An async function without parameters that opens an asyncio reader and
            writer, once for each connection. Or a pair of them that is open already:
            then there is one connection, and none after it.
        name: What error messages call it.

    Raises:
        ValueError: `open` is neither.
    """

    def __init__(
        self, open: OpenStreamFn | Pair, *, name: str = "a byte stream"
    ) -> None:
        is_pair = isinstance(open, tuple) and len(open) == 2
        if not is_pair and not callable(open):
            raise ValueError(
                "open must be an async function or a pair of a reader and a writer, "
                f"got {open!r}"
            )
        self.name = name
        self._open: OpenStreamFn | Pair | None = open

    @classmethod
    def tcp(
        cls,
        host: str,
        port: int,
        *,
        ssl: ssl.SSLContext | bool | None = None,
    ) -> Stream:
        """Return the target behind a TCP port.

        Args:
            host: Its name or address.
            port: Its number.
            ssl: The context for TLS, or ``True`` for the system's; ``None``: no TLS.
        """

        async def connect() -> Pair:
            return await asyncio.open_connection(host, port, ssl=ssl)

        shown = f"[{host}]" if ":" in host else host
        return cls(connect, name=f"{'tls' if ssl else 'tcp'}://{shown}:{port}")

    @classmethod
    def unix(cls, path: str | PathLike[str]) -> Stream:
        """Return the target behind a Unix socket."""

        async def connect() -> Pair:
            return await asyncio.open_unix_connection(path)

        return cls(connect, name=f"unix:{path}")

    async def open_link(self) -> Link:
        """Open the stream, or take the one that was given."""
        from mcpwire.transports.custom.links import StreamLink

        opened = self._open
        if callable(opened):
            return StreamLink(*await opened())
        self._open = None
        if opened is None:
            raise _used(self.name, "Stream(open=...)")
        return StreamLink(*opened)


class Messages(Custom):
    """A server behind anything that carries one message at a time, both ways.

    ::

        async def open():
            socket = await websockets.connect("wss://example.com/mcp")
            return mcpwire.Messages(
                socket.send, socket.recv, close=socket.close, form="text"
            )


        client = mcpwire.Client(mcpwire.Messages(open=open, name="example.com"))

    With `send` and `receive` there is one connection and none after it; `open` opens
    one after the other. Each message is sent once the one before it has been.

    Args:
        send: Takes one message. What it awaits holds the next one back; what it raises
            ends the connection.
        receive: An async function that returns one message: a ``dict``, ``str`` or
            bytes. ``None``, `EOFError` and `StopAsyncIteration` are the end.
        open: An async function that returns `Messages` with `send` and `receive`.
        close: Called once when the connection is over; plain or async.
        form: What `send` takes: ``"bytes"``, ``"text"`` or ``"dict"``.
        name: What error messages call it.

    Raises:
        ValueError: It is not said how to send and receive, or `form` is unknown.
    """

    def __init__(
        self,
        send: SendFn | None = None,
        receive: ReceiveFn | None = None,
        *,
        open: OpenMessagesFn | None = None,
        close: CloseFn | None = None,
        form: str = "bytes",
        name: str = "messages",
    ) -> None:
        given = [callable(each) for each in (send, receive, open)]
        if given not in ([True, True, False], [False, False, True]):
            raise ValueError("give functions as send and receive, or as open alone")
        if open is not None and close is not None:
            raise ValueError("close belongs to the Messages that open returns")
        if form not in FORM_NAMES:
            raise ValueError(f"form must be one of {FORM_NAMES}, got {form!r}")
        self.name = name
        self._send = send
        self._receive = receive
        self._open = open
        self._close = close
        self._form = form
        self._is_used = False

    async def open_link(self) -> Link:
        """Open the connection, or take the one that was given."""
        from mcpwire.transports.custom.links import MessageLink

        if self._open is not None:
            opened: Any = await self._open()
            if not isinstance(opened, Messages):
                raise ConnectError(
                    f"open must return Messages, got {opened!r}", target=self.name
                )
            return await opened.open_link()
        if self._is_used:
            raise _used(self.name, "Messages(open=...)")
        self._is_used = True
        assert self._send is not None
        assert self._receive is not None
        return MessageLink(self._send, self._receive, self._close, self._form)


def _used(name: str, instead: str) -> ConnectError:
    return ConnectError(
        f"the one connection that {name} was given has been used; "
        f"{instead} opens one after the other",
        target=name,
    )


class Reverse(Custom):
    """A server that connects to us; a target for clients, groups and gateways.

    ::

        laptop = mcpwire.Reverse(name="laptop")
        listener = await asyncio.start_server(laptop.accept, "127.0.0.1", 9000)
        async with mcpwire.Client(laptop) as client:  # waits for it to connect
            ...

    Opening a connection takes the one that waits longest, or waits until one comes. A
    connection that was lost is replaced by the next one that comes. All of it happens
    on one event loop.

    Args:
        timeout: How long to wait for the other side, in seconds; ``None``: as long as
            the client's `connect_timeout` allows.
        backlog: How many connections may wait for a client. With one more, the one
            that waits longest makes way: it may be gone without our knowing.
        name: What error messages call it.

    Raises:
        ValueError: The timeout is not above zero, or the backlog is below one.
    """

    def __init__(
        self,
        *,
        timeout: float | None = None,
        backlog: int = 1,
        name: str = "a reverse connection",
    ) -> None:
        if backlog < 1:
            raise ValueError(f"backlog must be at least 1, got {backlog!r}")
        self.name = name
        self._timeout = check_timeout(timeout)
        self._backlog = backlog
        self._waiting: deque[Link] = deque()
        self._wanted: deque[asyncio.Future[Link]] = deque()
        self._used: set[Link] = set()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many connections wait for a client."""
        return len(self._waiting)

    @property
    def connected(self) -> int:
        """How many connections are in use."""
        return len(self._used)

    # The side that connects...

    async def accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Take a byte stream that the other side opened; return when it is over.

        It fits `asyncio.start_server`. Returns whether a client used it: not where it
        made way for others, or this was closed. Cancelling it drops the connection.
        """
        from mcpwire.transports.custom.links import StreamLink

        return await self._accept(StreamLink(reader, writer))

    async def accept_messages(
        self,
        send: SendFn,
        receive: ReceiveFn,
        *,
        close: CloseFn | None = None,
        form: str = "bytes",
    ) -> bool:
        """Take a connection of single messages, as `accept` takes a stream.

        The parameters are those of `Messages`.

        Raises:
            ValueError: One of them is wrong.
        """
        messages = Messages(send, receive, close=close, form=form, name=self.name)
        return await self._accept(await messages.open_link())

    async def _accept(self, link: Link) -> bool:
        try:
            if await self._offer(link):
                await link.over.wait()
        except asyncio.CancelledError:
            link.failed("accepting failed", InterruptedError("it was cancelled"))
            link.abort()
            raise
        finally:
            was_used = link in self._used
            self._used.discard(link)
            if link in self._waiting:
                self._waiting.remove(link)
        return was_used

    async def _offer(self, link: Link) -> bool:
        """Give it to a waiting client, or let it wait; tell whether it may."""
        if self._is_closed:
            await _refuse(link)
            return False
        if not self._give(link):
            self._waiting.append(link)
            while len(self._waiting) > self._backlog:
                await _refuse(self._waiting.popleft())
        return True

    def _give(self, link: Link) -> bool:
        while self._wanted:
            future = self._wanted.popleft()
            if not future.done():
                self._used.add(link)
                future.set_result(link)
                return True
        return False

    # The client...

    async def open_link(self) -> Link:
        """Return a connection that waits, or the next that comes.

        Raises:
            ConnectError: Nobody connected in time, or this was closed.
        """
        if self._is_closed:
            raise self._closed_error()
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.has_ended:
                self._used.add(waiting)
                return waiting
            await _refuse(waiting)
        wanted: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._wanted.append(wanted)
        link = None
        try:
            async with asyncio.timeout(self._timeout):
                link = await wanted
        except TimeoutError:
            raise ConnectError(
                f"{self.name}: nobody connected within {self._timeout:g} s",
                target=self.name,
                reason="timeout",
            ) from None
        finally:
            if link is None:
                self._withdraw(wanted)
        return link

    def _withdraw(self, wanted: asyncio.Future[Link]) -> None:
        """Wait no more; what came in that very moment is for the next client."""
        if wanted in self._wanted:
            self._wanted.remove(wanted)
        if not wanted.done() or wanted.cancelled() or wanted.exception() is not None:
            wanted.cancel()
            return
        link = wanted.result()
        self._used.discard(link)
        if not self._give(link):
            self._waiting.appendleft(link)

    def _closed_error(self) -> ConnectError:
        return ConnectError(f"{self.name} was closed", target=self.name)

    async def aclose(self) -> None:
        """Take no more connections, and close those that wait for a client.

        Those in use stay until their clients close them.
        """
        self._is_closed = True
        while self._wanted:
            wanted = self._wanted.popleft()
            if not wanted.done():
                wanted.set_exception(self._closed_error())
        while self._waiting:
            await _refuse(self._waiting.popleft())

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()


async def _refuse(link: Link) -> None:
    """Close a connection that no client has used; nothing waits to be sent on it."""
    from mcpwire.transports.custom.links import shut

    await shut(link, politely=False, grace=DEFAULT_LIMITS.close_grace)
