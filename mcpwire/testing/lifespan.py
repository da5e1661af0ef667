"""Starts and ends an ASGI application, as a web server does."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Event = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Event]]
    Send = Callable[[Event], Awaitable[None]]
    Application = Callable[[Event, Receive, Send], Awaitable[None]]

__all__ = ["ASGI", "GRACE_S", "Lifespan", "awaited"]

logger = logging.getLogger("mcpwire")

GRACE_S: Final = 1.0
"""How long requests may take to end when their client is gone for good."""

END_S: Final = 10.0
"""How long the application may take to end."""

ASGI: Final = {"version": "3.0", "spec_version": "2.4"}


async def awaited(running: Awaitable[None]) -> None:
    """Make a coroutine of anything that can be awaited: tasks need one."""
    await running


class Lifespan:
    """Starts and ends an application, where it wants to hear of that."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self.state: dict[str, Any] = {}
        self._task: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._started: asyncio.Future[None] | None = None
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Start it, once; whoever comes meanwhile waits.

        Raises:
            RuntimeError: It says that it could not start.
        """
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._started = loop.create_future()
            self._stopped.clear()
            self._events.put_nowait({"type": "lifespan.startup"})
            scope = {"type": "lifespan", "asgi": dict(ASGI), "state": self.state}
            running = self._app(scope, self._events.get, self._send)
            self._task = loop.create_task(awaited(running), name="mcpwire-lifespan")
            self._task.add_done_callback(self._ended)
        assert self._started is not None
        await asyncio.shield(self._started)

    async def stop(self) -> None:
        """End it, where it has been started."""
        task, self._task = self._task, None
        if task is None:
            return
        assert self._started is not None
        stopped = asyncio.ensure_future(self._stopped.wait())
        both = {task, stopped}
        if self._started.done():  # or there is nothing to wait for
            self._events.put_nowait({"type": "lifespan.shutdown"})
            await asyncio.wait(both, timeout=END_S, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
        await asyncio.wait(both, timeout=GRACE_S)
        while not self._events.empty():
            self._events.get_nowait()

    async def _send(self, event: Event) -> None:
        assert self._started is not None
        kind = event["type"]
        if kind == "lifespan.startup.complete" and not self._started.done():
            self._started.set_result(None)
        elif kind == "lifespan.startup.failed" and not self._started.done():
            said = event.get("message") or "the ASGI application could not start"
            self._started.set_exception(RuntimeError(said))
        else:
            if kind == "lifespan.shutdown.failed":
                said = event.get("message")
                logger.error("the ASGI application failed to end: %s", said)
            self._stopped.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Go on where the application knows no lifespan, as servers do."""
        assert self._started is not None
        if not task.cancelled():
            task.exception()
        if not self._started.done():
            self._started.set_result(None)
