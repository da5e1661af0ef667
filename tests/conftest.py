"""Fixtures for every test: the specification's files, the loop, leaks, the wire."""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent

LEAK_GRACE_S = 15.0
"""How long what is ending anyway may take, on a machine that is busy with others."""

FIRST = (
    "check/test_command.py",
    "check/test_foreign.py",
    "check/test_own.py",
    "scoreboard/test_run.py",
)
"""Modules with tests of 15 to 40 seconds. Begun at the end, one would run alone."""

# Test folders are not packages, so shared helpers are top-level modules.
sys.path.insert(0, str(TESTS))

# Several times per request httpcore imports it, and does without. What is not installed
# is looked for in each folder of the path each time, unless it is known to be missing.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment] # that is how it is said

import bounds  # noqa: E402 - found through the line above
import command_line  # noqa: E402 - as above
import grounds  # noqa: E402 - as above
import leaks  # noqa: E402 - as above
import run_tests  # noqa: E402 - as above
import sentinel  # noqa: E402 - as above
import spec_files  # noqa: E402 - as above
import unmeasured  # noqa: E402 - as above
import wirecheck  # noqa: E402 - as above

from mcpwire.server.log_limit import LogLimit  # noqa: E402 - after the paths

run_tests.default_signals()

# How long one example takes is for the machine to say, which may be busy with others.
# The profile is loaded before the first test module makes settings of its own from it.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", UNHURRIED, max_examples=25)
settings.register_profile("verify", UNHURRIED, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def cli(capsys):
    """Run a command line in this process; returns its exit code, stdout and stderr."""
    return partial(command_line.run_here, capsys)


def pytest_configure(config):
    """Name the marker that belongs to the wire check."""
    config.addinivalue_line(
        "markers",
        "unchecked_wire(reason): our side sends something illegal here on purpose, "
        "or the check would be measured too",
    )
    config.addinivalue_line(
        "markers",
        "grounds(count, *names): each row is run on so many of the grounds",
    )


def pytest_addoption(parser):
    """Take the word for running what is drawn otherwise."""
    parser.addoption(
        "--all-grounds",
        action="store_true",
        help="run each row of a table on all of its grounds",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    """Collect fast, and keep what was made out of the collector's way from then on.

    Items, modules and syntax trees live as long as the session. Frozen, they are not
    looked through each time that a test collects what it has made.
    """
    config = session.config
    if hasattr(config, "workerinput") or not config.getoption("tx", default=None):
        unmeasured.import_package()  # the process that hands out the tests runs none
    gc.disable()
    try:
        with unmeasured.pause():
            return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Refuse ids that no other process has; choose what is run, measured and first.

    A run in parallel compares the ids.
    """
    odd = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if odd:
        raise pytest.UsageError("an id holds an address: " + "; ".join(odd))
    if not config.getoption("--all-grounds", default=False) and len(items) > 1:
        left_out = set(grounds.left_out(items))
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: unmeasured.below(item.path, TESTS) not in FIRST)
    unmeasured.choose(items, TESTS)


@pytest.fixture(scope="session")
def spec_dir() -> Path:
    """Give the folder with `<revision>/schema.json` and `rules.json`.

    Set MCPWIRE_SPEC to it; else it is looked for beside the checkout. Without it the
    tests that need it skip, except under CI, where they fail.
    """
    return spec_files.demand(os.environ)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio only."""
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def measured_children():
    """Let the coverage of child processes through the environment's allow-list."""
    named = [name for name in os.environ if name.startswith("COVERAGE_")]
    with pytest.MonkeyPatch.context() as patch:
        if named:
            from mcpwire.transports import targets as target

            patch.setattr(target, "INHERITED", (*target.INHERITED, *named))
        yield


@pytest.fixture(autouse=True, scope="session")
def sentinel_watch():
    """Look for secrets wherever the run shows something; see `sentinel`."""
    with pytest.MonkeyPatch.context() as patch:
        sentinel.install(patch, sentinel.WATCH)
        yield sentinel.WATCH
    logging.getLogger().removeHandler(sentinel.WATCH)


def pytest_runtest_setup(item):
    """Listen to all that is said where tests have secrets."""
    # Who counts lines says which ones they want.
    all_of_it = "caplog" not in item.fixturenames and sentinel.listens(item.path, TESTS)
    sentinel.set_levels(logging.DEBUG if all_of_it else logging.NOTSET)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    """Fail the test that has shown a secret, its other fixtures included."""
    outcome = yield
    for _, name, said in item._report_sections:
        if name != "log":  # which was looked at line by line
            sentinel.WATCH.look(f"what was captured of {name}", said)
    sentinel.WATCH.look("the test's name", item.nodeid)
    if found := sentinel.WATCH.take():
        pytest.fail("a secret was shown:\n" + "\n".join(found), pytrace=False)
    return outcome


@pytest.fixture(autouse=True, scope="session")
def every_line_is_logged():
    """Log all lines: those of another test would count to the second of this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogLimit, "INTERVAL_S", 0.0)
        yield


@pytest.fixture(autouse=True)
def leak_check(request):
    """Fail the test that leaves a child process or a descriptor behind."""
    if not leaks.acts_on(request.path, TESTS):
        yield
        return
    watch = leaks.ResourceSnapshot()
    yield
    left = watch.settle(LEAK_GRACE_S)
    if left:
        pytest.fail("the test left open: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def wire_check(request):
    """Fail the test in which our code sends what its revision's schema refuses.

    Without the specification's files nothing is checked here; the tests of the check
    itself need them, so CI cannot pass without.
    """
    spec = spec_files.find(os.environ)
    unchecked = request.node.get_closest_marker("unchecked_wire")
    if unchecked is not None and not unchecked.args:
        pytest.fail("unchecked_wire takes a reason", pytrace=False)
    if spec is None or unchecked or not leaks.acts_on(request.path, TESTS):
        yield None
        return
    check = wirecheck.WireCheck(wirecheck.load(spec))
    # Not the test's own `monkeypatch`: it may be undone in the middle of a test.
    with pytest.MonkeyPatch.context() as patch:
        wirecheck.install(patch, check)
        yield check
    if check.violations:
        pytest.fail(
            "our code sent what the schema refuses:\n" + "\n".join(check.violations),
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Measure coverage of tests, not of pytest, and no line that others measure."""
    with unmeasured.around(item, TESTS):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Fail the async test that hangs, or that leaves a task running."""
    bounds.bound_item(pyfuncitem)
    if leaks.acts_on(pyfuncitem.path, TESTS):
        leaks.watch_item(pyfuncitem)
    if unmeasured.is_measured_elsewhere(pyfuncitem, TESTS):
        return (yield)
    with unmeasured.go_on(pyfuncitem.obj):
        return (yield)
