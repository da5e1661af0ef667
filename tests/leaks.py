"""Which tests are checked for leaks: all outside the pure folders.

The layer gate proves that nothing in `wire`, `types` and `protocol` can open anything.
The check itself is `mcpwire.testing.leaks`. It costs about 0.1 ms per test, so it
is on for all tests and no new folder can forget it.
"""

import functools
from pathlib import Path

from mcpwire.testing.leaks import ResourceSnapshot, watch_tasks
from mcpwire.testing.pytest_plugin import watch_item

__all__ = ["ResourceSnapshot", "acts_on", "watch_item", "watch_tasks"]

PURE_FOLDERS = frozenset({"wire", "types", "protocol"})


@functools.cache
def acts_on(path: Path, tests: Path) -> bool:
    """Return whether tests of that file are checked."""
    parts = path.relative_to(tests).parts if path.is_relative_to(tests) else ()
    return not parts or parts[0] not in PURE_FOLDERS
