"""A blocking client of httpx, on a loop that blocking callers run.

Each exchange has a thread of its own. The task of the exchange hands it one step after
the other, and waits for each::

    task ──► send, next chunk, …, close ──► thread ──► client of httpx
         ◄── response, chunk, … ◄──────────

The thread ends with the response. Where a call is given up, the connection is ended, so
that the step under way fails; then the thread closes the response.
"""

from __future__ import annotations

import contextlib
import threading
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from mcpwire.transports.handlers import for_thread
from mcpwire.transports.http.over_httpx.lines import current_tap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

__all__ = ["ThreadedClient"]


class ThreadedClient:
    """Has what the engine uses of an asynchronous client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def is_closed(self) -> bool:
        """Whether its owner has closed it."""
        return bool(self._client.is_closed)

    @property
    def event_hooks(self) -> Any:
        """The client's own; they are called in the thread of the exchange."""
        return self._client.event_hooks

    def build_request(self, *args: Any, extensions: Any, **options: Any) -> Any:
        """Build a request; its steps are noted in the thread."""
        extensions = {**extensions, "trace": current_tap().note_step}
        return self._client.build_request(*args, extensions=extensions, **options)

    async def send(self, request: Any, **options: Any) -> _Response:
        """Send a request; return the response, unread."""
        thread = _Thread()
        await thread.send(partial(self._client.send, request, **options))
        return _Response(thread)


class _Thread:
    """Takes the steps of one exchange; the interpreter may exit meanwhile."""

    def __init__(self) -> None:
        self.response: Any = None
        self.is_ended = False
        self._tap = current_tap()
        self._steps: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(
            target=copy_context().run,
            args=(self._run,),
            name="mcpwire-httpx",
            daemon=True,
        ).start()

    def _run(self) -> None:
        for step in iter(self._steps.get, None):
            step()
        if self.response is not None:
            with contextlib.suppress(Exception):  # nobody waits any more
                self.response.close()

    async def send(self, send: Callable[[], Any]) -> None:
        """Have the request sent, and keep the response."""

        def step() -> None:
            self.response = send()

        await self.do(step)

    async def do(self, function: Callable[..., Any], *args: Any) -> Any:
        """Have one step taken; the thread ends where it fails or is given up."""
        step, result = for_thread(function, *args)
        self._steps.put(step)
        try:
            return await result
        except BaseException:
            self._tap.give_up()
            self.end()
            raise

    def end(self) -> None:
        """Close the response and end, after the step that is under way."""
        self.is_ended = True
        self._steps.put(None)


class _Response:
    """A response that the thread of its exchange reads."""

    def __init__(self, thread: _Thread) -> None:
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thread.response, name)

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Read the body as it is."""
        return self._read(self._thread.response.iter_raw())

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Read the body decoded."""
        return self._read(self._thread.response.iter_bytes())

    async def _read(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (chunk := await self._thread.do(next, chunks, None)) is not None:
            yield chunk

    async def aclose(self) -> None:
        """Close the response, unless its thread does so already."""
        if not self._thread.is_ended:
            await self._thread.do(self._thread.response.close)
            self._thread.end()
