"""One process of each real server for all tests of a module."""

from contextlib import ExitStack

import pytest
from real_servers import installed
from serving import SERVED, Place, name_of, serving


@pytest.fixture(scope="module")
def find(fork_servers, tmp_path_factory):
    """Return a function that returns the server of a kind; see `real` and `warm`."""
    folder = tmp_path_factory.getbasetemp()
    return lambda kind: fork_servers.warm(
        kind.real(lambda name: installed(name, folder))
    )


@pytest.fixture(scope="module")
def running():
    """Keep running servers, by name, until the tests of the module are over."""
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture(scope="module", params=SERVED, ids=name_of)
def place(request, find, running):
    """Return the URL of each kind of server, and the era to use."""
    kind, mode = request.param
    stack, servers = running
    if kind.name not in servers:
        servers[kind.name] = stack.enter_context(serving(kind, find(kind)))
    return Place(kind, mode, servers[kind.name].url)


@pytest.fixture
def own(find):
    """Return a function that serves a kind for a single test."""
    with ExitStack() as stack:
        yield lambda kind: stack.enter_context(serving(kind, find(kind)))
