"""Rounds of clients: opened variants, their cores and figures."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcpwire.bench import CodeProcess

WAIT_S = 30
CHILD = """
import json, os, sys
print("{}", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    answer = {"words": sys.argv[1:], "value": os.environ["MEASURED"], **request}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def rounds(benchmark_module):
    return benchmark_module("harness.rounds")


async def test_variant_runs_with_its_command_and_environment(rounds):
    variant = rounds.Variant(
        "foreign",
        "module:function",
        "argument",
        "floor",
        interpreter=(sys.executable, "-c"),
        program=CHILD,
        environment={"MEASURED": "7"},
    )
    async with CodeProcess(variant.code()) as child:
        answer = await child.request(users=1, calls=3)
    assert answer == {
        "words": ["module:function", "argument"],
        "value": "7",
        "users": 1,
        "calls": 3,
    }


def test_variant_uses_this_interpreter_by_default(rounds):
    variant = rounds.Variant("floor", "no_such_module:f", "", "floor")
    assert variant.code().interpreter == (sys.executable,)
    assert variant.code(("pinned",)).interpreter == ("pinned", sys.executable)
    assert variant.code().folder == rounds.FOLDER
    assert hash(variant) == hash(
        rounds.Variant("floor", "no_such_module:f", "", "floor")
    )


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, None), ({"widths": (1, 8)}, 8), ({"max_users": 1}, 1)]
)
def test_variant_limits_the_calls_in_flight(rounds, fields, expected):
    variant = rounds.Variant("narrow", "m:f", "", "floor", **fields)
    assert variant.code().max_users == expected


def subject(figures):
    """Return a subject of two slices with the same figures in each."""
    return SimpleNamespace(
        figures=lambda: figures,
        figures_of_slices=lambda name: [figures[name]] * 2,
        slices=(None, None),
    )


@pytest.mark.parametrize("pinned", [True, False])
def test_single_calls_are_pinned_and_variants_have_own_widths(
    rounds, monkeypatch, pinned
):
    figures = {"p50": 1.0, "p99": 2.0, "p99.9": 3.0, "cpu": 4.0, "rate": 5.0}
    cores, pins = {3, 5}, []

    async def measure_code(codes, *, users, on_users, **_):
        for position in range(len(users)):
            on_users(position, dict.fromkeys(codes, 7))
        return [
            SimpleNamespace(subjects=[subject(figures) for _ in codes]) for _ in users
        ]

    monkeypatch.setattr(rounds, "measure_code", measure_code)
    monkeypatch.setattr(rounds, "usable_cores", lambda: cores)
    monkeypatch.setattr(rounds, "pin_processes", lambda *pin: pins.append(pin))
    variants = [
        rounds.Variant("floor", "m:f", "", "floor"),
        rounds.Variant("narrow", "m:f", "", "floor", widths=(8,)),
    ]
    slices = {"floor": {}, "narrow": {}}
    rounds.measure_leg(variants, rounds.Plan(1, 2, 0, (8, 32), pinned=pinned), slices)
    assert pins == ([(7, {3})] * 2 + [(7, cores)] * 4 if pinned else [])
    single = {"cpu_us": [4, 4], "p50_us": [1], "p99_us": [2], "p999_us": [3]}
    many = {"cpu_us": [4, 4], "calls_per_s": [5, 5]}
    if not pinned:
        many |= {"p50_us": [1], "p99_us": [2], "p999_us": [3]}
    at_8, at_32 = (
        {f"{name}@{width}": values for name, values in many.items()}
        for width in (8, 32)
    )
    assert slices == {"floor": single | at_8 | at_32, "narrow": single | at_8}


def test_failing_variant_exits_the_run_with_one_line(rounds):
    variant = rounds.Variant("x", "m:f", "", "x", interpreter=("/absent/program",))
    with pytest.raises(SystemExit, match="cannot start the code 'x'"):
        rounds.measure_leg([variant], rounds.Plan(1, 1, 0, ()), {"x": {}})


def test_only_the_variants_of_one_leg_are_open_at_once(rounds, monkeypatch):
    opened = []
    monkeypatch.setattr(
        rounds, "measure_leg", lambda leg, *_: opened.append([v.name for v in leg])
    )
    legs = {"a": "stdio", "b": "http", "c": "stdio"}
    variants = [rounds.Variant(n, "m:f", "", "a", leg=leg) for n, leg in legs.items()]
    rounds.run_rounds(variants, rounds.Plan(2, 1, 0, ()), len)
    assert opened == [["a", "c"], ["b"]] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="needs CPU affinity of Linux")
def test_pinning_includes_threads_and_child_processes(rounds):
    code = f"""
import subprocess, sys, threading
threading.Thread(target=sys.stdin.read, daemon=True).start()
with subprocess.Popen(["cat"], stdin=subprocess.PIPE):
    print("there", flush=True)
    threading.Event().wait({WAIT_S})
"""
    cores = rounds.usable_cores()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        for where in ({min(cores)}, cores):
            rounds.pin_processes(process.pid, where)
            family = rounds.process_tree(process.pid)
            threads = [
                int(thread.name)
                for each in family
                for thread in Path(f"/proc/{each}/task").iterdir()
            ]
            assert (len(family), len(threads)) == (2, 3)
            assert all(os.sched_getaffinity(thread) == where for thread in threads)
        for each in family:
            os.kill(each, signal.SIGKILL)
