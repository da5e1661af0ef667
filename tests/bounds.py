"""A time limit for each async test on a real clock: a hanging test fails by itself."""

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
"""Below a client's default timeout (30 s); a module may set `TEST_BOUND_S`."""


def bound_item(item: pytest.Function) -> None:
    """Limit the time of an async test that has no `timeout` marker."""
    if inspect.iscoroutinefunction(item.obj) and not item.get_closest_marker("timeout"):
        item.obj = bounded(item.obj, getattr(item.module, "TEST_BOUND_S", BOUND_S))


def bounded(
    test: Callable[..., Awaitable[None]], seconds: float
) -> Callable[..., Awaitable[None]]:
    """Return the test with that limit, which does not apply to a virtual clock."""

    @functools.wraps(test)
    async def within(*args: Any, **kwargs: Any) -> None:
        is_virtual = isinstance(asyncio.get_running_loop(), VirtualClockLoop)
        async with asyncio.timeout(None if is_virtual else seconds):
            await test(*args, **kwargs)

    return within
