"""The client's shells, for tests of what holds over each of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import shells


@pytest.fixture(params=list(shells.SHELLS))
def shell(request):
    """Give what makes clients of one shell."""
    made = shells.SHELLS[request.param]()
    yield made
    made.close()
