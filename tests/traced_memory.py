"""Measures the memory that Python objects take."""

import contextlib
import tracemalloc
from collections.abc import Iterator


class TracedMemory:
    """The bytes allocated in a block: those held at its end, and the most at once."""

    held = peak = 0


@contextlib.contextmanager
def traced_memory() -> Iterator[TracedMemory]:
    memory = TracedMemory()
    tracemalloc.start()
    try:
        yield memory
        memory.held, memory.peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
