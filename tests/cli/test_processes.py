"""The command line as a process: exit codes, streams, environment, Ctrl-C, demo."""

import asyncio
import fcntl
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from cli_servers import DONE, MCPWIRE, TIMEOUT_S, run_program
from hosting import hosted

import mcpwire
from mcpwire.cli import commands, demo
from mcpwire.cli.main import OVERVIEW, parse
from mcpwire.cli.session import Signals, in_session
from mcpwire.server.demo import demo_dispatcher

TEXT = {"type": "text", "text": "fine"}

needs_full_device = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no /dev/full on this system"
)

# A command line, its exit code, and a part of its line on stderr.
BAD_INPUT = [
    ("lst x", 2, "mcpwire: unknown command 'lst'; did you mean 'ls'?\n"),
    (
        "ls http://user:secret@example.com/mcp?key=1",
        2,
        "'http://***@example.com/mcp?***': it must not hold a user name or password\n",
    ),
    ("ls ws://example.com/mcp", 2, "its scheme must be http or https, not 'ws'\n"),
    ("ls ' '", 2, "mcpwire: the server's command line is empty\n"),
    ('ls "\'x"', 2, 'cannot split the command line "\'x": No closing quotation\n'),
    ("ls x --mode y", 2, "mode must be one of auto, session, stateless, prefer-sess"),
    ("ls /no/such/server", 4, "cannot start '/no/such/server': command not found"),
    ("ls /tmp", 4, "mcpwire: cannot start '/tmp': it is a directory\n"),
    ("ls /etc/passwd", 4, "Permission denied; it is not an executable"),
    ("ls true --cwd /no/where", 4, "working directory '/no/where' does not exist"),
    ("ls true", 4, "the handshake failed: the server exited with code 0"),
    ("ls cat", 4, "check that it is an MCP server over stdio"),
    ("ls 'echo hello'", 4, "not protocol messages, first: 'hello'"),
    ("call true x a=@/tmp", 2, "argument 'a': cannot read '/tmp': is a directory (for"),
]


@pytest.mark.parametrize(("line", "code", "sentence"), BAD_INPUT)
def test_bad_input_is_one_line_and_one_exit_code(cli, line, code, sentence):
    done = cli(*shlex.split(line))
    assert (done.code, done.out) == (code, "")
    assert done.err.count("\n") == 1
    assert done.err.startswith("mcpwire: ")
    assert sentence in done.err


@pytest.mark.parametrize("line", ["lst x", "ls /no/such/server", "ls cat"])
def test_child_process_has_the_same_output_and_exit_code(cli, child, line):
    words = shlex.split(line)
    assert child(*words) == cli(*words)


def test_silent_server_ends_in_a_timeout(cli):
    code, out, err = cli("ls", "sleep 100", "--timeout", "0.5")
    assert (code, out) == (7, "")
    match = re.search(r": no answer within 0\.5 s \(after (\S+) s\); ", err)
    assert 0.5 <= float(match[1]) < 10
    assert (
        "; to change the limit: --timeout SECONDS; check that it is an MCP server "
        in err
    )
    assert err.count("\n") == 1


def test_last_stderr_line_of_a_dead_server_is_quoted(cli):
    code, _, err = cli("ls", "sh -c 'echo starting >&2; echo no key >&2; exit 3'")
    assert code == 4
    assert "exited with code 3" in err
    assert "last line of stderr: 'no key'" in err


def test_error_with_json_is_one_object(cli):
    code, out, err = cli("ls", "--json", "/no/such/server")
    assert (code, out) == (4, "")
    assert json.loads(err) == {
        "error": {
            "type": "ConnectError",
            "exit": 4,
            "message": "cannot start '/no/such/server': command not found",
            "details": {"target": "/no/such/server", "errno": 2},
        }
    }


# Arguments, and the embedded server...


def test_arguments_are_read_from_standard_input(child, tool_server):
    server = tool_server({"result": {"content": [TEXT]}})
    done = child("call", server.line, "do", "-", given=b'{"message": "from stdin"}')
    assert done == (0, "fine\n", "")
    [params] = server.requests("tools/call")
    assert params["arguments"] == {"message": "from stdin"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (b"\xff", "cannot read standard input: it is not UTF-8 text (byte 0)\n"),
        (b"", "standard input is not JSON: ''"),
        (b"{", "standard input is not JSON: '{'"),
        (b"{} {}", "standard input is not JSON: '{} {}'"),
        (b"[]", "standard input must be one JSON object, got []\n"),
    ],
)
def test_stdin_that_is_not_an_object_is_a_one_line_error(cli, stdin, given, sentence):
    stdin(given)
    code, _, err = cli("call", "true", "x", "-")
    assert code == 2
    assert err.startswith(f"mcpwire: {sentence}")


def test_file_that_is_not_utf8_is_a_one_line_error(cli, tmp_path):
    path = tmp_path / "binary"
    path.write_bytes(b"ok\xff")
    code, _, err = cli("call", "true", "x", f"a=@{path}")
    assert code == 2
    assert "it is not UTF-8 text (byte 2)" in err


def test_arguments_that_are_not_utf8_are_refused(tool_server):
    done = run_program(*MCPWIRE, "call", tool_server().line, "do", b"message=\xff")
    assert done.returncode == 2
    assert done.stderr.startswith("mcpwire: cannot send $.params.arguments.message")
    assert done.stderr.count("\n") == 1


def test_the_demo_shows_each_step(child):
    code, out, err = child("demo")
    assert (code, err) == (0, "")
    steps = re.findall(r"^ *[\d.]+ ms  (\S+(?: \S+)*)", out, re.MULTILINE)
    assert steps == [
        "connect",
        "list tools",
        "call a tool",
        "progress",
        "read",
        "prompt",
        "time out",
        "one at a time",
        "32 in flight",
        "close",
    ]
    assert "4/4  step 4 of 4" in out
    assert out.endswith("\nEverything worked.\n")


def test_the_demo_as_json_is_one_document(cli):
    found = json.loads(cli("demo", "--json").out)
    assert [step["step"] for step in found["steps"]][:2] == ["connect", "list tools"]
    assert all(step["milliseconds"] > 0 for step in found["steps"])


@pytest.mark.parametrize("path", [None, "/somewhere"])
def test_demo_server_inherits_our_python_path(monkeypatch, path):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    options = parse(["demo"])
    demo.use_demo_server(options)
    assert options.command[1:] == ("-m", "mcpwire", "demo-server")
    assert options.env == ([("PYTHONPATH", path)] if path else [])


def test_demo_server_ends_at_the_end_of_its_input(child):
    request = {"jsonrpc": "2.0", "id": 1, "method": "nonsense"}
    code, out, _ = child("demo-server", given=json.dumps(request).encode() + b"\n")
    assert code == 0
    assert json.loads(out)["id"] == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_broken_pipe_exits_quietly_with_141(scripted, unbuffered):
    tools = [{"name": "x" * 60_000, "inputSchema": {}}] * 10
    server = scripted({"tools": {}}, tools__list=[{"result": {"tools": tools}}])
    command = shlex.join([*MCPWIRE, "ls", server.line])
    line = f"{command} | head -c 5; echo ${{PIPESTATUS[0]}}"
    done = run_program(
        "bash", "-c", line, env={**os.environ, "PYTHONUNBUFFERED": unbuffered}
    )
    assert (done.stdout, done.stderr) == ("Tools141\n", "")


@needs_full_device
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["ls", "--help"]])
def test_full_disk_is_a_one_line_error(words):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = run_program(*MCPWIRE, *words, stdout=full)
    assert done.returncode == 1
    assert done.stderr == (
        "mcpwire: cannot write to standard output: no space left on device\n"
    )


@needs_full_device
def test_failed_write_of_the_result_leaves_no_server_running(tool_server):
    server = tool_server({"result": {"content": [TEXT]}}, stays=True)
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = run_program(*MCPWIRE, "call", server.line, "do", stdout=full)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert not server.is_running()


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        ("--version", ">&-", 1),
        ("call true x -", "<&-", 2),
        ("lst", "2>&-", 2),
        pytest.param("", "2>/dev/full", 2, marks=needs_full_device),
        pytest.param("lst", "2>/dev/full", 2, marks=needs_full_device),
    ],
)
def test_closed_standard_streams_cause_no_traceback(words, closed, code):
    done = run_program("sh", "-c", f"exec {shlex.join(MCPWIRE)} {words} {closed}")
    assert done.returncode == code
    assert done.stderr.count("\n") <= 1
    assert "Traceback" not in done.stderr


def test_unencodable_characters_are_escaped_in_the_output(child, tool_server):
    server = tool_server({"result": {"content": [{"type": "text", "text": "é€"}]}})
    done = child("call", server.line, "do", env={"PYTHONIOENCODING": "ascii"})
    assert done == (0, "\\xe9\\u20ac\n", "")


def test_verbose_shows_messages_handshake_and_server_stderr(cli, tool_server):
    long = {"type": "text", "text": "x" * 2000}
    server = tool_server(
        {"stderr": "first\nsecond \x1b[31m\xff"},
        {"method": "notifications/message", "params": {"level": "info", "data": "hi"}},
        {"result": {"content": [long]}},
    )
    code, out, err = cli("call", "-v", server.line, "do")
    assert (code, out) == (0, f"{'x' * 2000}\n")
    lines = [re.sub(r"^ *[\d.]+ s  ", "", line) for line in err.splitlines()]
    assert lines[0] == f"started {server.line}"
    assert lines[1].startswith('--> {"jsonrpc":"2.0","id":1,"method":"server/discover"')
    assert '<-- {"jsonrpc": "2.0", "id": 1, "error":' in err
    assert "2025-11-25: the server answered initialize" in err
    assert "server: first" in lines
    assert "server: second \\x1b[31m\xff" in lines
    assert any(
        line.startswith('<-- {"jsonrpc": "2.0", "method": "noti') for line in lines
    )
    assert "characters, -vv shows all)" in err
    assert "x" * 2000 not in err
    assert "x" * 2000 in cli("call", "-vv", server.line, "do").err


def test_internal_error_is_one_line_and_verbose_a_traceback(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import sys\n"
        "from mcpwire.cli import commands\nfrom mcpwire.cli.main import main\n"
        "def ls(options):\n"
        "    raise ZeroDivisionError('a bug')\n"
        "commands.ls = ls\n"
        "sys.exit(main())\n",
        encoding="utf-8",
    )
    target = shlex.join((*MCPWIRE, "demo-server"))
    argv = [sys.executable, str(broken), "ls", target]
    done = run_program(*argv)
    sentence = (
        "mcpwire: internal error: ZeroDivisionError: a bug; -v shows the traceback\n"
    )
    assert (done.returncode, done.stderr) == (1, sentence)
    done = run_program(*argv, "-v")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith(sentence)


def test_library_log_is_shown_only_with_verbose(cli, scripted, monkeypatch):
    async def work(_):
        logging.getLogger("mcpwire.part").warning("look %s", "here\x1b")
        return 0

    monkeypatch.setattr(commands, "ping", in_session(work))
    before = logging.getLogger("mcpwire").handlers
    assert cli("ping", scripted().line) == (0, "", "")
    assert "log: look here\\x1b\n" in cli("ping", "-v", scripted().line).err
    assert logging.getLogger("mcpwire").handlers == before


# An exception in the server...

TRACEBACK = {"stderr": "Traceback (most recent call last):\n  ...\nKeyError: 'shelf'\n"}
ADVICE = "; -v shows the server's traceback\n"
FAILED = {"result": {"content": [], "isError": True}}
REFUSED = {"error": {"code": -32603, "message": "the handler failed"}}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (FAILED, "mcpwire: tool 'do' reported an error"),
        (REFUSED, "mcpwire: tools/call: the handler failed (JSON-RPC error -32603)"),
    ],
)
def test_error_mentions_the_traceback_of_the_server(cli, tool_server, step, message):
    assert cli("call", tool_server(TRACEBACK, step).line, "do").err == message + ADVICE


def test_verbose_shows_the_traceback_without_the_advice(cli, tool_server):
    done = cli("call", tool_server(TRACEBACK, FAILED).line, "do", "-v")
    assert "server: KeyError: 'shelf'\n" in done.err
    assert ADVICE not in done.err


@pytest.mark.parametrize("written", ["", "listening\n", "x" * 10_000])
def test_error_without_a_traceback_has_no_advice(cli, tool_server, written):
    done = cli("call", tool_server({"stderr": written}, FAILED).line, "do")
    assert done.err == "mcpwire: tool 'do' reported an error\n"


@pytest.mark.attack("S20")
@pytest.mark.parametrize(
    ("options", "secret"),
    [
        ([], None),
        (["--env", "SECRET_TOKEN"], "ours"),
        (["--env", "SECRET_TOKEN=theirs"], "theirs"),
        (["--inherit-env"], "ours"),
    ],
)
def test_server_gets_only_the_given_environment_variables(
    child, tool_server, options, secret
):
    server = tool_server({"environ": True})
    done = child("call", *options, server.line, "do", env={"SECRET_TOKEN": "ours"})
    found = json.loads(done.out)
    assert found.get("SECRET_TOKEN") == secret
    assert found["PATH"] == os.environ["PATH"]


def test_cwd_option_sets_the_working_directory_of_the_server(cli, tmp_path):
    (tmp_path / "here").write_text("x", encoding="utf-8")
    err = cli("ls", "--cwd", str(tmp_path), "--", "ls").err
    assert "first: 'here'" in err


QUIET_START = """
import sys
before = set(sys.modules)  # whoever measures coverage has loaded some already
from mcpwire.cli.main import main
code = main({words})
loaded = sorted(set({heavy}) & set(sys.modules) - before)
sys.exit(f"code {{code}}, loaded {{loaded}}" if code or loaded else 0)
"""
HEAVY = [
    "argparse",
    "asyncio",
    "attr",
    "json",
    "mcpwire.client",
    "mcpwire.errors",
    "orjson",
]


@pytest.mark.pain("P39")
@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], HEAVY),
        (["--version"], HEAVY),
        (["ls", "--help"], [name for name in HEAVY if name != "argparse"]),
    ],
)
def test_help_does_not_import_the_client(words, heavy):
    code = QUIET_START.format(words=words, heavy=heavy)
    done = run_program(sys.executable, "-I", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_help_and_version_print_the_documented_text(child):
    assert child("--help") == (0, OVERVIEW, "")
    assert child("-h").out == child("help").out == OVERVIEW
    assert child("help", "ls") == child("ls", "--help")
    assert child("help", "auth") == child("auth", "--help")
    assert child("help", "nothing").err.startswith("mcpwire: unknown command 'nothing'")
    assert child("--version") == (0, f"mcpwire {mcpwire.__version__}\n", "")
    assert child() == (2, "", OVERVIEW)


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
        time.sleep(0.01)  # a read pipe gives no signal
    pytest.fail("the pipe was not read")
