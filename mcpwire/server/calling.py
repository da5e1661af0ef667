"""Calls of the functions that a server's author wrote.

Each gets its arguments, the context and its dependencies; a plain function runs in a
worker thread, with the context variables of the request. A `PreparedCall` runs once, at
once or later as a task, and is then closed. Exceptions of functions pass through:
`dispatcher` converts them to responses.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
from collections import Counter, deque
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from mcpwire.errors import ToolError
from mcpwire.server.notifications import call_soon

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.context import Context
    from mcpwire.server.request import Owner, RequestContext


class PreparedCall:
    """A function with its arguments and its dependencies, which end on exit."""

    def __init__(
        self, caller: FunctionCaller, signature: Signature, arguments: Mapping[str, Any]
    ) -> None:
        self._caller = caller
        self._function = signature.function
        self._arguments = arguments
        self._dependencies = signature.dependencies
        self._context: Context | None = None
        self._values: Mapping[Callable[..., Any], Any] = {}
        self._stack: AsyncExitStack | None = None
        self._thread_done: concurrent.futures.Future[None] | None = None

    async def resolve_dependencies(self, request: RequestContext) -> None:
        """Evaluate the dependencies; they may ask questions of the client."""
        if self._dependencies:
            self._stack = AsyncExitStack()
            run_plain = partial(self._caller.run_in_thread, owner=request.info.owner)
            with self._context_of(request) as context:
                self._values = await self._dependencies.resolve(
                    context, self._stack, run_plain
                )

    async def call(
        self,
        request: RequestContext,
        *,
        runs_in_thread: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Call the function and return its value."""
        if timeout is None:
            return await self._run(request, runs_in_thread=runs_in_thread)
        # The timeout is set outside of the context: until it expires, its timer keeps
        # its context alive, which would refer to the request.
        try:
            async with asyncio.timeout(timeout) as timer:
                return await self._run(request, runs_in_thread=runs_in_thread)
        except TimeoutError:
            if not timer.expired():
                raise
            raise ToolError(f"it took longer than {timeout:g} seconds") from None

    def _context_of(self, request: RequestContext) -> Context:
        """Return the context of a request, which is shared with its dependencies."""
        if self._context is None or self._context.request is not request:
            self._context = self._caller.context_of(request)
        return self._context

    async def _run(self, request: RequestContext, *, runs_in_thread: bool) -> Any:
        with self._context_of(request) as context:
            injected = {}
            if self._dependencies is not None:
                injected = self._dependencies.arguments(context, self._values)
            function = partial(self._function, **self._arguments, **injected)
            if runs_in_thread:
                self._thread_done = concurrent.futures.Future()
                return await self._caller.run_in_thread(
                    function, request.info.owner, self._thread_done
                )
            outcome = function()
            # An object with an async `__call__`, or a plain wrapper of a coroutine.
            return await outcome if hasattr(outcome, "__await__") else outcome

    def call_when_done(self, action: Callable[[], object]) -> None:
        """Call an action once the function has ended, also if it runs in a thread."""
        if self._thread_done is None:
            action()
        else:
            loop = asyncio.get_running_loop()
            self._thread_done.add_done_callback(lambda _: call_soon(loop, action))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        # The error of the call is raised at the ``yield`` of dependencies, as in any
        # ``with``, so that transactions roll back. They cannot suppress it.
        if self._stack is not None:
            await self._stack.__aexit__(*error)  # type: ignore[arg-type] # as they came


class SlotPool:
    """A number of slots for concurrent calls on one loop, shared fairly by clients."""

    def __init__(self, number: int, *, reserves_slots: bool) -> None:
        self.unlimited = anyio.CapacityLimiter(math.inf)
        self._free = number
        self._reserves_slots = reserves_slots
        self._used: Counter[Owner] = Counter()
        self._waiting: dict[Owner, deque[asyncio.Future[None]]] = {}

    async def acquire(self, owner: Owner) -> None:
        """Take a slot, or wait for one; clients that hold fewer slots come first."""
        if self._can_acquire(owner):
            self._take(owner)
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(granted)
        try:
            await granted
        except BaseException:
            if granted.done() and not granted.cancelled():
                self.release(owner)
            else:
                self._remove(owner, granted)
            raise

    def release(self, owner: Owner) -> None:
        """Release a slot of this client."""
        self._free += 1
        self._used[owner] -= 1
        if not self._used[owner]:
            del self._used[owner]
        while candidates := [each for each in self._waiting if self._can_acquire(each)]:
            # Of clients with equally many, the one that has waited longest.
            owner = min(candidates, key=self._used.__getitem__)
            self._take(owner)
            queue = self._waiting.pop(owner)
            queue.popleft().set_result(None)
            if queue:
                self._waiting[owner] = queue

    def _can_acquire(self, owner: Owner) -> bool:
        reserved = self._used[owner] if self._reserves_slots and owner else 0
        return self._free > reserved

    def _take(self, owner: Owner) -> None:
        self._free -= 1
        self._used[owner] += 1

    def _remove(self, owner: Owner, granted: asyncio.Future[None]) -> None:
        queue = self._waiting[owner]
        queue.remove(granted)
        if not queue:
            del self._waiting[owner]


class Slots:
    """One `SlotPool` per loop: a thread that outlives its loop blocks no other loop."""

    def __init__(self, number: int, *, reserves_slots: bool = False) -> None:
        self._number = number
        self._reserves_slots = reserves_slots
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, SlotPool] = (
            WeakKeyDictionary()
        )

    def for_running_loop(self) -> SlotPool:
        """Return the slots of the running loop."""
        loop = asyncio.get_running_loop()
        pool = self._by_loop.get(loop)
        if pool is None:
            pool = self._by_loop[loop] = SlotPool(
                self._number, reserves_slots=self._reserves_slots
            )
        return pool


class FunctionCaller:
    """Calls the functions of one server."""

    def __init__(
        self, context_of: Callable[[RequestContext], Context], *, thread_limit: int
    ) -> None:
        self.context_of = context_of
        self._threads = Slots(thread_limit, reserves_slots=True)

    async def invoke(
        self,
        signature: Signature,
        arguments: Mapping[str, Any],
        request: RequestContext,
        *,
        runs_in_thread: bool = False,
    ) -> Any:
        """Call a function for a request and return its value."""
        async with PreparedCall(self, signature, arguments) as prepared:
            await prepared.resolve_dependencies(request)
            return await prepared.call(request, runs_in_thread=runs_in_thread)

    async def run_in_thread(
        self,
        function: Callable[[], Any],
        owner: Owner,
        ended: concurrent.futures.Future[None] | None = None,
    ) -> Any:
        """Run a plain function in a worker thread and return its result.

        Cancellation returns at once; the function runs on, and can check its context
        for the cancellation. It keeps its slot among the client's threads until it
        ends, when `ended` is set: otherwise a client could start any number of threads
        by calling and cancelling.
        """
        loop, threads = asyncio.get_running_loop(), self._threads.for_running_loop()
        ended = concurrent.futures.Future() if ended is None else ended

        def run() -> Any:
            if not ended.set_running_or_notify_cancel():
                return None
            try:
                return function()
            finally:
                ended.set_result(None)

        try:
            await threads.acquire(owner)
            ended.add_done_callback(
                lambda _: call_soon(loop, partial(threads.release, owner))
            )
            outcome = await anyio.to_thread.run_sync(
                run, abandon_on_cancel=True, limiter=threads.unlimited
            )
            # A plain function may return the coroutine of an async one.
            return await outcome if hasattr(outcome, "__await__") else outcome
        finally:
            ended.cancel()  # no effect once the function has started
