"""What a plain function asks from its worker thread, which waits for the answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mcpwire.errors import LocalProtocolError
from mcpwire.transports.base import runs_here

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from mcpwire import types
    from mcpwire.server.asking.context import Context
    from mcpwire.server.asking.elicited import Elicited

    T = TypeVar("T")

__all__ = ["Blocking"]


class Blocking:
    """`Context.sync`: the context's questions for functions that cannot await.

    ::

        @server.tool
        def order(ctx: Context) -> str:
            answer = ctx.sync.elicit("How many?", Order)
            ...

    Each method raises what its twin of the same name raises. Where a request is
    withdrawn while its thread waits, `asyncio.CancelledError` is raised there.
    """

    __slots__ = ("_context", "_loop", "_waiting")

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._waiting: set[asyncio.Task[Any]] = set()

    @overload
    def elicit(
        self, message: str, schema: type[T], *, key: str | None = None
    ) -> Elicited[T]: ...

    @overload
    def elicit(
        self, message: str, schema: Mapping[str, Any], *, key: str | None = None
    ) -> Elicited[dict[str, Any]]: ...

    @overload
    def elicit(
        self, message: str, schema: object, *, key: str | None = None
    ) -> Elicited[Any]: ...

    def elicit(
        self, message: str, schema: Any, *, key: str | None = None
    ) -> Elicited[Any]:
        """Ask the user to fill in a form."""
        return self._wait(self._context.elicit(message, schema, key=key))

    def elicit_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> Elicited[None]:
        """Ask the user to visit a URL."""
        return self._wait(self._context.elicit_url(message, url, key=key))

    def require_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> Elicited[None]:
        """Have the user visit a URL before this call can be made."""
        return self._wait(self._context.require_url(message, url, key=key))

    def sample(
        self, prompt: str | Sequence[Any] | Any, **options: Any
    ) -> types.CreateMessageResult:
        """Ask for an answer of the client's model."""
        return self._wait(self._context.sample(prompt, **options))

    def roots(self, *, key: str | None = None) -> list[types.Root]:
        """Ask which folders and files the client lets us work in."""
        return self._wait(self._context.roots(key=key))

    def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return what the function returned in the first round of this call.

        A plain function runs here, in the calling thread.
        """
        if inspect.iscoroutinefunction(function):
            return self._wait(self._context.once(key, function))
        rounds = self._context.rounds
        kept = rounds.kept(key)
        return rounds.keep(key, function()) if kept is None else kept[0]

    def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource of this server."""
        return self._wait(self._context.read_resource(uri))

    def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None
    ) -> types.CallToolResult:
        """Call a tool of this server."""
        return self._wait(self._context.call_tool(name, arguments))

    def _wait(self, question: Coroutine[Any, Any, T]) -> T:
        """Run a question on the loop, and wait here for what comes of it.

        Raises:
            LocalProtocolError: This is the loop's own thread, which must not wait.
            CancelledError: The request is over.
        """
        if runs_here(self._loop):
            question.close()
            raise LocalProtocolError(
                "what `sync` has waits, which the event loop's thread must not: await "
                "the same method of the context itself"
            )
        future = asyncio.run_coroutine_threadsafe(self._answer(question), self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            # Theirs is an `Exception`, which functions catch by accident.
            raise asyncio.CancelledError from None

    async def _answer(self, question: Coroutine[Any, Any, T]) -> T:
        # On the loop, like `stop`: neither can miss the other.
        if not self._context.is_entered:
            question.close()
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            return await question
        finally:
            self._waiting.discard(task)

    def stop(self) -> None:
        """Wake all threads that wait: nobody wants to know any more."""
        for task in list(self._waiting):
            task.cancel()
