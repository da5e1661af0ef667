"""The server benchmark: its measurements, and that all servers do the same work."""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

import mcpwire
from mcpwire.bench.null_process import null_command
from mcpwire.testing import procfs

FOLDER = Path(__file__).parents[2] / "benchmarks"
BUSY = """
import subprocess, sys
if sys.argv[1:]:
    child = subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=subprocess.PIPE)
sum(range(2_000_000))
sys.stdout.write("done\\n")
sys.stdout.flush()
sys.stdin.read()
"""
TIMEOUT_S = 30
ADDED = 0.005
"""A lower bound of the time to sum two million numbers, in seconds."""


on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="needs CPU times and affinity of Linux"
)


@pytest.fixture
def bench(benchmark_module, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    module = benchmark_module("bench_server")
    if sys.platform != "linux":
        yield module
        return
    before = os.sched_getaffinity(0)
    yield module
    os.sched_setaffinity(0, before)


@on_linux
def test_cpu_time_includes_child_processes(benchmark_module):
    servers = benchmark_module("harness.servers")
    command = [sys.executable, "-c", BUSY, "-c", BUSY]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout.readline() + parent.stdout.readline() == b"done\n" * 2
        own_program, child = servers.process_tree(parent.pid)
        assert own_program == parent.pid
        child_ns = servers.cpu_ns(child)
        assert child_ns > ADDED * 1e9
        assert servers.cpu_ns(own_program) > child_ns + ADDED * 1e9


@on_linux
def test_server_and_load_run_on_separate_cores(benchmark_module):
    servers = benchmark_module("harness.servers")
    usable = os.sched_getaffinity(0)
    server, load = servers.server_and_load_cores()
    assert (len(server), len(load)) == (1, 1)
    assert server | load <= usable
    assert (server != load) == (len(usable) > 1)
    try:
        with servers.on_server_core():
            assert os.sched_getaffinity(0) == server
        assert os.sched_getaffinity(0) == load
    finally:
        os.sched_setaffinity(0, usable)


@on_linux
def test_server_that_exits_before_listening_is_an_error(bench):
    starting = bench.Program((sys.executable, "-c", "")).run_http()
    with pytest.raises(ConnectionError, match="nothing listens"):
        starting.__enter__()


def test_missing_requirement_of_a_program_is_returned(bench, tmp_path):
    there, absent = tmp_path, tmp_path / "python"
    assert bench.Program(("x",), (there,)).missing() is None
    assert bench.Program(("x",), (there, absent)).missing() == absent


def test_programs_that_are_not_installed_are_skipped_on_each_leg(bench, monkeypatch):
    gone = (Path("/nowhere"),)
    for name, program in bench.PROGRAMS.items():
        if program.needs:
            monkeypatch.setitem(bench.PROGRAMS, name, bench.Program(("x",), gone))
    names = {variant.name for variant in bench.variants()}
    assert not any("SDK" in name or "FastMCP" in name for name in names)
    for leg in bench.LEGS:
        assert {f"{leg}: floor", f"{leg}: mcpwire"} <= names


OURS = ("floor", "floor, tasks", "mcpwire", "mcpwire, bare")


@on_linux
def test_floors_and_ours_give_equal_results_without_stderr(bench, capfd):
    async def call(variant):
        with variant.open_target() as target:
            async with mcpwire.Client(target, mode=variant.revision) as client:
                params = {"name": "echo", "arguments": {"text": "hi"}}
                return await client.request("tools/call", params)

    found = {
        each.name: asyncio.run(call(each))
        for each in bench.variants()
        if each.name.partition(": ")[2] in OURS
    }
    assert len(found) == 12
    for name, result in found.items():
        if "2026" in name:
            assert result.pop("resultType") == "complete"
            assert list(result.pop("_meta")) == ["io.modelcontextprotocol/serverInfo"]
        assert result == {
            "content": [{"type": "text", "text": "hi"}],
            "structuredContent": {"result": "hi"},
        }
    assert capfd.readouterr().err == ""


def null(*options):
    command, *arguments = null_command("--stdio", *options)
    return nullcontext(mcpwire.Stdio(command, arguments))


@on_linux
def test_programs_of_a_leg_are_measured_at_each_width(benchmark_module, monkeypatch):
    programs = benchmark_module("harness.programs")
    rounds = benchmark_module("harness.rounds")
    served = [
        programs.ServedProgram(
            name, "plain", "leg", "2025-11-25", partial(null, *options)
        )
        for name, options in (("plain", ()), ("delayed", ("--delay", "0.02")))
    ]
    monkeypatch.setattr(programs, "EXPECTED_TEXTS", ("hello",))
    before = os.sched_getaffinity(0)
    plan = rounds.Plan(1, 1, 0, (1, 4))
    (measured,) = rounds.run_rounds(served, plan, len)
    assert os.sched_getaffinity(0) == before
    figures = {"cpu_us", "p50_us", "p99_us", "p999_us"}
    figures |= {f"{of}@{width}" for of in ("calls_per_s", "cpu_us") for width in (1, 4)}
    assert set(measured["plain"]) == set(measured["delayed"]) == figures
    assert measured["plain"]["p50_us"]["ratio"] == 1
    assert measured["delayed"]["p50_us"]["value"] >= 20_000
    assert measured["delayed"]["p50_us"]["ratio"] > 1


@pytest.mark.parametrize("question", ["server", "gateway"])
def test_calls_option_is_rejected_for_program_benchmarks(
    benchmark_module, question, capsys, monkeypatch
):
    monkeypatch.setattr(sys, "argv", ["bench", "--calls", "5"])
    module = benchmark_module(f"bench_{question}")
    with pytest.raises(SystemExit):
        module.run("x", [unstarted_program(benchmark_module)])
    assert "unrecognized arguments: --calls 5" in capsys.readouterr().err


def unstarted_program(benchmark_module):
    return benchmark_module("harness.programs").ServedProgram("a", "a", "leg", "", null)


@on_linux
@pytest.mark.parametrize("leg", ["stdio", "HTTP"])
def test_floor_is_measured_over_each_transport(bench, leg):
    rounds = importlib.import_module("harness.rounds")
    (floor,) = [each for each in bench.variants() if each.name == f"{leg}: floor"]
    (measured,) = rounds.run_rounds([floor], rounds.Plan(1, 1, 0, ()), len)
    assert measured[floor.name]["cpu_us"]["value"] > 0


WRONG = """
server = mcpwire.Server("x", "1")
server.add_tool(lambda text: "wrong", name="echo")
server.run()
"""


@on_linux
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit(3)", "one: .*exited with code 3"),
        ("mcpwire.Server('x', '1').run()", "one: the server did not declare"),
        (WRONG, "one: a call was answered with 'wrong'"),
    ],
)
def test_program_with_a_wrong_result_is_not_measured(benchmark_module, code, message):
    programs = benchmark_module("harness.programs")
    rounds = benchmark_module("harness.rounds")
    target = mcpwire.Stdio(sys.executable, ["-c", f"import mcpwire\n{code}"])
    opened = partial(nullcontext, target)
    one = programs.ServedProgram("one", "one", "leg", "2025-11-25", opened)
    with pytest.raises(SystemExit, match=message):
        rounds.run_rounds([one], rounds.Plan(1, 1, 0, ()), len)


@on_linux
def test_stdio_program_runs_on_the_server_core(bench):
    code = "import os; print(os.sched_getaffinity(0))"
    program = bench.Program((sys.executable, "-c", code)).target()
    command = [program.command, *program.args]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    server, _ = importlib.import_module("harness.servers").server_and_load_cores()
    assert done.stdout.strip() == str(server)


@on_linux
def test_servers_end_with_a_terminated_benchmark(tmp_path):
    words = ["--rounds", "9", "--only", "HTTP: floor", "--output", tmp_path / "x"]
    command = [sys.executable, FOLDER / "bench_server.py", *words]

    def is_server(pid):
        try:
            return b"floor_server" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False  # the process has just ended

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + TIMEOUT_S
        while not (started := [*filter(is_server, procfs.descendants(process.pid))]):
            assert time.monotonic() < until
            time.sleep(0.01)  # there is no event for a started process
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    assert not any(map(procfs.is_alive, started))


# The figures...


def rounds_of(**values):
    """Return rounds with one figure, and ratios that must not be used."""
    return [
        {
            name: {"cpu_us": {"value": each[at], "ratio": 77}}
            for name, each in values.items()
        }
        for at in range(3)
    ]


def test_variants_are_compared_round_by_round(benchmark_module):
    figures = benchmark_module("harness.figures")
    rounds = rounds_of(mine=[1, 2, 4], theirs=[8, 24, 36])
    assert figures.compare_variants(rounds, "theirs", "mine") == {
        "cpu_us": {"median": 9, "min": 8, "max": 12}
    }
    assert figures.compare_variants(rounds, "theirs", "absent") is None


def test_budget_refers_to_the_baseline_or_another_variant(benchmark_module):
    figures = benchmark_module("harness.figures")
    rounds = rounds_of(mine=[1, 2, 4], theirs=[8, 24, 36])
    assert figures.Budget("mine", "cpu_us", 1.6).ratio(rounds) == 77
    against = figures.Budget("theirs", "cpu_us", 8, at_least=True, against="mine")
    assert against.ratio(rounds) == 9
    assert figures.Budget("absent", "cpu_us", 8).ratio(rounds) is None
    absent = figures.Budget("mine", "cpu_us", 8, against="absent")
    assert absent.ratio(rounds) is None
    assert absent.verdict(rounds) is None
    verdict = against.verdict(rounds)
    assert (verdict["ratio"], verdict["holds"]) == (9, True)
