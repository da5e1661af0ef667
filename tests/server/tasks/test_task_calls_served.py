"""Calls that become tasks, and how these end."""

import asyncio
import logging
import re

import pytest
from task_driver import ID, RELATED, RESULT, Bed, Gate, bed, soon

from mcpwire.errors import RPCError, ToolError
from mcpwire.server.extensions.tasks import MemoryTaskStore, Tasks

START = "1970-01-01T00:16:40.000Z"
FAILURE = {"content": [{"type": "text", "text": "it broke"}], "isError": True}


@pytest.mark.rule("TX-05", "TX-08")
async def test_a_call_is_answered_with_a_flat_task():
    async with bed(ttl=60, poll_interval=0.25) as tasks:
        gate = Gate()
        answer = await tasks.call(gate)
        task_id = answer.pop("taskId")
        assert answer == {
            "resultType": "task",
            "status": "working",
            "createdAt": START,
            "lastUpdatedAt": START,
            "ttlMs": 60_000,
            "pollIntervalMs": 250,
        }
        assert await tasks.get(task_id) == {
            **{k: v for k, v in answer.items() if k != "resultType"},
            "taskId": task_id,
        }


@pytest.mark.rule("T11-07")
@pytest.mark.parametrize(
    ("own", "task", "kept"),
    [
        (60, {}, 60_000),
        (60, {"ttl": 30_000}, 30_000),
        (60, {"ttl": 3_600_000}, 60_000),
        (None, {"ttl": 3_600_000}, 3_600_000),
        (60, {"ttl": 0}, 1_000),
    ],
)
async def test_client_may_shorten_the_ttl_and_gets_the_actual_one(own, task, kept):
    async with bed(ttl=own) as tasks:
        answer = await tasks.call(old=True, task=task)
        assert answer["task"]["ttl"] == kept


@pytest.mark.rule("TX-09")
@pytest.mark.case("F17")
async def test_completed_task_holds_its_result():
    async with bed() as tasks:
        gate = Gate()
        task_id = await tasks.begin(gate)
        tasks.clock.now += 2
        gate.opened.set()
        task = await tasks.until(task_id, "completed")
        assert task["result"] == RESULT
        assert task["lastUpdatedAt"] == "1970-01-01T00:16:42.000Z"
        assert not {"error", "inputRequests", "requestState"} & set(task)


async def fails(_):
    raise ToolError("it broke")


async def fails_by_itself(_):
    return FAILURE


@pytest.mark.parametrize("body", [fails, fails_by_itself])
@pytest.mark.rule("TX-10", "T11-16")
@pytest.mark.case("F14")
async def test_failing_tool_completes_its_task_but_fails_in_2025_11_25(body):
    async with bed() as tasks:
        task_id = await tasks.begin(body)
        task = await tasks.until(task_id, "completed")
        assert task["result"] == FAILURE
        old = await tasks.get(task_id, old=True)
        assert (old["status"], "result" in old) == ("failed", False)
        result = await tasks.result(task_id)
        assert result == {**FAILURE, "_meta": {RELATED: {"taskId": task_id}}}


@pytest.mark.rule("TX-10", "T11-09")
async def test_failed_task_holds_its_error():
    async def body(_):
        raise RPCError("no luck", code=-7, data={"why": 1})

    async with bed() as tasks:
        task_id = await tasks.begin(body)
        task = await tasks.until(task_id, "failed")
        assert task["error"] == {"code": -7, "message": "no luck", "data": {"why": 1}}
        assert task["statusMessage"] == "no luck"
        assert "result" not in task
        with pytest.raises(RPCError, match="no luck") as caught:
            await tasks.result(task_id)
        assert (caught.value.code, caught.value.data) == (-7, {"why": 1})


async def test_unexpected_exception_is_logged_and_not_sent(caplog):
    async def body(_):
        raise ZeroDivisionError("the password is swordfish")

    async with bed() as tasks:
        task_id = await tasks.begin(body)
        task = await tasks.until(task_id, "completed")
        assert task["result"]["isError"] is True
        assert "swordfish" not in str(task)
    assert "swordfish" in caplog.text


async def test_input_required_result_of_a_handler_fails_its_task(caplog):
    async def body(_):
        return {"resultType": "input_required", "inputRequests": {}}

    async with bed() as tasks:
        task = await tasks.until(await tasks.begin(body), "failed")
        assert task["error"] == {"code": -32603, "message": "the handler failed"}
    assert "did not complete" in caplog.text


# tasks/result, which 2025-11-25 has...


@pytest.mark.rule("T11-09", "T11-10")
@pytest.mark.case("F14")
async def test_tasks_result_waits_for_the_result():
    async with bed() as tasks:
        gate = Gate({**RESULT, "_meta": {"a": 1}})
        task_id = await tasks.begin(gate, old=True)
        waiting = asyncio.ensure_future(tasks.result(task_id))
        await soon(gate.entered)
        assert not waiting.done()
        gate.opened.set()
        expected = {**RESULT, "_meta": {"a": 1, RELATED: {"taskId": task_id}}}
        assert await waiting == expected
        # A second request gets the same.
        assert await tasks.result(task_id) == expected


@pytest.mark.rule("TX-19")
async def test_the_extension_sends_neither_progress_nor_messages():
    async with bed() as tasks:
        gate = Gate()
        task_id = await tasks.begin(
            gate, progressToken="p", **{"io.modelcontextprotocol/logLevel": "debug"}
        )
        await soon(gate.entered)
        watched = []
        request = tasks.request("subscriptions/listen", {})
        tasks.tasks.watch(
            [task_id], request, lambda *notification: watched.append(notification)
        )
        gate.request.progress(1, message="half of it")
        gate.request.progress(2)
        gate.request.log("error", "hear me")
        assert (tasks.notifications, watched) == ([], [])
        # But the status message of the task shows the progress.
        assert (await tasks.get(task_id))["statusMessage"] == "half of it"
        gate.opened.set()
        assert "statusMessage" not in await tasks.until(task_id, "completed")


@pytest.mark.rule("T11-10", "PROG-07")
async def test_session_gets_progress_and_status_notifications_of_its_task():
    async with bed() as tasks:
        gate = Gate()
        task_id = await tasks.begin(gate, old=True, progressToken="p")
        await soon(gate.entered)
        gate.request.progress(1)
        gate.request.session.is_closed = True
        gate.request.progress(2)
        gate.request.session.is_closed = False
        gate.opened.set()
        await tasks.until(task_id, "completed")
        gate.request.progress(3)
        meta = {"_meta": {RELATED: {"taskId": task_id}}}
        (progress, status) = tasks.notifications
        assert progress == (
            "notifications/progress",
            {"progressToken": "p", "progress": 1, **meta},
        )
        task = await tasks.get(task_id, old=True)
        assert status == ("notifications/tasks/status", {**task, **meta})


async def test_progress_after_the_end_of_a_task_is_ignored():
    async with bed() as tasks:
        gate = Gate()
        task_id = await tasks.begin(gate, progressToken="p")
        gate.opened.set()
        before = await tasks.until(task_id, "completed")
        gate.request.progress(1, message="too late")
        assert await tasks.get(task_id) == before


@pytest.mark.rule("TX-01", "T11-01")
def test_extension_declares_itself_in_both_dialects():
    tasks = Tasks()
    assert (tasks.id, tasks.settings) == (ID, {})
    assert tasks.legacy_capabilities == {
        "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}
    }
    assert repr(tasks) == "<Tasks 0 under way>"


@pytest.mark.parametrize(
    "options",
    [{"ttl": 0}, {"poll_interval": -1}, {"max_tasks": 0}, {"per_principal": True}],
)
def test_invalid_numeric_options_are_refused(options):
    with pytest.raises(ValueError, match="must be"):
        Tasks(**options)


@pytest.mark.rule("TX-23", "T11-06")
async def test_ids_are_unguessable_and_fit_a_header():
    async with bed() as tasks:
        ids = [await tasks.begin() for _ in range(20)]
    assert len(set(ids)) == len(ids)
    # 192 bits, in base64.
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", task_id) for task_id in ids)


async def test_store_failure_at_the_end_does_not_lose_the_result(caplog):
    store = MemoryTaskStore()
    async with bed(store) as tasks:
        gate = Gate()
        task_id = await tasks.begin(gate)

        async def broken(_):
            raise OSError("disk full")

        store.update = broken
        gate.opened.set()
        assert (await tasks.until(task_id, "completed"))["result"] == RESULT
        del store.update
    assert "disk full" in caplog.text


async def test_opening_the_store_is_retried_after_a_failure(caplog):
    caplog.set_level(logging.CRITICAL)
    store = MemoryTaskStore()
    tasks = Bed(store)
    opened = []

    async def broken(now):
        opened.append(now)
        if len(opened) == 1:
            raise OSError("not yet")

    store.open = broken
    with pytest.raises(OSError, match="not yet"):
        await tasks.call()
    await tasks.call()
    await tasks.call()
    assert opened == [1000.0, 1000.0]
    await tasks.tasks.aclose()


async def test_cancelling_one_waiter_does_not_cancel_opening_the_store():
    store, opening, release = MemoryTaskStore(), asyncio.Event(), asyncio.Event()
    async with bed(store) as tasks:

        async def slow(_):
            opening.set()
            await soon(release)

        store.open = slow
        leaving, staying = (asyncio.ensure_future(tasks.call()) for _ in range(2))
        await soon(opening)
        leaving.cancel()
        await asyncio.wait({leaving})
        release.set()
        assert (await staying)["status"] == "working"
        assert leaving.cancelled()


async def test_call_cancelled_before_its_response_leaves_no_task():
    store = MemoryTaskStore()
    async with bed(store) as tasks:
        create, entered = store.create, asyncio.Event()

        async def slow(record, limits):
            await create(record, limits)
            entered.set()
            await asyncio.Event().wait()

        store.create = slow
        calling = asyncio.ensure_future(tasks.call())
        await soon(entered)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert await store.list("", after=None, limit=10) == []
