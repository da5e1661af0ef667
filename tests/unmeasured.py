"""The environment for a child of which nobody wants to know which lines it ran.

Measuring costs a child a third of a second at its start and then about half of its
speed. Whatever the documents show and the soak repeats, other tests measure.
"""

from __future__ import annotations

import contextlib
import os
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

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


def current() -> Any:
    """Return what measures this process, if anything does."""
    with contextlib.suppress(ImportError):
        from coverage import Coverage

        return Coverage.current()
    return None


@contextlib.contextmanager
def pause_in(test: Path) -> Iterator[None]:
    """Measure nothing meanwhile, where that is a test of lines measured elsewhere.

    Neither here nor in the processes that the test starts.
    """
    measuring = current() if test.as_posix().startswith(FOLDERS) else None
    if measuring is None:
        yield
        return
    found = {k: v for k, v in os.environ.items() if k.startswith("COVERAGE_")}
    for name in found:
        del os.environ[name]
    measuring.stop()
    try:
        yield
    finally:
        measuring.start()
        os.environ.update(found)


@contextlib.contextmanager
def imports_alone() -> Iterator[None]:
    """Measure nothing meanwhile but the package's modules as they are first run.

    While tests are collected nearly all the time goes into pytest and into its
    rewriting of their assertions, which takes twice as long where coverage looks on.
    """
    measuring = current()
    if measuring is None:
        yield
        return
    execute = SourceFileLoader.exec_module
    depth = 0

    def measured(loader: SourceFileLoader, module: ModuleType) -> None:
        nonlocal depth
        if not module.__name__.startswith("mcpwire"):
            execute(loader, module)
            return
        depth += 1
        if depth == 1:
            measuring.start()
        try:
            execute(loader, module)
        finally:
            depth -= 1
            if depth == 0:
                measuring.stop()

    measuring.stop()
    SourceFileLoader.exec_module = measured  # type: ignore[method-assign] # put back
    try:
        yield
    finally:
        SourceFileLoader.exec_module = execute  # type: ignore[method-assign] # as above
        measuring.start()
