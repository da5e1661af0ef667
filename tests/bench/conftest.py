"""Helpers of these tests are modules of this folder."""

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
"""Modules with children that run lines which no other module runs."""


@pytest.fixture(autouse=True)
def children_are_measured_once(request, monkeypatch):
    """Measure of the other modules this process alone: their workers run the same."""
    if request.path.name not in MEASURED:
        for name in os.environ:
            if name.startswith("COVERAGE_"):
                monkeypatch.delenv(name)
