"""The figures of the tree are right, and their ceilings only fall."""

import house
import pytest
from sources import Module

SAMPLE = '''"""A text for
whoever reads it."""

import os  # who needs it

LINES = [
    os.sep,
]


def f():
    """Say."""
    return """not
    a docstring"""
'''


def module(source, name="mcpwire.wire.a"):
    return Module.parse(name, source)


def test_figures_of_a_module():
    assert house.figures([module(SAMPLE)]) == {
        "lines": 14,
        "code lines": 7,
        "modules": 1,
        "fragments": 1,
        "relative clauses": 2,
        "folders": 1,
    }


@pytest.mark.parametrize(("lines", "fragments"), [(59, 1), (60, 0)])
def test_small_module_is_a_fragment(lines, fragments):
    sample = module("x = 1\n" * lines)
    assert house.figures([sample])["fragments"] == fragments


def test_package_init_is_not_a_fragment():
    package = Module.parse("mcpwire.wire", "", is_package=True)
    assert house.figures([package])["fragments"] == 0


CEILINGS = {"whole": {"lines": 1_000}, "error texts": {"mcpwire/a.py": 2}}


@pytest.mark.parametrize(
    ("table", "over"),
    [
        ({"whole": {"lines": 1_000}}, []),
        (
            {"whole": {"lines": 1_001}},
            ["[whole] lines: 1001 is over the ceiling of 1000"],
        ),
        (
            {"error texts": {"mcpwire/a.py": 2, "mcpwire/b.py": 1}},
            ["[error texts] mcpwire/b.py: 1 is over the ceiling of 0"],
        ),
    ],
)
def test_figure_above_its_ceiling_is_named(table, over):
    assert house.above(table, CEILINGS) == over


@pytest.mark.parametrize(
    ("table", "too_high"),
    [
        ({"whole": {"lines": 1_000}, "error texts": {"mcpwire/a.py": 2}}, []),
        ({"whole": {"lines": 0}, "error texts": {"mcpwire/a.py": 2}}, []),
        (
            {"whole": {"lines": 1_000}, "error texts": {}},
            ["[error texts] mcpwire/a.py: lower 2 to 0"],
        ),
    ],
)
def test_ceiling_far_above_its_figure_is_named(table, too_high):
    assert house.below(table, CEILINGS) == too_high


def test_line_ceiling_may_exceed_the_figure_by_twice_its_room():
    ceilings = {"whole": {"lines": 2_000, "modules": 10}}
    assert house.below({"whole": {"lines": 1_000, "modules": 10}}, ceilings) == []
    assert house.below({"whole": {"lines": 999, "modules": 9}}, ceilings) == [
        "[whole] lines: lower 2000 to 1499",
        "[whole] modules: lower 10 to 9",
    ]


def test_ceilings_are_lowered_and_never_raised():
    table = {"whole": {"lines": 900}, "error texts": {"mcpwire/b.py": 1}}
    assert house.lowered(table, CEILINGS) == {
        "whole": {"lines": 1_000},
        "error texts": {},
    }


def test_rendered_ceilings_are_read_back():
    assert house.tomllib.loads(house.render(CEILINGS)) == CEILINGS


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ({"whole": {"lines": 1_000}, "error texts": {"mcpwire/a.py": 2}}, 0),
        ({"whole": {"lines": 1_001}, "error texts": {"mcpwire/a.py": 2}}, 1),
        ({"whole": {"lines": 900}, "error texts": {"mcpwire/a.py": 1}}, 1),
    ],
)
def test_exit_code_tells_whether_the_ceilings_hold(monkeypatch, capsys, table, code):
    monkeypatch.setattr(house, "measured", lambda: table)
    monkeypatch.setattr(house, "load", lambda: CEILINGS)
    assert house.main([]) == code
    assert capsys.readouterr().out


def test_writing_lowers_the_file(monkeypatch, tmp_path):
    path = tmp_path / "house.toml"
    path.write_text(house.render(CEILINGS))
    monkeypatch.setattr(house, "CEILINGS", path)
    monkeypatch.setattr(house, "measured", lambda: {"whole": {"lines": 400}})
    assert house.main(["--write"]) == 0
    assert house.load() == {"whole": {"lines": 900}, "error texts": {}}
