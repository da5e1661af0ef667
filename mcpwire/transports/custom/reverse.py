"""`Reverse`: the other side opens the connection, and is the server all the same.

Such servers stand behind a firewall, in a browser or on a phone, and dial out to who
uses them. Only who connects is turned round: requests and answers go as ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Self

from mcpwire.errors import ConnectError
from mcpwire.limits import DEFAULT_LIMITS, check_timeout
from mcpwire.transports.custom.targets import Custom, Messages

if TYPE_CHECKING:
    from mcpwire.transports.custom.links import CloseFn, Link, ReceiveFn, SendFn

__all__ = ["Reverse"]


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
        """Give it to whoever waits, or let it wait; tell whether it may."""
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
        """Wait no more; what came in that very moment is for whoever is next."""
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
