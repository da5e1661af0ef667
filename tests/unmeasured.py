"""The environment for a child of which nobody wants to know which lines it ran.

Measuring costs a child a third of a second at its start and then about half of its
speed. Whatever the documents show and the soak repeats, other tests measure.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, Final

import mcpwire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    import pytest

FOLDERS: Final = (
    "adversity/http/sentences/",
    "adversity/oauth/",
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


def import_package() -> None:
    """Run each module of the package once where it is measured.

    Otherwise some would first be imported by a thread that nobody measures, and the
    lines that only run then would count as never run.
    """
    if current() is None:
        return
    for module in pkgutil.walk_packages(mcpwire.__path__, "mcpwire."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


QUIET: Final = frozenset(
    {
        "anyio_backend",
        "capsys",
        "leak_check",
        "measured_children",
        "monkeypatch",
        "request",
        "sentinel_watch",
        "tmp_path",
        "tmp_path_factory",
        "wire_check",
    }
)
"""Fixtures that run no line of the package but of those that `testing/` measures."""


def is_measured_alone(item: pytest.Item) -> bool:
    """Tell whether only the function of a test needs measuring, and no fixture.

    Pytest itself takes most of the time of a short test, and three times as long where
    coverage looks on. A fixture may start threads, which measure no more once they
    were paused: where there is one, all of the test is measured.
    """
    given = set(QUIET)
    for mark in item.iter_markers("parametrize"):
        if "indirect" not in mark.kwargs:
            names = mark.args[0]
            split = names.split(",") if isinstance(names, str) else names
            given.update(name.strip() for name in split)
    return given.issuperset(getattr(item, "fixturenames", ("unknown",)))


@contextlib.contextmanager
def pause() -> Iterator[None]:
    """Measure nothing meanwhile in this process, but modules as they are first run.

    No other test can measure the lines that only run as a module is imported.
    """
    measuring = current()
    if measuring is None:
        yield
        return
    execute = SourceFileLoader.exec_module

    def measured(loader: SourceFileLoader, module: ModuleType) -> None:
        if current() is not None or not module.__name__.startswith("mcpwire"):
            execute(loader, module)
            return
        measuring.start()
        try:
            execute(loader, module)
        finally:
            measuring.stop()

    measuring.stop()
    _paused.append(measuring)
    SourceFileLoader.exec_module = measured  # type: ignore[method-assign] # put back
    try:
        yield
    finally:
        SourceFileLoader.exec_module = execute  # type: ignore[method-assign] # as above
        _paused.pop()
        measuring.start()


_paused: Final[list[Any]] = []


@contextlib.contextmanager
def go_on() -> Iterator[None]:
    """Measure meanwhile what was paused around."""
    if not _paused:
        yield
        return
    measuring = _paused.pop()
    measuring.start()
    try:
        yield
    finally:
        measuring.stop()
        _paused.append(measuring)


@contextlib.contextmanager
def pause_with_children() -> Iterator[None]:
    """Measure nothing meanwhile, neither here nor in the processes that are started."""
    found = {k: v for k, v in os.environ.items() if k.startswith("COVERAGE_")}
    for name in found:
        del os.environ[name]
    try:
        with pause():
            yield
    finally:
        os.environ.update(found)


def is_measured_elsewhere(path: Path) -> bool:
    """Tell whether the lines that a test runs are measured by others."""
    return path.as_posix().startswith(FOLDERS)


def around(item: pytest.Item, path: Path) -> contextlib.AbstractContextManager[None]:
    """Return what a test, at that path below the tests, is to be run in."""
    if is_measured_elsewhere(path):
        return pause_with_children()
    return pause() if is_measured_alone(item) else contextlib.nullcontext()
