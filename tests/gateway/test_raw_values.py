"""A gateway passes any JSON unchanged; a value it cannot pass fails only that call."""

import asyncio
import json

import pytest
from fakes import SILENCE, FakeServer
from gateway_servers import ERAS, TIMEOUT_S, fake, through
from hypothesis import given, settings
from hypothesis import strategies as st

import mcpwire
from mcpwire.errors import rpc_error

pytestmark = pytest.mark.system("O44")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([-0.0, 1.0, 1e300, 5e-324, 2**53 + 1])
    | TEXT
)

JSON = st.recursive(
    SCALARS,
    lambda some: st.lists(some, max_size=4) | st.dictionaries(TEXT, some, max_size=4),
    max_leaves=12,
)

OBJECTS = st.dictionaries(TEXT, JSON, max_size=5)


def spelled(value):
    """Return a text that shows order, types and the sign of zero."""
    return json.dumps(value)


def run(main):
    """Run a coroutine to completion on a new event loop."""

    async def bounded():
        async with asyncio.timeout(TIMEOUT_S):
            await main

    asyncio.run(bounded())


def server_of(version, values, seen):
    """Return a server whose responses contain these values."""
    _, member, data, meta = values
    stateless = version == ERAS[0]
    stamp = {"resultType": "complete"} if stateless else {}
    hints = {**stamp, "ttlMs": 0, "cacheScope": "private"} if stateless else {}
    tool = {"name": "x", "inputSchema": {"type": "object", "z": member}}

    def call(params, server):
        seen.append(params["arguments"])
        return {
            "content": [],
            "structuredContent": {"": member},
            "z": member,
            "_meta": {"example.com/b": meta, "example.com/a": meta},
            **stamp,
        }

    return FakeServer(
        {
            "tools/list": lambda params, server: {"tools": [tool], **hints},
            "tools/call": call,
            "prompts/list": lambda params, server: {
                "prompts": [{"name": "p"}],
                **hints,
            },
            "prompts/get": lambda params, server: rpc_error(
                -31000, "no \u2028", data=data
            ),
        },
        version=version,
        capabilities={"tools": {}, "prompts": {}},
    )


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("version", ERAS)
@settings(max_examples=12, deadline=None)
@given(values=st.tuples(OBJECTS, JSON, JSON, JSON))
def test_json_passes_with_equal_values_order_and_types(era, version, values):
    arguments, member, data, meta = values
    seen = []
    server = server_of(version, values, seen)

    async def main():
        async with through({"a": server}, era) as client:
            [tool] = (await client.request("tools/list"))["tools"]
            assert spelled(tool["inputSchema"]["z"]) == spelled(member)
            params = {"name": "a_x", "arguments": arguments}
            result = await client.request("tools/call", params)
            with pytest.raises(mcpwire.RPCError) as caught:
                await client.request("prompts/get", {"name": "a_p"})
        assert spelled(seen) == spelled([arguments])
        assert spelled(result["structuredContent"]) == spelled({"": member})
        assert spelled(result["z"]) == spelled(member)
        assert spelled(result["_meta"]["example.com/a"]) == spelled(meta)
        members = [key for key in result if key not in {"resultType", "_meta"}]
        assert members == ["content", "structuredContent", "z"]
        error = caught.value
        assert (error.code, error.message) == (-31000, "no \u2028")
        assert spelled(error.data) == spelled(data)

    run(main())


UNREADABLE = {
    "a number beyond all bounds": b"1e400",
    "no number": b"NaN",
    "half a character": b'"\\ud800"',
    "text that is no UTF-8": b'"\xff"',
    "more than can be nested": b"[" * 2000 + b"]" * 2000,
    "more than can be written": b"[" * 400 + b"]" * 400,
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
async def test_unreadable_result_fails_only_its_call(era, raw):
    def call(params, server):
        if params["arguments"]:
            return {"content": [], "structuredContent": params["arguments"]}
        id = json.dumps(server.current["id"]).encode()
        server.write(
            b'{"jsonrpc":"2.0","id":%s,"result":{"content":[],"z":%s}}\n' % (id, raw)
        )
        return SILENCE

    server = fake("x", methods={"tools/call": call})
    async with through({"a": server}, era) as client:
        outcomes = await asyncio.gather(
            client.call_tool("a_x", {"n": 1}),
            client.call_tool("a_x", {}),
            client.call_tool("a_x", {"n": 2}),
            return_exceptions=True,
        )
        assert isinstance(outcomes[1], mcpwire.RPCError)
        assert outcomes[0].structured_content == {"n": 1}
        assert outcomes[2].structured_content == {"n": 2}
        assert (await client.call_tool("a_x", {"n": 3})).structured_content["n"] == 3


async def test_integers_beyond_64_bit_arrive_as_floats():
    def call(params, server):
        return {"content": [], "structuredContent": {"n": 2**70}}

    async with through({"a": fake("x", methods={"tools/call": call})}) as client:
        result = await client.call_tool("a_x")
    assert result.structured_content == {"n": float(2**70)}
