"""Concurrent sessions with the same request ids stay separate."""

import pytest
from attacked_server import build
from client_paths import OverHttp, events, opened
from raw_client import request, session

import mcpwire

ELICITATION = {"elicitation": {"form": {}}}


def build_asking_server():
    """Return a server whose tool asks its client for a secret and returns it."""
    server = build()

    @server.tool
    async def secret(ctx: mcpwire.Context) -> str:
        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        answer = await ctx.elicit("the word?", schema)
        return str(answer.content)

    return server


async def first_event(visit):
    await visit.until(lambda each: len(each.sent) > 1 and events(each))
    return events(visit)[0]


@pytest.mark.attack("S10", "S31")
async def test_session_cannot_answer_another_sessions_request():
    server = build_asking_server()
    one = await OverHttp(server, "2025-11-25", capabilities=ELICITATION).open()
    other = await OverHttp(
        server, "2025-11-25", capabilities=ELICITATION, app=one.app
    ).open()
    call = request(1, "tools/call", {"name": "secret", "arguments": {}})

    def answer(id, word):
        content = {"action": "accept", "content": {"word": word}}
        return {"jsonrpc": "2.0", "id": id, "result": content}

    # Early responses, for each id that may be used: nothing was requested yet.
    for id in (0, 1, 2, "0", "1"):
        await one.say(answer(id, "early"))
    calls = {one: one.begin("POST", call), other: other.begin("POST", call)}
    questions = {way: await first_event(visit) for way, visit in calls.items()}
    # The other session's id, and the same id with another type.
    for way, thief in ((one, other), (other, one)):
        id = questions[way]["id"]
        if id != questions[thief]["id"]:
            await thief.say(answer(id, "stolen"))
        await way.say(answer(str(id) if type(id) is int else int(id, 36), "twin"))
    # A client without a session has no request to answer.
    alone = await OverHttp(server, None, app=one.app).open()
    await alone.say(answer(questions[one]["id"], "alone"))
    for way, word in ((one, "mine"), (other, "yours")):
        await way.say(answer(questions[way]["id"], word))
        await way.say(answer(questions[way]["id"], "late"))
    for way, word in ((one, "mine"), (other, "yours")):
        await calls[way].task
        text = events(calls[way])[-1]["result"]["content"][0]["text"]
        assert text == str({"word": word})
    await one.aclose()


@pytest.mark.attack("S31")
@pytest.mark.case("C01")
async def test_second_initialize_over_http_is_refused():
    server = build()

    @server.tool
    async def who(ctx: mcpwire.Context) -> str:
        named = ctx.client_info["name"]
        return f"{named} {ctx.protocol_version} {ctx.can('sampling')}"

    way = await opened("HTTP, session", server)
    again = {
        "protocolVersion": "2024-11-05",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "impostor", "version": "1"},
    }
    for params in (again, session(), {}):
        [answer] = await way.say(request(2, "initialize", params))
        assert answer["error"]["code"] == -32600
    call = {"name": "who", "arguments": {}}
    [answer] = await way.say(request(3, "tools/call", call))
    assert answer["result"]["content"][0]["text"] == "hand 2025-11-25 False"
    await way.aclose()
