"""The memory that an 8 MiB message takes on each path, in sizes of its text.

A receiver holds the input, the copy that orjson works on, and the value; a sender holds
its text beside the value. Each further copy would add one, to the memory held at the
peak or, if it is freed before, to the memory touched.
"""

import sys

import pytest
from paths import memory_taken

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the peak of memory is read on Linux only"
)

GETS = {
    "stdio": 3,
    "blocking stdio": 3,
    "http json": 3,
    "http sse": 3,
    "blocking http json": 3,
    "blocking http sse": 3,
    "server stdio": 3,
    "server http": 2,  # the web server holds the input
    "memory": 4,  # the server's output is held as well
}
SENDS = {
    "stdio": 1,
    "blocking stdio": 1,
    "http json": 1,
    "blocking http json": 1,
    "server stdio": 1,
    "server http": 1,
}
"""Ceilings that only go down; an event stream sends the same as JSON."""

TOUCHED = {"http sse": 4, "blocking http sse": 4}
"""Paths that touch more than they hold: the data of an event is cut from its line."""

ALLOWANCE = 0.2
"""For memory that grows in steps, and for other memory of the interpreter."""


def check_memory(path, way, ceiling):
    held, touched = memory_taken(path, way)
    assert held <= ceiling + ALLOWANCE, "there is a copy too many"
    assert held >= ceiling - 1 + ALLOWANCE, "lower the ceiling"
    # An upper bound only: with transparent huge pages there are few page faults.
    limit = max(ceiling, TOUCHED.get(path, 0) if way == "gets" else 0)
    assert touched <= limit + ALLOWANCE, (
        "there is a copy too many, freed before the peak"
    )


@pytest.mark.parametrize("path", GETS)
def test_received_large_message_is_not_copied_more_often(path):
    check_memory(path, "gets", GETS[path])


@pytest.mark.parametrize("path", SENDS)
def test_sent_large_message_is_not_copied_more_often(path):
    check_memory(path, "sends", SENDS[path])
