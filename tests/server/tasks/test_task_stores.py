"""Both stores of tasks; any sequence of actions makes only valid transitions."""

import asyncio
import gc
import os
import sqlite3
import stat
import weakref

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_polling import until
from task_driver import ACCEPT, FORM, RESULT, Bed, Gate, bed, soon

from mcpwire.protocol.tasks import TaskLimits, TaskRecord
from mcpwire.server.extensions.tasks import (
    MemoryTaskStore,
    SqliteTaskStore,
    StoreFullError,
)

ROOM = TaskLimits(total=100, unfinished=100)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    made = MemoryTaskStore()
    if request.param == "sqlite":
        made = SqliteTaskStore(tmp_path / "tasks.sqlite")
    await made.open(0)
    yield made
    await made.aclose()


def begin(id="t-1", *, owner="me", now=10, ttl=60.0):
    return TaskRecord(
        id=id, owner=owner, tool="slow", created_at=now, ttl=ttl, poll_interval=1.0
    )


def full(record):
    """Return a record with something in each of its members."""
    record, _ = record.ask("elicitation/create", {"message": "é"}, now=11)
    return attrs.evolve(record, result=RESULT, error={"code": 1}, status_message="m")


async def test_store_returns_records_unchanged(store):
    record = begin()
    await store.create(record, ROOM)
    assert await store.get("t-1") == record
    await store.update(full(record))
    assert await store.get("t-1") == full(record)
    assert await store.get("t-2") is None


async def test_update_does_not_restore_a_deleted_task(store):
    await store.create(begin(), ROOM)
    await store.delete("t-1")
    await store.delete("t-1")
    await store.update(begin())
    assert await store.get("t-1") is None


async def test_list_is_in_order_and_of_one_owner(store):
    for id, owner, now in [
        ("b", "me", 10),
        ("a", "me", 10),
        ("c", "you", 10),
        ("d", "me", 5),
        ("e", "me", 11),
    ]:
        await store.create(begin(id, owner=owner, now=now), ROOM)

    async def ids(after=None, limit=10):
        return [r.id for r in await store.list("me", after=after, limit=limit)]

    assert await ids() == ["d", "a", "b", "e"]
    assert await ids(limit=2) == ["d", "a"]
    assert await ids(after=(10.0, "a")) == ["b", "e"]
    await store.delete("a")
    assert await ids(after=(10.0, "a")) == ["b", "e"]


async def test_expired_tasks_are_removed(store):
    await store.create(begin("a", ttl=60.0), ROOM)
    await store.create(begin("b", ttl=61.0), ROOM)
    await store.create(begin("c", ttl=None), ROOM)
    await store.expire(70.0)
    remaining = [r.id for r in await store.list("me", after=None, limit=10)]
    assert remaining == ["b", "c"]


@pytest.mark.rule("T11-17")
async def test_full_store_removes_an_ended_task_or_refuses(store):
    room = TaskLimits(total=2, unfinished=2)
    ended = begin("a").complete(RESULT, now=11)
    await store.create(begin("a"), room)
    await store.update(ended)
    await store.create(begin("b", now=11), room)
    await store.create(begin("c", now=12), room)
    assert await store.get("a") is None
    with pytest.raises(StoreFullError, match="there are too many tasks") as caught:
        await store.create(begin("d", owner="you", now=13), room)
    assert caught.value.to_end == "b"
    assert await store.get("d") is None


@pytest.mark.rule("T11-17")
async def test_unfinished_tasks_of_an_owner_are_limited(store):
    room = TaskLimits(total=100, unfinished=1)
    full = pytest.raises(StoreFullError)
    await store.create(begin("a", ttl=5.0), room)
    with full:
        await store.create(begin("b"), room)
    await store.create(begin("c", owner="you"), room)
    ended = begin("a", ttl=5.0).complete(RESULT, now=11)
    await store.update(ended)
    await store.update(ended)
    await store.create(begin("d", ttl=None), room)
    with full:
        await store.create(begin("e"), room)
    await store.delete("d")
    await store.create(begin("f", ttl=7.0), room)
    await store.expire(17.0)
    await store.create(begin("g"), room)
    with full:
        await store.create(begin("h"), room)


# Records that outlive their process...


async def test_results_survive_a_restart_and_running_tasks_have_failed(tmp_path):
    path = tmp_path / "tasks.sqlite"
    async with bed(SqliteTaskStore(path), ttl=None) as tasks:
        done = await tasks.end()
        before = await tasks.get(done)

    # As after a crash: the end of this task was not recorded.
    store = SqliteTaskStore(path)
    await store.open(0)
    await store.create(begin("lost", owner="", now=1_000, ttl=None), ROOM)
    await store.aclose()

    async with bed(SqliteTaskStore(path)) as tasks:
        assert await tasks.get(done) == before
        assert await tasks.result(done)
        lost = await tasks.get("lost")
        assert (lost["status"], lost["statusMessage"]) == (
            "failed",
            "the server stopped before the task ended",
        )


@pytest.mark.rule("TX-06")
async def test_a_task_is_in_the_file_before_the_call_is_answered(tmp_path):
    path = tmp_path / "tasks.sqlite"
    async with bed(SqliteTaskStore(path)) as tasks:
        gate = Gate()
        task_id = await tasks.begin(gate)
        other = sqlite3.connect(path)
        try:
            rows = other.execute("select id, is_final from task").fetchall()
        finally:
            other.close()
        assert rows == [(task_id, 0)]
        await soon(gate.entered)


async def test_store_can_be_closed_and_opened_repeatedly(tmp_path):
    store = SqliteTaskStore(tmp_path / "tasks.sqlite")
    await store.aclose()
    await store.open(0)
    await store.open(0)  # again, as another loop does
    await store.aclose()
    await store.aclose()
    assert str(tmp_path) in repr(store)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
async def test_file_is_accessible_only_to_its_user(tmp_path):
    path = tmp_path / "tasks.sqlite"
    async with bed(SqliteTaskStore(path)) as tasks:
        await tasks.begin()
        modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {0o600}


async def test_file_with_another_schema_version_is_refused(tmp_path):
    path = tmp_path / "tasks.sqlite"
    database = sqlite3.connect(path)
    database.execute("pragma user_version = 7")
    database.close()
    store = SqliteTaskStore(path)
    with pytest.raises(sqlite3.DatabaseError, match="tables of version 7, not 1"):
        await store.open(0)
    await store.aclose()
    with pytest.raises(OSError, match="no such folder"):
        await SqliteTaskStore(tmp_path / "no such folder" / "x").open(0)


# A store that several processes share...


async def test_waiter_polls_the_task_of_another_process():
    reads = []

    class Shared(MemoryTaskStore):
        async def get(self, task_id):
            reads.append(task_id)
            record = await super().get(task_id)
            if len(reads) == 3:
                return record.complete(RESULT, now=1_001)
            return record

    store = Shared()
    async with bed(store) as tasks:
        record = attrs.evolve(begin("far", owner="", now=1_000), poll_interval=0.001)
        await store.create(record, ROOM)
        result = await tasks.result("far")
        assert result["content"] == RESULT["content"]
        assert len(reads) == 3
        assert await tasks.cancel("far") == {}
        assert await tasks.update("far", {}) == {}


def test_tasks_can_be_used_in_one_event_loop_after_another(tmp_path):
    made = Bed(SqliteTaskStore(tmp_path / "tasks.sqlite"))

    async def call():
        task_id = await made.end()
        await made.tasks.aclose()
        return task_id

    async def get_status(task_id):
        task = await made.get(task_id)
        await made.tasks.aclose()
        return task["status"]

    task_id = asyncio.run(call())
    assert asyncio.run(get_status(task_id)) == "completed"


# A store that fails for a while, as a file locked by another process does: clients are
# served from memory meanwhile, and these copies must not last...


class Locked(MemoryTaskStore):
    """A store whose writes fail while it is locked."""

    is_locked = True

    async def update(self, record):
        if self.is_locked:
            raise sqlite3.OperationalError("database is locked")
        await super().update(record)


async def test_failed_writes_are_repeated_when_the_store_works_again():
    store = Locked()
    async with bed(store, per_principal=2) as tasks:
        ended = [await tasks.begin() for _ in range(2)]
        for task_id in ended:
            await tasks.until(task_id, "completed")
        store.is_locked = False
        # The store still counts both as running, which would be too many.
        await tasks.end()
        for task_id in ended:
            assert (await store.get(task_id)).status == "completed"
            assert (await tasks.get(task_id))["status"] == "completed"
        await until(lambda: repr(tasks.tasks) == "<Tasks 0 under way>")


async def test_unwritten_tasks_are_forgotten_when_they_expire():
    store = Locked()
    async with bed(store, ttl=60) as tasks:
        for _ in range(5):
            await tasks.end()
        tasks.clock.now += 61
        await tasks.end()
        assert repr(tasks.tasks) == "<Tasks 1 under way>"
        store.is_locked = False


async def test_existing_file_is_opened_only_by_sqlite(tmp_path, monkeypatch):
    # Closing any descriptor of a file ends all locks that this process has on it:
    # sqlite.org/howtocorrupt.html, 2.2.
    path = tmp_path / "tasks.sqlite"
    first, second = SqliteTaskStore(path), SqliteTaskStore(path)
    try:
        await first.open(0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        closed = []
        monkeypatch.setattr("os.close", closed.append)
        await second.open(0)
        assert closed == []
    finally:
        monkeypatch.undo()
        await first.aclose()
        await second.aclose()


TRANSITIONS = {
    "working": {"input_required", "completed", "failed", "cancelled"},
    "input_required": {"input_required", "working", "completed", "failed", "cancelled"},
}

STEPS = st.sampled_from(["ask", "give up", "answer", "turn", "cancel", "end", "stop"])


class Handler:
    """A handler that runs the steps of a test until it ends."""

    def __init__(self):
        self.ended = asyncio.Event()
        self.pending = []
        self.request = None

    async def __call__(self, request):
        self.request = request
        await self.ended.wait()
        return RESULT

    def ask(self):
        if self.request is not None:
            request = self.request.ask("elicitation/create", FORM)
            self.pending.append(asyncio.ensure_future(request))

    def cancel_request(self):
        if self.pending:
            self.pending.pop().cancel()


async def play(steps):
    async with bed() as tasks:
        handler = Handler()
        task_id = await tasks.begin(handler)
        notified = []
        request = tasks.request("subscriptions/listen", {})
        tasks.tasks.watch([task_id], request, lambda _, task: notified.append(task))
        for step in steps:
            task = await tasks.get(task_id)
            keys = list(task.get("inputRequests", ()))
            if step == "ask":
                handler.ask()
            elif step == "give up":
                handler.cancel_request()
            elif step == "answer":
                await tasks.update(task_id, dict.fromkeys(keys[:1], ACCEPT))
            elif step == "turn":
                await asyncio.sleep(0)  # one loop iteration, which is what is tested
            elif step == "cancel":
                await tasks.cancel(task_id)
            elif step == "end":
                handler.ended.set()
            else:
                await tasks.tasks.aclose()
        handler.ended.set()
        final = await tasks.until(task_id, "completed", "failed", "cancelled")
        for each in handler.pending:
            each.cancel()
        await asyncio.gather(*handler.pending, return_exceptions=True)
        assert await tasks.get(task_id) == final
        return notified, final


@pytest.mark.rule("T11-06", "TX-14")
@given(st.lists(STEPS, max_size=15))
def test_only_valid_transitions_are_notified_and_the_last_is_final(steps):
    notified, final = asyncio.run(play(steps))
    before, settled, open_keys = "working", set(), set()
    for task in notified:
        assert task["status"] in TRANSITIONS[before]
        before = task["status"]
        keys = set(task.get("inputRequests", ()))
        assert bool(keys) is (before == "input_required")
        # A request that was settled once never appears again.
        settled |= open_keys - keys
        open_keys = keys
        assert settled.isdisjoint(keys)
    if notified:
        assert notified[-1] == final


async def test_ended_task_leaves_only_its_record():
    async with bed() as tasks:
        requests = []
        for _ in range(20):
            gate = Gate()
            task_id = await tasks.begin(gate)
            listen = tasks.request("subscriptions/listen", {})
            tasks.tasks.watch([task_id], listen, lambda *_: None)
            gate.opened.set()
            await tasks.until(task_id, "completed")
            requests.append(weakref.ref(gate))
            del gate
        made = tasks.tasks
        await asyncio.gather(*made._jobs)
        await asyncio.sleep(0)  # the jobs leave the set in a callback
        assert (made._running, made._jobs) == ({}, set())
        gc.collect()
        assert [ref() for ref in requests] == [None] * 20
