"""Tasks whose store fails for a while, as a file locked by another process does.

The clients are served from memory meanwhile; these copies must not last.
"""

import sqlite3
import stat

from task_driver import bed

from mcpwire.server.extensions.tasks import MemoryTaskStore, SqliteTaskStore


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
        assert not tasks.tasks._running.keys() & set(ended)


async def test_unwritten_tasks_are_forgotten_when_they_expire():
    store = Locked()
    async with bed(store, ttl=60) as tasks:
        for _ in range(5):
            await tasks.end()
        tasks.clock.now += 61
        await tasks.end()
        assert len(tasks.tasks._running) == 1
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
