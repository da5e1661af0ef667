"""The reference servers on the TypeScript SDK: session revisions only."""

import json

import pytest

import mcpwire
from mcpwire.types import PromptReference

pytestmark = pytest.mark.servers

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("mode", ["auto", "session"])
async def test_the_everything_server_lists_its_features(real, connect, mode):
    async with connect(real("everything"), mode=mode) as client:
        assert client.protocol_version == "2025-11-25"
        assert client.server_info.name == "mcp-servers/everything"
        assert client.instructions.startswith("# Everything Server")
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools["echo"].input_schema["required"] == ["message"]
        assert {"get-sum", "get-tiny-image", "get-structured-content"} <= tools.keys()
        uris = [resource.uri for resource in await client.list_resources()]
        assert "demo://resource/static/document/features.md" in uris
        templates = await client.list_resource_templates()
        assert "demo://resource/dynamic/text/{resourceId}" in [
            template.uri_template for template in templates
        ]
        prompts = {prompt.name: prompt for prompt in await client.list_prompts()}
        assert [a.name for a in prompts["args-prompt"].arguments] == ["city", "state"]
        assert 0 < await client.ping() < 10


async def test_the_everything_server_answers_calls(real, connect):
    async with connect(real("everything")) as client:
        echo = await client.call_tool("echo", {"message": "h\u00e9 \u2028 \U0001f642"})
        assert echo.text == "Echo: h\u00e9 \u2028 \U0001f642"
        assert not echo.is_error
        total = await client.call_tool("get-sum", {"a": 2, "b": 3})
        assert total.text == "The sum of 2 and 3 is 5."
        weather = await client.call_tool(
            "get-structured-content", {"location": "New York"}
        )
        assert json.loads(weather.text) == weather.structured_content
        assert {"temperature", "conditions", "humidity"} <= set(
            weather.structured_content
        )
        image = await client.call_tool("get-tiny-image", {})
        pictures = [block for block in image.content if block.type == "image"]
        assert [picture.mime_type for picture in pictures] == ["image/png"]
        assert pictures[0].bytes.startswith(b"\x89PNG")


async def test_the_everything_server_reads_prompts_and_completes(real, connect):
    async with connect(real("everything")) as client:
        text = await client.read_text("demo://resource/dynamic/text/1")
        assert "Resource 1" in text
        document = await client.read_resource(
            "demo://resource/static/document/features.md"
        )
        assert document.contents[0].mime_type == "text/markdown"
        blob = await client.read_bytes("demo://resource/dynamic/blob/1")
        assert b"Resource 1" in blob
        prompt = await client.get_prompt("args-prompt", {"city": "Oslo"})
        assert prompt.messages[0].role == "user"
        assert prompt.messages[0].content.text == "What's weather in Oslo?"
        reference = PromptReference("completable-prompt")
        result = await client.complete(reference, "department", "E")
        assert result.completion.values == ["Engineering"]


async def test_the_everything_server_fails_in_both_ways(real, connect):
    async with connect(real("everything")) as client:
        unknown = await client.call_tool("nope", {})
        assert unknown.is_error
        assert "nope" in unknown.text
        with pytest.raises(mcpwire.ToolError) as failed:
            await client.call_tool("echo", {"message": 7}, check=True)
        assert "message" in str(failed.value)
        with pytest.raises(mcpwire.RPCError) as refused:
            await client.get_prompt("nope")
        assert refused.value.code == -32602
        with pytest.raises(mcpwire.MethodNotFound):
            await client.request("tools/nope", {})
        assert (await client.call_tool("echo", {"message": "still"})).text


@pytest.mark.parametrize("revision", SESSIONS)
async def test_the_everything_server_speaks_each_session_revision(
    real, connect, revision
):
    async with connect(real("everything"), mode=revision) as client:
        assert client.protocol_version == revision
        assert len(await client.list_tools()) > 5
        result = await client.call_tool("echo", {"message": revision})
        assert result.text == f"Echo: {revision}"


async def test_the_everything_server_refuses_the_stateless_era(real, connect):
    with pytest.raises(mcpwire.NegotiationError) as failed:
        async with connect(real("everything"), mode="stateless"):
            raise AssertionError
    assert "server/discover" in str(failed.value)
    assert "-32601" in str(failed.value)
    assert failed.value.negotiation.revision is None


@pytest.mark.pain("P14")
async def test_the_filesystem_server_works_on_real_files(real, connect, tmp_path):
    poem = tmp_path / "poem.txt"
    async with connect(real("filesystem")) as client:
        assert client.server_info.name == "secure-filesystem-server"
        assert "write_file" in [tool.name for tool in await client.list_tools()]
        lines = "one\ntwo\u2028half\nthree\n"
        arguments = {"path": str(poem), "content": lines}
        written = await client.call_tool("write_file", arguments)
        assert not written.is_error
        assert poem.read_bytes() == lines.encode()
        head = await client.call_tool("read_text_file", {"path": str(poem), "head": 2})
        assert head.structured_content == {"content": "one\ntwo\u2028half"}
        listed = await client.call_tool("list_directory", {"path": str(tmp_path)})
        assert "[FILE] poem.txt" in listed.text
        outside = await client.call_tool("read_text_file", {"path": "/etc/hosts"})
        assert outside.is_error
        assert "Access denied" in outside.text
        with pytest.raises(mcpwire.MethodNotFound):
            await client.request("resources/list", {})


@pytest.mark.pain("P13")
async def test_the_filesystem_server_accepts_megabytes_in_one_line(
    real, connect, tmp_path
):
    big = "\u00e4" * 1_500_000
    poem = tmp_path / "big.txt"
    async with connect(real("filesystem")) as client:
        await client.call_tool(
            "write_file", {"path": str(poem), "content": big}, check=True
        )
        result = await client.call_tool("read_text_file", {"path": str(poem)})
    assert result.text == big
    assert poem.stat().st_size == 3_000_000


async def test_the_memory_server_keeps_data_across_a_reconnect(real, connect):
    server = real("memory")
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote notes"]}
    async with connect(server) as client:
        made = await client.call_tool("create_entities", {"entities": [entity]})
        assert made.structured_content == {"entities": [entity]}
    async with connect(server) as client:
        graph = await client.call_tool("read_graph")
        assert graph.structured_content == {"entities": [entity], "relations": []}
        assert await client.list_resource_templates() == []
        text = await client.read_text("memory://knowledge-graph")
        assert json.loads(text)["entities"] == [entity]
