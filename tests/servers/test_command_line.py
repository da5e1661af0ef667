"""The command line against real servers, as a person types it."""

import json
import signal
import subprocess
import sys

import anyio
import pytest
from child_python import finished

pytestmark = pytest.mark.servers

TIMEOUT_S = 60.0
MCPWIRE = (sys.executable, "-m", "mcpwire")
FRAMEWORKS = ["sdk", "fastmcp"]


def mcpwire(server, command, *words):
    options = [f"--env={name}={value}" for name, value in server.env.items()]
    return run(command, *options, *words, "--", *server.argv)


def run(*words):
    return finished(*MCPWIRE, *words, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_ls_shows_signatures_and_everything_else(warm, name):
    done = mcpwire(warm(name), "ls")
    assert (done.returncode, done.stderr) == (0, "")
    for expected in (
        "echo(message: str)",
        "add(a: int, b: int = 0)",
        "note://hello",
        "greeting://{name}",
        "review",
    ):
        assert expected in done.stdout


def test_call_coerces_by_the_schema_and_prints_the_result(warm):
    server = warm("everything")
    done = mcpwire(server, "call", "get-sum", "a=2", "b:=3")
    assert (done.returncode, done.stdout) == (0, "The sum of 2 and 3 is 5.\n")
    done = mcpwire(server, "call", "echo", "message=7", "--json")
    assert json.loads(done.stdout)["content"][0]["text"] == "Echo: 7"


@pytest.mark.parametrize(
    ("name", "words", "code", "part"),
    [
        ("sdk", ("call", "fail", "reason=too late"), 5, "too late"),
        ("sdk", ("call", "nope"), 2, "nope"),
        ("sdk", ("read", "note://nope"), 8, "note://nope"),
        ("time", ("call", "--no-check", "nope"), 8, "Unknown tool: nope"),
        ("memory", ("prompt", "nope"), 2, "the server does not declare prompts"),
        ("everything", ("info", "--mode=stateless"), 4, "server/discover"),
    ],
)
def test_failures_are_one_sentence_and_their_exit_code(warm, name, words, code, part):
    done = mcpwire(warm(name), *words)
    assert done.returncode == code
    assert part in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("cat",), ("sh", "-c", "echo no such thing >&2")])
def test_a_program_other_than_an_mcp_server_is_an_error(words):
    done = run("ls", "--timeout=2", "--", *words)
    assert done.returncode in {4, 6, 7}
    assert done.stdout == ""
    assert done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "revision"), [("memory", "2025-11-25"), ("git", "2026-07-28")]
)
def test_info_shows_the_revision_and_the_negotiation(warm, name, revision):
    done = mcpwire(warm(name), "info")
    assert done.returncode == 0
    assert revision in done.stdout
    assert "server/discover" in done.stdout


@pytest.mark.pain("P06", "P09")
def test_an_interrupt_ends_the_call_and_leaves_no_child(real, connect):
    server = real("sdk")
    mark = f"--env=MCPWIRE_TEST_PROCESS={connect.token}"
    process = subprocess.Popen(
        (*MCPWIRE, "call", "-v", mark, "hang", "name=x", "--", *server.argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        for line in process.stderr:
            if "tools/call" in line:
                break
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert "Traceback" not in errors
    anyio.run(connect.gone)
