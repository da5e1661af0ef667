"""Ctrl-C ends a command at once, notifies the server and leaves no process."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time

import pytest
from cli_servers import DONE, MCPWIRE, TIMEOUT_S, run_program
from hosting import hosted

from mcpwire.cli.session import Signals
from mcpwire.server.demo import demo_dispatcher


@pytest.fixture(autouse=True)
def default_signal_handlers():
    """Let children receive signals, even if the parent of pytest ignores them."""
    saved = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)
    }
    for number in saved:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in saved.items():
        signal.signal(number, handler)


class Running:
    def __init__(self, *words):
        self.process = subprocess.Popen(
            [*MCPWIRE, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        try:
            out, err = self.process.communicate(timeout=TIMEOUT_S)
        finally:
            self.process.kill()
        return self.process.returncode, out, err


@pytest.mark.rule("CAN-01")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_an_interrupted_call_is_cancelled_on_the_server(tool_server, number, code):
    server = tool_server()
    running = Running("call", server.line, "do")
    server.wait_for("tools/call")
    running.signal(number)
    assert running.end() == (code, "", "mcpwire: interrupted\n")
    messages = server.messages()
    (call,) = [m for m in messages if m.get("method") == "tools/call"]
    assert messages[-1]["method"] == "notifications/cancelled"
    assert messages[-1]["params"]["requestId"] == call["id"]
    assert not server.is_running()


@pytest.mark.parametrize(
    ("mode", "end"), [("session", "DELETE"), ("stateless", "tools/call")]
)
def test_interrupted_http_call_ends_its_stream_and_session(mode, end):
    with hosted(demo_dispatcher()) as host:
        running = Running("call", host.url, "slow", "seconds=60", "--mode", mode)
        host.wait_until(lambda: is_called(host), TIMEOUT_S)
        running.signal(signal.SIGINT)
        assert running.end() == (130, "", "mcpwire: interrupted\n")
        # At 2026-07-28 the closed stream cancels the call.
        methods = [request.method or request.verb for request in host.requests]
        assert methods[-1] == end


def is_called(host):
    return any(request.method == "tools/call" for request in host.requests)


def test_interrupted_call_with_json_prints_one_error_object(tool_server):
    server = tool_server()
    running = Running("call", "--json", server.line, "do")
    server.wait_for("tools/call")
    running.signal(signal.SIGINT)
    code, out, err = running.end()
    assert (code, out) == (130, "")
    assert json.loads(err)["error"] == {
        "type": "Interrupted",
        "exit": 130,
        "message": "interrupted",
        "details": {"number": 2},
    }


def test_interrupt_kills_a_server_that_ignores_sigterm(tool_server):
    server = tool_server(stubborn=True, stays=True)
    running = Running("call", server.line, "do")
    server.wait_for("tools/call")
    running.signal(signal.SIGINT)
    code, _, err = running.end()
    assert (code, err) == (130, "mcpwire: interrupted\n")
    assert not server.is_running()


def test_second_interrupt_does_not_wait_for_the_server(tool_server):
    server = tool_server(stubborn=True, stays=True)
    running = Running("call", server.line, "do")
    server.wait_for("tools/call")
    running.signal(signal.SIGINT)
    server.wait_for("notifications/cancelled")
    running.signal(signal.SIGINT)
    running.signal(signal.SIGINT)
    code, out, err = running.end()
    # The last one may find the command at its very end, where it just ends it.
    assert code in {130, -signal.SIGINT}
    assert out == ""
    assert err in {"mcpwire: interrupted\n", ""}
    assert not server.is_running()


@pytest.mark.parametrize("stubborn", [False, True])
def test_interrupting_the_handshake_leaves_no_child(scripted, stubborn):
    server = scripted(server__discover=[], stubborn=stubborn, stays=stubborn)
    running = Running("ls", server.line)
    server.wait_for("server/discover")
    running.signal(signal.SIGINT)
    assert running.end() == (130, "", "mcpwire: interrupted\n")
    assert not server.is_running()


def test_a_signal_that_is_ignored_stays_ignored(tool_server, tmp_path):
    over = tmp_path / "over"
    server = tool_server({"until": str(over)}, DONE)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    running = Running("call", server.line, "do")
    server.wait_for("tools/call")
    running.signal(signal.SIGHUP)
    over.touch()
    assert running.end()[:2] == (0, "done\n")


def test_signal_before_the_command_starts_is_recorded():
    with asyncio.Runner() as runner:
        signals = Signals(runner.get_loop())
        signals.receive(signal.SIGINT)
        assert (signals.number, signals.is_forced) == (signal.SIGINT, False)


INTERRUPTED_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if "orjson.orjson" in self.names:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
        self.names.append(name)

    names = []

sys.meta_path.insert(0, Finder())
from mcpwire.cli.main import main
sys.argv = ["mcpwire", "ls", "true"]
sys.exit(main())
"""


def test_interrupt_during_the_import_of_orjson_does_not_crash():
    done = run_program(sys.executable, "-c", INTERRUPTED_IMPORT)
    assert (done.returncode, done.stderr) == (130, "mcpwire: interrupted\n")


def test_interrupt_while_reading_stdin_exits_cleanly():
    read, write = os.pipe()
    process = subprocess.Popen(
        [*MCPWIRE, "call", "true", "x", "-"],
        stdin=read,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(write, b"{")
    try:
        _wait_until_empty(read)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        os.close(read)
        os.close(write)
        process.kill()
    assert (process.returncode, err) == (130, "mcpwire: interrupted\n")


def _wait_until_empty(pipe):
    """Wait until the content of a pipe was read."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if not any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))):
            return
        time.sleep(0.01)
    pytest.fail("the pipe was not read")
