"""Makes the scoreboard's modules importable, as `make scoreboard` has them."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def board(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "conformance"))
    monkeypatch.chdir(ROOT)
    return lambda name: importlib.import_module(f"scoreboard.{name}")
