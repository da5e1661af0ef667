"""The loop of a test that is asked, by a callback, to begin what is tested."""

import asyncio
from contextvars import ContextVar

import pytest

from mcpwire.transports import eager_tasks
from mcpwire.transports.eager_tasks import FirstSteps

BOUND_S = 40.0
VARIABLE = ContextVar("variable", default="nothing")

by_hand = pytest.mark.skipif(
    eager_tasks.HAS_EAGER_START, reason="Python has eager tasks of its own"
)


class Loop:
    """What the loop of a test is asked to do, by a callback and so outside of tasks."""

    def __init__(self):
        self.steps = FirstSteps("worker")
        self.told = []

    def begin(self, work):
        """Start a coroutine where no task runs; return its task, once that has one."""
        loop = asyncio.get_running_loop()
        begun = loop.create_future()
        loop.call_soon(lambda: begun.set_result(self.steps.start(work)))
        return begun

    async def tell(self, what):
        self.told.append(what)


async def turns(number=5):
    for _ in range(number):
        await asyncio.sleep(0)
