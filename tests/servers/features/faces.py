"""Each shell of the client with the asyncio one's face, and ears for notifications.

`BlockingFace()(target, ...)` gives what has the asyncio client's methods. Behind it
each call of the blocking client runs in a thread of its own, and what the blocking
client returns to be used further (streams, started calls) gets the same face.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

import mcpwire
import mcpwire.sync
from mcpwire.sync._made.streams import EventStream, ResourceWatch
from mcpwire.sync._shell.calls import PendingCall

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

PATIENCE_S: Final = 30.0
"""How long something may take to come from a server; a busy machine is slow."""

THREADS: Final = 32
STOP: Final = object()

IMMEDIATE: Final = frozenset({"events", "listen", "watch", "cancel"})
"""Methods that send nothing, or wait for nothing, and are no coroutines on asyncio."""

LASTING: Final = (EventStream, ResourceWatch, PendingCall)
"""What is used on after a method has returned it."""


class AsyncioFace:
    """The asyncio client itself."""

    def __call__(self, target: Any, **options: Any) -> mcpwire.Client:
        return mcpwire.Client(target, **options)

    def close(self) -> None:
        """Nothing is held."""


class BlockingFace:
    """The blocking client; a thread of its own reads while nobody calls."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "test-caller")

    def __call__(self, target: Any, **options: Any) -> Any:
        client = mcpwire.sync.Client(target, background=True, **options)
        return InThreads(client, self._threads)

    def close(self) -> None:
        """End the threads; a call that still hangs is a failed test."""
        self._threads.shutdown()


FACES: Final = {"asyncio": AsyncioFace, "blocking": BlockingFace}


class InThreads:
    """Something blocking, whose methods are awaited."""

    def __init__(self, blocking: Any, threads: ThreadPoolExecutor) -> None:
        self._blocking = blocking
        self._threads = threads

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._blocking, name)
        if not callable(value):
            return value
        if name in IMMEDIATE:
            return lambda *args, **options: self._face(value(*args, **options))

        async def run(*args: Any, **options: Any) -> Any:
            return self._face(await self._run(value, *args, **options))

        return run

    def _face(self, value: Any) -> Any:
        return InThreads(value, self._threads) if isinstance(value, LASTING) else value

    async def _run(self, function: Callable[..., Any], *args: Any, **options: Any):
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, lambda: function(*args, **options)
        )

    async def aclose(self) -> None:
        await self._run(self._blocking.close)

    async def __aenter__(self) -> Self:
        await self._run(self._blocking.__enter__)
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._run(self._blocking.__exit__, *details)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        value = await self._run(next, self._blocking, STOP)
        if value is STOP:
            raise StopAsyncIteration
        return value

    def __await__(self) -> Generator[Any, None, Any]:
        return self._run(self._blocking.result, PATIENCE_S).__await__()


class Heard:
    """Remembers what it is called with, in whatever thread; give it as a callback."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._came = asyncio.Event()

    def __call__(self, *what: Any) -> None:
        self.all.append(what[0] if len(what) == 1 else what)
        self._loop.call_soon_threadsafe(self._came.set)

    def of(self, method: str) -> list[Any]:
        """Return the params of the notifications of one kind."""
        return [one.params for one in self.all if one.method == method]

    async def until(self, is_enough: Callable[[], Any]) -> None:
        """Wait until what was heard is enough."""
        with anyio.fail_after(PATIENCE_S):
            while not is_enough():
                self._came.clear()
                await self._came.wait()


async def next_of(stream: Any, method: str) -> Any:
    """Return the params of the next notification of a kind; pass over the others."""
    with anyio.fail_after(PATIENCE_S):
        async for notification in stream:
            if notification.method == method:
                return notification.params
    raise AssertionError(f"the stream ended before {method}")


MESSAGE: Final = "notifications/message"
UPDATED: Final = "notifications/resources/updated"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
