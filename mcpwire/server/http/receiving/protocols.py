"""uvicorn's protocols for HTTP/1.1, with what they lack.

- A small answer leaves in one write (`Corked`).
- A head has a bound with either parser; httptools takes heads of any length.
- With httptools, a request that came whole is answered where it was read: the first
  step of its task is not left to the loop's next turn (`FirstSteps`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.server.http.corking import Corked, Turn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from mcpwire.transports.tasks.first_step import FirstSteps

__all__ = ["mended"]


def mended(base: Any, head_limit: int, first_steps: FirstSteps) -> Any:
    """Return one of uvicorn's protocols with what it lacks.

    Args:
        base: It.
        head_limit: How many bytes a head may have.
        first_steps: Begins the requests' tasks.
    """
    # h11 has a bound of its own.
    corked = _corked(base, Turn())
    if not hasattr(base, "on_headers_complete"):
        return corked
    return _prompt(_bounded(corked, head_limit), first_steps)


def _corked(base: Any, turn: Turn) -> Any:
    class Protocol(base):  # type: ignore[misc] # is imported late
        def connection_made(self, transport: asyncio.Transport) -> None:
            self.corked = Corked(transport, turn)
            super().connection_made(self.corked)

    return Protocol


def _bounded(base: Any, head_limit: int) -> Any:
    class Bounded(base):  # type: ignore[misc] # as above
        head_size = 0
        is_in_head = True

        def data_received(self, data: bytes) -> None:
            self.head_size += len(data)
            super().data_received(data)
            if self.is_in_head and self.head_size > head_limit:
                self.send_400_response(f"the head is over {head_limit} bytes")

        def on_headers_complete(self) -> None:
            self.is_in_head = False
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self.is_in_head, self.head_size = True, 0
            super().on_message_complete()

    return Bounded


def _prompt(base: Any, first_steps: FirstSteps) -> Any:
    class Prompt(base):  # type: ignore[misc] # as above
        is_reading = False
        coming: Coroutine[Any, Any, None] | None = None

        def data_received(self, data: bytes) -> None:
            self.corked.begin()
            self.is_reading = True
            try:
                super().data_received(data)
                self.is_reading = False
                if self.coming is not None:
                    coming, self.coming = self.coming, None
                    self.begin(coming)
            finally:
                self.is_reading = False
                self.corked.end()

        def begin(self, coming: Coroutine[Any, Any, None]) -> None:
            """Begin the request that came first in what was read."""
            task = first_steps.start(coming)
            if task is not None:
                # As uvicorn does with those that it begins.
                task.add_done_callback(self.tasks.discard)
                self.tasks.add(task)

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            # Others of the same read, and those that wait for another to be answered,
            # have turns of their own, as has a user's context.
            if (
                not self.is_reading
                or self.coming is not None
                or getattr(self.config, "reset_contextvars", False)
            ):
                super()._start_asgi_task(cycle, app)
            else:
                self.coming = cycle.run_asgi(app)

    return Prompt
