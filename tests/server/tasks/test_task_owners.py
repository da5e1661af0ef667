"""Owners of tasks: access, lists and notifications."""

from types import SimpleNamespace

import pytest
from task_driver import ACCEPT, ALICE, BOB, FORM, RESULT, Gate, bed

from mcpwire.errors import InvalidParams, MethodNotFound
from mcpwire.server.lifespan import Lifespan


def server(**attributes):
    """Return the attributes of a server that its tasks use."""
    return SimpleNamespace(lifespan=Lifespan(), auth=object(), **attributes)


@pytest.mark.rule("T11-15", "TX-17", "TX-23")
@pytest.mark.attack("S28")
@pytest.mark.case("F17")
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("who", [BOB, None])
async def test_task_of_another_principal_is_unknown(who, old):
    methods = ["tasks/get", "tasks/cancel"]
    methods += ["tasks/result"] if old else ["tasks/update"]
    async with bed() as tasks:
        task_id = await tasks.begin(Gate(), who=ALICE)
        for method in methods:
            refusals = []
            for named in (task_id, "nobody's"):
                params = {"taskId": named, "inputResponses": {}}
                with pytest.raises(InvalidParams) as caught:
                    await tasks.ask(method, params, old=old, who=who)
                refusals.append((caught.value.message, caught.value.data))
            # The refusal does not reveal that the task exists.
            assert refusals == [("unknown task", None)] * 2
        assert (await tasks.get(task_id, who=ALICE))["status"] == "working"


# Lists, which 2025-11-25 has...


async def list_ids(tasks, **params):
    result = await tasks.ask("tasks/list", params, old=True, who=ALICE)
    return [task["taskId"] for task in result["tasks"]], result.get("nextCursor")


@pytest.mark.rule("T11-12", "T11-15")
@pytest.mark.case("F14")
async def test_a_principal_lists_its_own_tasks():
    async with bed(ttl=60) as tasks:
        tasks.serve(server())
        assert "list" in tasks.tasks.legacy_capabilities["tasks"]
        old = await tasks.begin(who=ALICE)
        tasks.clock.now += 30
        first = await tasks.begin(Gate(), who=ALICE)
        tasks.clock.now += 1
        second = await tasks.begin(who=ALICE, old=True)
        await tasks.begin(who=BOB)
        assert await list_ids(tasks) == ([old, first, second], None)
        tasks.clock.now += 29
        assert await list_ids(tasks) == ([first, second], None)
        result = await tasks.ask("tasks/list", old=True, who=ALICE)
        assert result["tasks"][0] == await tasks.get(first, old=True, who=ALICE)


@pytest.mark.rule("T11-12", "T11-14")
async def test_long_list_is_paginated():
    async with bed(per_principal=1_000) as tasks:
        tasks.serve(server())
        made = set()
        for _ in range(203):
            tasks.clock.now += 1
            made.add(await tasks.begin(who=ALICE))
        first, cursor = await list_ids(tasks)
        second, cursor = await list_ids(tasks, cursor=cursor)
        third, end = await list_ids(tasks, cursor=cursor)
        assert [len(first), len(second), len(third), end] == [100, 100, 3, None]
        assert set(first + second + third) == made
        with pytest.raises(InvalidParams, match="the cursor is unknown"):
            await list_ids(tasks, cursor="x")


@pytest.mark.rule("T11-15")
async def test_anonymous_client_cannot_list_tasks():
    async with bed() as tasks:
        assert "tasks/list" not in tasks.methods
        assert "list" not in tasks.tasks.legacy_capabilities["tasks"]
        tasks.serve(server())
        with pytest.raises(MethodNotFound, match="only to authenticated clients"):
            await tasks.ask("tasks/list", old=True)


# Notifications about tasks...


class Listener:
    """Receives notifications about tasks by `subscriptions/listen`."""

    def __init__(self, tasks, *ids, who=None):
        request = tasks.request("subscriptions/listen", {}, who=who)
        self.notifications = []
        self.ids = tasks.tasks.watchable_ids(ids, request)
        self.forget = tasks.tasks.watch(
            ids, request, lambda *notification: self.notifications.append(notification)
        )


@pytest.mark.rule("TX-20")
@pytest.mark.case("F17")
async def test_listener_gets_the_complete_task_at_each_status():
    async def body(request):
        await request.ask("elicitation/create", FORM)
        return RESULT

    async with bed() as tasks:
        task_id = await tasks.begin(body)
        listener = Listener(tasks, task_id)
        asking = await tasks.until(task_id, "input_required")
        await tasks.update(task_id, {"elicitation-1": ACCEPT})
        completed = await tasks.until(task_id, "completed")
        working = {k: v for k, v in asking.items() if k != "inputRequests"}
        assert listener.notifications == [
            ("notifications/tasks", asking),
            ("notifications/tasks", {**working, "status": "working"}),
            ("notifications/tasks", completed),
        ]
        listener.forget()  # after the task is gone it does nothing


async def test_removed_listener_gets_no_notifications():
    async with bed() as tasks:
        gates = [Gate(), Gate()]
        ids = [await tasks.begin(gate) for gate in gates]
        one, other = Listener(tasks, *ids), Listener(tasks, ids[0])
        assert (one.ids, other.ids) == (ids, ids[:1])
        one.forget()
        one.forget()
        for gate in gates:
            gate.opened.set()
        for task_id in ids:
            await tasks.until(task_id, "completed")
        assert one.notifications == []
        assert [params["taskId"] for _, params in other.notifications] == ids[:1]


@pytest.mark.rule("TX-23")
@pytest.mark.attack("S28")
async def test_tasks_of_others_and_ended_tasks_cannot_be_watched():
    async with bed() as tasks:
        gate = Gate()
        foreign = await tasks.begin(gate, who=ALICE)
        ended = await tasks.end(who=BOB)
        listener = Listener(tasks, foreign, ended, "nobody's", who=BOB)
        assert listener.ids == []
        gate.opened.set()
        await tasks.until(foreign, "completed", who=ALICE)
        assert listener.notifications == []
