"""Calls that end early, from either side, leave nothing behind."""

import asyncio

import pytest
from bridged import CANCELLED, ERA_PAIRS, ERAS, STAMP, TOOLS, RawClient, joined, raw
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer

from mcpwire.gateway import Gateway


def server(version="2025-11-25", **methods):
    stamp = STAMP if version == "2026-07-28" else {}

    def call(params, _):
        if "arguments" in params:
            return SILENCE
        return {"content": [], **stamp}

    found = {"tools/list": lambda *_: {"tools": TOOLS, **stamp}, "tools/call": call}
    return FakeServer({**found, **methods}, version=version, capabilities={"tools": {}})


def ids_of(up, method):
    return [each["id"] for each in up.received if each.get("method") == method]


async def begin(client, up, count=1):
    """Start calls without a response; return their ids when all have arrived."""
    await client.ask("tools/list")
    params = {"name": "up_t", "arguments": {}}
    ids = [client.request("tools/call", params) for _ in range(count)]
    while len(ids_of(up, "tools/call")) < count:
        await client.ask("tools/list")
    return ids


@pytest.mark.system("L-O4")
@ERA_PAIRS
async def test_cancellation_reaches_the_server_with_the_upstream_request_id(down, up):
    up = server(up)
    async with raw(up, down) as client:
        _, second, _ = await begin(client, up, 3)
        client.cancel(second)
        for _ in range(3):
            await client.ask("tools/list")
        (cancelled,) = up.requests(CANCELLED)
        assert cancelled["requestId"] == ids_of(up, "tools/call")[1]
        assert not [line for line in client.lines if line.get("id") == second]


@pytest.mark.system("O61", "O62")
@pytest.mark.parametrize("down", ERAS)
async def test_client_disconnect_ends_its_calls(down):
    up = server()
    async with Gateway({"up": up}) as gateway:
        client = RawClient(gateway, down)
        await client.open()
        await begin(client, up, 2)
        sets = [*gateway.pool.session_sets, *gateway.pool.shared]
        (relay,) = [each.members["up"] for each in sets]
        assert len(relay.in_flight.calls) == 2
        await client.aclose()
        other = RawClient(gateway, down)
        await other.open()
        await other.ask("tools/list")
        assert not relay.in_flight.calls
        if down == "2026-07-28":  # a session's connections end with it
            cancelled_ids = {each["requestId"] for each in up.requests(CANCELLED)}
            assert cancelled_ids == set(ids_of(up, "tools/call"))
        await other.aclose()


@pytest.mark.fault("F11")
@pytest.mark.parametrize("down", ERAS)
async def test_lost_server_fails_only_its_own_calls(down):
    lost, kept = server(), server()
    async with joined(Gateway({"up": lost, "other": kept}), down) as client:
        ids = await begin(client, lost, 2)
        other = client.request("tools/call", {"name": "other_t", "arguments": {}})
        while not ids_of(kept, "tools/call"):
            await client.ask("tools/list")
        await lost.channel.aclose()
        for id in ids:
            error = (await client.response(id))["error"]
            assert error["code"] == -32603
            assert error["data"] == {
                "server": "up",
                "error": "ConnectionClosed",
                "sent": True,
            }
        result = {"content": [], "isError": False}
        (upstream_id,) = ids_of(kept, "tools/call")
        kept.send({"jsonrpc": "2.0", "id": upstream_id, "result": result})
        assert (await client.response(other))["result"]["isError"] is False
        # The next request connects the server again.
        again = await client.call()
        assert again["result"]["content"] == []


@on_a_virtual_clock
async def test_call_timeout_is_an_error_and_sends_a_cancellation():
    up = server()
    async with joined(Gateway({"up": up}, timeout=0.05)) as client:
        response = await client.ask("tools/call", {"name": "up_t", "arguments": {}})
        assert response["error"]["data"]["error"] == "RequestTimeout"
        await client.ask("tools/list")
        assert [each["requestId"] for each in up.requests(CANCELLED)] == ids_of(
            up, "tools/call"
        )


async def test_unwritable_arguments_fail_only_their_call():
    up = server()
    async with raw(up) as client:
        await client.ask("tools/list")
        huge = (
            b'{"jsonrpc":"2.0","id":"h","method":"tools/call",'
            b'"params":{"name":"up_t","arguments":{"n":1e400}}}\n'
        )
        client.channel.transmit(huge)
        fine = await client.call()
        assert fine["result"]["content"] == []
        (refused,) = [line for line in client.lines if "error" in line]
        assert refused["error"]["code"] in {-32700, -32602}
    assert len(ids_of(up, "tools/call")) == 1


async def test_undeclared_method_is_not_sent_to_the_server():
    up = server()
    up.members["capabilities"] = {"tools": {}, "resources": {}}
    up.methods["resources/list"] = lambda *_: {
        "resources": [{"uri": "a:b", "name": "b"}]
    }
    up.methods["resources/templates/list"] = lambda *_: {"resourceTemplates": []}
    async with raw(up) as client:
        response = await client.ask("resources/subscribe", {"uri": "a:b"})
        assert response["error"]["code"] in {-32601, -32602}
    assert ids_of(up, "resources/subscribe") == []


@pytest.mark.parametrize("down", ERAS)
async def test_hundreds_of_calls_leave_no_state(down):
    up = server()
    async with joined(Gateway({"up": up}), down) as client:
        await client.ask("tools/list")
        for _ in range(6):
            ids = [client.request("tools/call", {"name": "up_t"}) for _ in range(100)]
            await asyncio.gather(*map(client.response, ids))
        gateway = client.gateway
        (upstreams,) = [*gateway.pool.session_sets, *gateway.pool.shared]
        assert not upstreams.members["up"].in_flight.calls
        assert not len(upstreams.downstream.suspended)
        assert not client.lines
