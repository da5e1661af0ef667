"""Each revision in front of each: all that one side can do reaches the other."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from bridged import REVISIONS, Downstream, Upstream, bridged, wait

import mcpwire

FORMS_SINCE = "2025-06-18"
VISITS_SINCE = "2025-11-25"
MESSAGES_SINCE = "2025-03-26"

SELDOM = pytest.mark.grounds(0, "down", "up")
"""Of two different older revisions: what one lacks is seen before or behind a newer."""

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
async def test_calls_and_questions_cross(down, up):
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
        assert client_side.asked.pop().max_tokens == 7
        assert (await client.call_tool("up_roots")).text == "file:///home"
        if older >= FORMS_SINCE:
            assert (await client.call_tool("up_form")).text == "accept who"
            assert (await client.call_tool("up_twice")).text == "first second"
        else:
            await no_one_is_asked(client, "up_form")
        if older >= VISITS_SINCE:
            assert (await client.call_tool("up_visit")).text == "accept"
            assert client_side.asked.pop().url == "https://example.com/a"
        else:
            await no_one_is_asked(client, "up_visit")


async def no_one_is_asked(client, tool):
    with contextlib.suppress(mcpwire.MissingCapability):
        result = await client.call_tool(tool)
        assert result.is_error
        assert "declares" in result.text


@pytest.mark.system("L-O1")
@pytest.mark.parametrize(("down", "up"), CELLS)
async def test_what_is_told_meanwhile_crosses(down, up):
    behind, client_side = Upstream(up), Downstream()
    server = behind.server
    async with bridged(server, down, **client_side.options()) as client:
        # Progress, of several calls at once.
        heard = {}

        async def steps(number):
            def listen(*step):
                heard.setdefault(number, []).append(step)

            await client.call_tool("up_steps", on_progress=listen)

        await asyncio.gather(*map(steps, range(3)))
        said = min(down, up) >= MESSAGES_SINCE
        expected = [(step, 3, f"step {step}" if said else None) for step in (1, 2.5, 3)]
        assert heard == dict.fromkeys(range(3), expected)

        # The log, from a level on.
        await client.set_log_level("warning")
        await client.call_tool("up_talk")
        await client_side.hears(1)
        (log,) = client_side.told
        assert (log.params.level, log.params.data) == ("warning", {"loud": True})


@pytest.mark.system("L-O1", "L-O4", "O70")
@pytest.mark.parametrize(("down", "up"), CELLS)
async def test_ends_and_changes_cross(down, up):
    behind, client_side = Upstream(up), Downstream()
    server = behind.server
    async with bridged(server, down, **client_side.options()) as client:
        # Cancelling ends the server's handler.
        call = asyncio.create_task(client.call_tool("up_slow"))
        await wait(behind.began)
        call.cancel()
        await wait(behind.cancelled)

        # Lists and resources that change.
        await client.subscribe("memo://1")
        server.notify_resource_updated("memo://1")
        await client_side.hears(1)
        assert client_side.told.pop().params.uri == "memo://1"

        server.add_tool(lambda: "new", name="late")
        await client_side.hears(1)
        (changed,) = client_side.told
        assert changed.method == "notifications/tools/list_changed"
        assert "up_late" in [tool.name for tool in await client.list_tools()]

        # What was typed so far.
        ref = {"type": "ref/prompt", "name": "up_greet"}
        asked = {"ref": ref, "argument": {"name": "name", "value": "an"}}
        found = await client.request("completion/complete", asked)
        assert found["completion"]["values"] == ["ann", "anton"]
