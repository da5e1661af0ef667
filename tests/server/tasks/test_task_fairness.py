"""Fair shares of tasks by client: no client takes the room of the others."""

import pytest
from task_driver import ALICE, BOB, Gate, bed, soon

from mcpwire.errors import InternalError, InvalidParams
from mcpwire.server.extensions.tasks import (
    MemoryTaskStore,
    SqliteTaskStore,
    StoreFullError,
)

pytestmark = pytest.mark.attack("X07")

GREEDY, HONEST = {"address": "192.0.2.1"}, {"address": "198.51.100.1"}


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    in_memory = request.param == "memory"
    return MemoryTaskStore() if in_memory else SqliteTaskStore(tmp_path / "tasks")


def refused():
    return pytest.raises(InternalError, match="too many tasks, try again later")


@pytest.mark.parametrize(
    ("greedy", "honest"), [(GREEDY, HONEST), ({"who": ALICE}, {"who": BOB})]
)
async def test_oldest_running_tasks_end_for_a_client_with_fewer_tasks(
    store, greedy, honest
):
    async with bed(store, max_tasks=4) as tasks:
        gates, ids = [Gate() for _ in range(4)], []
        for gate in gates:
            tasks.clock.now += 1
            ids.append(await tasks.begin(gate, **greedy))
            await soon(gate.entered)
        notifications = []
        request = tasks.request("subscriptions/listen", {}, **greedy)
        tasks.tasks.watch(ids, request, lambda _, params: notifications.append(params))
        own = [await tasks.begin(Gate(), **honest) for _ in range(2)]
        message = "the task was evicted for a client with fewer tasks"
        statuses = [
            (each["taskId"], each["status"], each["error"]) for each in notifications
        ]
        error = {"code": -32603, "message": message}
        assert statuses == [(task_id, "failed", error) for task_id in ids[:2]]
        for gate in gates[:2]:
            await soon(gate.ended)
        assert [gate.was_cancelled for gate in gates] == [True, True, False, False]
        # Each client has two: no task ends for a third.
        for client in (greedy, honest):
            with refused():
                await tasks.begin(Gate(), **client)
        remaining = [(task_id, greedy) for task_id in ids[2:]]
        for task_id, client in remaining + [(task_id, honest) for task_id in own]:
            assert (await tasks.get(task_id, **client))["status"] == "working"


async def test_finished_tasks_within_the_share_of_their_client_stay():
    async with bed(max_tasks=4) as tasks:
        kept = await tasks.end(**HONEST)
        for _ in range(6):
            last = await tasks.end(**GREEDY)
        assert (await tasks.get(kept, **HONEST))["status"] == "completed"
        assert (await tasks.get(last, **GREEDY))["status"] == "completed"


async def test_running_tasks_are_counted_by_address():
    async with bed(per_principal=1) as tasks:
        await tasks.begin(Gate(), **GREEDY)
        with refused():
            await tasks.begin(Gate(), **GREEDY)
        await tasks.begin(Gate(), **HONEST)


@pytest.mark.attack("X01")
async def test_task_belongs_to_its_principal_and_not_to_its_address():
    async with bed() as tasks:
        anonymous = await tasks.begin(Gate(), **GREEDY)
        known = await tasks.begin(Gate(), who=ALICE, **GREEDY)
        assert (await tasks.get(anonymous, **HONEST))["status"] == "working"
        assert (await tasks.get(known, who=ALICE, **HONEST))["status"] == "working"
        for task_id, who in [(known, None), (known, BOB), (anonymous, ALICE)]:
            with pytest.raises(InvalidParams, match="unknown task"):
                await tasks.get(task_id, who=who, **GREEDY)


class FullStore(MemoryTaskStore):
    """Has room for one task and always names it as the one to end."""

    named = None
    takes_updates = True

    async def create(self, record, limits):
        if self.named is not None:
            raise StoreFullError(to_end=self.named)
        self.named = record.id
        await super().create(record, limits)

    async def update(self, record):
        if not self.takes_updates:
            raise OSError("the disk is full")
        await super().update(record)


@pytest.mark.parametrize("takes_updates", [True, False])
async def test_task_is_refused_when_ending_another_makes_no_room(takes_updates):
    store = FullStore()
    store.takes_updates = takes_updates
    async with bed(store) as tasks:
        await tasks.begin(Gate(), **GREEDY)
        with refused():
            await tasks.begin(Gate(), **HONEST)
        store.takes_updates = True
