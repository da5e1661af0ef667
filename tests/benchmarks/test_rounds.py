"""Variants that somebody else's interpreter runs."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
CHILD = """
import json, os, sys
print("{}", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    told = {"words": len(sys.argv), "is_set": float(os.environ["MEASURED"]), **asked}
    print(json.dumps(told), flush=True)
"""


@pytest.fixture
def rounds(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("harness.rounds")


def test_a_variant_names_the_command_and_the_environment_that_measure_it(rounds):
    variant = rounds.Variant(
        "foreign",
        "module:function",
        "argument",
        "floor",
        interpreter=(sys.executable, "-c", CHILD),
        environment={"MEASURED": "7"},
    )
    with rounds.opened(variant, []) as child:
        told = child.ask(calls=3, width=None)
    assert told == {"words": 3, "is_set": 7, "calls": 3, "width": None}


def test_a_variant_is_measured_by_this_interpreter_unless_it_says_otherwise(rounds):
    variant = rounds.Variant("floor", "no_such_module:f", "", "floor")
    assert (variant.interpreter, variant.environment) == ((), {})
    assert hash(variant) == hash(
        rounds.Variant("floor", "no_such_module:f", "", "floor")
    )
    assert rounds.CHILD[0] == sys.executable
