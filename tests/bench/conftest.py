"""Configuration of these tests: this folder holds their helper modules."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

MEASURED = {
    "test_client_code.py",
    "test_gateway_run.py",
    "test_locust.py",
    "test_runs.py",
    "test_worker_ends.py",
}
"""Modules whose children run lines that no other module covers."""


@pytest.fixture(autouse=True)
def children_are_measured_once(request, monkeypatch):
    """For the other modules, measure coverage in this process only."""
    if request.path.name not in MEASURED:
        for name in os.environ:
            if name.startswith("COVERAGE_"):
                monkeypatch.delenv(name)
