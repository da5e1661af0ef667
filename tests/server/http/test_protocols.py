"""uvicorn's protocols with what they lack: on real connections, byte by byte."""

import asyncio
import contextvars
import json

import pytest
from hosted import call
from wired import Small, answer, connected, port_of, raw, served, spoken

from mcpwire import Limits

NAMES = ["auto", "httptools", "h11"]
"""Ours, and uvicorn's own."""

HEAD_MOST = 2_048


@pytest.fixture(params=NAMES)
async def connection(request):
    async with (
        served(Small(), uvicorn={"http": request.param}) as (url, _),
        connected(port_of(url)) as both,
    ):
        yield both


def kept(id, **more):
    return raw(call(id, arguments={"n": id}), connection=None, **more)


async def ids(reader, count):
    return [json.loads((await answer(reader))[1])["id"] for _ in range(count)]


async def test_requests_of_one_connection_are_answered_in_their_order(connection):
    reader, writer = connection
    for id in range(3):
        writer.write(kept(id))
        assert await ids(reader, 1) == [id]
    writer.write(b"".join(kept(id) for id in range(5)))
    assert await ids(reader, 5) == list(range(5))


async def test_requests_may_come_in_any_pieces(connection):
    reader, writer = connection
    data = kept(1) + kept(2)
    for at in range(0, len(data), 97):
        writer.write(data[at : at + 97])
        await writer.drain()
        await asyncio.sleep(0)  # what is written by itself is read by itself
    assert await ids(reader, 2) == [1, 2]


async def test_who_waits_to_be_told_to_go_on_is_told(connection):
    reader, writer = connection
    head, _, body = kept(1, expect="100-continue").partition(b"\r\n\r\n")
    writer.write(head + b"\r\n\r\n")
    told = await reader.readuntil(b"\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 100")
    writer.write(body)
    assert await ids(reader, 1) == [1]


async def test_an_answer_without_a_body_comes_at_once(connection):
    reader, writer = connection
    for _ in range(2):
        writer.write(b"HEAD /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")


@pytest.mark.attack("S13")
async def test_heads_are_bounded():
    server = Small(limits=Limits(head=HEAD_MOST))
    async with served(server) as (url, _):
        endless = b"POST /mcp HTTP/1.1\r\nx: " + b"x" * 2 * HEAD_MOST
        status, _, _ = await spoken(url, endless)
        assert status == 400


async def test_a_call_that_waits_and_one_that_does_not_share_a_connection():
    going_on = asyncio.Event()
    tasks = []

    async def work(params, _):
        tasks.append(asyncio.current_task())
        if params["arguments"]["n"] == 1:
            await going_on.wait()
        tasks.append(asyncio.current_task())
        return {"content": []}

    options = {"stream_after": 30.0}
    async with (
        served(Small(work), **options) as (url, _),
        connected(port_of(url)) as (reader, writer),
    ):
        writer.write(kept(1) + kept(2))
        async with connected(port_of(url)) as (second, other):
            other.write(kept(3))
            assert await ids(second, 1) == [3]
        going_on.set()
        assert await ids(reader, 2) == [1, 2]
    # By number: 1 begins and waits, 3 comes and goes, 1 goes on, 2 follows.
    assert tasks[0] is tasks[3]
    assert tasks[1] is tasks[2] is not tasks[0]


async def test_what_one_call_sets_in_its_context_no_other_sees():
    seen, variable = [], contextvars.ContextVar("variable", default=None)

    async def work(params, _):
        seen.append(variable.get())
        variable.set(params["arguments"]["n"])
        return {"content": []}

    async with (
        served(Small(work)) as (url, _),
        connected(port_of(url)) as (reader, writer),
    ):
        for id in range(3):
            writer.write(kept(id))
            await ids(reader, 1)
    assert seen == [None, None, None]


async def test_who_wants_contexts_reset_gets_uvicorns_own_tasks():
    options = {"reset_contextvars": True}
    async with served(Small(), uvicorn=options) as (url, _):
        assert (await spoken(url, raw(call(7))))[0] == 200


async def test_a_protocol_of_the_users_own_is_left_as_it_is():
    from uvicorn.protocols.http.h11_impl import H11Protocol

    made = []

    class Own(H11Protocol):
        def connection_made(self, transport):
            made.append(type(transport))
            super().connection_made(transport)

    async with served(Small(), uvicorn={"http": Own}) as (url, _):
        assert (await spoken(url, raw(call(7))))[0] == 200
    assert made
