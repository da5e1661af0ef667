"""Both clients behind one face, for what the blocking one adds: threads and handlers.

`shell(target, **options)` gives what has the asyncio client's methods, as coroutines.
The blocking client runs in threads behind it, one for each call that waits.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import mcpwire
import mcpwire.sync

BLOCKED_S = 120.0
"""Longer than a test may take: its own bound says that something hangs."""

THREADS = 128
"""More than any test has calls in flight."""


class AsyncioShell:
    """The client itself."""

    name = "asyncio"
    listening: ClassVar[dict[str, Any]] = {}
    """What makes a client hear of notifications while nobody calls."""

    def __call__(self, target: Any, **options: Any) -> Any:
        return mcpwire.Client(target, **options)

    def callback(self, function: Any) -> Any:
        """Return an async function as this shell's users write it."""
        return function

    def close(self) -> None:
        """Nothing is held."""


class BlockingShell:
    """The blocking client, each of its methods in a thread."""

    name = "blocking"
    listening: ClassVar[dict[str, Any]] = {"background": True}

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "test-caller")

    def __call__(self, target: Any, **options: Any) -> Any:
        return Threaded(mcpwire.sync.Client(target, **options), self._threads)

    def callback(self, function: Any) -> Any:
        """Return a plain function that blocks until the async one is through."""
        loop = asyncio.get_running_loop()

        def block(*args: Any) -> Any:
            running = asyncio.run_coroutine_threadsafe(function(*args), loop)
            return running.result(BLOCKED_S)

        return block

    def close(self) -> None:
        """End the threads; a call that still hangs is a failed test."""
        self._threads.shutdown()


class Threaded:
    """A blocking client whose methods are awaited."""

    def __init__(self, client: Any, threads: ThreadPoolExecutor) -> None:
        self.blocking = client
        self._threads = threads

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.blocking, name)
        if name.startswith("_") or not callable(value):
            return value

        async def run(*args: Any, **options: Any) -> Any:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._threads, lambda: value(*args, **options)
            )

        return run

    async def aclose(self) -> None:
        await self.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Signal:
    """An event that any thread may set."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()


SHELLS = {"asyncio": AsyncioShell, "blocking": BlockingShell}
