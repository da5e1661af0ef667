"""What a message of 8 MiB takes of memory on each path, in sizes of its text.

Whoever gets one holds what came, the copy that orjson works on, and the value; whoever
sends one holds its text beside the value. Each further copy would be one more, of what
is held at once or, where it is gone by then, of what is touched in all.
"""

import sys

import pytest
from paths import memory_taken

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells the most memory of a moment"
)

GETS = {
    "stdio": 3,
    "blocking stdio": 3,
    "http json": 3,
    "http sse": 3,
    "blocking http json": 3,
    "blocking http sse": 3,
    "server stdio": 3,
    "server http": 2,  # the web server holds what came
    "memory": 4,  # what the server sends is held as well
}
SENDS = {
    "stdio": 1,
    "blocking stdio": 1,
    "http json": 1,
    "blocking http json": 1,
    "server stdio": 1,
    "server http": 1,
}
"""Ceilings that only go down; an event stream sends what JSON sends."""

TOUCHED = {"http sse": 4, "blocking http sse": 4}
"""Where more is touched than held: an event's data is cut out of its line."""

ALLOWANCE = 0.2
"""For what grows in steps, and for what the interpreter takes by the way."""


def hold(path, way, ceiling):
    held, touched = memory_taken(path, way)
    assert held <= ceiling + ALLOWANCE, "there is a copy too many"
    assert held >= ceiling - 1 + ALLOWANCE, "lower the ceiling"
    # Only from above: where the kernel gives huge pages of its own accord it gives few.
    most = max(ceiling, TOUCHED.get(path, 0) if way == "gets" else 0)
    assert touched <= most + ALLOWANCE, "there is a copy too many, gone by the height"


@pytest.mark.parametrize("path", GETS)
def test_a_large_message_that_comes_is_copied_no_more_than_that(path):
    hold(path, "gets", GETS[path])


@pytest.mark.parametrize("path", SENDS)
def test_a_large_message_that_leaves_is_copied_no_more_than_that(path):
    hold(path, "sends", SENDS[path])
