"""Targets with connections that users provide: `Stream`, `Messages` and `Reverse`.

The server of a `Reverse` runs behind a firewall, in a browser or on a phone, and
connects to its client. The roles in the protocol do not change.

2026-07-28 basic/transports, "Custom Transports": a byte stream has the framing of
stdio; a connection of single messages carries the same JSON texts, one per message.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self, cast

from mcpwire.errors import ConnectError, LocalProtocolError, TransportError
from mcpwire.limits import DEFAULT_LIMITS, check_choice, check_timeout
from mcpwire.transports.base import is_cancelled_here, wait_at_most
from mcpwire.transports.duplex import READ_BYTES, Duplex
from mcpwire.wire.json import encode_line, loads

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from os import PathLike

    from mcpwire.limits import Limits
    from mcpwire.transports.base import Channel, Inbound

    Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
    OpenStreamFn = Callable[[], Awaitable[Pair]]
    OpenMessagesFn = Callable[[], Awaitable["Messages"]]
    ReceiveFn = Callable[[], Awaitable[Any]]
    SendFn = Callable[[Any], Any]
    CloseFn = Callable[[], Any]
    FailedFn = Callable[[str, Exception], None]

logger = logging.getLogger("mcpwire")


FORMS: Final[dict[str, Callable[[bytes], Any]]] = {
    "bytes": bytes,
    "text": bytes.decode,
    "dict": loads,
}
"""Functions that convert a line to each form of a message."""


class Link:
    """A user's connection; subclasses read and write the bytes."""

    has_ended = False  # whether the end of the input is known without reading

    def __init__(self) -> None:
        self.released = asyncio.Event()  # set when the connection is not used any more
        self.on_error: FailedFn = lambda *_: None  # called for errors outside of `read`
        self.on_drained: Callable[[], object] = lambda: None  # called when all is sent

    async def read(self) -> bytes | None:
        """Return the next received bytes; ``None`` at the end."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send complete lines, now or later; must not raise."""
        raise NotImplementedError

    @property
    def unsent(self) -> int:
        """Number of written bytes that are not sent yet."""
        raise NotImplementedError

    async def flush(self) -> None:
        """Wait until all written bytes are sent; may never end."""

    async def close(self) -> None:
        """Close the connection; may never end."""
        raise NotImplementedError

    def abort(self) -> None:
        """Drop the connection at once, without sending queued bytes."""
        raise NotImplementedError


class _StreamLink(Link):
    """An asyncio stream: lines end at byte 0x0A, as on stdio."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes | None:
        return await self._reader.read(READ_BYTES) or None

    def write(self, data: bytes) -> None:
        if not self._writer.is_closing():  # else reading reports the reason
            self._writer.write(data)

    @property
    def unsent(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    @property
    def has_ended(self) -> bool:  # type: ignore[override]  # an attribute in Link
        return self._reader.at_eof() or self._writer.is_closing()

    async def close(self) -> None:
        self._writer.close()  # sends the queued bytes first, if the peer reads
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        self._writer.transport.abort()


class _MessageLink(Link):
    """A connection of single messages, with functions that send and receive one."""

    def __init__(
        self, send: SendFn, receive: ReceiveFn, close: CloseFn | None, form: str
    ) -> None:
        super().__init__()
        self._send = send
        self._receive = receive
        self._close = close
        self._form = FORMS[form]
        self._outgoing: deque[bytes] = deque()
        self._unsent = 0
        self._sending: asyncio.Task[None] | None = None

    async def read(self) -> bytes | None:
        try:
            message = await self._receive()
        except (EOFError, StopAsyncIteration):
            return None
        return None if message is None else _encode_message(message)

    def write(self, data: bytes) -> None:
        self._outgoing.extend(line for line in data.split(b"\n") if line)
        self._unsent += len(data)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(
                self._send_all(), name="mcpwire-send"
            )

    async def _send_all(self) -> None:
        try:
            while self._outgoing:
                line = self._outgoing.popleft()
                # From now on the peer may have the line, so it counts as sent.
                self._unsent -= len(line) + 1
                outcome = self._send(self._form(line))
                if inspect.isawaitable(outcome):
                    await outcome
        except asyncio.CancelledError:
            self._discard_queue()
            self.on_error("sending failed", InterruptedError("it was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - a user's function
            self._discard_queue()
            self.on_error("sending failed", error)
        else:
            self.on_drained()

    @property
    def unsent(self) -> int:
        return self._unsent

    def _discard_queue(self) -> None:
        self._outgoing.clear()
        self._unsent = 0

    async def flush(self) -> None:
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def close(self) -> None:
        close, self._close = self._close, None
        if close is None:
            return
        try:
            outcome = close()
            if inspect.isawaitable(outcome):
                await outcome
        except asyncio.CancelledError:
            if is_cancelled_here():
                raise
            logger.warning("closing a connection failed: %r was cancelled", close)
        except Exception:  # a user's function
            logger.exception("closing a connection failed: %r raised", close)

    def abort(self) -> None:
        self._discard_queue()
        if self._sending is not None:
            self._sending.cancel()


async def close_link(link: Link, *, flush: bool, grace: float) -> None:
    """Close a link; with `flush`, send its queued bytes before.

    Flushing and closing take at most `grace` seconds each, so that the link is closed
    even if flushing hangs.
    """
    try:
        if flush:
            await wait_at_most(grace, link.flush())
        else:
            link.abort()
        await wait_at_most(grace, link.close())
    finally:
        link.abort()
        link.released.set()


def _encode_message(message: Any) -> bytes:
    """Return a user's message as one line of JSON."""
    if isinstance(message, dict | list):
        return encode_line(message)
    if isinstance(message, str):
        message = message.encode("utf-8", "surrogatepass")
    if not isinstance(message, bytes | bytearray | memoryview):
        raise LocalProtocolError(
            "a message is a dict, a str, bytes, or None at the end, "
            f"got a {type(message).__name__}"
        )
    # A JSON text may have newlines; as white space, a carriage return is equivalent.
    return bytes(message).replace(b"\n", b"\r") + b"\n"


class LinkChannel(Duplex):
    """A channel over a `Link`.

    If `on_eof` is set, it is called at the end of the input and the connection is not
    lost: a server still answers the requests that it has received.
    """

    def __init__(
        self, inbound: Inbound, open_link: Callable[[], Awaitable[Link]], **options: Any
    ) -> None:
        super().__init__(inbound, **options)
        self._link: Link | None = None
        self.on_eof: Callable[[], object] | None = None
        # Not `create_task`: an eager task factory would start it at once.
        self._reader_task = asyncio.Task(
            self._run(open_link), loop=self._loop, name="mcpwire-link"
        )
        self._reader_task.add_done_callback(self._on_reader_done)

    # Opening and reading

    async def _run(self, open_link: Callable[[], Awaitable[Link]]) -> None:
        try:
            link = await open_link()
        except Exception as error:  # noqa: BLE001 - a user's function
            self._mark_lost(self._opening_error(error), error)
            return
        if self._lost is not None:
            # The user's function ignored its cancellation: the link comes too late.
            await close_link(link, flush=False, grace=self.limits.close_grace)
            return
        self._link = link
        link.on_error = self._fail
        link.on_drained = self._on_all_written
        self._flush()
        try:
            while self._lost is None:
                data = await link.read()
                if data is None:
                    self._on_end()
                    return
                self._loop.call_soon(self._receive_if_open, data)
                # Keeps the order, and does not read faster than lines are processed.
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 - a user's connection
            self._fail("receiving failed", error)

    def _receive_if_open(self, data: bytes) -> None:
        if self._lost is None:
            self.receive(data)

    def _on_end(self) -> None:
        if self._lost is not None:
            return
        if self.on_eof is None:
            self._mark_lost(TransportError("the peer closed it", target=self.target))
            return
        self.receive(b"\n")  # the end of the input also ends the last line
        self.on_eof()

    def _opening_error(self, error: Exception) -> TransportError:
        if isinstance(error, TransportError):
            return error
        errno = error.errno if isinstance(error, OSError) else None
        reason = f"{self.target}: opening failed: {_describe_error(error)}"
        return ConnectError(reason, target=self.target, errno=errno)

    def _on_reader_done(self, task: asyncio.Task[None]) -> None:
        # A user's function may raise CancelledError itself.
        if task.cancelled() and self._lost is None:
            reason = "opening or receiving was cancelled"
            self._mark_lost(TransportError(reason, target=self.target))

    # Writing

    def _write(self, data: bytes) -> None:
        if self._link is None:
            self._gathered.append(data)  # written when the link is open
        else:
            self._link.write(data)
            self._update_written()

    def _flush(self) -> None:
        if self._link is not None:
            super()._flush()

    def _update_written(self) -> None:
        """Count the bytes that the link has sent."""
        unsent = sum(map(len, self._gathered))
        if self._link is not None:
            unsent += self._link.unsent
        self._written = max(self._written, self._queued - unsent)

    def _fail(self, action: str, error: Exception) -> None:
        self._mark_lost(
            TransportError(f"{action}: {_describe_error(error)}", target=self.target),
            error,
        )

    # End of the connection

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        if self._lost is not None:
            return
        self._update_written()
        super()._mark_lost(error, cause)
        self._closing = self._loop.create_task(
            self._close(flush=cause is None), name="mcpwire-link-close"
        )

    async def _close(self, *, flush: bool) -> None:
        """Stop reading, flush and close; each within `Limits.close_grace`."""
        reader_task, grace = self._reader_task, self.limits.close_grace
        if not reader_task.done():
            reader_task.cancel()
            await asyncio.wait([reader_task], timeout=grace)
            if not reader_task.done():
                logger.warning("%s: receiving cannot be cancelled", self.target)
        if self._link is not None:
            await close_link(self._link, flush=flush, grace=grace)

    def abandon(self) -> None:
        """Drop the connection at once, from any thread, without waiting."""
        super().abandon()
        if self._loop.is_closed():
            return
        for task in (self._reader_task, self._closing):
            if task is not None:
                task.cancel()
        if self._link is not None:
            self._link.abort()
            self._link.released.set()


def _describe_error(error: Exception) -> str:
    """Return the type and the text of an error; the result is never empty."""
    name, text = type(error).__name__, str(error)
    return f"{name}: {text}" if text else name


# Targets


class LinkTarget:
    """Base class of targets with a user's connection; subclasses open the `Link`."""

    name: str

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def open_channel(self, inbound: Inbound, limits: Limits) -> Channel:
        """Start opening a connection and return its channel; called by clients."""
        channel = LinkChannel(inbound, self.open_link, limits=limits, target=self.name)
        # To pyright, a property does not fit the attribute of a protocol.
        return cast("Channel", channel)

    async def open_link(self) -> Link:
        """Open the link that the channel reads and writes."""
        raise NotImplementedError


class Stream(LinkTarget):
    """A server behind a byte stream: TCP, a Unix socket, a pipe, a tunnel.

    ::

        client = mcpwire.Client(mcpwire.Stream.tcp("127.0.0.1", 9000))

    The framing is that of stdio: one JSON text per line (2026-07-28 basic/transports,
    "Custom Transports").

    Args:
        open: An async function without parameters that opens an asyncio reader and
            writer, once for each connection. Or an open pair of a reader and a writer,
            which serves one connection only.
        name: The name of the target in error messages.

    Raises:
        ValueError: `open` is neither a function nor a pair.
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
        cls, host: str, port: int, *, ssl: ssl.SSLContext | bool | None = None
    ) -> Stream:
        """Return a target that connects to a TCP port.

        Args:
            host: The name or address of the host.
            port: The number of the port.
            ssl: The context for TLS, or ``True`` for the system's; ``None``: no TLS.
        """

        async def connect() -> Pair:
            return await asyncio.open_connection(host, port, ssl=ssl)

        shown = f"[{host}]" if ":" in host else host
        return cls(connect, name=f"{'tls' if ssl else 'tcp'}://{shown}:{port}")

    @classmethod
    def unix(cls, path: str | PathLike[str]) -> Stream:
        """Return a target that connects to a Unix socket."""

        async def connect() -> Pair:
            return await asyncio.open_unix_connection(path)

        return cls(connect, name=f"unix:{path}")

    async def open_link(self) -> Link:
        """Open the stream, or use the given pair."""
        opened = self._open
        if callable(opened):
            return _StreamLink(*await opened())
        self._open = None
        if opened is None:
            raise _used_up_error(self.name, "Stream(open=...)")
        return _StreamLink(*opened)


class Messages(LinkTarget):
    """A server behind any connection that carries single messages both ways.

    ::

        async def open():
            socket = await websockets.connect("wss://example.com/mcp")
            return mcpwire.Messages(
                socket.send, socket.recv, close=socket.close, form="text"
            )


        client = mcpwire.Client(mcpwire.Messages(open=open, name="example.com"))

    `send` and `receive` serve one connection only; `open` opens a new one each time.
    Messages are sent one after the other.

    Args:
        send: A plain or async function that sends one message. The next message waits
            until it has returned; an exception ends the connection.
        receive: An async function that returns one message: a ``dict``, ``str`` or
            bytes. ``None``, `EOFError` and `StopAsyncIteration` are the end.
        open: An async function that returns `Messages` with `send` and `receive`.
        close: A plain or async function, called once after the connection has ended.
        form: The type of sent messages: ``"bytes"``, ``"text"`` or ``"dict"``.
        name: The name of the target in error messages.

    Raises:
        ValueError: The functions do not fit together, or `form` is unknown.
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
        given = [callable(function) for function in (send, receive, open)]
        if given not in ([True, True, False], [False, False, True]):
            raise ValueError("give functions as send and receive, or as open alone")
        if open is not None and close is not None:
            raise ValueError("close belongs to the Messages that open returns")
        check_choice(form, "form", FORMS)
        self.name = name
        self._send = send
        self._receive = receive
        self._open = open
        self._close = close
        self._form = form
        self._is_used = False

    async def open_link(self) -> Link:
        """Open the connection, or use the given functions."""
        if self._open is not None:
            opened: Any = await self._open()
            if not isinstance(opened, Messages):
                raise ConnectError(
                    f"open must return Messages, got {opened!r}", target=self.name
                )
            return await opened.open_link()
        if self._is_used:
            raise _used_up_error(self.name, "Messages(open=...)")
        self._is_used = True
        assert self._send is not None
        assert self._receive is not None
        return _MessageLink(self._send, self._receive, self._close, self._form)


def _used_up_error(name: str, instead: str) -> ConnectError:
    return ConnectError(
        f"the one connection that {name} was given has been used; "
        f"{instead} opens one after the other",
        target=name,
    )


class Reverse(LinkTarget):
    """A server that connects to its client; a target for clients, groups and gateways.

    ::

        laptop = mcpwire.Reverse(name="laptop")
        listener = await asyncio.start_server(laptop.accept, "127.0.0.1", 9000)
        async with mcpwire.Client(laptop) as client:  # waits for it to connect
            ...

    A client takes the accepted connection that has waited longest, or waits for the
    next one. It replaces a lost connection in the same way. All of this must run on
    one event loop.

    Args:
        timeout: How long to wait for a connection, in seconds; ``None``: as long as
            the client's `connect_timeout` allows.
        backlog: How many connections may wait for a client. If another one arrives,
            the oldest is closed: it may have been lost without notice.
        name: The name of the target in error messages.

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
        self._waiting_clients = 0  # number of waiting clients
        self._arrived = asyncio.Event()
        self._used_links: set[Link] = set()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Number of connections that wait for a client."""
        return len(self._waiting)

    @property
    def connected(self) -> int:
        """Number of connections in use."""
        return len(self._used_links)

    # Accepting connections

    async def accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Accept a byte stream that the server opened; return when it has ended.

        Fits `asyncio.start_server`. Returns whether a client used the connection; False
        if it was closed for a newer one or by `aclose`. Cancelling drops it.
        """
        return await self._accept(_StreamLink(reader, writer))

    async def accept_messages(
        self,
        send: SendFn,
        receive: ReceiveFn,
        *,
        close: CloseFn | None = None,
        form: str = "bytes",
    ) -> bool:
        """Accept a connection of single messages, as `accept` does a byte stream.

        The parameters are those of `Messages`.

        Raises:
            ValueError: A parameter is invalid.
        """
        messages = Messages(send, receive, close=close, form=form, name=self.name)
        return await self._accept(await messages.open_link())

    async def _accept(self, link: Link) -> bool:
        try:
            if self._is_closed:
                await _close_unused(link)
                return False
            self._waiting.append(link)
            self._arrived.set()
            while len(self._waiting) > self._backlog + self._waiting_clients:
                await _close_unused(self._waiting.popleft())
            await link.released.wait()
        except asyncio.CancelledError:
            link.on_error("accepting failed", InterruptedError("it was cancelled"))
            link.abort()
            raise
        finally:
            was_used = link in self._used_links
            self._used_links.discard(link)
            if link in self._waiting:
                self._waiting.remove(link)
        return was_used

    # Opening by a client

    async def open_link(self) -> Link:
        """Return the oldest waiting connection, or wait for the next one.

        Raises:
            ConnectError: No server connected in time, or this target was closed.
        """
        if not self._waiting_clients:
            self._arrived = asyncio.Event()  # belongs to the running loop
        self._waiting_clients += 1
        try:
            async with asyncio.timeout(self._timeout):
                return await self._next_link()
        except TimeoutError:
            raise ConnectError(
                f"{self.name}: no client connected within {self._timeout:g} s",
                target=self.name,
                reason="timeout",
            ) from None
        finally:
            self._waiting_clients -= 1

    async def _next_link(self) -> Link:
        while not self._is_closed:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            link = self._waiting.popleft()
            if not link.has_ended:
                self._used_links.add(link)
                return link
            await _close_unused(link)
        raise ConnectError(f"{self.name} was closed", target=self.name)

    async def aclose(self) -> None:
        """Refuse further connections, and close those that wait for a client.

        Connections in use stay open until their clients close them.
        """
        self._is_closed = True
        self._arrived.set()
        while self._waiting:
            await _close_unused(self._waiting.popleft())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _close_unused(link: Link) -> None:
    """Close a connection that no client has used, without flushing."""
    await close_link(link, flush=False, grace=DEFAULT_LIMITS.close_grace)
