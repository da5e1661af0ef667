"""Ctrl-C ends a command at once: the server is told, and nothing stays behind."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import termios
import time

import pytest
from cli_servers import MCPWIRE, PATIENCE
from hosting import hosted

from mcpwire.cli.session import Signals
from mcpwire.server.demo import demo_dispatcher


@pytest.fixture(autouse=True)
def heard():
    """Let children hear signals, also where whoever started pytest ignores them."""
    kept = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)
    }
    for number in kept:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Running:
    """A command that is under way."""

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
        """Return exit code, stdout and stderr."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE)
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
def test_an_interrupted_call_at_a_url_ends_with_its_stream_and_session(mode, end):
    with hosted(demo_dispatcher()) as host:
        running = Running("call", host.url, "slow", "seconds=60", "--mode", mode)
        host.wait_until(lambda: is_called(host), PATIENCE)
        running.signal(signal.SIGINT)
        assert running.end() == (130, "", "mcpwire: interrupted\n")
        # At 2026-07-28 the end of its stream tells the server.
        said = [request.method or request.verb for request in host.requests]
        assert said[-1] == end


def is_called(host):
    return any(request.method == "tools/call" for request in host.requests)


def test_an_interrupted_call_is_one_line_of_json_where_that_was_asked_for(tool_server):
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


def test_a_server_that_will_not_leave_is_killed(tool_server):
    server = tool_server(stubborn=True, stays=True)
    running = Running("call", server.line, "do")
    server.wait_for("tools/call")
    running.signal(signal.SIGINT)
    code, _, err = running.end()
    assert (code, err) == (130, "mcpwire: interrupted\n")
    assert not server.is_running()


def test_a_second_interrupt_waits_for_nothing(tool_server):
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
    done = {"result": {"content": [{"type": "text", "text": "done"}]}}
    server = tool_server({"until": str(over)}, done)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    running = Running("call", server.line, "do")
    server.wait_for("tools/call")
    running.signal(signal.SIGHUP)
    over.touch()
    assert running.end()[:2] == (0, "done\n")


def test_a_signal_that_comes_before_the_work_is_remembered():
    with asyncio.Runner() as runner:
        signals = Signals(runner.get_loop())
        signals.receive(signal.SIGINT)
        assert (signals.number, signals.is_forced) == (signal.SIGINT, False)


def test_interrupting_what_reads_standard_input_is_clean():
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
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        os.close(read)
        os.close(write)
        process.kill()
    assert (process.returncode, err) == (130, "mcpwire: interrupted\n")


def _wait_until_empty(pipe):
    """Return once somebody has read what is in a pipe."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))):
            return
        time.sleep(0.01)
    pytest.fail("nobody reads it")
