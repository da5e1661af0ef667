"""A server of both eras; the shared modules of this folder are imported by name."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["session", "stateless"])
def mode(request):
    """Return each era; a test of one era parametrizes it again."""
    return request.param


@pytest.fixture
def sdk(warm, connect, mode):
    """Return a function that connects to a server on the Python SDK in that era."""
    return lambda **options: connect(warm("sdk_interactive"), mode=mode, **options)
