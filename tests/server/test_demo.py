"""The demo server through the real client, at every revision."""

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
INPUT_TOOLS = {
    "2024-11-05": ["haiku"],
    "2025-03-26": ["haiku"],
    "2025-06-18": ["order", "haiku"],
    "2025-11-25": ["order", "pay", "haiku"],
    "2026-07-28": ["order", "pay", "haiku"],
}
ORDER = {"drink": "tea", "cups": 2}


def connect(revision, **options):
    return Client(demo_dispatcher(), mode=revision, **options)


def model_reply(text):
    return lambda _: CreateMessageResult("assistant", TextContent(text), "m")


def answering(revision, *, form=lambda _: ORDER, url=lambda _: "accept", sample=None):
    """Return a client that answers every request of the tools."""
    elicitation = Elicitation(form=form, url=url)
    return connect(
        revision, elicitation=elicitation, sampling=sample or model_reply("old pond")
    )


@AT_EACH_REVISION
async def test_server_info_and_lists_describe_the_demo(revision):
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
async def test_echo_add_and_slow_return_their_results(revision):
    message, updates = "a\u2028b\nc \N{GRINNING FACE}", []
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
            on_progress=lambda *step: updates.append(step),
        )
        assert result.text == "3 steps in 0 seconds"
    has_message = revision != NAMES[0]
    assert updates == [
        (step, 3, f"step {step} of 3" if has_message else None) for step in (1, 2, 3)
    ]


@AT_EACH_REVISION
async def test_name_argument_completes(revision):
    async with connect(revision) as client:
        template = ResourceTemplateReference("demo://greeting/{name}")
        for ref in (PromptReference("greet"), template):
            for typed, found in (("a", ["Ada", "Alan"]), ("AD", ["Ada"]), ("x", [])):
                completion = (await client.complete(ref, "name", typed)).completion
                assert completion.values == found


async def test_tool_list_cache_is_private_and_prompt_list_is_public():
    async with connect(NAMES[-1]) as client:
        tools, prompts = (
            await client.list_tools_page(),
            await client.list_prompts_page(),
        )
    assert (tools.ttl_ms, tools.cache_scope) == (3_600_000, "private")
    assert (prompts.ttl_ms, prompts.cache_scope) == (3_600_000, "public")


async def test_slow_logs_each_step_at_log_level_debug():
    updates = []
    async with Client(demo_dispatcher(), on_notification=updates.append) as client:
        await client.call_tool("slow", {"steps": 1, "seconds": 0})
        assert updates == []
        await client.set_log_level("debug")
        await client.call_tool("slow", {"steps": 1, "seconds": 0})
    assert [n.params.data for n in updates] == ["step 1 is done"]


# Tools that request input...


@AT_EACH_REVISION
async def test_input_tools_are_listed_only_for_capable_clients(revision):
    async with answering(revision) as client:
        names = [tool.name for tool in await client.list_tools()]
    assert names == PLAIN + INPUT_TOOLS[revision]
    async with connect(revision) as client:
        with pytest.raises(RPCError, match="unknown tool 'haiku'"):
            await client.call_tool("haiku", {"topic": "x"})


@pytest.mark.parametrize("revision", NAMES[2:])
async def test_order_result_contains_the_form_values(revision):
    received = []

    def form(params):
        received.append(params.message)
        return {"drink": "coffee", "cups": 2, "sugar": True, "note": "hot"}

    async with answering(revision, form=form) as client:
        result = await client.call_tool("order")
    assert (result.text, result.is_error) == ("2 x coffee, with sugar (hot)", False)
    assert received == ["What may we bring you?"]


@pytest.mark.rule("ELIC-09")
@pytest.mark.parametrize("revision", NAMES[2:])
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_or_cancelled_form_places_no_order(revision, action):
    async with answering(
        revision, form=lambda _: action, url=lambda _: action
    ) as client:
        assert (await client.call_tool("order")).text == f"no order: {action}"
        if revision >= "2025-11-25":
            assert (await client.call_tool("pay")).text == f"no payment: {action}"


@AT_EACH_REVISION
async def test_haiku_returns_the_sampled_text_and_pay_needs_consent(revision):
    received = []

    def sample(params):
        received.append(params.messages[0].blocks[0].text)
        return model_reply("old pond")(params)

    async with answering(revision, sample=sample) as client:
        assert (await client.call_tool("haiku", {"topic": "frogs"})).text == "old pond"
        if "pay" in INPUT_TOOLS[revision]:
            assert (await client.call_tool("pay")).text == "agreed to pay"
    assert received == ["Write a haiku about frogs."]
