"""A server of both eras."""

import pytest


@pytest.fixture(params=["session", "stateless"])
def mode(request):
    """Return each era; a test of one era parametrizes it again."""
    return request.param


@pytest.fixture
def sdk(warm, connect, mode):
    """Return a function that connects to a server on the Python SDK in that era."""
    return lambda **options: connect(warm("sdk_interactive"), mode=mode, **options)
