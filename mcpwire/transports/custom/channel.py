"""A duplex channel over a link that a user brings, or that has yet to be opened.

What is said before it is open waits. One task opens it and reads; what it read is taken
in by the loop, not by that task, so that whoever waits for an answer goes on at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from mcpwire.errors import ConnectError, TransportError
from mcpwire.transports._duplex import Duplex
from mcpwire.transports.custom.links import shut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.transports.base import Inbound
    from mcpwire.transports.custom.links import Link

__all__ = ["LinkChannel"]

logger = logging.getLogger("mcpwire")


class LinkChannel(Duplex):
    """A connection over a `Link`.

    Attributes:
        at_end: Called at the end of what comes, in place of taking the connection for
            lost: a server answers what it was asked before.
    """

    def __init__(
        self,
        inbound: Inbound,
        open_link: Callable[[], Awaitable[Link]],
        **options: Any,
    ) -> None:
        super().__init__(inbound, **options)
        self._early: list[bytes] = []
        self._link: Link | None = None
        self._closing: asyncio.Task[None] | None = None
        self.at_end: Callable[[], object] | None = None
        # An eager task runs, and may fail, before its name is bound.
        self._working: asyncio.Task[None] | None = None
        self._working = self._loop.create_task(
            self._work(open_link), name="mcpwire-link"
        )
        self._working.add_done_callback(self._worked)

    # Opening and reading...

    async def _work(self, open_link: Callable[[], Awaitable[Link]]) -> None:
        try:
            link = await open_link()
        except Exception as error:  # noqa: BLE001 - a user's function
            self._lose(_failure(error, self.target), error)
            return
        if self._dead is not None:
            # It came too late, for a function that would not be cancelled.
            await shut(link, politely=False, grace=self._limits.close_grace)
            return
        self._link = link
        link.failed = self._failed
        link.drained = self._writing_done
        early, self._early = self._early, []
        if early:
            self._write(b"".join(early))
        try:
            await self._read_on(link)
        except Exception as error:  # noqa: BLE001 - a user's connection
            self._failed("receiving failed", error)

    async def _read_on(self, link: Link) -> None:
        while self._dead is None:
            data = await link.read()
            if data is None:
                self._ended()
                return
            self._loop.call_soon(self._take, data)
            # In the order in which it came, and never faster than it is taken in.
            await asyncio.sleep(0)

    def _take(self, data: bytes) -> None:
        if self._dead is None:
            self.receive(data)

    def _ended(self) -> None:
        if self._dead is not None:
            return
        if self.at_end is None:
            self._lose(TransportError("the peer closed it", target=self.target))
            return
        self.receive(b"\n")  # the end ends the last line
        self.at_end()

    def _worked(self, task: asyncio.Task[None]) -> None:
        # Somebody's function may let a cancellation of its own out.
        if task.cancelled() and self._dead is None:
            why = "opening or receiving was cancelled"
            self._lose(TransportError(why, target=self.target))

    # Writing...

    def _write(self, data: bytes) -> None:
        link = self._link
        if link is None:
            self._early.append(data)
            return
        link.write(data)
        self._recount()

    def _recount(self) -> None:
        """Take over what the link has passed on by now."""
        waiting = sum(map(len, self._gathered)) + sum(map(len, self._early))
        if self._link is not None:
            waiting += self._link.waiting
        self._written = max(self._written, self._queued - waiting)

    def _writing_done(self) -> None:
        """Nothing waits any more; a `Trace` hears of it."""
        self._recount()

    def _failed(self, what: str, error: Exception) -> None:
        self._lose(TransportError(f"{what}: {_word(error)}", target=self.target), error)

    # The end...

    def _lose(self, error: TransportError, cause: BaseException | None = None) -> None:
        if self._dead is not None:
            return
        self._recount()
        super()._lose(error, cause)
        self._closing = self._loop.create_task(
            self._close(politely=cause is None), name="mcpwire-link-close"
        )

    async def _close(self, *, politely: bool) -> None:
        """End reading and writing, and close; each within `Limits.close_grace`."""
        working, grace = self._working, self._limits.close_grace
        if working is not None and not working.done():
            working.cancel()
            await asyncio.wait([working], timeout=grace)
            if not working.done():
                logger.warning("%s: receiving cannot be cancelled", self.target)
        if self._link is not None:
            await shut(self._link, politely=politely, grace=grace)

    async def aclose(self) -> None:
        """Send what waits, then close; bounded by thrice `Limits.close_grace`.

        Cancelling it leaves the closing under way; call it again to wait for its end.
        """
        self._closed_by_us = True
        self._flush()
        self._lose(self._closed_error())
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def abandon(self) -> None:
        """Let go now, from anywhere, without a loop to wait on."""
        super().abandon()
        if self._loop.is_closed():
            return
        for task in (self._working, self._closing):
            if task is not None:
                task.cancel()
        if self._link is not None:
            self._link.abort()
            self._link.over.set()


def _failure(error: Exception, target: str | None) -> TransportError:
    """Say that no connection came about; what says so by itself stays."""
    if isinstance(error, TransportError):
        return error
    errno = error.errno if isinstance(error, OSError) else None
    why = f"{target}: opening failed: {_word(error)}"
    return ConnectError(why, target=target, errno=errno)


def _word(error: Exception) -> str:
    """Return an error as a few words that are never empty."""
    name, text = type(error).__name__, str(error)
    return f"{name}: {text}" if text else name
