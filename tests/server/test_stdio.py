"""Serving on stdin and stdout: whatever they are, nothing but messages, a quick end."""

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
from by_hand import Hand, modern, notice, request, server, session, success

from mcpwire import Client, Limits, Stdio
from mcpwire.server import stdio
from mcpwire.server.stdio import run_stdio, serve_stdio

PATIENCE = 30.0

# What is printed before the server runs must wait in its buffer.
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
    """Return the bytes that open a session and ask for more."""
    return lines(request(0, "initialize", session()), *more)


@contextmanager
def child(argv=DEMO, **options):
    """Run a server on three pipes; whatever happens, it is gone afterwards."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(argv, bufsize=0, **{**pipes, **options}) as process:
        try:
            yield process
        finally:
            process.kill()


def scripted(body):
    return [sys.executable, "-c", PRELUDE + body]


def run(data, argv=DEMO, **options):
    """Feed a server its whole input; return its messages, its stderr, its exit code."""
    with child(argv, **options) as process:
        out, err = process.communicate(data, timeout=PATIENCE)
        return messages(out or b""), (err or b"").decode(), process.returncode


def read_lines(process, count):
    """Wait for so many lines."""
    return messages(read_from(process.stdout.fileno(), count))


def read_from(fd, count):
    data = b""
    deadline = time.monotonic() + PATIENCE
    while data.count(b"\n") < count:
        ready, _, _ = select.select([fd], [], [], deadline - time.monotonic())
        assert ready, f"only {data!r} came"
        piece = os.read(fd, 65_536)
        assert piece, f"the stream ended after {data!r}"
        data += piece
    return data


# The end of input...


@pytest.mark.rule("TR-STDIO-13")
@pytest.mark.case("A07")
def test_it_exits_at_the_end_of_input_though_a_call_would_take_an_hour():
    with child() as process:
        call = request(1, "tools/call", SLOW, {"progressToken": 1})
        process.stdin.write(opened(call, request(2, "ping")))
        assert [line["id"] for line in read_lines(process, 2)] == [0, 2]
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


@pytest.mark.case("A07", "A09")
def test_what_was_asked_before_the_end_of_input_is_answered():
    asked = [
        request(n, "tools/call", {"name": "echo", "arguments": {"message": str(n)}})
        for n in range(1, 51)
    ]
    data = opened(*asked, request(51, "ping")).removesuffix(b"\n")
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
@pytest.mark.parametrize("body", [STUBBORN, THREADED], ids=["stubborn", "threaded"])
def test_no_handler_holds_up_its_exit(body):
    with child(scripted(body)) as process:
        process.stdin.write(opened(request(1, "tools/call"), request(2, "ping")))
        read_lines(process, 2)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_it_ends_when_nobody_reads_its_answers():
    with child() as process:
        echo = {"name": "echo", "arguments": {"message": "x" * 50_000}}
        asked = [modern(n, "tools/call", echo) for n in range(20)]
        process.stdin.write(lines(*asked))
        read_from(process.stdout.fileno(), 1)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.fault("F05", "F06")
def test_it_ends_when_its_answers_have_nowhere_to_go():
    with child() as process:
        process.stdin.write(lines(modern(1, "server/discover")))
        read_lines(process, 1)
        process.stdout.close()
        process.stdin.write(lines(modern(2, "server/discover")))
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == b""


# Whatever stdin and stdout are...


@pytest.fixture
def files(tmp_path):
    asked = tmp_path / "asked"
    asked.write_bytes(opened(request(1, "ping")))
    with asked.open("rb") as source, (tmp_path / "answers").open("w+b") as sink:
        yield source, sink


def test_stdin_and_stdout_may_be_files(files):
    source, sink = files
    _, err, code = run(None, stdin=source, stdout=sink)
    sink.seek(0)
    answers = messages(sink.read())
    assert (err, code) == ("", 0)
    assert answers[1:] == [success(1, {})]


def test_stdin_may_be_nothing():
    assert run(None, stdin=subprocess.DEVNULL) == ([], "", 0)


def test_stdout_may_be_nothing():
    assert run(opened(), stdout=subprocess.DEVNULL) == ([], "", 0)


def test_stdin_and_stdout_may_be_one_socket():
    ours, theirs = socket.socketpair()
    with ours, theirs, child(stdin=theirs, stdout=theirs) as process:
        ours.sendall(opened(request(1, "ping")))
        assert messages(read_from(ours.fileno(), 2))[1:] == [success(1, {})]
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0
        assert theirs.getblocking()


def test_stdin_and_stdout_may_be_a_terminal_which_stays_as_it_was():
    ours, theirs = pty.openpty()
    try:
        with child(stdin=theirs, stdout=theirs) as process:
            asked = opened(request(1, "ping"))
            os.write(ours, asked)
            shown = read_from(ours, 4)  # the terminal echoes what is typed
            assert messages(shown)[3] == success(1, {})
            assert os.get_blocking(theirs)
            os.write(ours, b"\x04")
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == (
                b"mcpwire: waiting for a client's messages on standard input; "
                b"Ctrl-C ends it\n"
            )
        assert os.get_blocking(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def test_stderr_may_be_missing():
    argv = ["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', *scripted(PRINTING)]
    answers, _, code = run(
        opened(request(1, "tools/call", {"name": "x"})), argv, env=BUFFERED
    )
    assert [answer["id"] for answer in answers] == [0, 1]
    assert code == 0


# Nothing but messages...

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
def test_what_handlers_and_their_children_print_goes_to_stderr():
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


def test_what_handlers_and_their_children_read_is_not_the_protocol():
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
def test_a_tool_that_exits_does_not_end_the_server():
    calls = [request(n, "tools/call", {"name": "x"}) for n in (1, 2)]
    answers, err, code = run(opened(*calls), scripted(EXITING))
    assert [answer["result"].get("isError") for answer in answers] == [None, True, True]
    assert code == 0
    assert "the tool wants out" in err


# Signals...


@pytest.mark.parametrize(
    ("number", "is_busy"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, True)],
    ids=["interrupted", "interrupted in a call", "terminated in a call"],
)
def test_a_signal_ends_it_quietly(number, is_busy):
    with child() as process:
        calls = [request(1, "tools/call", SLOW)] if is_busy else []
        process.stdin.write(opened(*calls, request(2, "ping")))
        read_lines(process, 2)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 128 + number
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_an_interrupt_before_the_loop_runs_is_quiet_too(monkeypatch):
    def interrupted(coroutine):
        coroutine.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(stdio.asyncio, "run", interrupted)
    assert run_stdio(server()) == 130


# In this process...


@contextmanager
def pipes():
    """Give a server's two descriptors and the client's ends of them."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    try:
        yield theirs_in, theirs_out, ours_in, ours_out
    finally:
        for fd in (theirs_in, theirs_out, ours_in):
            os.close(fd)


def state_of(*fds):
    return [
        (os.fstat(fd).st_ino, os.get_blocking(fd), os.get_inheritable(fd)) for fd in fds
    ]


@pytest.mark.parametrize("is_blocking", [True, False])
async def test_both_descriptors_are_given_back_as_they_were(is_blocking):
    with pipes() as (theirs_in, theirs_out, ours_in, ours_out):
        os.set_blocking(theirs_in, is_blocking)
        os.set_inheritable(theirs_out, True)
        before = state_of(theirs_in, theirs_out)
        os.write(ours_out, opened())
        os.close(ours_out)
        await serve_stdio(server(), stdin_fd=theirs_in, stdout_fd=theirs_out)
        assert state_of(theirs_in, theirs_out) == before
        assert [m["id"] for m in messages(read_from(ours_in, 1))] == [0]


async def test_cancelling_it_ends_the_handlers_and_gives_the_descriptors_back():
    started, ended = asyncio.Event(), asyncio.Event()

    async def tool(params, request):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pipes() as (theirs_in, theirs_out, _, ours_out):
        before = state_of(theirs_in, theirs_out)
        dispatcher = server({"tools/call": tool}, {"tools": {}})
        serving = asyncio.create_task(
            serve_stdio(dispatcher, stdin_fd=theirs_in, stdout_fd=theirs_out)
        )
        # The last line has no end, so it is no request when the server is cancelled.
        os.write(
            ours_out, opened(request(1, "tools/call")) + lines(request(2, "ping"))[:-1]
        )
        await started.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert ended.is_set()
        assert state_of(theirs_in, theirs_out) == before
        os.close(ours_out)


@pytest.mark.attack("S13")
async def test_a_line_over_the_limit_ends_the_connection_with_a_word_in_the_log(caplog):
    with pipes() as (theirs_in, theirs_out, _, ours_out):
        os.write(ours_out, b"x" * 2_000)
        await serve_stdio(
            server(limits=Limits(message=1_000)),
            stdin_fd=theirs_in,
            stdout_fd=theirs_out,
        )
        os.close(ours_out)
    [record] = caplog.records
    assert "Limits.message" in record.getMessage()


async def test_what_comes_after_the_close_runs_nothing():
    wire = Hand(server({"tools/call": None}, {"tools": {}}), "2025-11-25")
    wire.receive(lines(request(1, "tools/call"))[:-1])
    await wire.connection.aclose()
    assert wire.rest() == []


# With the real client...


async def test_the_client_starts_it_talks_to_it_and_ends_it():
    heard = []
    async with Client(Stdio(DEMO[0], DEMO[1:])) as client:
        assert client.protocol_version == "2026-07-28"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == '{"sum":3}'
        arguments = {"steps": 2, "seconds": 0}
        await client.call_tool(
            "slow", arguments, on_progress=lambda *s: heard.append(s)
        )
    assert [step[:2] for step in heard] == [(1, 2), (2, 2)]


def test_a_cancelled_call_writes_nothing_more():
    with child() as process:
        call = modern(1, "tools/call", SLOW)
        process.stdin.write(lines(call, notice("notifications/cancelled", requestId=1)))
        process.stdin.write(lines(modern(2, "server/discover")))
        assert [line["id"] for line in read_lines(process, 1)] == [2]
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == b""
