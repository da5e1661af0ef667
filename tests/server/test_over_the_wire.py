"""Handlers of a real server request input from a real client, in memory."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Literal

import pytest

from mcpwire import Client, Elicitation, InvalidParams
from mcpwire.server.authoring.injection import Depends
from mcpwire.server.context import Context, current_context
from mcpwire.server.server import Server
from mcpwire.types import CreateMessageResult, TextContent

MODES = pytest.mark.parametrize("mode", ["auto", "session"])


@dataclass
class Order:
    """An order of a guest."""

    drink: Literal["tea", "coffee"]
    cups: int = 1


server = Server("asking", "1.0", state_keys=[b"k" * 32])
served = []


@server.tool
async def order(ctx: Context) -> str:
    """Ask for an order, and confirm it."""
    wish = await ctx.elicit("What may we bring you?", Order)
    if wish.value is None:
        return wish.action
    number = await ctx.once("number", lambda: served.append(1) or len(served))
    sure = await ctx.elicit(f"{wish.value.cups} x {wish.value.drink}?", bool)
    return f"{number}: {wish.value.cups} x {wish.value.drink}: {sure.value}"


@server.tool
def order_in_thread() -> str:
    """Do the same in a worker thread."""
    wish = current_context().sync.elicit("What may we bring you?", Order)
    return f"{wish.value.cups} x {wish.value.drink}, {threading.current_thread().name}"


@server.tool
async def everything(ctx: Context) -> list[str]:
    """Request every kind of input concurrently."""
    ctx.progress(1, 2)
    wish, visit, poem, roots = await asyncio.gather(
        ctx.elicit("What may we bring you?", Order),
        ctx.elicit_url("Pay", "https://example.com/pay"),
        ctx.sample("A haiku", max_tokens=17),
        ctx.roots(),
    )
    return [wish.action, visit.action, poem.text, *(root.uri for root in roots)]


@server.tool
async def waiter(ctx: Context) -> str:
    """Call another tool that requests input."""
    return (await ctx.call_tool("order")).text


async def guest(ctx: Context) -> str:
    """Ask for the user's name before the tool runs."""
    return (await ctx.elicit("Who are you?", str)).value or "nobody"


@server.tool
async def welcome(name: str = Depends(guest)) -> str:
    """Greet the user."""
    return f"Welcome, {name}"


@server.prompt
async def menu(ctx: Context) -> str:
    """Ask for the topic of the prompt."""
    return f"Describe {(await ctx.elicit('What?', Order)).value}"


@server.resource("bill://now")
async def bill(ctx: Context) -> str:
    """Ask for the name on the bill."""
    return f"for {(await ctx.elicit('Whose?', str)).value}"


def fill_in(form):
    if form.message == "What may we bring you?":
        return {"drink": "tea"}
    answer = True if "x tea" in form.message else "Ada"
    return dict.fromkeys(form.requested_schema.properties, answer)


def think(request):
    return CreateMessageResult(
        "assistant", TextContent(f"{request.max_tokens} syllables"), "m"
    )


def client(mode, **more):
    options = {
        "elicitation": Elicitation(form=fill_in, url=lambda _: "accept"),
        "sampling": think,
        "roots": ["file:///work"],
    }
    return Client(server, mode=mode, **{**options, **more})


@MODES
async def test_tool_elicits_twice_and_acts_once(mode):
    before = len(served)
    async with client(mode) as peer:
        text = (await peer.call_tool("order")).text
    assert text == f"{before + 1}: 1 x tea: True"
    assert len(served) == before + 1


@MODES
async def test_sync_tool_elicits_from_its_thread(mode):
    async with client(mode) as peer:
        text = (await peer.call_tool("order_in_thread")).text
    assert text.startswith("1 x tea, ")
    assert "MainThread" not in text


@MODES
async def test_concurrent_input_requests_are_all_answered(mode):
    async with client(mode) as peer:
        result = await peer.call_tool("everything")
    assert result.structured_content == {
        "result": ["accept", "accept", "17 syllables", "file:///work"]
    }


@MODES
async def test_nested_tool_call_elicits_from_the_same_client(mode):
    async with client(mode) as peer:
        text = (await peer.call_tool("waiter")).text
    assert text.endswith(": 1 x tea: True")


@MODES
async def test_dependency_elicits_before_the_tool_runs(mode):
    async with client(mode) as peer:
        assert (await peer.call_tool("welcome")).text == "Welcome, Ada"


async def test_prompts_and_resources_can_elicit():
    def fill(form):
        return {"drink": "coffee"} if form.message == "What?" else {"value": "Ada"}

    for mode in ("auto", "session"):
        async with client(mode, elicitation=fill) as peer:
            [message] = (await peer.get_prompt("menu")).messages
            assert "coffee" in message.content.text
            assert await peer.read_text("bill://now") == "for Ada"


@pytest.mark.unchecked_wire("a client that sends what the schema refuses")
@pytest.mark.rule("MRTR-08", "MRTR-17")
async def test_tampered_state_and_malformed_responses_are_errors():
    params = {"name": "order", "arguments": {}}
    async with client("auto") as peer:
        for member in (
            {"requestState": "mcpwire1.e30.AAAA"},
            {"requestState": 7},
            {"inputResponses": None},
            {"inputResponses": []},
        ):
            with pytest.raises(InvalidParams):
                await peer.request("tools/call", {**params, **member})


@pytest.mark.rule("MRTR-02")
async def test_list_request_ignores_request_state():
    async with client("auto") as peer:
        result = await peer.request(
            "tools/list", {"requestState": "x", "inputResponses": None}
        )
    assert result["resultType"] == "complete"


@MODES
@pytest.mark.parametrize("kind", ["tool", "prompt"])
async def test_dependency_can_pass_the_context_to_the_function(server, kind, mode):
    @server.resource("a://b")
    def text() -> str:
        return "there"

    def reader(ctx: Context):
        return lambda: ctx.sync.read_resource("a://b").contents[0].text

    @getattr(server, kind)
    def use(read: object = Depends(reader)) -> str:
        return read()

    async with Client(server, mode=mode) as client:
        if kind == "tool":
            content = (await client.call_tool("use", {})).content[0]
        else:
            content = (await client.get_prompt("use", {})).messages[0].content
    assert content.text == "there"
