"""A thousand servers in one group: a process and a result for each."""

import asyncio
import importlib
import os
import resource
from pathlib import Path

import pytest

import mcpwire
from mcpwire.testing.leaks import children

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SERVERS = 1000
FILES_EACH = 4
FILES_BESIDE = 200
TIMEOUT_S = 150.0
FILES = Path("/proc/self/fd")

pytestmark = pytest.mark.unchecked_wire("thousands of the same messages")


@pytest.fixture
def null_server(monkeypatch):
    """Return the path of a minimal server in C."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    build = importlib.import_module("null.build")
    try:
        return str(build.build("stdio_null"))
    except build.NoCompiler as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def child_count():
    """Raise the limit of open files; return how many children fit."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES_EACH * SERVERS + FILES_BESIDE
    unlimited = hard == resource.RLIM_INFINITY
    available = needed if unlimited else min(needed, hard)
    if available < needed and os.environ.get("CI"):
        pytest.fail(f"{SERVERS} children need {needed} open files, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, available), hard))
    yield min(SERVERS, (available - FILES_BESIDE) // FILES_EACH)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.timeout(180)
@pytest.mark.skipif(not FILES.is_dir(), reason="as Linux counts")
async def test_group_of_a_thousand_children_leaves_no_process_and_no_file(
    null_server, child_count
):
    before = children(), len(os.listdir(FILES))  # noqa: PTH208 - names alone
    target = mcpwire.Stdio(null_server, ["--legacy"])
    group = mcpwire.Group(
        {f"server{number}": target for number in range(child_count)},
        mode="session",
        concurrency=32,
        timeout=TIMEOUT_S,
        connect_timeout=TIMEOUT_S,
    )
    async with asyncio.timeout(TIMEOUT_S), group:
        assert len(group.report.ok) == len(group) == child_count
        assert len(children() - before[0]) == child_count
        files = len(os.listdir(FILES)) - before[1]  # noqa: PTH208 - names alone
        assert files <= FILES_EACH * child_count
        results = await asyncio.gather(
            *(group.call_tool(name, "echo", {"text": "hi"}) for name in group)
        )
        assert [result.text for result in results] == ["hello"] * child_count
        tools = await group.tools()
        assert len(tools) == child_count
        assert not tools.problems
    assert children() == before[0]
    assert len(os.listdir(FILES)) == before[1]  # noqa: PTH208 - names alone
