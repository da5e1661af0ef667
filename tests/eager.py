"""Eager tasks, which applications may use from Python 3.12 on, for every Python."""

import asyncio


def eager(loop, coroutine, **options):
    """Make a task that has run to its first suspension, as the factory of 3.12 does."""
    steps = []

    def later(callback, *args, context=None):
        steps.append((callback, args, context))

    loop.call_soon = later
    try:
        task = asyncio.Task(coroutine, loop=loop, **options)
    finally:
        del loop.call_soon
    current = asyncio.current_task(loop)
    if current is not None:
        asyncio.tasks._leave_task(loop, current)
    try:
        for callback, args, context in steps:
            context.run(callback, *args)
    finally:
        if current is not None:
            asyncio.tasks._enter_task(loop, current)
    return task
