"""URL elicitation: requests, the required error and completion notifications."""

import pytest
from input_session import NoSession, Session, answer_all

from mcpwire.errors import ToolError, UrlElicitationRequired
from mcpwire.versions import REVISIONS

JUN_2025 = REVISIONS[2]


@pytest.mark.rule("ELIC-22")
async def test_elicitation_complete_notifies_the_client():
    sent = []
    peer = Session(answer_all)
    peer.info.send = lambda method, params: sent.append((method, params))
    ids = []

    async def handler(ctx):
        ids.append((await ctx.elicit_url("Pay", "https://example.com")).elicitation_id)
        ctx.elicitation_complete(ids[0])
        ctx.elicitation_complete(None)

    await peer.call(handler)
    assert peer.requests[0][1]["elicitationId"] == ids[0]
    assert sent == [("notifications/elicitation/complete", {"elicitationId": ids[0]})]


async def test_session_without_elicitation_ids_is_not_notified():
    peer = Session(answer_all, revision=JUN_2025)
    peer.info.send = lambda *message: pytest.fail("a notification was sent")
    peer.context().elicitation_complete("made-up")


async def test_stateless_elicitation_has_no_id_or_notification():
    async def handler(ctx):
        answer = await ctx.elicit_url("Pay", "https://example.com")
        ctx.elicitation_complete("made-up")
        return answer.elicitation_id

    peer = NoSession(answer_all)
    assert await peer.call(handler) is None
    assert peer.notifications.all == []


@pytest.mark.rule("ELIC-24")
@pytest.mark.parametrize("from_thread", [False, True])
async def test_require_url_raises_an_error_with_the_url(from_thread):
    async def handler(ctx):
        await ctx.require_url("Connect", "https://example.com/connect")

    def in_thread(ctx):
        ctx.sync.require_url("Connect", "https://example.com/connect")

    peer = Session(answer_all)
    with pytest.raises(UrlElicitationRequired) as caught:
        await peer.call(in_thread if from_thread else handler)
    [elicitation] = caught.value.data["elicitations"]
    assert elicitation.pop("elicitationId")
    assert elicitation == {
        "mode": "url",
        "message": "Connect",
        "url": "https://example.com/connect",
    }
    assert peer.requests == []


@pytest.mark.rule("ELIC-24")
async def test_require_url_elicits_where_the_error_is_undefined():
    async def handler(ctx):
        return (await ctx.require_url("Connect", "https://example.com")).accepted

    assert await NoSession(answer_all).call(handler) is True
    undeclared = Session(answer_all, capabilities={"elicitation": {}})
    with pytest.raises(ToolError, match=r"'elicitation\.url'"):
        await undeclared.call(handler)
