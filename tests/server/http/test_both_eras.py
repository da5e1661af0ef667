"""Both eras at one URL: what goes to sessions, and what stands alone beside them."""

import asyncio
import json
import re

import by_hand
import pytest
from hosted import (
    app,
    ask,
    call,
    echo,
    opened,
    opening,
    post,
    posted,
    text,
    tools,
)

from mcpwire.versions import REVISIONS

ACCEPT = ("accept", "text/event-stream")
HOST = ("host", "127.0.0.1:8000")


@pytest.fixture
async def both():
    made = app(dispatcher=tools(echo, revisions=REVISIONS))
    yield made
    await made.aclose()


@pytest.mark.rule("LHTTP-01")
async def test_a_session_and_what_stands_alone_live_side_by_side(both):
    session = await opened(both)
    message = by_hand.request(2, "tools/call", {"name": "echo", "arguments": {"a": 1}})
    in_session = await post(both, message, **session)
    assert text(in_session.json()) == "{'a': 1}"
    assert "resultType" not in in_session.json()["result"]
    alone = await post(both, call(2), mcp_session_id=session["mcp_session_id"])
    assert alone.json()["result"]["resultType"] == "complete"


async def test_a_version_in_the_head_is_enough_to_stand_alone(both):
    message = by_hand.request(1, "tools/list")
    visit = await post(both, message)
    assert visit.status == 400
    assert visit.json()["error"]["code"] == -32602


async def test_without_a_session_there_is_nothing_to_belong_to(both):
    message = by_hand.request(1, "tools/list")
    visit = await post(both, message, mcp_protocol_version=None)
    assert visit.status == 400
    assert visit.json()["id"] == 1


async def test_a_batch_belongs_to_a_session(both):
    visit = await post(both, b"[]")
    assert visit.status == 400
    assert visit.json()["error"]["code"] == -32600


@pytest.mark.case("D12")
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
async def test_a_version_without_sessions_has_nothing_but_post(both, verb):
    head = [HOST, ACCEPT, ("mcp-protocol-version", "2026-07-28")]
    visit = await ask(both, verb, headers=head)
    assert visit.status == 405
    assert visit.headers["allow"] == "POST"


@pytest.mark.case("D14")
@pytest.mark.parametrize("verb", ["PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_other_verbs_are_told_which_there_are(both, verb):
    visit = await ask(both, verb)
    assert visit.status == 405
    assert visit.headers["allow"] == "POST, GET, DELETE"


async def test_get_and_delete_go_to_the_session(both):
    session = await opened(both)
    head = [HOST, ("mcp-session-id", session["mcp_session_id"])]
    not_a_stream = await ask(both, "GET", headers=[*head, ("accept", "text/html")])
    assert not_a_stream.status == 406
    assert (await ask(both, "DELETE", headers=head)).status == 204
    assert (await ask(both, "DELETE", headers=head)).status == 404
    assert (await ask(both, "GET", headers=[*head, ACCEPT])).status == 404


# The transport of 2024-11-05...


@pytest.fixture
async def oldest():
    made = app(dispatcher=tools(echo, revisions=REVISIONS), legacy_sse=True)
    yield made
    await made.aclose()


@pytest.mark.case("C11")
async def test_the_oldest_transport_is_there_when_it_is_asked_for(oldest):
    stream = posted(call())
    stream.scope.update(method="GET", path="/mcp/sse")
    stream.begin(oldest)
    await stream.until(lambda v: b"\n\n" in v.body)
    kind, _, place = stream.body.decode().strip().partition("\n")
    assert kind == "event: endpoint"
    name, _, query = place.removeprefix("data: ").partition("?")
    assert name == "messages"
    assert query.startswith("session_id=")
    said = posted(opening("2024-11-05"))
    said.scope.update(path="/mcp/messages", query_string=query.encode())
    await said.begin(oldest).done()
    assert said.status == 202
    await stream.until(lambda v: b"protocolVersion" in v.body)
    await stream.left()


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("POST", "/mcp/sse", 405),
        ("GET", "/mcp/messages", 405),
        ("POST", "/mcp/messages", 415),
    ],
)
async def test_each_of_its_places_has_one_verb(oldest, verb, path, status):
    assert (await ask(oldest, verb, path)).status == status


async def test_it_is_not_there_otherwise(both):
    assert (await ask(both, "GET", "/mcp/sse")).status == 404
    assert (await ask(both, "POST", "/mcp/messages")).status == 404


@pytest.mark.case("D17")
async def test_a_call_that_waits_for_its_client_is_not_left_alone_by_draining():
    answers = []

    async def asks(params, request):
        answers.append(await request.ask("roots/list", {}))
        return {"content": []}

    made = app(dispatcher=tools(asks, revisions=REVISIONS))
    session = await opened(made)
    message = by_hand.request(2, "tools/call", {"name": "asks", "arguments": {}})
    running = posted(message, **session).begin(made)
    await running.until(lambda visit: "roots/list" in str(visit.body))
    found = re.search(rb'"id":("[^"]*"|[0-9]+),"method":"roots/list"', running.body)
    question = json.loads(found[1])
    draining = asyncio.get_running_loop().create_task(made.drain(30))
    await asyncio.sleep(0)  # until it drains
    assert (await post(made, message, **session)).status == 503
    answer = {"jsonrpc": "2.0", "id": question, "result": {"roots": []}}
    assert (await post(made, answer, **session)).status == 202
    await asyncio.wait_for(draining, 30)
    assert answers == [{"roots": []}]
    assert (await running.done()).is_complete
