"""Any sequence of actions of clients and handlers: only valid transitions."""

import asyncio
import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_driver import ACCEPT, FORM, RESULT, Gate, bed

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
