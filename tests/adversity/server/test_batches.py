"""Batches (2025-03-26): no more messages at once than the limit says."""

import json

import pytest
from by_hand import Hand, request, session
from hosted import Visit, scope
from victim import build
from wires import session_id

VERSION = "2025-03-26"


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
