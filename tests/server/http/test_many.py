"""Many concurrent requests, and malformed requests."""

import asyncio
import json

import pytest
import raw_client
from asgi_driver import Visit, scope
from hosted import (
    app,
    asgi_request,
    call,
    echo,
    fields,
    post,
    posted,
    subscribed,
    text,
    tools,
)
from hypothesis import given
from hypothesis import strategies as st
from living import living

from mcpwire.errors import LocalProtocolError
from mcpwire.server.http.exchange import Exchange
from mcpwire.server.notifications import TOOLS
from mcpwire.versions import REVISIONS


@pytest.mark.case("B04", "D15")
@pytest.mark.attack("S10")
@pytest.mark.rule("META-15", "META-19")
async def test_thousand_calls_with_one_id_get_their_own_responses():
    waiting = []
    all_started = asyncio.Event()

    async def report_progress(params, request):
        waiting.append(request)
        if len(waiting) == 1000:
            all_started.set()
        request.progress(1, message=params["arguments"]["secret"])
        await all_started.wait()
        return {"content": [{"type": "text", "text": params["arguments"]["secret"]}]}

    made = app(report_progress)
    visits = [
        posted(call(0, arguments={"secret": f"s{n}"}, progressToken=0)).begin(made)
        for n in range(1000)
    ]
    for number, visit in enumerate(visits):
        await visit.done()
        progress, answer = visit.sse()
        assert progress["params"]["message"] == f"s{number}"
        assert text(answer) == f"s{number}"
    waiting.clear()
    assert living(Exchange) == []


@pytest.mark.rule("TR-HTTP-15")
async def test_stateless_stream_carries_no_server_requests():
    async def ask_client(params, request):
        request.progress(1)
        with pytest.raises(LocalProtocolError):
            await request.ask("sampling/createMessage", {})
        return {"content": []}

    visit = await post(app(ask_client), call(progressToken="t"))
    assert not [m for m in visit.sse() if "method" in m and "id" in m]


@pytest.mark.rule("TR-HTTP-17", "TR-HTTP-14")
async def test_notifications_of_a_call_are_not_sent_to_subscriptions():
    async def report_progress(params, request):
        request.progress(1)
        request.log("info", "x")
        return {"content": []}

    dispatcher = subscribed(report_progress)
    made = app(dispatcher=dispatcher)
    params = {"notifications": {"toolsListChanged": True}}
    meta = {"progressToken": "t", raw_client.LOG_KEY: "debug"}
    listening = posted(raw_client.modern(1, "subscriptions/listen", params, **meta))
    listening.begin(made)
    await listening.until(lambda v: v.sent[1:])
    called = await post(made, call(2, **meta))
    assert len(called.sse()) == 3
    dispatcher.hub.notify(TOOLS)
    await listening.until(lambda v: len(v.sse()) == 2)
    await made.drain(0)
    await listening.done()
    assert [m.get("method") for m in listening.sse()] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        None,
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
    ),
    max_leaves=8,
)

MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | JSON,
        "method": st.sampled_from(["tools/call", "initialize", "ping"]) | JSON,
        "params": st.fixed_dictionaries(
            {}, optional={"_meta": st.just(raw_client.META) | JSON, "name": JSON}
        )
        | JSON,
        "result": JSON,
        "error": JSON,
    },
)

BODIES = (
    st.binary(max_size=40)
    | JSON.map(json.dumps).map(str.encode)
    | MEMBERS.map(json.dumps).map(str.encode)
)


@pytest.mark.attack("S12", "S14")
@given(
    bodies=st.lists(BODIES, min_size=1, max_size=8),
    version=st.sampled_from([None, "2026-07-28", "2025-11-25", "v9", "\xff"]),
    origin=st.none() | st.text(st.characters(max_codepoint=255), max_size=10),
)
def test_server_survives_arbitrary_request_bodies(bodies, version, origin):
    async def send_all():
        made = app(dispatcher=tools(echo, revisions=REVISIONS), cors="*")
        for body in bodies:
            visit = await post(
                made,
                body,
                mcp_protocol_version=version,
                mcp_method="tools/call",
                origin=origin,
            )
            assert visit.status in {200, 202, 400, 403, 404}
            for name, value in visit.sent[0]["headers"]:
                assert min(name + value, default=32) >= 32
        right = await post(made, call())
        assert right.status == 200
        await made.aclose()

    asyncio.run(send_all())


@pytest.mark.attack("S19")
async def test_origin_with_a_line_break_is_not_echoed_as_a_header():
    made = app(cors="*")
    visit = posted(call(), origin="http://a.example")
    visit.scope["headers"][-1] = (b"origin", b"http://a\r\nx: y")
    await visit.begin(made).done()
    assert "access-control-allow-origin" not in visit.headers


async def test_body_of_a_refused_request_is_not_read():
    visit = Visit(scope(headers=fields(content_type="text/plain")))
    await visit.begin(app()).done()
    assert visit.receive_count == 0
    assert visit.status == 415
    assert (await asgi_request(app(), "POST", "/nowhere")).status == 404
