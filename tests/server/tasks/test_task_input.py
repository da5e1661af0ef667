"""Requests of a task to its client, in both dialects."""

import asyncio

import pytest
from task_driver import ACCEPT, FORM, RELATED, bed, soon

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
    async def ask_name():
        answer = await request.ask("elicitation/create", FORM)
        return answer["content"]["name"]

    return text(*await asyncio.gather(ask_name(), ask_name()))


def accept(name):
    return {"action": "accept", "content": {"name": name}}


@pytest.mark.rule("TX-09", "TX-14", "TX-15")
@pytest.mark.case("F17")
async def test_input_responses_may_come_one_by_one():
    async with bed() as tasks:
        task_id = await tasks.begin(greet_both)
        task = await tasks.until(task_id, "input_required")
        first, second = task["inputRequests"]
        await tasks.update(task_id, {second: accept("Bob")})
        task = await tasks.get(task_id)
        assert (task["status"], list(task["inputRequests"])) == (
            "input_required",
            [first],
        )
        # A key that is already answered, and an unknown key: both are ignored.
        await tasks.update(task_id, {second: accept("Eve"), "other": accept("Eve")})
        await tasks.update(task_id, {first: accept("Alice")})
        task = await tasks.until(task_id, "completed")
        assert task["result"] == text("Alice", "Bob")


@pytest.mark.rule("TX-15")
async def test_input_responses_for_an_ended_task_are_acknowledged():
    async with bed() as tasks:
        task_id = await tasks.end()
        assert await tasks.update(task_id, {"elicitation-1": ACCEPT}) == {}


@pytest.mark.parametrize("answers", [None, [], {"elicitation-1": 12345}])
async def test_invalid_input_responses_are_refused_and_the_request_stays(answers):
    async with bed() as tasks:
        task_id = await tasks.begin(greet)
        before = await tasks.until(task_id, "input_required")
        with pytest.raises(InvalidParams, match=r"params\.inputResponses"):
            await tasks.update(task_id, answers)
        assert await tasks.get(task_id) == before


@pytest.mark.rule("TX-14")
async def test_second_input_request_has_a_new_key():
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
            await tasks.update(task_id, {key: accept(name)})
            assert "inputRequests" not in await tasks.get(task_id)
        assert len(set(seen)) == 2
        assert (await tasks.until(task_id, "completed"))["result"] == text(
            "Alice", "Bob"
        )


async def test_input_request_cancelled_by_its_handler_is_removed():
    cancelled = asyncio.Event()

    async def body(request):
        pending = asyncio.ensure_future(request.ask("elicitation/create", FORM))
        await soon(requested)
        pending.cancel()
        await asyncio.wait({pending})
        cancelled.set()
        await asyncio.Event().wait()

    async with bed() as tasks:
        requested = asyncio.Event()
        task_id = await tasks.begin(body)
        await tasks.until(task_id, "input_required")
        requested.set()
        await soon(cancelled)
        task = await tasks.get(task_id)
        assert (task["status"], "inputRequests" in task) == ("working", False)


async def test_response_that_crosses_a_cancelled_input_request_is_ignored():
    async def body(request):
        nonlocal pending
        pending = asyncio.ensure_future(request.ask("elicitation/create", FORM))
        await asyncio.wait({pending})
        return text("given up")

    async with bed() as tasks:
        pending = None
        task_id = await tasks.begin(body)
        await tasks.until(task_id, "input_required")
        pending.cancel()
        await tasks.update(task_id, {"elicitation-1": ACCEPT})
        assert (await tasks.until(task_id, "completed"))["result"] == text("given up")


async def test_pending_input_request_is_cancelled_when_its_task_ends():
    pending = []

    async def body(request):
        pending.append(asyncio.ensure_future(request.ask("elicitation/create", FORM)))
        await asyncio.sleep(0)  # one turn of the loop: it sends its request
        return text("done")

    async with bed() as tasks:
        task = await tasks.get(await tasks.end(body))
        assert "inputRequests" not in task
        await asyncio.wait(pending)
        assert pending[0].cancelled()


async def test_task_cannot_request_ping_from_its_client(caplog):
    async def body(request):
        with pytest.raises(LocalProtocolError, match="a task cannot send 'ping'"):
            await request.ask("ping", {})
        return text("ok")

    async with bed() as tasks:
        task_id = await tasks.begin(body)
        assert (await tasks.until(task_id, "completed"))["result"] == text("ok")


# 2025-11-25: by a separate request, while a client waits for the result...


class Client:
    """Answers the requests of a server."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.was_called = asyncio.Event()

    async def __call__(self, method, params):
        self.requests.append((method, params))
        self.was_called.set()
        answer = self.answers.pop(0)
        if isinstance(answer, asyncio.Event):
            await soon(answer)
            return ACCEPT
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.rule("T11-09", "T11-10")
@pytest.mark.case("F14")
async def test_client_that_waits_for_the_result_gets_the_request():
    async with bed() as tasks:
        client = Client(ACCEPT)
        task_id = await tasks.begin(greet, old=True)
        await tasks.until(task_id, "input_required")
        assert (await tasks.get(task_id, old=True))["status"] == "input_required"
        meta = {"_meta": {RELATED: {"taskId": task_id}}}
        assert await tasks.result(task_id, client) == {**text("hello", "Alice"), **meta}
        assert client.requests == [("elicitation/create", {**FORM, **meta})]


async def test_each_request_goes_to_one_of_the_waiting_clients():
    async with bed() as tasks:
        client = Client(accept("Alice"), accept("Bob"))
        task_id = await tasks.begin(greet_both, old=True)
        first, second = await asyncio.gather(
            tasks.result(task_id, client), tasks.result(task_id, client)
        )
        assert first == second
        assert first["content"] == text("Alice", "Bob")["content"]
        assert len(client.requests) == 2


@pytest.mark.parametrize("how", ["cancelled", "lost"])
async def test_request_goes_to_another_waiter_when_the_first_leaves(how):
    async with bed() as tasks:
        task_id = await tasks.begin(greet, old=True)
        never, release = asyncio.Event(), asyncio.Event()
        leaving = Client(never)

        async def lose_connection(method, params):
            await leaving(method, params) if how == "cancelled" else None
            leaving.was_called.set()
            await soon(release)
            raise ConnectionClosed("gone", target="test")

        first = asyncio.ensure_future(tasks.result(task_id, lose_connection))
        await soon(leaving.was_called)
        staying = Client(ACCEPT)
        waiting = asyncio.ensure_future(tasks.result(task_id, staying))
        await asyncio.sleep(0)  # one turn of the loop: it finds no request yet
        if how == "cancelled":
            first.cancel()
        release.set()
        with pytest.raises((asyncio.CancelledError, ConnectionClosed)):
            await first
        assert (await waiting)["content"] == text("hello", "Alice")["content"]


@pytest.mark.parametrize(
    "error",
    [
        RPCError("no", code=-1),
        RequestTimeout(method="elicitation/create", timeout=1.0, elapsed=1.0),
    ],
    ids=["refused", "in time"],
)
async def test_error_of_the_client_is_raised_in_the_handler(error):
    async def body(request):
        with pytest.raises(type(error)):
            await request.ask("elicitation/create", FORM)
        return text("never mind")

    async with bed() as tasks:
        task_id = await tasks.begin(body, old=True)
        result = await tasks.result(task_id, Client(error))
        assert result["content"] == text("never mind")["content"]


async def test_waiter_without_requests_gets_the_result_after_others_answer():
    async with bed() as tasks:
        task_id = await tasks.begin(greet, old=True)
        waiting = asyncio.ensure_future(tasks.result(task_id))
        await tasks.until(task_id, "input_required")
        result = await tasks.result(task_id, Client(ACCEPT))
        assert await waiting == result


@pytest.mark.rule("T11-13")
async def test_waiter_gets_an_error_when_the_asking_task_is_cancelled():
    async with bed() as tasks:
        client = Client(asyncio.Event())
        task_id = await tasks.begin(greet, old=True)
        waiting = asyncio.ensure_future(tasks.result(task_id, client))
        await soon(client.was_called)
        await tasks.cancel(task_id, old=True)
        with pytest.raises(InvalidParams, match="was cancelled and has no result"):
            await waiting
