"""Async tests have a time limit."""

import asyncio
import inspect
from types import SimpleNamespace

import bounds
import pytest
from clocks import on_a_virtual_clock

TEST_BOUND_S = 0.5


@pytest.mark.xfail(raises=TimeoutError, strict=True, reason="the bound ends it")
async def test_hanging_test_fails():
    await asyncio.Event().wait()


@on_a_virtual_clock
async def test_virtual_clock_is_not_bounded():
    await asyncio.sleep(1e6)


@pytest.mark.parametrize(
    ("module", "marked", "seconds"),
    [
        (SimpleNamespace(), None, bounds.BOUND_S),
        (SimpleNamespace(TEST_BOUND_S=7.0), None, 7.0),
        (SimpleNamespace(TEST_BOUND_S=7.0), pytest.mark.timeout(300), None),
    ],
    ids=["the rule for all", "its module's own", "a time of its own"],
)
def test_bound_of_an_async_test(module, marked, seconds):
    async def test():
        await asyncio.sleep(0)  # any async function would do

    item = SimpleNamespace(obj=test, module=module, get_closest_marker=lambda _: marked)
    bounds.bound_item(item)
    if seconds is None:
        assert item.obj is test
    else:
        assert inspect.getclosurevars(item.obj).nonlocals["seconds"] == seconds
