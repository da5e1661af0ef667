"""Tasks whose store fails for a while, as a file does that another process has locked.

The clients are served from memory meanwhile; nothing of that may last.
"""

import sqlite3
import stat

from taskbed import bed

from mcpwire.server.extensions.tasks import MemoryTaskStore, SqliteTaskStore


class Locked(MemoryTaskStore):
    """A store that does not write for a while."""

    is_locked = True

    async def update(self, record):
        if self.is_locked:
            raise sqlite3.OperationalError("database is locked")
        await super().update(record)


async def test_what_could_not_be_written_is_written_when_the_store_is_back():
    store = Locked()
    async with bed(store, per_principal=2) as tasks:
        ended = [await tasks.begin() for _ in range(2)]
        for task_id in ended:
            await tasks.until(task_id, "completed")
        store.is_locked = False
        # The store thinks that both are under way, which would be too many.
        await tasks.end()
        for task_id in ended:
            assert (await store.get(task_id)).status == "completed"
            assert (await tasks.get(task_id))["status"] == "completed"
        assert not tasks.tasks._running.keys() & set(ended)


async def test_what_never_could_be_written_is_forgotten_with_its_time():
    store = Locked()
    async with bed(store, ttl=60) as tasks:
        for _ in range(5):
            await tasks.end()
        tasks.clock.now += 61
        await tasks.end()
        assert len(tasks.tasks._running) == 1
        store.is_locked = False


async def test_a_file_that_is_there_is_not_opened_beside_sqlite(tmp_path, monkeypatch):
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
