"""What one blocking `call_tool` over HTTP costs, counted: ceilings that only fall."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from mcp_server import scripted_mcp

import mcpwire.sync
from mcpwire.protocol.http import answer
from mcpwire.sync._made import http_channel

BOUND_S = 20.0

PYTHON_CALLS = {
    ("session", "json"): 19,
    ("session", "sse"): 20,
    ("stateless", "json"): 20,
    ("stateless", "sse"): 21,
}
"""Python functions entered per call."""


def warm(client):
    for _ in range(20):
        client.call_tool("echo", {"text": "hi"})


def counting(counts, name, function):
    def counted(*args, **kwargs):
        counts[name] += 1
        return function(*args, **kwargs)

    return counted


@pytest.mark.parametrize(("era", "replies"), PYTHON_CALLS)
def test_a_call_starts_no_thread_and_encodes_and_decodes_once(
    era, replies, monkeypatch
):
    counts = {"encoded": 0, "decoded": 0, "threads": 0}
    with (
        scripted_mcp(era, replies=replies) as server,
        mcpwire.sync.Client(server.url) as client,
    ):
        warm(client)
        for owner, name, key in (
            (threading.Thread, "start", "threads"),
            (http_channel, "encode", "encoded"),
            (answer, "loads", "decoded"),
        ):
            original = getattr(owner, name)
            monkeypatch.setattr(owner, name, counting(counts, key, original))
        for _ in range(10):
            client.call_tool("echo", {"text": "hi"})
        monkeypatch.undo()
    assert counts == {"encoded": 10, "decoded": 10, "threads": 0}


@pytest.mark.parametrize(("era", "replies"), PYTHON_CALLS)
def test_a_call_is_one_poll_one_send_and_one_read(era, replies):
    counts = {"poll": 0, "send": 0, "receive": 0}
    with (
        scripted_mcp(era, replies=replies) as server,
        mcpwire.sync.Client(server.url) as client,
    ):
        warm(client)
        (connection,) = client._connection.channel._engine._idle
        for name in counts:
            original = getattr(connection, f"_{name}")
            setattr(connection, f"_{name}", counting(counts, name, original))
        for _ in range(10):
            client.call_tool("echo", {"text": "hi"})
        assert client._connection.channel._engine._idle == [connection]
        assert counts == {"poll": 10, "send": 10, "receive": 10}


PROGRAM = """
import gc, sys
import mcpwire.sync
with mcpwire.sync.Client(sys.argv[1]) as client:
    for _ in range(20):
        client.call_tool("echo", {"text": "hi"})
    gc.disable()
    fewest = None
    for _ in range(20):
        names = []
        sys.setprofile(
            lambda frame, event, _: event == "call"
            and names.append(frame.f_code.co_qualname)
        )
        client.call_tool("echo", {"text": "hi"})
        sys.setprofile(None)
        names = [n for n in names if n != "<lambda>"]
        if fewest is None or len(names) < len(fewest):
            fewest = names
print(*fewest)
"""


def run_python(code, *args):
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    return done.stdout.split()


@pytest.mark.parametrize(("era", "replies"), PYTHON_CALLS)
def test_a_call_enters_no_more_python_functions_than_the_ceiling(era, replies):
    with scripted_mcp(era, replies=replies) as server:
        names = run_python(PROGRAM, server.url)
    assert "Client.call_tool" in names
    assert len(names) <= PYTHON_CALLS[era, replies], "\n".join(names)


def test_connecting_and_calling_load_no_event_loop():
    program = PROGRAM.replace("print(*fewest)", "print(*sys.modules)")
    with scripted_mcp() as server:
        loaded = set(run_python(program, server.url))
    assert "mcpwire.sync._http.engine" in loaded
    assert not {"asyncio", "anyio", "httpx", "mcpwire.server"} & loaded
