"""The environment for a child of which nobody wants to know which lines it ran.

Measuring costs a child a third of a second at its start and then about half of its
speed. Whatever the documents show and the soak repeats, other tests measure.
"""

from __future__ import annotations

import os


def unmeasured(**variables: str) -> dict[str, str]:
    """Return this process's environment without coverage's part, with `variables`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    return {**kept, **variables}
