"""Smaller promises and rules of a client and its connection: options, bounds."""

import ast
import asyncio
import inspect
import json
import logging
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import attrs
import pytest
from clocks import on_a_clock_by_hand, on_a_virtual_clock
from fakes import SILENCE, FakeServer, text
from loop_polling import until
from scripted import ECHO_LOOP, pid_of, scripted

import mcpwire
from mcpwire import errors, types
from mcpwire.server.demo import demo_dispatcher
from mcpwire.transports.stdio import StdioChannel


def input_required(**question):
    return {"resultType": "input_required", **question}


ROOTS = {"k": {"method": "roots/list", "params": {}}}


@pytest.mark.rule("RPC-30")
async def test_an_undeclared_input_request_is_a_protocol_error():
    server = FakeServer(
        {"tools/call": lambda *_: input_required(inputRequests=ROOTS)},
        version="2026-07-28",
    )
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.RemoteProtocolError, match="roots/list"):
            await client.call_tool("x")
    assert len(server.requests("tools/call")) == 1


RPC_ERRORS = {
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, mcpwire.RPCError)
}
PACKAGE = Path(mcpwire.__file__).parent
ANSWERING = {
    PACKAGE / "protocol" / f"{name}.py"
    for name in (
        "client_features",
        "input_requests",
        "request_state",
        "request_validation",
        "tasks",
    )
}
"""These modules answer requests, with errors as well."""


@pytest.mark.timeout(180)
@pytest.mark.rule("RPC-30")
def test_client_code_does_not_raise_rpc_errors():
    paths = [
        path
        for folder in ("wire", "types", "protocol", "transports", "client", "sync")
        for path in (PACKAGE / folder).rglob("*.py")
        if path not in ANSWERING
    ]
    raised = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and getattr(node.exc.func, "id", None) in RPC_ERRORS | {"rpc_error"}
    ]
    assert raised == []


@on_a_virtual_clock
async def test_one_timeout_spans_all_input_rounds_and_pauses():
    server = FakeServer(
        {"tools/call": lambda *_: input_required(requestState="busy")},
        version="2026-07-28",
    )
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("x", timeout=0.1)
    assert caught.value.method == "tools/call"
    assert caught.value.timeout == 0.1
    # The first pause is half a second; the call did not wait until its end.
    assert 0.1 <= caught.value.elapsed < 0.5
    assert len(server.requests("tools/call")) == 2


@on_a_virtual_clock
async def test_a_later_round_has_the_remaining_time():
    def call(params, server):
        if "requestState" not in params:
            more = input_required(requestState="more")
            answer = {"jsonrpc": "2.0", "id": server.current["id"], "result": more}
            asyncio.get_running_loop().call_later(0.2, server.send, answer)
        return SILENCE

    server = FakeServer({"tools/call": call}, version="2026-07-28")
    async with mcpwire.Client(server) as client:
        time = asyncio.get_running_loop().time
        started = time()
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("x", timeout=0.3)
        taken = time() - started
    assert len(server.requests("tools/call")) == 2
    # The timeout began with the call and not with the second round, 0.2 s later.
    assert taken - caught.value.elapsed < 0.1


@pytest.mark.system("U31")
async def test_input_rounds_end_at_the_clients_limit():
    server = FakeServer(
        {"tools/call": lambda *_: input_required(requestState="again")},
        version="2026-07-28",
    )
    limits = mcpwire.Limits(input_rounds=1)
    async with mcpwire.Client(server, limits=limits) as client:
        with pytest.raises(mcpwire.RemoteProtocolError, match="after 1 rounds"):
            await client.call_tool("x")
    assert len(server.requests("tools/call")) == 2


async def test_excess_progress_is_dropped_for_a_slow_callback():
    def flood(params, server):
        token = params["_meta"]["progressToken"]
        for step in range(100):
            server.notify("notifications/progress", progressToken=token, progress=step)
        return text("done")

    seen = []

    async def slowly(progress, *_):
        await asyncio.sleep(0)  # one loop iteration
        seen.append(progress)

    limits = mcpwire.Limits(notifications=10)
    server = FakeServer({"tools/call": flood})
    async with mcpwire.Client(server, limits=limits) as client:
        await client.call_tool("x", on_progress=slowly)
    assert seen == [0, *range(90, 100)]  # the first, and the newest ten behind it


def test_each_limit_is_used_in_the_package():
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "limits.py"
    )
    unread = {
        field.name
        for field in attrs.fields(mcpwire.Limits)
        if f"imits.{field.name}" not in code
    }
    assert unread == set()


PROMPT = types.PromptReference("p")
ITEMS = [("tools", "tools"), ("resources", "resources"), ("prompts", "prompts")]
VERBS = {
    "call_tool": ("tools/call", ("x",), {"content": []}),
    "read_resource": ("resources/read", ("a:b",), {"contents": []}),
    "read_text": ("resources/read", ("a:b",), {"contents": []}),
    "read_bytes": ("resources/read", ("a:b",), {"contents": []}),
    "get_prompt": ("prompts/get", ("p",), {"messages": []}),
    "complete": ("completion/complete", (PROMPT, "a"), {"completion": {"values": []}}),
    "ping": ("ping", (), {}),
    "set_log_level": ("logging/setLevel", ("info",), {}),
    "request": ("x/y", ("x/y",), {}),
    **{
        f"list_{noun}{ending}": (f"{noun}/list", (), {key: []})
        for noun, key in ITEMS
        for ending in ("", "_page")
    },
    **{
        f"list_resource_templates{ending}": (
            "resources/templates/list",
            (),
            {"resourceTemplates": []},
        )
        for ending in ("", "_page")
    },
}
VERB = pytest.mark.parametrize("verb", VERBS)

# Methods that send several requests or take no progress have their own tests.
ELSEWHERE = {"discover", "start_call", "listen", "watch", "subscribe", "unsubscribe"}

# Skills need an extension; `test_skills.py` has their tests.
ELSEWHERE |= {
    "get_skill",
    "list_skills",
    "list_skills_page",
    "load_skill",
    "read_directory",
}


@pytest.mark.system("L-V1")
def test_every_request_method_is_in_the_table():
    verbs = {
        name
        for name, function in inspect.getmembers(mcpwire.Client, inspect.isfunction)
        if {"options", "on_progress"} & set(inspect.signature(function).parameters)
        and not name.startswith(("_", "iter_"))
    }
    assert verbs - ELSEWHERE == set(VERBS)


@pytest.mark.system("L-V1")
@VERB
async def test_every_request_method_takes_meta_progress_and_timeout(verb):
    method, args, result = VERBS[verb]

    metas, seen = [], []

    def handle(params, server):
        metas.append(params["_meta"])
        token = params["_meta"]["progressToken"]
        server.notify("notifications/progress", progressToken=token, progress=1)
        return result

    server = FakeServer({method: handle})
    async with mcpwire.Client(server) as client:
        call = getattr(client, verb)
        await call(*args, meta={"k": "v"}, on_progress=lambda *p: seen.append(p))
        server.methods[method] = lambda *_: SILENCE
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await call(*args, timeout=0.01)
    assert caught.value.timeout == 0.01
    assert caught.value.method == method
    assert [meta["k"] for meta in metas] == ["v"]
    assert seen == [(1, None, None)]


@VERB
async def test_every_request_method_refuses_headers_without_http(verb):
    method, args, result = VERBS[verb]
    server = FakeServer({method: lambda *_: result})
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="HTTP only"):
            await getattr(client, verb)(*args, headers={"x": "y"})
    assert server.requests(method) == []


@pytest.mark.parametrize("noun", ["tools", "resources", "resource_templates"])
async def test_iterators_take_the_request_options(noun):
    server = FakeServer(
        {"tools/list": lambda *_: SILENCE, "resources/list": lambda *_: SILENCE}
        | {"resources/templates/list": lambda *_: SILENCE}
    )
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            _ = [x async for x in getattr(client, f"iter_{noun}")(timeout=0.01)]
    assert caught.value.timeout == 0.01


@pytest.mark.system("U05")
async def test_client_info_is_sent_and_instructions_are_read():
    server = FakeServer(instructions="be kind")
    info = types.Implementation("mine", "7", title="Mine")
    async with mcpwire.Client(server, client_info=info, mode="session") as client:
        assert client.instructions == "be kind"
        assert client.server_info == types.Implementation("fake", "1")
        assert client.session_id is None
    (opening,) = server.requests("initialize")
    assert opening["clientInfo"] == {"name": "mine", "version": "7", "title": "Mine"}
    with pytest.raises(TypeError, match="takes an Implementation, got 3"):
        mcpwire.Client(server, client_info=3)


@on_a_virtual_clock
async def test_without_probe_timeout_only_the_probe_is_sent():
    server = FakeServer({"server/discover": lambda *_: SILENCE})
    client = mcpwire.Client(server, probe_timeout=None, connect_timeout=0.2)
    with pytest.raises(mcpwire.RequestTimeout) as caught:
        await client.connect()
    assert caught.value.timeout == 0.2
    assert {message["method"] for message in server.received} == {"server/discover"}


async def test_without_connect_timeout_connecting_waits():
    server = FakeServer({"server/discover": lambda *_: SILENCE})
    client = mcpwire.Client(server, connect_timeout=None, probe_timeout=None)
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.1):
            await client.connect()
    assert not isinstance(caught.value, mcpwire.MCPError)


async def test_stats_count_over_all_connections():
    def call(_, server):
        server.send({"jsonrpc": "2.0", "id": 999, "result": {}})
        return text("ok")

    class Counting(FakeServer):
        bytes_received = 0

        def receive(self, data):
            self.bytes_received += len(data)
            super().receive(data)

    server = Counting({"tools/call": call})
    client = mcpwire.Client(server, mode="session")
    for connections in (1, 2):
        async with client:
            await client.call_tool("x")
            during = client.stats
        after = client.stats
        assert after == during
        assert after.connections == connections
        assert after.requests == 2 * connections  # initialize and the call
        assert after.messages == 3 * connections  # with an unknown response
        assert after.unknown_answers == connections
        assert after.bytes_sent == server.bytes_received
    client.stats.requests = 0  # `stats` returns a copy
    assert client.stats.requests == 4


META = "io.modelcontextprotocol/"


@pytest.mark.rule("RPC-24")
async def test_our_error_codes_avoid_the_reserved_range():
    codes = {
        cls.default_code
        for cls in vars(errors).values()
        if inspect.isclass(cls) and issubclass(cls, errors.RPCError)
    }
    assert codes & set(range(-32019, -31999)) == {-32002}


ODD_REQUESTS = [
    ("tools/call", {"name": "nope"}),
    ("tools/list", {"cursor": "nope"}),
    ("resources/read", {"uri": "demo://nope"}),
    ("prompts/get", {"name": "nope"}),
    ("nope/nope", None),
]


@pytest.mark.parametrize("mode", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("method", "params"), ODD_REQUESTS)
@pytest.mark.rule("RPC-32")
async def test_each_server_error_is_one_concise_sentence(method, params, mode):
    async with mcpwire.Client(demo_dispatcher(), mode=mode) as client:
        with pytest.raises(mcpwire.RPCError) as caught:
            await client.request(method, params)
    message = caught.value.message
    assert 0 < len(message) < 150
    assert message.isprintable()
    assert not message.endswith(".")


@pytest.mark.rule("LIFE-09", "LIFE-17")
async def test_an_unsupported_version_ends_the_connection():
    server = FakeServer(version="2099-01-01")
    client = mcpwire.Client(server)
    with pytest.raises(mcpwire.NegotiationError, match="2099-01-01") as caught:
        await client.connect()
    assert caught.value.supported == ("2099-01-01",)
    assert not client.is_connected
    assert server.channel.lost is not None
    methods = [message["method"] for message in server.received]
    assert "notifications/initialized" not in methods


def named(name):
    return {META + "serverInfo": {"name": name, "version": "9.9"}}


@pytest.mark.rule("META-12")
async def test_the_name_of_the_server_changes_no_messages():
    sent = []
    for name in ("fake", "modelcontextprotocol/official"):
        server = FakeServer(
            {"tools/call": lambda *_: {**text("x"), "resultType": "complete"}},
            version="2026-07-28",
            _meta=named(name),
        )
        async with mcpwire.Client(server) as client:
            await client.call_tool("x")
            assert client.server_info.name == name
        sent.append(server.received)
    assert sent[0] == sent[1]


@pytest.mark.rule("META-04")
@pytest.mark.parametrize("value", [None, True, 0, "", [], {"a": 1}])
async def test_unknown_values_at_reserved_meta_keys_are_kept(value):
    meta = {META + "something-new": value}
    server = FakeServer({"tools/call": lambda *_: {**text("x"), "_meta": meta}})
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x")
    assert result.meta == meta
    assert types.encode(result)["_meta"] == meta


@pytest.mark.rule("TR-STDIO-05")
async def test_stderr_output_of_a_server_is_not_an_error(caplog):
    body = (
        "handshake()\n"
        "sys.stderr.write('ERROR: all is well\\nTraceback (most recent call):\\n')\n"
        "sys.stderr.flush()\n"
    )
    caplog.set_level(logging.INFO, "mcpwire")
    async with mcpwire.Client(scripted(body + ECHO_LOOP)) as client:
        assert (await client.call_tool("x", {"text": "hi"})).text == "hi"
        assert client.stats.noise_lines == 0
    assert caplog.records == []


HEADED = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "not a token"}},
}


@pytest.mark.rule("HDR-13", "TR-STDIO-16")
async def test_header_annotations_are_ignored_without_http():
    server = FakeServer(
        {
            "tools/list": lambda *_: {"tools": [{"name": "x", "inputSchema": HEADED}]},
            "tools/call": lambda *_: text("x"),
        }
    )
    async with mcpwire.Client(server) as client:
        (tool,) = await client.list_tools()
        await client.call_tool("x", {"region": "north"})
    assert tool.input_schema == HEADED
    assert server.requests("tools/call") == [
        {"name": "x", "arguments": {"region": "north"}}
    ]


@pytest.mark.rule("TR-STDIO-17")
async def test_stdio_credentials_are_passed_in_the_environment_only():
    body = (
        "handshake()\n"
        "while True:\n"
        "    m = recv()\n"
        "    if 'id' in m:\n"
        "        text(m, os.environ['A_TOKEN'])\n"
    )
    target = scripted(body, env={"A_TOKEN": "s3cret"})
    async with mcpwire.Client(target) as client:
        assert (await client.call_tool("x")).text == "s3cret"
        assert "s3cret" not in repr(client)
    assert "s3cret" not in repr(target)
    assert "auth" not in inspect.signature(mcpwire.Stdio).parameters


@pytest.mark.rule("PROG-04")
async def test_progress_after_the_response_is_not_delivered():
    received = []

    def call(params, server):
        token = params["_meta"]["progressToken"]
        server.notify("notifications/progress", progressToken=token, progress=1)
        loop = asyncio.get_running_loop()
        loop.call_soon(
            lambda: server.notify(
                "notifications/progress", progressToken=token, progress=2
            )
        )
        return text("x")

    server = FakeServer({"tools/call": call, "resources/list": lambda *_: {}})
    async with mcpwire.Client(server) as client:
        await client.call_tool("x", on_progress=lambda *step: received.append(step))
        await client.ping()  # so that all messages before its response are read
    assert received == [(1, None, None)]


BOUND_S = 30.0


async def test_connect_during_close_waits_and_then_connects():
    client = mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP))
    await client.connect()
    first = pid_of(client)
    closing = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)  # one loop iteration
    await client.connect()
    assert closing.done()
    assert pid_of(client) != first
    assert (await client.call_tool("x", {"text": "hi"})).text == "hi"
    await client.aclose()


async def test_closing_waits_for_a_cancelled_callback():
    entered, left = asyncio.Event(), asyncio.Event()

    async def callback(_):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)  # one loop iteration
            left.set()

    server = FakeServer()
    client = mcpwire.Client(server, on_notification=callback)
    await client.connect()
    server.notify("notifications/tools/list_changed")
    await entered.wait()
    await client.aclose()
    assert left.is_set()


async def test_a_client_collected_in_another_thread_ends_on_its_loop(monkeypatch):
    client = mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP))
    await client.connect()
    threads = []
    abandon = StdioChannel.abandon
    done = asyncio.Event()

    def record_thread(channel):
        threads.append(threading.current_thread())
        abandon(channel)
        done.set()

    monkeypatch.setattr(StdioChannel, "abandon", record_thread)
    with pytest.warns(ResourceWarning, match="unclosed"):
        await asyncio.to_thread(client.__del__)
    await done.wait()
    assert threads == [threading.current_thread()]


async def test_noise_before_the_handshake_is_logged(caplog):
    target = scripted("raw(b'Welcome!\\n'); handshake()\n" + ECHO_LOOP)
    async with mcpwire.Client(target) as client:
        assert client.stats.noise == ("Welcome!",)
    assert "1 line(s) that are not messages" in caplog.text
    assert "Welcome!" in caplog.text


@on_a_clock_by_hand
async def test_a_request_timeout_quotes_the_noise():
    target = scripted("handshake()\nrecv(); raw(b'oops, no JSON\\n'); recv(); recv()")
    async with mcpwire.Client(target) as client:
        call = asyncio.create_task(client.call_tool("x", timeout=1))
        await until(lambda: client.stats.noise)
        await asyncio.get_running_loop().advance(2)
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await call
    assert "oops, no JSON" in str(caught.value)


@pytest.mark.system("A11", "A12", "A13", "L-A4")
async def test_a_child_gets_arguments_folder_and_variables_unchanged(tmp_path):
    odd = ["$HOME", "*", "a b", "", "'", '"', "\\", ";true", "--x=\n"]
    body = (
        "handshake()\nm = recv()\n"
        "text(m, json.dumps([sys.argv[1:], os.getcwd(), os.environ['LANG']])); recv()"
    )
    target = scripted(body, *odd, cwd=tmp_path, env={"LANG": "mine"})
    async with mcpwire.Client(target) as client:
        result = await client.call_tool("x")
        assert "\n" not in repr(client)
    assert json.loads(result.text) == [odd, str(tmp_path), "mine"]


async def test_no_url_in_a_command_shows_its_secrets():
    secret = "https://me:hush@example.com/mcp?token=hush#hush"
    target = mcpwire.Stdio(
        "no-such-command-at-all", [secret, f"--url={secret}", '{"a": "b"}']
    )
    client = mcpwire.Client(target)
    shown = [repr(client), repr(target), str(target)]
    with pytest.raises(mcpwire.LocalProtocolError) as refused:
        await client.ping()
    with pytest.raises(mcpwire.ConnectError) as failed:
        await client.connect()
    for error in (refused.value, failed.value):
        shown += [str(error), repr(error), str(getattr(error, "target", ""))]
    assert [line for line in shown if "hush" in line] == []
    assert "--url=https://***@example.com/mcp?***" in str(target)
    assert target.args == (secret, f"--url={secret}", '{"a": "b"}')


async def test_the_error_of_a_lost_connection_hides_url_secrets():
    target = scripted("handshake()\nrecv()", "https://me:hush@example.com/?hush")
    async with mcpwire.Client(target) as client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert "example.com" in caught.value.target
    assert "hush" not in caught.value.target + str(caught.value)


@pytest.mark.system("O81")
@pytest.mark.rule("LIFE-05")
async def test_only_the_handshake_is_sent_before_it_completes():
    server = FakeServer({"tools/call": lambda *_: text("too early")})
    client = mcpwire.Client(server, mode="session")
    opened = asyncio.Event()

    def opening(*_):
        opened.set()
        return SILENCE

    server.methods["initialize"] = opening
    connecting = asyncio.create_task(client.connect())
    await opened.wait()
    early = (
        lambda: client.call_tool("x"),
        lambda: client.request("tools/call", {"name": "x"}),
        lambda: client.notify("notifications/mine"),
        client.ping,
    )
    for use in early:
        with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
            await use()
    await client.aclose()
    with pytest.raises(mcpwire.ConnectionClosed):
        await connecting
    assert [message["method"] for message in server.received] == ["initialize"]


async def test_each_connection_has_its_own_negotiation_record():
    client = mcpwire.Client(FakeServer())
    records = []
    for _ in range(2):
        async with client:
            records.append(client.negotiation)
    first, second = ([step.event for step in record.steps] for record in records)
    assert first == second
    assert records[0] is not records[1]
    times = [step.at for step in records[1].steps]
    assert times == sorted(times)
    assert (first[0], first[-1]) == ("sent server/discover", "agreed")
    assert "\n" not in repr(records[0])


async def test_errors_of_a_connection_name_its_target():
    target = scripted("handshake()\nrecv(); recv()", "the-one")
    async with mcpwire.Client(target) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await asyncio.sleep(0)  # one loop iteration
        await client.aclose()
        with pytest.raises(mcpwire.ConnectionClosed) as closed:
            await call
        with pytest.raises(mcpwire.ConnectError) as refused:
            await mcpwire.Client(scripted("sys.exit(1)", "the-one")).connect()
    for error in (closed.value, refused.value):
        assert error.target.endswith("the-one")


async def test_the_stderr_tail_is_limited():
    target = scripted("os.write(2, b'x' * 5000 + b'end')\nhandshake()\nsys.exit(1)")
    limits = mcpwire.Limits(stderr_tail=100)
    client = mcpwire.Client(target, limits=limits)
    async with client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert caught.value.stderr_tail == "x" * 97 + "end"


async def test_the_stderr_tail_includes_unread_output():
    target = scripted("recv()\nos.write(2, b'now')\nrecv()")
    channel = StdioChannel(Mock(), target, mcpwire.Limits())
    channel.notify_nowait("notifications/mine")
    while not channel.stderr_tail:
        time.sleep(0.001)  # noqa: ASYNC251 - no loop iteration may read it
    assert channel.stderr_tail == "now"
    await channel.aclose()


@pytest.fixture
def server():
    made = mcpwire.Server("under-test")

    @made.tool
    async def divide(a: int, b: int) -> int:
        return a // b

    @made.tool
    def refuse() -> str:
        raise mcpwire.ToolError("not today")

    @made.tool
    def stop() -> str:
        raise SystemExit(3)

    @made.resource("test://broken")
    def broken() -> str:
        raise KeyError("shelf")

    return made


@pytest.mark.parametrize("mode", ["stateless", "session"])
async def test_a_call_raises_the_exception_of_its_tool(server, mode, caplog):
    async with mcpwire.Client(server, mode=mode, raise_exceptions=True) as client:
        with pytest.raises(ZeroDivisionError) as caught:
            await client.call_tool("divide", {"a": 1, "b": 0})
        assert caught.traceback[-1].name == "divide"
        result = await client.call_tool("divide", {"a": 4, "b": 2})
        assert result.structured_content == {"result": 2}
        with pytest.raises(KeyError, match="shelf"):
            await client.read_text("test://broken")
    assert caplog.records == []


async def test_a_tool_error_stays_a_result(server):
    async with mcpwire.Client(server, raise_exceptions=True) as client:
        result = await client.call_tool("refuse")
        assert (result.is_error, result.text) == (True, "not today")
        result = await client.call_tool("stop")
        assert (result.is_error, result.text) == (True, "the tool failed")


async def test_by_default_the_exception_is_logged_only(server, caplog):
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("divide", {"a": 1, "b": 0})
        assert (result.is_error, result.text) == (True, "the tool failed")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_the_blocking_client_raises_exceptions_too(server):
    client = mcpwire.sync.Client(server, raise_exceptions=True)
    with client, pytest.raises(ZeroDivisionError):
        client.call_tool("divide", {"a": 1, "b": 0})


@pytest.mark.parametrize("target", ["http://localhost:1/mcp", "some-server"])
def test_raise_exceptions_needs_an_in_process_server(target):
    with pytest.raises(ValueError, match="raise_exceptions is for a server object in"):
        mcpwire.Client(target, raise_exceptions=True)
