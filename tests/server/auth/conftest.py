"""An authorization server for the tests of protected servers."""

import pytest
from authorization_server import authorization_server


@pytest.fixture
def auth():
    with authorization_server(dpop=True) as server:
        yield server
