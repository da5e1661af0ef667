"""What is opened, where it runs and what is asked of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE = 30
CHILD = """
import json, os, sys
print("{}", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    told = {"words": len(sys.argv), "is_set": float(os.environ["MEASURED"]), **asked}
    print(json.dumps(told), flush=True)
"""


@pytest.fixture
def rounds(benchmark_module):
    return benchmark_module("harness.rounds")


def test_a_variant_names_the_command_and_the_environment_that_measure_it(rounds):
    variant = rounds.Variant(
        "foreign",
        "module:function",
        "argument",
        "floor",
        interpreter=(sys.executable, "-c", CHILD),
        environment={"MEASURED": "7"},
    )
    with rounds.open_variant(variant, []) as child:
        told = child.request(calls=3, width=None)
    assert told == {"words": 3, "is_set": 7, "calls": 3, "width": None}


def test_a_variant_is_measured_by_this_interpreter_unless_it_says_otherwise(rounds):
    variant = rounds.Variant("floor", "no_such_module:f", "", "floor")
    assert (variant.interpreter, variant.environment) == ((), {})
    assert hash(variant) == hash(
        rounds.Variant("floor", "no_such_module:f", "", "floor")
    )
    assert rounds.CHILD[0] == sys.executable


@pytest.mark.parametrize(
    ("calls", "divisor", "width", "expected"),
    [
        (500, 1, None, 500),
        (500, 10, None, 50),
        (500, 10, 32, 50),
        (500, 10, 64, 64),
        (200, 1, 512, 2048),
        (200, 10, 512, 512),
        (5, 10, None, 1),
    ],
)
def test_a_slice_has_a_call_for_each_in_flight_at_least(
    rounds, calls, divisor, width, expected
):
    variant = rounds.Variant("slow", "m:f", "", "floor", divisor)
    assert variant.calls(rounds.Plan(1, 1, calls, ()), width) == expected


def test_a_variant_is_measured_with_no_width_but_its_own(rounds):
    plan = rounds.Plan(1, 2, 3, (8, 32))
    asked = []

    class Child:
        """Tells what it was asked."""

        def __init__(self, name, widths):
            self.variant = rounds.Variant(name, "m:f", "", "floor", widths=widths)

        def request(self, **request):
            asked.append((self.variant.name, *request.values()))
            return {"x": 1}

    children = [Child("floor", None), Child("narrow", (8,))]
    slices = {"floor": {}, "narrow": {}}
    rounds.measure_slices(children, plan, widths=(None, 8, 32), slices=slices)
    mine = [request for name, *request in asked if name == "narrow"]
    assert mine == [[3, None], [32, 8]] * 2 + [[]]
    assert len(slices["floor"]["x"]) == 7
    assert [name for name, *_ in asked[:6:2]] == ["narrow", "narrow", "floor"]


def test_only_the_variants_of_a_leg_are_open_at_once(rounds, monkeypatch):
    opened = []
    monkeypatch.setattr(
        rounds, "open_all", lambda leg, *_: opened.append([v.name for v in leg]) or []
    )
    monkeypatch.setattr(rounds, "measure_slices", lambda *_, widths, slices: None)
    legs = {"a": "stdio", "b": "http", "c": "stdio"}
    variants = [rounds.Variant(n, "m:f", "", "a", leg=leg) for n, leg in legs.items()]
    rounds.run_rounds(variants, rounds.Plan(2, 1, 1, ()), len)
    assert opened == [["a", "c"], ["b"]] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="cores are Linux's here")
def test_a_process_moves_with_its_threads_and_with_what_it_started(rounds):
    code = f"""
import subprocess, sys, threading
threading.Thread(target=sys.stdin.read, daemon=True).start()
with subprocess.Popen(["cat"], stdin=subprocess.PIPE):
    print("there", flush=True)
    threading.Event().wait({PATIENCE})
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
