"""Operations of a group that address a server by name."""

import asyncio
import logging

import pytest
from able_server import METHODS
from fakes import FakeServer, text
from group_servers import BOUND_S, CAPABILITIES, ScriptedServer, Unreachable
from loop_polling import until

import mcpwire
from mcpwire import types
from mcpwire.group import Group, Member

URI = "file:///a"
PROMPT = {"type": "ref/prompt", "name": "p"}


def full_server():
    return ScriptedServer(**METHODS)


VERBS = {
    "call_tool": (("x", {"a": 1}), lambda result: result.text == "x"),
    "list_tools": ((), lambda tools: [each.name for each in tools] == ["x"]),
    "read_resource": ((URI,), lambda result: result.text == "t"),
    "list_resources": ((), lambda found: [each.uri for each in found] == ["a://1"]),
    "list_resource_templates": ((), lambda found: [e.name for e in found] == ["any"]),
    "list_prompts": ((), lambda found: [each.name for each in found] == ["p"]),
    "get_prompt": (("p", {"a": "b"}), lambda found: len(found.messages) == 1),
    "complete": ((PROMPT, "a", "v"), lambda found: found.completion.values[1] == "v"),
    "ping": ((), lambda seconds: 0 <= seconds < BOUND_S),
    "subscribe": ((URI,), lambda nothing: nothing is None),
    "set_log_level": (("error",), lambda nothing: nothing is None),
}


@pytest.mark.system(
    "A20", "A21", "A22", "A24", "A25", "A26", "A27", "A28", "A29", "R05"
)
@pytest.mark.parametrize("verb", VERBS)
async def test_each_operation_reaches_only_the_named_server(verb, caplog):
    args, is_right = VERBS[verb]
    here, elsewhere = full_server(), full_server()
    async with Group({"here": here, "elsewhere": elsewhere}) as group:
        before = len(elsewhere.received)
        assert is_right(await getattr(group, verb)("here", *args))
        assert is_right(await getattr(group["here"], verb)(*_typed(args)))
        assert len(elsewhere.received) == before
        assert not caplog.records
        with pytest.raises(mcpwire.UnknownServer, match="known: 'here', 'elsewhere'"):
            await getattr(group, verb)("nowhere", *args)
    assert [each.server for each in caplog.records] == ["nowhere"]


def _typed(args):
    return [
        types.PromptReference(name="p") if each is PROMPT else each for each in args
    ]


@pytest.mark.system("A26")
async def test_unsubscribe_reaches_the_named_server():
    server = full_server()
    async with Group({"a": server}) as group:
        await group.subscribe("a", URI)
        await group.unsubscribe("a", URI)
    assert server.requests("resources/unsubscribe") == [{"uri": URI}]


@pytest.mark.system("A21", "A27")
@pytest.mark.parametrize("verb", ["call_tool", "get_prompt"])
@pytest.mark.parametrize("wrong", [[1], "x", 3, True, [["a", 1]]])
async def test_invalid_arguments_are_refused_before_the_server_lookup(verb, wrong):
    async with Group() as group:
        kind = type(wrong).__name__
        with pytest.raises(mcpwire.LocalProtocolError, match=f"object, got {kind}"):
            await getattr(group, verb)("nowhere", "x", wrong)
        with pytest.raises(mcpwire.UnknownServer):
            await getattr(group, verb)("nowhere", "x", None)


@pytest.mark.system("A28", "L-A15")
@pytest.mark.parametrize(
    "ref",
    [
        {},
        {"name": "p"},
        {"type": "ref/tool", "name": "p"},
        {"type": "ref/prompt"},
        {"type": "ref/resource", "name": "p"},
        {"type": ["ref/prompt"]},
    ],
)
async def test_invalid_reference_is_refused_before_the_server_lookup(ref):
    async with Group() as group:
        with pytest.raises(mcpwire.LocalProtocolError, match="ref"):
            await group.complete("nowhere", ref, "a")


@pytest.mark.system("A28")
async def test_both_kinds_of_reference_are_completed():
    server = full_server()
    async with Group({"a": server}) as group:
        refs = [PROMPT, {"type": "ref/resource", "uri": "file:///{x}"}]
        for ref in (*refs, types.PromptReference(name="p")):
            await group.complete("a", ref, "a", "v", context={"b": "c"})
    requests = server.requests("completion/complete")
    assert [each["ref"] for each in requests] == [*refs, PROMPT]
    assert requests[0]["context"] == {"arguments": {"b": "c"}}


@pytest.mark.system("A22", "A23")
async def test_tool_error_is_a_result_and_raises_only_with_check(caplog):
    failed = {**text("no"), "isError": True, "structuredContent": {"why": 1}}
    server = ScriptedServer(**{"tools/call": lambda *_: failed})
    async with Group({"a": server}) as group:
        result = await group.call_tool("a", "x")
        assert (result.is_error, result.text) == (True, "no")
        assert result.structured_content == {"why": 1}
        with pytest.raises(mcpwire.ToolError, match="no"):
            await group.call_tool("a", "x", check=True)
    assert not caplog.records


@pytest.mark.system("A30")
async def test_server_info_is_returned_without_a_request():
    server = full_server()
    server.members["instructions"] = "be kind"
    async with Group({"a": server, "b": ScriptedServer()}) as group:
        before = len(server.received)
        info = group.server_info("a")
        assert info["serverInfo"] == {"name": "fake", "version": "1"}
        assert info["capabilities"] == CAPABILITIES
        assert (info["protocolVersion"], info["instructions"]) == (
            "2025-11-25",
            "be kind",
        )
        assert len(server.received) == before
        assert group.instructions() == {"a": "be kind"}
        with pytest.raises(mcpwire.UnknownServer):
            group.server_info("nowhere")
    async with Group({"a": server}, start="lazy") as group:
        with pytest.raises(mcpwire.UnknownServer, match="not connected"):
            group.server_info("a")


@pytest.mark.system("A05", "A06")
async def test_calls_to_one_and_to_several_servers_run_concurrently():
    a, b = ScriptedServer("A", "tools/call"), ScriptedServer("B", "tools/call")
    async with Group({"a": a, "b": b}) as group:
        calls = [
            asyncio.ensure_future(group.call_tool(name, "x"))
            for name in ("a", "a", "b")
        ]
        await until(lambda: len(a.waiting) + len(b.waiting) == 3)
        assert group.status()["a"].in_flight == 2
        b.release()
        a.release()
        assert [(await call).text for call in calls] == ["A", "A", "B"]
        assert group.status()["a"].calls == 2
        assert group.status()["a"].in_flight == 0


@pytest.mark.system("A03", "L-A2", "L-V3")
async def test_call_timeout_comes_from_the_group_the_member_or_the_call():
    servers = {
        "group": ScriptedServer("", "tools/call"),
        "own": Member(ScriptedServer("", "tools/call"), timeout=0.03),
    }
    async with Group(servers, timeout=0.02) as group:
        cases = [
            ("group", {}, 0.02),
            ("own", {}, 0.03),
            ("own", {"timeout": 0.01}, 0.01),
        ]
        for name, options, timeout in cases:
            with pytest.raises(mcpwire.RequestTimeout) as caught:
                await group.call_tool(name, "x", **options)
            assert caught.value.timeout == timeout


@pytest.mark.system("A31", "L-A1")
async def test_cancel_by_request_id_cancels_only_that_call(caplog):
    server = ScriptedServer("", "tools/call")
    async with Group({"a": server}) as group:
        call = await group["a"].start_call("x")
        for id in (None, 999, "7"):
            group.cancel("a", id)
        group.cancel("nowhere", call.request_id)
        await group.ping("a")
        assert server.requests("notifications/cancelled") == []
        group.cancel("a", call.request_id, "enough")
        with pytest.raises(mcpwire.CallCancelled, match="enough"):
            await call
        cancellation = {"requestId": call.request_id, "reason": "enough"}
        assert server.requests("notifications/cancelled") == [cancellation]
    assert [each.server for each in caplog.records] == ["nowhere"]


@pytest.mark.system("A35")
async def test_roots_changed_reaches_one_or_all_and_failures_are_logged(caplog):
    a, b, deaf = ScriptedServer(), ScriptedServer(), ScriptedServer()
    members = {"a": a, "b": b}
    async with Group(members, roots=[]) as group:
        await group.connect("deaf", deaf, roots=None)
        group.notify_roots_changed()
        group.notify_roots_changed("a")
        group.notify_roots_changed("nowhere")
        method = "notifications/roots/list_changed"

        def count(server):
            return [message["method"] for message in server.received].count(method)

        await until(lambda: (count(a), count(b)) == (2, 1))
        await until(lambda: len(caplog.records) == 2)
        assert count(deaf) == 0
    assert {each.server for each in caplog.records} == {"deaf", "nowhere"}


async def test_server_error_text_cannot_add_log_lines(caplog):
    evil = mcpwire.RPCError("no\nCRITICAL all is lost\x1b[2J", code=-32000)
    failing = ("tools/call", "tools/list")
    server = ScriptedServer(**{method: lambda *_: evil for method in failing})
    async with Group({"a": server}) as group:
        with pytest.raises(mcpwire.RPCError):
            await group.call_tool("a", "x")
        assert list((await group.tools()).problems) == ["a"]
    assert [each.name for each in caplog.records] == [
        "mcpwire",
        "mcpwire",
        "mcpwire.tools",
    ]
    for record in caplog.records:
        assert record.getMessage().isprintable()
        assert str(record.server) == "a"


@pytest.mark.system("A07", "A63")
async def test_each_failure_is_logged_once_with_its_fields(caplog):
    server = ScriptedServer(
        "",
        "tools/call",
        **{"resources/read": lambda *_: mcpwire.RPCError("gone", code=-32002)},
    )
    url = "https://user:pw@example.com/a?key=s3cret#frag"
    async with Group({"a": server, "b": Unreachable()}, on_error="skip") as group:
        with pytest.raises(mcpwire.RequestTimeout):
            await group.call_tool("a", "slow", {"password": "hunter2"}, timeout=0.01)
        with pytest.raises(mcpwire.RPCError):
            await group.read_resource("a", url)
        with pytest.raises(mcpwire.UnknownServer):
            await group.call_tool("nowhere", "x")
    logged = [
        (each.levelname, each.server, each.tool, each.uri, each.timeout)
        for each in caplog.records
    ]
    masked = "https://***@example.com/a?***"
    assert logged == [
        ("WARNING", "b", None, None, None),
        ("WARNING", "a", "slow", None, 0.01),
        ("WARNING", "a", None, masked, None),
        ("WARNING", "nowhere", "x", None, None),
    ]
    kinds = ("ConnectError", "RequestTimeout", "ResourceNotFound", "UnknownServer")
    for record, kind in zip(caplog.records, kinds, strict=True):
        assert record.error.startswith(f"{kind}: ")
        for secret in ("s3cret", "hunter2", "pw@"):
            assert secret not in str(vars(record))


@pytest.mark.system("A62")
async def test_each_call_and_its_result_are_logged_at_debug_level(caplog):
    failed = {**text("no"), "isError": True}
    servers = {
        "a": ScriptedServer("fine"),
        "b": ScriptedServer(**{"tools/call": lambda *_: failed}),
    }
    with caplog.at_level(logging.DEBUG, "mcpwire"):
        async with Group(servers) as group:
            await group.call_tool("a", "x", {"password": "hunter2"})
            await group.call_tool("b", "y")
    logged = [
        (each.event, each.server, each.tool, getattr(each, "ok", None), each.component)
        for each in caplog.records
        if hasattr(each, "event")
    ]
    assert logged == [
        ("mcp_call", "a", "x", None, "mcp"),
        ("mcp_result", "a", "x", True, "mcp"),
        ("mcp_call", "b", "y", None, "mcp"),
        ("mcp_result", "b", "y", False, "mcp"),
    ]
    assert "hunter2" not in caplog.text


async def test_tools_of_all_servers_are_one_set_that_follows_changes():
    a, b, bare = ScriptedServer("A"), ScriptedServer("B"), FakeServer(capabilities={})
    async with Group({"a": a, "bare": bare}, deny="a/y") as group:
        tools = await group.tools(confirm="never*")
        assert set(tools.names) == {"mcp__a__x"}
        assert (await tools.call("mcp__a__x")).text == "A"
        await group.connect("b", b)
        await until(lambda: set(tools.names) == {"mcp__a__x", "mcp__b__x"})
        named = {"tools": [{"name": "z", "inputSchema": {"type": "object"}}]}
        a.methods["tools/list"] = lambda *_: named
        a.notify("notifications/tools/list_changed")
        await until(lambda: set(tools.names) == {"mcp__a__z", "mcp__b__x"})
        await group.disconnect("b")
        await until(lambda: set(tools.names) == {"mcp__a__z"})


async def test_call_fails_if_its_server_is_disconnected_meanwhile():
    class Client(mcpwire.Client):
        async def call_tool(self, *args, **options):
            await group.disconnect("a")
            return await super().call_tool(*args, **options)

    make = lambda _, target, **options: Client(target, **options)  # noqa: E731 - short
    async with Group({"a": ScriptedServer()}, make_client=make) as group:
        with pytest.raises(mcpwire.ConnectionClosed, match="'a' was disconn") as caught:
            await group.call_tool("a", "x")
        assert caught.value.sent is False
