"""Base classes of the blocking API: an asyncio object and the runner of its loop."""

# ruff: noqa: SLF001 - the facades of one package use each other's internals

from __future__ import annotations

import asyncio
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from mcpwire.errors import ConnectionClosed
from mcpwire.sync._runner import Runner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from typing import NoReturn, Self

    from mcpwire.client.requests import PendingCall as AsyncPendingCall
    from mcpwire.wire.jsonrpc import RequestId

P = ParamSpec("P")
T = TypeVar("T")
FacadeT = TypeVar("FacadeT", bound="Facade")

_END: Final[Any] = object()

NEEDS_THREAD: Final = ("on_notification", "keepalive", "restart", "idle")
"""Options that require the loop to run between calls."""

_facades: Final[WeakValueDictionary[int, Facade]] = WeakValueDictionary()
"""The existing facades, by the identity of their asyncio objects."""


class Facade:
    """A blocking interface of an asyncio object."""

    _runner: Runner
    _inner: Any = None

    def _bind(self, runner: Runner, inner: Any) -> None:
        self._runner, self._inner = runner, inner
        _facades[id(inner)] = self

    def _wrap(self, kind: type[FacadeT], inner: Any) -> FacadeT:
        """Return the facade of an asyncio object, an existing one if possible."""
        facade = _facades.get(id(inner))
        if isinstance(facade, kind):
            return facade
        new_facade = kind.__new__(kind)
        new_facade._bind(self._runner, inner)
        return new_facade

    def __repr__(self) -> str:
        return repr(self._inner).replace("<mcpwire.", "<mcpwire.sync.", 1)

    def __reduce__(self) -> NoReturn:
        """Refuse copies: deletion of a copy would close the original's connections."""
        raise TypeError(f"{type(self).__name__!r} cannot be copied or pickled")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result."""
        return self._runner.run(work)

    def _on_loop(self, function: Callable[[], T]) -> T:
        """Call a plain function on the loop and return its result."""
        return self._runner.run(_call(function))

    def _iterate(self, iterator: AsyncIterator[T]) -> Iterator[T]:
        """Iterate over an async iterator."""
        while (item := self._runner.run(_next(iterator))) is not _END:
            yield item


class ForwardingFacade(Facade):
    """A facade that forwards attribute access to the asyncio object."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class StreamFacade(Facade):
    """A blocking iterator that is closed at the end of its ``with`` block."""

    def __iter__(self) -> Self:
        return self

    def _next_item(self, iterator: AsyncIterator[T]) -> T:
        item = self._runner.run(_next(iterator))
        if item is _END:
            raise StopIteration
        return item

    def __enter__(self) -> Self:
        self._runner.run(self._inner.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._inner.aclose())


class PendingCall(Facade, Generic[T]):
    """A call in flight; `result` waits for it, in any thread, any number of times.

    The call continues even if `result` is not called; `cancel` ends it.
    """

    _inner: AsyncPendingCall[T]

    def result(self, timeout: float | None = None) -> T:
        """Wait for the end of the call and return its result.

        It also raises the errors of the call.

        Args:
            timeout: The longest wait, in seconds; the call has a time limit of its own.

        Raises:
            TimeoutError: The call has not ended within `timeout`; it continues.
        """
        return self._runner.run(self._wait(timeout))

    async def _wait(self, timeout: float | None) -> T:
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._inner
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"{self!r} has not ended within {timeout:g} s") from None

    @property
    def request_id(self) -> RequestId | None:
        """The request's JSON-RPC id; it changes after a restart or an input round."""
        return self._inner.request_id

    @property
    def done(self) -> bool:
        """Whether the call has ended: by a result, an error or a cancellation."""
        return self._inner.done

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancel the call at the server; `result` then raises `CallCancelled`.

        It has no effect on a call that has ended.
        """
        self._runner.post(self._inner.cancel, reason)


class OwningFacade(Facade):
    """A facade that owns connections and, as a rule, the runner of their loop."""

    _owns_runner = False

    def _create_inner(
        self, make: Callable[..., Any], *args: Any, background: bool, **options: Any
    ) -> None:
        """Make the asyncio object and a runner for its loop."""
        if options.pop("listen", None) is not None:
            text = "listen= does nothing any more: streams of events need no threads"
            warnings.warn(text, DeprecationWarning, stacklevel=3)
        wants_thread = any(options.get(name) is not None for name in NEEDS_THREAD)
        runner = Runner(wants_thread=background or wants_thread)
        if options.get("make_client") is not None:
            options["make_client"] = partial(
                _make_client, runner, options["make_client"]
            )
        inner: Any = make(*args, **options)
        runner.abandon_all = inner.abandon
        runner.is_needed = inner.needs_loop
        self._owns_runner = True
        self._bind(runner, inner)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; after an error close the loop if no connection uses it."""
        try:
            return self._runner.run(work)
        except BaseException:
            if self._owns_runner:
                self._runner.end(wait=0)
            raise

    def __enter__(self) -> Self:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._close(partial(self._inner.__aexit__, *error))

    def _close(self, aclose: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Close the connections and the loop; after an interrupt abandon the rest."""
        runner = self._runner
        if runner.is_inside:
            runner.close_later(aclose, partial(self._close, aclose))
            return
        try:
            runner.run(aclose())
        except BaseException as error:
            if not isinstance(error, Exception):
                self._inner.abandon()
            raise
        finally:
            if self._owns_runner:
                runner.end()

    def __del__(
        self,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
        warn: Callable[..., None] = warnings.warn,
    ) -> None:
        if not self._owns_runner:
            return
        try:
            is_open = self._runner.abandon_all()
            self._runner.end(wait=0)
            if is_open:
                text = f"unclosed {self!r}: it was closed by force"
                warn(text, ResourceWarning, source=self, stacklevel=2)
        except ResourceWarning:
            raise  # warnings are errors
        except Exception:
            # At the interpreter's exit modules may be cleared, and the OS cleans up.
            if not is_finalizing():
                raise


def _make_client(
    runner: Runner, make: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    """Call a user's `make_client`; return the asyncio client of its blocking client."""
    client = make(*args, **options)
    if not isinstance(client, OwningFacade):
        return client
    client._owns_runner = False
    client._runner = runner
    client._inner.blocking = client  # kept, since the group returns it to users
    return client._inner


def run_with(
    client: Facade,
    function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
    *args: P.args,
    **options: P.kwargs,
) -> T:
    """Call an async function with the asyncio client of a blocking client."""
    return client._run(function(client._inner, *args, **options))


async def _call(function: Callable[[], T]) -> T:
    return function()


async def _next(iterator: AsyncIterator[T]) -> T:
    # The end of its loop ends a generator, which then looks exhausted.
    if getattr(iterator, "ag_frame", iterator) is None:
        raise ConnectionClosed("closed by this side", sent=False)
    return await anext(iterator, _END)
