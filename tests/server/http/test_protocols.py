"""uvicorn's HTTP protocols and ours, on real connections."""

import asyncio
import contextvars
import json

import pytest
from hosted import call
from raw_sockets import Small, answer, connected, port_of, raw, served, socket_request

from mcpwire import Limits

NAMES = ["auto", "httptools", "h11"]
"""Our protocol, and the two of uvicorn."""

HEAD_MOST = 2_048


@pytest.fixture(params=NAMES)
async def connection(request):
    async with (
        served(Small(), uvicorn={"http": request.param}) as (url, _),
        connected(port_of(url)) as both,
    ):
        yield both


def keep_alive(id, **more):
    return raw(call(id, arguments={"n": id}), connection=None, **more)


async def ids(reader, count):
    return [json.loads((await answer(reader))[1])["id"] for _ in range(count)]


async def test_requests_of_one_connection_are_answered_in_order(connection):
    reader, writer = connection
    for id in range(3):
        writer.write(keep_alive(id))
        assert await ids(reader, 1) == [id]
    writer.write(b"".join(keep_alive(id) for id in range(5)))
    assert await ids(reader, 5) == list(range(5))


async def test_requests_may_arrive_in_any_pieces(connection):
    reader, writer = connection
    data = keep_alive(1) + keep_alive(2)
    for at in range(0, len(data), 97):
        writer.write(data[at : at + 97])
        await writer.drain()
        await asyncio.sleep(0)  # each piece is read separately
    assert await ids(reader, 2) == [1, 2]


async def test_expect_100_continue_gets_100_before_the_body(connection):
    reader, writer = connection
    head, _, body = keep_alive(1, expect="100-continue").partition(b"\r\n\r\n")
    writer.write(head + b"\r\n\r\n")
    interim = await reader.readuntil(b"\r\n\r\n")
    assert interim.startswith(b"HTTP/1.1 100")
    writer.write(body)
    assert await ids(reader, 1) == [1]


async def test_response_to_head_comes_at_once_without_a_body(connection):
    reader, writer = connection
    for _ in range(2):
        writer.write(b"HEAD /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")


@pytest.mark.attack("S13")
async def test_size_of_request_heads_is_bounded():
    server = Small(limits=Limits(head=HEAD_MOST))
    async with served(server) as (url, _):
        endless = b"POST /mcp HTTP/1.1\r\nx: " + b"x" * 2 * HEAD_MOST
        status, _, _ = await socket_request(url, endless)
        assert status == 400


async def test_waiting_call_delays_only_later_calls_of_its_connection():
    release = asyncio.Event()
    tasks = []

    async def work(params, _):
        tasks.append(asyncio.current_task())
        if params["arguments"]["n"] == 1:
            await release.wait()
        tasks.append(asyncio.current_task())
        return {"content": []}

    options = {"stream_after": 30.0}
    async with (
        served(Small(work), **options) as (url, _),
        connected(port_of(url)) as (reader, writer),
    ):
        writer.write(keep_alive(1) + keep_alive(2))
        async with connected(port_of(url)) as (second, other):
            other.write(keep_alive(3))
            assert await ids(second, 1) == [3]
        release.set()
        assert await ids(reader, 2) == [1, 2]
    # In order: 1 begins and waits, 3 runs to its end, 1 continues, 2 follows.
    assert tasks[0] is tasks[3]
    assert tasks[1] is tasks[2] is not tasks[0]


async def test_context_variables_of_a_call_do_not_reach_other_calls():
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
            writer.write(keep_alive(id))
            await ids(reader, 1)
    assert seen == [None, None, None]


async def test_reset_contextvars_option_of_uvicorn_is_accepted():
    options = {"reset_contextvars": True}
    async with served(Small(), uvicorn=options) as (url, _):
        assert (await socket_request(url, raw(call(7))))[0] == 200


async def test_custom_protocol_class_of_the_user_is_used():
    from uvicorn.protocols.http.h11_impl import H11Protocol

    made = []

    class Own(H11Protocol):
        def connection_made(self, transport):
            made.append(type(transport))
            super().connection_made(transport)

    async with served(Small(), uvicorn={"http": Own}) as (url, _):
        assert (await socket_request(url, raw(call(7))))[0] == 200
    assert made
