"""Chooses which tests and child processes run without coverage.

Coverage costs a child a third of a second at its start and then about half of its
speed. Other tests measure the lines that the documents and the soak run.
"""

import contextlib
import functools
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from grounds import Seen, draw, row_of
from sources import PATCHING

import mcpwire

FOLDERS: Final = (
    *(
        "adversity/http/test_get_stream_during_calls.py",
        "adversity/http/test_subscribing.py",
        "adversity/http/test_unusable_answers.py",
    ),
    *("adversity/http/test_traced_headers.py", "adversity/http/test_two_engines.py"),
    *("adversity/oauth/", "adversity/ownership/", "adversity/server/"),
    *("adversity/traffic/", "bench/test_processes_of_a_server.py"),
    *("bench/test_result_schema.py", "benchmarks/", "budgets/"),
    *("check/test_foreign.py", "cli/test_processes.py"),
    *(
        *("cli/test_forms_at_a_terminal.py", "conformance/", "docs/"),
        "gateway/test_scale.py",
    ),
    *("group/test_scale.py", "loops/", "matrix/", "oauth/test_engine_interrupted.py"),
    *("oauth/test_promises.py", "oauth/test_storage_processes.py", "record/"),
    *("scoreboard/", "servers/", "soak/", "test_gates.py", "test_manifest.py"),
    *("test_markers.py", "test_tree.py"),
)
"""Tests of lines that other tests measure, or of no line of the package: over each
transport, in many processes, of the tree itself.
"""

CELLS: Final = (
    *("adversity/", "client/", "oauth/", "over_http/", "sync/", "testing/"),
    "transports/",
)
"""Folders with many tests that run on several grounds and are measured on one."""

WHOLE: Final = ("over_http/test_h1",)
"""Tests of a pure module in those folders: all rows are measured."""

GROUNDS: Final = frozenset({"doors", "engine", "era", "kind", "server", "shell"})
"""The parameters that name the ground of a test, not its case."""

_is_another_cell: Final = pytest.StashKey[bool]()


ROWS: Final = 2
"""How many rows of a test's table are measured, each on one ground.

The rows of one test differ in their input, and run nearly the same lines; each branch
of a pure layer has its own test there, which is always measured.
"""


def choose(items: list[pytest.Item], tests: Path) -> None:
    """Choose the few cells of each table that are measured, drawn by their names.

    A test on two shells, two engines and two eras runs eight times, with nearly the
    same lines each time; lines of one ground are covered by tests that were drawn for
    it. With coverage, a test takes three times as long.
    """
    tables: dict[str, dict[str, list[pytest.Item]]] = {}
    seen: Seen = {}
    found: set[str] = set()
    for item in items:
        if case := case_of(item):
            item.stash[_is_another_cell] = case in found
            found.add(case)
        place = below(item.path, tests)
        if place.startswith(CELLS) and not place.startswith(WHOLE):
            test = item.nodeid.partition("[")[0]
            rows = tables.setdefault(test, {})
            rows.setdefault(row_of(item, test, GROUNDS, seen), []).append(item)
    for test, rows in tables.items():
        drawn = {f"{test} {row}": cells for row, cells in rows.items()}
        chosen = sorted(drawn, key=draw)[:ROWS]
        for name, cells in drawn.items():
            one = cells[draw(name) % len(cells)] if name in chosen else None
            for item in cells:
                item.stash[_is_another_cell] = item is not one


def case_of(item: pytest.Item) -> str:
    """Return the case of `mcpwire check` that must detect the fault of this test.

    The faults of one case differ in what the server does; the checker runs nearly the
    same lines. The first fault of each case is measured.
    """
    callspec = getattr(item, "callspec", None)
    fault = None if callspec is None else callspec.params.get("mutant")
    return "" if fault is None else fault.cases[0]


@functools.cache
def below(path: Path, tests: Path) -> str:
    """Return the path of a test's file, relative to the tests."""
    return path.relative_to(tests).as_posix() if path.is_relative_to(tests) else ""


def unmeasured(**variables: str) -> dict[str, str]:
    """Return this process's environment without coverage, with `variables`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    return {**kept, **variables}


def current() -> Any:
    """Return the active coverage of this process, if any."""
    with contextlib.suppress(ImportError):
        from coverage import Coverage

        return Coverage.current()
    return None


def import_package() -> None:
    """Import each module of the package once with coverage on.

    Otherwise an unmeasured thread might import some first, and the lines that run only
    on import would count as never run. One of several workers measures this for all:
    it takes ten times as long.
    """
    measuring = current()
    if measuring is None:
        return
    is_measured_there = os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0"
    if is_measured_there:
        measuring.stop()
    for module in pkgutil.walk_packages(mcpwire.__path__, "mcpwire."):
        if not module.name.endswith("__main__") and module.name not in PATCHING:
            importlib.import_module(module.name)
    if is_measured_there:
        measuring.start()


QUIET: Final = frozenset(
    {
        *("anyio_backend", "capfd", "caplog", "capsys", "children_are_measured_once"),
        *("cli", "every_line_is_logged", "leak_check", "measured_children"),
        *("monkeypatch", "mutated", "no_proxies", "posted_messages_are_checked"),
        *("pytestconfig", "request", "sentinel_watch", "servers_are_unmeasured"),
        *("spec_dir", "state_folder", "tmp_path", "tmp_path_factory", "wire_check"),
    }
)
"""Fixtures that run only lines of the package that `testing/` measures."""


def is_measured_alone(item: pytest.Item) -> bool:
    """Return whether only the function of a test needs coverage, and no fixture.

    Pytest itself takes most of the time of a short test, and three times as long with
    coverage. A fixture may start threads, which cannot resume coverage once it was
    paused: with such a fixture, all of the test is measured.
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
    """Pause coverage in this process, except for the first import of modules.

    No other test can measure the lines that only run when a module is imported.
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
def go_on(function: Any = None) -> Iterator[None]:
    """Resume the paused coverage; of a property test only for its first examples."""
    if not _paused:
        yield
        return
    measuring = _paused.pop()
    _left.append(EXAMPLES)
    measuring.start()
    try:
        with _counted(getattr(function, "hypothesis", None)):
            yield
    finally:
        measuring.stop()  # has no effect a second time
        _left.pop()
        _paused.append(measuring)


EXAMPLES: Final = 10
"""How many examples of a property are measured.

Coverage makes a pure function four times slower, and hundreds of examples of one
property run few lines that its first ones do not; those have their own tests.
"""

_left: Final[list[int]] = []


def example() -> None:
    """Count an example of a property test; stop coverage after the first ones.

    No effect if the test is measured with its fixtures.
    """
    if not _left:
        return
    _left[-1] -= 1
    if _left[-1] == -1 and (measuring := current()) is not None:
        measuring.stop()


@contextlib.contextmanager
def _counted(property: Any) -> Iterator[None]:
    """Count the examples if the test is a property test and no coroutine."""
    inner = getattr(property, "inner_test", None)
    if inner is None or inspect.iscoroutinefunction(inner):
        yield
        return

    @functools.wraps(inner)
    def counted(*args: Any, **options: Any) -> Any:
        example()
        return inner(*args, **options)

    property.inner_test = counted
    try:
        yield
    finally:
        property.inner_test = inner


@contextlib.contextmanager
def pause_with_children() -> Iterator[None]:
    """Pause coverage, here and in child processes."""
    found = {k: v for k, v in os.environ.items() if k.startswith("COVERAGE_")}
    for name in found:
        del os.environ[name]
    try:
        with pause():
            yield
    finally:
        os.environ.update(found)


def run(function: Callable[..., None], *args: Any) -> None:
    """Run the function of a test server's thread without coverage.

    Traced code runs at a third of its speed, and tests wait for each response.
    """
    sys.settrace(None)
    function(*args)


def is_measured_elsewhere(item: pytest.Item, tests: Path) -> bool:
    """Return whether other tests measure the lines of a test."""
    is_another_cell = item.stash.get(_is_another_cell, False)
    return is_another_cell or below(item.path, tests).startswith(FOLDERS)


def around(item: pytest.Item, tests: Path) -> contextlib.AbstractContextManager[None]:
    """Return the context manager that a test runs in."""
    if is_measured_elsewhere(item, tests):
        return pause_with_children()
    return pause() if is_measured_alone(item) else contextlib.nullcontext()
