"""However busy a server is: it ends when its input does, or when it is told to."""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import time

import pytest
from by_hand import modern, notice, request, session
from wires import child

PATIENCE = 30.0

BUSY = """
import asyncio, os, subprocess, sys, time
from mcpwire import Context, Server
server = Server("busy")

def entered():
    os.write(2, b"entered\\n")

@server.tool
def in_a_thread() -> str:
    entered()
    time.sleep(3_600)

@server.tool
def soon() -> str:
    return "done"

@server.tool
async def stubborn() -> str:
    entered()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@server.tool
async def asks(ctx: Context) -> str:
    entered()
    return (await ctx.elicit("?", {"type": "object", "properties": {}})).action

@server.tool
def asks_in_a_thread(ctx: Context) -> str:
    entered()
    return ctx.sync.elicit("?", {"type": "object", "properties": {}}).action

@server.tool
async def with_a_child() -> str:
    child = await asyncio.create_subprocess_exec("sleep", "3600")
    entered()
    try:
        await child.wait()
    finally:
        child.kill()

server.run(RUN)
"""

TOOLS = ("in_a_thread", "stubborn", "asks", "asks_in_a_thread", "with_a_child")

LISTEN = {"notifications": {"toolsListChanged": True}}

CAN_BE_ASKED = {**session(), "capabilities": {"elicitation": {}}}


def lines(*messages):
    return "".join(json.dumps(message) + "\n" for message in messages).encode()


def wait_for(fd, text, count):
    """Wait until a text has come so many times."""
    said, deadline = b"", time.monotonic() + PATIENCE
    while said.count(text) < count:
        ready, _, _ = select.select([fd], [], [], deadline - time.monotonic())
        assert ready, f"only {said!r} came"
        piece = os.read(fd, 65_536)
        assert piece, f"the stream ended after {said!r}"
        said += piece


@pytest.mark.case("A07")
@pytest.mark.timeout(180)
@pytest.mark.rule("TR-STDIO-13")
@pytest.mark.parametrize(
    ("how", "code"), [("its input ends", 0), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_nothing_that_tools_do_keeps_it_alive(how, code):
    """They would go on for an hour; its input's end, or the signal, is enough."""
    with child(BUSY.replace("RUN", "")) as process:
        calls = [request(n, "tools/call", {"name": n}) for n in TOOLS * 2]
        for number, call in enumerate(calls):
            call["id"] = number
        listen = modern("l", "subscriptions/listen", LISTEN)
        opening = request("i", "initialize", CAN_BE_ASKED)
        ready = notice("notifications/initialized")
        process.stdin.write(lines(opening, ready, listen, *calls))
        process.stdin.flush()
        wait_for(process.stderr.fileno(), b"entered\n", len(calls))
        if code:
            process.send_signal(how)
        else:
            process.stdin.close()
        try:
            assert process.wait(PATIENCE) == code
        finally:
            process.kill()
        assert process.stderr.read() == b""
        said = [json.loads(line) for line in process.stdout]
        # Nothing is said of the calls but that they ended, or nothing.
        answers = [each for each in said if "method" not in each]
        assert {each["id"] for each in answers} <= {"i", "l"}


def answers_beside_one_that_hangs(grace):
    """Return what comes of a call that ends soon after its input does."""
    later = f"from mcpwire.server import stdio\nstdio.ANSWER_GRACE_S = {grace}\n"
    with child(later + BUSY.replace("RUN", "")) as process:
        hangs = modern(1, "tools/call", {"name": "in_a_thread", "arguments": {}})
        process.stdin.write(lines(hangs))
        process.stdin.flush()
        wait_for(process.stderr.fileno(), b"entered\n", 1)
        ends = modern(2, "tools/call", {"name": "soon", "arguments": {}})
        process.stdin.write(lines(ends))
        process.stdin.close()
        try:
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
        return [json.loads(line) for line in process.stdout]


@pytest.mark.case("A07")
@pytest.mark.timeout(180)
def test_a_call_that_ends_in_time_is_answered_beside_those_that_do_not():
    """Others may keep the machine from it for that time: each attempt has more."""
    for grace in (0.2, 1.0, 5.0):
        if answers := answers_beside_one_that_hangs(grace):
            break
    assert [answer["id"] for answer in answers] == [2]


HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


class Asking:
    """One connection with one request, whose answer may take."""

    def __init__(self, port, verb, message=None, **headers):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, PATIENCE)
        body = None if message is None else json.dumps(message)
        fields = HEADERS | {k.replace("_", "-"): v for k, v in headers.items()}
        self._connection.request(verb, "/mcp", body, fields)

    def answer(self):
        """Return status, head and body; ``None`` for one that is cut off."""
        with contextlib.closing(self._connection):
            response = self._connection.getresponse()
            try:
                body = response.read()
            except http.client.IncompleteRead:
                body = None
            return response.status, response.headers, body


def alone(port, id, method, params, **more):
    version = {"mcp_protocol_version": "2026-07-28", "mcp_method": method}
    return Asking(port, "POST", modern(id, method, params), **version, **more)


@pytest.mark.case("D17")
@pytest.mark.timeout(180)
@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_over_http_a_signal_ends_calls_streams_and_sessions():
    pytest.importorskip("uvicorn")
    say = '__import__("functools").partial(print, file=__import__("sys").stderr)'
    run = f'http="127.0.0.1:0", drain_timeout=0.2, quiet=True, announce={say}'
    with child(BUSY.replace("RUN", run)) as process:
        try:
            said = process.stderr.readline().decode()
            port = int(said.split()[-1].rpartition(":")[2].partition("/")[0])
            opening = request("i", "initialize", CAN_BE_ASKED)
            status, head, _ = Asking(port, "POST", opening).answer()
            assert status == 200
            own = {"mcp_session_id": head["mcp-session-id"]}
            ready = notice("notifications/initialized")
            assert Asking(port, "POST", ready, **own).answer()[0] == 202
            open_ones = {
                "stream": Asking(port, "GET", **own),
                "listen": alone(port, "l", "subscriptions/listen", LISTEN),
            }
            # Alone, a call that asks is over at once.
            for name in TOOLS:
                call = {"name": name, "arguments": {}}
                asked = request(name, "tools/call", call)
                open_ones[name] = Asking(port, "POST", asked, **own)
                open_ones[f"{name}, alone"] = alone(
                    port, name, "tools/call", call, mcp_name=name
                )
            wait_for(process.stderr.fileno(), b"entered\n", 2 * len(TOOLS))
            process.send_signal(signal.SIGTERM)
            answers = {name: each.answer() for name, each in open_ones.items()}
            assert process.wait(PATIENCE) == 0
            said = process.stderr.read().decode()
            assert said.splitlines()[1:] == []
        finally:
            process.kill()
    bodies = {name: body for name, (_, _, body) in answers.items()}
    # That a task swallows its cancellation is all that its client can be told.
    assert bodies.pop("stubborn, alone") is None
    assert b'"error"' not in bodies.pop("stream")
    assert all(b'"error"' in body or b'"result"' in body for body in bodies.values())
    with socket.create_server(("127.0.0.1", port)):
        pass
