"""Runs the functions that a server's author wrote.

Each gets its arguments, the context and its dependencies; a plain one runs in a worker
thread, with the context variables of the request. What was prepared is called once, or
later on behalf of a task, and then closed.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from mcpwire.errors import ToolError
from mcpwire.server.authoring.injection import Plans
from mcpwire.server.context import Context, entered
from mcpwire.server.notifications import call_soon

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.request import Owner, RequestContext

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
            run_plain = functools.partial(
                self._calling.in_thread, owner=context.request.info.owner
            )
            with entered(context):
                self._made = await self._plans.make(context, self._stack, run_plain)

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
            run = self._run_in_thread if runs_in_thread else self._run
            if timeout is None:
                return await run(arguments, context)
            try:
                async with asyncio.timeout(timeout) as clock:
                    return await run(arguments, context)
            except TimeoutError:
                if not clock.expired():
                    raise
                raise ToolError(f"it took longer than {timeout:g} seconds") from None

    async def _run(self, arguments: Mapping[str, Any], _: Context) -> Any:
        outcome = self._function(**arguments)
        # An object with an async `__call__`, or a plain function around one.
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    async def _run_in_thread(
        self, arguments: Mapping[str, Any], context: Context
    ) -> Any:
        self._work = _Work(functools.partial(self._function, **arguments))
        owner = context.request.info.owner
        return await self._calling.in_thread(self._work, owner)

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


class SlotPool:
    """Slots for calls at once, divided by client; used on one loop.

    Args:
        number: How many calls run at once.
        keeps_room: Whether a client over HTTP gets another slot only while more are
            free than it holds, so that one that never returns any leaves half of them.

    Attributes:
        unlimited: For anyio, which is to set no bound of its own on threads.
    """

    __slots__ = ("_free", "_held", "_keeps_room", "_waiting", "unlimited")

    def __init__(self, number: int, *, keeps_room: bool) -> None:
        self.unlimited = anyio.CapacityLimiter(math.inf)
        self._free = number
        self._keeps_room = keeps_room
        self._held: dict[Owner, int] = {}
        self._waiting: dict[Owner, deque[asyncio.Future[None]]] = {}

    async def acquire(self, owner: Owner) -> None:
        """Take a slot; wait for one behind clients that hold fewer."""
        if self._may_take(owner):
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
        """Return a slot of this client."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        while able := [each for each in self._waiting if self._may_take(each)]:
            # Of clients that hold as many, the one that was not served for longest.
            owner = min(able, key=self._count)
            self._take(owner)
            waiting = self._waiting.pop(owner)
            waiting.popleft().set_result(None)
            if waiting:
                self._waiting[owner] = waiting

    def _count(self, owner: Owner) -> int:
        return self._held.get(owner, 0)

    def _may_take(self, owner: Owner) -> bool:
        needed = self._count(owner) if self._keeps_room and owner else 0
        return self._free > needed

    def _take(self, owner: Owner) -> None:
        self._free -= 1
        self._held[owner] = self._count(owner) + 1

    def _remove(self, owner: Owner, granted: asyncio.Future[None]) -> None:
        waiting = self._waiting[owner]
        waiting.remove(granted)
        if not waiting:
            del self._waiting[owner]


class Slots:
    """One `SlotPool` for each loop; see there.

    What still holds a slot when its loop ends, such as a thread, holds up no other
    loop.
    """

    def __init__(self, number: int, *, keeps_room: bool = False) -> None:
        self._number = number
        self._keeps_room = keeps_room
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, SlotPool] = (
            WeakKeyDictionary()
        )

    def here(self) -> SlotPool:
        """Return the slots of the running loop."""
        loop = asyncio.get_running_loop()
        pool = self._by_loop.get(loop)
        if pool is None:
            pool = self._by_loop[loop] = SlotPool(
                self._number, keeps_room=self._keeps_room
            )
        return pool


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
        self._threads = Slots(thread_limit, keeps_room=True)
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

    async def in_thread(self, function: Callable[[], Any], owner: Owner) -> Any:
        """Run a plain function in a worker thread and return its result.

        Cancelling returns at once; the function goes on, and can see from its context
        that nobody waits any more. It keeps its slot among the client's threads.
        """
        work = function if isinstance(function, _Work) else _Work(function)
        threads = self._threads.here()
        try:
            await threads.acquire(owner)
        except BaseException:
            work.end()
            raise
        work.when_over(functools.partial(threads.release, owner))
        try:
            result = await anyio.to_thread.run_sync(
                work, abandon_on_cancel=True, limiter=threads.unlimited
            )
        except BaseException:
            work.leave()
            raise
        work.end()
        return result
