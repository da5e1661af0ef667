"""Measuring a client against the null server."""

import asyncio
import errno
import sys
from pathlib import Path

import pytest
from null_targets import CLIENT_COMMAND

from mcpwire.bench.client_side import measure_client
from mcpwire.errors import ConnectError, RequestTimeout
from mcpwire.testing.procfs import is_alive
from mcpwire.transports.targets import insert_target

RAW = """
import shlex, subprocess, sys
words = shlex.split(sys.argv[1])
pipe = subprocess.PIPE
call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}\\n'
server = subprocess.Popen(words, stdin=pipe, stdout=pipe, bufsize=0)
def ask(count):
    server.stdin.write(call * count)
    for _ in range(count):
        server.stdout.readline()
"""
LINES = len(b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}\n') + len(
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}\n'
)


def program(*parts):
    return [sys.executable, "-c", "\n".join(parts), "{target}"]


@pytest.mark.parametrize(
    ("command", "target", "expected"),
    [
        (["c"], ["py", "a b"], ["c", "py", "a b"]),
        (["c", "{target}", "-v"], ["py", "a b"], ["c", "py 'a b'", "-v"]),
        (["c", "--to={target}"], ["py", "x"], ["c", "--to=py x"]),
        (["sh", "-c", "c {target} | cat"], ["py", "x"], ["sh", "-c", "c py x | cat"]),
        (["c"], ["http://h:1/mcp"], ["c", "http://h:1/mcp"]),
        (["c", "{target}"], ["http://h:1/mcp"], ["c", "http://h:1/mcp"]),
    ],
)
def test_target_placeholder_is_replaced_by_the_null_server(command, target, expected):
    assert insert_target(command, target) == expected


@pytest.mark.parametrize("http", [False, True])
async def test_each_run_has_its_figures(http):
    options = ["--legacy", "--bytes", "1000"]
    figures = await measure_client(CLIENT_COMMAND, http=http, rounds=2, options=options)
    assert (figures.command, figures.http) == (tuple(CLIENT_COMMAND), http)
    first, second = figures.runs
    counts = {"server/discover": 1, "initialize": 1, "tools/call": 20}
    for run in figures.runs:
        assert counts.items() <= run.methods.items()
        assert (run.calls, run.exit_code) == (20, 0)
        assert run.calls_per_s > 0
        assert 0 < run.turnaround_p50_us <= run.turnaround_p99_us
        assert run.octets_per_call > 1000
        assert run.peak_memory > 1_000_000
        if sys.platform == "linux":
            assert run.cpu_us > 0
            assert 0 < run.start_cpu_ms < run.total_cpu_ms
    both = (first.calls_per_s + second.calls_per_s) / 2
    assert figures.median("calls_per_s") == pytest.approx(both)


async def test_concurrent_calls_have_no_turnaround_and_one_call_no_rate():
    several_calls = "for _ in range(10): ask(3)"
    [run] = (await measure_client(program(RAW, several_calls))).runs
    assert (run.calls, run.turnaround_p50_us, run.exit_code) == (30, None, 0)
    assert run.octets_per_call == LINES
    figures = await measure_client(program(RAW, "ask(1)", "sys.exit(3)"))
    [run] = figures.runs
    assert (run.calls, run.calls_per_s, run.cpu_us) == (1, None, None)
    assert run.exit_code == 3
    assert figures.median("calls_per_s") is None


async def test_calls_to_a_trial_server_are_counted_too():
    first_server = "ask(1); server.stdin.close(); server.wait()"
    second_server = (
        "server = subprocess.Popen(words, stdin=pipe, stdout=pipe, bufsize=0)"
    )
    [run] = (
        await measure_client(
            program(RAW, first_server, second_server, "ask(2); ask(2)")
        )
    ).runs
    assert (run.methods, run.calls) == ({"tools/call": 5}, 4)
    assert run.octets_per_call == LINES


async def test_client_that_cannot_be_started_is_a_connect_error():
    with pytest.raises(ConnectError, match="cannot start the client '/no/client'") as e:
        await measure_client(["/no/client", "{target}"])
    assert e.value.errno == errno.ENOENT


@pytest.mark.parametrize("http", [False, True])
async def test_client_that_exits_without_a_call_is_an_error(http):
    command = [sys.executable, "-c", "import sys; sys.exit('no such tool')"]
    text = "ended with exit code 1 without a tools/call; it sent no request"
    with pytest.raises(ConnectError, match=text) as caught:
        await measure_client(command, http=http)
    error = caught.value
    assert (error.exit_code, error.stderr_tail) == (1, "no such tool\n")
    assert "ended with exit code 1 without a tools/call; it sent no request" in str(
        error
    )


@pytest.mark.parametrize("http", [False, True])
async def test_client_that_does_not_exit_is_killed(http, tmp_path):
    hang = "import os, pathlib, signal, sys\n"
    hang += f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
    hang += "signal.pause()"
    text = "it did not end by itself and was stopped; it sent no request"
    with pytest.raises(RequestTimeout, match=text):
        await measure_client([sys.executable, "-c", hang], http=http, timeout=2.0)
    assert is_gone(tmp_path / "pid")


async def test_client_that_kills_its_server_is_an_error():
    killing = program(RAW, "ask(1)", "server.kill()", "server.wait()")
    with pytest.raises(ConnectError, match="killed its server, which could not report"):
        await measure_client(killing)


async def test_error_without_a_call_names_the_methods_that_were_sent():
    ping = RAW.replace("tools/call", "ping")
    with pytest.raises(ConnectError, match="without a tools/call; it sent 2 ping"):
        await measure_client(program(ping, "ask(2)"))


async def test_cancelled_measurement_kills_the_client(tmp_path):
    pid = tmp_path / "pid"
    report = f"open({str(pid)!r}, 'w').write(str(server.pid))"
    measuring = asyncio.create_task(
        measure_client(program(RAW, "ask(1)", report, "server.wait()"))
    )
    while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # poll until the client has written the process id
    measuring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await measuring
    assert is_gone(pid)


def is_gone(file: Path):
    """Return whether the process with the id in the file has ended or never started."""
    text = file.read_text() if file.exists() else ""
    return not text or not is_alive(int(text))
