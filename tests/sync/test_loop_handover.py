"""Threads that share a client hand its event loop on, and each one is woken."""

import asyncio
import threading

from mcpwire.sync._runner import Runner

BOUND_S = 30.0


def test_a_result_in_the_last_iteration_wakes_its_thread():
    """The result is set, but the loop stops before its callbacks have run."""
    runner = Runner()
    answered = asyncio.Event()
    sleeps = threading.Event()

    async def first():
        asyncio.get_running_loop().call_later(0, runs.set)
        await answered.wait()

    async def second():
        sleeps.set()
        await answered.wait()
        await asyncio.sleep(0)  # one iteration later than the first
        return "second"

    runs = threading.Event()
    results = []
    leader = threading.Thread(target=lambda: runner.run(first()))
    other = threading.Thread(target=lambda: results.append(runner.run(second())))
    leader.start()
    assert runs.wait(BOUND_S)
    other.start()
    assert sleeps.wait(BOUND_S)
    runner.post(answered.set)
    for thread in (leader, other):
        thread.join(BOUND_S)
    assert results == ["second"]
    runner.end()


def test_a_late_stop_request_does_not_break_closing_the_loop():
    """The stop request is still queued when the thread closes the loop."""
    runner = Runner(wants_thread=True)
    loops = []

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)  # ends in an iteration of its own
            ended.set()

    async def first():
        return await anext(kept)

    def end():
        loops.append(asyncio.get_running_loop())
        runner.end()
        loops[0].stop()

    ended = threading.Event()
    kept = numbers()
    assert runner.run(first()) == 1
    (thread,) = [each for each in threading.enumerate() if each.name == "mcpwire-sync"]
    runner.post(end)
    thread.join(BOUND_S)
    assert loops[0].is_closed()
    assert ended.is_set()
