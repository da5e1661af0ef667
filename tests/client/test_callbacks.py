"""Callbacks: their context, their deadlines, and which functions are accepted."""

import asyncio
import contextvars

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer, text

import mcpwire

CALLER = contextvars.ContextVar("WHO", default="nobody")


def reporting(params, server):
    token = params["_meta"]["progressToken"]
    server.notify("notifications/progress", progressToken=token, progress=1)
    return text("done")


async def test_progress_callbacks_run_in_the_context_of_their_call():
    names = []

    async def later(*_):
        await asyncio.sleep(0)
        names.append(CALLER.get())

    server = FakeServer({"tools/call": reporting})
    async with mcpwire.Client(server) as client:

        async def call(name, callback):
            CALLER.set(name)
            await client.call_tool("x", on_progress=callback)

        await asyncio.create_task(call("plain", lambda *_: names.append(CALLER.get())))
        await asyncio.create_task(call("async", later))
    assert names == ["plain", "async"]


@on_a_virtual_clock
async def test_many_deadlines_are_checked_together(monkeypatch):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        clock = client._connection.channel._timeouts
        checks = []
        check = type(clock)._check_deadlines
        monkeypatch.setattr(
            type(clock),
            "_check_deadlines",
            lambda self: (checks.append(1), check(self))[1],
        )
        calls = [client.call_tool("x", timeout=0.05 + n / 10_000) for n in range(500)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {mcpwire.RequestTimeout}
    # They end within 50 ms of each other, and checks are at least 5 ms apart.
    assert len(checks) <= 30


async def test_an_async_trace_hook_is_refused_at_construction():
    async def hook(event, data): ...

    with pytest.raises(ValueError, match="plain function"):
        mcpwire.Client(FakeServer(), trace=hook)


async def test_meta_that_is_not_an_object_is_refused_before_sending():
    server = FakeServer()
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="_meta"):
            await client.request("x/y", {"_meta": "text"})
    assert server.requests("x/y") == []


async def test_invalid_server_declarations_do_not_break_calls():
    server = FakeServer(
        {"tools/call": lambda *_: text("ok")},
        capabilities={"tools": {}, "resources": 5},
        serverInfo={"name": 5},
    )
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "ok"
        with pytest.raises(mcpwire.InvalidMessage, match="resources"):
            _ = client.capabilities
        with pytest.raises(mcpwire.InvalidMessage, match="name"):
            _ = client.server_info


async def test_a_repr_does_not_grow_with_its_command():
    client = mcpwire.Client(mcpwire.Stdio("x", ["y" * 10_000]))
    assert len(repr(client)) < 200
