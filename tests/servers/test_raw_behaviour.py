"""How real servers open, seen by hand-written lines: what negotiation rests on.

`README.md` beside this file holds the findings as a table. Nothing of mcpwire runs
here, so a change in these servers is told apart from a fault of ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading

import pytest
from real_servers import PYTHON, TYPESCRIPT

pytestmark = pytest.mark.servers

PATIENCE = 30.0
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "hand", "version": "1"},
}
SESSION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "hand", "version": "1"},
}
DISCOVER = {"id": "d", "method": "server/discover", "params": {"_meta": META}}
INITIALIZE = {"id": "i", "method": "initialize", "params": SESSION}
BARE = {"id": "bare", "method": "tools/list", "params": {}}
ENVELOPED = {"id": "enveloped", "method": "tools/list", "params": {"_meta": META}}
INITIALIZED = {"method": "notifications/initialized"}


class Hand:
    """A server on two pipes; a thread reads it, so that no wait is endless."""

    def __init__(self, server):
        self.process = subprocess.Popen(
            server.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], **server.env},
        )
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, *messages):
        """Write them in one piece, as a server that sleeps finds them in its pipe."""
        lines = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def answers(self, *ids):
        """Return the answers with these ids, in the order in which they came."""
        found = {}
        while found.keys() != set(ids):
            line = self.lines.get(timeout=PATIENCE)
            assert line is not None, f"the server ended; answered so far: {found}"
            message = json.loads(line)
            if message.get("id") in ids:
                found[message["id"]] = message
        return found

    def end(self):
        """Close its input and return its exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def clear(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


@pytest.fixture
def hand(warm):
    """Return a function that starts a server by name."""
    started = []

    def start(name):
        started.append(Hand(warm(name)))
        return started[-1]

    yield start
    for each in started:
        each.clear()


@pytest.mark.parametrize("name", TYPESCRIPT)
def test_a_session_server_refuses_the_probe_and_then_takes_initialize(hand, name):
    server = hand(name)
    server.send(DISCOVER, INITIALIZE)
    answers = server.answers("d", "i")
    assert answers["d"]["error"]["code"] == -32601
    assert answers["i"]["result"]["protocolVersion"] == "2025-11-25"
    server.send(INITIALIZED, BARE, ENVELOPED)
    answers = server.answers("bare", "enveloped")
    assert answers["bare"]["result"]["tools"] == answers["enveloped"]["result"]["tools"]
    assert server.end() == 0


@pytest.mark.parametrize("name", TYPESCRIPT)
def test_a_session_server_refuses_the_probe_before_it_answers_initialize(hand, name):
    server = hand(name)
    server.send(INITIALIZE, DISCOVER)
    answers = server.answers("d", "i")
    assert list(answers) == ["d", "i"]
    assert answers["d"]["error"]["code"] == -32601
    assert answers["i"]["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("name", PYTHON)
def test_after_the_probe_a_server_of_both_eras_refuses_initialize(hand, name):
    server = hand(name)
    server.send(DISCOVER, INITIALIZE)
    answers = server.answers("d", "i")
    assert list(answers) == ["d", "i"]
    assert answers["d"]["result"]["supportedVersions"] == ["2026-07-28"]
    assert answers["i"]["error"]["code"] == -32022
    assert answers["i"]["error"]["data"]["supported"] == ["2026-07-28"]
    server.send(BARE, ENVELOPED)
    answers = server.answers("bare", "enveloped")
    assert answers["bare"]["error"]["code"] == -32602
    assert answers["enveloped"]["result"]["tools"]
    assert server.end() == 0


@pytest.mark.parametrize("name", PYTHON)
def test_after_initialize_a_server_of_both_eras_refuses_the_probe(hand, name):
    server = hand(name)
    server.send(INITIALIZE, DISCOVER)
    answers = server.answers("d", "i")
    assert answers["i"]["result"]["protocolVersion"] == "2025-11-25"
    assert answers["d"]["error"]["code"] == -32600
    server.send(INITIALIZED, BARE)
    assert server.answers("bare")["bare"]["result"]["tools"]
    assert server.end() == 0


@pytest.mark.pain("P14")
@pytest.mark.parametrize("name", ["sdk", "fastmcp"])
def test_line_separators_stand_raw_in_what_python_servers_send(hand, name):
    server = hand(name)
    read = {"method": "resources/read", "params": {"uri": "note://hello"}}
    server.send(INITIALIZE, INITIALIZED)
    server.answers("i")
    server.send({"id": "r", **read})
    line = server.lines.get(timeout=PATIENCE)
    assert "hello \u2028 world".encode() in line
