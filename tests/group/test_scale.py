"""A thousand servers in one group: a process each, each with its own answer."""

from __future__ import annotations

import asyncio
import importlib
import os
import resource
from pathlib import Path

import pytest

import mcpwire

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SERVERS = 1000
FILES_EACH = 4
FILES_BESIDE = 200
PATIENCE_S = 150.0
FILES = Path("/proc/self/fd")

pytestmark = pytest.mark.unchecked_wire("thousands of the same messages")


@pytest.fixture
def null_server(monkeypatch):
    """Return a server in C that costs almost nothing."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    build = importlib.import_module("null.build")
    try:
        return str(build.build("stdio_null"))
    except build.NoCompiler as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def many():
    """Have room for the files of so many children; say how many fit."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_EACH * SERVERS + FILES_BESIDE
    unlimited = hard == resource.RLIM_INFINITY
    room = wanted if unlimited else min(wanted, hard)
    if room < wanted and os.environ.get("CI"):
        pytest.fail(f"{SERVERS} children need {wanted} open files, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, room), hard))
    yield min(SERVERS, (room - FILES_BESIDE) // FILES_EACH)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def children() -> list[str]:
    """Return the processes that this one has started, those too that have ended."""
    lists = Path("/proc/self/task").glob("*/children")
    return [each for text in lists for each in text.read_text().split()]


@pytest.mark.timeout(180)
@pytest.mark.skipif(not FILES.is_dir(), reason="as Linux counts")
async def test_a_thousand_children_are_one_group_and_leave_nothing(null_server, many):
    before = set(children()), len(os.listdir(FILES))  # noqa: PTH208 - names alone
    target = mcpwire.Stdio(null_server, ["--legacy"])
    group = mcpwire.Group(
        {f"server{number}": target for number in range(many)},
        mode="session",
        concurrency=32,
        timeout=PATIENCE_S,
        connect_timeout=PATIENCE_S,
    )
    async with asyncio.timeout(PATIENCE_S), group:
        assert len(group.report.ok) == len(group) == many
        assert len(set(children()) - before[0]) == many
        files = len(os.listdir(FILES)) - before[1]  # noqa: PTH208 - names alone
        assert files <= FILES_EACH * many
        results = await asyncio.gather(
            *(group.call_tool(name, "echo", {"text": "hi"}) for name in group)
        )
        assert [result.text for result in results] == ["hello"] * many
        tools = await group.tools()
        assert len(tools) == many
        assert not tools.problems
    assert set(children()) == before[0]
    assert len(os.listdir(FILES)) == before[1]  # noqa: PTH208 - names alone
