"""The cost of one `call_tool` on each path, counted instead of timed.

Budgets of time belong to `benchmarks/`. The counts here do not depend on the machine:
calls, encodings, decodings, tasks, timers, loop iterations, system calls, and memory
left behind.
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
    """Return the ceilings that apply in this interpreter."""
    row = TABLE[cell]
    if IS_WHERE_MEASURED:
        return row
    return {name: row[name] for name in row if name not in ceilings.VARYING}


@pytest.mark.parametrize("cell", CELLS)
def test_call_costs_stay_below_the_ceilings(cell):
    costs = counted(cell)
    exceeded = above(costs["figures"], held(cell))
    where = f"the ceilings of {cell!r} stand in tests/budgets/{ceilings.TABLE.name}"
    assert not exceeded, "\n".join(
        [*exceeded, where, "it did: " + " ".join(costs["names"])]
    )


@pytest.mark.parametrize("cell", CELLS)
def test_ceilings_are_not_above_the_measured_costs(cell):
    if not IS_WHERE_MEASURED:
        pytest.skip(f"the ceilings were measured on {ceilings.MEASURED_ON} on Linux")
    too_high = below(counted(cell)["figures"], TABLE[cell])
    command = "  .venv/bin/python tests/budgets/ceilings.py"
    assert not too_high, "\n".join([*too_high, "this writes them:", command])


def test_ceilings_exist_for_exactly_the_paths():
    assert sorted(TABLE) == sorted(CELLS)


@pytest.mark.parametrize("cell", CELLS)
def test_call_starts_no_extra_thread_task_or_timer(cell):
    """A call of the blocking client is itself a task, on the loop that its thread runs.

    Behind a gateway, the upstream server has a handler task too. An HTTP server limits
    the time of a body, and switches to a stream after a while, with timers shared by
    all requests.
    """
    row = TABLE[cell]
    most = {"blocking": 1, "memory": 1, "server": 1, "gateway": 2}
    assert row["tasks"] <= most.get(cell.replace(",", "").split()[0], 0)
    assert row["timers"] == row["threads"] == 0


@pytest.mark.parametrize("cell", CELLS)
def test_message_is_encoded_once_and_decoded_once(cell):
    # Behind the gateway is an in-memory server, which encodes and decodes too.
    sides = {"memory": 2, "gateway": 3}.get(cell.partition(",")[0].split()[0], 1)
    assert (TABLE[cell]["encodes"], TABLE[cell]["decodes"]) == (sides, sides)


# Tests of the counting itself...


def test_value_over_its_ceiling_is_named():
    measured = {"python": 43, "tasks": 0, "objects_left": 0, "blocks_left": 5}
    assert above(measured, {"python": 42, "tasks": 0}) == [
        "python: 43 is over the ceiling of 42"
    ]


def test_object_left_behind_exceeds_the_ceiling():
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


def test_counting_separates_calls_system_calls_and_json():
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
    found = counting.cheapest([profile.recorded])
    expected = {"python": 1, "c": 7, "reads": 1, "writes": 1, "other": 3}
    expected |= {"encodes": 1, "decodes": 1}
    assert {name: found[name] for name in counting.FIGURES if found[name]} == expected
