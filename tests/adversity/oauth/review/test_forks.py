"""A forked process does not disturb the parent's token store."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

import mcpwire
import mcpwire.sync

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def fork_and_wait(work):
    """Run a function in a forked child; return its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the process has threads
        child = os.fork()
    if not child:
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.fault("F40")
def test_memory_store_is_usable_in_a_child_forked_under_its_lock():
    storage = mcpwire.MemoryStorage()
    storage.save("key", b"value", 0)

    def use():
        signal.alarm(5)  # otherwise it would wait for a thread that does not exist
        return 0 if storage.load("key") == (b"value", 1) else 2

    with storage._mutex:
        assert fork_and_wait(use) == 0
    assert storage.load("key") == (b"value", 1)
