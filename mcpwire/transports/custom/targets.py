"""Targets whose connections users bring: `Stream` of bytes and `Messages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mcpwire.errors import ConnectError

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Awaitable, Callable
    from os import PathLike

    from mcpwire.limits import Limits
    from mcpwire.transports.base import Channel, Inbound
    from mcpwire.transports.custom.links import CloseFn, Link, ReceiveFn, SendFn

    Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
    OpenStreamFn = Callable[[], Awaitable[Pair]]
    OpenMessagesFn = Callable[[], Awaitable["Messages"]]

__all__ = ["FORM_NAMES", "Custom", "Messages", "Stream"]

FORM_NAMES = ("bytes", "text", "dict")


class Custom:
    """A target whose connection is a `Link`; subclasses open it."""

    name: str

    def __str__(self) -> str:
        """Return its name, for error messages."""
        return self.name

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} {self.name!r}>"

    def open_channel(self, inbound: Inbound, limits: Limits) -> Channel:
        """Begin to open a connection and return it; clients call this."""
        from mcpwire.transports.custom.channel import LinkChannel

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
            import asyncio

            return await asyncio.open_connection(host, port, ssl=ssl)

        shown = f"[{host}]" if ":" in host else host
        return cls(connect, name=f"{'tls' if ssl else 'tcp'}://{shown}:{port}")

    @classmethod
    def unix(cls, path: str | PathLike[str]) -> Stream:
        """Return the target behind a Unix socket."""

        async def connect() -> Pair:
            import asyncio

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
