"""What one `call_tool` costs, counted instead of timed: ceilings that only go down.

Budgets of time are `benchmarks/`' business. What is counted here does not depend on the
machine: tasks, encodings, decodings, Python calls, modules loaded.
"""

import asyncio
import subprocess
import sys

import pytest
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire.protocol import peer as peer_module

pytestmark = pytest.mark.anyio

BOUND_S = 20.0

PYTHON_CALLS_STDIO = 42
"""Python functions entered per call, asyncio's own included."""

MODULES_FORBIDDEN_BY_CONNECT_AND_CALL = (
    "httpx",
    "httptools",
    "anyio",
    "argparse",
    "mcpwire.cli",
    "mcpwire.server",
    "mcpwire.types.prompts",
    "mcpwire.types.resources",
    "mcpwire.types.input",
    "mcpwire.types.tasks",
    "mcpwire.wire.urls",
    "mcpwire.wire.sse",
    "mcpwire.wire.headers",
    "mcpwire.protocol.paging",
    "mcpwire.protocol.input_loop",
    "mcpwire.transports.memory",
    "mcpwire.transports.http",
    "mcpwire.protocol.http",
)


def server(era):
    opening = "handshake()\n" if era == "session" else "discover()\n"
    return scripted(opening + ECHO_LOOP)


async def warm(client):
    for _ in range(20):
        await client.call_tool("x", {"text": "hi"})


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_call_creates_no_task_and_encodes_and_decodes_once(era, monkeypatch):
    counts = {"tasks": 0, "encoded": 0, "decoded": 0}

    def counting(name, function):
        def counted(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return counted

    async with asyncio.timeout(BOUND_S), mcpwire.Client(server(era)) as client:
        await warm(client)
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "create_task", counting("tasks", loop.create_task))
        for name, key in (("encode_line", "encoded"), ("loads", "decoded")):
            original = getattr(peer_module, name)
            monkeypatch.setattr(peer_module, name, counting(key, original))
        for _ in range(10):
            await client.call_tool("x", {"text": "hi"})
        monkeypatch.undo()
    assert counts == {"tasks": 0, "encoded": 10, "decoded": 10}


PROGRAM = """
import asyncio, gc, sys
import mcpwire
async def main():
    server = mcpwire.Stdio(sys.executable, ["-S", "-c", sys.argv[1]])
    async with mcpwire.Client(server) as client:
        for _ in range(20):
            await client.call_tool("x", {"text": "hi"})
        gc.disable()
        fewest = None
        for _ in range(20):
            names = []
            sys.setprofile(
                lambda frame, event, _: event == "call"
                and names.append(frame.f_code.co_qualname)
            )
            await client.call_tool("x", {"text": "hi"})
            sys.setprofile(None)
            names = [n for n in names if n != "main.<locals>.<lambda>"]
            if fewest is None or len(names) < len(fewest):
                fewest = names
    print(*fewest)
asyncio.run(main())
"""


def server_program(era):
    return server(era).args[-1]


@pytest.mark.parametrize("era", ["session", "stateless"])
def test_a_call_enters_no_more_python_functions_than_the_ceiling(era):
    names = run_python(PROGRAM, server_program(era))
    assert "Client.call_tool" in names
    assert len(names) <= PYTHON_CALLS_STDIO, "\n".join(names)


async def test_thirty_calls_of_one_turn_are_few_writes(monkeypatch):
    import os

    async with asyncio.timeout(BOUND_S), mcpwire.Client(server("session")) as client:
        await warm(client)
        writes = []
        write = os.write

        def counted(fd, data):
            writes.append(len(data))
            return write(fd, data)

        monkeypatch.setattr(os, "write", counted)
        await asyncio.gather(*(client.call_tool("x", {"text": "a"}) for _ in range(30)))
        monkeypatch.undo()
    # The first leaves at once, for nothing else was under way; the rest together.
    assert len(writes) == 2


async def test_one_timer_serves_all_calls(monkeypatch):
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server("session")) as client:
        await warm(client)
        loop = asyncio.get_running_loop()
        armed = []
        call_at = loop.call_at

        def counted(when, *args, **kwargs):
            armed.append(when)
            return call_at(when, *args, **kwargs)

        monkeypatch.setattr(loop, "call_at", counted)
        for _ in range(100):
            await client.call_tool("x", {"text": "a"})
        monkeypatch.undo()
    assert not armed


def run_python(code, *args):
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    return done.stdout.split()


def test_connecting_and_calling_load_only_what_they_use():
    program = PROGRAM.replace("print(*fewest)", "print(*sys.modules)")
    loaded = set(run_python(program, server_program("session")))
    assert "mcpwire.types.tools" in loaded
    assert not loaded.intersection(MODULES_FORBIDDEN_BY_CONNECT_AND_CALL)


def test_importing_the_package_loads_next_to_nothing():
    loaded = run_python("import mcpwire, sys; print(*sys.modules)")
    assert sorted(name for name in loaded if name.startswith("mcpwire")) == [
        "mcpwire",
        "mcpwire._version",
    ]


def test_creating_a_client_loads_nothing_that_spawns_or_speaks_http():
    loaded = run_python(
        "import sys, mcpwire; mcpwire.Client('cat'); print(*sys.modules)"
    )
    assert not {"httpx", "anyio", "mcpwire.transports.stdio.process"}.intersection(
        loaded
    )
