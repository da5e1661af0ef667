"""What is measured where many threads call: each makes its calls, each lap is kept."""

import threading

import pytest


@pytest.fixture
def blocking(benchmark_module):
    return benchmark_module("harness.blocking")


class Counting:
    """A call that tells how many of it ran at once."""

    def __init__(self, expected):
        self.calls = self.running = self.most = 0
        self.lock = threading.Lock()
        self.met = threading.Barrier(expected)

    def __call__(self):
        with self.lock:
            self.calls += 1
            self.running += 1
            self.most = max(self.most, self.running)
            is_first = self.calls <= self.met.parties
        if is_first:
            self.met.wait(30)
        with self.lock:
            self.running -= 1


def test_so_many_threads_make_exactly_the_calls_and_every_lap_is_kept(blocking):
    call, taken = Counting(4), []
    figures = blocking.measure_in_threads(call, 100, 4, taken)
    assert call.calls == 100 + blocking.WARM_UP_CALLS
    assert call.most == 4
    assert len(taken) == 100
    assert set(figures) == {"calls_per_s@4", "cpu_us@4"}


def test_a_call_may_be_made_by_fewer_threads_than_are_asked_for(blocking):
    call = Counting(1)
    call.threads = 1
    figures = blocking.measure_in_threads(call, 100, 4, [])
    assert call.most == 1
    assert set(figures) == {"calls_per_s@4", "cpu_us@4"}


def test_a_thread_that_fails_ends_the_slice_and_nobody_waits_for_it(blocking):
    turns = iter(range(1_000))

    def call():
        if next(turns) == 10:
            raise ValueError("the eleventh")

    with pytest.raises(ValueError, match="the eleventh"):
        blocking.measure_in_threads(call, 100, 4, [])


def test_percentiles_are_told_for_each_number_in_flight(blocking):
    taken = {}
    for width in (None, 2, 8):
        blocking.handle_request(lambda: None, {"calls": 20, "width": width}, taken)
    told = blocking.handle_request(lambda: None, {}, taken)
    assert set(told) == {
        f"{name}{suffix}"
        for name in ("p50_us", "p99_us", "p999_us")
        for suffix in ("", "@2", "@8")
    }


def test_what_has_no_threads_measures_its_calls_in_flight_itself(blocking):
    class OnLoop:
        def measure_in_flight(self, calls, width, taken):
            taken += [1_000] * calls
            return {f"calls_per_s@{width}": 1.0, f"cpu_us@{width}": 2.0}

    taken = {}
    asked = {"calls": 5, "width": 2}
    assert blocking.handle_request(OnLoop(), asked, taken)["cpu_us@2"] == 2
    assert blocking.handle_request(OnLoop(), {}, taken)["p50_us@2"] == 1


@pytest.mark.parametrize("era", ["--legacy", "--modern"])
@pytest.mark.parametrize("shape", ["stdio", "json", "sse"])
def test_floor_and_client_do_the_same_work_by_threads(
    benchmark_module, blocking, era, shape
):
    argument = benchmark_module("null.build").leg_argument(f"{shape} {era}")
    floor = benchmark_module("floor_blocking").shared
    ours = benchmark_module("mcpwire_variants")
    for function in (floor, ours.blocking, ours.one_thread, ours.on_loop):
        taken = {}
        with function(argument) as call:
            for width in (None, 3):
                blocking.handle_request(call, {"calls": 30, "width": width}, taken)
        assert [len(each) for each in taken.values()] == [30, 30]


def test_a_variant_on_a_loop_in_a_thread_is_called_from_others(
    benchmark_module, blocking
):
    argument = benchmark_module("null.build").leg_argument("stdio --legacy")
    portal = benchmark_module("portal").portal
    taken = {}
    with portal(benchmark_module("mcpwire_variants").typed, argument) as call:
        blocking.handle_request(call, {"calls": 30, "width": 3}, taken)
    assert len(taken[3]) == 30


def test_every_variant_has_its_floor_and_every_line_its_variants(
    benchmark_module, monkeypatch
):
    bench = benchmark_module("bench_threads")
    monkeypatch.setattr(bench, "missing_peers", dict)
    variants = bench.variants()
    names = {variant.name for variant in variants}
    assert len(names) == len(variants)
    assert {variant.baseline for variant in variants} <= names
    for budget in bench.BUDGETS:
        assert {budget.variant, budget.against} <= names
    monkeypatch.setattr(bench, "missing_peers", lambda: dict.fromkeys(bench.PEERS))
    left = {variant.name for variant in bench.variants()}
    assert left == {n for n in names if not n.endswith(tuple(bench.PEERS))}
