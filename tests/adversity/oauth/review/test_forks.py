"""A process that is forked off takes nothing of the parent's logged-in connections."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

import mcpwire
import mcpwire.sync

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
