"""Promises of agent-block's manager for one connection, kept by the client."""

import asyncio
import functools
import logging
import types as builtin_types

import pytest
from fakes import SILENCE, FakeServer, text

import mcpwire
from mcpwire import types
from mcpwire.client.tasks import start_task
from mcpwire.group import Group

NO_OBJECTS = pytest.mark.parametrize(
    ("value", "kind"), [([1], "list"), ("a", "str"), (1, "int"), (True, "bool")]
)
LEVELS = (
    *("debug", "info", "notice", "warning"),
    *("error", "critical", "alert", "emergency"),
)


@NO_OBJECTS
@pytest.mark.system("A21", "R03")
@pytest.mark.parametrize("verb", ["call_tool", "start_call", "start_task"])
async def test_arguments_that_are_not_an_object_are_refused(verb, value, kind):
    server = FakeServer({"tools/call": lambda *_: text("ran")})
    async with mcpwire.Client(server) as client:
        call = getattr(client, verb, functools.partial(start_task, client))
        with pytest.raises(mcpwire.LocalProtocolError) as caught:
            await call("x", value)
        assert str(caught.value) == f"arguments: expected an object, got {kind}"
        assert (await client.call_tool("x", None)).text == "ran"
    assert server.requests("tools/call") == [{"name": "x"}]


@NO_OBJECTS
@pytest.mark.system("A27")
async def test_prompt_arguments_that_are_not_an_object_are_refused(value, kind):
    server = FakeServer({"prompts/get": lambda *_: {"messages": []}})
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match=f"got {kind}"):
            await client.get_prompt("x", value)
        assert (await client.get_prompt("x", None)).messages == []
    assert server.requests("prompts/get") == [{"name": "x"}]


@pytest.mark.system("A21")
async def test_any_mapping_is_accepted_as_an_object():
    server = FakeServer({"tools/call": lambda *_: text("ran")})
    async with mcpwire.Client(server) as client:
        await client.call_tool("x", builtin_types.MappingProxyType({"a": 1}))
    assert server.requests("tools/call") == [{"name": "x", "arguments": {"a": 1}}]


@pytest.mark.system("A22", "A23")
async def test_result_has_the_fields_of_the_tool_and_defaults():
    full = {
        **text("no"),
        "structuredContent": {"a": [1, None]},
        "isError": True,
        "_meta": {"k": "v"},
        "later": 1,
    }
    results = iter([full, {"content": []}])
    server = FakeServer({"tools/call": lambda *_: next(results)})
    async with mcpwire.Client(server) as client:
        failed, bare = [await client.call_tool("x") for _ in range(2)]
    assert (failed.is_error, failed.text) == (True, "no")
    assert failed.structured_content == {"a": [1, None]}
    assert failed.raw == full
    assert (bare.is_error, bare.content) == (False, [])
    assert bare.structured_content is types.UNSET


@pytest.mark.system("A28", "L-A15")
@pytest.mark.parametrize(
    ("ref", "kind"),
    [({"type": "ref/tool", "name": "x"}, "dict"), ("x", "str"), (None, "NoneType")],
)
async def test_complete_accepts_only_prompt_or_template_references(ref, kind):
    server = FakeServer()
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError) as caught:
            await client.complete(ref, "a", "b")
    assert str(caught.value) == (
        f"ref: expected PromptReference or ResourceTemplateReference, got {kind}"
    )
    assert server.requests("completion/complete") == []
    for reference in (types.PromptReference, types.ResourceTemplateReference):
        with pytest.raises(TypeError, match="missing"):
            reference()


@pytest.mark.system("A41", "L-A9")
async def test_log_message_keeps_its_level_logger_and_data():
    data = [1, "a", None, True, [1], {"a": {"b": 1.5}}, "", 0]

    def notify_and_answer(_, server):
        for level, value in zip(LEVELS, data, strict=True):
            server.notify("notifications/message", level=level, data=value)
        server.notify("notifications/message", level="info", data=1, logger="db")
        return text("")

    received = []
    server = FakeServer({"tools/call": notify_and_answer})
    async with mcpwire.Client(
        server, on_notification=lambda n: received.append(n.params)
    ) as c:
        await c.call_tool("x")
    assert [params.level for params in received[:-1]] == list(LEVELS)
    assert [params.data for params in received[:-1]] == data
    assert [params.logger for params in received] == [None] * len(LEVELS) + ["db"]


@pytest.mark.system("A46", "A47")
async def test_notifications_without_a_handler_are_not_logged(caplog):
    def notify_and_answer(params, server):
        server.notify("notifications/message", level="emergency", data="fire")
        server.notify("notifications/tools/list_changed")
        token = params.get("_meta", {}).get("progressToken", 0)
        server.notify("notifications/progress", progressToken=token, progress=1)
        return text("done")

    seen = []
    server = FakeServer({"tools/call": notify_and_answer})
    with caplog.at_level(logging.DEBUG):
        async with mcpwire.Client(server) as client:
            assert (await client.call_tool("x")).text == "done"
            await client.call_tool("x", on_progress=lambda *args: seen.append(args))
    assert seen == [(1, None, None)]
    assert [r for r in caplog.records if "fire" in r.getMessage()] == []
    assert [r for r in caplog.records if r.levelno > logging.DEBUG] == []


@pytest.mark.system("A43")
async def test_list_changed_notifications_are_delivered_by_name():
    names = [f"notifications/{kind}/list_changed" for kind in ("tools", "resources")]
    names.append("notifications/prompts/list_changed")

    def change(_, server):
        for name in names:
            server.send({"jsonrpc": "2.0", "method": name})
        return text("")

    received = []
    server = FakeServer({"tools/call": change})
    async with mcpwire.Client(
        server, on_notification=lambda n: received.append(n.method)
    ) as c:
        await c.call_tool("x")
    assert received == names


HANDLERS = {
    "sampling": {"sampling": lambda _: None},
    "elicitation": {"elicitation": lambda _: "decline"},
    "roots": {"roots": ["file:///a"]},
}


@pytest.mark.system("A54", "L-A7")
@pytest.mark.parametrize("given", [(), ("sampling",), ("elicitation", "roots")])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_declared_capabilities_match_the_handlers(given, version):
    options = {key: value for name in given for key, value in HANDLERS[name].items()}
    server = FakeServer({"tools/call": lambda *_: text("")}, version=version)
    async with mcpwire.Client(server, **options) as client:
        await client.call_tool("x")
    if version == "2026-07-28":
        meta = server.requests("tools/call")[0]["_meta"]
        declared = meta["io.modelcontextprotocol/clientCapabilities"]
    else:
        declared = server.requests("initialize")[0]["capabilities"]
    assert set(declared) == set(given)


@pytest.mark.system("A05", "A06")
async def test_calls_of_one_connection_run_concurrently():
    waiting = []
    server = FakeServer({"tools/call": lambda *_: SILENCE})

    def answer(*_):
        waiting.append(server.current["id"])
        if len(waiting) == 3:
            for id in reversed(waiting):
                server.send({"jsonrpc": "2.0", "id": id, "result": text(str(id))})
        return SILENCE

    server.methods["tools/call"] = answer
    async with mcpwire.Client(server) as client:
        results = await asyncio.gather(*(client.call_tool("x") for _ in range(3)))
    assert [result.text for result in results] == [str(id) for id in waiting]


def named(name, **methods):
    def notify_and_answer(params, server):
        server.notify("notifications/resources/updated", uri=f"a:{name}")
        server.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            server.notify("notifications/progress", progressToken=token, progress=1)
        return text(f"{name} answers")

    return FakeServer(
        {"tools/call": notify_and_answer, **methods}, instructions=f"I am {name}"
    )


NAMES = ("a", "b", "c")


@pytest.mark.system("A17", "A22", "A40", "A42", "A43")
async def test_events_of_three_servers_carry_their_server_name():
    servers = {name: named(name) for name in NAMES}
    received, progress = [], []
    async with Group(servers) as group:
        events = group.events()
        results = await asyncio.gather(
            *(
                group.call_tool(
                    name, "x", on_progress=lambda *p, name=name: progress.append(name)
                )
                for name in NAMES
            )
        )
        for _ in range(2 * len(NAMES)):
            event = await anext(events)
            uri = getattr(event.notification.params, "uri", None)
            received.append((event.server, event.notification.method, uri))
        await events.aclose()
    assert [result.text for result in results] == [f"{name} answers" for name in NAMES]
    assert sorted(progress) == list(NAMES)
    updated, changed = (
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    )
    assert sorted(received, key=str) == sorted(
        [
            *((name, updated, f"a:{name}") for name in NAMES),
            *((name, changed, None) for name in NAMES),
        ],
        key=str,
    )


@pytest.mark.system("A17", "A45", "A50", "A53")
async def test_each_server_can_get_its_own_handler_at_any_time():
    def asking_server(name):
        def ask(_, server):
            server.call_id = server.current["id"]
            server.send(
                {
                    "jsonrpc": "2.0",
                    "id": "q",
                    "method": "sampling/createMessage",
                    "params": {
                        "messages": [
                            {"role": "user", "content": {"type": "text", "text": name}}
                        ],
                        "maxTokens": 5,
                    },
                }
            )
            return SILENCE

        class Asking(FakeServer):
            def receive(self, data):
                super().receive(data)
                last = self.received[-1]
                if last.get("id") == "q":
                    model = last.get("result", {}).get("model") or last["error"]["code"]
                    reply = {"jsonrpc": "2.0", "id": self.call_id}
                    self.send({**reply, "result": text(str(model))})

        return Asking({"tools/call": ask})

    def model(name):
        return lambda _: types.CreateMessageResult(
            role="assistant", content=types.TextContent("hm"), model=name
        )

    servers = {name: asking_server(name) for name in NAMES}
    async with Group(sampling=model("all")) as group:
        group.set_handlers("a", sampling=model("of a, before"))
        await group.connect_all(servers)
        answers = [(await group.call_tool(name, "x")).text for name in NAMES]
        assert answers == ["of a, before", "all", "all"]
        group.set_handlers("b", sampling=model("of b, meanwhile"))
        answers = [(await group.call_tool(name, "x")).text for name in NAMES]
        assert answers == ["of a, before", "of b, meanwhile", "all"]
