"""Results of real servers: validated by their output schemas, and cached."""

import pytest
from notification_log import TOOLS_CHANGED, Recorder

pytestmark = pytest.mark.servers

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}


@pytest.mark.parametrize(
    ("name", "tool", "arguments"),
    [
        ("everything", "get-structured-content", {"location": "Chicago"}),
        ("sdk", "add", {"a": 1, "b": 2}),
        ("sdk_interactive", "subscriptions", {}),
        ("fastmcp", "add", {"a": 1, "b": 2}),
        ("time", "convert_time", NOON),
    ],
)
async def test_structured_results_match_their_output_schemas(
    warm, connect, name, tool, arguments
):
    """The schemas name different dialects, or none; all of them can be used."""
    pytest.importorskip("jsonschema_rs")
    async with connect(warm(name)) as client:
        result = await client.call_tool(tool, arguments, validate="error", check=True)
    assert isinstance(result.structured_content, dict)


async def test_a_list_is_cached_until_it_changes(warm, connect):
    recorder = Recorder()
    options = {"mode": "stateless", "cache": True, "on_notification": recorder}
    async with connect(warm("sdk_interactive"), **options) as client:
        first = await client.list_tools()
        requests = client.stats.requests
        second = await client.list_tools()
        assert client.stats.requests == requests
        await client.call_tool("grow", {"name": "new"})
        await recorder.until(lambda: recorder.of(TOOLS_CHANGED))
        third = await client.list_tools()
    assert second == first
    assert [tool.name for tool in third] == [*(t.name for t in first), "new"]


async def test_lists_are_not_cached_in_a_session(warm, connect):
    """Servers up to 2025-11-25 send no cache hints."""
    options = {"mode": "session", "cache": True}
    async with connect(warm("sdk_interactive"), **options) as client:
        for expected in (False, True):
            names = [tool.name for tool in await client.list_tools()]
            assert ("new" in names) == expected
            await client.call_tool("grow", {"name": "new"})
