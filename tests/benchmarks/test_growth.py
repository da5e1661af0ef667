"""The growth benchmark: its points, and ratios to the first point."""

import asyncio
from contextlib import asynccontextmanager

import pytest


@pytest.fixture
def axes(benchmark_module):
    return benchmark_module("growth.axes")


class FakeChild:
    """A fake whose cost of a call grows with its calls, sessions and machine factor."""

    machine = 1.0
    opened = 0

    def __init__(self, *, is_floor):
        self.is_floor = is_floor
        self.done = 0
        self.sessions = 1
        self.turns = 1

    async def request(
        self, *, calls=0, users=1, method="", argument=0, timed=True, timeout=None
    ):
        if method == "memory":
            return {"rss_kib": 1000 * self.sessions}
        if method:
            name = {"grow": "sessions", "take_turns": "turns"}[method]
            setattr(self, name, argument)
            return {}
        FakeChild.machine *= 1.03  # the machine gets slower with each request
        cost = 10 if self.is_floor else 20 + self.done // 1000 + self.turns
        self.done += calls
        return {"cpu": 1_000 * calls * cost * FakeChild.machine / users}


@pytest.fixture
def path(benchmark_module, axes, monkeypatch):
    rounds = benchmark_module("harness.rounds")

    @asynccontextmanager
    async def fake_process(code):
        FakeChild.opened += 1
        yield FakeChild(is_floor=code.argument == "floor")

    monkeypatch.setattr(axes, "CodeProcess", fake_process)
    monkeypatch.setattr(FakeChild, "opened", 0)
    variant, floor = (
        rounds.Variant(name, "m:f", name, name) for name in ("mine", "floor")
    )
    return axes.MeasuredPath("mine", variant, floor, max_calls=10_000, max_sessions=100)


def test_points_of_an_axis_are_powers(axes):
    assert axes.decades(1_000_000) == [100, 1_000, 10_000, 100_000, 1_000_000]
    assert axes.decades(99) == [100]
    assert axes.decades(1_000, first=1) == [1, 10, 100, 1_000]
    assert axes.powers_of_two(512) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]


async def test_growing_cost_per_call_is_found_on_a_slowing_machine(axes, path):
    effort = axes.Effort(rounds=3, slices=2, calls=50)
    rounds = await axes.measure_calls_made(path, effort, 1_000_000)
    assert len(rounds) == 3
    for each in rounds:
        assert each["cpu_us@calls=100"]["ratio"] == 1
        assert each["cpu_us@calls=1000"]["ratio"] == pytest.approx(22 / 21, rel=0.1)
        assert each["cpu_us@calls=10000"]["ratio"] == pytest.approx(31 / 21, rel=0.1)
        assert each["rss_kib@calls=10000"] == {"value": 1000, "ratio": 1}
    # A floor, and a new process for each round's first point.
    assert FakeChild.opened == 1 + 3


async def test_sessions_are_measured_by_one_and_by_alternating_calls(axes, path):
    effort = axes.Effort(rounds=2, slices=2, calls=50)
    first, _ = await axes.measure_sessions(path.variant, path, effort, 1_000)
    assert first["cpu_us@sessions=100"]["ratio"] == pytest.approx(1, rel=0.15)
    assert first["cpu_us@turns=100"]["ratio"] > 4
    assert first["rss_kib@sessions=100"] == {"value": 100_000, "ratio": 100}
    assert "cpu_us@sessions=1000" not in first


async def test_calls_in_flight_are_compared_within_the_same_round(axes, path):
    effort = axes.Effort(rounds=2, slices=1, calls=5)
    rounds = await axes.measure_in_flight(path.floor, effort, 8)
    assert list(rounds[0]) == ["cpu_us@1", "cpu_us@2", "cpu_us@4", "cpu_us@8"]
    for each in rounds:
        assert each["cpu_us@1"]["ratio"] == 1
        assert each["cpu_us@8"]["ratio"] == pytest.approx(1 / 8, rel=0.3)


def test_sessions_grow_and_take_turns_on_request(benchmark_module):
    sessions = benchmark_module("growth.sessions")
    called = []

    async def call_sessions():
        count = 0

        async def open_one():
            nonlocal count
            number = count = count + 1

            async def call():
                called.append(number)

            return call

        one = await sessions.open_first(sessions.Sessions(open_one))
        await one.grow(45)
        assert len(one.calls) == 45
        called.clear()
        await one()
        await one()
        assert len(set(called)) == 1
        await one.take_turns(3)
        called.clear()
        for _ in range(6):
            await one()

    asyncio.run(call_sessions())
    assert sorted(called) == [1, 1, 2, 2, 3, 3]


def test_every_path_has_a_budget_at_the_end_of_its_axes(benchmark_module, monkeypatch):
    bench = benchmark_module("bench_growth")
    monkeypatch.setattr(bench.build, "build", lambda name: name)
    lines = {(line.variant, line.figure) for line in bench.budgets(10**6, 1_000, 512)}
    assert ("stdio client", "cpu_us@calls=1000000") in lines
    assert ("HTTP server", "cpu_us@calls=100000") in lines
    assert ("HTTP client", "cpu_us@sessions=1000") in lines
    assert ("stdio server", "cpu_us@512") in lines
    assert not any("stdio server" in who and "sess" in what for who, what in lines)
