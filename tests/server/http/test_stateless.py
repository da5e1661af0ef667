"""Stateless POST requests: refusals, responses, the access log, and many at once."""

import asyncio
import json
import logging
import re

import pytest
import raw_client
from asgi_driver import Visit, scope
from hosted import (
    NEW,
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

from mcpwire.errors import (
    HeaderMismatch,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    MissingCapability,
    RPCError,
    ToolError,
)
from mcpwire.protocol.http_headers import ParamHeader
from mcpwire.server.auth.resource_server import HttpRefusal
from mcpwire.server.http.exchange import Exchange
from mcpwire.server.notifications import TOOLS
from mcpwire.versions import REVISIONS


def error(answer):
    return answer["error"]["code"]


@pytest.mark.case("D12")
@pytest.mark.rule("TR-HTTP-01", "TR-HTTP-12", "TR-HTTP-31")
@pytest.mark.parametrize("ignored", [{}, {"mcp_session_id": "x", "last_event_id": "7"}])
async def test_a_call_is_answered_as_json(ignored):
    visit = await post(app(), call(7, arguments={"a": 1}), **ignored)
    assert visit.status == 200
    assert visit.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in {name.lower() for name in visit.headers}
    answer = visit.json()
    assert answer["id"] == 7
    assert text(answer) == "{'a': 1}"
    assert answer["result"]["resultType"] == "complete"


@pytest.mark.rule("HDR-21")
async def test_method_with_a_repeated_name_does_not_match_its_header():
    made = app()
    message = call(7)
    message["method"] = "tools/call, tools/call"
    for _ in range(2):
        seen = await post(made, message, **{"mcp-method": "tools/call"})
        assert error(seen.json()) == HeaderMismatch.default_code


async def test_discovery_needs_no_handler():
    visit = await post(app(), raw_client.modern(1, "server/discover"))
    assert visit.status == 200
    assert visit.json()["result"]["supportedVersions"] == [NEW]


@pytest.mark.system("O52")
@pytest.mark.case("D03")
@pytest.mark.rule("TR-HTTP-10")
@pytest.mark.parametrize("more", [{}, {"mcp_method": None}])
@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/none"])
async def test_a_notification_is_accepted_without_a_body(method, more):
    visit = await post(app(), raw_client.notice(method, requestId=1), **more)
    assert visit.status == 202
    assert visit.headers == {"content-length": "0"}
    assert visit.body == b""


@pytest.mark.rule("TR-HTTP-11")
async def test_notification_with_another_method_in_its_header_is_refused():
    visit = await post(app(), raw_client.notice("notifications/a"), mcp_method="b")
    assert visit.status == 400
    assert visit.json()["error"]["code"] == -32020
    assert "id" not in visit.json()


async def test_posted_response_is_refused():
    visit = await post(app(), raw_client.success(1, {}))
    assert visit.status == 400
    assert error(visit.json()) == -32600


@pytest.mark.system("O51")
@pytest.mark.case("B01", "B02", "B06")
@pytest.mark.attack("S12")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"42", -32600),
        (b"[" + json.dumps(call()).encode() + b"]", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","params":[]}', -32600),
    ],
)
async def test_body_that_is_not_a_valid_message_is_refused(body, code):
    visit = await post(app(), body)
    assert visit.status == 400
    assert error(visit.json()) == code


@pytest.mark.rule("TR-HTTP-32")
async def test_refusal_of_a_malformed_request_has_its_id():
    message = {"jsonrpc": "1.0", "id": "x", "method": "a"}
    answer = (await post(app(), message)).json()
    assert answer["id"] == "x"


@pytest.mark.case("C09", "D13")
@pytest.mark.rule("TR-HTTP-26", "TR-HTTP-27", "TR-HTTP-28", "TR-HTTP-29")
@pytest.mark.rule("TR-HTTP-32", "META-08")
@pytest.mark.parametrize(
    ("message", "more", "status", "code"),
    [
        (call(), {"mcp_protocol_version": None}, 400, -32020),
        (call(), {"mcp_protocol_version": "2025-11-25"}, 400, -32020),
        (call(), {"mcp_method": None}, 400, -32020),
        (call(), {"mcp_method": "tools/list"}, 400, -32020),
        (call(), {"mcp_name": None}, 400, -32020),
        (call(), {"mcp_name": "other"}, 400, -32020),
        (raw_client.request(1, "x/y"), {"mcp_protocol_version": None}, 400, -32020),
        (raw_client.request(1, "tools/call"), {}, 400, -32602),
        (raw_client.request(1, "ping"), {}, 400, -32602),
        (raw_client.request(1, "tools/call", meta={}), {}, 400, -32602),
        (
            raw_client.request(1, "tools/call", meta={raw_client.VERSION_KEY: NEW}),
            {},
            400,
            -32602,
        ),
        (
            raw_client.request(1, "tools/call", meta={raw_client.CAPABILITIES_KEY: {}}),
            {},
            400,
            -32602,
        ),
        (
            raw_client.modern(1, "tools/call", **{raw_client.VERSION_KEY: "v999.0.0"}),
            {"mcp_protocol_version": "v999.0.0"},
            400,
            -32022,
        ),
        (raw_client.modern(1, "none"), {}, 404, -32601),
        (raw_client.modern(1, "ping"), {}, 404, -32601),
        (raw_client.modern(1, "initialize"), {}, 404, -32601),
        (raw_client.modern(1, "logging/setLevel"), {}, 404, -32601),
        (raw_client.modern(1, "resources/subscribe"), {}, 404, -32601),
        (raw_client.modern(1, "prompts/get"), {}, 404, -32601),
    ],
)
async def test_invalid_requests_get_status_and_code(message, more, status, code):
    visit = await post(app(), message, **more)
    assert visit.status == status
    assert error(visit.json()) == code
    assert visit.json()["id"] == 1


@pytest.mark.case("B08")
async def test_error_for_an_unsupported_version_lists_the_supported_ones():
    message = raw_client.modern(1, "tools/call", **{raw_client.VERSION_KEY: "v999.0.0"})
    visit = await post(app(), message, mcp_protocol_version="v999.0.0")
    assert visit.json()["error"]["data"] == {
        "supported": [NEW],
        "requested": "v999.0.0",
    }


async def test_error_for_initialize_lists_the_supported_versions():
    message = raw_client.request(1, "initialize", raw_client.session())
    visit = await post(app(), message, mcp_protocol_version=None)
    assert visit.status == 400
    assert error(visit.json()) == -32022
    assert visit.json()["error"]["data"]["supported"] == [NEW]


@pytest.mark.rule("HDR-21", "HDR-24")
async def test_argument_headers_are_compared_with_the_arguments():
    dispatcher = tools(echo)
    headers = (ParamHeader("Mcp-Param-City", ("city",)),)
    dispatcher.param_headers = lambda request, params: headers
    made = app(dispatcher=dispatcher)
    message = call(arguments={"city": "Zürich"})
    right = await post(made, message, mcp_param_city="=?base64?WsO8cmljaA==?=")
    assert right.status == 200
    wrong = await post(made, message, mcp_param_city="Bonn")
    assert wrong.status == 400
    assert error(wrong.json()) == -32020
    missing = await post(made, message)
    assert missing.status == 400


@pytest.mark.case("C09")
@pytest.mark.rule("META-14", "META-16")
async def test_capabilities_and_state_do_not_reach_the_next_request():
    async def show_state(params, request):
        return {"content": [], "seen": [request.client_capabilities, request.state]}

    made = app(show_state)
    first = call(**{raw_client.CAPABILITIES_KEY: {"sampling": {}}})
    assert (await post(made, first)).json()["result"]["seen"] == [{"sampling": {}}, {}]
    assert (await post(made, call())).json()["result"]["seen"] == [{}, {}]


class Refused(RPCError, HttpRefusal):
    http_status = 403
    http_headers = (("www-authenticate", "Bearer"),)
    default_code = -32600


@pytest.mark.rule("META-10")
@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (InvalidParams("no such tool"), 200, -32602),
        (MethodNotFound("no"), 200, -32601),
        (RPCError("mine", code=7), 200, 7),
        (MissingCapability("sampling"), 400, -32021),
        (HeaderMismatch("no"), 400, -32020),
        (Refused("no"), 403, -32600),
        (InvalidParams("odd", data=object()), 200, -32603),
    ],
)
async def test_errors_of_handlers_become_error_responses(raised, status, code, caplog):
    async def fails(params, request):
        raise raised

    visit = await post(app(fails), call())
    assert visit.status == status
    assert error(visit.json()) == code
    if status == 403:
        assert visit.headers["www-authenticate"] == "Bearer"


@pytest.mark.case("D19")
@pytest.mark.attack("S12")
@pytest.mark.parametrize(
    "raised", [ToolError("seen"), ValueError("secret"), SystemExit()]
)
async def test_raising_tool_fails_only_its_own_call(raised, caplog):
    async def fails(params, request):
        raise raised

    made = app(fails)
    visit = await post(made, call())
    assert visit.status == 200
    assert visit.json()["result"]["isError"] is True
    assert b"secret" not in visit.body
    assert (await post(made, call())).status == 200


@pytest.mark.case("D19")
@pytest.mark.attack("S12")
async def test_unencodable_result_becomes_an_internal_error(caplog):
    async def strange(params, request):
        return {"content": [object()], "secret": 1}

    visit = await post(app(strange), call())
    assert visit.status == 200
    assert error(visit.json()) == -32603
    assert b"secret" not in visit.body
    assert "cannot be sent" in caplog.text


@pytest.mark.case("D12")
@pytest.mark.rule("TR-HTTP-30")
@pytest.mark.parametrize("verb", ["GET", "DELETE", "HEAD", "PUT", "OPTIONS", "PATCH"])
async def test_only_post_is_answered(verb):
    visit = await asgi_request(app(), verb)
    assert visit.status == 405
    assert visit.headers["allow"] == "POST"


async def test_application_runs_without_an_asyncio_task():
    made = app()
    await post(made, call())  # which starts the application
    visit = posted(call())
    done = asyncio.get_running_loop().create_future()
    running = made(visit.scope, visit.receive, visit.send)

    def step(_=None):
        try:
            awaited = running.send(None)
        except StopIteration:
            done.set_result(None)
        else:
            awaited.add_done_callback(step)

    asyncio.get_running_loop().call_soon(step)
    await asyncio.wait_for(done, 30)
    assert visit.json()["id"] == 1


async def test_access_log_names_client_method_target_status_and_error(caplog):
    caplog.set_level(logging.INFO, logger="mcpwire.access")
    made = app()
    await post(made, call())
    message = raw_client.modern(
        1, "evil\nname " + "x" * 200, {"uri": "a://b?secret#more"}
    )
    await post(made, message)
    await post(made, b"nothing")
    await post(made, b'{"method": 5}')
    await post(
        made, raw_client.modern(1, "server/discover", {"name": 5}), mcp_name=None
    )
    await post(made, raw_client.request(1, "server/discover"))
    await asgi_request(made, "GET", "/elsewhere", client=None)
    await asgi_request(made, "GET", "/else\nwhere", client=("\x1b[2J", 1))
    await post(made, raw_client.modern(1, "m\xe9thod", {}))
    visit = posted(call())
    visit.send_error = OSError()
    await visit.begin(made).done()
    messages = [record.getMessage() for record in caplog.records]
    lines = [re.sub(r" \d+\.\d ms", "", line) for line in messages]
    assert lines[0] == "127.0.0.1 POST /mcp tools/call echo 200"
    assert lines[1].startswith("127.0.0.1 POST /mcp 'evil\\nname xxx")
    assert " a://b 404: " in lines[1]
    assert "secret" not in caplog.text
    assert lines[2] == "127.0.0.1 POST /mcp 400: the body is not JSON"
    assert lines[3].startswith("127.0.0.1 POST /mcp 400: ")
    assert lines[4] == "127.0.0.1 POST /mcp server/discover 200"
    assert lines[5].startswith("127.0.0.1 POST /mcp server/discover 400: ")
    assert lines[6] == (
        "- GET /elsewhere 404: nothing is served at this path; the endpoint is /mcp"
    )
    assert lines[7].startswith("'\\x1b[2J' GET '/else\\nwhere' 404: ")
    assert lines[8].startswith("127.0.0.1 POST /mcp 'm\\xe9thod' 404: ")
    assert lines[8].isascii()
    assert lines[9] == "127.0.0.1 POST /mcp tools/call echo 200"


@pytest.mark.case("B04", "D15")
@pytest.mark.attack("S10")
@pytest.mark.rule("META-15", "META-19")
async def test_thousand_calls_with_one_id_get_their_own_responses():
    earlier = living(Exchange)  # that exceptions raised by other tests refer to
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
    assert [each for each in living(Exchange) if each not in earlier] == []


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
