"""Any sequence of what clients and handlers do: what is told stays lawful."""

import asyncio
import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from taskbed import ACCEPT, FORM, RESULT, Gate, bed

LAWFUL = {
    "working": {"input_required", "completed", "failed", "cancelled"},
    "input_required": {
        "input_required",
        "working",
        "completed",
        "failed",
        "cancelled",
    },
}

STEPS = st.sampled_from(["ask", "give up", "answer", "turn", "cancel", "end", "stop"])


class Handler:
    """Does what a test says, for as long as it lives."""

    def __init__(self):
        self.ended = asyncio.Event()
        self.asking = []
        self.request = None

    async def __call__(self, request):
        self.request = request
        await self.ended.wait()
        return RESULT

    def ask(self):
        if self.request is not None:
            question = self.request.ask("elicitation/create", FORM)
            self.asking.append(asyncio.ensure_future(question))

    def give_up(self):
        if self.asking:
            self.asking.pop().cancel()


async def play(steps):
    async with bed() as tasks:
        handler = Handler()
        task_id = await tasks.begin(handler)
        told = []
        request = tasks.request("subscriptions/listen", {})
        tasks.tasks.watch([task_id], request, lambda _, task: told.append(task))
        for step in steps:
            task = await tasks.get(task_id)
            keys = list(task.get("inputRequests", ()))
            if step == "ask":
                handler.ask()
            elif step == "give up":
                handler.give_up()
            elif step == "answer":
                answers = dict.fromkeys(keys[:1], ACCEPT)
                params = {"taskId": task_id, "inputResponses": answers}
                await tasks.ask("tasks/update", params)
            elif step == "turn":
                await asyncio.sleep(0)  # a turn of the loop, which is what is tested
            elif step == "cancel":
                await tasks.ask("tasks/cancel", {"taskId": task_id})
            elif step == "end":
                handler.ended.set()
            else:
                await tasks.tasks.aclose()
        handler.ended.set()
        final = await tasks.until(task_id, "completed", "failed", "cancelled")
        for question in handler.asking:
            question.cancel()
        await asyncio.gather(*handler.asking, return_exceptions=True)
        assert await tasks.get(task_id) == final
        return told, final


@pytest.mark.rule("T11-06", "TX-14")
@given(st.lists(STEPS, max_size=15))
def test_only_lawful_steps_are_told_and_the_last_one_is_final(steps):
    told, final = asyncio.run(play(steps))
    before, settled, open_keys = "working", set(), set()
    for task in told:
        assert task["status"] in LAWFUL[before]
        before = task["status"]
        keys = set(task.get("inputRequests", ()))
        assert bool(keys) is (before == "input_required")
        # What was once settled is never asked again.
        settled |= open_keys - keys
        open_keys = keys
        assert settled.isdisjoint(keys)
    if told:
        assert told[-1] == final


async def test_nothing_of_a_task_is_left_but_what_is_kept_of_it():
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
        assert made._watchers == {}
        gc.collect()
        assert [ref() for ref in requests] == [None] * 20
