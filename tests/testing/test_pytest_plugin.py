"""The fixtures of the pytest plugin act only on tests that use them."""

import re
import sys

from child_python import finished

CONFTEST = """
import asyncio
pytest_plugins = ["mcpwire.testing.pytest_plugin"]

def pytest_itemcollected(item):
    def runtest(wrapped=item.runtest):  # as pytest-asyncio has it
        function = item.obj
        item.obj = lambda: asyncio.run(function())
        wrapped()

    if item.name == "test_leaky_task":
        item.runtest = runtest
"""

TESTS = """
import asyncio, os
import pytest
from hypothesis import HealthCheck, given, settings, strategies

ONCE = settings(
    max_examples=1, database=None, suppress_health_check=list(HealthCheck)
)

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

def test_unasked():
    os.dup(0)

def test_tidy(no_leaks):
    os.close(os.dup(0))

def test_leaky(no_leaks):
    os.dup(0)

@pytest.mark.usefixtures("no_leaks")
async def test_leaky_task():
    test_leaky_task.task = asyncio.create_task(asyncio.Event().wait())

@pytest.mark.anyio
@pytest.mark.usefixtures("no_leaks")
@ONCE
@given(strategies.booleans())
async def test_leaky_property(value):
    test_leaky_property.task = asyncio.create_task(asyncio.Event().wait())

@pytest.mark.anyio
async def test_unasked_task():
    test_unasked_task.task = asyncio.create_task(asyncio.Event().wait())

def test_quick(virtual_clock):
    virtual_clock.run(asyncio.sleep(1e6))
    assert virtual_clock.get_loop().time() == 1e6 + 1000

@pytest.mark.parametrize("virtual_clock", [{"auto_advance": False}], indirect=True)
def test_by_hand(virtual_clock):
    virtual_clock.run(virtual_clock.get_loop().advance(5))
    assert virtual_clock.get_loop().time() == 1005
"""

LEFT_RUNNING = r"^E .*left running: task .* of .*Event\.wait"


def test_only_tests_that_use_no_leaks_are_checked(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_sample.py").write_text(TESTS)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA")
    done = finished(*command, cwd=tmp_path)
    by_test = {}
    for outcome, test in re.findall(
        r"^(PASSED|FAILED|ERROR) test_sample\.py::(\w+)", done.stdout, re.MULTILINE
    ):
        by_test.setdefault(test, set()).add(outcome)
    assert by_test == {
        "test_unasked": {"PASSED"},
        "test_tidy": {"PASSED"},
        "test_leaky": {"PASSED", "ERROR"},
        "test_leaky_task": {"FAILED"},
        "test_leaky_property": {"FAILED"},
        "test_unasked_task": {"PASSED"},
        "test_quick": {"PASSED"},
        "test_by_hand": {"PASSED"},
    }
    assert re.search(r"the test left open: descriptor \d+ -> ", done.stdout)
    assert len(re.findall(LEFT_RUNNING, done.stdout, re.MULTILINE)) == 2
