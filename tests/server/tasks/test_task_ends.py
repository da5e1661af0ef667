"""Tasks that are cancelled, that take too long, and whose server stops."""

import asyncio

import pytest
from task_driver import RESULT, Bed, Gate, bed, soon

from mcpwire.errors import InvalidParams
from mcpwire.server.extensions import tasks as extension
from mcpwire.server.extensions.tasks import MemoryTaskStore


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
