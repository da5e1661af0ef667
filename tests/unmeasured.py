"""The environment for a child of which nobody wants to know which lines it ran.

Measuring costs a child a third of a second at its start and then about half of its
speed. Whatever the documents show and the soak repeats, other tests measure.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDERS: Final = (
    "adversity/http/sentences/",
    "adversity/ownership/",
    "adversity/traffic/",
    "matrix/",
    "servers/",
)
"""Tests of lines that others measure: against real servers, over each transport."""


def unmeasured(**variables: str) -> dict[str, str]:
    """Return this process's environment without coverage's part, with `variables`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    return {**kept, **variables}


@contextlib.contextmanager
def pause_in(test: Path) -> Iterator[None]:
    """Measure nothing meanwhile, where that is a test of lines measured elsewhere."""
    measuring = None
    if test.as_posix().startswith(FOLDERS):
        with contextlib.suppress(ImportError):
            from coverage import Coverage

            measuring = Coverage.current()
    if measuring is None:
        yield
        return
    measuring.stop()
    try:
        yield
    finally:
        measuring.start()
