"""`Server`: options that apply to every tool without its own."""

import asyncio

import pytest

from mcpwire import Client, Context, InternalError, InvalidParams, Limits, Server

KEY = b"k" * 32

SHORT_TIMEOUT_S = 0.02
"""A short timeout in seconds, for calls that would never end."""


async def test_server_coerce_is_the_default_for_tools():
    def double(a: int) -> int:
        return 2 * a

    for options, other in (({"coerce": True}, False), ({}, True)):
        server = Server("x", **options)
        server.add_tool(double)
        server.add_tool(double, name="other", coerce=other)
        async with Client(server) as client:
            for name, is_error in (("double", other), ("other", not other)):
                assert (await client.call_tool(name, {"a": "2"})).is_error is is_error


async def test_results_are_validated_unless_validate_output_is_false():
    schema = {"type": "object", "required": ["a"]}
    for options, is_error in (({}, True), ({"validate_output": False}, False)):
        server = Server("x", **options)
        server.add_tool(lambda: {"b": 1}, name="t", output_schema=schema)
        async with Client(server) as client:
            assert (await client.call_tool("t")).is_error is is_error


async def test_ask_timeout_limits_an_elicitation_in_a_session():
    server = Server("x", ask_timeout=SHORT_TIMEOUT_S)

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", bool)).action

    async def think(form):
        await asyncio.Event().wait()

    async with Client(server, mode="session", elicitation=think) as client:
        assert (await client.call_tool("ask")).is_error


@pytest.mark.rule("MRTR-21", "MRTR-11")
@pytest.mark.case("F16")
async def test_input_rounds_limit_bounds_the_elicitations_of_a_call(caplog):
    server = Server("x", limits=Limits(input_rounds=2))

    @server.tool
    async def ask(ctx: Context) -> str:
        for number in range(5):
            await ctx.elicit(f"{number}?", bool)
        return "never"

    messages = []

    def accept(form):
        messages.append(form.message)
        return {"value": True}

    async with Client(server, elicitation=accept) as client:
        with pytest.raises(InternalError, match="requested input 2 times"):
            await client.call_tool("ask")
    assert messages == ["0?", "1?"]
    assert "Limits.input_rounds" in caplog.text


@pytest.mark.parametrize(
    ("before", "now", "is_known"),
    [
        ([KEY], [KEY], True),
        ([KEY], [b"n" * 32, KEY], True),
        ([KEY], [b"n" * 32], False),
        ([KEY], (), False),
        ((), (), False),
    ],
    ids=["shared", "rotated", "another", "random now", "random"],
)
async def test_state_keys_let_another_process_continue_a_call(before, now, is_known):
    def process(keys):
        server = Server("x", state_keys=keys)

        @server.tool
        async def ask(ctx: Context) -> str:
            kept = await ctx.once("kept", lambda: "kept")
            return f"{(await ctx.elicit('Sure?', bool, key='sure')).action} {kept}"

        return Client(server, mode="stateless", elicitation=lambda form: "decline")

    params = {"name": "ask", "arguments": {}}
    async with process(before) as client:
        first = await client.request("tools/call", params)
    again = {
        **params,
        "requestState": first["requestState"],
        "inputResponses": {"sure": {"action": "decline"}},
    }
    async with process(now) as client:
        if is_known:
            result = await client.request("tools/call", again)
            assert result["content"][0]["text"] == "decline kept"
        else:
            with pytest.raises(InvalidParams, match="requestState"):
                await client.request("tools/call", again)
