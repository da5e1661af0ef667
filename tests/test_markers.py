"""Markers have existing ids, and each required id keeps a test."""

import markers
import pytest
from markers import Marked, read_all

REQUIRED: dict[str, list[str]] = {
    "fault": [f"F{number:02}" for number in range(1, 51)],
    "pain": [f"P{number:02}" for number in range(1, 38)],
    "attack": [f"S{n:02}" for n in range(1, 34) if n not in {16, 20, 21, 26}],
    "case": [
        *("A02", "A07", "C01", "C05", "C07", "C09", "G01"),
        *(f"B{number:02}" for number in range(1, 9)),
        *(f"D{number:02}" for number in range(1, 20)),
        *(f"F{number:02}" for number in (*range(1, 11), *range(14, 19))),
    ],
}
"""Marker -> the ids that tests must have; `systems/test_the_table.py` has `system`."""


def test_each_marker_has_literal_ids():
    assert [f"{where}: {what}" for where, what in read_all()[1]] == []


def test_each_id_is_on_its_list():
    assert [
        f"{test}: {marker}({name!r})"
        for marker, name, test in read_all()[0]
        if marker != "rule" and not markers.is_well_formed(marker, name)
    ] == []


@pytest.mark.parametrize("marker", REQUIRED)
def test_each_required_id_has_a_test(marker):
    assert markers.missing(REQUIRED[marker], marker, read_all()[0]) == []


def test_ids_are_found_in_every_marker_position():
    source = """
pytestmark = [pytest.mark.anyio, pytest.mark.pain("P01")]

@pytest.mark.rule("RPC-01", "RPC-02")
async def test_a(): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.fault("F01"))])
def test_b(x): ...

@pytest.mark.attack("S01")
class TestC:
    @pytest.mark.system("L-A1")
    def test_d(self): ...
"""
    marked, misused = markers.read(source, "tests/test_x.py")
    assert misused == []
    assert set(marked) == {
        Marked("pain", "P01", "tests/test_x.py"),
        Marked("rule", "RPC-01", "tests/test_x.py::test_a"),
        Marked("rule", "RPC-02", "tests/test_x.py::test_a"),
        Marked("fault", "F01", "tests/test_x.py::test_b"),
        Marked("attack", "S01", "tests/test_x.py::TestC"),
        Marked("system", "L-A1", "tests/test_x.py::TestC.test_d"),
    }


@pytest.mark.parametrize(
    "source",
    [
        "mark = pytest.mark.rule",
        "@pytest.mark.rule\ndef test_a(): ...",
        "@pytest.mark.rule()\ndef test_a(): ...",
        "@pytest.mark.fault(id='F01')\ndef test_a(): ...",
        "@pytest.mark.fault(NAME)\ndef test_a(): ...",
        "@pytest.mark.fault(1)\ndef test_a(): ...",
    ],
)
def test_a_marker_without_a_literal_id_is_refused(source):
    marked, misused = markers.read(source, "tests/test_x.py")
    assert marked == []
    assert len(misused) == 1


@pytest.mark.parametrize(
    ("marker", "name", "right"),
    [
        ("fault", "F01", True),
        ("fault", "F51", False),
        ("fault", "F00", False),
        ("fault", "F1", False),
        ("fault", "P01", False),
        ("attack", "X13", True),
        ("attack", "X14", False),
        ("case", "F19", False),
        ("system", "L-A17", True),
        ("system", "L-A01", False),
        ("system", "L-A18", False),
    ],
)
def test_id_is_well_formed_if_its_list_has_it(marker, name, right):
    assert markers.is_well_formed(marker, name) is right


def test_required_id_without_a_test_is_reported():
    marked = [Marked("pain", "P01", "a"), Marked("fault", "P02", "b")]
    assert markers.missing(["P02", "P01"], "pain", marked) == ["P02"]
