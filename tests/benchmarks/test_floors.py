"""The floors are minimal loops: gathered writes, one timer, no task per call."""

import asyncio
import sys
from contextlib import closing

import pytest

ECHO = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "result": request["params"]}), flush=True)
"""
SILENT = "import sys; sys.stdin.read()"


@pytest.fixture
def floor(benchmark_module):
    return benchmark_module("floor")


def count_calls(monkeypatch, *functions):
    """Count the calls of functions, given as an object and a name."""
    counts = {name: 0 for _, name in functions}

    def counting(plain, name):
        def call(*arguments, **named):
            counts[name] += 1
            return plain(*arguments, **named)

        return call

    for owner, name in functions:
        monkeypatch.setattr(owner, name, counting(getattr(owner, name), name))
    return counts


async def test_calls_in_flight_share_one_write_and_one_timer(floor, monkeypatch):
    loop = asyncio.get_running_loop()
    counts = count_calls(
        monkeypatch, (floor.os, "write"), (loop, "call_at"), (loop, "create_task")
    )
    with closing(floor.Floor([sys.executable, "-c", ECHO])) as one:
        assert await one.call("m", {"n": 0}) == {"n": 0}
        calls = [one.call("m", {"n": number}) for number in range(5)]
        assert [await each for each in calls] == [{"n": n} for n in range(5)]
    # The first call of each kind has no other in flight, and is written at once.
    assert counts == {"write": 3, "call_at": 1, "create_task": 0}


async def test_unanswered_call_ends_at_its_deadline(floor, monkeypatch):
    monkeypatch.setattr(floor, "TIMEOUT_S", 0.01)
    with closing(floor.Floor([sys.executable, "-c", SILENT])) as one:
        calls = [one.call("m", {}), one.call("m", {})]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in outcomes] == [TimeoutError, TimeoutError]
        assert one.pending.calls == {}
        with pytest.raises(TimeoutError):  # the timer is armed again
            await one.call("m", {})
