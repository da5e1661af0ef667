"""A process that is forked off takes nothing of the parent's logged-in connections."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import pytest
from authorization_server import oauth, protected_server

import mcpwire
import mcpwire.sync

BOUND_S = 30.0

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def fork_and_wait(work):
    """Do something in a child; return how it ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are threads
        child = os.fork()
    if not child:
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.fault("F40")
def test_a_store_in_memory_is_of_use_in_a_child_whoever_used_it_during_the_fork():
    storage = mcpwire.MemoryStorage()
    storage.save("key", b"value", 0)

    def use():
        signal.alarm(5)  # else it would wait for a thread that is not there
        return 0 if storage.load("key") == (b"value", 1) else 2

    with storage._mutex:
        assert fork_and_wait(use) == 0
    assert storage.load("key") == (b"value", 1)


@pytest.mark.parametrize("engine", ["direct", "httpx"])
def test_a_fork_ends_no_call_of_the_parents(auth, engine):
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth(), engine=engine)
        with mcpwire.sync.Client(target) as client:
            call = client.start_call("slow")
            server.wait_until(lambda: "tools/call" in server.verbs())

            def use():
                try:
                    client.call_tool("echo", {"text": "child"})
                except mcpwire.LocalProtocolError:
                    return 0
                return 2

            assert fork_and_wait(use) == 0
            threading.Timer(0.1, server.release).start()
            assert call.result(BOUND_S).text == "slow"
            assert client.call_tool("echo", {"text": "parent"}).text == "parent"
