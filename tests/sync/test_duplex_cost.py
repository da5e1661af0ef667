"""What one blocking `call_tool` costs, counted: ceilings that only go down."""

import os
import subprocess
import sys
import threading

import pytest
from scripted import ECHO_LOOP, scripted

import mcpwire.sync
from mcpwire.protocol import peer as peer_module

BOUND_S = 20.0

PYTHON_CALLS_STDIO = 21
"""Python functions entered per call."""


def server(era):
    opening = "handshake()\n" if era == "session" else "discover()\n"
    return scripted(opening + ECHO_LOOP)


def warm(client):
    for _ in range(20):
        client.call_tool("x", {"text": "hi"})


@pytest.mark.parametrize("era", ["session", "stateless"])
def test_a_call_starts_no_thread_and_encodes_and_decodes_once(era, monkeypatch):
    counts = {"encoded": 0, "decoded": 0, "threads": 0}

    def counting(name, function):
        def counted(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return counted

    before = threading.active_count()
    with mcpwire.sync.Client(server(era)) as client:
        warm(client)
        start = counting("threads", threading.Thread.start)
        monkeypatch.setattr(threading.Thread, "start", start)
        for name, key in (("encode_line", "encoded"), ("loads", "decoded")):
            original = getattr(peer_module, name)
            monkeypatch.setattr(peer_module, name, counting(key, original))
        for _ in range(10):
            client.call_tool("x", {"text": "hi"})
        monkeypatch.undo()
        assert threading.active_count() == before
    assert counts == {"encoded": 10, "decoded": 10, "threads": 0}


def test_a_call_is_one_write_one_poll_and_one_read(monkeypatch):
    counts = {"write": 0, "read": 0, "poll": 0}

    def counting(name, function):
        def counted(*args):
            counts[name] += 1
            return function(*args)

        return counted

    with mcpwire.sync.Client(server("session")) as client:
        warm(client)
        channel = client._connection.channel
        monkeypatch.setattr(os, "write", counting("write", os.write))
        monkeypatch.setattr(os, "read", counting("read", os.read))
        monkeypatch.setattr(channel, "_poll", counting("poll", channel._poll))
        for _ in range(10):
            client.call_tool("x", {"text": "hi"})
        monkeypatch.undo()
    assert counts == {"write": 10, "read": 10, "poll": 10}


PROGRAM = """
import gc, sys
import mcpwire, mcpwire.sync
server = mcpwire.Stdio(sys.executable, ["-S", "-c", sys.argv[1]])
with mcpwire.sync.Client(server) as client:
    for _ in range(20):
        client.call_tool("x", {"text": "hi"})
    gc.disable()
    fewest = None
    for _ in range(20):
        names = []
        sys.setprofile(
            lambda frame, event, _: event == "call"
            and names.append(frame.f_code.co_qualname)
        )
        client.call_tool("x", {"text": "hi"})
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
    )
    return done.stdout.split()


@pytest.mark.parametrize("era", ["session", "stateless"])
def test_a_call_enters_no_more_python_functions_than_the_ceiling(era):
    names = run_python(PROGRAM, server(era).args[-1])
    assert "Client.call_tool" in names
    assert len(names) <= PYTHON_CALLS_STDIO, "\n".join(names)


def test_connecting_and_calling_load_no_event_loop():
    program = PROGRAM.replace("print(*fewest)", "print(*sys.modules)")
    loaded = set(run_python(program, server("session").args[-1]))
    assert "mcpwire.sync._stdio" in loaded
    assert not {"asyncio", "anyio", "httpx", "mcpwire.server"} & loaded
