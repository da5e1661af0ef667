"""Smaller promises of the client: options, bounds, error classes and statistics."""

import ast
import asyncio
import inspect
from pathlib import Path

import attrs
import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer, text

import mcpwire
from mcpwire import errors, types


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


@on_a_virtual_clock
@pytest.mark.parametrize("given", [{}, {"max_timeout": 5.0}])
async def test_progress_extends_a_call_to_ten_timeouts_by_default(given):
    def call(params, server):
        def report(number):
            server.notify(
                "notifications/progress",
                progressToken=params["_meta"]["progressToken"],
                progress=number,
            )
            loop.call_later(1.0, report, number + 1)

        report(1)
        return SILENCE

    loop = asyncio.get_running_loop()
    client = mcpwire.Client(
        FakeServer({"tools/call": call}), reset_timeout_on_progress=True, **given
    )
    async with client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("x", timeout=2.0, on_progress=lambda *_: None)
    assert caught.value.elapsed == pytest.approx(given.get("max_timeout", 20.0))


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
