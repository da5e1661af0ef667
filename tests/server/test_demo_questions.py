"""The demo's tools that ask: offered to who can answer, in both eras alike."""

import pytest

from mcpwire import Client, RPCError
from mcpwire.protocol.client_features import Elicitation
from mcpwire.server.demo import demo_dispatcher
from mcpwire.types import CreateMessageResult, TextContent
from mcpwire.versions import REVISIONS

pytestmark = pytest.mark.anyio

NAMES = [revision.name for revision in REVISIONS]
PLAIN = {"echo", "add", "slow"}
OFFERED = {
    "2024-11-05": {"haiku"},
    "2025-03-26": {"haiku"},
    "2025-06-18": {"haiku", "order"},
    "2025-11-25": {"haiku", "order", "pay"},
    "2026-07-28": {"haiku", "order", "pay"},
}
ORDER = {"drink": "tea", "cups": 2}


def say(text):
    return lambda _: CreateMessageResult("assistant", TextContent(text), "m")


def connect(revision, *, form=lambda _: ORDER, url=lambda _: "accept", sample=None):
    return Client(
        demo_dispatcher(),
        mode=revision,
        elicitation=Elicitation(form=form, url=url),
        sampling=sample or say("old pond"),
    )


@pytest.mark.parametrize("revision", NAMES)
async def test_tools_that_ask_are_offered_to_who_can_answer(revision):
    async with connect(revision) as client:
        names = {tool.name for tool in await client.list_tools()}
    assert names == PLAIN | OFFERED[revision]
    async with Client(demo_dispatcher(), mode=revision) as client:
        assert {tool.name for tool in await client.list_tools()} == PLAIN
        with pytest.raises(RPCError, match="no tool 'haiku'"):
            await client.call_tool("haiku", {"topic": "x"})


@pytest.mark.parametrize("revision", NAMES[2:])
async def test_an_order_is_what_the_form_says(revision):
    asked = []

    def form(params):
        asked.append(params.message)
        return {"drink": "coffee", "cups": 2, "sugar": True, "note": "hot"}

    async with connect(revision, form=form) as client:
        result = await client.call_tool("order")
    assert (result.text, result.is_error) == ("2 x coffee, with sugar (hot)", False)
    assert asked == ["What may we bring you?"]


@pytest.mark.rule("ELIC-09")
@pytest.mark.parametrize("revision", NAMES[2:])
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_who_does_not_answer_gets_nothing(revision, action):
    async with connect(revision, form=lambda _: action, url=lambda _: action) as client:
        assert (await client.call_tool("order")).text == f"no order: {action}"
        if revision >= "2025-11-25":
            assert (await client.call_tool("pay")).text == f"no payment: {action}"


@pytest.mark.parametrize("revision", NAMES[3:])
async def test_paying_needs_consent(revision):
    async with connect(revision) as client:
        assert (await client.call_tool("pay")).text == "agreed to pay"


@pytest.mark.parametrize("revision", NAMES)
async def test_a_haiku_is_what_the_model_says(revision):
    asked = []

    def sample(params):
        asked.append(params.messages[0].blocks[0].text)
        return say("old pond")(params)

    async with connect(revision, sample=sample) as client:
        assert (await client.call_tool("haiku", {"topic": "frogs"})).text == "old pond"
    assert asked == ["Write a haiku about frogs."]


async def test_a_refusal_is_a_failure_that_says_so():
    def refuse(_):
        raise RPCError("not today", code=-1)

    async with connect("2025-11-25", sample=refuse) as client:
        result = await client.call_tool("haiku", {"topic": "frogs"})
    assert (result.is_error, result.text) == (
        True,
        "the client refused 'sampling/createMessage': not today",
    )


async def test_slow_logs_each_step_for_who_wants_to_hear_it():
    heard = []
    async with Client(demo_dispatcher(), on_notification=heard.append) as client:
        await client.call_tool("slow", {"steps": 1, "seconds": 0})
        assert heard == []
        await client.set_log_level("debug")
        await client.call_tool("slow", {"steps": 1, "seconds": 0})
    assert [n.params.data for n in heard] == ["step 1 is done"]
