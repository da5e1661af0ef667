"""Requests of a FastMCP 4 server: requests in a session, input rounds if stateless."""

import pytest
from notification_log import MESSAGE, Recorder

import mcpwire
from mcpwire.types import CreateMessageResult, TextContent

pytestmark = pytest.mark.servers


def sample(request):
    text = request.messages[0].content.text
    return CreateMessageResult("assistant", TextContent(f"<{text}>"), "our-model")


async def test_a_session_server_sends_requests(warm, connect):
    answers = iter([{"name": "Ada", "size": "small"}, "decline"])
    options = {
        "mode": "session",
        "sampling": sample,
        "elicitation": lambda _: next(answers),
    }
    async with connect(warm("fastmcp_interactive"), **options) as client:
        haiku = await client.call_tool("haiku", {"topic": "ponds"}, check=True)
        order = await client.call_tool("order", check=True)
        none = await client.call_tool("order", check=True)
        with pytest.raises(mcpwire.InvalidParams, match="2026-07-28"):
            await client.call_tool("everything", {"topic": "x"})
    assert haiku.text == "our-model: <A haiku on ponds>"
    assert (order.text, none.text) == ("3 small for Ada", "decline")


async def test_a_stateless_result_requires_several_inputs(warm, connect):
    options = {
        "mode": "stateless",
        "sampling": sample,
        "elicitation": lambda _: {"name": "Ada"},
        "roots": ["file:///srv/a"],
    }
    async with connect(warm("fastmcp_interactive"), **options) as client:
        result = await client.call_tool("everything", {"topic": "ponds"}, check=True)
        failed = await client.call_tool("order")
    assert result.text == "<A haiku on ponds>, Ada, 1"
    assert failed.is_error


async def test_logs_start_at_the_level_that_was_set(warm, connect, mode):
    recorder = Recorder()
    options = {"mode": mode, "on_notification": recorder}
    async with connect(warm("fastmcp_interactive"), **options) as client:
        await client.set_log_level("error")
        await client.call_tool("report", check=True)
        await recorder.until(lambda: recorder.of(MESSAGE))
        await client.ping()
        with pytest.raises(mcpwire.LocalProtocolError, match="did not declare"):
            await client.subscribe("note://none")
    (params,) = recorder.of(MESSAGE)
    assert (params.level, params.data["msg"]) == ("error", "in short")
