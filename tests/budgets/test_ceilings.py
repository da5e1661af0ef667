"""What one `call_tool` costs on each path, counted instead of timed.

Budgets of time are `benchmarks/`' business. What is counted here does not depend on the
machine: calls, encodings, decodings, tasks, timers, turns of the loop, system calls,
and what is left behind.
"""

import sys

import ceilings
import pytest
from ceilings import above, below
from paths import CELLS, counted

IS_WHERE_MEASURED = (
    sys.version_info[:2] == ceilings.MEASURED_ON and sys.platform == "linux"
)
TABLE = ceilings.load()


def held(cell):
    """Return the ceilings that hold in this interpreter."""
    row = TABLE[cell]
    if IS_WHERE_MEASURED:
        return row
    return {name: row[name] for name in row if name not in ceilings.VARYING}


@pytest.mark.parametrize("cell", CELLS)
def test_a_call_costs_no_more_than_its_ceilings(cell):
    told = counted(cell)
    over = above(told["figures"], held(cell))
    where = f"the ceilings of {cell!r} stand in tests/budgets/{ceilings.TABLE.name}"
    assert not over, "\n".join([*over, where, "it did: " + " ".join(told["names"])])


@pytest.mark.parametrize("cell", CELLS)
def test_no_ceiling_is_higher_than_what_is_measured(cell):
    if not IS_WHERE_MEASURED:
        pytest.skip(f"the ceilings were measured on {ceilings.MEASURED_ON} on Linux")
    too_high = below(counted(cell)["figures"], TABLE[cell])
    command = "  .venv/bin/python tests/budgets/ceilings.py"
    assert not too_high, "\n".join([*too_high, "this writes them:", command])


def test_each_path_has_its_ceilings_and_there_are_no_others():
    assert sorted(TABLE) == sorted(CELLS)


@pytest.mark.parametrize("cell", CELLS)
def test_a_call_starts_no_thread_and_no_task_or_timer_but_its_own(cell):
    """The blocking client's call is itself a task, on the loop that its thread runs.

    A gateway's client has a handler at the server behind it as well. A server over HTTP
    limits the time of a body, and answers by a stream after a while, by timers that all
    requests share.
    """
    row = TABLE[cell]
    most = {"blocking": 1, "memory": 1, "server": 1, "gateway": 2}
    assert row["tasks"] <= most.get(cell.replace(",", "").split()[0], 0)
    assert row["timers"] == row["threads"] == 0


@pytest.mark.parametrize("cell", CELLS)
def test_a_message_is_encoded_once_and_decoded_once(cell):
    # Behind the gateway is a server in memory, which encodes and decodes, too.
    sides = {"memory": 2, "gateway": 3}.get(cell.partition(",")[0].split()[0], 1)
    assert (TABLE[cell]["encodes"], TABLE[cell]["decodes"]) == (sides, sides)


# That the counting would notice...


def test_what_is_over_a_ceiling_is_named():
    measured = {"python": 43, "tasks": 0, "objects_left": 0, "blocks_left": 5}
    assert above(measured, {"python": 42, "tasks": 0}) == [
        "python: 43 is over the ceiling of 42"
    ]


def test_an_object_left_behind_is_over_the_ceiling():
    assert above({"objects_left": 1_000, "blocks_left": 5}, {})


def test_a_ceiling_that_became_too_high_is_named():
    measured = {"python": 38, "c": 51, "tasks": 0}
    assert below(measured, {"python": 42, "c": 54, "tasks": 1}) == [
        "python: lower the ceiling of 42, 38 is measured",
        "tasks: lower the ceiling of 1, 0 is measured",
    ]


def test_ceilings_are_lowered_and_never_raised():
    table = {"stdio": {"python": 42, "c": 50}}
    measured = {"stdio": {"python": 40, "c": 51, "objects_left": 3, "blocks_left": 1}}
    assert ceilings.lowered(table, measured) == {"stdio": {"python": 40, "c": 50}}


def test_counting_tells_calls_system_calls_and_json_apart():
    import os

    import counting
    import orjson

    def work():
        reader, writer = os.pipe()
        os.write(writer, orjson.dumps(orjson.loads(b"{}")))
        os.read(reader, 10)
        os.close(reader)
        os.close(writer)

    profile = counting.Profile()
    profile.start()
    work()
    profile.stop()
    found = counting.cheapest([profile.heard])
    expected = {"python": 1, "c": 7, "reads": 1, "writes": 1, "other": 3}
    expected |= {"encodes": 1, "decodes": 1}
    assert {name: found[name] for name in counting.FIGURES if found[name]} == expected
