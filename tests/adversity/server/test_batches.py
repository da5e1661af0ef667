"""Batches (2025-03-26): no more messages at once than the limit says."""

import json

import pytest
from by_hand import Hand, request, session
from hosted import Visit, scope
from victim import build
from wires import session_id

from mcpwire import Limits

pytestmark = pytest.mark.anyio

VERSION = "2025-03-26"

TOO_LONG = {"code": -32600, "message": "a batch must not be longer than 3 messages"}


@pytest.mark.attack("S13")
@pytest.mark.case("B05")
async def test_on_a_stream_a_batch_over_the_limit_is_refused_and_runs_nothing():
    ran = []
    server = build(limits=Limits(batch=3))

    @server.tool
    async def runs() -> str:
        ran.append(1)
        return "ran"

    call = {"name": "runs", "arguments": {}}
    hand = Hand(server.dispatcher, VERSION)
    hand.send([request(id, "tools/call", call) for id in (1, None, 3, 4)])
    hand.send([7, {"method": "x"}, {"jsonrpc": "2.0", "id": 1, "result": {}}, [], []])
    refused = [{"jsonrpc": "2.0", "id": id, "error": TOO_LONG} for id in (1, 3)]
    # There is no form for an answer without an id at this revision.
    assert await hand.settled() == [refused]
    assert ran == []
    hand.send([request(id, "tools/call", call) for id in (1, 2, 3)])
    [answers] = await hand.settled()
    assert {each["id"] for each in answers} == {1, 2, 3}
    assert len(ran) == 3


@pytest.mark.attack("S13")
@pytest.mark.parametrize("member", [b"1", b'{"method":"x"}'])
async def test_a_million_members_are_one_refusal(member):
    body = b"[" + b",".join([member] * 1_000_000) + b"]"
    hand = Hand(build().dispatcher, VERSION)
    hand.receive(body + b"\n")
    hand.send(request(1, "ping"))
    assert [each["id"] for each in await hand.settled()] == [1]


@pytest.mark.attack("S13")
async def test_over_http_a_long_batch_is_one_refusal():
    app = build().asgi()
    head = [
        ("host", "127.0.0.1:8000"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ]
    opening = json.dumps(request(0, "initialize", session(VERSION))).encode()
    opened = await Visit(scope(headers=head), opening).begin(app).done()
    head.append(("mcp-session-id", session_id(opened)))
    for body, status in (
        (b"[" + b"1," * 1_000_000 + b"1]", 400),
        (b"[1]" * 2**21, 413),
    ):
        seen = await Visit(scope(headers=head), body).begin(app).done()
        assert seen.status == status
        assert len(seen.body) < 300
    ping = json.dumps([request(1, "ping")]).encode()
    seen = await Visit(scope(headers=head), ping).begin(app).done()
    assert seen.json() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    await app.aclose()
