"""Which server gets a request: tools, prompts, resources, templates, completions."""

import asyncio

import pytest
from gateway_servers import ERAS, fake, named, through, tool_names

import mcpwire
from mcpwire import Context
from mcpwire.errors import InvalidParams, MethodNotFound, ResourceNotFound
from mcpwire.group.member import Member
from mcpwire.tools.transforms import ToolTransform
from mcpwire.types import PromptReference, ResourceTemplateReference

both_eras = pytest.mark.parametrize("era", ERAS)


@both_eras
@pytest.mark.system("O43")
async def test_tools_with_one_name_are_called_on_their_own_servers(era):
    servers = {"a": named("a", "x"), "b": named("b", "x")}
    async with through(servers, era) as client:
        assert (await client.call_tool("a_x", {"text": "1"})).text == "a.x(1)"
        assert (await client.call_tool("b_x", {"text": "2"})).text == "b.x(2)"


@both_eras
@pytest.mark.unchecked_wire("a name that is none is sent on purpose")
@pytest.mark.rule("TOOL-15")
@pytest.mark.system("O43")
async def test_unknown_tool_or_non_string_name_is_invalid_params(era):
    async with through({"a": named("a", "x")}, era) as client:
        for name in ("x", "a_y", "a", "", "a_x "):
            with pytest.raises(InvalidParams, match="unknown tool"):
                await client.call_tool(name)
        with pytest.raises(InvalidParams, match=r"params\.name must be a string"):
            await client.request("tools/call", {"name": 5})
        with pytest.raises(InvalidParams, match=r"params\.name must be a string"):
            await client.request("tools/call", {})


async def test_calls_run_concurrently():
    running, all_run = [], asyncio.Event()

    async def slow() -> str:
        running.append(1)
        if len(running) == 4:
            all_run.set()
        await all_run.wait()
        return "done"

    servers = {}
    for name in "ab":
        servers[name] = mcpwire.Server(name)
        servers[name].add_tool(slow, name="slow")
    async with through(servers) as client:
        calls = [client.call_tool(n) for n in ("a_slow", "b_slow") * 2]
        assert [r.text for r in await asyncio.gather(*calls)] == ["done"] * 4


@pytest.mark.unchecked_wire("arguments that are none are sent on purpose")
async def test_transformed_tool_call_reaches_the_server_in_its_original_form():
    seen = []

    async def search(query: str, limit: int = 10, key: str = "") -> str:
        seen.append((query, limit, key))
        return query

    server = mcpwire.Server("s")
    server.add_tool(search)
    transform = ToolTransform(
        name="find", description="Find.", rename={"q": "query"}, fixed={"key": "k"}
    )
    transforms = {"s/search": transform}
    async with through({"s": server}, transforms=transforms) as client:
        [tool] = await client.list_tools()
        assert (tool.name, tool.description) == ("s_find", "Find.")
        assert set(tool.input_schema["properties"]) == {"q", "limit"}
        assert (await client.call_tool("s_find", {"q": "x"})).text == "x"
        assert seen == [("x", 10, "k")]
        with pytest.raises(InvalidParams, match="no argument 'key'"):
            await client.call_tool("s_find", {"q": "x", "key": "mine"})
        with pytest.raises(InvalidParams, match="must be an object"):
            await client.request("tools/call", {"name": "s_find", "arguments": []})
        with pytest.raises(InvalidParams, match="unknown tool"):
            await client.call_tool("s_search")


async def test_stripped_arguments_are_not_sent():
    server = fake("x", "y")
    member = Member(server, strip_arguments="secret")
    transforms = {"a/y": ToolTransform(rename={"m": "n"})}
    async with through({"a": member}, transforms=transforms) as client:
        sent = await client.call_tool("a_x", {"secret": 1, "n": 2})
        assert sent.structured_content["arguments"] == {"n": 2}
        sent = await client.call_tool("a_y", {"secret": 1, "m": 2})
        assert sent.structured_content["arguments"] == {"n": 2}
        sent = await client.call_tool("a_x")
        assert "arguments" not in sent.structured_content


def test_transform_of_a_wrong_type_is_refused():
    with pytest.raises(TypeError, match=r"transforms\['a'\] must be a ToolTransform"):
        mcpwire.gateway.Gateway({}, transforms={"a": {}})


def with_prompt(name):
    server = mcpwire.Server(name)

    async def hello(who: str) -> str:
        return f"{name}: hello {who}"

    server.add_prompt(hello)
    server.completion("hello", "who")(lambda typed: [f"{typed}-{name}"])
    server.resource("t:{x}")(_read)
    server.completion("t:{x}", "x")(lambda typed: [f"t:{typed}-{name}"])
    return server


async def _read(x: str) -> str:
    return x


@both_eras
@pytest.mark.system("L-O1")
async def test_get_prompt_reaches_the_server_of_the_prompt(era):
    servers = {"a": with_prompt("a"), "b": with_prompt("b")}
    async with through(servers, era) as client:
        result = await client.get_prompt("b_hello", {"who": "you"})
        assert result.messages[0].content.text == "b: hello you"
        with pytest.raises(InvalidParams, match="unknown prompt"):
            await client.get_prompt("hello")


@both_eras
@pytest.mark.system("L-O1")
async def test_completion_reaches_the_server_of_the_prompt_or_template(era):
    servers = {"a": with_prompt("a"), "b": with_prompt("b")}
    async with through(servers, era) as client:
        prompt, template = (
            PromptReference("b_hello"),
            ResourceTemplateReference("t:{x}"),
        )
        found = await client.complete(prompt, "who", "x")
        assert found.completion.values == ["x-b"]
        found = await client.complete(template, "x", "y")
        assert found.completion.values == ["t:y-a"]
        with pytest.raises(InvalidParams, match="unknown prompt"):
            await client.complete(PromptReference("hello"), "who", "x")


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        (None, "params.ref must be an object"),
        ({"type": "ref/tool", "name": "x"}, "params.ref.type"),
        ({"type": "ref/prompt"}, "params.name must be"),
        ({"type": "ref/resource", "uri": 5}, "params.uri must be"),
        ({"type": "ref/resource", "uri": "y:1"}, "unknown resource"),
    ],
)
@pytest.mark.unchecked_wire("what is refused is wrong")
async def test_invalid_or_unknown_completion_reference_is_refused(ref, problem):
    servers = {"a": with_prompt("a"), "b": with_prompt("b")}
    argument = {"name": "x", "value": ""}
    async with through(servers) as client:
        with pytest.raises(InvalidParams, match=problem):
            await client.request(
                "completion/complete", {"ref": ref, "argument": argument}
            )


async def test_server_without_completions_gets_no_completion_request():
    server = fake(
        capabilities={"prompts": {}},
        methods={"prompts/list": lambda p, s: {"prompts": [{"name": "p"}]}},
    )
    async with through({"a": server, "b": with_prompt("b")}) as client:
        found = await client.complete(PromptReference("a_p"), "x", "")
        assert found.completion.values == []
    assert "completion/complete" not in [m["method"] for m in server.received]


async def test_2024_11_05_server_completes_without_declaring_completions():
    server = fake(
        version="2024-11-05",
        capabilities={"prompts": {}},
        methods={
            "prompts/list": lambda p, s: {"prompts": [{"name": "p"}]},
            "completion/complete": lambda p, s: {"completion": {"values": ["v"]}},
        },
    )
    async with through({"a": server}) as client:
        params = {
            "ref": {"type": "ref/prompt", "name": "a_p"},
            "argument": {"name": "x", "value": ""},
        }
        found = await client.request("completion/complete", params)
        assert found["completion"]["values"] == ["v"]
    assert server.received[-1]["params"]["ref"] == {"type": "ref/prompt", "name": "p"}


def with_resources(name, *uris):
    server = mcpwire.Server(name)
    for uri in uris:
        server.add_resource(uri, f"{name} has {uri}")
    return server


@both_eras
@pytest.mark.system("O41", "L-O9")
async def test_resource_is_read_from_the_server_that_lists_it(era):
    servers = {"a": with_resources("a", "x:1", "x:2"), "b": with_resources("b", "x:1")}
    async with through(servers, era) as client:
        assert await client.read_text("x:1") == "a has x:1"
        assert await client.read_text("x:2") == "a has x:2"
        alias = "mcpgw://b/x%3A1"
        [content] = (await client.read_resource(alias)).contents
        assert (content.uri, content.text) == (alias, "b has x:1")


@both_eras
@pytest.mark.system("O43")
async def test_unknown_resource_raises_the_error_of_its_era(era):
    servers = {"a": with_resources("a", "x:1"), "b": with_resources("b", "x:2")}
    error = ResourceNotFound if era == "2025-11-25" else InvalidParams
    async with through(servers, era) as client:
        for uri in ("x:3", "mcpgw://c/x%3A1", "mcpgw://b/x%3A1"):
            with pytest.raises(error, match="unknown resource"):
                await client.read_text(uri)


async def test_unlisted_uri_goes_to_the_only_server_with_resources():
    server = mcpwire.Server("r")
    server.add_resource("x:1", "listed")

    @server.method("resources/read")
    async def read(params, request):
        return {"contents": [{"uri": params["uri"], "text": "found"}]}

    async with through({"a": named("a", "x"), "r": server}) as client:
        assert await client.read_text("any:thing") == "found"


async def test_uri_goes_to_the_servers_with_a_matching_template():
    def template(name, known):
        server = mcpwire.Server(name)

        @server.resource("t:{x}")
        async def read(x: str) -> str | None:
            return f"{name}: {x}" if x in known else None

        return server

    servers = {"a": template("a", "1"), "b": template("b", "12"), "c": named("c", "x")}
    async with through(servers) as client:
        assert await client.read_text("t:1") == "a: 1"
        assert await client.read_text("t:2") == "b: 2"
        with pytest.raises(InvalidParams):
            await client.read_text("t:3")


async def test_error_other_than_not_found_is_returned_without_trying_others():
    def templates(params, server):
        return {"resourceTemplates": [{"uriTemplate": "t:{x}", "name": "t"}]}

    methods = {
        "resources/list": lambda p, s: {"resources": []},
        "resources/templates/list": templates,
        "resources/read": lambda p, s: mcpwire.InternalError("broken"),
    }
    servers = {
        name: fake(methods=methods, capabilities={"resources": {}}) for name in "ab"
    }
    async with through(servers) as client:
        with pytest.raises(mcpwire.InternalError, match="broken"):
            await client.read_text("t:1")
    reads = [m for m in servers["b"].received if m["method"] == "resources/read"]
    assert reads == []


@pytest.mark.parametrize(
    ("template", "uri", "is_given"),
    [
        ("t:{x}", "t:1", True),
        ("t:{x}", "u:1", False),
        ("file:///{+path}", "file:///a/../b", True),
        ("t:{x}{y}", "t:12", True),
        ("t:{x}{y}", "u:12", False),
        ("{x}{y}", "any:12", True),
        ("broken:{x", "broken:{x", True),
        ("broken:{x", "broken:1", False),
        ("", "x:1", False),
    ],
)
def test_template_matches_every_uri_that_it_may_expand_to(template, uri, is_given):
    from mcpwire.gateway.merging import combine_pages, merge_uris

    page = {"t": [{"uriTemplate": template}]}
    lists = [combine_pages("a", [page], "t")]
    merged = merge_uris(lists, "uriTemplate", has_aliases=False)
    assert merged.servers_of(uri) == (["a"] if is_given else [])


@pytest.mark.system("L-O9")
async def test_resource_links_in_results_lead_back_to_their_server():
    def links(params, server):
        return {"content": [{"type": "resource_link", "uri": "x:1", "name": "n"}]}

    resources = {"resources": [{"uri": "x:1", "name": "n"}]}
    methods = {
        "tools/call": links,
        "resources/list": lambda p, s: resources,
        "resources/read": lambda p, s: {"contents": [{"uri": "x:1", "text": "b"}]},
    }
    capabilities = {"tools": {}, "resources": {}}
    servers = {
        name: fake("x", methods=methods, capabilities=capabilities) for name in "ab"
    }
    async with through(servers, resources_as_tools=True) as client:
        [link] = (await client.call_tool("a_x")).content
        assert link.uri == "x:1"
        [link] = (await client.call_tool("b_x")).content
        assert link.uri == "mcpgw://b/x%3A1"
        await client.read_resource(link.uri)
        assert servers["b"].received[-1]["params"]["uri"] == "x:1"
        await client.call_tool("b_mcp_read_resource", {"uri": link.uri})
    assert servers["b"].received[-1]["params"]["uri"] == "x:1"


@pytest.mark.unchecked_wire("arguments that are none are sent on purpose")
async def test_resources_and_prompts_can_be_offered_as_tools():
    server = with_prompt("a")
    server.add_resource("x:1", "one")
    server.add_resource("x:2", b"\x00", mime_type="image/png")
    options = {"resources_as_tools": True, "prompts_as_tools": True}
    async with through({"a": server, "b": named("b", "x")}, **options) as client:
        assert tool_names(await client.list_tools()) == [
            "a_mcp_get_prompt",
            "a_mcp_list_prompts",
            "a_mcp_list_resources",
            "a_mcp_read_resource",
            "b_x",
        ]
        listed = await client.call_tool("a_mcp_list_resources")
        assert [r["uri"] for r in listed.structured_content["resources"]] == [
            "x:1",
            "x:2",
        ]
        assert '"x:1"' in listed.text
        read = await client.call_tool("a_mcp_read_resource", {"uri": "x:1"})
        assert read.text == "one"
        [blob] = (await client.call_tool("a_mcp_read_resource", {"uri": "x:2"})).content
        assert blob.resource.blob == "AA=="
        listed = await client.call_tool("a_mcp_list_prompts")
        assert listed.structured_content["prompts"][0]["name"] == "hello"
        got = {"name": "hello", "arguments": {"who": "me"}}
        result = await client.call_tool("a_mcp_get_prompt", got)
        assert result.text == "a: hello me"
        for arguments in ({}, {"uri": 5}, []):
            params = {"name": "a_mcp_read_resource", "arguments": arguments}
            with pytest.raises(InvalidParams, match=r"params\.arguments"):
                await client.request("tools/call", params)


@both_eras
async def test_read_resource_tool_passes_answers_but_no_other_arguments(era):
    server = mcpwire.Server("a", "1", revisions=["2026-07-28"])
    form = {"type": "object", "properties": {"name": {"type": "string"}}}

    @server.resource("x:1")
    async def memo(ctx: Context) -> str:
        return (await ctx.elicit("who?", form, key="who")).content["name"]

    answered = []

    def answer(params):
        answered.append(params)
        return {"name": "ann"}

    async with through(
        {"a": server}, era, client={"elicitation": answer}, resources_as_tools=True
    ) as client:
        arguments = {
            "uri": "x:1",
            "requestState": "forged",
            "inputResponses": {"who": {"action": "accept", "content": {"name": "eve"}}},
        }
        result = await client.call_tool("a_mcp_read_resource", arguments)
        assert result.text == "ann"
        assert len(answered) == 1


async def test_resource_and_prompt_tools_appear_only_if_enabled_and_declared():
    async with through({"a": with_resources("a", "x:1")}) as client:
        assert client.capabilities.tools is None
        assert (await client.request("tools/list"))["tools"] == []
    only_prompts = {"a": with_resources("a", "x:1"), "b": named("b", "x")}
    async with through(only_prompts, prompts_as_tools=True) as client:
        assert tool_names(await client.list_tools()) == ["b_x"]
    async with through(
        {"a": with_resources("a", "x:1")}, resources_as_tools=True
    ) as client:
        assert client.capabilities.tools is not None
        assert len(await client.list_tools()) == 2


async def test_list_resources_tool_of_a_failing_server_returns_an_empty_list():
    server = fake(
        capabilities={"resources": {}},
        methods={"resources/list": lambda p, s: mcpwire.InternalError("no")},
    )
    async with through({"a": server}, resources_as_tools=True) as client:
        assert (await client.request("tools/list"))["cacheScope"] == "private"
        listed = await client.call_tool("a_mcp_list_resources")
        assert listed.structured_content == {"resources": []}


@both_eras
@pytest.mark.system("O47")
async def test_local_server_keeps_its_names_beside_the_others(era):
    own = named("own", "status", "a_x")

    async def fails() -> str:
        raise mcpwire.ToolError("not today")

    own.add_tool(fails)
    own.add_resource("own:1", "mine")
    async with through({"a": named("a", "x")}, era, local=own) as client:
        names = tool_names(await client.list_tools())
        assert {"status", "a_x", "fails"} < set(names)
        assert len(names) == 4
        assert (await client.call_tool("status")).text == "own.status()"
        assert (await client.call_tool("a_x")).text == "own.a_x()"
        [other] = set(names) - {"status", "a_x", "fails"}
        assert (await client.call_tool(other)).text == "a.x()"
        failed = await client.call_tool("fails")
        assert (failed.is_error, failed.text) == (True, "not today")
        assert await client.read_text("own:1") == "mine"


async def test_gateway_middleware_wraps_requests_like_server_middleware():
    gateway = mcpwire.gateway.Gateway({"a": named("a", "x")})
    seen = []

    @gateway.middleware
    async def every(params, request, call_next):
        seen.append(request.method)
        return await call_next(params, request)

    async with mcpwire.Client(gateway) as client:

        @gateway.middleware("tools/call")
        async def calls(params, request, call_next):
            result = await call_next({**params, "arguments": {"text": "!"}}, request)
            return {**result, "_meta": {"x/y": 1}}

        result = await client.call_tool("a_x")
    assert result.text == "a.x(!)"
    assert result.meta["x/y"] == 1
    assert seen == ["server/discover", "tools/call"]


async def test_unknown_method_is_method_not_found():
    async with through({"a": named("a", "x")}) as client:
        with pytest.raises(MethodNotFound):
            await client.request("tools/explode")
