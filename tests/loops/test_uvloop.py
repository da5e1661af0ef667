"""Everything works on uvloop: pipes, sockets, children, timers and cancellation."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mcpwire
from mcpwire.errors import ConnectionClosed, RequestTimeout

uvloop = pytest.importorskip("uvloop", reason="the platform has no uvloop")

BOUND_S = 30.0
PROGRAM = str(Path(__file__).with_name("on_uvloop.py"))
REVISIONS = ("2025-11-25", "2026-07-28")
BIG = "x" * 3_000_000


@pytest.fixture(scope="module")
def anyio_backend(libuv):
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def libuv():
    """Let libuv open its signal pipe, which it opens once per process and keeps."""

    async def once():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, bool)
        loop.remove_signal_handler(signal.SIGUSR1)

    uvloop.run(once())


@pytest.fixture(scope="module")
def url(libuv):
    command = [sys.executable, PROGRAM, "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture(scope="module", params=["stdio", "http"])
def target(request, url):
    stdio = mcpwire.Stdio(sys.executable, [PROGRAM, "stdio"])
    return stdio if request.param == "stdio" else url


@contextlib.asynccontextmanager
async def connected(target, **options):
    async with mcpwire.Client(target, **options) as client:
        assert type(asyncio.get_running_loop()) is uvloop.Loop
        yield client


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_kind_of_call_works_in_both_eras(target, revision):
    async with connected(target, mode=revision) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        texts = [str(number) for number in range(40)]
        calls = (client.call_tool("echo", {"text": text}) for text in texts)
        assert [result.text for result in await asyncio.gather(*calls)] == texts
        steps = []
        await client.call_tool(
            "steps", {"count": 3}, on_progress=lambda *step: steps.append(step[0])
        )
        assert steps == [1, 2, 3]
        assert (await client.call_tool("process")).structured_content["result"] > 0
        # More than the buffer of a pipe or a socket, in both directions.
        assert (await client.call_tool("echo", {"text": BIG})).text == BIG


async def test_calls_after_a_timeout_and_a_cancellation_work(target):
    async with connected(target) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("wait", timeout=0.05)
        call = await client.start_call("wait")
        call.cancel("no longer needed")
        task = asyncio.create_task(client.call_tool("wait"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


async def test_child_exit_is_detected_and_the_next_call_restarts_it():
    program = "import os, sys; sys.stdin.readline(); os._exit(3)"
    with pytest.raises(mcpwire.ConnectError) as caught:
        await mcpwire.Client(mcpwire.Stdio(sys.executable, ["-c", program])).connect()
    assert caught.value.exit_code == 3
    async with connected(mcpwire.Stdio(sys.executable, [PROGRAM, "stdio"])) as client:
        waiting = asyncio.create_task(client.call_tool("wait"))
        result = await client.call_tool("process")
        os.kill(result.structured_content["result"], signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            await waiting
        assert (await client.call_tool("echo", {"text": "again"})).text == "again"


async def test_client_and_server_in_one_process(libuv):
    server = mcpwire.Server("here", "1")

    @server.tool
    async def echo(text: str) -> str:
        return text

    async with connected(server) as client:
        calls = (client.call_tool("echo", {"text": str(n)}) for n in range(40))
        results = await asyncio.gather(*calls)
    assert [result.text for result in results] == [str(n) for n in range(40)]


def test_signal_ends_a_server_quietly_under_the_uvloop_policy():
    program = (
        "import asyncio, uvloop, mcpwire\n"
        "asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())\n"
        "print('up', flush=True)\n"
        "mcpwire.Server('x', '1').run()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"up\n"
        request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        process.stdin.write(request)
        process.stdin.flush()
        assert b'"id":1' in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND_S) == 128 + signal.SIGTERM
        assert process.stderr.read() == b""
