"""Runs a coroutine and says so when it has to wait for the first time.

What is only needed while something waits (a time limit, somebody who watches the
client) need not be made for what has its answer at once, as most has.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

__all__ = ["first_step"]

T = TypeVar("T")


@types.coroutine
def first_step(
    work: Awaitable[T], waits: Callable[[], object]
) -> Generator[Any, Any, T]:
    """Return what a coroutine returns, as ``await`` does.

    Args:
        work: The coroutine, or something else that can be awaited.
        waits: Called when its first step has ended and it has not; must not raise.
    """
    coroutine: Any = work if type(work) is types.CoroutineType else _awaiting(work)
    try:
        awaited = coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    waits()
    while True:
        error: BaseException | None = None
        try:
            sent = yield awaited
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as thrown:  # noqa: BLE001 - it is the coroutine's
            error = thrown
        try:
            awaited = (
                coroutine.throw(error) if error is not None else coroutine.send(sent)
            )
        except StopIteration as end:
            result = end.value
            return result
        finally:
            # Its traceback has this frame, and those that hold what has come so far.
            error = None


async def _awaiting(work: Awaitable[T]) -> T:
    return await work
