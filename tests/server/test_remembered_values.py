"""`ctx.once`: the function runs once, and every round gets the same value."""

import asyncio

import pytest
from input_session import FORM, NoSession, Session, answer_all

from mcpwire.errors import LocalProtocolError

CLIENTS = pytest.mark.parametrize("client", [Session, NoSession])


@CLIENTS
@pytest.mark.parametrize("kind", ["plain", "async", "thread"])
async def test_once_does_not_run_again_in_later_rounds(client, kind):
    done = []

    def act():
        done.append(1)
        return {"order": (7, None)}

    async def act_async():
        return act()

    async def handler(ctx):
        values = [await ctx.once("order", act if kind == "plain" else act_async)]
        await ctx.elicit("One?", FORM)
        await ctx.elicit("Two?", FORM)
        values.append(await ctx.once("order", act))
        return values

    def in_thread(ctx):
        values = [ctx.sync.once("order", act)]
        ctx.sync.elicit("One?", FORM)
        values.append(ctx.sync.once("order", act_async))
        return values

    peer = client(answer_all)
    assert await peer.call(in_thread if kind == "thread" else handler) == [
        {"order": [7, None]},
        {"order": [7, None]},
    ]
    assert done == [1]


@CLIENTS
async def test_kept_value_is_a_copy_of_the_result_and_returned_as_a_copy(client):
    data = [1]

    async def handler(ctx):
        (await ctx.once("list", lambda: data)).append(2)
        data.append(2)
        return await ctx.once("list", lambda: None)

    assert await client(answer_all).call(handler) == [1]


@CLIENTS
async def test_concurrent_once_calls_share_one_result(client):
    done = []

    async def act():
        done.append(1)
        await asyncio.sleep(0)
        return len(done)

    async def handler(ctx):
        return await asyncio.gather(*(ctx.once("n", act) for _ in range(3)))

    assert await client(answer_all).call(handler) == [1, 1, 1]


@CLIENTS
async def test_failed_once_function_runs_again(client):
    outcomes = iter([ValueError("no"), "yes"])

    def act():
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def handler(ctx):
        with pytest.raises(ValueError, match="no"):
            await ctx.once("n", act)
        return await ctx.once("n", act)

    assert await client(answer_all).call(handler) == "yes"


@CLIENTS
async def test_once_result_must_be_json(client):
    async def handler(ctx):
        await ctx.once("n", lambda: {1, 2})

    with pytest.raises(LocalProtocolError):
        await client(answer_all).call(handler)


async def test_elicitation_inside_once_is_sent():
    async def act_with(ctx):
        return (await ctx.elicit("Who?", FORM)).content

    async def handler(ctx):
        return await ctx.once("who", lambda: act_with(ctx))

    assert await NoSession(answer_all).call(handler) == {"text": "Who?"}
