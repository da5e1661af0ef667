"""Serving on stdin and stdout of any kind: only messages on stdout, a quick exit."""

import asyncio
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from raw_client import Hand, modern, request, server, session, success

from mcpwire import Client, Limits, Stdio
from mcpwire.server import stdio
from mcpwire.server.stdio import run_stdio, serve_stdio

TIMEOUT_S = 30.0

# Output printed before the server runs must stay in the buffer.
BUFFERED = {**os.environ, "PYTHONUNBUFFERED": ""}

DEMO = [sys.executable, "-m", "mcpwire.server.demo"]
SLOW = {"name": "slow", "arguments": {"seconds": 3_600}}

PRELUDE = """
import asyncio, os, subprocess, sys
from mcpwire.server.dispatcher import Dispatcher
from mcpwire.server.stdio import run_stdio
from mcpwire.types import Implementation
def serve(tool):
    methods = {"tools/call": tool}
    info = Implementation("t", "1")
    sys.exit(run_stdio(Dispatcher(info, capabilities={"tools": {}}, methods=methods)))
def text(text):
    return {"content": [{"type": "text", "text": text}]}
"""


def lines(*messages):
    return "".join(json.dumps(message) + "\n" for message in messages).encode()


def messages(data):
    return [json.loads(line) for line in data.splitlines()]


def opened(*more):
    """Return the bytes that open a session and send more messages."""
    return lines(request(0, "initialize", session()), *more)


@contextmanager
def child(argv=DEMO, **options):
    """Run a server on three pipes; kill it at the end."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(argv, bufsize=0, **{**pipes, **options}) as process:
        try:
            yield process
        finally:
            process.kill()


def scripted(body):
    return [sys.executable, "-c", PRELUDE + body]


def run(data, argv=DEMO, **options):
    """Feed a server its whole input; return its messages, stderr and exit code."""
    with child(argv, **options) as process:
        out, err = process.communicate(data, timeout=TIMEOUT_S)
        return messages(out or b""), (err or b"").decode(), process.returncode


def read_lines(process, count):
    """Wait for that many lines."""
    return messages(read_from(process.stdout.fileno(), count))


def read_from(fd, count):
    data = b""
    deadline = time.monotonic() + TIMEOUT_S
    while data.count(b"\n") < count:
        ready, _, _ = select.select([fd], [], [], deadline - time.monotonic())
        assert ready, f"only {data!r} came"
        piece = os.read(fd, 65_536)
        assert piece, f"the stream ended after {data!r}"
        data += piece
    return data


@pytest.mark.case("A07", "A09")
def test_requests_before_the_end_of_input_are_answered():
    requests = [
        request(n, "tools/call", {"name": "echo", "arguments": {"message": str(n)}})
        for n in range(1, 51)
    ]
    data = opened(*requests, request(51, "ping")).removesuffix(b"\n")
    answers, err, code = run(data.replace(b"\n", b"\r\n"))
    assert (err, code) == ("", 0)
    assert {answer["id"] for answer in answers} == set(range(52))
    texts = {a["id"]: a["result"].get("content", [{}])[0].get("text") for a in answers}
    assert all(texts[n] == str(n) for n in range(1, 51))


STUBBORN = """
async def tool(params, request):
    while True:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            pass
serve(tool)
"""

THREADED = """
import time
async def tool(params, request):
    await asyncio.to_thread(time.sleep, 3_600)
serve(tool)
"""


@pytest.mark.rule("TR-STDIO-13")
@pytest.mark.case("A07")
@pytest.mark.parametrize(
    "argv",
    [DEMO, scripted(STUBBORN), scripted(THREADED)],
    ids=["slow", "stubborn", "threaded"],
)
def test_server_exits_at_end_of_input_during_a_long_call(argv):
    with child(argv) as process:
        call = request(1, "tools/call", SLOW, {"progressToken": 1})
        process.stdin.write(opened(call, request(2, "ping")))
        assert [line["id"] for line in read_lines(process, 2)] == [0, 2]
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_server_exits_when_its_stdout_is_not_read():
    with child() as process:
        echo = {"name": "echo", "arguments": {"message": "x" * 50_000}}
        requests = [modern(n, "tools/call", echo) for n in range(20)]
        process.stdin.write(lines(*requests))
        read_from(process.stdout.fileno(), 1)
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.fault("F05", "F06")
def test_server_exits_when_its_stdout_is_closed():
    with child() as process:
        process.stdin.write(lines(modern(1, "server/discover")))
        read_lines(process, 1)
        process.stdout.close()
        process.stdin.write(lines(modern(2, "server/discover")))
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr.read() == b""


@pytest.fixture
def files(tmp_path):
    requests = tmp_path / "asked"
    requests.write_bytes(opened(request(1, "ping")))
    with requests.open("rb") as source, (tmp_path / "answers").open("w+b") as sink:
        yield source, sink


def test_stdin_and_stdout_may_be_files(files):
    source, sink = files
    _, err, code = run(None, stdin=source, stdout=sink)
    sink.seek(0)
    answers = messages(sink.read())
    assert (err, code) == ("", 0)
    assert answers[1:] == [success(1, {})]


def test_stdin_and_stdout_may_be_devnull():
    assert run(None, stdin=subprocess.DEVNULL) == ([], "", 0)
    assert run(opened(), stdout=subprocess.DEVNULL) == ([], "", 0)


def test_stdin_and_stdout_may_be_one_socket():
    client_end, server_end = socket.socketpair()
    with client_end, server_end, child(stdin=server_end, stdout=server_end) as process:
        client_end.sendall(opened(request(1, "ping")))
        assert messages(read_from(client_end.fileno(), 2))[1:] == [success(1, {})]
        client_end.shutdown(socket.SHUT_WR)
        assert process.wait(TIMEOUT_S) == 0
        assert server_end.getblocking()


def test_stdin_and_stdout_may_be_a_terminal_kept_blocking():
    client_end, server_end = pty.openpty()
    try:
        with child(stdin=server_end, stdout=server_end) as process:
            requests = opened(request(1, "ping"))
            os.write(client_end, requests)
            shown = read_from(client_end, 4)  # the terminal echoes its input
            assert messages(shown)[3] == success(1, {})
            assert os.get_blocking(server_end)
            os.write(client_end, b"\x04")
            assert process.wait(TIMEOUT_S) == 0
            assert process.stderr.read() == (
                b"mcpwire: waiting for a client's messages on standard input; "
                b"Ctrl-C ends it\n"
            )
        assert os.get_blocking(server_end)
    finally:
        os.close(client_end)
        os.close(server_end)


def test_stderr_may_be_missing():
    argv = ["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', *scripted(PRINTING)]
    answers, _, code = run(
        opened(request(1, "tools/call", {"name": "x"})), argv, env=BUFFERED
    )
    assert [answer["id"] for answer in answers] == [0, 1]
    assert code == 0


PRINTING = """
async def tool(params, request):
    print("printed", flush=True)
    os.write(1, b"written\\n")
    subprocess.run(["/bin/sh", "-c", "echo from a child"], check=True)
    print("printed late")
    return text("done")
print("started")
serve(tool)
"""


@pytest.mark.rule("TR-STDIO-02")
@pytest.mark.case("A02")
@pytest.mark.pain("P15")
def test_output_of_handlers_and_children_goes_to_stderr():
    call = request(1, "tools/call", {"name": "x"})
    answers, err, code = run(opened(call), scripted(PRINTING), env=BUFFERED)
    assert [answer["id"] for answer in answers] == [0, 1]
    assert code == 0
    printed = ["started", "printed", "written", "from a child", "printed late"]
    assert sorted(err.splitlines()) == sorted(printed)


READING = """
async def tool(params, request):
    done = subprocess.run(["cat"], capture_output=True, text=True, check=True)
    return text(repr((done.stdout, sys.stdin.read())))
serve(tool)
"""


def test_handlers_and_their_children_read_empty_stdin():
    calls = [request(n, "tools/call", {"name": "x"}) for n in range(1, 4)]
    answers, err, code = run(opened(*calls), scripted(READING))
    assert (err, code) == ("", 0)
    texts = [answer["result"]["content"][0]["text"] for answer in answers[1:]]
    assert texts == ["('', '')"] * 3


EXITING = """
async def tool(params, request):
    sys.exit("the tool wants out")
serve(tool)
"""


@pytest.mark.attack("S12")
def test_system_exit_in_a_tool_does_not_end_the_server():
    calls = [request(n, "tools/call", {"name": "x"}) for n in (1, 2)]
    answers, err, code = run(opened(*calls), scripted(EXITING))
    assert [answer["result"].get("isError") for answer in answers] == [None, True, True]
    assert code == 0
    assert "the tool wants out" in err


@pytest.mark.parametrize(
    ("number", "is_busy"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, True)],
    ids=["interrupted", "interrupted in a call", "terminated in a call"],
)
def test_signal_ends_the_server_without_output(number, is_busy):
    with child() as process:
        calls = [request(1, "tools/call", SLOW)] if is_busy else []
        process.stdin.write(opened(*calls, request(2, "ping")))
        read_lines(process, 2)
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 128 + number
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


@pytest.mark.rule("SUB-11")
def test_signal_ends_subscriptions_with_their_result():
    with child() as process:
        filter = {"notifications": {"toolsListChanged": True}}
        process.stdin.write(lines(modern(1, "subscriptions/listen", filter)))
        read_lines(process, 1)
        process.send_signal(signal.SIGTERM)
        result, cancelled = messages(process.stdout.read())
        assert (result["id"], result["result"]["resultType"]) == (1, "complete")
        assert cancelled["params"] == {"requestId": 1}
        assert process.wait(TIMEOUT_S) == 128 + signal.SIGTERM


def test_interrupt_before_the_loop_runs_returns_130(monkeypatch):
    def interrupted(coroutine):
        coroutine.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(stdio.asyncio, "run", interrupted)
    assert run_stdio(server()) == 130


@contextmanager
def pipes():
    """Give the two descriptors of a server and the client's ends of them."""
    server_in, client_out = os.pipe()
    client_in, server_out = os.pipe()
    try:
        yield server_in, server_out, client_in, client_out
    finally:
        for fd in (server_in, server_out, client_in):
            os.close(fd)


def state_of(*fds):
    return [
        (os.fstat(fd).st_ino, os.get_blocking(fd), os.get_inheritable(fd)) for fd in fds
    ]


@pytest.mark.parametrize("is_blocking", [True, False])
async def test_descriptor_modes_are_restored(is_blocking):
    with pipes() as (server_in, server_out, client_in, client_out):
        os.set_blocking(server_in, is_blocking)
        os.set_inheritable(server_out, True)
        before = state_of(server_in, server_out)
        os.write(client_out, opened())
        os.close(client_out)
        await serve_stdio(server(), stdin_fd=server_in, stdout_fd=server_out)
        assert state_of(server_in, server_out) == before
        assert [m["id"] for m in messages(read_from(client_in, 1))] == [0]


async def test_cancelling_ends_handlers_and_restores_descriptors():
    started, ended = asyncio.Event(), asyncio.Event()

    async def tool(params, request):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pipes() as (server_in, server_out, _, client_out):
        before = state_of(server_in, server_out)
        dispatcher = server({"tools/call": tool}, {"tools": {}})
        serving = asyncio.create_task(
            serve_stdio(dispatcher, stdin_fd=server_in, stdout_fd=server_out)
        )
        # The last line is not terminated, so it is not a request yet.
        os.write(
            client_out,
            opened(request(1, "tools/call")) + lines(request(2, "ping"))[:-1],
        )
        await started.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert ended.is_set()
        assert state_of(server_in, server_out) == before
        os.close(client_out)


@pytest.mark.attack("S13")
async def test_oversized_line_ends_the_connection_and_is_logged(caplog):
    with pipes() as (server_in, server_out, _, client_out):
        os.write(client_out, b"x" * 2_000)
        await serve_stdio(
            server(limits=Limits(message=1_000)),
            stdin_fd=server_in,
            stdout_fd=server_out,
        )
        os.close(client_out)
    [record] = caplog.records
    assert "Limits.message" in record.getMessage()


async def test_unterminated_line_is_not_run_at_the_close():
    wire = Hand(server({"tools/call": None}, {"tools": {}}), "2025-11-25")
    wire.receive(lines(request(1, "tools/call"))[:-1])
    await wire.connection.aclose()
    assert wire.rest() == []


async def test_client_starts_calls_and_stops_the_server():
    updates = []
    async with Client(Stdio(DEMO[0], DEMO[1:])) as client:
        assert client.protocol_version == "2026-07-28"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == '{"sum":3}'
        arguments = {"steps": 2, "seconds": 0}
        await client.call_tool(
            "slow", arguments, on_progress=lambda *s: updates.append(s)
        )
    assert [step[:2] for step in updates] == [(1, 2), (2, 2)]
