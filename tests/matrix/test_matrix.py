"""The same client over every transport to the server.

Each test runs over memory, stdio, Streamable HTTP with JSON and with event streams, and
HTTP+SSE, at each revision of that transport, with both engines and in both shells.
"""

import asyncio

import pytest
from requesting_server import model

import mcpwire
from mcpwire import types


@pytest.mark.system("L-R1")
@pytest.mark.rule("RPC-22", "RPC-23", "TR-STDIO-06")
async def test_client_negotiates_and_lists_the_server_features(client_of, combo):
    async with client_of() as client:
        blocking = getattr(client, "blocking", client)
        assert blocking.protocol_version == combo.revision
        assert blocking.server_info.name == "mcpwire-demo"
        assert {tool.name for tool in await client.list_tools()} >= {"echo", "add"}
        [resource] = await client.list_resources()
        assert await client.read_text(resource.uri) == "Hello from mcpwire."
        [template] = await client.list_resource_templates()
        assert template.uri_template == "demo://greeting/{name}"
        [prompt] = await client.list_prompts()
        prompt_result = await client.get_prompt(prompt.name, {"name": "Ada"})
        assert "greets Ada" in prompt_result.messages[0].content.text
        found = await client.complete(types.PromptReference("greet"), "name", "A")
        assert all(value.startswith("A") for value in found.completion.values)
        assert await client.ping() >= 0


@pytest.mark.system("L-R5")
async def test_calls_return_their_results(client_of, combo):
    long = "ä\u2028\U0001f600\n" * 10_000
    async with client_of() as client:
        result = await client.call_tool("echo", {"message": long})
        assert result.text == long
        result = await client.call_tool("add", {"a": 2, "b": 3})
        if combo.revision >= "2025-06-18":
            assert result.structured_content == {"sum": 5}
        assert result.text in {"5", '{"sum":5}'}
        with pytest.raises(mcpwire.InvalidParams, match="unknown tool"):
            await client.call_tool("nothing")
        expected = [str(number) for number in range(12)]
        calls = (client.call_tool("echo", {"message": each}) for each in expected)
        assert [result.text for result in await asyncio.gather(*calls)] == expected


async def test_progress_and_logs_arrive_while_a_call_runs(client_of, combo):
    progress, logged = [], []

    def on_notification(notification):
        if notification.method == "notifications/message":
            logged.append(notification.params.data)

    async with client_of(on_notification=on_notification) as client:
        await client.set_log_level("debug")
        await client.call_tool(
            "slow",
            {"steps": 3, "seconds": 0},
            on_progress=lambda *step: progress.append(step[0]),
        )
        assert progress == [1, 2, 3]
        while len(logged) < 3:
            await client.ping()
    assert logged == [f"step {step} is done" for step in (1, 2, 3)]


async def test_server_requests_are_answered_by_the_handlers(client_of, combo):
    options = {"sampling": model("An old silent pond")}
    if combo.revision >= "2025-06-18":
        options["elicitation"] = lambda _: {"drink": "tea", "cups": 2}
    async with client_of(**options) as client:
        result = await client.call_tool("haiku", {"topic": "ponds"})
        assert result.text == "An old silent pond"
        if combo.revision >= "2025-06-18":
            result = await client.call_tool("order")
            assert result.text == "2 x tea, without sugar"


async def test_timeout_or_cancellation_does_not_affect_later_calls(client_of, combo):
    async with client_of() as client:
        with pytest.raises(mcpwire.RequestTimeout):
            await client.call_tool("slow", {"seconds": 60}, timeout=0.05)
        call = await client.start_call("slow", {"seconds": 60})
        call.cancel("no longer needed")
        ended = call if combo.shell == "asyncio" else asyncio.to_thread(call.result, 30)
        with pytest.raises(mcpwire.CallCancelled, match="no longer needed"):
            await ended
        assert (await client.call_tool("echo", {"message": "on"})).text == "on"


async def test_client_can_close_twice_and_connect_again(client_of, combo):
    client = client_of()
    for _ in range(2):
        async with client:
            assert (await client.call_tool("echo", {"message": "x"})).text == "x"
        await client.aclose()
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.call_tool("echo", {"message": "x"})
