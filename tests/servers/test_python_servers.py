"""The reference servers on the official Python SDK: both eras."""

import pytest

import mcpwire

pytestmark = pytest.mark.servers

MODES = {"auto": "2026-07-28", "2026-07-28": "2026-07-28", "session": "2025-11-25"}
NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}


@pytest.mark.parametrize("mode", MODES)
async def test_the_time_server_converts_in_both_eras(warm, connect, mode):
    async with connect(warm("time"), mode=mode) as client:
        assert client.protocol_version == MODES[mode]
        assert client.server_info.name == "mcp-time"
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools.keys() == {"get_current_time", "convert_time"}
        assert tools["convert_time"].annotations.read_only_hint is True
        result = await client.call_tool("convert_time", NOON, check=True)
        data = result.structured_content
        assert data["time_difference"] == "+9.0h"
        assert data["target"]["datetime"].endswith("T21:00:00+09:00")
        assert 0 < await client.ping() < 10
        assert await client.list_resources() == []
        assert await client.list_prompts() == []


@pytest.mark.parametrize("mode", ["stateless", "session"])
async def test_the_time_server_fails_in_both_ways_in_both_eras(warm, connect, mode):
    async with connect(warm("time"), mode=mode) as client:
        wrong = await client.call_tool(
            "convert_time", {**NOON, "source_timezone": "Nowhere/At"}
        )
        assert wrong.is_error
        assert "Invalid timezone" in wrong.text
        with pytest.raises(mcpwire.InvalidParams) as refused:
            await client.call_tool("nope", {})
        assert refused.value.code == -32602
        assert refused.value.method == "tools/call"
        assert "Unknown tool: nope" in str(refused.value)
        assert not (await client.call_tool("convert_time", NOON)).is_error


@pytest.mark.parametrize("mode", MODES)
async def test_the_git_server_reads_a_real_repository(warm, connect, repository, mode):
    path = str(repository)
    async with connect(warm("git"), mode=mode) as client:
        assert client.protocol_version == MODES[mode]
        assert client.server_info.name == "mcp-git"
        names = [tool.name for tool in await client.list_tools()]
        assert {"git_status", "git_log", "git_diff_unstaged"} <= set(names)
        log = await client.call_tool("git_log", {"repo_path": path})
        assert "The first line" in log.text
        assert "Ada" in log.text
        (repository / "poem.txt").write_text("another line\n", encoding="utf-8")
        diff = await client.call_tool("git_diff_unstaged", {"repo_path": path})
        assert "-a line\n+another line" in diff.text
        nowhere = await client.call_tool("git_status", {"repo_path": "/nonexistent"})
        assert nowhere.is_error
