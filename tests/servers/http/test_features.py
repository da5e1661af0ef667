"""The features of session and stateless connections, with foreign servers."""

import anyio
import pytest
from notification_log import TIMEOUT_S, UPDATED, Recorder
from serving import LATER, NAMED, SAMPLED, SUBSCRIBING, name_of, write_until_updated

import mcpwire
from mcpwire.types import CreateMessageResult, TextContent

pytestmark = pytest.mark.servers

REVISIONS = {"session": "2025-11-25", "stateless": "2026-07-28"}


def sample(_):
    return CreateMessageResult("assistant", TextContent(SAMPLED), "our-model")


HANDLERS = {
    "sampling": sample,
    "elicitation": lambda _: {"name": NAMED},
    "roots": ["file:///srv/a"],
}


@pytest.mark.pain("P26")
@pytest.mark.parametrize("engine", ["direct", "httpx"])
async def test_the_era_is_detected_and_lists_and_calls_work(place, engine):
    options = {} if place.mode == LATER else {"mode": "session"}
    target = mcpwire.Http(place.url, engine=engine)
    async with mcpwire.Client(target, **options) as client:
        assert client.protocol_version == REVISIONS[place.mode]
        tool, arguments = place.kind.echo
        assert tool in [offered.name for offered in await client.list_tools()]
        result = await client.call_tool(tool, arguments, check=True)
        assert "hi" in result.text or "hi" not in arguments.values()
        answers = []

        async def call():
            answers.append(await client.call_tool(tool, arguments, check=True))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(call)
        assert [answer.text for answer in answers] == [result.text] * 20
        assert 0 < await client.ping() < TIMEOUT_S


async def test_progress_is_delivered_to_its_call(place):
    recorder = Recorder()
    tool, arguments, expected = place.kind.progress
    async with mcpwire.Client(mcpwire.Http(place.url), mode=place.mode) as client:
        await client.call_tool(tool, arguments, on_progress=recorder, check=True)
        await recorder.until(lambda: len(recorder.all) == len(expected))
    assert recorder.all == expected


@pytest.mark.rule("SAMP-01")
async def test_the_server_uses_the_sampling_handler(place):
    tool, arguments = place.kind.sample
    async with mcpwire.Client(
        mcpwire.Http(place.url), mode=place.mode, **HANDLERS
    ) as client:
        results = []

        async def call():
            results.append(await client.call_tool(tool, arguments, check=True))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(call)
    assert len(results) == 5
    for result in results:
        assert SAMPLED in result.text


@pytest.mark.rule("ELIC-01")
async def test_the_server_uses_the_elicitation_handler(place):
    tool, arguments = place.kind.elicit
    async with mcpwire.Client(
        mcpwire.Http(place.url), mode=place.mode, **HANDLERS
    ) as client:
        result = await client.call_tool(tool, arguments, check=True)
    assert NAMED in result.text


@pytest.mark.parametrize("place", SUBSCRIBING, ids=name_of, indirect=True)
async def test_updates_of_subscribed_resources_arrive(place):
    recorder = Recorder()
    options = {"mode": place.mode, "on_notification": recorder}
    async with mcpwire.Client(mcpwire.Http(place.url), **options) as client:
        await client.subscribe(place.kind.uri)
        await write_until_updated(client, place.kind, recorder)
        assert await client.read_text(place.kind.uri)
        await client.unsubscribe(place.kind.uri)
    assert {update.uri for update in recorder.of(UPDATED)} == {place.kind.uri}
