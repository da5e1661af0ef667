"""Fixtures for every test: the specification's files, the loop, leaks, the wire."""

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
"""How long resources that are being closed may take on a loaded machine."""

FIRST = (
    *("check/test_command.py", "check/test_foreign.py", "check/test_own_server.py"),
    "scoreboard/test_run.py",
)
"""Modules with tests of 15 to 40 seconds: started last, one would run alone."""

HELPER_FOLDERS = (
    *("adversity", "adversity/http", "adversity/oauth", "adversity/server"),
    *("auth", "bench", "budgets", "cli", "client", "gateway", "gateway/bridge"),
    *("group", "matrix", "oauth", "over_http", "protocol", "server"),
    *("server/auth", "server/authoring", "server/http", "server/tasks"),
    *("servers/features", "servers/http", "servers/many", "servers/warm"),
    *("soak", "sync", "tools", "transports/shared", "types"),
)
"""Folders with modules that tests of any folder import: each name is unique."""

REWRITTEN = (
    *("asgi_driver", "attacked_server", "gateway_servers", "handshakes", "hosted"),
    *("raw_client", "raw_http_client", "raw_sockets", "reply_feeding"),
    *("scripted_steps", "single_request", "task_driver", "wire_tables", "wires"),
    "world",
)
"""Helper modules with assertions of their own."""

# Test folders are not packages, so shared helpers are top-level modules.
sys.path[:0] = [str(TESTS), *(str(TESTS / folder) for folder in HELPER_FOLDERS)]
pytest.register_assert_rewrite(*REWRITTEN)

# httpcore tries to import it several times per request. Each failed import searches
# every folder of the path, unless the module is known to be missing.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment] # None marks it as missing

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

# No deadline per example: a loaded machine may be slow. The profile is loaded before
# the first test module derives its own settings from it.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", UNHURRIED, max_examples=25)
settings.register_profile("verify", UNHURRIED, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def cli(capsys):
    """Run a command line in this process; returns its exit code, stdout and stderr."""
    return partial(command_line.run_here, capsys)


def pytest_configure(config):
    """Register the markers of the wire check and of the grounds."""
    config.addinivalue_line(
        "markers",
        "unchecked_wire(reason): our side sends something illegal here on purpose, "
        "or the check would be measured too",
    )
    config.addinivalue_line(
        "markers", "grounds(count, *names): each row is run on so many of the grounds"
    )


def pytest_addoption(parser):
    """Add the option that runs every cell of a table."""
    parser.addoption(
        "--all-grounds",
        action="store_true",
        help="run each row of a table on all of its grounds",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    """Collect tests fast, and exclude the collected objects from garbage collection.

    Items, modules and syntax trees live as long as the session. Frozen, they are not
    traversed by each garbage collection of a test.
    """
    config = session.config
    if hasattr(config, "workerinput") or not config.getoption("tx", default=None):
        unmeasured.import_package()  # the process that distributes the tests runs none
    gc.disable()
    try:
        with unmeasured.pause():
            return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Refuse ids that differ by process; choose the tests that run, and their order.

    A parallel run compares the ids.
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
    """Return the folder with `<revision>/schema.json` and `rules.json`.

    Set MCPWIRE_SPEC to it; the default is beside the checkout. Without it the tests
    that need it skip, except under CI, where they fail.
    """
    return spec_files.demand(os.environ)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def measured_children():
    """Add the coverage variables to the allow-list of inherited variables."""
    named = [name for name in os.environ if name.startswith("COVERAGE_")]
    with pytest.MonkeyPatch.context() as patch:
        if named:
            from mcpwire.transports import targets as target

            patch.setattr(target, "INHERITED", (*target.INHERITED, *named))
        yield


@pytest.fixture(autouse=True, scope="session")
def sentinel_watch():
    """Search all output of the run for secrets; see `sentinel`."""
    with pytest.MonkeyPatch.context() as patch:
        sentinel.install(patch, sentinel.WATCH)
        yield sentinel.WATCH
    logging.getLogger().removeHandler(sentinel.WATCH)


def pytest_runtest_setup(item):
    """Log at every level in tests that use secrets."""
    # Tests that use `caplog` set their own level.
    all_of_it = "caplog" not in item.fixturenames and sentinel.listens(item.path, TESTS)
    sentinel.set_levels(logging.DEBUG if all_of_it else logging.NOTSET)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    """Fail a test that has shown a secret, its fixtures included."""
    outcome = yield
    for _, name, output in item._report_sections:
        if name != "log":  # which is checked line by line
            sentinel.WATCH.look(f"what was captured of {name}", output)
    sentinel.WATCH.look("the test's name", item.nodeid)
    if found := sentinel.WATCH.take():
        pytest.fail("a secret was shown:\n" + "\n".join(found), pytrace=False)
    return outcome


@pytest.fixture(autouse=True, scope="session")
def every_line_is_logged():
    """Do not limit the log rate: lines of an earlier test would count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogLimit, "INTERVAL_S", 0.0)
        yield


@pytest.fixture(autouse=True)
def leak_check(request):
    """Fail a test that leaves a child process or a descriptor open."""
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
    """Fail a test in which our code sends what its revision's schema refuses.

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
    # Not the test's own `monkeypatch`: the test may undo it.
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
    """Measure coverage of tests, not of pytest, and no lines that others measure."""
    with unmeasured.around(item, TESTS):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Fail an async test that hangs, or that leaves a task running."""
    bounds.bound_item(pyfuncitem)
    if leaks.acts_on(pyfuncitem.path, TESTS):
        leaks.watch_item(pyfuncitem)
    if unmeasured.is_measured_elsewhere(pyfuncitem, TESTS):
        return (yield)
    with unmeasured.go_on(pyfuncitem.obj):
        return (yield)
