"""Each client method: its request and response, timeouts, progress, started calls."""

import asyncio
import contextvars
import gc
import weakref

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer, text
from loop_polling import until
from requesting_server import FORM, STATELESS, Asking, Hanging

import mcpwire
from mcpwire import RPCError, types

BOUND_S = 30.0
ERAS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
META = "io.modelcontextprotocol/"


def client(server, **options):
    return mcpwire.Client(server, **options)


@pytest.mark.system("U05")
@ERAS
@pytest.mark.rule("META-06", "META-07", "VER-01")
async def test_a_call_sends_name_arguments_and_era_metadata(version):
    server = FakeServer(
        {"tools/call": lambda p, _: text(p["arguments"]["a"])}, version=version
    )
    async with client(server) as c:
        result = await c.call_tool("echo", {"a": "hi"})
        await c.call_tool("echo", {"a": "hi"}, meta={"traceparent": "00-1"})
    assert result.text == "hi"
    assert result.is_error is False
    assert result.raw == text("hi")
    plain, traced = server.requests("tools/call")
    assert plain["name"] == "echo"
    assert plain["arguments"] == {"a": "hi"}
    stamp = plain.get("_meta", {})
    if version == "2026-07-28":
        assert stamp[META + "protocolVersion"] == version
        assert stamp[META + "clientCapabilities"] == {}
        assert stamp[META + "clientInfo"]["name"] == "mcpwire"
    else:
        assert stamp == {}
    assert traced["_meta"] == {**stamp, "traceparent": "00-1"}


@pytest.mark.system("V20")
async def test_a_call_without_arguments_sends_no_arguments_member():
    server = FakeServer({"tools/call": lambda *_: text("")})
    async with client(server) as c:
        await c.call_tool("x")
    assert server.requests("tools/call") == [{"name": "x"}]


@pytest.mark.system("A22")
@pytest.mark.rule("TOOL-17")
async def test_check_raises_for_a_result_with_is_error():
    server = FakeServer({"tools/call": lambda *_: {**text("no"), "isError": True}})
    async with client(server) as c:
        result = await c.call_tool("x")
        assert (result.is_error, result.text) == (True, "no")
        with pytest.raises(mcpwire.ToolError, match="no") as caught:
            await c.call_tool("x", check=True)
        assert caught.value.result == result


@pytest.mark.system("U33")
@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (-32602, mcpwire.InvalidParams),
        (-32601, mcpwire.MethodNotFound),
        (-32002, mcpwire.ResourceNotFound),
        (-32001, mcpwire.RPCError),
        (7, mcpwire.RPCError),
    ],
)
@pytest.mark.rule("RPC-25", "RPC-28", "TOOL-17")
async def test_an_error_response_is_raised_by_its_code(code, cls):
    server = FakeServer({"tools/call": lambda *_: mcpwire.RPCError("no", code=code)})
    async with client(server) as c:
        with pytest.raises(mcpwire.RPCError) as caught:
            await c.call_tool("x")
    assert type(caught.value) is cls
    assert caught.value.code == code
    assert caught.value.message == "no"
    assert caught.value.method == "tools/call"


@pytest.mark.parametrize("answer", [RPCError("no", code=-32602), SILENCE])
async def test_a_failed_call_leaves_no_reference_cycle(answer):
    server = FakeServer({"tools/call": lambda *_: answer})
    async with mcpwire.Client(server) as client:
        gc.disable()
        try:
            with pytest.raises(mcpwire.MCPError) as caught:
                await client.call_tool("x", {"text": "long"}, timeout=0.01)
            reference = weakref.ref(caught.value)
            del caught
            await asyncio.sleep(0)  # the loop's callback refers to it, too
            assert reference() is None
        finally:
            gc.enable()


async def test_a_malformed_result_raises_with_its_path():
    server = FakeServer(
        {"tools/call": lambda *_: {"content": [{"type": "text", "text": 1}]}}
    )
    async with client(server) as c:
        with pytest.raises(mcpwire.InvalidMessage) as caught:
            await c.call_tool("x")
    assert caught.value.path == "CallToolResult.content[0].text"


async def test_arguments_that_are_not_json_are_refused_before_sending():
    server = FakeServer({"tools/call": lambda *_: text("ok")})
    async with client(server) as c:
        with pytest.raises(mcpwire.LocalProtocolError, match=r"arguments\.a") as caught:
            await c.call_tool("x", {"a": float("nan")})
        assert str(caught.value)
        assert (await c.call_tool("x")).text == "ok"
    assert len(server.requests("tools/call")) == 1


async def test_notification_headers_are_refused_without_http():
    async with client(FakeServer()) as c:
        with pytest.raises(mcpwire.LocalProtocolError, match="HTTP only"):
            await c.notify("x", headers={"a": "b"})


LISTS = pytest.mark.parametrize(
    ("method", "key", "verb", "item"),
    [
        ("tools/list", "tools", "tools", {"name": "{}", "inputSchema": {}}),
        ("resources/list", "resources", "resources", {"name": "{}", "uri": "a:{}"}),
        (
            "resources/templates/list",
            "resourceTemplates",
            "resource_templates",
            {"name": "{}", "uriTemplate": "a:{{x}}"},
        ),
        ("prompts/list", "prompts", "prompts", {"name": "{}"}),
    ],
)


@pytest.mark.system("A20", "A24", "R03", "L-V6", "U32")
@LISTS
@pytest.mark.rule("PAGE-01", "PAGE-03", "PAGE-05", "PROMPT-06")
async def test_lists_can_be_read_whole_by_page_or_by_item(method, key, verb, item):
    def named(name):
        return {
            k: v.format(name) if isinstance(v, str) else {"type": "object"}
            for k, v in item.items()
        }

    def page(params, _):
        at = params.get("cursor")
        following = {None: "", "": "2", "2": None}[at]
        more = {} if following is None else {"nextCursor": following}
        return {key: [named(f"{at}-{i}") for i in range(2)], **more}

    server = FakeServer({method: page})
    names = [f"{at}-{i}" for at in (None, "", "2") for i in range(2)]
    async with client(server) as c:
        whole = await getattr(c, f"list_{verb}")()
        assert [entry.name for entry in whole] == names
        one_by_one = [entry.name async for entry in getattr(c, f"iter_{verb}")()]
        assert one_by_one == names
        first = await getattr(c, f"list_{verb}_page")()
        second = await getattr(c, f"list_{verb}_page")(first.next_cursor)
        assert [entry.name for entry in getattr(second, verb)] == names[2:4]
        assert second.next_cursor == "2"
    cursors = [params.get("cursor") for params in server.requests(method)]
    assert cursors == [None, "", "2"] * 2 + [None, ""]


@pytest.mark.pain("P38")
async def test_iterating_fetches_no_page_before_it_is_needed():
    server = FakeServer(
        {
            "prompts/list": lambda p, _: {
                "prompts": [{"name": "a"}],
                "nextCursor": p.get("cursor", "") + "x",
            }
        }
    )
    async with client(server) as c:
        async for _ in c.iter_prompts():
            break
    assert len(server.requests("prompts/list")) == 1


@pytest.mark.system("U32")
@pytest.mark.fault("F48")
async def test_a_list_that_never_ends_is_refused():
    server = FakeServer({"tools/list": lambda *_: {"tools": [], "nextCursor": "again"}})
    async with client(server) as c:
        with pytest.raises(mcpwire.RemoteProtocolError, match="is repeated"):
            await c.list_tools()
        with pytest.raises(mcpwire.RemoteProtocolError, match="is repeated"):
            _ = [tool async for tool in c.iter_tools()]
    page = lambda p, _: {"tools": [], "nextCursor": p.get("cursor", "") + "x"}  # noqa: E731 - short
    endless = FakeServer({"tools/list": page})
    limits = mcpwire.Limits(pages=3)
    async with client(endless, limits=limits) as c:
        with pytest.raises(mcpwire.RemoteProtocolError, match="3 pages"):
            await c.list_tools()
        with pytest.raises(mcpwire.RemoteProtocolError, match="3 pages"):
            _ = [tool async for tool in c.iter_tools()]
    assert len(endless.requests("tools/list")) == 6


TOOL = {"name": "a", "inputSchema": {"type": "object"}}


MALFORMED = {
    **TOOL,
    "name": "b",
    "annotations": {"readOnlyHint": "yes", "destructiveHint": False},
}


def listing(*tools):
    return FakeServer({"tools/list": lambda *_: {"tools": list(tools)}})


@pytest.mark.unchecked_wire("the server's annotations are malformed")
async def test_a_malformed_hint_is_dropped_alone_and_counted():
    async with mcpwire.Client(listing(TOOL, MALFORMED)) as client:
        assert client.stats.malformed_members == 0
        plain, hinted = await client.list_tools()
        assert (plain.name, plain.annotations) == ("a", None)
        assert hinted.annotations.read_only_hint is None
        assert hinted.annotations.destructive_hint is False
        assert client.stats.malformed_members == 1
        page = await client.list_tools_page()
        assert page.raw["tools"][1]["annotations"]["readOnlyHint"] == "yes"
        assert [tool.name async for tool in client.iter_tools()] == ["a", "b"]
        assert client.stats.malformed_members == 3


@pytest.mark.unchecked_wire("the server's tool has no name")
async def test_a_list_with_another_malformed_member_is_refused():
    async with mcpwire.Client(listing(MALFORMED, {"inputSchema": {}})) as client:
        with pytest.raises(mcpwire.InvalidMessage) as caught:
            await client.list_tools()
    assert caught.value.path == "ListToolsResult.tools[1].name"


@pytest.mark.system("A25")
async def test_resources_are_read_as_results_as_text_and_as_bytes():
    contents = {
        "a:text": {"uri": "a:text", "text": "hé"},
        "a:blob": {"uri": "a:blob", "blob": "AAH/"},
    }
    server = FakeServer(
        {"resources/read": lambda p, _: {"contents": [contents[p["uri"]]]}}
    )
    async with client(server) as c:
        assert (await c.read_resource("a:text")).contents[0].text == "hé"
        assert await c.read_text("a:text") == "hé"
        assert await c.read_bytes("a:text") == "hé".encode()
        assert await c.read_bytes("a:blob") == b"\x00\x01\xff"
        with pytest.raises(mcpwire.LocalProtocolError, match="only bytes"):
            await c.read_text("a:blob")


@pytest.mark.system("A27", "L-U5")
async def test_get_prompt_sends_name_and_arguments():
    server = FakeServer(
        {
            "prompts/get": lambda p, _: {
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": str(p)}}
                ]
            }
        }
    )
    async with client(server) as c:
        bare = await c.get_prompt("p")
        filled = await c.get_prompt("p", {"a": "b"})
    assert bare.messages[0].content.text == "{'name': 'p'}"
    assert "'arguments': {'a': 'b'}" in filled.messages[0].content.text


@pytest.mark.system("A28", "L-A6")
@pytest.mark.rule("COMP-05")
async def test_completion_sends_reference_argument_and_context():
    part = {"completion": {"values": ["ab"], "total": 400, "hasMore": True}}
    server = FakeServer({"completion/complete": lambda *_: part})
    async with client(server) as c:
        result = await c.complete(types.PromptReference("p"), "arg", "a")
        assert result.completion.values == ["ab"]
        assert result.completion.has_more is True
        template = types.ResourceTemplateReference("a:{x}")
        await c.complete(template, "x", context={"y": "1"})
    assert server.requests("completion/complete") == [
        {
            "ref": {"type": "ref/prompt", "name": "p"},
            "argument": {"name": "arg", "value": "a"},
        },
        {
            "ref": {"type": "ref/resource", "uri": "a:{x}"},
            "argument": {"name": "x", "value": ""},
            "context": {"arguments": {"y": "1"}},
        },
    ]


@pytest.mark.system("A29")
async def test_ping_and_discover_follow_the_era():
    session, stateless = FakeServer(), FakeServer(version="2026-07-28")
    async with client(session) as c:
        assert 0 < await c.ping() < BOUND_S
        with pytest.raises(mcpwire.LocalProtocolError, match="2025-11-25"):
            await c.discover()
    assert [m["method"] for m in session.received][-1] == "ping"
    async with client(stateless) as c:
        assert 0 < await c.ping() < BOUND_S
        found = await c.discover()
        assert found.supported_versions == ["2026-07-28"]
    assert [m["method"] for m in stateless.received] == ["server/discover"] * 3


@pytest.mark.rule("LIFE-02", "LIFE-04", "LIFE-07", "VER-12", "VER-14")
async def test_the_messages_of_a_session_handshake():
    server = FakeServer(instructions="be nice")
    async with client(server) as c:
        assert c.protocol_version == "2025-11-25"
        assert c.server_info == types.Implementation("fake", "1")
        assert c.capabilities.tools is not None
        assert c.instructions == "be nice"
        assert c.session_id is None
        assert c.negotiation.era is mcpwire.Era.SESSION
    probe, initialize, initialized = server.received
    assert probe["method"] == "server/discover"
    assert initialize["method"] == "initialize"
    assert initialize["params"]["protocolVersion"] == "2025-11-25"
    assert initialize["params"]["capabilities"] == {}
    assert initialized == {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.mark.system("A30")
async def test_server_attributes_are_none_before_connecting():
    c = client(FakeServer())
    assert c.protocol_version is None
    assert c.server_info is None
    assert c.capabilities is None
    assert c.instructions is None
    assert c.negotiation is None
    assert c.stats.connections == 0


async def test_a_failed_handshake_keeps_its_negotiation_record():
    c = client(FakeServer(version="1999-01-01"), mode="session")
    with pytest.raises(mcpwire.NegotiationError) as caught:
        await c.connect()
    assert c.negotiation is caught.value.negotiation
    assert [step.event for step in c.negotiation.steps] == [
        "sent initialize",
        "initialize answered",
    ]
    assert "no common revision" in str(c.negotiation)


async def test_invalid_server_declarations_do_not_break_calls():
    server = FakeServer(
        {"tools/call": lambda *_: text("ok")},
        capabilities={"tools": {}, "resources": 5},
        serverInfo={"name": 5},
    )
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "ok"
        with pytest.raises(mcpwire.InvalidMessage, match="resources"):
            _ = client.capabilities
        with pytest.raises(mcpwire.InvalidMessage, match="name"):
            _ = client.server_info


@pytest.mark.system("O86")
@pytest.mark.rule("LIFE-11", "LIFE-17", "PROMPT-06")
async def test_an_undeclared_capability_is_refused_before_sending():
    server = FakeServer(
        {"prompts/list": lambda *_: {"prompts": []}}, capabilities={"resources": {}}
    )
    async with client(server) as c:
        with pytest.raises(mcpwire.LocalProtocolError, match="'tools'"):
            await c.call_tool("x")
        for refused in (c.list_prompts, c.list_prompts_page, lambda: c.get_prompt("a")):
            with pytest.raises(mcpwire.LocalProtocolError, match="'prompts'"):
                await refused()
        with pytest.raises(mcpwire.LocalProtocolError, match="'prompts'"):
            _ = [prompt async for prompt in c.iter_prompts()]
        assert await c.request("prompts/list") == {"prompts": []}
    sent = [message["method"] for message in server.received]
    assert [method for method in sent if "/list" in method] == ["prompts/list"]
    assert not {"tools/call", "prompts/get"} & set(sent)


@ERAS
async def test_raw_requests_and_notifications_are_sent_unchanged(version):
    server = FakeServer({"x/y": lambda p, _: {"got": p}}, version=version)
    async with client(server) as c:
        params = {"a": 1, "_meta": {"k": "v"}}
        result = await c.request("x/y", params, meta={"l": "w"})
        assert params == {"a": 1, "_meta": {"k": "v"}}
        got = result["got"]
        assert got["a"] == 1
        assert {"k": "v", "l": "w"}.items() <= got["_meta"].items()
        assert (META + "protocolVersion" in got["_meta"]) is (version == "2026-07-28")
        seen = []
        await c.request("x/y", on_progress=lambda *args: seen.append(args))
        await c.notify("notifications/mine", {"b": 2})
        await c.request("x/y")
    assert {"jsonrpc": "2.0", "method": "notifications/mine", "params": {"b": 2}} in (
        server.received
    )


async def test_meta_that_is_not_an_object_is_refused_before_sending():
    server = FakeServer()
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="_meta"):
            await client.request("x/y", {"_meta": "text"})
    assert server.requests("x/y") == []


async def test_notifications_are_typed_and_invalid_ones_dropped(caplog):
    def send_notifications(_, server):
        server.notify("notifications/message", level="info", data={"a": 1})
        server.notify("notifications/message", level=7, data="bad")
        server.notify("notifications/unknown", x=1)
        server.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return text("")

    received = []
    server = FakeServer({"tools/call": send_notifications})
    async with client(server, on_notification=received.append) as c:
        await c.call_tool("x")
        assert c.stats.invalid_messages == 1
    message, unknown, changed = received
    assert message.method == "notifications/message"
    assert message.params.level == "info"
    assert message.params.data == {"a": 1}
    assert unknown == mcpwire.Notification("notifications/unknown", {"x": 1})
    assert changed.method == "notifications/tools/list_changed"
    assert "dropped" in caplog.text


@pytest.mark.rule("MRTR-12", "MRTR-13", "MRTR-14", "RPC-17")
async def test_a_request_state_is_sent_back_automatically():
    def call(params, server):
        if "requestState" in params:
            return {"resultType": "complete", **text(params["requestState"])}
        return {"resultType": "input_required", "requestState": "s1 \u00e9"}

    server = FakeServer({"tools/call": call}, version="2026-07-28")
    async with client(server) as c:
        result = await c.call_tool("x", {"a": 1})
    assert result.text == "s1 \u00e9"
    first, second = (m for m in server.received if m["method"] == "tools/call")
    assert first["id"] != second["id"]
    assert second["params"]["arguments"] == {"a": 1}
    assert second["params"]["_meta"] == first["params"]["_meta"]


@pytest.mark.rule("RPC-18")
async def test_an_unknown_result_type_raises_invalid_message():
    server = FakeServer(
        {"tools/call": lambda *_: {"resultType": "riddle"}}, version="2026-07-28"
    )
    async with client(server) as c:
        with pytest.raises(mcpwire.InvalidMessage, match="riddle"):
            await c.call_tool("x")


@pytest.mark.rule("RPC-18")
async def test_a_page_of_an_unknown_result_type_raises_invalid_message():
    page = {"resultType": "riddle", "tools": [], "nextCursor": "2"}
    server = FakeServer({"tools/list": lambda *_: page}, version="2026-07-28")
    async with client(server) as c:
        with pytest.raises(mcpwire.InvalidMessage, match="riddle"):
            await c.list_tools()


async def test_a_started_call_can_be_awaited_repeatedly():
    server = FakeServer({"tools/call": lambda params, _: text(params["name"])})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x", {"a": 1})
        assert type(call.request_id) is int
        assert server.requests("tools/call") == [] or not call.done
        await until(lambda: call.done)
        assert (await call).text == "x"
        assert (await call).text == "x"
        assert repr(call) == f"<mcpwire.PendingCall tools/call {call.request_id} ended>"
    assert server.requests("tools/call") == [{"name": "x", "arguments": {"a": 1}}]


@pytest.mark.system("U34", "L-A1")
@pytest.mark.rule("CAN-12")
@pytest.mark.pain("P09")
async def test_cancelling_a_started_call_notifies_the_server():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        call.cancel("enough")
        call.cancel("twice")
        with pytest.raises(mcpwire.CallCancelled, match="enough") as caught:
            await call
        assert caught.value.method == "tools/call"
        assert caught.value.reason == "enough"
        call.cancel("late")
        await client.ping()
    cancellation = {"requestId": call.request_id, "reason": "enough"}
    assert server.requests("notifications/cancelled") == [cancellation]


async def test_an_error_after_a_cancelled_wait_is_raised_by_the_next():
    """An error that also reached the loop's exception handler would fail this test."""
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await call
        assert not call.done
        call.cancel("enough")
        with pytest.raises(mcpwire.CallCancelled, match="enough"):
            await call


def test_a_started_call_cannot_be_awaited_on_another_loop():
    server = FakeServer({"tools/call": lambda *_: SILENCE})

    async def elsewhere(call):
        await call

    async def here():
        async with mcpwire.Client(server) as client:
            call = await client.start_call("x")
            with pytest.raises(RuntimeError, match="attached to a different loop"):
                await asyncio.to_thread(asyncio.run, elsewhere(call))
            call.cancel()

    asyncio.run(here())


@pytest.mark.system("U34", "A31")
async def test_cancelling_by_task_handle_or_id_notifies_the_server():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        task = asyncio.create_task(client.call_tool("x"))
        await until(lambda: server.requests("tools/call"))
        ids = [server.current["id"]]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        calls = [await client.start_call("x") for _ in range(2)]
        ids += [call.request_id for call in calls]
        calls[0].cancel("enough")
        client.cancel(ids[2], "no longer needed")
        for call, reason in zip(calls, ("enough", "no longer needed"), strict=True):
            with pytest.raises(mcpwire.CallCancelled, match=reason):
                await call
        await client.ping()
    cancelled = server.requests("notifications/cancelled")
    assert [params["requestId"] for params in cancelled] == ids
    reasons = [params["reason"] for params in cancelled[1:]]
    assert reasons == ["enough", "no longer needed"]
    assert len(set(ids)) == 3


async def test_a_cancelled_wait_does_not_cancel_a_started_call():
    release = []
    server = FakeServer({"tools/call": lambda *_: release or SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        waiting = asyncio.ensure_future(call)
        await asyncio.sleep(0)  # one loop iteration
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not call.done
        server.send({"jsonrpc": "2.0", "id": call.request_id, "result": text("yes")})
        assert (await call).text == "yes"
    assert server.requests("notifications/cancelled") == []


async def test_a_call_cancelled_in_its_handler_sends_no_retry():
    handler = Hanging()
    server = Asking("elicitation/create", FORM, STATELESS)
    async with mcpwire.Client(server, elicitation=handler) as client:
        call = await client.start_call("x")
        await handler.running.wait()
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            await call
    assert len(server.requests("tools/call")) == 1


async def test_start_call_raises_when_the_call_cannot_be_sent():
    server = FakeServer(capabilities={})
    client = mcpwire.Client(server)
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.start_call("x")
    async with client:
        with pytest.raises(mcpwire.LocalProtocolError, match="did not declare 'tools'"):
            await client.start_call("x")
        with pytest.raises(ValueError, match="timeout"):
            await client.start_call("x", timeout=0)


async def test_cancelling_start_call_cancels_the_call(monkeypatch):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        starting = asyncio.create_task(client.start_call("x"))
        await asyncio.sleep(0)  # one loop iteration
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        await client.ping()
        await until(lambda: not client._connection._background)


async def test_closing_before_a_started_call_is_sent_is_a_typed_error():
    client = mcpwire.Client(FakeServer())
    await client.connect()
    starting = asyncio.create_task(client.start_call("x"))
    await client.aclose()
    with pytest.raises(mcpwire.ConnectionClosed) as caught:
        await starting
    assert not caught.value.sent


async def test_closing_ends_started_calls_without_a_waiter():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        await client.start_call("forgotten")
        gc.collect()
    with pytest.raises(mcpwire.ConnectionClosed):
        await call


CALLER = contextvars.ContextVar("WHO", default="nobody")


@pytest.mark.system("A04", "L-A2", "L-R6", "L-V3")
@pytest.mark.rule("LIFE-15")
@on_a_virtual_clock
async def test_a_call_has_the_clients_timeout_its_own_or_none():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with client(server, timeout=0.05) as c:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await c.call_tool("x")
        assert caught.value.timeout == 0.05
        with pytest.raises(TimeoutError) as caught:
            await c.call_tool("x", timeout=0.01)
        assert caught.value.timeout == 0.01
        endless = asyncio.create_task(c.call_tool("x", timeout=None))
        with pytest.raises(mcpwire.RequestTimeout):
            await c.call_tool("x", timeout=0.1)
        assert not endless.done()
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "1", True])
async def test_a_timeout_out_of_range_is_refused(timeout):
    async with client(FakeServer()) as c:
        with pytest.raises(ValueError, match="timeout"):
            await c.call_tool("x", timeout=timeout)
        with pytest.raises(ValueError, match="timeout"):
            await c.list_tools(timeout=timeout)


@pytest.mark.system("A03")
@on_a_virtual_clock
async def test_one_timeout_spans_all_pages_of_a_list():
    def page(params, server):
        number = int(params.get("cursor", "0")) + 1
        return {"tools": [], "nextCursor": str(number)} if number < 5 else SILENCE

    server = FakeServer({"tools/list": page})
    async with client(server) as c:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await c.list_tools(timeout=0.1)
    assert caught.value.timeout == 0.1
    assert len(server.requests("tools/list")) == 5


@on_a_virtual_clock
async def test_many_deadlines_are_checked_together(monkeypatch):
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with client(server) as c:
        loop, timers = asyncio.get_running_loop(), []
        call_at = loop.call_at
        monkeypatch.setattr(
            loop, "call_at", lambda *timer: (timers.append(timer), call_at(*timer))[1]
        )
        calls = [c.call_tool("x", timeout=0.05 + n / 10_000) for n in range(500)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {mcpwire.RequestTimeout}
    # They end within 50 ms of each other, and checks are at least 5 ms apart.
    assert len(timers) <= 30


def report(params, server):
    token = params["_meta"]["progressToken"]
    server.notify("notifications/progress", progressToken=token, progress=1)
    return text("done")


@pytest.mark.system("A40", "L-R9")
@ERAS
@pytest.mark.rule("PROG-01", "PROG-05")
async def test_progress_comes_in_order_and_before_the_result(version):
    def slow(params, server):
        token = params["_meta"]["progressToken"]
        for step in (1, 2.5):
            server.notify(
                "notifications/progress",
                progressToken=token,
                progress=step,
                total=3,
                message=f"at {step}",
            )
        server.notify("notifications/progress", progressToken=token, progress="bad")
        server.notify("notifications/progress", progressToken=token, progress=3)
        return text("done")

    seen, late = [], []

    async def delayed(*args):
        await asyncio.sleep(0)  # one loop iteration
        late.append(args)

    server = FakeServer({"tools/call": slow}, version=version)
    expected = [(1, 3, "at 1"), (2.5, 3, "at 2.5"), (3, None, None)]
    async with client(server) as c:
        await c.call_tool("x", on_progress=lambda *args: seen.append(args))
        assert seen == expected
        await c.call_tool("x", on_progress=delayed)
        assert late == expected
    first, second = server.requests("tools/call")
    assert first["_meta"]["progressToken"] != second["_meta"]["progressToken"]


@pytest.mark.parametrize("timeout", [0.05, None])
@on_a_virtual_clock
async def test_a_hanging_progress_callback_does_not_delay_the_result(timeout):
    async def hang(*_):
        await asyncio.Event().wait()

    async with client(FakeServer({"tools/call": report})) as c:
        result = await c.call_tool("x", on_progress=hang, timeout=timeout)
    assert result.text == "done"


async def test_a_progress_callback_that_raises_is_logged(caplog):
    def fail(*_):
        raise RuntimeError("mine")

    async def fail_later(*_):
        raise RuntimeError("mine too")

    async with client(FakeServer({"tools/call": report})) as c:
        for callback in (fail, fail_later):
            result = await c.call_tool("x", on_progress=callback)
            assert result.text == "done"
    assert len(caplog.records) == 2


@pytest.mark.system("L-A2")
@pytest.mark.rule("LIFE-15")
@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 2.0),
        ({"reset_timeout_on_progress": True}, 20.0),  # ten timeouts by default
        ({"reset_timeout_on_progress": True, "max_timeout": 5.0}, 5.0),
    ],
)
@on_a_virtual_clock
async def test_progress_extends_a_call_up_to_max_timeout(options, most):
    def endless(params, server):
        def step(number):
            token = params["_meta"]["progressToken"]
            server.notify(
                "notifications/progress", progressToken=token, progress=number
            )
            asyncio.get_running_loop().call_later(1.0, step, number + 1)

        step(1)
        return SILENCE

    steps = []
    async with client(FakeServer({"tools/call": endless}), timeout=2.0, **options) as c:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await c.call_tool("x", on_progress=lambda *args: steps.append(args))
    assert caught.value.timeout == most
    assert caught.value.elapsed == pytest.approx(most)
    assert len(steps) >= most


async def test_progress_callbacks_run_in_the_context_of_their_call():
    names = []

    async def later(*_):
        await asyncio.sleep(0)
        names.append(CALLER.get())

    async with client(FakeServer({"tools/call": report})) as c:

        async def call(name, callback):
            CALLER.set(name)
            await c.call_tool("x", on_progress=callback)

        await asyncio.create_task(call("plain", lambda *_: names.append(CALLER.get())))
        await asyncio.create_task(call("async", later))
    assert names == ["plain", "async"]
