"""Calls that become tasks: followed to their end, and taken back by who gives up."""

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer
from turns import until

import mcpwire
from mcpwire.protocol.methods import TASKS

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "over_http"))

from hosting import hosted
from task_server import (
    CANCELLED,
    COMPLETE,
    DONE,
    FORM,
    TaskServer,
    client,
    needs,
    standing,
)

BOUND_S = 30.0
WORKING = standing("working")
SLOW = standing("working", pollIntervalMs=3_600_000)
CALL = ["tools/call"]
LOOK = ["tasks/get"]


# To the end


@pytest.mark.system("L-A11")
@pytest.mark.rule("TX-03", "TX-11")
async def test_a_call_that_becomes_a_task_gives_the_result_all_the_same():
    server = TaskServer(WORKING, WORKING, DONE)
    async with client(server) as c:
        result = await c.call_tool("train", {"epochs": 3})

    assert result.text == "done"
    assert server.methods_received == CALL + LOOK * 3
    assert server.told("tasks/get") == [{"taskId": "t-1"}] * 3


@pytest.mark.rule("TX-03")
async def test_a_call_that_becomes_no_task_is_answered_as_ever():
    server = TaskServer(DONE)
    server.begun = DONE["result"]
    async with client(server) as c:
        assert (await c.call_tool("train")).text == "done"

    assert server.methods_received == CALL


async def test_a_started_call_gives_the_result_of_its_task():
    server = TaskServer(WORKING, DONE)
    async with client(server) as c:
        call = await c.start_call("train")
        assert (await call).text == "done"


async def test_each_look_carries_what_the_call_was_given_and_wants_no_progress():
    server = TaskServer(WORKING, DONE)
    meta = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with client(server) as c:
        await c.call_tool("train", meta=meta, on_progress=print, idempotent=False)

    looks = [params["_meta"] for params in server.requests("tasks/get")]
    assert len(looks) == 2
    for look in looks:
        assert look.items() >= meta.items()
        assert "progressToken" not in look
        declared = look["io.modelcontextprotocol/clientCapabilities"]
        assert declared["extensions"] == {TASKS: {}}


async def test_a_tool_that_failed_in_its_task_is_a_result_or_the_error_asked_for():
    failed = standing("completed", result={**DONE["result"], "isError": True})
    async with client(TaskServer(failed)) as c:
        assert (await c.call_tool("train")).is_error
        with pytest.raises(mcpwire.ToolError, match="done"):
            await c.call_tool("train", check=True)


async def test_a_task_that_failed_raises_the_error_of_the_call():
    error = {"code": -32602, "message": "no such model", "data": [1]}
    server = TaskServer(standing("failed", error=error))
    async with client(server) as c:
        with pytest.raises(mcpwire.InvalidParams, match="no such model") as caught:
            await c.call_tool("train")

    assert (caught.value.method, caught.value.data) == ("tools/call", [1])
    assert server.told("tasks/cancel") == []


async def test_a_task_that_somebody_else_cancelled_is_a_cancelled_call():
    server = TaskServer(CANCELLED)
    async with client(server) as c:
        with pytest.raises(mcpwire.CallCancelled, match="the task was cancelled"):
            await c.call_tool("train")

    assert server.told("tasks/cancel") == []


async def test_a_task_outlives_the_connection_it_was_made_on():
    server = TaskServer(WORKING, DONE)
    get = server.methods["tasks/get"]

    def lose(*_):
        server.methods["tasks/get"] = get
        server.channel._other_end._on_peer_closed()
        return SILENCE

    server.methods["tasks/get"] = lose
    async with client(server) as c:
        assert (await c.call_tool("train")).text == "done"

    assert server.methods_received.count("tools/call") == 1


# What is no task


@pytest.mark.rule("TX-03")
@pytest.mark.parametrize(
    ("options", "declares"),
    [({"extensions": None}, True), ({}, False), ({"extensions": None}, False)],
)
async def test_a_task_that_was_not_agreed_on_is_an_invalid_answer(options, declares):
    server = TaskServer(DONE, declares=declares)
    async with client(server, **options) as c:
        with pytest.raises(mcpwire.RemoteProtocolError, match=TASKS):
            await c.call_tool("train")

    assert server.methods_received == CALL


@pytest.mark.rule("TX-03")
@pytest.mark.unchecked_wire("the server answers with a task where there is none")
async def test_a_task_in_answer_to_another_request_is_an_invalid_answer():
    server = TaskServer(DONE)
    server.methods["prompts/get"] = lambda *_: server.begun
    async with client(server) as c:
        with pytest.raises(mcpwire.InvalidMessage, match="'task' for prompts/get"):
            await c.get_prompt("x")

    assert server.told("tasks/get") == []


@pytest.mark.rule("TX-22")
@pytest.mark.unchecked_wire("the server answers with a task where there is none")
async def test_what_would_be_a_task_is_none_in_a_session():
    capabilities = {"tools": {}, "extensions": {TASKS: {}}}
    server = TaskServer(DONE, version="2025-11-25", capabilities=capabilities)
    async with client(server) as c:
        assert (await c.call_tool("train")).content == []

    assert server.told("tasks/get") == []


@pytest.mark.rule("TX-22")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_call_of_a_session_asks_for_no_task_by_itself(version):
    server = FakeServer({"tools/call": lambda *_: {"content": []}}, version=version)
    async with client(server) as c:
        await c.call_tool("train")

    assert server.requests("tools/call") == [{"name": "train"}]


# What it asks for


def fill_in(asked):
    def fill(form):
        asked.append(form.message)
        return {"name": "Ada"}

    return fill


@pytest.mark.rule("TX-12", "TX-13")
async def test_what_a_task_asks_is_answered_once_by_the_handler_of_any_call():
    asked = []
    server = TaskServer(needs(a=FORM), needs(a=FORM), WORKING, DONE)
    async with client(server, elicitation=fill_in(asked)) as c:
        assert (await c.call_tool("train")).text == "done"

    assert asked == ["Who?"]
    answer = {"action": "accept", "content": {"name": "Ada"}}
    assert server.told("tasks/update") == [
        {"taskId": "t-1", "inputResponses": {"a": answer}}
    ]
    assert server.methods_received == [*CALL, *LOOK, "tasks/update", *LOOK * 3]


@pytest.mark.rule("TX-13")
async def test_a_task_may_ask_no_more_than_the_client_declared():
    sampling = {
        "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 1},
    }
    asked = []
    server = TaskServer(needs(a=sampling))
    async with client(server, elicitation=fill_in(asked)) as c:
        with pytest.raises(mcpwire.RemoteProtocolError, match="did not declare"):
            await c.call_tool("train")
        await until(lambda: server.told("tasks/cancel"))

    assert server.told("tasks/update") == []
    assert asked == []


@pytest.mark.rule("TX-13")
async def test_a_task_that_asks_for_ever_is_bounded_as_calls_are():
    endless = [needs(**{f"q-{number}": FORM}) for number in range(9)]
    asked = []
    limits = mcpwire.Limits(input_rounds=2)
    server = TaskServer(*endless)
    async with client(server, elicitation=fill_in(asked), limits=limits) as c:
        with pytest.raises(mcpwire.RemoteProtocolError, match="after 2 rounds"):
            await c.call_tool("train")
        await until(lambda: server.told("tasks/cancel"))

    assert len(asked) == 2


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
async def test_without_an_answer_that_may_leave_the_call_ends_and_takes_its_task_back(
    handler, error, why
):
    server = TaskServer(needs(a=FORM))
    async with client(server, elicitation=handler) as c:
        with pytest.raises(error, match=why):
            await c.call_tool("train")
        await until(lambda: server.told("tasks/cancel"))

    assert server.told("tasks/update") == []


@on_a_virtual_clock
async def test_the_calls_clock_stands_still_while_somebody_is_asked():
    async def think(_):
        await asyncio.sleep(0.3)  # longer than the call may take
        return {"name": "Ada"}

    server = TaskServer(needs(a=FORM), DONE)
    async with asyncio.timeout(BOUND_S), client(server, elicitation=think) as c:
        assert (await c.call_tool("train", timeout=0.25)).text == "done"


# Who gives up


@pytest.mark.rule("TX-16")
@on_a_virtual_clock
async def test_who_cancels_a_call_takes_its_task_back_and_does_not_wait():
    server = TaskServer(SLOW, created=SLOW)
    server.methods["tasks/cancel"] = lambda *_: SILENCE
    async with asyncio.timeout(BOUND_S), client(server) as c:
        call = asyncio.ensure_future(c.call_tool("train", timeout=None))
        await until(lambda: server.told("tools/call"))
        await asyncio.sleep(0.02)  # it is answered, and waits for its first look
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.told("tasks/cancel"))
        assert server.told("tasks/cancel") == [{"taskId": "t-1"}]
        assert server.told("notifications/cancelled") == []


@pytest.mark.rule("TX-16")
async def test_who_cancels_during_a_look_takes_back_the_look_and_the_task():
    server = TaskServer(SILENCE)
    async with client(server) as c:
        call = asyncio.ensure_future(c.call_tool("train"))
        await until(lambda: server.told("tasks/get"))
        look = server.received[-1]["id"]
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.told("tasks/cancel"))

    told = server.told("notifications/cancelled")
    assert [params["requestId"] for params in told] == [look]


@pytest.mark.rule("TX-16")
@pytest.mark.parametrize("shown", [SLOW, SILENCE])
@on_a_virtual_clock
async def test_a_call_that_runs_out_of_time_takes_its_task_back(shown):
    server = TaskServer(shown, created=SLOW if shown is SLOW else None)
    async with asyncio.timeout(BOUND_S), client(server) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            await c.call_tool("train", timeout=0.05)
        await until(lambda: server.told("tasks/cancel"))

    assert len(server.told("tasks/cancel")) == 1


@pytest.mark.rule("TX-16")
@pytest.mark.parametrize("mode", [None, "json", "sse"])
@pytest.mark.parametrize("shown", [SLOW, SILENCE])
async def test_a_task_is_taken_back_also_where_the_client_is_closed_at_once(
    mode, shown
):
    server = TaskServer(shown, created=None if shown is SILENCE else WORKING)
    with contextlib.ExitStack() as stack:
        target = server if mode is None else stack.enter_context(hosted(server, mode))
        target = getattr(target, "url", target)
        async with client(target) as c:
            call = asyncio.ensure_future(c.call_tool("train"))
            await until(lambda: server.told("tasks/get"), 0.001)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await until(lambda: server.told("tasks/cancel"), 0.001)


@pytest.mark.rule("TX-16")
@pytest.mark.parametrize("shown", [SLOW, SILENCE])
async def test_a_started_call_that_is_cancelled_takes_its_task_back(shown):
    server = TaskServer(shown)
    async with client(server) as c:
        call = await c.start_call("train")
        await until(lambda: server.told("tasks/get"))
        call.cancel("no longer needed")
        with pytest.raises(mcpwire.CallCancelled, match="no longer needed"):
            await call
        await until(lambda: server.told("tasks/cancel"))

    assert len(server.told("tasks/cancel")) == 1


@on_a_virtual_clock
async def test_nobody_is_told_where_the_connection_is_gone():
    server = TaskServer(SLOW, created=SLOW)
    recovery = mcpwire.Recovery(restart=False)
    async with asyncio.timeout(BOUND_S), client(server, recovery=recovery) as c:
        call = asyncio.ensure_future(c.call_tool("train"))
        await until(lambda: server.told("tools/call"))
        await asyncio.sleep(0.02)  # it is answered, and waits for its first look
        server.channel._other_end._on_peer_closed()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert server.methods_received == CALL


@pytest.mark.parametrize("answer", [COMPLETE, mcpwire.InternalError("no")])
@on_a_virtual_clock
async def test_what_a_server_says_to_a_task_taken_back_changes_nothing(answer):
    server = TaskServer(SLOW, created=SLOW)
    server.methods["tasks/cancel"] = lambda *_: answer
    async with asyncio.timeout(BOUND_S), client(server) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            await c.call_tool("train", timeout=0.05)
        await until(lambda: server.told("tasks/cancel"))
        server.begun = DONE["result"]
        assert (await c.call_tool("train")).text == "done"


@on_a_virtual_clock
async def test_closing_ends_the_wait_and_leaves_the_task_alone():
    server = TaskServer(SLOW, created=SLOW)
    async with asyncio.timeout(BOUND_S), client(server) as c:
        call = asyncio.ensure_future(c.call_tool("train"))
        await until(lambda: server.told("tools/call"))
        await asyncio.sleep(0.02)  # it is answered, and waits for its first look
        await c.aclose()
        with pytest.raises(mcpwire.ConnectionClosed, match="closed by this side"):
            await call

    assert server.methods_received == CALL
