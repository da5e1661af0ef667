"""Both clients with one interface: the methods of the asyncio client, as coroutines.

The blocking client runs in threads, one for each call that waits.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import mcpwire
import mcpwire.sync

THREADS = 128
"""More than the calls in flight of any test."""


class AsyncioShell:
    """The client itself."""

    def __call__(self, target: Any, **options: Any) -> Any:
        return mcpwire.Client(target, **options)

    def close(self) -> None:
        """Do nothing: this shell holds no resources."""


class BlockingShell:
    """The blocking client, each of its methods in a thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "test-caller")

    def __call__(self, target: Any, **options: Any) -> Any:
        return Threaded(mcpwire.sync.Client(target, **options), self._threads)

    def close(self) -> None:
        """End the threads; a call that still hangs fails the test."""
        self._threads.shutdown()


class Threaded:
    """A blocking client whose methods are coroutines."""

    def __init__(self, client: Any, threads: ThreadPoolExecutor) -> None:
        self.blocking = client
        self._threads = threads

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.blocking, name)
        if not callable(value):
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


SHELLS = {"asyncio": AsyncioShell, "blocking": BlockingShell}
