"""Calls that are sent now and waited for later; results that are checked or kept."""

import asyncio
import gc

import pytest
from fakes import SILENCE, FakeServer, text
from turns import until

import mcpwire

BOUND_S = 30.0
STATELESS = "2026-07-28"


async def test_a_started_call_is_sent_at_once_and_awaited_as_often_as_one_likes():
    server = FakeServer({"tools/call": lambda params, _: text(params["name"])})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x", {"a": 1})
        assert type(call.request_id) is int
        assert server.requests("tools/call") == [] or not call.done
        await until(lambda: call.done)
        assert (await call).text == "x"
        assert (await call).text == "x"
        assert repr(call) == f"<mcpwire.PendingCall tools/call {call.request_id} ended>"
    assert server.requests("tools/call") == [{"name": "x", "arguments": {"a": 1}}]


@pytest.mark.system("U34", "L-A1")
@pytest.mark.rule("CAN-12")
@pytest.mark.pain("P09")
async def test_cancelling_a_started_call_tells_the_server_with_its_id():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        call.cancel("enough")
        call.cancel("twice")
        with pytest.raises(mcpwire.CallCancelled, match="enough") as caught:
            await call
        assert caught.value.method == "tools/call"
        assert caught.value.reason == "enough"
        call.cancel("late")
        await client.ping()
    told = [m for m in server.received if m["method"] == "notifications/cancelled"]
    assert [m["params"] for m in told] == [
        {"requestId": call.request_id, "reason": "enough"}
    ]


async def test_a_call_that_fails_after_a_cancelled_wait_fails_for_the_next_alone():
    """A loop that hears of the error as well would end this test with it."""
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await call
        assert not call.done
        call.cancel("enough")
        with pytest.raises(mcpwire.CallCancelled, match="enough"):
            await call


def test_a_call_is_awaited_on_its_own_loop_alone():
    server = FakeServer({"tools/call": lambda *_: SILENCE})

    async def elsewhere(call):
        await call

    async def here():
        async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
            call = await client.start_call("x")
            with pytest.raises(RuntimeError, match="attached to a different loop"):
                await asyncio.to_thread(asyncio.run, elsewhere(call))
            call.cancel()

    asyncio.run(here())


@pytest.mark.system("U34", "A31")
async def test_a_call_ends_by_its_task_its_handle_or_its_id_and_the_server_is_told():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        task = asyncio.create_task(client.call_tool("x"))
        await until(lambda: server.requests("tools/call"))
        ids = [server.current["id"]]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        calls = [await client.start_call("x") for _ in range(2)]
        ids += [call.request_id for call in calls]
        calls[0].cancel("enough")
        client.cancel(ids[2], "no longer needed")
        for call, reason in zip(calls, ("enough", "no longer needed"), strict=True):
            with pytest.raises(mcpwire.CallCancelled, match=reason):
                await call
        await client.ping()
    told = [m for m in server.received if m["method"] == "notifications/cancelled"]
    assert [m["params"]["requestId"] for m in told] == ids
    assert len(set(ids)) == 3


async def test_who_waits_for_a_started_call_may_stop_waiting():
    release = []
    server = FakeServer({"tools/call": lambda *_: release or SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        waiting = asyncio.ensure_future(call)
        await asyncio.sleep(0)  # a turn of the loop
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not call.done
        server.send({"jsonrpc": "2.0", "id": call.request_id, "result": text("yes")})
        assert (await call).text == "yes"
    assert not [m for m in server.received if m["method"] == "notifications/cancelled"]


async def test_a_call_cancelled_while_its_handler_is_asked_ends_without_a_request():
    asked = asyncio.Event()

    async def hang(_):
        asked.set()
        await asyncio.Event().wait()

    question = {
        "method": "elicitation/create",
        "params": {
            "message": "?",
            "requestedSchema": {"type": "object", "properties": {}},
        },
    }
    server = FakeServer(
        {
            "tools/call": lambda *_: {
                "resultType": "input_required",
                "inputRequests": {"q": question},
            }
        },
        version=STATELESS,
    )
    async with mcpwire.Client(server, elicitation=hang) as client:
        call = await client.start_call("x")
        await asked.wait()
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            await call
    assert len(server.requests("tools/call")) == 1


async def test_starting_raises_what_keeps_a_call_from_being_sent():
    server = FakeServer(capabilities={})
    client = mcpwire.Client(server)
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.start_call("x")
    async with client:
        with pytest.raises(mcpwire.LocalProtocolError, match="did not declare 'tools'"):
            await client.start_call("x")
        with pytest.raises(ValueError, match="timeout"):
            await client.start_call("x", timeout=0)


async def test_cancelling_the_start_of_a_call_cancels_the_call(monkeypatch):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        starting = asyncio.create_task(client.start_call("x"))
        await asyncio.sleep(0)  # a turn of the loop
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        await client.ping()
        await until(lambda: not client._connection._background)


async def test_closing_ends_started_calls_that_nobody_waits_for():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        await client.start_call("forgotten")
        gc.collect()
    with pytest.raises(mcpwire.ConnectionClosed):
        await call


# Results held against what their tool promised...

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}


def promising(structured, **schema):
    tool = {"name": "x", "inputSchema": {"type": "object"}}
    tool["outputSchema"] = {**SCHEMA, **schema}
    result = text("") if structured is None else text("") | structured
    return FakeServer(
        {"tools/list": lambda *_: {"tools": [tool]}, "tools/call": lambda *_: result}
    )


@pytest.mark.system("L-U13")
@pytest.mark.rule("TOOL-12")
async def test_a_result_that_breaks_its_promise_is_refused_where_asked(caplog):
    server = promising({"structuredContent": {"n": "one"}})
    async with mcpwire.Client(server) as client:
        await client.call_tool("x")
        assert server.requests("tools/list") == []
        with pytest.raises(
            mcpwire.RemoteProtocolError, match="output schema"
        ) as caught:
            await client.call_tool("x", validate="error")
        assert "n" in str(caught.value)
        result = await client.call_tool("x", validate="warn")
        assert result.structured_content == {"n": "one"}
        assert "breaks its output schema" in caplog.text
        assert len(server.requests("tools/list")) == 1
        server.notify("notifications/tools/list_changed")
        with pytest.raises(mcpwire.RemoteProtocolError):
            await client.call_tool("x", validate="error")
        assert len(server.requests("tools/list")) == 2


@pytest.mark.parametrize(
    ("structured", "good"),
    [
        ({"structuredContent": {"n": 1}}, True),
        ({"isError": True}, True),
        (None, False),
    ],
)
async def test_what_a_schema_binds(structured, good):
    server = promising(structured)
    async with mcpwire.Client(server) as client:
        if good:
            await client.call_tool("x", validate="error")
        else:
            with pytest.raises(mcpwire.RemoteProtocolError, match="no structured"):
                await client.call_tool("x", validate="error")


async def test_a_way_to_validate_that_is_none_is_refused_before_anything_is_sent():
    server = promising(None)
    async with mcpwire.Client(server) as client:
        with pytest.raises(ValueError, match="validate"):
            await client.call_tool("x", validate="strict")
    assert server.requests("tools/call") == []


async def test_a_started_call_may_be_checked_and_validated():
    server = promising({"structuredContent": {"n": "one"}})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x", validate="error")
        with pytest.raises(mcpwire.RemoteProtocolError, match="output schema"):
            await call
        server.methods["tools/call"] = lambda *_: text("no") | {"isError": True}
        call = await client.start_call("x", check=True)
        with pytest.raises(mcpwire.ToolError):
            await call
        with pytest.raises(ValueError, match="validate"):
            await client.start_call("x", validate="strict")
