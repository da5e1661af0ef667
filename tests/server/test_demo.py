"""The demo server through the real client, at every revision."""

import asyncio
import json

import jsonschema_rs
import pytest

from mcpwire import Client, RPCError
from mcpwire.protocol.client_features import Elicitation
from mcpwire.server.demo import demo_dispatcher
from mcpwire.types import (
    CreateMessageResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)
from mcpwire.versions import REVISIONS

NAMES = [revision.name for revision in REVISIONS]
AT_EACH_REVISION = pytest.mark.parametrize("revision", NAMES)
PLAIN = ["echo", "add", "slow"]
OFFERED = {
    "2024-11-05": ["haiku"],
    "2025-03-26": ["haiku"],
    "2025-06-18": ["order", "haiku"],
    "2025-11-25": ["order", "pay", "haiku"],
    "2026-07-28": ["order", "pay", "haiku"],
}
ORDER = {"drink": "tea", "cups": 2}


def connect(revision, **options):
    return Client(demo_dispatcher(), mode=revision, **options)


def say(text):
    return lambda _: CreateMessageResult("assistant", TextContent(text), "m")


def able(revision, *, form=lambda _: ORDER, url=lambda _: "accept", sample=None):
    """Return a client that answers all that the tools ask."""
    elicitation = Elicitation(form=form, url=url)
    return connect(
        revision, elicitation=elicitation, sampling=sample or say("old pond")
    )


@AT_EACH_REVISION
async def test_it_introduces_itself_and_lists_what_it_has(revision):
    async with connect(revision) as client:
        assert client.server_info.name == "mcpwire-demo"
        assert "echo" in client.instructions
        tools = await client.list_tools()
        assert [tool.name for tool in tools] == PLAIN
        assert tools[1].input_schema["required"] == ["a"]
        assert (tools[1].output_schema is not None) == (revision >= "2025-06-18")
        assert (tools[2].annotations is not None) == (revision >= "2025-03-26")
        for tool in tools:
            assert jsonschema_rs.meta.is_valid(tool.input_schema)
        [prompt] = await client.list_prompts()
        assert (prompt.name, prompt.arguments[0].required) == ("greet", True)
        [resource] = await client.list_resources()
        assert await client.read_text(resource.uri) == "Hello from mcpwire."
        [template] = await client.list_resource_templates()
        uri = template.uri_template.replace("{name}", "J%C3%BCrgen")
        assert await client.read_text(uri) == "Hello, Jürgen."
        [message] = (await client.get_prompt("greet", {"name": "Ada"})).messages
        assert (message.role, "Ada" in message.content.text) == ("user", True)


@AT_EACH_REVISION
async def test_its_tools_do_what_they_say(revision):
    message, heard = "a\u2028b\nc \N{GRINNING FACE}", []
    async with connect(revision) as client:
        result = await client.call_tool("echo", {"message": message})
        assert (result.text, result.is_error) == (message, False)
        for arguments, total in (
            ({"a": 1}, 1),
            ({"a": 1, "b": 2.0}, 3),
            ({"a": 2**53 - 1, "b": 2**53 - 1}, 2**54 - 2),
        ):
            result = await client.call_tool("add", arguments)
            assert json.loads(result.text) == {"sum": total}
            has_data = revision >= "2025-06-18"
            assert result.raw.get("structuredContent") == (
                {"sum": total} if has_data else None
            )
        result = await client.call_tool(
            "slow",
            {"steps": 3, "seconds": 0},
            on_progress=lambda *step: heard.append(step),
        )
        assert result.text == "3 steps in 0 seconds"
    has_message = revision != NAMES[0]
    assert heard == [
        (step, 3, f"step {step} of 3" if has_message else None) for step in (1, 2, 3)
    ]


@pytest.mark.parametrize("revision", [NAMES[0], NAMES[-1]])
async def test_slow_stops_when_it_is_cancelled(revision):
    def handlers():
        names = [task.get_name() for task in asyncio.all_tasks()]
        return [name for name in names if name.startswith("mcpwire-request")]

    async with connect(revision) as client:
        task = asyncio.create_task(client.call_tool("slow", {"seconds": 3_600}))
        # Once a later call was answered, the handler of the earlier one has begun.
        await asyncio.sleep(0)
        await client.call_tool("echo", {"message": "x"})
        assert len(handlers()) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.call_tool("echo", {"message": "x"})
        assert handlers() == []


@AT_EACH_REVISION
async def test_it_completes_a_name(revision):
    async with connect(revision) as client:
        template = ResourceTemplateReference("demo://greeting/{name}")
        for ref in (PromptReference("greet"), template):
            for typed, found in (("a", ["Ada", "Alan"]), ("AD", ["Ada"]), ("x", [])):
                completion = (await client.complete(ref, "name", typed)).completion
                assert completion.values == found


async def test_its_lists_may_be_kept_and_those_of_tools_for_oneself_only():
    async with connect(NAMES[-1]) as client:
        tools, prompts = (
            await client.list_tools_page(),
            await client.list_prompts_page(),
        )
    assert (tools.ttl_ms, tools.cache_scope) == (3_600_000, "private")
    assert (prompts.ttl_ms, prompts.cache_scope) == (3_600_000, "public")


async def test_slow_logs_each_step_where_the_client_wants_it():
    heard = []
    async with Client(demo_dispatcher(), on_notification=heard.append) as client:
        await client.call_tool("slow", {"steps": 1, "seconds": 0})
        assert heard == []
        await client.set_log_level("debug")
        await client.call_tool("slow", {"steps": 1, "seconds": 0})
    assert [n.params.data for n in heard] == ["step 1 is done"]


# Tools that ask...


@AT_EACH_REVISION
async def test_tools_that_ask_are_offered_to_clients_that_can_answer(revision):
    async with able(revision) as client:
        names = [tool.name for tool in await client.list_tools()]
    assert names == PLAIN + OFFERED[revision]
    async with connect(revision) as client:
        with pytest.raises(RPCError, match="no tool 'haiku'"):
            await client.call_tool("haiku", {"topic": "x"})


@pytest.mark.parametrize("revision", NAMES[2:])
async def test_an_order_is_what_the_form_says(revision):
    asked = []

    def form(params):
        asked.append(params.message)
        return {"drink": "coffee", "cups": 2, "sugar": True, "note": "hot"}

    async with able(revision, form=form) as client:
        result = await client.call_tool("order")
    assert (result.text, result.is_error) == ("2 x coffee, with sugar (hot)", False)
    assert asked == ["What may we bring you?"]


@pytest.mark.rule("ELIC-09")
@pytest.mark.parametrize("revision", NAMES[2:])
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_without_an_answer_nothing_is_ordered(revision, action):
    async with able(revision, form=lambda _: action, url=lambda _: action) as client:
        assert (await client.call_tool("order")).text == f"no order: {action}"
        if revision >= "2025-11-25":
            assert (await client.call_tool("pay")).text == f"no payment: {action}"


@AT_EACH_REVISION
async def test_a_haiku_is_what_the_model_says_and_a_payment_needs_consent(revision):
    asked = []

    def sample(params):
        asked.append(params.messages[0].blocks[0].text)
        return say("old pond")(params)

    async with able(revision, sample=sample) as client:
        assert (await client.call_tool("haiku", {"topic": "frogs"})).text == "old pond"
        if "pay" in OFFERED[revision]:
            assert (await client.call_tool("pay")).text == "agreed to pay"
    assert asked == ["Write a haiku about frogs."]
