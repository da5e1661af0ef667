"""What a task asks its client, in both dialects."""

import asyncio

import pytest
from taskbed import ACCEPT, FORM, RELATED, bed, soon

from mcpwire.errors import (
    ConnectionClosed,
    InvalidParams,
    LocalProtocolError,
    RequestTimeout,
    RPCError,
)


def text(*parts):
    return {"content": [{"type": "text", "text": " ".join(parts)}]}


async def greet(request):
    answer = await request.ask("elicitation/create", FORM)
    return text("hello", answer["content"]["name"])


async def greet_both(request):
    async def one():
        answer = await request.ask("elicitation/create", FORM)
        return answer["content"]["name"]

    return text(*await asyncio.gather(one(), one()))


def accept(name):
    return {"action": "accept", "content": {"name": name}}


async def update(tasks, task_id, answers, **options):
    params = {"taskId": task_id, "inputResponses": answers}
    return await tasks.ask("tasks/update", params, **options)


@pytest.mark.rule("TX-09", "TX-14", "TX-15")
@pytest.mark.case("F17")
async def test_answers_may_come_one_by_one():
    async with bed() as tasks:
        task_id = await tasks.begin(greet_both)
        task = await tasks.until(task_id, "input_required")
        first, second = task["inputRequests"]
        await update(tasks, task_id, {second: accept("Bob")})
        task = await tasks.get(task_id)
        assert (task["status"], list(task["inputRequests"])) == (
            "input_required",
            [first],
        )
        # A key that has its answer, and one that nobody asked: both are passed over.
        await update(tasks, task_id, {second: accept("Eve"), "other": accept("Eve")})
        await update(tasks, task_id, {first: accept("Alice")})
        task = await tasks.until(task_id, "completed")
        assert task["result"] == text("Alice", "Bob")


@pytest.mark.rule("TX-15")
async def test_answers_that_nobody_waits_for_are_acknowledged():
    async with bed() as tasks:
        task_id = await tasks.end()
        assert await update(tasks, task_id, {"elicitation-1": ACCEPT}) == {}


@pytest.mark.parametrize("answers", [None, [], {"elicitation-1": 12345}])
async def test_what_is_no_answer_is_refused_and_the_question_stays(answers):
    async with bed() as tasks:
        task_id = await tasks.begin(greet)
        before = await tasks.until(task_id, "input_required")
        with pytest.raises(InvalidParams, match=r"params\.inputResponses"):
            await update(tasks, task_id, answers)
        assert await tasks.get(task_id) == before


@pytest.mark.rule("TX-14")
async def test_a_second_question_has_a_key_of_its_own():
    async def body(request):
        first = await request.ask("elicitation/create", FORM)
        second = await request.ask("elicitation/create", FORM)
        return text(first["content"]["name"], second["content"]["name"])

    async with bed() as tasks:
        task_id = await tasks.begin(body)
        seen = []
        for name in ("Alice", "Bob"):
            task = await tasks.until(task_id, "input_required")
            (key,) = task["inputRequests"]
            seen.append(key)
            await update(tasks, task_id, {key: accept(name)})
            assert "inputRequests" not in await tasks.get(task_id)
        assert len(set(seen)) == 2
        assert (await tasks.until(task_id, "completed"))["result"] == text(
            "Alice", "Bob"
        )


async def test_a_question_that_a_handler_gives_up_is_asked_no_more():
    gave_up = asyncio.Event()

    async def body(request):
        asking = asyncio.ensure_future(request.ask("elicitation/create", FORM))
        await soon(asked)
        asking.cancel()
        await asyncio.wait({asking})
        gave_up.set()
        await asyncio.Event().wait()

    async with bed() as tasks:
        asked = asyncio.Event()
        task_id = await tasks.begin(body)
        await tasks.until(task_id, "input_required")
        asked.set()
        await soon(gave_up)
        task = await tasks.get(task_id)
        assert (task["status"], "inputRequests" in task) == ("working", False)


async def test_an_answer_that_crosses_with_giving_up_is_passed_over():
    async def body(request):
        nonlocal asking
        asking = asyncio.ensure_future(request.ask("elicitation/create", FORM))
        await asyncio.wait({asking})
        return text("given up")

    async with bed() as tasks:
        asking = None
        task_id = await tasks.begin(body)
        await tasks.until(task_id, "input_required")
        asking.cancel()
        await update(tasks, task_id, {"elicitation-1": ACCEPT})
        assert (await tasks.until(task_id, "completed"))["result"] == text("given up")


async def test_a_question_that_nobody_waits_for_ends_with_its_task():
    left = []

    async def body(request):
        left.append(asyncio.ensure_future(request.ask("elicitation/create", FORM)))
        await asyncio.sleep(0)  # one turn of the loop: it asks
        return text("done")

    async with bed() as tasks:
        task = await tasks.get(await tasks.end(body))
        assert "inputRequests" not in task
        await asyncio.wait(left)
        assert left[0].cancelled()


async def test_a_task_asks_nothing_that_servers_do_not_ask(caplog):
    async def body(request):
        with pytest.raises(LocalProtocolError, match="no task can ask 'ping'"):
            await request.ask("ping", {})
        return text("ok")

    async with bed() as tasks:
        task_id = await tasks.begin(body)
        assert (await tasks.until(task_id, "completed"))["result"] == text("ok")


# 2025-11-25: by a request of its own, while somebody waits for the result...


class Client:
    """Answers the requests of a server."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.was_asked = asyncio.Event()

    async def __call__(self, method, params):
        self.asked.append((method, params))
        self.was_asked.set()
        answer = self.answers.pop(0)
        if isinstance(answer, asyncio.Event):
            await soon(answer)
            return ACCEPT
        if isinstance(answer, Exception):
            raise answer
        return answer


def result_of(tasks, task_id, client=None, **options):
    params = {"taskId": task_id}
    return tasks.ask("tasks/result", params, old=True, ask=client, **options)


@pytest.mark.rule("T11-09", "T11-10")
@pytest.mark.case("F14")
async def test_who_waits_for_the_result_is_asked():
    async with bed() as tasks:
        client = Client(ACCEPT)
        task_id = await tasks.begin(greet, old=True)
        await tasks.until(task_id, "input_required")
        assert (await tasks.get(task_id, old=True))["status"] == "input_required"
        meta = {"_meta": {RELATED: {"taskId": task_id}}}
        assert await result_of(tasks, task_id, client) == {
            **text("hello", "Alice"),
            **meta,
        }
        assert client.asked == [("elicitation/create", {**FORM, **meta})]


async def test_a_question_goes_to_one_of_those_who_wait():
    async with bed() as tasks:
        client = Client(accept("Alice"), accept("Bob"))
        task_id = await tasks.begin(greet_both, old=True)
        first, second = await asyncio.gather(
            result_of(tasks, task_id, client), result_of(tasks, task_id, client)
        )
        assert first == second
        assert first["content"] == text("Alice", "Bob")["content"]
        assert len(client.asked) == 2


@pytest.mark.parametrize("how", ["cancelled", "lost"])
async def test_a_question_passes_on_when_who_was_asked_goes_away(how):
    async with bed() as tasks:
        task_id = await tasks.begin(greet, old=True)
        never, go = asyncio.Event(), asyncio.Event()
        leaving = Client(never)

        async def lose(method, params):
            await leaving(method, params) if how == "cancelled" else None
            leaving.was_asked.set()
            await soon(go)
            raise ConnectionClosed("gone", target="test")

        asked = asyncio.ensure_future(result_of(tasks, task_id, lose))
        await soon(leaving.was_asked)
        staying = Client(ACCEPT)
        waiting = asyncio.ensure_future(result_of(tasks, task_id, staying))
        await asyncio.sleep(0)  # one turn of the loop: it finds nothing to ask yet
        if how == "cancelled":
            asked.cancel()
        go.set()
        with pytest.raises((asyncio.CancelledError, ConnectionClosed)):
            await asked
        assert (await waiting)["content"] == text("hello", "Alice")["content"]


@pytest.mark.parametrize(
    "error",
    [
        RPCError("no", code=-1),
        RequestTimeout(method="elicitation/create", timeout=1.0, elapsed=1.0),
    ],
    ids=["refused", "in time"],
)
async def test_a_refusal_is_for_the_handler(error):
    async def body(request):
        with pytest.raises(type(error)):
            await request.ask("elicitation/create", FORM)
        return text("never mind")

    async with bed() as tasks:
        task_id = await tasks.begin(body, old=True)
        result = await result_of(tasks, task_id, Client(error))
        assert result["content"] == text("never mind")["content"]


async def test_who_cannot_be_asked_waits_for_others_to_answer():
    async with bed() as tasks:
        task_id = await tasks.begin(greet, old=True)
        waiting = asyncio.ensure_future(result_of(tasks, task_id))
        await tasks.until(task_id, "input_required")
        result = await result_of(tasks, task_id, Client(ACCEPT))
        assert await waiting == result


@pytest.mark.rule("T11-13")
async def test_a_task_cancelled_while_it_asks_asks_no_more():
    async with bed() as tasks:
        client = Client(asyncio.Event())
        task_id = await tasks.begin(greet, old=True)
        waiting = asyncio.ensure_future(result_of(tasks, task_id, client))
        await soon(client.was_asked)
        await tasks.ask("tasks/cancel", {"taskId": task_id}, old=True)
        with pytest.raises(InvalidParams, match="was cancelled and has no result"):
            await waiting
