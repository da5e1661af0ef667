"""Each client method: the request that it sends, and its handling of the response."""

import asyncio
import gc
import weakref

import pytest
from fakes import SILENCE, FakeServer, text

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
