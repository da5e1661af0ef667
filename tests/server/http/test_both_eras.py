"""Both eras at one URL: requests of sessions beside stateless requests."""

import asyncio
import json
import re

import pytest
import raw_client
from hosted import (
    app,
    asgi_request,
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
async def test_session_and_stateless_requests_work_side_by_side(both):
    session = await opened(both)
    message = raw_client.request(
        2, "tools/call", {"name": "echo", "arguments": {"a": 1}}
    )
    in_session = await post(both, message, **session)
    assert text(in_session.json()) == "{'a': 1}"
    assert "resultType" not in in_session.json()["result"]
    stateless = await post(both, call(2), mcp_session_id=session["mcp_session_id"])
    assert stateless.json()["result"]["resultType"] == "complete"


async def test_version_header_alone_makes_a_request_stateless(both):
    visit = await post(both, raw_client.request(1, "tools/list"))
    assert visit.status == 400
    assert visit.json()["error"]["code"] == -32602


async def test_request_without_version_or_session_is_refused(both):
    message = raw_client.request(1, "tools/list")
    visit = await post(both, message, mcp_protocol_version=None)
    assert visit.status == 400
    assert visit.json()["id"] == 1


async def test_access_log_gives_a_reason_from_status_400_only(both, caplog):
    caplog.set_level("INFO", "mcpwire.access")
    message = raw_client.request(1, "initialize", {"protocolVersion": 3})
    assert (await post(both, message, mcp_protocol_version=None)).status == 200
    [line] = caplog.messages
    assert line.endswith(" ms")


async def test_batch_without_a_session_is_refused(both):
    visit = await post(both, b"[]")
    assert visit.status == 400
    assert visit.json()["error"]["code"] == -32600


@pytest.mark.case("D12")
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
async def test_stateless_version_allows_only_post(both, verb):
    head = [HOST, ACCEPT, ("mcp-protocol-version", "2026-07-28")]
    visit = await asgi_request(both, verb, headers=head)
    assert visit.status == 405
    assert visit.headers["allow"] == "POST"


@pytest.mark.case("D14")
@pytest.mark.parametrize("verb", ["PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_other_verbs_get_405_with_the_allowed_verbs(both, verb):
    visit = await asgi_request(both, verb)
    assert visit.status == 405
    assert visit.headers["allow"] == "POST, GET, DELETE"


async def test_get_and_delete_are_handled_by_the_session(both):
    session = await opened(both)
    head = [HOST, ("mcp-session-id", session["mcp_session_id"])]
    not_a_stream = await asgi_request(
        both, "GET", headers=[*head, ("accept", "text/html")]
    )
    assert not_a_stream.status == 406
    assert (await asgi_request(both, "DELETE", headers=head)).status == 204
    assert (await asgi_request(both, "DELETE", headers=head)).status == 404
    assert (await asgi_request(both, "GET", headers=[*head, ACCEPT])).status == 404


# The transport of 2024-11-05...


@pytest.fixture
async def oldest():
    made = app(dispatcher=tools(echo, revisions=REVISIONS), legacy_sse=True)
    yield made
    await made.aclose()


async def legacy_stream(made):
    """Open a stream of 2024-11-05; return it, and a function that posts messages."""
    stream = posted(call())
    stream.scope.update(method="GET", path="/mcp/sse")
    stream.begin(made)
    await stream.until(lambda v: b"\n\n" in v.body)
    kind, _, endpoint = stream.body.decode().strip().partition("\n")
    assert kind == "event: endpoint"
    name, _, query = endpoint.removeprefix("data: ").partition("?")
    assert name == "messages"
    assert query.startswith("session_id=")

    async def send(message, query=query):
        visit = posted(message)
        visit.scope.update(path="/mcp/messages", query_string=query.encode())
        return (await visit.begin(made).done()).status

    assert await send(opening("2024-11-05")) == 202
    await stream.until(lambda v: b"protocolVersion" in v.body)
    return stream, send


@pytest.mark.rule("TR-HTTP-34")
@pytest.mark.case("C11")
async def test_legacy_sse_transport_is_served_when_enabled(oldest):
    stream, _ = await legacy_stream(oldest)
    await stream.disconnect()


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("POST", "/mcp/sse", 405),
        ("GET", "/mcp/messages", 405),
        ("POST", "/mcp/messages", 415),
    ],
)
async def test_each_legacy_sse_endpoint_accepts_one_verb(oldest, verb, path, status):
    assert (await asgi_request(oldest, verb, path)).status == status


async def test_legacy_sse_endpoints_are_absent_by_default(both):
    assert (await asgi_request(both, "GET", "/mcp/sse")).status == 404
    assert (await asgi_request(both, "POST", "/mcp/messages")).status == 404


@pytest.mark.case("D17")
@pytest.mark.parametrize("is_legacy", [False, True])
async def test_draining_accepts_the_response_that_a_call_waits_for(is_legacy, caplog):
    answers = []

    async def ask_roots(params, request):
        answers.append(await request.ask("roots/list", {}))
        return {"content": []}

    caplog.set_level("INFO", "mcpwire.access")
    made = app(dispatcher=tools(ask_roots, revisions=REVISIONS), legacy_sse=True)
    message = raw_client.request(2, "tools/call", {"name": "asks", "arguments": {}})
    if is_legacy:
        running, send = await legacy_stream(made)
        assert await send(message) == 202
        assert "POST /mcp/messages tools/call asks 202" in caplog.text
    else:
        session = await opened(made)
        running = posted(message, **session).begin(made)

        async def send(message):
            return (await post(made, message, **session)).status

    await running.until(lambda visit: b"roots/list" in visit.body)
    found = re.search(rb'"id":("[^"]*"|[0-9]+),"method":"roots/list"', running.body)
    draining = asyncio.get_running_loop().create_task(made.drain(30))
    await asyncio.sleep(0)  # until it drains
    assert await send(message) == 503
    if is_legacy:
        assert await send(message, "session_id=unknown") == 503
    answer = raw_client.success(json.loads(found[1]), {"roots": []})
    assert await send(answer) == 202
    await asyncio.wait_for(draining, 30)
    assert answers == [{"roots": []}]
    assert (await running.done()).is_complete
    assert b'"id":2,"result"' in running.body
