"""Markers name what exists, and what an issue had to show stays shown."""

import markers
import pytest
from markers import Marked, read_all

SHOWN: dict[int, dict[str, list[str]]] = {
    2: {
        "pain": ["P01", "P02", "P13", "P14", "P16", "P17", "P18"],
        "fault": ["F04", "F11", "F13"],
    },
    # P05 is a session that HTTP forgot with a 404: there is none on stdio.
    3: {
        "pain": [f"P{number:02}" for number in range(1, 19) if number != 5],
        "fault": [f"F{number:02}" for number in (*range(1, 19), *range(41, 48), 49)],
    },
    4: {
        "pain": ["P02", "P05", "P13", *(f"P{number:02}" for number in range(19, 31))],
        "fault": [f"F{number:02}" for number in (*range(19, 38), 48, 50)],
        "attack": [f"S{number:02}" for number in (2, 10, 15, 19, 27, 28, 30, 31, 33)],
    },
    5: {
        "attack": [
            f"S{number:02}" for number in (*range(1, 8), *range(22, 25), 29, 30)
        ],
        "pain": [f"P{number:02}" for number in range(31, 38)],
        "fault": [f"F{number:02}" for number in range(38, 41)],
    },
    6: {
        "case": [
            *("A02", "A07", "C01", "C05", "C07", "C09", "G01"),
            *(f"B{number:02}" for number in range(1, 9)),
            *(f"D{number:02}" for number in range(1, 20)),
            *(f"F{number:02}" for number in (*range(1, 11), *range(14, 19))),
        ],
        "attack": [
            f"S{number:02}"
            for number in (*range(8, 15), *range(17, 20), 25, 31, 32, 33)
        ],
    },
}
"""Issue -> marker -> the ids it had to show; an issue that closes adds its line.

Those of issue 8 are all of one marker: `systems/test_the_table.py` has them.
"""


def test_each_marker_carries_literal_ids():
    assert [f"{where}: {what}" for where, what in read_all()[1]] == []


def test_each_id_is_one_of_its_list():
    assert [
        f"{test}: {marker}({name!r})"
        for marker, name, test in read_all()[0]
        if marker != "rule" and not markers.is_well_formed(marker, name)
    ] == []


@pytest.mark.parametrize(
    ("issue", "marker"),
    [(issue, marker) for issue, shown in SHOWN.items() for marker in shown],
)
def test_what_an_issue_had_to_show_has_a_test(issue, marker):
    marked, _ = read_all()
    assert markers.missing(SHOWN[issue][marker], marker, marked) == []


def test_an_id_is_found_wherever_a_marker_may_stand():
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
        ("fault", "F50", True),
        ("fault", "F51", False),
        ("fault", "F00", False),
        ("fault", "F1", False),
        ("fault", "F001", False),
        ("fault", "P01", False),
        ("fault", "f01", False),
        ("fault", " F01", False),
        ("attack", "S33", True),
        ("attack", "X13", True),
        ("attack", "X14", False),
        ("pain", "P40", True),
        ("case", "F18", True),
        ("case", "F19", False),
        ("system", "A20", True),
        ("system", "L-A17", True),
        ("system", "L-A01", False),
        ("system", "L-A18", False),
    ],
)
def test_an_id_is_well_formed_when_its_list_has_it(marker, name, right):
    assert markers.is_well_formed(marker, name) is right


def test_a_required_id_without_a_test_is_missed():
    marked = [Marked("pain", "P01", "a"), Marked("fault", "P02", "b")]
    assert markers.missing(["P02", "P01"], "pain", marked) == ["P02"]
