"""Each row of a marked table runs on some of its grounds."""

import itertools
from types import SimpleNamespace

import grounds
import pytest


def table(count, rows=12):
    """Return the items of a test on two shells and three engines."""
    cells = itertools.product(range(rows), range(2), range(3))
    return [
        SimpleNamespace(
            nodeid=f"test_x.py::test_x[{cell}]",
            callspec=SimpleNamespace(
                params=dict(zip(("row", "shell", "engine"), cell, strict=True))
            ),
            get_closest_marker=lambda name: (
                pytest.mark.grounds(count, "shell", "engine").mark
                if count and name == "grounds"
                else None
            ),
        )
        for cell in cells
    ]


def run(items):
    out = grounds.left_out(items)
    return [each.callspec.params for each in items if each not in out]


@pytest.mark.parametrize("count", [1, 2, 6])
def test_each_row_runs_on_the_given_number_of_grounds(count):
    rows = [params["row"] for params in run(table(count))]
    assert rows == sorted([*range(12)] * count)


def left_out_of(names):
    """Return the cells of an unmarked test that are left out."""
    items = [
        SimpleNamespace(nodeid=f"test_x.py::test_x[{n}]", get_closest_marker=no_mark)
        for n in names
    ]
    return [each.nodeid.partition("[")[2][:-1] for each in grounds.left_out(items)]


def no_mark(_):
    return None


def test_every_fourth_row_also_runs_with_the_blocking_client():
    names = [f"{shell}-{n}" for shell in ("asyncio", "blocking") for n in range(400)]
    out = left_out_of(names)
    assert all(name.startswith("blocking-") for name in out)
    assert 270 < len(out) < 330


@pytest.mark.parametrize("row", range(20))
def test_each_test_runs_with_the_blocking_client_at_least_once(row):
    assert left_out_of([f"asyncio-{row}", f"blocking-{row}"]) == []


def test_blocking_only_tests_run():
    names = [f"blocking-{n}" for n in range(40)]
    assert left_out_of([*names, "unblocking-0", "asyncio-x"]) == []


def test_unmarked_test_runs_on_all_grounds():
    assert grounds.left_out(table(None)) == []


@pytest.mark.parametrize("row", [{}, "x"], ids=["a value", "another"])
@pytest.mark.parametrize("engine", ["one", "other"])
@pytest.mark.parametrize("shell", ["asyncio", "blocking"])
def test_row_number_is_the_same_on_all_grounds(request, row, engine, shell):
    items = [
        each
        for each in request.session.items
        if each.nodeid.startswith(request.node.nodeid.partition("[")[0])
    ]
    seen = {}
    rows = {grounds.row_of(each, "x", ["engine", "shell"], seen) for each in items}
    assert len(rows) == len({id(each.callspec.params["row"]) for each in items})
