"""What one `call_tool` costs over HTTP, counted instead of timed: ceilings that fall.

Budgets of time are `benchmarks/`' business, as `tests/test_hot_path.py` says.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from mcp_server import scripted_mcp

import mcpwire
from mcpwire.protocol.http import answer
from mcpwire.transports.http.streamable import channel

pytestmark = pytest.mark.anyio

BOUND_S = 20.0

PYTHON_CALLS = {
    ("session", "json"): 46,
    ("session", "sse"): 47,
    ("stateless", "json"): 47,
    ("stateless", "sse"): 48,
}
"""Python functions entered per call, asyncio's own included."""

READS = ("PlainTransport._read",)
"""The frame with which the loop says that there is something to read."""

MODULES_FORBIDDEN_BY_CONNECT_AND_CALL = (
    "anyio",
    "httpx",
    "argparse",
    "mcpwire.cli",
    "mcpwire.protocol.http.resume",
    "mcpwire.protocol.paging",
    "mcpwire.server",
    "mcpwire.transports.http.httpx_engine",
    "mcpwire.transports.http.legacy",
    "mcpwire.transports.stdio.process",
    "mcpwire.types.prompts",
    "mcpwire.types.resources",
)

PROGRAM = """
import asyncio, gc, sys
import mcpwire
async def main():
    async with mcpwire.Client(sys.argv[1]) as client:
        for _ in range(20):
            await client.call_tool("echo", {"text": "hi"})
        gc.disable()
        fewest = None
        for _ in range(20):
            names = []
            sys.setprofile(
                lambda frame, event, _: event == "call"
                and names.append(frame.f_code.co_qualname)
            )
            await client.call_tool("echo", {"text": "hi"})
            sys.setprofile(None)
            names = [n for n in names if n != "main.<locals>.<lambda>"]
            if fewest is None or len(names) < len(fewest):
                fewest = names
    print(*fewest)
asyncio.run(main())
"""


def run_python(code, *args):
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return done.stdout.split()


@pytest.mark.parametrize(("era", "replies"), PYTHON_CALLS)
def test_a_call_enters_no_more_python_functions_than_the_ceiling(era, replies):
    with scripted_mcp(era, replies=replies) as server:
        names = run_python(PROGRAM, server.url)
    assert "Client.call_tool" in names
    # The answer comes in one segment: no turn of the loop depends on how it is cut.
    assert sum(name in READS for name in names) == 1
    assert len(names) <= PYTHON_CALLS[era, replies], "\n".join(names)


@pytest.mark.parametrize("replies", ["json", "sse"])
@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_call_creates_no_task_arms_no_timer_and_encodes_once(
    era, replies, monkeypatch
):
    counts = {"tasks": 0, "timers": 0, "encoded": 0, "decoded": 0}

    def counting(name, function):
        def counted(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return counted

    with scripted_mcp(era, replies=replies) as server:
        async with asyncio.timeout(BOUND_S), mcpwire.Client(server.url) as client:
            for _ in range(20):
                await client.call_tool("echo", {"text": "hi"})
            loop = asyncio.get_running_loop()
            for name, key in (("create_task", "tasks"), ("call_at", "timers")):
                monkeypatch.setattr(loop, name, counting(key, getattr(loop, name)))
            for module, name, key in (
                (channel, "encode", "encoded"),
                (answer, "loads", "decoded"),
            ):
                original = getattr(module, name)
                monkeypatch.setattr(module, name, counting(key, original))
            for _ in range(10):
                await client.call_tool("echo", {"text": "hi"})
            monkeypatch.undo()
    assert counts == {"tasks": 0, "timers": 0, "encoded": 10, "decoded": 10}


def test_connecting_and_calling_load_only_what_they_use():
    program = PROGRAM.replace("print(*fewest)", "print(*sys.modules)")
    with scripted_mcp() as server:
        loaded = set(run_python(program, server.url))
    assert "mcpwire.types.tools" in loaded
    assert not loaded.intersection(MODULES_FORBIDDEN_BY_CONNECT_AND_CALL)
