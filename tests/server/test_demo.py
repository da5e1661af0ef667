"""The demo server through the real client, at every revision."""

import asyncio
import json
import re

import jsonschema_rs
import pytest
from by_hand import Hand, modern, request

from mcpwire import Client, InvalidParams, ResourceNotFound
from mcpwire.server.demo import demo_dispatcher
from mcpwire.types import PromptReference, ResourceTemplateReference
from mcpwire.versions import REVISIONS

pytestmark = pytest.mark.anyio

NAMES = [revision.name for revision in REVISIONS]
AT_EACH_REVISION = pytest.mark.parametrize("revision", NAMES)
AT_OLDEST_AND_LATEST = pytest.mark.parametrize("revision", [NAMES[0], NAMES[-1]])


def handlers():
    """Return the tasks in which handlers run."""
    tasks = asyncio.all_tasks()
    return [task for task in tasks if task.get_name().startswith("mcpwire-request")]


def connect(revision):
    return Client(demo_dispatcher(), mode=revision)


@AT_EACH_REVISION
async def test_it_introduces_itself(revision):
    async with connect(revision) as client:
        assert client.protocol_version == revision
        assert client.server_info.name == "mcpwire-demo"
        assert "echo" in client.instructions
        assert client.capabilities.tools is not None
        assert (client.capabilities.completions is None) == (revision == NAMES[0])
        assert await client.ping() >= 0


async def test_a_client_that_may_speak_anything_speaks_the_latest():
    async with Client(demo_dispatcher()) as client:
        assert client.protocol_version == NAMES[-1]


@AT_EACH_REVISION
async def test_it_lists_its_tools_in_the_same_order(revision):
    async with connect(revision) as client:
        tools = await client.list_tools()
        assert [tool.name for tool in tools] == ["echo", "add", "slow"]
        assert tools == await client.list_tools()
        echo, add, slow = tools
        assert add.input_schema["required"] == ["a"]
        assert (add.output_schema is not None) == (revision >= "2025-06-18")
        assert (echo.title is not None) == (revision >= "2025-06-18")
        assert (slow.annotations is not None) == (revision >= "2025-03-26")


async def test_its_schemas_are_schemas_of_objects():
    async with connect(NAMES[-1]) as client:
        for tool in await client.list_tools():
            for schema in filter(None, [tool.input_schema, tool.output_schema]):
                assert schema["type"] == "object"
                assert jsonschema_rs.meta.is_valid(schema)


@AT_EACH_REVISION
async def test_echo_returns_the_message(revision):
    message = "a\u2028b\nc \N{GRINNING FACE}"
    async with connect(revision) as client:
        result = await client.call_tool("echo", {"message": message})
        assert (result.text, result.is_error) == (message, False)


@AT_EACH_REVISION
async def test_add_returns_the_sum_as_text_and_as_a_value(revision):
    async with connect(revision) as client:
        for arguments, total in (
            ({"a": 1}, 1),
            ({"a": 1, "b": 2.0}, 3),
            ({"a": 2**53 - 1, "b": 2**53 - 1}, 2**54 - 2),
        ):
            result = await client.call_tool("add", arguments)
            assert json.loads(result.text) == {"sum": total}
            if revision >= "2025-06-18":
                assert result.structured_content == {"sum": total}
            else:
                assert "structuredContent" not in result.raw


@AT_EACH_REVISION
async def test_slow_reports_each_step(revision):
    heard = []
    async with connect(revision) as client:
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


@AT_OLDEST_AND_LATEST
async def test_slow_stops_when_it_is_cancelled(revision):
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


@pytest.mark.rule("TOOL-15")
@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("add", {"a": "1"}, "a: expected integer, got string '1'"),
        ("add", {}, "a is missing"),
        ("add", {"a": 2**53}, f"a: expected integer <= {2**53 - 1}"),
        ("echo", {"message": 1}, "message: expected string, got number 1"),
        ("echo", {"massage": "x"}, "unknown argument 'massage', there are message"),
        ("slow", {"steps": 0}, "steps: expected integer >= 1"),
        ("slow", {"seconds": -1}, "seconds: expected number >= 0"),
    ],
)
@AT_OLDEST_AND_LATEST
async def test_wrong_arguments_are_refused_as_the_revision_has_it(
    name, arguments, why, revision
):
    async with connect(revision) as client:
        if revision == NAMES[0]:
            with pytest.raises(InvalidParams, match=re.escape(why)):
                await client.call_tool(name, arguments)
        else:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert result.text.startswith(why)


@pytest.mark.rule("TOOL-15")
@AT_EACH_REVISION
async def test_an_unknown_tool_is_an_error(revision):
    async with connect(revision) as client:
        with pytest.raises(InvalidParams, match="there is no tool 'nope'"):
            await client.call_tool("nope")


@AT_EACH_REVISION
async def test_it_has_a_resource_and_a_template(revision):
    async with connect(revision) as client:
        [resource] = await client.list_resources()
        [template] = await client.list_resource_templates()
        assert resource.uri == "demo://greeting"
        assert template.uri_template == "demo://greeting/{name}"
        assert await client.read_text(resource.uri) == "Hello from mcpwire."
        for name, greeted in (("Ada", "Ada"), ("J%C3%BCrgen", "Jürgen")):
            uri = template.uri_template.replace("{name}", name)
            result = await client.read_resource(uri)
            assert result.text == f"Hello, {greeted}."
            assert result.contents[0].uri == uri


@pytest.mark.rule("RES-04", "RES-05")
@pytest.mark.parametrize(
    "uri",
    [
        "demo://nope",
        "demo://greeting/",
        "demo://greeting/a/b",
        "demo://greeting/a?b",
        "demo://greeting#a",
        "other:demo://greeting/a",
    ],
)
@AT_EACH_REVISION
async def test_an_unknown_resource_has_the_error_of_its_era(uri, revision):
    expected = InvalidParams if revision == NAMES[-1] else ResourceNotFound
    async with connect(revision) as client:
        with pytest.raises(expected) as caught:
            await client.read_resource(uri)
        assert caught.value.data == {"uri": uri}


@AT_EACH_REVISION
async def test_it_has_a_prompt(revision):
    async with connect(revision) as client:
        [prompt] = await client.list_prompts()
        assert (prompt.name, prompt.arguments[0].required) == ("greet", True)
        result = await client.get_prompt("greet", {"name": "Ada"})
        [message] = result.messages
        assert (message.role, "Ada" in message.content.text) == ("user", True)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"name": "nope"}, "there is no prompt 'nope'"),
        ({"name": "greet"}, "the argument 'name' is missing"),
        ({"name": "greet", "arguments": {}}, "the argument 'name' is missing"),
    ],
)
@AT_OLDEST_AND_LATEST
async def test_a_prompt_without_what_it_needs_is_an_error(params, why, revision):
    async with connect(revision) as client:
        with pytest.raises(InvalidParams, match=why):
            await client.request("prompts/get", params)


@pytest.mark.parametrize(
    "ref",
    [PromptReference("greet"), ResourceTemplateReference("demo://greeting/{name}")],
    ids=["prompt", "template"],
)
@AT_EACH_REVISION
async def test_it_completes_a_name(ref, revision):
    async with connect(revision) as client:
        for value, expected in (
            ("a", ["Ada", "Alan"]),
            ("AD", ["Ada"]),
            ("x", []),
            ("", ["Ada", "Alan", "Barbara", "Edsger", "Grace", "Tim"]),
        ):
            completion = (await client.complete(ref, "name", value)).completion
            assert completion.values == expected
            assert (completion.total, completion.has_more) == (len(expected), False)


COMPLETE = "completion/complete"
NAME = {"name": "name", "value": ""}
GREET = {"type": "ref/prompt", "name": "greet"}

MALFORMED = {
    "a tool's name": ("tools/call", {"name": 7}),
    "no tool's name": ("tools/call", {}),
    "no URI": ("resources/read", {}),
    "a URI that is none": ("resources/read", {"uri": ["demo://greeting"]}),
    "no prompt's name": ("prompts/get", {}),
    "a prompt's name": ("prompts/get", {"name": {}}),
    "a prompt's arguments": ("prompts/get", {"name": "greet", "arguments": []}),
    "a prompt's argument": ("prompts/get", {"name": "greet", "arguments": {"name": 7}}),
    "nothing to complete": (COMPLETE, {}),
    "a ref": (COMPLETE, {"ref": "greet", "argument": NAME}),
    "an unknown ref": (COMPLETE, {"ref": {**GREET, "name": "no"}, "argument": NAME}),
    "an unknown argument": (COMPLETE, {"ref": GREET, "argument": {"name": "age"}}),
    "an argument": (COMPLETE, {"ref": GREET, "argument": "name"}),
    "no value": (COMPLETE, {"ref": GREET, "argument": {"name": "name"}}),
}


@pytest.mark.rule("TOOL-15")
@pytest.mark.parametrize("case", MALFORMED)
async def test_malformed_params_are_refused_in_both_eras(case):
    wire = Hand(demo_dispatcher(), "2025-11-25")
    answers = await wire.ask(request(1, *MALFORMED[case]), modern(2, *MALFORMED[case]))
    assert [answer["error"]["code"] for answer in answers] == [-32602, -32602]


@pytest.mark.rule("TOOL-15")
async def test_arguments_that_are_no_object_are_the_tools_failure():
    wire = Hand(demo_dispatcher(), "2025-11-25")
    asked = request(1, "tools/call", {"name": "echo", "arguments": ["x"]})
    [answer] = await wire.ask(asked)
    assert answer["result"]["isError"]


@pytest.mark.parametrize(
    "method",
    ["tools/list", "resources/list", "resources/templates/list", "prompts/list"],
)
@pytest.mark.parametrize("cursor", ["", "page-2"])
async def test_a_cursor_that_was_never_given_out_is_refused(method, cursor):
    async with connect(NAMES[-1]) as client:
        with pytest.raises(InvalidParams, match="cursor"):
            await client.request(method, {"cursor": cursor})


async def test_its_lists_may_be_kept():
    async with connect(NAMES[-1]) as client:
        page = await client.list_prompts_page()
        assert (page.ttl_ms, page.cache_scope) == (3_600_000, "public")


async def test_its_tools_may_be_kept_for_oneself_as_they_depend_on_who_asks():
    async with connect(NAMES[-1]) as client:
        page = await client.list_tools_page()
        assert (page.ttl_ms, page.cache_scope) == (3_600_000, "private")
