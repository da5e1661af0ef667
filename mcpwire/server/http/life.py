"""When the application starts, what it is doing, and how it ends.

::

    new ──first request, lifespan──► started ──drain──► draining ──► closed
                                        ▲                              │
                                        └────── a lifespan anew ───────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from mcpwire.errors import InternalError
from mcpwire.server.http.stateless import RETRY_AFTER, SHUTTING_DOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.exchange import Exchange, Receive, Send
    from mcpwire.server.http.legacy_sse import LegacySse
    from mcpwire.server.http.sessions import Sessions
    from mcpwire.server.http.stateless import Stateless
    from mcpwire.server.http.timers import Clocks

__all__ = ["Life"]

logger = logging.getLogger("mcpwire")

END_GRACE_S: Final = 1.0
"""How long what was cancelled may take to end, and its answer to be sent."""


class Life:
    """The life of one application; see the module's text.

    Attributes:
        is_draining: Whether nothing new is taken.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        stateless: Stateless,
        others: Iterable[Sessions | LegacySse | None],
        clocks: Clocks,
    ) -> None:
        self._dispatcher = dispatcher
        self._stateless = stateless
        self._others = [other for other in others if other is not None]
        self._clocks = clocks
        self._open: dict[Exchange, None] = {}
        self._settled: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Task[None] | None = None
        self.is_draining = False

    # What it is doing...

    def begin(self, exchange: Exchange) -> None:
        """Take note of a request."""
        self._open[exchange] = None

    def end(self, exchange: Exchange) -> None:
        """Take note that it is answered."""
        del self._open[exchange]
        if self._settled is not None and self._are_calls_done():
            self._settled.set()

    def _are_calls_done(self) -> bool:
        return not any(exchange.verb == "POST" for exchange in self._open)

    # The beginning...

    @property
    def is_started(self) -> bool:
        """Whether it was started, on this loop."""
        return self._loop is asyncio.get_running_loop()

    async def start(self) -> None:
        """Be started, by whoever comes first.

        Raises:
            Exception: What starting raised; the next one tries again.
        """
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._starting is None or self._starting.get_loop() is not loop:
            self._starting = loop.create_task(
                self._dispatcher.start(), name="mcpwire-http-start"
            )
        starting = self._starting
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError as error:
            if not starting.cancelled():
                raise
            # By `aclose`; whoever waited is not cancelled for that.
            raise RuntimeError("the server ended as it started") from error
        except Exception:
            if self._starting is starting:
                self._starting = None
            raise
        before, self._loop = self._loop, loop
        if before is not None and before.is_closed():
            # It ended without telling us, as where we are mounted.
            for other in self._others:
                other.forget()

    # The end...

    async def drain(self, timeout: float) -> None:
        """Take nothing new, let what runs end, end what stays open."""
        self.is_draining = True
        for exchange in list(self._open):
            exchange.stop_reading(503, InternalError(SHUTTING_DOWN), RETRY_AFTER)
        # Whoever listens is told that it ends; they are calls, too.
        self._dispatcher.hub.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if not await self._settle(timeout):
            self._stateless.stop_all()
        for other in self._others:
            # A call goes on whose client polls for its answer.
            await other.settle(max(0.0, deadline - loop.time()))
        for other in self._others:
            await other.aclose()
        await self._settle(END_GRACE_S)

    async def _settle(self, seconds: float) -> bool:
        """Wait until no call runs, but not longer than that; tell whether none does."""
        self._settled = asyncio.Event()
        try:
            if not self._are_calls_done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._settled.wait()
            return self._are_calls_done()
        finally:
            self._settled = None

    async def aclose(self) -> None:
        """End everything, now."""
        loop = asyncio.get_running_loop()
        starting, self._starting = self._starting, None
        if starting is not None and starting.get_loop() is loop:
            starting.cancel()  # which does nothing to one that is done
            await asyncio.wait([starting])
        await self.drain(0)
        self._clocks.close()
        if self._loop is loop:
            self._loop = None
            await self._dispatcher.aclose()

    # A web server that says so...

    async def follow(self, receive: Receive, send: Send) -> None:
        """Start and end when the web server says."""
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                self.is_draining = False
                try:
                    await self.start()
                except Exception as error:
                    logger.exception("the server could not start")
                    message = f"the server could not start: {type(error).__name__}"
                    await send({"type": "lifespan.startup.failed", "message": message})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return
