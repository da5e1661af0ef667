"""Calls that end early, from either side, and what is left of them."""

from __future__ import annotations

import asyncio

import pytest
from bridged import RawClient, joined, raw
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer

from mcpwire.gateway import Gateway

CANCELLED = "notifications/cancelled"


def server(version="2025-11-25", **methods):
    stamp = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    stamp = stamp if version == "2026-07-28" else {}
    tools = [{"name": "t", "inputSchema": {"type": "object"}}]

    def call(params, _):
        if "arguments" in params:
            return SILENCE
        return {"content": [], **stamp}

    found = {"tools/list": lambda *_: {"tools": tools, **stamp}, "tools/call": call}
    return FakeServer({**found, **methods}, version=version, capabilities={"tools": {}})


def ids_of(up, method):
    return [each["id"] for each in up.received if each.get("method") == method]


async def begin(client, up, count=1):
    """Begin calls that are not answered; return their ids when all have arrived."""
    await client.ask("tools/list")
    params = {"name": "up_t", "arguments": {}}
    ids = [client.request("tools/call", params) for _ in range(count)]
    while len(ids_of(up, "tools/call")) < count:
        await client.ask("tools/list")
    return ids


ERAS = ("2025-11-25", "2026-07-28")


@pytest.mark.system("L-O4")
@pytest.mark.parametrize("down", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_a_cancelled_call_is_cancelled_behind_by_the_id_that_it_has_there(
    down, behind
):
    up = server(behind)
    async with raw(up, down) as client:
        _, second, _ = await begin(client, up, 3)
        client.send(method=CANCELLED, params={"requestId": second})
        for _ in range(3):
            await client.ask("tools/list")
        (told,) = up.requests(CANCELLED)
        assert told["requestId"] == ids_of(up, "tools/call")[1]
        assert not [line for line in client.lines if line.get("id") == second]


@pytest.mark.system("O61", "O62")
@pytest.mark.parametrize("down", ERAS)
async def test_a_client_that_leaves_ends_its_calls_and_nothing_of_them_is_left(down):
    up = server()
    async with Gateway({"up": up}) as gateway:
        client = RawClient(gateway, down)
        await client.open()
        await begin(client, up, 2)
        sets = [*gateway.session_sets, *gateway.pool.shared]
        (relay,) = [each.members["up"] for each in sets]
        assert len(relay.in_flight.calls) == 2
        await client.aclose()
        other = RawClient(gateway, down)
        await other.open()
        await other.ask("tools/list")
        assert not relay.in_flight.calls
        if down == "2026-07-28":  # a session's connections end with it
            told = {each["requestId"] for each in up.requests(CANCELLED)}
            assert told == set(ids_of(up, "tools/call"))
        await other.aclose()


@pytest.mark.fault("F11")
@pytest.mark.parametrize("down", ERAS)
async def test_a_server_that_dies_fails_its_own_calls_and_no_others(down):
    lost, kept = server(), server()
    async with joined(Gateway({"up": lost, "other": kept}), down) as client:
        ids = await begin(client, lost, 2)
        other = client.request("tools/call", {"name": "other_t", "arguments": {}})
        while not ids_of(kept, "tools/call"):
            await client.ask("tools/list")
        await lost.channel.aclose()
        for id in ids:
            error = (await client.answer(id))["error"]
            assert error["code"] == -32603
            assert error["data"] == {
                "server": "up",
                "error": "ConnectionClosed",
                "sent": True,
            }
        result = {"content": [], "isError": False}
        (theirs,) = ids_of(kept, "tools/call")
        kept.send({"jsonrpc": "2.0", "id": theirs, "result": result})
        assert (await client.answer(other))["result"]["isError"] is False
        # And it is there again for who asks.
        again = await client.ask("tools/call", {"name": "up_t"})
        assert again["result"]["content"] == []


@on_a_virtual_clock
async def test_a_server_that_does_not_answer_in_time_fails_the_call_and_is_told():
    up = server()
    async with joined(Gateway({"up": up}, timeout=0.05)) as client:
        answer = await client.ask("tools/call", {"name": "up_t", "arguments": {}})
        assert answer["error"]["data"]["error"] == "RequestTimeout"
        await client.ask("tools/list")
        assert [each["requestId"] for each in up.requests(CANCELLED)] == ids_of(
            up, "tools/call"
        )


async def test_what_cannot_be_written_is_refused_to_that_one_caller():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        huge = (
            b'{"jsonrpc":"2.0","id":"h","method":"tools/call",'
            b'"params":{"name":"up_t","arguments":{"n":1e400}}}\n'
        )
        client.channel._write(huge)
        fine = await client.ask("tools/call", {"name": "up_t"})
        assert fine["result"]["content"] == []
        (refused,) = [line for line in client.lines if "error" in line]
        assert refused["error"]["code"] in {-32700, -32602}
    assert len(ids_of(up, "tools/call")) == 1


async def test_a_method_that_the_server_does_not_offer_is_not_sent():
    up = server()
    up.members["capabilities"] = {"tools": {}, "resources": {}}
    up.methods["resources/list"] = lambda *_: {
        "resources": [{"uri": "a:b", "name": "b"}]
    }
    up.methods["resources/templates/list"] = lambda *_: {"resourceTemplates": []}
    async with raw(up) as client:
        answer = await client.ask("resources/subscribe", {"uri": "a:b"})
        assert answer["error"]["code"] in {-32601, -32602}
    assert ids_of(up, "resources/subscribe") == []


@pytest.mark.parametrize("down", ERAS)
async def test_hundreds_of_calls_leave_nothing_behind(down):
    up = server()
    async with joined(Gateway({"up": up}), down) as client:
        await client.ask("tools/list")
        for _ in range(6):
            ids = [client.request("tools/call", {"name": "up_t"}) for _ in range(100)]
            await asyncio.gather(*map(client.answer, ids))
        gateway = client.gateway
        (upstreams,) = [*gateway.session_sets, *gateway.pool.shared]
        assert not upstreams.members["up"].in_flight.calls
        assert not len(upstreams.downstream.suspended)
        assert not client.lines
