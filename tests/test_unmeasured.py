"""Which tests run with coverage: a few rows of a table, each on a drawn ground."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
import unmeasured

TESTS = Path(__file__).parent


def item(folder, name, **params):
    return SimpleNamespace(
        nodeid=f"tests/{folder}/test_x.py::{name}[{params}]",
        path=TESTS / folder / "test_x.py",
        callspec=SimpleNamespace(params=params),
        stash=pytest.Stash(),
    )


def table(folder, name="test_x"):
    """Return the items of a test with five rows, on two shells and three engines."""
    cells = itertools.product(range(5), range(2), range(3))
    return [item(folder, name, row=r, shell=s, engine=e) for r, s, e in cells]


def measured(items):
    unmeasured.choose(items, TESTS)
    return [each for each in items if not unmeasured.is_measured_elsewhere(each, TESTS)]


def test_two_rows_of_a_table_are_measured_each_on_one_ground():
    rows = [each.callspec.params["row"] for each in measured(table("oauth"))]
    assert len(rows) == len(set(rows)) == unmeasured.ROWS == 2


def test_test_with_only_grounds_is_measured_on_one():
    items = [item("oauth", "test_x", shell=s, engine=e) for s in (0, 1) for e in (0, 1)]
    assert len(measured(items)) == 1


def test_every_row_is_drawn_in_some_test():
    names = [f"test_{number}" for number in range(20)]
    chosen = [each for name in names for each in measured(table("oauth", name))]
    assert {each.callspec.params["row"] for each in chosen} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("folder", ["auth", "protocol", "server", "types", "wire"])
def test_tests_of_pure_layers_are_measured_in_every_cell(folder):
    assert len(measured(table(folder))) == 30


def test_first_fault_of_each_case_is_measured():
    cases = ("A.a", "A.a", "B.a", "A.a", "B.a")
    faults = [SimpleNamespace(cases=(case, "C.a")) for case in cases]
    items = [item("check", "test_fault", mutant=each) for each in faults]
    chosen = [each.callspec.params["mutant"] for each in measured(items)]
    assert chosen == [faults[0], faults[2]]


def test_folder_that_other_tests_cover_is_not_measured():
    assert measured(table("matrix")) == []


def test_autouse_fixtures_need_no_measuring(request):
    assert unmeasured.QUIET.issuperset(request.fixturenames)
