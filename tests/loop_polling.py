"""Waits for conditions without an event: checks once per loop iteration."""

import asyncio


async def until(predicate, pause=0.0):
    """Wait until it is true; otherwise the test's time limit ends it."""
    while not predicate():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(pause)
