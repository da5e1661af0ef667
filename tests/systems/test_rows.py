"""Each row of the five systems has a change that breaks it, or is listed as open.

`make rows` applies the changes and runs the tests; here only their form is tested.
"""

import re
import signal
import sys

import pytest
from child_python import finished
from rows import OPEN, ROOT, Change, changes, main, table, unproven

CHANGES = changes()
ATTRIBUTE = re.compile(r"\.(\w+)")


def test_each_change_belongs_to_a_row_and_can_be_applied():
    assert set(CHANGES) <= set(table())
    assert [each.problem() for each in CHANGES.values() if each.problem()] == []


def test_each_change_has_valid_syntax_and_known_names(tmp_path):
    for row, each in CHANGES.items():
        if each.file.endswith(".py"):
            source = (ROOT / each.file).read_text(encoding="utf-8")
            changed = source.replace(each.text, each.change)
            (tmp_path / f"{row}.py").write_text(changed, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821"]
    found = finished(*command, "--output-format", "concise", str(tmp_path))
    assert found.returncode == 0, found.stdout
    package = "".join(
        path.read_text(encoding="utf-8") for path in ROOT.glob("mcpwire/**/*.py")
    )
    known = {
        *dir(str),
        *dir(dict),
        *dir(list),
        *dir(signal),
        *re.findall(r"\w+", package),
    }
    unknown = {
        row: {*ATTRIBUTE.findall(c.change)} - known for row, c in CHANGES.items()
    }
    assert {row: names for row, names in unknown.items() if names} == {}


def test_rows_without_a_change_are_listed():
    assert unproven() == OPEN.read_text(encoding="utf-8").split()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("mcpwire/none.py", "a", "b"), "there is no"),
        (("mcpwire/versions.py", "no such text", "b"), "occurs 0 times"),
        (("mcpwire/versions.py", "import", "b"), "times in"),
        (("mcpwire/versions.py", "class Era", "class Era"), "it changes nothing"),
    ],
)
def test_change_that_cannot_be_applied_is_reported(change, problem):
    assert problem in Change("A01", *change).problem()


def test_unknown_row_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main(["Z99"])
    assert "no such row: Z99" in capsys.readouterr().err
