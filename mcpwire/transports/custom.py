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
        self.over = asyncio.Event()  # set when the connection is not used any more
        self.failed: FailedFn = lambda *_: None  # called for errors outside of `read`
        self.drained: Callable[[], object] = lambda: None  # called when all is sent

    async def read(self) -> bytes | None:
        """Return the next received bytes; ``None`` at the end."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send complete lines, now or later; must not raise."""
        raise NotImplementedError

    @property
    def waiting(self) -> int:
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
    def waiting(self) -> int:
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
        self._leaving: deque[bytes] = deque()
        self._waiting = 0
        self._sending: asyncio.Task[None] | None = None

    async def read(self) -> bytes | None:
        try:
            message = await self._receive()
        except (EOFError, StopAsyncIteration):
            return None
        return None if message is None else _line_of(message)

    def write(self, data: bytes) -> None:
        self._leaving.extend(line for line in data.split(b"\n") if line)
        self._waiting += len(data)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(
                self._send_all(), name="mcpwire-send"
            )

    async def _send_all(self) -> None:
        try:
            while self._leaving:
                line = self._leaving.popleft()
                # From now on the peer may have the line, so it counts as sent.
                self._waiting -= len(line) + 1
                outcome = self._send(self._form(line))
                if inspect.isawaitable(outcome):
                    await outcome
        except asyncio.CancelledError:
            self._forget()
            self.failed("sending failed", InterruptedError("it was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - a user's function
            self._forget()
            self.failed("sending failed", error)
        else:
            self.drained()

    @property
    def waiting(self) -> int:
        return self._waiting

    def _forget(self) -> None:
        self._leaving.clear()
        self._waiting = 0

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
        self._forget()
        if self._sending is not None:
            self._sending.cancel()


async def shut(link: Link, *, politely: bool, grace: float) -> None:
    """Close a link; with `politely`, flush it before.

    Flushing and closing take at most `grace` seconds each, so that the link is closed
    even if flushing hangs.
    """
    try:
        if politely:
            await wait_at_most(grace, link.flush())
        else:
            link.abort()
        await wait_at_most(grace, link.close())
    finally:
        link.abort()
        link.over.set()


def _line_of(message: Any) -> bytes:
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

    If `at_end` is set, it is called at the end of the input and the connection is not
    lost: a server still answers the requests that it has received.
    """

    def __init__(
        self, inbound: Inbound, open_link: Callable[[], Awaitable[Link]], **options: Any
    ) -> None:
        super().__init__(inbound, **options)
        self._link: Link | None = None
        self.at_end: Callable[[], object] | None = None
        # Not `create_task`: an eager task factory would start it at once.
        self._working = asyncio.Task(
            self._work(open_link), loop=self._loop, name="mcpwire-link"
        )
        self._working.add_done_callback(self._worked)

    # Opening and reading

    async def _work(self, open_link: Callable[[], Awaitable[Link]]) -> None:
        try:
            link = await open_link()
        except Exception as error:  # noqa: BLE001 - a user's function
            self._mark_lost(self._opening_error(error), error)
            return
        if self._dead is not None:
            # The user's function ignored its cancellation: the link comes too late.
            await shut(link, politely=False, grace=self.limits.close_grace)
            return
        self._link = link
        link.failed = self._failed
        link.drained = self._writing_done
        self._flush()
        try:
            while self._dead is None:
                data = await link.read()
                if data is None:
                    self._ended()
                    return
                self._loop.call_soon(self._take, data)
                # Keeps the order, and does not read faster than lines are processed.
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 - a user's connection
            self._failed("receiving failed", error)

    def _take(self, data: bytes) -> None:
        if self._dead is None:
            self.receive(data)

    def _ended(self) -> None:
        if self._dead is not None:
            return
        if self.at_end is None:
            self._mark_lost(TransportError("the peer closed it", target=self.target))
            return
        self.receive(b"\n")  # the end of the input also ends the last line
        self.at_end()

    def _opening_error(self, error: Exception) -> TransportError:
        if isinstance(error, TransportError):
            return error
        errno = error.errno if isinstance(error, OSError) else None
        why = f"{self.target}: opening failed: {_word(error)}"
        return ConnectError(why, target=self.target, errno=errno)

    def _worked(self, task: asyncio.Task[None]) -> None:
        # A user's function may raise CancelledError itself.
        if task.cancelled() and self._dead is None:
            why = "opening or receiving was cancelled"
            self._mark_lost(TransportError(why, target=self.target))

    # Writing

    def _write(self, data: bytes) -> None:
        if self._link is None:
            self._gathered.append(data)  # written when the link is open
        else:
            self._link.write(data)
            self._recount()

    def _flush(self) -> None:
        if self._link is not None:
            super()._flush()

    def _recount(self) -> None:
        """Count the bytes that the link has sent."""
        waiting = sum(map(len, self._gathered))
        if self._link is not None:
            waiting += self._link.waiting
        self._written = max(self._written, self._queued - waiting)

    def _failed(self, what: str, error: Exception) -> None:
        self._mark_lost(
            TransportError(f"{what}: {_word(error)}", target=self.target), error
        )

    # End of the connection

    def _mark_lost(
        self, error: TransportError, cause: BaseException | None = None
    ) -> None:
        if self._dead is not None:
            return
        self._recount()
        super()._mark_lost(error, cause)
        self._closing = self._loop.create_task(
            self._close(politely=cause is None), name="mcpwire-link-close"
        )

    async def _close(self, *, politely: bool) -> None:
        """Stop reading, flush and close; each within `Limits.close_grace`."""
        working, grace = self._working, self.limits.close_grace
        if not working.done():
            working.cancel()
            await asyncio.wait([working], timeout=grace)
            if not working.done():
                logger.warning("%s: receiving cannot be cancelled", self.target)
        if self._link is not None:
            await shut(self._link, politely=politely, grace=grace)

    def abandon(self) -> None:
        """Drop the connection at once, from any thread, without waiting."""
        super().abandon()
        if self._loop.is_closed():
            return
        for task in (self._working, self._closing):
            if task is not None:
                task.cancel()
        if self._link is not None:
            self._link.abort()
            self._link.over.set()


def _word(error: Exception) -> str:
    """Return the type and the text of an error; the result is never empty."""
    name, text = type(error).__name__, str(error)
    return f"{name}: {text}" if text else name


# Targets


class Custom:
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


class Stream(Custom):
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
            raise _used(self.name, "Stream(open=...)")
        return _StreamLink(*opened)


class Messages(Custom):
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
        given = [callable(each) for each in (send, receive, open)]
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
            raise _used(self.name, "Messages(open=...)")
        self._is_used = True
        assert self._send is not None
        assert self._receive is not None
        return _MessageLink(self._send, self._receive, self._close, self._form)


def _used(name: str, instead: str) -> ConnectError:
    return ConnectError(
        f"the one connection that {name} was given has been used; "
        f"{instead} opens one after the other",
        target=name,
    )


class Reverse(Custom):
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
        self._wanted = 0  # number of waiting clients
        self._has_come = asyncio.Event()
        self._used: set[Link] = set()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Number of connections that wait for a client."""
        return len(self._waiting)

    @property
    def connected(self) -> int:
        """Number of connections in use."""
        return len(self._used)

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
                await _refuse(link)
                return False
            self._waiting.append(link)
            self._has_come.set()
            while len(self._waiting) > self._backlog + self._wanted:
                await _refuse(self._waiting.popleft())
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

    # Opening by a client

    async def open_link(self) -> Link:
        """Return the oldest waiting connection, or wait for the next one.

        Raises:
            ConnectError: No server connected in time, or this target was closed.
        """
        if not self._wanted:
            self._has_come = asyncio.Event()  # belongs to the running loop
        self._wanted += 1
        try:
            async with asyncio.timeout(self._timeout):
                return await self._take()
        except TimeoutError:
            raise ConnectError(
                f"{self.name}: nobody connected within {self._timeout:g} s",
                target=self.name,
                reason="timeout",
            ) from None
        finally:
            self._wanted -= 1

    async def _take(self) -> Link:
        while not self._is_closed:
            if not self._waiting:
                self._has_come.clear()
                await self._has_come.wait()
                continue
            link = self._waiting.popleft()
            if not link.has_ended:
                self._used.add(link)
                return link
            await _refuse(link)
        raise ConnectError(f"{self.name} was closed", target=self.name)

    async def aclose(self) -> None:
        """Refuse further connections, and close those that wait for a client.

        Connections in use stay open until their clients close them.
        """
        self._is_closed = True
        self._has_come.set()
        while self._waiting:
            await _refuse(self._waiting.popleft())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _refuse(link: Link) -> None:
    """Close a connection that no client has used, without flushing."""
    await shut(link, politely=False, grace=DEFAULT_LIMITS.close_grace)
