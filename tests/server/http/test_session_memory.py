"""Declarations of a client are kept for its session, so their size is bounded."""

import json
import sys

import pytest
from hosted import posted
from raw_client import CAPABILITIES_KEY, Hand, modern, request, server, session
from raw_sockets import Small, raw, served, socket_request

import mcpwire
from mcpwire.errors import InvalidParams, NegotiationError
from mcpwire.server.request import RETAINED_BYTES, check_retained

LARGE = {"experimental": {"x": {"y": "x" * 3_900_000}}}
MANY = {"experimental": {"x": {"y": [{}] * 280_000}}}
DEEP = {}
for _ in range(300):
    DEEP = {"experimental": DEEP}


def opening(**members):
    return request(1, "initialize", session() | members)


def is_refused(answer, words="at most 65536 bytes, got"):
    error = answer["error"]
    return error["code"] == -32602 and words in error["message"]


@pytest.mark.attack("X02")
async def test_sixty_too_large_initializes_leave_no_memory():
    async with served(Small()) as (url, _):
        attacks = [
            raw(opening(capabilities=each), mcp_protocol_version=None)
            for each in (LARGE, MANY)
        ]
        await socket_request(url, attacks[0])
        before = sys.getallocatedblocks()
        for attack in [attacks[0]] * 57 + [attacks[1]] * 3:
            status, head, body = await socket_request(url, attack)
            assert (status, b"mcp-session-id" in head) == (200, False)
            assert is_refused(json.loads(body))
        del body
        # One of the three would hold 280,000 blocks.
        assert sys.getallocatedblocks() - before < 100_000
        status, head, _ = await socket_request(
            url, raw(opening(), mcp_protocol_version=None)
        )
        assert (status, b"mcp-session-id" in head) == (200, True)


@pytest.mark.attack("X02")
@pytest.mark.parametrize("member", ["capabilities", "clientInfo"])
@pytest.mark.parametrize("value", [LARGE, MANY], ids=["large", "many"])
async def test_connection_refuses_large_members_and_stays_usable(member, value):
    hand = Hand(server())
    assert is_refused((await hand.ask(opening(**{member: value})))[0])
    assert "result" in (await hand.ask(opening()))[0]


@pytest.mark.attack("X02")
@pytest.mark.parametrize("kind", ["server", "gateway"])
async def test_in_memory_server_and_gateway_refuse_large_client_info(kind):
    made = mcpwire.Server("s") if kind == "server" else mcpwire.Gateway({})
    client = mcpwire.Client(made, mode="2025-11-25", client_info=large_info())
    with pytest.raises(NegotiationError, match="at most 65536 bytes, got"):
        await client.connect()
    await client.aclose()


def large_info():
    return mcpwire.types.Implementation(name="x" * 70_000, version="1")


@pytest.mark.attack("X02")
async def test_gateway_opens_no_servers_for_too_large_capabilities():
    message = modern(1, "tools/list", **{CAPABILITIES_KEY: LARGE})
    async with mcpwire.Gateway({}) as gateway:
        made = gateway.asgi(stream_after=30.0)
        assert is_refused((await posted(message).begin(made).done()).json())
        assert gateway.status()["shared"] == 0


@pytest.mark.attack("X02")
async def test_subscription_with_too_large_meta_is_refused():
    server = mcpwire.Server("s")
    server.tool(large_info)
    made = server.asgi(stream_after=30.0)
    params = {"notifications": {}}
    message = modern(1, "subscriptions/listen", params, other="x" * 70_000)
    done = await posted(message).begin(made).done()
    assert is_refused(done.json())


@pytest.mark.attack("X02")
@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ({"a": "x" * (RETAINED_BYTES - 128 - 8)}, True),
        ({"a": "x" * (RETAINED_BYTES - 128 - 7)}, False),
        ({"a": [[]] * 950}, True),
        ({"a": ({},) * 1_000}, False),
    ],
)
def test_retained_size_counts_the_text_and_each_value(value, is_kept):
    if is_kept:
        check_retained("it", value)
    else:
        with pytest.raises(InvalidParams, match=r"^it must take at most 65536 bytes"):
            check_retained("it", value)


@pytest.mark.attack("X02")
def test_too_deeply_nested_value_is_refused_with_a_clear_message():
    with pytest.raises(InvalidParams, match="it is nested too deeply"):
        check_retained("it", DEEP)
