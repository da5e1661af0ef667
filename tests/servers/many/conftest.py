"""Real servers side by side, one of them over HTTP."""

import contextlib

import pytest
from serving import EVERYTHING, serving


@pytest.fixture
def web(real):
    """Serve the everything server over HTTP; the `Served` can be restarted."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(serving(EVERYTHING, EVERYTHING.real(real)))
