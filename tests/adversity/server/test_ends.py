"""A busy server ends when its input ends or a signal arrives."""

import json
import os
import select
import signal
import time

import pytest
from raw_client import modern, notice, request, session
from wires import child, send

TIMEOUT_S = 30.0

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

ELICITATION_SESSION = {**session(), "capabilities": {"elicitation": {}}}


def wait_for(fd, text, count):
    output, deadline = b"", time.monotonic() + TIMEOUT_S
    while output.count(text) < count:
        ready, _, _ = select.select([fd], [], [], deadline - time.monotonic())
        assert ready, f"only {output!r} came"
        piece = os.read(fd, 65_536)
        assert piece, f"the stream ended after {output!r}"
        output += piece


@pytest.mark.case("A07")
@pytest.mark.timeout(180)
@pytest.mark.rule("TR-STDIO-13")
@pytest.mark.parametrize(
    ("how", "code"), [("its input ends", 0), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_running_tools_do_not_keep_the_server_alive(how, code):
    """The tools would run for an hour; the end of the input or a signal ends them."""
    with child(BUSY) as process:
        calls = [request(n, "tools/call", {"name": n}) for n in TOOLS * 2]
        for number, call in enumerate(calls):
            call["id"] = number
        listen = modern("l", "subscriptions/listen", LISTEN)
        opening = request("i", "initialize", ELICITATION_SESSION)
        ready = notice("notifications/initialized")
        send(process, opening, ready, listen, *calls)
        wait_for(process.stderr.fileno(), b"entered\n", len(calls))
        if code:
            process.send_signal(how)
        else:
            process.stdin.close()
        assert process.wait(TIMEOUT_S) == code
        assert process.stderr.read() == b""
        output = [json.loads(line) for line in process.stdout]
        # The calls get no response.
        answers = [each for each in output if "method" not in each]
        assert {each["id"] for each in answers} <= {"i", "l"}


def answers_beside_one_that_hangs(grace):
    """Return the responses to a call that ends soon after the input ends."""
    later = f"from mcpwire.server import stdio\nstdio.ANSWER_GRACE_S = {grace}\n"
    with child(later + BUSY) as process:
        hangs = modern(1, "tools/call", {"name": "in_a_thread", "arguments": {}})
        send(process, hangs)
        wait_for(process.stderr.fileno(), b"entered\n", 1)
        ends = modern(2, "tools/call", {"name": "soon", "arguments": {}})
        send(process, ends)
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
        return [json.loads(line) for line in process.stdout]


@pytest.mark.case("A07")
@pytest.mark.timeout(180)
def test_call_that_ends_within_the_grace_period_is_answered():
    """A loaded machine may use up the grace period: each attempt has a longer one."""
    for grace in (0.2, 1.0, 5.0):
        if answers := answers_beside_one_that_hangs(grace):
            break
    assert [answer["id"] for answer in answers] == [2]
