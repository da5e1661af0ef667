"""Fixtures for every test: the specification's files, the loop, the leak check."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent

# Test folders are not packages, so shared helpers are top-level modules.
sys.path.insert(0, str(TESTS))

import leaks  # noqa: E402 - found through the line above


def find_spec_dir() -> Path | None:
    """Return the folder with the specification's schemas, where there is one."""
    named = os.environ.get("MCPWIRE_SPEC")
    candidates = [Path(named)] if named else [ROOT.parent / "shared" / "spec"]
    return next((path for path in candidates if path.is_dir()), None)


@pytest.fixture(scope="session")
def spec_dir() -> Path:
    """Give the folder with `<revision>/schema.json` and `rules.json`.

    Set MCPWIRE_SPEC to it; else it is looked for beside the checkout. Without it the
    tests that need it skip, except under CI, where they fail.
    """
    found = find_spec_dir()
    if found is not None:
        return found
    reason = "no specification files: set MCPWIRE_SPEC to their folder"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests (`pytestmark = pytest.mark.anyio`) on asyncio only."""
    return "asyncio"


@pytest.fixture(autouse=True)
def leak_check(request):
    """Fail the test that leaves a child process or a descriptor behind."""
    if not leaks.acts_on(request.path, TESTS):
        yield
        return
    watch = leaks.Watch()
    yield
    left = watch.settle()
    if left:
        pytest.fail("the test left open: " + "; ".join(left), pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Fail the async test that leaves a task running."""
    if leaks.acts_on(pyfuncitem.path, TESTS):
        leaks.watch_item(pyfuncitem)
    return (yield)
