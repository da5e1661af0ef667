"""Makes the driver's modules importable, as in `conformance/run.py`."""

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "conformance"


@pytest.fixture
def driver(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return lambda name: importlib.import_module(f"driver.{name}")
