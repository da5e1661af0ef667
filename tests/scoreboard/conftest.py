"""Makes the scoreboard's modules importable, as `make scoreboard` has them."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "servers" / "warm"))

from warmed import warm_commands

ROOT = Path(__file__).parents[2]


@pytest.fixture
def board(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "conformance"))
    monkeypatch.chdir(ROOT)
    return lambda name: importlib.import_module(f"scoreboard.{name}")


@pytest.fixture
def warm(tmp_path_factory):
    """Return what makes the command of a server start at once, if it is of Python."""
    with warm_commands(tmp_path_factory) as find:
        yield find
