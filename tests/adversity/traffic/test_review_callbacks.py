"""Faulty user functions cause a log record and nothing else."""

import asyncio
import fcntl
import os
from unittest.mock import Mock

import pytest
from eager import eager
from fakes import SILENCE, FakeServer, text
from scripted import pid_of, scripted

import mcpwire
from mcpwire.transports import process
from mcpwire.transports.handlers import InboundTasks
from mcpwire.transports.stdio import StdioChannel

BOUND_S = 30.0


def log(server, data):
    server.notify("notifications/message", level="info", data=data)


def cancelled_future():
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


async def test_cancelled_error_in_a_callback_loses_only_its_item(caplog):
    received = []
    started = asyncio.Event()
    through = asyncio.Event()
    blocked = asyncio.get_running_loop().create_future()

    async def callback(notification):
        received.append(notification.params.data)
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
    assert received == [0, 1, 2]
    assert "raised" in caplog.text


@pytest.mark.parametrize("hook", ["on_notification", "trace"])
async def test_cancelled_error_in_a_hook_loses_no_response(hook, caplog):
    def raise_cancelled(*_):
        cancelled_future().result()

    def both_at_once(_, server):
        line = b'{"jsonrpc":"2.0","method":"x/y"}\n'
        answer = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}\n'
        server.write(line + answer % server.current["id"])
        return SILENCE

    server = FakeServer({"tools/call": both_at_once})
    async with mcpwire.Client(server, **{hook: raise_cancelled}) as client:
        await client.call_tool("x")
    assert "raised" in caplog.text


@pytest.mark.fault("F04")
async def test_raising_stderr_function_does_not_hide_the_exit(caplog):
    def boom(_):
        raise ValueError("boom")

    target = scripted(
        f"import fcntl\nfcntl.fcntl(2, {fcntl.F_SETPIPE_SZ}, 1 << 20)\n"
        "handshake()\nrecv()\nos.write(2, b'x' * 400_000)\nos._exit(3)",
        stderr=boom,
    )
    async with mcpwire.Client(target) as client:
        pid = pid_of(client)
        call = asyncio.create_task(client.call_tool("x"))
        await asyncio.sleep(0)  # an iteration of the loop
        # The loop is blocked so that output and exit are seen in one iteration.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - see above
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await call
    assert caught.value.exit_code == 3
    assert "boom" in caplog.text


async def test_stderr_flood_does_not_block_the_reader(monkeypatch):
    channel = StdioChannel(Mock(), scripted("while True: recv()"), mcpwire.Limits())
    reads = 0

    def endless(fd, size):
        nonlocal reads
        reads += 1
        assert reads < 1_000
        return b"x" * size

    with monkeypatch.context() as patch:
        patch.setattr(process.os, "read", endless)
        assert channel.stderr_tail
    await channel.aclose()
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
async def test_eager_tasks_deliver_all_callbacks_and_reconnect():
    received = []

    async def on_notification(notification):
        received.append(notification.params.data)

    async def on_progress(progress, total, message):
        received.append(progress)

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
    assert received == [0, 1, 2, 7] * 2


@pytest.mark.usefixtures("eager_tasks")
@pytest.mark.parametrize("suspends", [False, True])
async def test_eager_tasks_complete_and_drop_handlers(suspends):
    tasks = InboundTasks(limit=1, backlog=1)
    replies = []

    async def handler():
        if suspends:
            await asyncio.sleep(0)  # an iteration of the loop
        return {"a": 1}

    tasks.start(1, handler, replies.append)
    tasks.start(2, handler, replies.append)
    await tasks.settle(BOUND_S)
    assert replies == [{"a": 1}, {"a": 1}]
    assert len(tasks) == 0
