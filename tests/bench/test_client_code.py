"""Client code measured from inside, in real interpreters."""

import asyncio
import itertools
import json
import os
import sys

import jsonschema_rs
import pytest
from made_results import read_schema

from mcpwire.bench import (
    ClientCode,
    CodeProcess,
    GeneratorFailed,
    client_code,
    code_child,
    differences,
    measure_code,
)
from mcpwire.bench.pages import write_page
from mcpwire.bench.reports import to_text
from mcpwire.errors import LocalProtocolError
from mcpwire.testing.procfs import HAS_PROC, descendants, is_alive

SHORT = {"seconds": 0.02, "rounds": 1, "warm_up": 0.0, "slice_seconds": 0.01}
LONG = {**SHORT, "seconds": 60.0, "slice_seconds": 60.0}
WAIT_S = 30

CODE = """
import asyncio, subprocess, sys, threading, time
from contextlib import asynccontextmanager, contextmanager


class Tasks:
    def __init__(self):
        self.running = self.most = self.calls = 0

    async def __call__(self):
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1

    async def state(self, name):
        return {"value": getattr(self, name)}


@asynccontextmanager
async def tasks(argument):
    print("not an answer")
    subprocess.run(["cat"])  # must not read the requests
    yield Tasks()


class Threads:
    def __init__(self, users):
        self.barrier = threading.Barrier(users)
        self.names = set()

    def __call__(self):
        self.names.add(threading.get_ident())
        self.barrier.wait(30)

    def seen(self, argument):
        return {"threads": len(self.names)}


@contextmanager
def threads(users):
    yield Threads(int(users))


class Slow:
    async def __call__(self):
        await asyncio.sleep(0.04)

    def cpu_ns(self):
        return 0


@asynccontextmanager
async def slow(argument):
    yield Slow()


class Elsewhere:
    spent = 0

    async def __call__(self):
        self.spent += 10**9

    def cpu_ns(self):
        return self.spent


@asynccontextmanager
async def elsewhere(argument):
    yield Elsewhere()


@asynccontextmanager
async def closing(path):
    async def call():
        await asyncio.sleep(0)

    yield call
    open(path, "w").close()


@asynccontextmanager
async def failing(argument):
    if argument == "open":
        raise ValueError("no server")
    waiting = asyncio.Event()

    async def call():
        if not waiting.is_set():
            waiting.set()
            raise ValueError("no answer")
        await asyncio.Event().wait()  # ends because the other call failed

    yield call


@contextmanager
def failing_thread(argument):
    turns = iter(range(1_000_000_000))

    def call():
        if next(turns) == 10:
            raise ValueError("the eleventh")

    yield call


@contextmanager
def ends_badly(argument):
    yield lambda: None
    raise SystemExit(3)


@contextmanager
def silent(argument):
    server = [sys.executable, "-c", "import time; time.sleep(600)"]
    subprocess.Popen(server, start_new_session=True)
    yield lambda: time.sleep(600)
"""


@pytest.fixture
def code(tmp_path):
    """Return a function that makes the `ClientCode` of a function in `CODE`."""
    (tmp_path / "code_under_test.py").write_text(CODE)

    def give(function, argument="", **facts):
        return ClientCode(
            f"code_under_test:{function}", argument, folder=tmp_path, **facts
        )

    return give


async def test_requested_number_of_calls_is_in_flight_and_counted(code):
    async with CodeProcess(code("tasks")) as process:
        answer = await process.request(users=3, calls=50)
        assert len(answer["latencies"]) == 50
        assert min(answer["cpu"], answer["elapsed"], *answer["latencies"]) > 0
        for name, value in (("most", 3), ("calls", 50)):
            state = await process.request(method="state", argument=name)
            assert state == {"value": value}
        untimed = await process.request(users=3, calls=50, timed=False)
        assert untimed["latencies"] == []
        assert min(untimed["cpu"], untimed["elapsed"]) > 0
        state = await process.request(method="state", argument="calls")
        assert state == {"value": 100}


@pytest.mark.parametrize("users", [1, 4])
async def test_blocking_code_uses_one_thread_per_call_in_flight(code, users):
    async with CodeProcess(code("threads", str(users))) as process:
        answer = await process.request(users=users, calls=users)
        assert len(answer["latencies"]) == users
        seen = await process.request(method="seen", argument=None)
    assert seen == {"threads": users}


async def test_each_number_of_users_has_a_result_with_all_figures(code, tmp_path):
    placements, progress = [], []
    results = await measure_code(
        {"first": code("tasks"), "second": code("tasks", max_users=2)},
        users=(1, 4),
        **{**SHORT, "rounds": 2, "warm_up": 0.01},
        on_users=lambda position, pids: placements.append((position, list(pids))),
        on_progress=progress.append,
    )
    assert placements == [(0, ["first", "second"]), (1, ["first", "second"])] * 2
    assert [result.title for result in results] == [
        "client code, 1 user",
        "client code, 4 users",
    ]
    subjects = [each.subject for each in progress]
    assert subjects == ["second", "first"] * 4
    done = [each.done for each in progress]
    assert done == sorted(done)
    assert {each.total for each in progress} == {0.08}
    for result in results:
        jsonschema_rs.validate(read_schema("result"), json.loads(result.to_json()))
        for subject in result.targets:
            assert [part.round for part in subject.slices] == [0, 1]
            assert {"p50", "p99", "mean", "rate", "cpu"} <= subject.figures().keys()
            assert subject.figures()["cpu"] > 0
            assert not {"generator cpu", "bytes sent"} & subject.figures().keys()
        assert "first: code_under_test:tasks\n" in to_text(result)
        assert differences(result, against="second")
    assert [each.load for each in results[1].targets] == ["", "client code, 2 users"]
    write_page(tmp_path / "page.html", results)
    page = (tmp_path / "page.html").read_text()
    assert "code_under_test:tasks" in page
    assert "mcpwire bench --" not in page


async def test_slice_seconds_sets_the_length_of_a_slice(code):
    progress = []
    await measure_code(
        {"floor": code("tasks")},
        **{**SHORT, "seconds": 0.3},
        on_progress=progress.append,
    )
    assert len(progress) == 30


async def test_rate_of_calls_longer_than_a_slice_counts_all_calls(code):
    (result,) = await measure_code({"slow": code("slow")}, users=(8,), **SHORT)
    (subject,) = result.targets
    for part in subject.slices:
        assert (part.done, part.in_time) == (8, 8)
        assert part.seconds == part.elapsed >= 0.04
    assert subject.figures()["rate"] <= 8 / 0.04


async def test_code_named_floor_becomes_the_floor_of_the_results(code):
    (result,) = await measure_code(
        {"floor": code("tasks"), "other": code("tasks")}, **SHORT
    )
    assert result.floor is not None
    assert [each.name for each in result.targets] == ["other"]


async def test_calls_in_flight_are_limited_to_max_users(code):
    async with CodeProcess(code("tasks", max_users=2)) as process:
        process.set_load(5, 0.01)
        await process.measure(0, 0.0, 0.01)
        most = await process.request(method="state", argument="most")
    assert most == {"value": 2}


async def test_cpu_ns_of_the_code_replaces_the_measured_cpu_time(code):
    (result,) = await measure_code({"elsewhere": code("elsewhere")}, **SHORT)
    assert result.targets[0].figures()["cpu"] == 1e6


async def test_code_runs_in_an_environment_without_mcpwire(code):
    isolated = code("tasks", interpreter=(sys.executable, "-I", "-S"))
    async with CodeProcess(isolated) as process:
        assert len((await process.request(users=1, calls=3))["latencies"]) == 3


async def test_module_is_found_in_the_folder_and_on_the_python_path(code, tmp_path):
    (tmp_path / "library").mkdir()
    (tmp_path / "library/my_library.py").write_text("")
    source = (tmp_path / "code_under_test.py").read_text()
    (tmp_path / "code_under_test.py").write_text(f"import my_library\n{source}")
    path = {"PYTHONPATH": str(tmp_path / "library"), "PYTHONSAFEPATH": "1"}
    async with CodeProcess(code("tasks", env=path)) as process:
        assert (await process.request(users=1, calls=1))["latencies"]


@pytest.mark.parametrize(
    ("function", "argument", "ending"),
    [
        ("failing", "open", "ended with code 1"),
        ("failing", "", "ended with code 1"),
        ("failing_thread", "", "ended with code 1"),
        ("ends_badly", "", "ended with code 3"),
        ("absent", "", "ended with code 1"),
    ],
)
async def test_failing_code_is_named_in_the_error(code, function, argument, ending):
    load = SHORT if function == "ends_badly" else LONG
    measurement = measure_code({"x": code(function, argument)}, users=(4,), **load)
    words = rf"the code 'x' \(code_under_test:{function}\)"
    with pytest.raises(GeneratorFailed, match=f"^{words} {ending}$"):
        async with asyncio.timeout(WAIT_S):
            await measurement


async def test_failure_of_one_code_closes_the_others(code, tmp_path):
    both = {"good": code("closing", str(tmp_path / "closed")), "bad": code("failing")}
    with pytest.raises(GeneratorFailed, match="'bad'"):
        await measure_code(both, **SHORT)
    assert (tmp_path / "closed").exists()


async def test_answer_that_is_not_json_is_an_error(code, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("print('{', flush=True)")
    with pytest.raises(GeneratorFailed, match="gave an answer that is not JSON"):
        await measure_code({"x": code("any", program=str(program))}, **SHORT)


async def test_program_that_closes_stdout_and_keeps_running_fails(
    code, tmp_path, monkeypatch
):
    monkeypatch.setattr(client_code, "_ANSWER_TIMEOUT_S", 0.5)
    program = tmp_path / "program.py"
    program.write_text("import os, time; os.close(1); time.sleep(600)")
    with pytest.raises(GeneratorFailed, match=r"did not answer within 0\.5 s"):
        await measure_code({"x": code("any", program=str(program))}, **SHORT)


async def test_program_that_does_not_exit_is_an_error(code, tmp_path, monkeypatch):
    monkeypatch.setattr(client_code, "_EXIT_TIMEOUT_S", 0.1)
    program = tmp_path / "program.py"
    program.write_text("import time; print('{}', flush=True); time.sleep(600)")
    with pytest.raises(GeneratorFailed, match=r"did not end within 0\.1 s"):
        async with CodeProcess(code("any", program=str(program))):
            pass


async def test_program_that_cannot_be_started_is_named(code):
    absent = code("tasks", interpreter=("/absent/python",))
    with pytest.raises(GeneratorFailed, match=r"cannot start the code 'x' \(code_un"):
        await measure_code({"x": absent}, **SHORT)


async def test_options_must_be_above_zero(code):
    with pytest.raises(
        ValueError, match="max_users must be above zero and finite, got 0"
    ):
        code("tasks", max_users=0)
    for name in ("slice_seconds", "seconds", "rounds"):
        with pytest.raises(ValueError, match=f"{name} must be above zero"):
            await measure_code({}, **{**SHORT, name: 0})


async def test_missing_package_is_reported_before_measuring(code, monkeypatch):
    monkeypatch.setitem(sys.modules, "hdrh.histogram", None)
    with pytest.raises(LocalProtocolError, match="pip install hdrhistogram"):
        await measure_code({"x": code("tasks")}, **SHORT)


def test_argument_and_environment_are_not_in_the_repr(code):
    secret = code("tasks", "--token hush", env={"TOKEN": "hush"})
    assert "hush" not in f"{secret} {secret!r}"


@pytest.mark.skipif(not HAS_PROC, reason="looks for processes in /proc")
@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_silent_code_is_killed_with_its_descendants(
    code, is_cancelled, monkeypatch
):
    monkeypatch.setattr(client_code, "_FAILED_EXIT_TIMEOUT_S", 0.1)
    others, started = descendants(os.getpid()), set()

    async def measure():
        async with CodeProcess(code("silent")) as process:
            started.update(descendants(os.getpid()) - others)
            await process.request(
                users=1, calls=1, timeout=None if is_cancelled else 0.01
            )

    task = asyncio.create_task(measure())
    async with asyncio.timeout(WAIT_S):
        while not started:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.01)  # poll the started processes
        if is_cancelled:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(GeneratorFailed, match=r"not answer within 0\.01 s"):
                await task
        assert len(started) == 2
        while any(map(is_alive, started)):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.01)  # poll until the kernel has ended them


def test_user_makes_calls_until_one_ends_after_the_time(monkeypatch):
    times = iter([0, 0, 600, 1_200, 1_300])
    monkeypatch.setattr(code_child, "perf_counter_ns", times.__next__)
    measurement = code_child.Measurement(None, users=1, seconds=1e-6)
    measurement.begin()
    assert len(list(measurement.calls())) == 2
    answer = measurement.answer()
    assert (answer["latencies"], answer["elapsed"]) == ([600, 600], 1_300)


def test_users_share_the_calls_of_a_request():
    measurement = code_child.Measurement(None, users=2, calls=5)
    measurement.begin()
    calls = itertools.zip_longest(measurement.calls(), measurement.calls())
    assert len(list(calls)) == 3
    assert len(measurement.answer()["latencies"]) == 5
