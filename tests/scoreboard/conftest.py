"""Makes the scoreboard's modules importable, as in `make scoreboard`."""

import importlib
from pathlib import Path

import pytest
from warmed import warm_commands

ROOT = Path(__file__).parents[2]


@pytest.fixture
def board(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "conformance"))
    monkeypatch.chdir(ROOT)
    return lambda name: importlib.import_module(f"scoreboard.{name}")


@pytest.fixture
def warm(tmp_path_factory):
    """Return a function that turns a Python server's command into a pre-started one."""
    with warm_commands(tmp_path_factory) as find:
        yield find
