"""A bound for each async test on a real clock: one that hangs fails by itself."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

from mcpwire.testing import VirtualClockLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

BOUND_S: Final = 28.0
"""Less than the 30 s that a client waits by itself; a module may say `TEST_BOUND_S`."""


def bound_item(item: pytest.Function) -> None:
    """Bound an async function that is about to run and has no time of its own."""
    if inspect.iscoroutinefunction(item.obj) and not item.get_closest_marker("timeout"):
        item.obj = bounded(item.obj, getattr(item.module, "TEST_BOUND_S", BOUND_S))


def bounded(
    test: Callable[..., Awaitable[None]], seconds: float
) -> Callable[..., Awaitable[None]]:
    """Return the test with that bound, which a virtual clock does not count."""

    @functools.wraps(test)
    async def within(*args: Any, **kwargs: Any) -> None:
        is_virtual = isinstance(asyncio.get_running_loop(), VirtualClockLoop)
        async with asyncio.timeout(None if is_virtual else seconds):
            await test(*args, **kwargs)

    return within
