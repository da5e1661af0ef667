"""Calls that are sent now and awaited later."""

import asyncio
import gc

import pytest
from fakes import SILENCE, FakeServer, text
from loop_polling import until
from requesting_server import FORM, STATELESS, Asking, Hanging

import mcpwire


async def test_a_started_call_can_be_awaited_repeatedly():
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
async def test_cancelling_a_started_call_notifies_the_server():
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
    cancellation = {"requestId": call.request_id, "reason": "enough"}
    assert server.requests("notifications/cancelled") == [cancellation]


async def test_an_error_after_a_cancelled_wait_is_raised_by_the_next():
    """An error that also reached the loop's exception handler would fail this test."""
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


def test_a_started_call_cannot_be_awaited_on_another_loop():
    server = FakeServer({"tools/call": lambda *_: SILENCE})

    async def elsewhere(call):
        await call

    async def here():
        async with mcpwire.Client(server) as client:
            call = await client.start_call("x")
            with pytest.raises(RuntimeError, match="attached to a different loop"):
                await asyncio.to_thread(asyncio.run, elsewhere(call))
            call.cancel()

    asyncio.run(here())


@pytest.mark.system("U34", "A31")
async def test_cancelling_by_task_handle_or_id_notifies_the_server():
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
    cancelled = server.requests("notifications/cancelled")
    assert [params["requestId"] for params in cancelled] == ids
    reasons = [params["reason"] for params in cancelled[1:]]
    assert reasons == ["enough", "no longer needed"]
    assert len(set(ids)) == 3


async def test_a_cancelled_wait_does_not_cancel_a_started_call():
    release = []
    server = FakeServer({"tools/call": lambda *_: release or SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        waiting = asyncio.ensure_future(call)
        await asyncio.sleep(0)  # one loop iteration
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not call.done
        server.send({"jsonrpc": "2.0", "id": call.request_id, "result": text("yes")})
        assert (await call).text == "yes"
    assert server.requests("notifications/cancelled") == []


async def test_a_call_cancelled_in_its_handler_sends_no_retry():
    handler = Hanging()
    server = Asking("elicitation/create", FORM, STATELESS)
    async with mcpwire.Client(server, elicitation=handler) as client:
        call = await client.start_call("x")
        await handler.running.wait()
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            await call
    assert len(server.requests("tools/call")) == 1


async def test_start_call_raises_when_the_call_cannot_be_sent():
    server = FakeServer(capabilities={})
    client = mcpwire.Client(server)
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.start_call("x")
    async with client:
        with pytest.raises(mcpwire.LocalProtocolError, match="did not declare 'tools'"):
            await client.start_call("x")
        with pytest.raises(ValueError, match="timeout"):
            await client.start_call("x", timeout=0)


async def test_cancelling_start_call_cancels_the_call(monkeypatch):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        starting = asyncio.create_task(client.start_call("x"))
        await asyncio.sleep(0)  # one loop iteration
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        await client.ping()
        await until(lambda: not client._connection._background)


async def test_closing_before_a_started_call_is_sent_is_a_typed_error():
    client = mcpwire.Client(FakeServer())
    await client.connect()
    starting = asyncio.create_task(client.start_call("x"))
    await client.aclose()
    with pytest.raises(mcpwire.ConnectionClosed) as caught:
        await starting
    assert not caught.value.sent


async def test_closing_ends_started_calls_without_a_waiter():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        await client.start_call("forgotten")
        gc.collect()
    with pytest.raises(mcpwire.ConnectionClosed):
        await call
