"""Real runs against the null server."""

import asyncio
import os
import sys
import time

import pytest
from null_targets import NULL_SERVER, null, program, relay

from mcpwire import ConnectError, Http, Stdio
from mcpwire.bench import Call, Load, find_max, parse_condition, run, runs
from mcpwire.bench.histogram import merge_histograms
from mcpwire.bench.null_process import null_http
from mcpwire.bench.reports import to_text
from mcpwire.bench.results import step_name
from mcpwire.bench.worker import Generator, Job, Pacer
from mcpwire.testing.procfs import descendants, is_alive

SHORT = {"seconds": 0.4, "warm_up": 0.0, "rounds": 1}
ECHO = (Call.tool("echo", {"text": "hi"}),)


def measure(target, load, **options):
    return asyncio.run(run(target, load, **options))


def measure_alone(target, **load):
    """Return a server's results under a short load of `echo`, without a floor."""
    load = Load(**{"calls": ECHO, **SHORT, **load})
    (found,) = measure(target, load, with_floor=False).subjects
    return found


def test_run_alternates_between_server_and_floor():
    progress = []
    load = Load(calls=ECHO, rounds=2, seconds=2.0, warm_up=0.1)
    result = measure(null(), load, on_progress=progress.append)
    floor, target = result.subjects
    assert (floor.name, target.name) == ("floor", "target")
    assert [each.subject for each in progress] == ["floor", "target"] * 4 or [
        each.subject for each in progress
    ] == ["target", "floor", "floor", "target"] * 2
    assert len(target.slices) == len(floor.slices) == 4
    assert {each.round for each in target.slices} == {0, 1}
    assert target.server["name"] == "null"
    figures = target.figures()
    assert figures["p50"] <= figures["p90"] <= figures["p99"] <= figures["max"]
    assert figures["cpu"] > 0
    assert figures["memory"] > 2**20
    assert target.errors == {}
    other = floor.figures()["bytes received"]
    assert figures["bytes received"] == pytest.approx(
        other, abs=5
    )  # ids have different numbers of digits
    assert set(target.phases) == {"encode and send", "wait", "decode"}
    assert target.phases_under_load == {}  # omitted for one user
    assert len(target.connects) == 2


def test_several_servers_are_measured_alternately_by_name():
    others = {"delayed": null("--delay", "0.01"), "same": null()}
    load = Load(calls=ECHO, **SHORT)
    result = measure(null(), load, against=others, with_floor=False, with_details=False)
    assert [each.name for each in result.targets] == ["target", "delayed", "same"]
    delayed = result.targets[1]
    assert ["--delay" in each.target for each in result.targets] == [False, True, False]
    assert delayed.figures()["p50"] >= 10_000


def test_one_server_is_measured_under_several_loads():
    async def measure_all():
        async with null_http() as server:
            url, loads = Http(server.url), {"8": Load(users=8, sessions="per-call")}
            others = {"8": url, "same": url}
            load = Load(**SHORT)
            return await run(url, load, against=others, against_load=loads)

    result = asyncio.run(measure_all())
    alone, eight, same = result.targets
    assert [each.load for each in (alone, eight, same)] == ["", "ping, 8 users", ""]
    assert to_text(result).count(", ping, 8 users\n") == 1
    assert result.floor.load == ""
    assert [len(each.slices) for each in (alone, eight, same)] == [1, 1, 1]
    assert (len(eight.connects), len(same.connects)) == (1, 1)
    assert alone.counts == same.counts
    assert eight.counts == {}


def test_each_slice_of_a_low_rate_has_a_call():
    load = Load(rate=1.25, seconds=3.2, warm_up=0.0, rounds=1)
    (target,) = measure(null(), load, with_floor=False, with_details=False).subjects
    assert [each.offered for each in target.slices] == [2, 2]


def test_load_for_an_unknown_server_name_is_refused():
    with pytest.raises(ValueError, match="no server of against is called 'x'"):
        measure(null(), Load(**SHORT), against={}, against_load={"x": Load()})


@pytest.mark.parametrize("name", ["", "floor", "target"])
def test_reserved_name_for_a_compared_server_is_refused(name):
    with pytest.raises(ValueError, match=f"must not be called '{name}'"):
        measure(null(), Load(**SHORT), against={name: null()})


def test_counts_are_exact():
    target = measure_alone(null())
    assert target.counts["messages"] == 2
    assert target.counts["reads"] == target.counts["writes"] == 1


def test_open_loop_makes_every_due_call():
    target = measure_alone(null(), rate=200, sessions=2, workers=2)
    assert target.total("offered") == target.total("done") == 80
    assert target.figures()["offered"] == pytest.approx(200)


def slow_share(subject):
    """Return the share of calls slower than 100 ms."""
    found = subject.latencies()
    quick = found.get_count_at_value(0)
    for item in found.get_recorded_iterator():
        if item.value_iterated_to < 100_000_000:
            quick += item.count_at_value_iterated_to
    return 1 - quick / found.total_count


def test_stall_is_visible_in_an_open_loop_but_not_a_closed_one():
    stalled = null("--stall", "0.4,0.2")
    opened = measure_alone(stalled, rate=200, seconds=1.0)
    closed = measure_alone(stalled, users=1, seconds=1.0)
    # At 200 calls/s 40 calls are due during the stall, but one user waits once.
    assert opened.figures()["p99"] > 150_000
    assert closed.figures()["max"] > 150_000
    assert slow_share(opened) > 0.1 > slow_share(closed)


class Blocking:
    """Fake connections whose calls block the event loop for 120 ms."""

    bytes_sent = bytes_received = reconnects = 0

    async def perform(self, _):
        until = time.monotonic_ns() + 120_000_000
        while time.monotonic_ns() < until:
            pass
        await asyncio.sleep(0)  # the iteration that notices the lag


def test_closed_loop_samples_event_loop_lag_every_50_ms():
    job = Job(null(), Load(users=1), worker=0)

    async def blocked():
        pacer = Pacer()
        try:
            return await Generator(job, Blocking(), pacer).run(0.0, 0.3, None)
        finally:
            pacer.close()

    lag = merge_histograms([asyncio.run(blocked())["lag"]])
    assert lag.total_count == 6
    assert lag.get_max_value() > 50_000_000


@pytest.mark.parametrize("load", [{"users": 8}, {"rate": 400}])
def test_phases_are_measured_alone_and_under_load(load):
    target = measure_alone(null(), **load, sessions=2, workers=2)
    assert len(target.connects) == 4
    assert target.figures()["connect"] > 0
    for phases in (target.phases, target.phases_under_load):
        assert list(phases) == ["encode and send", "wait", "decode"]
        assert all(value > 0 for value in phases.values())


def measured_over_http(users):
    """Measure the null server over HTTP, and return its results."""

    async def measured():
        load = Load(calls=ECHO, users=users, **SHORT)
        async with null_http() as server:
            return await run(Http(server.url), load, with_floor=False)

    (target,) = asyncio.run(measured()).subjects
    return target


def test_phases_over_http_have_three_positive_parts():
    target = measured_over_http(users=4)
    for phases in (target.phases, target.phases_under_load):
        assert len(phases) == 3
        assert all(value > 0 for value in phases.values())


def test_local_http_servers_are_found_by_their_port():
    target = measured_over_http(users=2)
    assert target.figures()["cpu"] > 0
    assert target.total("done") > 2
    assert target.figures()["bytes received"] > 100


@pytest.mark.parametrize("method", ["ping", "tools/list", "resources/list"])
def test_any_method_can_be_called(method):
    target = measure_alone(null("--legacy"), calls=(Call(method),))
    failed = target.total("done") if method == "resources/list" else 0
    assert sum(target.errors.values()) == failed


def test_each_call_can_have_its_own_connection():
    target = measure_alone(null(), sessions="per-call")
    assert target.total("done") > 0
    assert target.total("bytes_sent") > 200 * target.total("done")
    assert target.total("bytes_received") > 100 * target.total("done")


def test_calls_beyond_the_concurrency_limit_are_missed():
    target = measure_alone(null("--stall", "0.1,0.2"), rate=100, max_in_flight=5)
    assert target.total("missed") > 0
    assert target.total("missed") + target.total("done") == 40
    assert target.figures()["missed"] > 0


def test_server_exit_is_counted_as_a_reconnect():
    exit_soon = "import os, threading; threading.Timer(0.3, os._exit, [3]).start()"
    target = program(exit_soon, NULL_SERVER)
    found = measure_alone(target, rate=50, seconds=1.0)
    assert found.figures()["reconnects"] >= 1


def test_find_max_returns_the_highest_rate_within_the_condition():
    # A call costs 4 ms of CPU: more than 250/s are impossible.
    slow = null("--delay", "0.004")
    load = Load(calls=ECHO, rate=40, **SHORT)
    result = asyncio.run(find_max(slow, load, parse_condition("p99 < 100ms")))
    assert result.highest is not None
    assert 0 < result.highest < 320  # at that rate the last call waits for 100 ms
    offered = [each.figures()["offered"] for each in result.subjects]
    assert offered == sorted(offered)


def test_steps_of_a_search_at_low_rates_have_different_names():
    load = Load(rate=3, seconds=0.2, warm_up=0, rounds=1)
    result = asyncio.run(find_max(null(), load, parse_condition("offered < 6/s")))
    names = [each.name for each in result.subjects]
    assert names == ["3/s", "4.5/s", "4.88/s", "5.06/s", "5.25/s", "6/s"]
    assert step_name(result.highest) == "4.88/s"
    assert "highest rate that met the condition: 4.88/s\n" in to_text(result)


def test_find_max_needs_an_initial_rate():
    with pytest.raises(ValueError, match="needs a rate to begin with"):
        asyncio.run(find_max(null(), Load(), parse_condition("p99 < 1s")))


@pytest.mark.parametrize(
    "target",
    [
        Stdio("/no/such/program"),
        Stdio(sys.executable, ["-c", "pass"]),
        Http("http://127.0.0.1:1/mcp"),
    ],
)
def test_unreachable_server_is_an_error(target):
    with pytest.raises(ConnectError):
        measure(target, Load(**SHORT), with_floor=False)


@pytest.mark.parametrize(
    ("target", "message"),
    [("", "the command line is empty"), ("python 'x", "cannot split the command line")],
)
def test_invalid_target_text_is_refused(target, message):
    with pytest.raises(ValueError, match=message):
        measure(target, Load(**SHORT))


def test_cancelled_run_ends_all_processes():
    others = descendants(os.getpid())

    async def cancelled():
        started = asyncio.Event()
        running = run(null(), Load(seconds=60), on_progress=lambda _: started.set())
        task = asyncio.create_task(running)
        await started.wait()
        children = descendants(os.getpid()) - others
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return children

    children = asyncio.run(cancelled())
    assert len(children) >= 4  # a worker and a server of the floor, and of the target
    assert not any(map(is_alive, children))


def test_server_that_is_lost_does_not_fill_standard_error(capfd, tmp_path):
    once = "import os, sys\nif os.path.exists(sys.argv[1]): sys.exit(3)"
    text = relay("tools/call", "open(sys.argv[1], 'w'); sys.exit(3)").args[1]
    target = measure_alone(program(once, text, arguments=[str(tmp_path / "gone")]))
    assert target.total("done") == 2
    assert capfd.readouterr().err == ""


def test_timed_out_calls_are_slow_and_do_not_change_the_rate():
    silent = relay("tools/call", "continue")  # does not answer the third call
    target = measure_alone(silent, rate=100, timeout=1.0)
    figures = target.figures()
    assert target.total("done") == 39
    assert figures["max"] >= 1_000_000
    assert figures["p50"] < figures["max"]
    assert target.seconds == SHORT["seconds"]


def test_rate_with_failing_calls_does_not_meet_the_condition():
    load = Load(calls=(Call("resources/list"),), rate=2, **SHORT)
    result = asyncio.run(find_max(null("--legacy"), load, parse_condition("p99 < 9s")))
    assert result.highest == 0


def test_unreachable_rate_ends_with_missed_calls():
    target = measure_alone(null(), rate=500_000, seconds=0.02)
    assert target.total("offered") == 10_000
    assert target.total("done") > 0
    assert target.total("missed") == 10_000 - target.total("done")


def test_rate_is_tried_in_bounded_slices(monkeypatch):
    monkeypatch.setattr(runs, "MAX_SLICE_S", 0.2)
    monkeypatch.setattr(runs, "MAX_SLICE_CALLS", 4)
    load = Load(calls=ECHO, rate=40, **SHORT)
    result = asyncio.run(find_max(null(), load, parse_condition("p99 < 0us")))
    steps = {each.name: each for each in result.subjects}
    assert [each.offered for each in steps["40/s"].slices] == [4, 4, 4, 4]
    assert [each.offered for each in steps["10/s"].slices] == [2, 2]
    assert steps["10/s"].figures()["offered"] == pytest.approx(10)


def test_counts_need_sessions_that_stay_open():
    with pytest.raises(ValueError, match="stay open"):
        measure(null(), Load(sessions="per-call"), only_counts=True)
