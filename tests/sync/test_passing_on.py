"""Threads that share a client hand its event loop on, and none is left asleep."""

import asyncio
import threading

from mcpwire.sync._runner import Runner

BOUND_S = 30.0


def test_a_call_that_ends_in_the_leaders_last_turn_is_woken():
    """Its result is there, but the loop has not yet said so when it stops."""
    runner = Runner()
    answered = asyncio.Event()
    sleeps = threading.Event()

    async def first():
        asyncio.get_running_loop().call_later(0, runs.set)
        await answered.wait()

    async def second():
        sleeps.set()
        await answered.wait()
        await asyncio.sleep(0)  # one turn later than the first
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


def test_a_loop_that_has_stopped_already_is_ended_by_a_late_request_to_stop():
    """The request is still to be read when the thread goes on to close the loop."""
    runner = Runner(wants_thread=True)
    loops = []

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)  # ends in a turn of its own
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
