"""One suite of connection tests for all transports.

It applies to transports written by users and to the built-in ones.
"""

import asyncio
import json

import pytest
from facing import TRANSPORTS

import mcpwire
from mcpwire.limits import Limits


@pytest.mark.rule("TR-CUST-01", "TR-CUST-02")
@pytest.mark.system("L-R1", "L-R5", "R13")
async def test_a_client_connects_calls_and_closes_repeatedly(client_of, era):
    client = client_of()
    for _ in range(2):
        async with client:
            assert client.protocol_version == era
            assert client.server_info.name == "shared"
            assert {tool.name for tool in await client.list_tools()} >= {"echo"}
            text = "ä\u2028\U0001f600\n\r" * 5_000
            result = await client.call_tool("echo", {"message": text})
            assert result.text == text
        await client.aclose()
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.ping()


@pytest.mark.rule("TR-CUST-01")
async def test_errors_are_raised_with_their_types(client_of):
    async with client_of() as client:
        with pytest.raises(mcpwire.InvalidParams, match="unknown tool"):
            await client.call_tool("nothing")
        failed = await client.call_tool("fail")
        assert failed.is_error
        assert "it failed" in failed.text
        with pytest.raises(mcpwire.MethodNotFound):
            await client.request("example/nothing", {})
        assert (await client.call_tool("echo", {"message": "on"})).text == "on"


@pytest.mark.rule("TR-CUST-01")
async def test_progress_arrives_at_its_call_before_the_result(client_of):
    seen = {name: [] for name in "ab"}

    async def run(client, name):
        result = await client.call_tool(
            "steps", {"count": 3}, on_progress=lambda *step: seen[name].append(step[0])
        )
        assert result.text == "done"

    async with client_of() as client:
        await asyncio.gather(*(run(client, name) for name in seen))
    assert seen == {"a": [1, 2, 3], "b": [1, 2, 3]}


@pytest.mark.rule("TR-CUST-01")
@pytest.mark.system("O95")
async def test_concurrent_calls_get_their_own_results(client_of):
    expected = [f"{number} {'x' * (number * 40)}" for number in range(60)]
    async with client_of() as client:
        calls = (client.call_tool("echo", {"message": each}) for each in expected)
        results = await asyncio.gather(*calls)
    assert [result.text for result in results] == expected


@pytest.mark.rule("TR-CUST-03")
@pytest.mark.parametrize("how", ["task", "handle", "timeout"])
async def test_a_cancelled_call_ends_on_both_sides(client_of, handlers, how):
    async with client_of() as client:
        if how == "timeout":
            for seconds in (0.1, 1, 10):  # a busy machine may not get there at first
                with pytest.raises(mcpwire.RequestTimeout):
                    await client.call_tool("hang", timeout=seconds)
                if handlers.begun.acquire(blocking=False):
                    break
        elif how == "handle":
            call = await client.start_call("hang")
            assert await handlers.wait_for(handlers.begun)
            call.cancel("no longer needed")
            with pytest.raises(mcpwire.CallCancelled, match="no longer needed"):
                await call
        else:
            task = asyncio.create_task(client.call_tool("hang"))
            assert await handlers.wait_for(handlers.begun)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await handlers.wait_for(handlers.cancelled)
        assert (await client.call_tool("echo", {"message": "on"})).text == "on"


async def test_closing_ends_open_calls(client_of, served, handlers):
    client = client_of()
    await client.connect()
    calls = [asyncio.create_task(client.call_tool("hang")) for _ in range(3)]
    assert await handlers.wait_for(handlers.begun, 3)
    await client.aclose()
    for call in calls:
        with pytest.raises(mcpwire.ConnectionClosed):
            await call
    assert await handlers.wait_for(handlers.cancelled, 3)
    await served.settle()


@pytest.mark.system("O95")
async def test_a_cut_connection_fails_its_calls_and_is_reopened(
    client_of, served, handlers
):
    async with client_of() as client:
        calls = [asyncio.create_task(client.call_tool("hang")) for _ in range(2)]
        assert await handlers.wait_for(handlers.begun, 2)
        served.cut()
        for call in calls:
            with pytest.raises(mcpwire.ConnectionClosed) as caught:
                await call
            assert caught.value.sent
        # The next call reopens it.
        assert (await client.call_tool("echo", {"message": "on"})).text == "on"
    await served.settle()


async def test_a_message_over_the_limit_raises_an_error(client_of):
    limits = Limits(message=4_096)
    async with client_of(limits=limits) as client:
        with pytest.raises(mcpwire.MCPError) as caught:
            await client.call_tool("big", {"size": 8_192})
        assert "Limits.message" in str(caught.value)
        assert (await client.call_tool("echo", {"message": "on"})).text == "on"


async def test_an_elicitation_of_the_server_is_answered(client_of):
    async with client_of(elicitation=lambda _: {"drink": "tea"}) as client:
        assert (await client.call_tool("order")).text == "tea"


def kinds(messages):
    found = set()
    for message in map(json.loads, messages):
        if "method" not in message:
            found.add("response")
        else:
            found.add("request" if "id" in message else "notification")
    return found


# A channel written by a user calls no trace hook.
TRACED = [kind for kind in TRANSPORTS if not kind.startswith("own")]


@pytest.mark.rule("TR-CUST-04")
@pytest.mark.parametrize("kind", TRACED)
async def test_server_requests_occur_in_sessions_only(client_of, era):
    messages = {"send": [], "receive": []}

    def trace(event, data):
        messages.get(event, []).append(data)

    async with client_of(elicitation=lambda _: {"drink": "tea"}, trace=trace) as client:
        await client.call_tool("steps", {"count": 2}, on_progress=lambda *_: None)
        assert (await client.call_tool("order")).text == "tea"
    sent, received = (kinds(messages[event]) for event in ("send", "receive"))
    is_session = era == "2025-11-25"
    assert ("response" in sent, "request" in received) == (is_session, is_session)
    assert "request" in sent
    assert {"response", "notification"} <= received
