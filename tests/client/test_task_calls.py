"""Calls that become tasks: polled to their end, or cancelled with their call."""

import asyncio
import contextlib

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE
from hosting import hosted
from loop_polling import until
from task_server import (
    CANCELLED,
    COMPLETE,
    DONE,
    FORM,
    TaskServer,
    client,
    needs,
    task_state,
)

import mcpwire
from mcpwire.protocol.methods import TASKS

WORKING = task_state("working")
SLOW = task_state("working", pollIntervalMs=3_600_000)
CALL = ["tools/call"]
POLL = ["tasks/get"]


@pytest.mark.system("L-A11")
@pytest.mark.rule("TX-03", "TX-11")
async def test_a_call_returns_the_result_of_its_task():
    server = TaskServer(WORKING, WORKING, DONE)
    async with client(server) as c:
        result = await c.call_tool("train", {"epochs": 3})
        assert (await (await c.start_call("train"))).text == "done"

    assert result.text == "done"
    assert server.methods_received == CALL + POLL * 3 + CALL + POLL
    assert server.params_of("tasks/get") == [{"taskId": "t-1"}] * 4


async def test_each_poll_has_the_meta_of_the_call_but_no_token():
    server = TaskServer(WORKING, DONE)
    meta = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with client(server) as c:
        await c.call_tool("train", meta=meta, on_progress=print, idempotent=False)

    polls = [params["_meta"] for params in server.requests("tasks/get")]
    assert len(polls) == 2
    for poll in polls:
        assert poll.items() >= meta.items()
        assert "progressToken" not in poll
        declared = poll["io.modelcontextprotocol/clientCapabilities"]
        assert declared["extensions"] == {TASKS: {}}


async def test_check_raises_for_a_task_result_with_is_error():
    failed = task_state("completed", result={**DONE["result"], "isError": True})
    async with client(TaskServer(failed)) as c:
        assert (await c.call_tool("train")).is_error
        with pytest.raises(mcpwire.ToolError, match="done"):
            await c.call_tool("train", check=True)


async def test_a_failed_task_raises_its_error():
    error = {"code": -32602, "message": "no such model", "data": [1]}
    server = TaskServer(task_state("failed", error=error))
    async with client(server) as c:
        with pytest.raises(mcpwire.InvalidParams, match="no such model") as caught:
            await c.call_tool("train")

    assert (caught.value.method, caught.value.data) == ("tools/call", [1])
    assert server.params_of("tasks/cancel") == []


async def test_a_task_cancelled_elsewhere_raises_call_cancelled():
    server = TaskServer(CANCELLED)
    async with client(server) as c:
        with pytest.raises(mcpwire.CallCancelled, match="the task was cancelled"):
            await c.call_tool("train")

    assert server.params_of("tasks/cancel") == []


async def test_a_task_outlives_the_connection_it_was_made_on():
    server = TaskServer(WORKING, DONE)
    get = server.methods["tasks/get"]

    def lose(*_):
        server.methods["tasks/get"] = get
        server.die()
        return SILENCE

    server.methods["tasks/get"] = lose
    async with client(server) as c:
        assert (await c.call_tool("train")).text == "done"

    assert server.methods_received.count("tools/call") == 1


@pytest.mark.rule("TX-03")
@pytest.mark.parametrize(
    ("options", "declares"),
    [({"extensions": None}, True), ({}, False), ({"extensions": None}, False)],
)
async def test_a_task_without_the_extension_is_a_protocol_error(options, declares):
    server = TaskServer(DONE, declares=declares)
    async with client(server, **options) as c:
        with pytest.raises(mcpwire.RemoteProtocolError, match=TASKS):
            await c.call_tool("train")

    assert server.methods_received == CALL


@pytest.mark.rule("TX-03")
@pytest.mark.unchecked_wire("the server answers with a task where there is none")
async def test_a_task_as_result_of_another_request_is_invalid():
    server = TaskServer(DONE)
    server.methods["prompts/get"] = lambda *_: server.begun
    async with client(server) as c:
        with pytest.raises(mcpwire.InvalidMessage, match="'task' for prompts/get"):
            await c.get_prompt("x")

    assert server.params_of("tasks/get") == []


@pytest.mark.rule("TX-22")
@pytest.mark.unchecked_wire("the server answers with a task where there is none")
async def test_a_session_call_does_not_create_a_task():
    capabilities = {"tools": {}, "extensions": {TASKS: {}}}
    server = TaskServer(DONE, version="2025-11-25", capabilities=capabilities)
    async with client(server) as c:
        assert (await c.call_tool("train")).content == []

    assert server.params_of("tasks/get") == []


def fill_in(messages):
    def fill(form):
        messages.append(form.message)
        return {"name": "Ada"}

    return fill


@pytest.mark.rule("TX-12", "TX-13")
async def test_input_of_a_task_is_answered_once_by_the_handler():
    messages = []
    server = TaskServer(needs(a=FORM), needs(a=FORM), WORKING, DONE)
    async with client(server, elicitation=fill_in(messages)) as c:
        assert (await c.call_tool("train")).text == "done"

    assert messages == ["Who?"]
    answer = {"action": "accept", "content": {"name": "Ada"}}
    assert server.params_of("tasks/update") == [
        {"taskId": "t-1", "inputResponses": {"a": answer}}
    ]
    assert server.methods_received == [*CALL, *POLL, "tasks/update", *POLL * 3]


@pytest.mark.rule("TX-13")
async def test_an_undeclared_input_request_of_a_task_is_an_error():
    sampling = {
        "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 1},
    }
    messages = []
    server = TaskServer(needs(a=sampling))
    async with client(server, elicitation=fill_in(messages)) as c:
        with pytest.raises(mcpwire.RemoteProtocolError, match="did not declare"):
            await c.call_tool("train")
        await until(lambda: server.params_of("tasks/cancel"))

    assert server.params_of("tasks/update") == []
    assert messages == []


@pytest.mark.rule("TX-13")
@pytest.mark.parametrize("is_call", [True, False])
async def test_input_rounds_of_a_task_are_limited(is_call):
    endless = [needs(**{f"q-{number}": FORM}) for number in range(9)]
    messages = []
    limits = mcpwire.Limits(input_rounds=2)
    server = TaskServer(*endless)
    async with client(server, elicitation=fill_in(messages), limits=limits) as c:
        with pytest.raises(mcpwire.RemoteProtocolError, match="after 2 rounds"):
            await (c.call_tool("train") if is_call else mcpwire.wait_for_task(c, "t-1"))
        await until(lambda: server.params_of("tasks/cancel") or not is_call)

    assert len(messages) == 2
    assert bool(server.params_of("tasks/cancel")) is is_call


def refuse(_):
    raise mcpwire.RPCError("not now", code=-1)


@pytest.mark.rule("TX-13")
@pytest.mark.parametrize(
    ("handler", "error", "why"),
    [
        (refuse, mcpwire.CallCancelled, "not now"),
        (lambda _: {"name": 7}, mcpwire.LocalProtocolError, "name"),
    ],
    ids=["refused", "an invalid answer"],
)
async def test_a_handler_error_ends_the_call_and_cancels_its_task(handler, error, why):
    server = TaskServer(needs(a=FORM))
    async with client(server, elicitation=handler) as c:
        with pytest.raises(error, match=why):
            await c.call_tool("train")
        await until(lambda: server.params_of("tasks/cancel"))

    assert server.params_of("tasks/update") == []


@on_a_virtual_clock
async def test_a_busy_handler_pauses_the_timeout_of_the_call():
    async def think(_):
        await asyncio.sleep(0.3)  # longer than the call may take
        return {"name": "Ada"}

    server = TaskServer(needs(a=FORM), DONE)
    async with client(server, elicitation=think) as c:
        assert (await c.call_tool("train", timeout=0.25)).text == "done"


@pytest.mark.rule("TX-16")
@on_a_virtual_clock
async def test_cancelling_a_call_cancels_its_task_without_waiting():
    server = TaskServer(SLOW, created=SLOW)
    server.methods["tasks/cancel"] = lambda *_: SILENCE
    async with client(server) as c:
        call = asyncio.ensure_future(c.call_tool("train", timeout=None))
        await until(lambda: server.params_of("tools/call"))
        await asyncio.sleep(0.02)  # it has its response, and waits for its first poll
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.params_of("tasks/cancel"))
        assert server.params_of("tasks/cancel") == [{"taskId": "t-1"}]
        assert server.params_of("notifications/cancelled") == []


@pytest.mark.rule("TX-16")
async def test_cancelling_during_a_poll_cancels_poll_and_task():
    server = TaskServer(SILENCE)
    async with client(server) as c:
        call = asyncio.ensure_future(c.call_tool("train"))
        await until(lambda: server.params_of("tasks/get"))
        poll = server.received[-1]["id"]
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.params_of("tasks/cancel"))

    cancelled = server.params_of("notifications/cancelled")
    assert [params["requestId"] for params in cancelled] == [poll]


@pytest.mark.rule("TX-16")
@pytest.mark.parametrize("shown", [SLOW, SILENCE])
@on_a_virtual_clock
async def test_a_timed_out_call_cancels_its_task(shown):
    server = TaskServer(shown, created=SLOW if shown is SLOW else None)
    async with client(server) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            await c.call_tool("train", timeout=0.05)
        await until(lambda: server.params_of("tasks/cancel"))

    assert len(server.params_of("tasks/cancel")) == 1


@pytest.mark.rule("TX-16")
@pytest.mark.parametrize("mode", [None, "json", "sse"])
@pytest.mark.parametrize("shown", [SLOW, SILENCE])
async def test_a_task_is_cancelled_though_the_client_closes(mode, shown):
    server = TaskServer(shown, created=None if shown is SILENCE else WORKING)
    with contextlib.ExitStack() as stack:
        target = server if mode is None else stack.enter_context(hosted(server, mode))
        target = getattr(target, "url", target)
        async with client(target) as c:
            call = asyncio.ensure_future(c.call_tool("train"))
            await until(lambda: server.params_of("tasks/get"), 0.001)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await until(lambda: server.params_of("tasks/cancel"), 0.001)


@pytest.mark.rule("TX-16")
@pytest.mark.parametrize("shown", [SLOW, SILENCE])
async def test_cancelling_a_started_call_cancels_its_task(shown):
    server = TaskServer(shown)
    async with client(server) as c:
        call = await c.start_call("train")
        await until(lambda: server.params_of("tasks/get"))
        call.cancel("no longer needed")
        with pytest.raises(mcpwire.CallCancelled, match="no longer needed"):
            await call
        await until(lambda: server.params_of("tasks/cancel"))

    assert len(server.params_of("tasks/cancel")) == 1


@on_a_virtual_clock
async def test_no_task_cancel_is_sent_on_a_lost_connection():
    server = TaskServer(SLOW, created=SLOW)
    recovery = mcpwire.Recovery(restart=False)
    async with client(server, recovery=recovery) as c:
        call = asyncio.ensure_future(c.call_tool("train"))
        await until(lambda: server.params_of("tools/call"))
        await asyncio.sleep(0.02)  # it has its response, and waits for its first poll
        server.die()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert server.methods_received == CALL


@pytest.mark.parametrize("answer", [COMPLETE, mcpwire.InternalError("no")])
@on_a_virtual_clock
async def test_the_response_to_tasks_cancel_is_ignored(answer):
    server = TaskServer(SLOW, created=SLOW)
    server.methods["tasks/cancel"] = lambda *_: answer
    async with client(server) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            await c.call_tool("train", timeout=0.05)
        await until(lambda: server.params_of("tasks/cancel"))
        server.begun = DONE["result"]
        assert (await c.call_tool("train")).text == "done"


@on_a_virtual_clock
async def test_closing_does_not_cancel_the_task():
    server = TaskServer(SLOW, created=SLOW)
    async with client(server) as c:
        call = asyncio.ensure_future(c.call_tool("train"))
        await until(lambda: server.params_of("tools/call"))
        await asyncio.sleep(0.02)  # it has its response, and waits for its first poll
        await c.aclose()
        with pytest.raises(mcpwire.ConnectionClosed, match="closed by this side"):
            await call

    assert server.methods_received == CALL
