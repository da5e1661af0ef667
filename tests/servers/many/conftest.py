"""Real servers side by side, one of them over HTTP."""

import contextlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "features"))
sys.path.insert(0, str(Path(__file__).parents[1] / "http"))
sys.path.insert(0, str(Path(__file__).parent))

from serving import EVERYTHING, serving


@pytest.fixture
def web(real):
    """Serve the everything server over HTTP; the `Served` can be restarted."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(serving(EVERYTHING, EVERYTHING.real(real)))
