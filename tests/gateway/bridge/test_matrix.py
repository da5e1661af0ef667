"""Each client revision with each server revision: all features are relayed."""

import asyncio
import contextlib

import pytest
from bridged import REVISIONS, Downstream, Upstream, bridged, wait

import mcpwire

FORMS_SINCE = "2025-06-18"
VISITS_SINCE = "2025-11-25"
MESSAGES_SINCE = "2025-03-26"

SELDOM = pytest.mark.grounds(0, "down", "up")
"""For two different older revisions: newer pairs show what either of them lacks."""

CELLS = [
    pytest.param(
        down,
        up,
        id=f"{down} before {up}",
        marks=[SELDOM] if max(down, up) < VISITS_SINCE and down != up else [],
    )
    for down in REVISIONS
    for up in REVISIONS
]


@pytest.mark.system("O44", "L-O1", "L-O2", "A50", "A51", "A52", "A54")
@pytest.mark.parametrize(("down", "up"), CELLS)
async def test_calls_and_server_requests_are_relayed(down, up):
    older = min(down, up)
    client_side = Downstream()
    async with bridged(Upstream(up).server, down, **client_side.options()) as client:
        assert (await client.call_tool("up_echo", {"text": "hi"})).text == "hi"
        failed = await client.call_tool("up_fail")
        assert (failed.text, failed.is_error) == ("no luck", True)
        with pytest.raises(mcpwire.RPCError) as refused:
            await client.get_prompt("up_greet")
        assert refused.value.code == -32602

        assert (await client.call_tool("up_model")).text == "from the model"
        assert client_side.requests.pop().max_tokens == 7
        assert (await client.call_tool("up_roots")).text == "file:///home"
        if older >= FORMS_SINCE:
            assert (await client.call_tool("up_form")).text == "accept who"
            assert (await client.call_tool("up_twice")).text == "first second"
        else:
            await expect_missing_capability(client, "up_form")
        if older >= VISITS_SINCE:
            assert (await client.call_tool("up_visit")).text == "accept"
            assert client_side.requests.pop().url == "https://example.com/a"
        else:
            await expect_missing_capability(client, "up_visit")


async def expect_missing_capability(client, tool):
    with contextlib.suppress(mcpwire.MissingCapability):
        result = await client.call_tool(tool)
        assert result.is_error
        assert "declares" in result.text


@pytest.mark.system("L-O1")
@pytest.mark.parametrize(("down", "up"), CELLS)
async def test_progress_and_log_messages_are_relayed(down, up):
    upstream, client_side = Upstream(up), Downstream()
    server = upstream.server
    async with bridged(server, down, **client_side.options()) as client:
        # Progress of concurrent calls.
        received = {}

        async def steps(number):
            def listen(*step):
                received.setdefault(number, []).append(step)

            await client.call_tool("up_steps", on_progress=listen)

        await asyncio.gather(*map(steps, range(3)))
        has_message = min(down, up) >= MESSAGES_SINCE
        expected = [
            (step, 3, f"step {step}" if has_message else None) for step in (1, 2.5, 3)
        ]
        assert received == dict.fromkeys(range(3), expected)

        # Log messages from a level on.
        await client.set_log_level("warning")
        await client.call_tool("up_talk")
        await client_side.wait_for(1)
        (log,) = client_side.notifications
        assert (log.params.level, log.params.data) == ("warning", {"loud": True})


@pytest.mark.system("L-O1", "L-O4", "O70")
@pytest.mark.parametrize(("down", "up"), CELLS)
async def test_cancellation_changes_and_completion_are_relayed(down, up):
    upstream, client_side = Upstream(up), Downstream()
    server = upstream.server
    async with bridged(server, down, **client_side.options()) as client:
        # Cancelling ends the server's handler.
        call = asyncio.create_task(client.call_tool("up_slow"))
        await wait(upstream.began)
        call.cancel()
        await wait(upstream.cancelled)

        # List changes and resource updates.
        await client.subscribe("memo://1")
        server.notify_resource_updated("memo://1")
        await client_side.wait_for(1)
        assert client_side.notifications.pop().params.uri == "memo://1"

        server.add_tool(lambda: "new", name="late")
        await client_side.wait_for(1)
        (changed,) = client_side.notifications
        assert changed.method == "notifications/tools/list_changed"
        assert "up_late" in [tool.name for tool in await client.list_tools()]

        # Completion.
        ref = {"type": "ref/prompt", "name": "up_greet"}
        params = {"ref": ref, "argument": {"name": "name", "value": "an"}}
        found = await client.request("completion/complete", params)
        assert found["completion"]["values"] == ["ann", "anton"]
