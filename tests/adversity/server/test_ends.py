"""However busy a server is: it ends when its input does, or when it is told to."""

import json
import os
import select
import signal
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

server.run()
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
    with child(BUSY) as process:
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
    with child(later + BUSY) as process:
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
