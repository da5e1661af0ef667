"""Lets the task that waits for an answer go on at once, where that is safe.

`Future.set_result` has the loop go on with the task in its next turn. That turn is a
system call that asks what is ready, and asyncio's own work around it: about a fifth of
what a call costs in all. Who reads from a pipe or a socket is called by the loop, with
no task under way, and may as well step the task right there::

      set_result:  readable ─► answer found ─► turn of the loop ─► task goes on
      resolve:     readable ─► answer found ─► task goes on

The task, its context variables and whoever cancels it see no difference: what the
future was to call is called with the context it was given, only sooner. From within a
task nothing is stepped, and everything is as with `set_result`.
"""

from __future__ import annotations

from asyncio import current_task
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

__all__ = ["resolve", "resolve_all"]


def resolve(
    future: asyncio.Future[Any], result: Any, loop: asyncio.AbstractEventLoop
) -> None:
    """Set a future's result, and let its task go on before this returns.

    For futures that are awaited where they were made and known to nobody else. What was
    begun must be in order by then: the task may use it, or end it.
    """
    # asyncio keeps what a future is to call under this name in all its versions; where
    # there is no such list, or more than one task waits, the loop does it.
    waiting = getattr(future, "_callbacks", None)
    if not waiting or len(waiting) != 1 or current_task(loop) is not None:
        future.set_result(result)
        return
    ((go_on, context),) = waiting
    future.remove_done_callback(go_on)
    future.set_result(result)
    context.run(go_on, future)


def resolve_all(
    answers: Iterable[tuple[asyncio.Future[Any], Any]], loop: asyncio.AbstractEventLoop
) -> None:
    """Do so for several in turn, but for those that are done by then.

    Raises:
        BaseException: A task was interrupted (`KeyboardInterrupt`, `SystemExit`); the
            loop goes on with the rest, if it goes on.
    """
    left = iter(answers)
    try:
        for future, result in left:
            if not future.done():
                resolve(future, result, loop)
    finally:
        for future, result in left:
            if not future.done():
                future.set_result(result)
