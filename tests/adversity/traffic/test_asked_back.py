"""A server that asks while it is asked, and what that does to time."""

import asyncio
import json

import pytest
from scripted import ECHO_LOOP, scripted
from shells import Signal

import mcpwire
from mcpwire import types

pytestmark = pytest.mark.anyio

BOUND_S = 30.0
LIMIT = mcpwire.Limits().inbound
AT_ONCE = mcpwire.Limits(close_grace=0.05)

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
async def test_questions_during_a_call_are_handled_together_up_to_the_limit(shell):
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
    client = shell(target, sampling=shell.callback(sample))
    async with asyncio.timeout(BOUND_S), client:
        answers = json.loads((await client.call_tool("x")).text)
        assert (await client.call_tool("y", {"text": "on"})).text == "on"
    assert most == LIMIT
    told = {a["id"]: a["result"]["content"]["text"] for a in answers}
    assert told == {f"q{n}": str(n + 1) for n in range(count)}


@pytest.mark.fault("F18")
async def test_a_handler_may_call_the_server_that_asks(shell):
    async def sample(_):
        result = await client.call_tool("inner", {"text": "from within"})
        return said(result.text)

    target = scripted(
        ASKING + "handshake()\nouter = recv(); ask(1)\n"
        "inner = recv(); text(inner, inner['params']['arguments']['text'])\n"
        "text(outer, json.dumps(answers(1)))\nrecv()"
    )
    client = shell(target, sampling=shell.callback(sample))
    async with asyncio.timeout(BOUND_S), client:
        (answer,) = json.loads((await client.call_tool("outer")).text)
    assert answer["result"]["content"]["text"] == "from within"


@pytest.mark.fault("F17", "F18")
async def test_a_handler_that_fails_or_hangs_costs_the_others_nothing(shell):
    held = Signal()

    async def sample(params):
        if params.max_tokens == 1:
            await held.wait()
        if params.max_tokens == 2:
            raise RuntimeError("secret")
        return said(str(params.max_tokens))

    target = scripted(
        ASKING + "handshake()\nm = recv(); ask(5)\n"
        "text(m, json.dumps(answers(4)))\n" + ECHO_LOOP
    )
    client = shell(target, sampling=shell.callback(sample))
    async with asyncio.timeout(BOUND_S), client:
        answers = json.loads((await client.call_tool("x")).text)
        held.set()
    by_id = {a["id"]: a for a in answers}
    assert sorted(by_id) == ["q1", "q2", "q3", "q4"]
    assert by_id["q1"]["error"]["code"] == -32603
    assert "secret" not in json.dumps(by_id["q1"])


# Time...


@pytest.mark.pain("P08")
async def test_the_time_a_handler_takes_is_not_the_calls(shell):
    """In one of eight attempts: others may keep the machine for what the call has."""

    async def sample(_):
        await asyncio.sleep(0.5)  # a human thinks for longer than the call may take
        return said("at last")

    target = scripted(
        ASKING + "handshake()\nm = recv(); ask(1); answers(1); text(m, 'ok')\n"
        "m = recv(); answers(1)"
    )
    for _ in range(8):
        client = shell(target, sampling=shell.callback(sample), limits=AT_ONCE)
        async with asyncio.timeout(BOUND_S), client:
            asking = client.call_tool("x", timeout=0.3)
            [outcome] = await asyncio.gather(asking, return_exceptions=True)
            if isinstance(outcome, mcpwire.RequestTimeout):
                continue
            # And afterwards the clock runs as before.
            with pytest.raises(mcpwire.RequestTimeout) as caught:
                await client.call_tool("x", timeout=0.2)
            break
    assert outcome.text == "ok"
    assert 0.2 <= caught.value.elapsed < BOUND_S


PROGRESSING = (
    "handshake()\n"
    "while True:\n"
    "    m = recv()\n"
    "    if m['method'] != 'tools/call': continue\n"
    "    steps, pause = m['params']['arguments']['steps'], 0.1\n"
    "    for n in range(steps):\n"
    "        time.sleep(pause)\n"
    "        send({'jsonrpc': '2.0', 'method': 'notifications/progress', 'params':\n"
    "              {'progressToken': m['params']['_meta']['progressToken'],\n"
    "               'progress': n + 1}})\n"
    "    text(m, 'done')\n"
)


@pytest.mark.pain("P08")
@pytest.mark.parametrize("resets", [True, False])
async def test_progress_starts_a_timeout_again_only_where_that_was_asked(resets):
    """In one of eight attempts: others may keep the machine for all of the time."""
    seen = []
    for _ in range(8):
        client = mcpwire.Client(
            scripted(PROGRESSING),
            limits=AT_ONCE,
            reset_timeout_on_progress=resets,
            max_timeout=60,
        )
        seen.clear()
        async with asyncio.timeout(BOUND_S), client:
            calling = client.call_tool(
                "x", {"steps": 10}, timeout=0.8, on_progress=lambda *a: seen.append(a)
            )
            [outcome] = await asyncio.gather(calling, return_exceptions=True)
        if not (resets and isinstance(outcome, mcpwire.RequestTimeout)):
            break
    if resets:
        assert outcome.text == "done"
        assert len(seen) == 10
    else:
        assert type(outcome) is mcpwire.RequestTimeout


@pytest.mark.pain("P08")
async def test_no_progress_extends_a_call_beyond_its_cap():
    client = mcpwire.Client(
        scripted(PROGRESSING),
        limits=AT_ONCE,
        reset_timeout_on_progress=True,
        max_timeout=0.5,
    )
    async with asyncio.timeout(BOUND_S), client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool(
                "x", {"steps": 20}, timeout=0.4, on_progress=lambda *_: None
            )
    assert caught.value.elapsed >= 0.5


@pytest.mark.pain("P08")
async def test_a_timeout_says_which_limit_its_value_and_the_time_it_took():
    target = scripted("handshake()\nwhile True: recv()")
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target, timeout=0.3) as client:
        for timeout, options in ((0.3, {}), (0.1, {"timeout": 0.1})):
            with pytest.raises(mcpwire.RequestTimeout) as caught:
                await client.call_tool("x", **options)
            assert caught.value.timeout == timeout
            assert caught.value.elapsed >= timeout
            assert str(caught.value).startswith(
                f"tools/call: no answer within {timeout:g} s (after "
            )


@pytest.mark.pain("P08")
def test_the_default_limits_are_finite_and_written_down():
    client = mcpwire.Client("cat")
    assert client._requests._timeout == 30.0
    settings = client._connection.settings
    assert settings.connect_timeout == 60.0
    assert settings.probe_timeout == 5.0
