"""Uses of internals by tests are found in their source."""

import internals
import pytest
from sources import Module

PACKAGE = [
    Module.parse("mcpwire", "", path="mcpwire/__init__.py", is_package=True),
    Module.parse("mcpwire.testing", "", is_package=True),
    Module.parse("mcpwire.client.calls", "class Calls:\n    __slots__ = ('_slot',)\n"),
    Module.parse(
        "mcpwire.group.group",
        "def _read(): ...\nclass Source:\n    def go(self):\n        self._at = 1\n",
    ),
]


def looks(source):
    test = Module.parse("tests.client.test_x", source)
    private, imported = internals.looks(PACKAGE, [test])
    return [(each.what, each.module) for each in (*private, *imported)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("client._slot", [("_slot", "mcpwire.client.calls")]),
        ("client._at = 1", [("_at", "mcpwire.group.group")]),
        (
            "from mcpwire.group.group import _read",
            [("_read", "mcpwire.group.group"), ("import", "mcpwire.group.group")],
        ),
        ("patch.setattr(source, '_read', f)", [("_read", "mcpwire.group.group")]),
        (
            "from mcpwire.client.calls import Calls",
            [("import", "mcpwire.client.calls")],
        ),
        ("import mcpwire.group.group", [("import", "mcpwire.group.group")]),
    ],
)
def test_use_of_internals_is_found(source, found):
    assert looks(source) == found


@pytest.mark.parametrize(
    "source",
    [
        *("import mcpwire", "from mcpwire import Client"),
        *("from mcpwire.testing import leak_check", "client.__dict__"),
        "client._somebody_elses",
        "class Fake:\n    def go(self):\n        self._at = 1",
    ],
)
def test_public_or_own_attribute_is_not_a_use_of_internals(source):
    assert looks(source) == []


def test_each_place_is_counted_once_by_folder():
    look = internals.Look("tests/client/test_x.py", 3, "mcpwire.a", "_at")
    same = look._replace(module="mcpwire.b")
    top = look._replace(path="tests/test_y.py")
    assert internals.by_folder([look, same, top]) == {"client": 1, "test_y": 1}


def test_command_prints_the_places_of_one_package(capsys, monkeypatch):
    test = Module.parse("tests.client.test_x", "\nclient._slot\nsource._at")
    answers = {"mcpwire": PACKAGE, "tests": [test]}
    monkeypatch.setattr(internals, "read", lambda _, folder: answers[folder])
    internals.main(["mcpwire.client"])
    assert capsys.readouterr().out.splitlines() == [
        "tests/client/test_x.py:2: _slot of mcpwire.client.calls",
        "1 places in 1 files",
    ]
    internals.main([])
    assert capsys.readouterr().out.split() == ["2", "client"]
