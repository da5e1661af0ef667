"""Runs the functions that a server's author wrote.

Each gets its arguments, the context and its dependencies; a plain one runs in a worker
thread, with the context variables of the request. What was prepared is called once, or
later on behalf of a task, and then closed.
"""

from __future__ import annotations

import asyncio
import functools
import math
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from mcpwire.errors import ToolError
from mcpwire.server.asking.context import Context, entered
from mcpwire.server.asking.outbox import call_soon
from mcpwire.server.authoring.injection import Plans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.request import RequestContext

__all__ = ["Calling", "Prepared", "Slots"]

_NOTHING: dict[Any, Any] = {}


class _Work:
    """A plain function on its way through a thread, which nothing can stop.

    Who waits for it may leave; what it takes, a place among the threads above all, is
    free when the function has ended, and not before: else whoever calls and cancels
    gets as many threads as he wants.
    """

    __slots__ = ("_after", "_function", "_has_begun", "_is_left", "_loop", "is_over")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._after: list[Callable[[], object]] = []
        self._has_begun = self._is_left = False
        self.is_over = False

    def __call__(self) -> Any:
        """Run it; in the thread."""
        # Set before the other one's flag is read, there as here: one of us sees it.
        self._has_begun = True
        try:
            return None if self._is_left else self._function()
        finally:
            self._has_begun = False
            if self._is_left:
                call_soon(self._loop, self.end)

    def leave(self) -> None:
        """Wait for it no longer; on the loop."""
        self._is_left = True
        if not self._has_begun:
            self.end()

    def when_over(self, action: Callable[[], object]) -> None:
        """Have something done when it is over; on the loop."""
        if self.is_over:
            action()
        else:
            self._after.append(action)

    def end(self) -> None:
        """Do what was to be done after it, once; on the loop."""
        self.is_over = True
        after, self._after = self._after, []
        for action in after:
            action()


class Prepared:
    """A function whose dependencies are made; it can be called, and must be closed."""

    __slots__ = (
        "_arguments",
        "_calling",
        "_function",
        "_made",
        "_plans",
        "_stack",
        "_work",
    )

    def __init__(
        self,
        calling: Calling,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        plans: Plans | None,
    ) -> None:
        self._calling = calling
        self._function = function
        self._arguments = arguments
        self._plans = plans
        self._made: Mapping[Callable[..., Any], Any] = _NOTHING
        self._stack: AsyncExitStack | None = None
        self._work: _Work | None = None

    @property
    def needs_making(self) -> bool:
        """Whether there are dependencies."""
        return bool(self._plans)

    async def make(self, context: Context) -> None:
        """Make the dependencies; what they ask of the client is asked here."""
        if self._plans:
            self._stack = AsyncExitStack()
            with entered(context):
                self._made = await self._plans.make(
                    context, self._stack, self._calling.in_thread
                )

    async def call(
        self,
        context: Context,
        *,
        runs_in_thread: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Call the function and return what it returns.

        Raises:
            ToolError: It took longer than the timeout, in seconds.
        """
        arguments = self._arguments
        if self._plans is not None:
            arguments = {**arguments, **self._plans.arguments(context, self._made)}
        with entered(context):
            if timeout is None:
                return await self._run(arguments, runs_in_thread=runs_in_thread)
            try:
                async with asyncio.timeout(timeout) as clock:
                    return await self._run(arguments, runs_in_thread=runs_in_thread)
            except TimeoutError:
                if not clock.expired():
                    raise
                raise ToolError(f"it took longer than {timeout:g} seconds") from None

    async def _run(self, arguments: Mapping[str, Any], *, runs_in_thread: bool) -> Any:
        call = functools.partial(self._function, **arguments)
        if runs_in_thread:
            self._work = _Work(call)
            return await self._calling.in_thread(self._work)
        outcome = call()
        # An object with an async `__call__`, or a plain function around one.
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    def when_over(self, action: Callable[[], object]) -> None:
        """Have something done when the function has ended; after `call`.

        That is now, or where a thread still runs it, later.
        """
        if self._work is None:
            action()
        else:
            self._work.when_over(action)

    async def close(self, error: BaseException | None = None) -> None:
        """End what dependencies began.

        Args:
            error: Why the call has failed, or is over before its end. It is raised
                where they yielded, as around any ``with``: a transaction is not to be
                committed then. They cannot undo it.
        """
        if self._stack is not None:
            kind, trace = (type(error), error.__traceback__) if error else (None, None)
            await self._stack.__aexit__(kind, error, trace)


class Slots:
    """Places for so many calls at once, on each loop.

    What still holds one when its loop ends, such as a thread, holds up no other loop.

    Args:
        number: How many there are.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.Semaphore] = (
            WeakKeyDictionary()
        )

    def here(self) -> anyio.Semaphore:
        """Return those of the running loop."""
        loop = asyncio.get_running_loop()
        semaphore = self._by_loop.get(loop)
        if semaphore is None:
            semaphore = self._by_loop[loop] = anyio.Semaphore(self._number)
        return semaphore


class Calling:
    """How one server calls functions.

    Args:
        context_of: Makes the context of a request.
        thread_limit: How many plain functions run at once.
    """

    def __init__(
        self, context_of: Callable[[RequestContext], Context], *, thread_limit: int
    ) -> None:
        self.context_of = context_of
        self._thread_limit = thread_limit
        # They belong to the loop that they were made on.
        self._limiters: WeakKeyDictionary[
            asyncio.AbstractEventLoop,
            tuple[anyio.CapacityLimiter, anyio.CapacityLimiter],
        ] = WeakKeyDictionary()
        self._plans: WeakKeyDictionary[Signature, Plans] = WeakKeyDictionary()

    def plans_of(self, signature: Signature) -> Plans | None:
        """Return how the parameters are filled that the client does not fill.

        Raises:
            TypeError: Something of that cannot be done.
        """
        if not signature.injected:
            return None
        plans = self._plans.get(signature)
        if plans is None:
            plans = self._plans[signature] = Plans(signature.injected)
        return plans

    def prepare(
        self,
        signature: Signature,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
    ) -> Prepared:
        """Return the function ready to `make` and `call`."""
        return Prepared(self, function, arguments, self.plans_of(signature))

    async def invoke(
        self,
        signature: Signature,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        request: RequestContext,
        *,
        runs_in_thread: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Call a function for a request and return what it returns.

        Raises:
            ToolError: It took longer than the timeout, in seconds.
        """
        prepared = self.prepare(signature, function, arguments)
        context = self.context_of(request)
        try:
            await prepared.make(context)
            value = await prepared.call(
                context, runs_in_thread=runs_in_thread, timeout=timeout
            )
        except BaseException as error:
            await prepared.close(error)
            raise
        await prepared.close()
        return value

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Run a plain function in a worker thread and return its result.

        Cancelling returns at once; the function goes on, and can see from its context
        that nobody waits any more. It keeps its place among the threads.
        """
        work = function if isinstance(function, _Work) else _Work(function)
        limiter, unlimited = self._limiters_here()
        try:
            limiter.acquire_on_behalf_of_nowait(work)
        except anyio.WouldBlock:
            try:
                await limiter.acquire_on_behalf_of(work)
            except BaseException:
                work.end()
                raise
        work.when_over(functools.partial(limiter.release_on_behalf_of, work))
        try:
            result = await anyio.to_thread.run_sync(
                work, abandon_on_cancel=True, limiter=unlimited
            )
        except BaseException:
            work.leave()
            raise
        work.end()
        return result

    def _limiters_here(self) -> tuple[anyio.CapacityLimiter, anyio.CapacityLimiter]:
        """Return ours, and one for what has a place already, on the running loop."""
        loop = asyncio.get_running_loop()
        limiters = self._limiters.get(loop)
        if limiters is None:
            limiters = self._limiters[loop] = (
                anyio.CapacityLimiter(self._thread_limit),
                anyio.CapacityLimiter(math.inf),
            )
        return limiters
