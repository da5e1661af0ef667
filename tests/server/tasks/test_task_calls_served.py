"""Calls that become tasks, and how these end: cancelled, late, or with the server."""

import asyncio
import logging
import re

import pytest
from task_driver import ID, RELATED, RESULT, Bed, Gate, bed, soon

from mcpwire.errors import InvalidParams, RPCError, ToolError
from mcpwire.server.extensions import tasks as extension
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


@pytest.mark.rule("TX-15")
@pytest.mark.case("F17")
async def test_cancelling_a_task_stops_its_handler():
    async with bed() as tasks:
        gate = Gate()
        task_id = await tasks.begin(gate)
        await soon(gate.entered)
        assert await tasks.cancel(task_id) == {}
        assert (await tasks.get(task_id))["status"] == "cancelled"
        await soon(gate.ended)
        assert gate.was_cancelled
        assert gate.request.is_cancelled


@pytest.mark.parametrize("stored", [True, False])
async def test_task_fails_if_its_outcome_has_no_json_form(stored, tmp_path):
    async def result(_):
        return {"content": [{"type": "text", "text": "\ud800"}]}

    async def error(_):
        raise InvalidParams("no", data={"values": {1, 2}})

    async def question(run):
        await run.ask("elicitation/create", {"message": "\ud800"})

    store = extension.SqliteTaskStore(tmp_path / "tasks") if stored else None
    async with bed(store, per_principal=1) as tasks:
        for body in (result, error):
            # The store must not count the previous one as running.
            task = await tasks.until(await tasks.begin(body), "failed")
            assert "the answer could not be encoded" in task["error"]["message"]
        task = await tasks.until(await tasks.begin(question), "completed")
        assert task["result"]["isError"]


@pytest.mark.rule("T11-13")
@pytest.mark.case("F14")
async def test_cancel_response_of_2025_11_25_holds_the_cancelled_task():
    async with bed() as tasks:
        task_id = await tasks.begin(Gate(), old=True)
        task = await tasks.cancel(task_id, old=True)
        assert (task["taskId"], task["status"]) == (task_id, "cancelled")
        assert await tasks.get(task_id, old=True) == task
        with pytest.raises(InvalidParams, match="cancelled and has no result"):
            await tasks.result(task_id)


@pytest.mark.rule("T11-13", "TX-15")
@pytest.mark.case("F14")
async def test_cancelling_an_ended_task_is_an_error_only_in_2025_11_25():
    async with bed() as tasks:
        task_id = await tasks.begin()
        before = await tasks.until(task_id, "completed")
        with pytest.raises(InvalidParams, match="the task has ended: completed"):
            await tasks.cancel(task_id, old=True)
        assert await tasks.cancel(task_id) == {}
        assert await tasks.get(task_id) == before


@pytest.mark.rule("T11-06")
async def test_result_after_a_cancellation_is_ignored():
    async with bed() as tasks:
        entered, ended = asyncio.Event(), asyncio.Event()

        async def stubborn(_):
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.set()
            return RESULT

        task_id = await tasks.begin(stubborn)
        await soon(entered)
        await tasks.cancel(task_id)
        await soon(ended)
        await asyncio.sleep(0)  # one turn of the loop: the result is taken
        task = await tasks.get(task_id)
        assert (task["status"], "result" in task) == ("cancelled", False)


async def test_handler_is_called_even_if_its_task_is_cancelled_at_once():
    async with bed() as tasks:
        gate = Gate()
        task_id = await tasks.begin(gate)
        # It has not run yet; the coroutine made for it has to be closed.
        await tasks.cancel(task_id)
        await soon(gate.ended)
        assert gate.was_cancelled


# Time...


@pytest.mark.case("F17")
@pytest.mark.rule("TX-17", "T11-14")
@pytest.mark.parametrize("old", [False, True])
async def test_expired_task_is_unknown_and_removed(old):
    store = MemoryTaskStore()
    async with bed(store, ttl=60) as tasks:
        task_id = await tasks.end()
        tasks.clock.now += 59.9
        await tasks.get(task_id, old=old)
        tasks.clock.now += 0.1
        with pytest.raises(InvalidParams, match="unknown task"):
            await tasks.get(task_id, old=old)
        # It takes no room either: the next task is the only record.
        await tasks.begin()
        assert len(await store.list("", after=None, limit=10)) == 1


async def test_handler_is_cancelled_when_its_task_expires():
    async with bed(ttl=0.01) as tasks:
        gate = Gate()
        task_id = await tasks.begin(gate)
        await soon(gate.ended)
        assert (gate.was_cancelled, gate.request.is_cancelled) == (True, True)
        task = await tasks.until(task_id, "failed")
        assert task["statusMessage"] == "the task exceeded its time to live"


# Room...


# Stopping the server...


async def test_running_tasks_fail_when_the_server_stops():
    tasks = Bed()
    gate = Gate()
    task_id = await tasks.begin(gate, old=True)
    waiting = asyncio.ensure_future(tasks.result(task_id))
    await soon(gate.entered)
    await tasks.tasks.aclose()
    assert gate.was_cancelled
    with pytest.raises(Exception, match="the server stopped before the task ended"):
        await waiting
    # And it can be used again.
    task = await tasks.get(task_id)
    assert task["statusMessage"] == "the server stopped before the task ended"
    assert (await tasks.call())["status"] == "working"
    await tasks.tasks.aclose()
    await tasks.tasks.aclose()


async def test_handler_that_ignores_cancellation_does_not_delay_closing(
    monkeypatch, caplog
):
    monkeypatch.setattr(extension, "CLOSE_GRACE_S", 0.01)
    tasks = Bed()
    opened, entered = asyncio.Event(), asyncio.Event()
    job = None

    async def stubborn(_):
        nonlocal job
        job = asyncio.current_task()
        entered.set()
        while not opened.is_set():
            try:
                await opened.wait()
            except asyncio.CancelledError:
                continue
        return RESULT

    await tasks.begin(stubborn)
    await soon(entered)
    await tasks.tasks.aclose()
    assert "1 handlers of tasks did not stop" in caplog.text
    opened.set()
    await asyncio.wait({job})


async def test_store_that_never_opens_does_not_delay_closing():
    store = MemoryTaskStore()
    tasks = Bed(store)
    opening = asyncio.Event()

    async def hang(_):
        opening.set()
        await asyncio.Event().wait()

    store.open = hang
    calling = asyncio.ensure_future(tasks.call())
    await soon(opening)
    await tasks.tasks.aclose()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_running_tasks_fail_when_the_event_loop_ends():
    tasks = Bed()
    gate = Gate()
    task_id = await tasks.begin(gate)
    await soon(gate.entered)
    for job in asyncio.all_tasks():
        if job.get_name().startswith("mcpwire-task-"):
            job.cancel()  # as `asyncio.run` does
    await soon(gate.ended)
    task = await tasks.until(task_id, "failed")
    assert task["statusMessage"] == "the server stopped before the task ended"
    await tasks.tasks.aclose()
