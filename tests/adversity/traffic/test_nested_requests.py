"""A server that sends requests during a call, and the default timeouts."""

import asyncio
import json

import pytest
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire import types

LIMIT = mcpwire.Limits().inbound

# Sends so many requests at once, and returns their responses.
REQUESTING_PEER = """
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


def sampling_result(text):
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(text), model="m"
    )


@pytest.mark.fault("F18")
@pytest.mark.pain("P29")
async def test_server_requests_are_handled_concurrently_up_to_the_limit():
    running = maximum = 0
    all_here = asyncio.Event()

    async def sample(params):
        nonlocal running, maximum
        running += 1
        maximum = max(maximum, running)
        if running == LIMIT:
            all_here.set()
        await all_here.wait()  # no response before as many requests run concurrently
        running -= 1
        return sampling_result(str(params.max_tokens))

    count = 2 * LIMIT
    target = scripted(
        REQUESTING_PEER + f"handshake()\nm = recv(); ask({count})\n"
        f"text(m, json.dumps(answers({count})))\n" + ECHO_LOOP
    )
    async with mcpwire.Client(target, sampling=sample) as client:
        answers = json.loads((await client.call_tool("x")).text)
        assert (await client.call_tool("y", {"text": "on"})).text == "on"
    assert maximum == LIMIT
    texts = {a["id"]: a["result"]["content"]["text"] for a in answers}
    assert texts == {f"q{n}": str(n + 1) for n in range(count)}


# Time...


@pytest.mark.pain("P08")
def test_default_timeouts_are_finite():
    client = mcpwire.Client("cat")
    assert client._requests._timeout == 30.0
    settings = client._connection.settings
    assert settings.connect_timeout == 60.0
    assert settings.probe_timeout == 5.0
