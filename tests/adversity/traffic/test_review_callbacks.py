"""What users' functions do wrong costs them a log record, and nobody else anything."""

import asyncio
import fcntl
import os

import pytest
from eager import eager
from fakes import SILENCE, FakeServer, text
from scripted import scripted

import mcpwire
from mcpwire.transports import process
from mcpwire.transports.handlers import InboundTasks

BOUND_S = 30.0


def log(server, data):
    server.notify("notifications/message", level="info", data=data)


def cancelled_future():
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


async def test_a_callback_that_awaits_something_cancelled_loses_only_its_own_item(
    caplog,
):
    heard = []
    started = asyncio.Event()
    through = asyncio.Event()
    blocked = asyncio.get_running_loop().create_future()

    async def callback(notification):
        heard.append(notification.params.data)
        if notification.params.data == 0:
            started.set()
            await blocked
        if notification.params.data == 2:
            through.set()

    server = FakeServer()
    async with mcpwire.Client(server, on_notification=callback):
        for data in range(3):
            log(server, data)
        await started.wait()
        blocked.cancel()
        await through.wait()
    assert heard == [0, 1, 2]
    assert "raised" in caplog.text


@pytest.mark.parametrize("hook", ["on_notification", "trace"])
async def test_a_function_that_asks_for_a_cancelled_result_costs_no_answer(
    hook, caplog
):
    def ask(*_):
        cancelled_future().result()

    def both_at_once(_, server):
        line = b'{"jsonrpc":"2.0","method":"x/y"}\n'
        answer = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}\n'
        server.channel._write(line + answer % server.current["id"])
        return SILENCE

    server = FakeServer({"tools/call": both_at_once})
    async with mcpwire.Client(server, **{hook: ask}) as client:
        await client.call_tool("x")
    assert "raised" in caplog.text


@pytest.mark.fault("F04")
async def test_a_stderr_function_that_raises_hides_no_exit(caplog):
    def boom(_):
        raise ValueError("boom")

    target = scripted(
        f"import fcntl\nfcntl.fcntl(2, {fcntl.F_SETPIPE_SZ}, 1 << 20)\n"
        "handshake()\nrecv()\nos.write(2, b'x' * 400_000)\nos._exit(3)",
        stderr=boom,
    )
    async with mcpwire.Client(target) as client:
        pid = client._connection.channel.pid
        call = asyncio.create_task(client.call_tool("x"))
        await asyncio.sleep(0)  # a turn of the loop
        # The loop is blocked so that output and exit are seen in one turn of it.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - as said
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await call
    assert caught.value.exit_code == 3
    assert "boom" in caplog.text


async def test_a_child_that_floods_its_stderr_keeps_nobody(monkeypatch):
    target = scripted("handshake()\nwhile True: recv()")
    async with mcpwire.Client(target) as client:
        channel = client._connection.channel
        reads = 0

        def endless(fd, size):
            nonlocal reads
            assert fd == channel._child._stderr_fd
            reads += 1
            assert reads < 1_000
            return b"x" * size

        with monkeypatch.context() as patch:
            patch.setattr(process.os, "read", endless)
            assert channel.stderr_tail
    assert reads >= 16


# Eager tasks (from Python 3.12 on, if the application wants them) run before
# `create_task` returns.


@pytest.fixture
async def eager_tasks():
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", eager))
    yield
    loop.set_task_factory(None)


@pytest.mark.usefixtures("eager_tasks")
async def test_with_eager_tasks_callbacks_hear_all_and_connections_reopen():
    heard = []

    async def on_notification(notification):
        heard.append(notification.params.data)

    async def on_progress(progress, total, message):
        heard.append(progress)

    def work(params, server):
        for data in range(3):
            log(server, data)
        token = params["_meta"]["progressToken"]
        server.notify("notifications/progress", progressToken=token, progress=7)
        return text("done")

    client = mcpwire.Client(
        FakeServer({"tools/call": work}), on_notification=on_notification
    )
    for _ in range(2):
        await client.connect()
        result = await client.call_tool("x", on_progress=on_progress)
        assert result.text == "done"
        await client.aclose()
    assert heard == [0, 1, 2, 7] * 2


@pytest.mark.usefixtures("eager_tasks")
@pytest.mark.parametrize("suspends", [False, True])
async def test_with_eager_tasks_a_handler_is_answered_and_forgotten(suspends):
    tasks = InboundTasks(limit=1, backlog=1)
    replies = []

    async def handler():
        if suspends:
            await asyncio.sleep(0)  # a turn of the loop
        return {"a": 1}

    tasks.start(1, handler, replies.append)
    tasks.start(2, handler, replies.append)
    await tasks.settle(BOUND_S)
    assert replies == [{"a": 1}, {"a": 1}]
    assert len(tasks) == 0
