"""Waiting for what has no event of its own: look once per turn of the loop."""

import asyncio


async def until(predicate, pause=0.0):
    """Wait until it is true; the test's own bound ends it if it never is."""
    while not predicate():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(pause)
