"""A server that asks while it is asked, and what that does to time."""

import asyncio
import json

import pytest
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire import types

LIMIT = mcpwire.Limits().inbound

# Asks so many questions at once, and tells how they were answered.
ASKING = """
QUESTION = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
            "maxTokens": 1}
def ask(count):
    for n in range(count):
        send({"jsonrpc": "2.0", "id": f"q{n}", "method": "sampling/createMessage",
              "params": QUESTION | {"maxTokens": n + 1}})
def answers(count):
    got = []
    while len(got) < count:
        m = recv()
        if "method" not in m: got.append(m)
    return got
"""


def said(text):
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(text), model="m"
    )


@pytest.mark.fault("F18")
@pytest.mark.pain("P29")
async def test_questions_during_a_call_are_handled_together_up_to_the_limit():
    running = most = 0
    all_here = asyncio.Event()

    async def sample(params):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == LIMIT:
            all_here.set()
        await all_here.wait()  # none is answered before as many are asked at once
        running -= 1
        return said(str(params.max_tokens))

    count = 2 * LIMIT
    target = scripted(
        ASKING + f"handshake()\nm = recv(); ask({count})\n"
        f"text(m, json.dumps(answers({count})))\n" + ECHO_LOOP
    )
    async with mcpwire.Client(target, sampling=sample) as client:
        answers = json.loads((await client.call_tool("x")).text)
        assert (await client.call_tool("y", {"text": "on"})).text == "on"
    assert most == LIMIT
    told = {a["id"]: a["result"]["content"]["text"] for a in answers}
    assert told == {f"q{n}": str(n + 1) for n in range(count)}


# Time...


@pytest.mark.pain("P08")
def test_the_default_limits_are_finite_and_written_down():
    client = mcpwire.Client("cat")
    assert client._requests._timeout == 30.0
    settings = client._connection.settings
    assert settings.connect_timeout == 60.0
    assert settings.probe_timeout == 5.0
