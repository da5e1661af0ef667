"""Fixtures for pytest; load them with a line in the top ``conftest.py``.

::

    pytest_plugins = ["mcpwire.testing.pytest_plugin"]

A fixture has an effect only in tests that request it, by a parameter or by
``pytestmark = pytest.mark.usefixtures("no_leaks")``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from mcpwire.testing.clock import VirtualClockLoop
from mcpwire.testing.leaks import ResourceSnapshot, watch_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def no_leaks() -> Iterator[None]:
    """Fail a test that leaks resources, those of its other fixtures included."""
    snapshot = ResourceSnapshot()
    yield
    if left := snapshot.settle():
        pytest.fail(f"the test left open: {'; '.join(left)}", pytrace=False)


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """Yield an `asyncio.Runner` with a `VirtualClockLoop`.

    ::

        def test_it_gives_up_after_a_minute(virtual_clock):
            virtual_clock.run(main())
            assert virtual_clock.get_loop().time() >= 1060

    An indirect parameter has the loop's options: ``{"auto_advance": False}``.
    """
    options: dict[str, Any] = getattr(request, "param", {})
    with asyncio.Runner(
        loop_factory=functools.partial(VirtualClockLoop, **options)
    ) as runner:
        yield runner


def watch_item(item: pytest.Function) -> None:
    """Wrap an async test in a check for tasks, which the end of its loop cancels."""
    function = item.obj
    if inspect.iscoroutinefunction(function):
        item.obj = watch_tasks(function)
        return
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", None)
    if inspect.iscoroutinefunction(inner):
        function.hypothesis.inner_test = watch_tasks(inner)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Check tasks; pytest-asyncio wraps the async function afterwards."""
    if isinstance(item, pytest.Function) and "no_leaks" in item.fixturenames:
        watch_item(item)
