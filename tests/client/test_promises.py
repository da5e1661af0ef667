"""What the client promises in passing: options of each verb, bounds, fault, figures."""

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

BOUND_S = 30.0

# Whose fault...


def asking(**question):
    return {"resultType": "input_required", **question}


ROOTS = {"k": {"method": "roots/list", "params": {}}}


@pytest.mark.rule("RPC-30")
async def test_a_question_nobody_may_ask_is_the_servers_fault_and_no_error_of_its():
    server = FakeServer(
        {"tools/call": lambda *_: asking(inputRequests=ROOTS)}, version="2026-07-28"
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
"""What answers requests does so with errors."""


@pytest.mark.timeout(180)
@pytest.mark.rule("RPC-30")
def test_no_code_of_the_clients_side_raises_an_error_of_the_peers():
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


# Bounds...


@on_a_virtual_clock
async def test_one_timeout_spans_all_input_rounds_and_the_pauses_between_them():
    server = FakeServer(
        {"tools/call": lambda *_: asking(requestState="busy")}, version="2026-07-28"
    )
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("x", timeout=0.1)
    assert caught.value.method == "tools/call"
    assert caught.value.timeout == 0.1
    # The first pause is half a second; the call did not wait for its end.
    assert 0.1 <= caught.value.elapsed < 0.5
    assert len(server.requests("tools/call")) == 2


@on_a_virtual_clock
async def test_a_later_round_has_what_the_first_has_left_of_the_time():
    def call(params, server):
        if "requestState" not in params:
            more = asking(requestState="more")
            answer = {"jsonrpc": "2.0", "id": server.current["id"], "result": more}
            asyncio.get_running_loop().call_later(0.2, server.send, answer)
        return SILENCE

    server = FakeServer({"tools/call": call}, version="2026-07-28")
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        started = client._connection.time()
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("x", timeout=0.3)
        taken = client._connection.time() - started
    assert len(server.requests("tools/call")) == 2
    # Its clock began with the call and not with the second round, 0.2 s later.
    assert taken - caught.value.elapsed < 0.1


async def test_progress_extends_a_call_to_ten_timeouts_unless_told_otherwise():
    options = {"reset_timeout_on_progress": True}
    for given, maximum in ({}, 20.0), ({"max_timeout": 5.0}, 5.0):
        client = mcpwire.Client(FakeServer(), **options, **given)
        deadline = client._requests.deadline(2.0)
        assert deadline.at - deadline.started == pytest.approx(2.0)
        deadline.extend(deadline.started + 1000)
        assert deadline.at - deadline.started == pytest.approx(maximum)


@pytest.mark.system("U31")
async def test_input_rounds_end_at_the_clients_limit():
    server = FakeServer(
        {"tools/call": lambda *_: asking(requestState="again")}, version="2026-07-28"
    )
    limits = mcpwire.Limits(input_rounds=1)
    async with mcpwire.Client(server, limits=limits) as client:
        with pytest.raises(mcpwire.RemoteProtocolError, match="after 1 rounds"):
            await client.call_tool("x")
    assert len(server.requests("tools/call")) == 2


async def test_progress_beyond_the_limit_is_dropped_while_a_callback_is_slow():
    def flood(params, server):
        token = params["_meta"]["progressToken"]
        for step in range(100):
            server.notify("notifications/progress", progressToken=token, progress=step)
        return text("done")

    seen = []

    async def slowly(progress, *_):
        await asyncio.sleep(0)  # a turn of the loop
        seen.append(progress)

    limits = mcpwire.Limits(notifications=10)
    server = FakeServer({"tools/call": flood})
    async with mcpwire.Client(server, limits=limits) as client:
        await client.call_tool("x", on_progress=slowly)
    assert seen == [0, *range(90, 100)]  # the first, and the newest ten behind it


def test_each_limit_is_read_by_the_code_that_keeps_it():
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


# Options...

PROMPT = types.PromptReference("p")
ITEMS = [("tools", "tools"), ("resources", "resources"), ("prompts", "prompts")]
VERBS = {
    "call_tool": ("tools/call", ("x",), {"content": []}),
    "read_resource": ("resources/read", ("a:b",), {"contents": []}),
    "read_text": ("resources/read", ("a:b",), {"contents": []}),
    "read_bytes": ("resources/read", ("a:b",), {"contents": []}),
    "get_prompt": ("prompts/get", ("p",), {"messages": []}),
    "complete": (
        "completion/complete",
        (PROMPT, "a"),
        {"completion": {"values": []}},
    ),
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

# What is neither one request nor takes progress has tests of its own.
ELSEWHERE = {"discover", "start_call", "listen", "watch", "subscribe", "unsubscribe"}

# Skills need an extension that is switched on; `test_skills.py` has them.
ELSEWHERE |= {
    "get_skill",
    "list_skills",
    "list_skills_page",
    "load_skill",
    "read_directory",
}


@pytest.mark.system("L-V1")
def test_every_verb_that_sends_a_request_stands_in_the_table():
    verbs = {
        name
        for name, function in inspect.getmembers(mcpwire.Client, inspect.isfunction)
        if {"options", "on_progress"} & set(inspect.signature(function).parameters)
        and not name.startswith(("_", "iter_"))
    }
    assert verbs - ELSEWHERE == set(VERBS)


@pytest.mark.system("L-V1")
@VERB
async def test_every_verb_takes_meta_progress_and_a_timeout(verb):
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
async def test_every_verb_refuses_headers_elsewhere_than_over_http(verb):
    method, args, result = VERBS[verb]
    server = FakeServer({method: lambda *_: result})
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="HTTP only"):
            await getattr(client, verb)(*args, headers={"x": "y"})
    assert server.requests(method) == []


@pytest.mark.parametrize("noun", ["tools", "resources", "resource_templates"])
async def test_iterating_takes_the_options_too(noun):
    server = FakeServer(
        {"tools/list": lambda *_: SILENCE, "resources/list": lambda *_: SILENCE}
        | {"resources/templates/list": lambda *_: SILENCE}
    )
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            _ = [x async for x in getattr(client, f"iter_{noun}")(timeout=0.01)]
    assert caught.value.timeout == 0.01


@pytest.mark.system("U05")
async def test_it_introduces_itself_as_it_is_told_and_hears_instructions():
    server = FakeServer(instructions="be kind")
    who = types.Implementation("mine", "7", title="Mine")
    async with mcpwire.Client(server, client_info=who, mode="session") as client:
        assert client.instructions == "be kind"
        assert client.server_info == types.Implementation("fake", "1")
        assert client.session_id is None
    (opening,) = server.requests("initialize")
    assert opening["clientInfo"] == {"name": "mine", "version": "7", "title": "Mine"}
    with pytest.raises(TypeError, match="takes an Implementation, got 3"):
        mcpwire.Client(server, client_info=3)


@on_a_virtual_clock
async def test_without_a_probe_timeout_the_probe_stays_alone():
    server = FakeServer({"server/discover": lambda *_: SILENCE})
    client = mcpwire.Client(server, probe_timeout=None, connect_timeout=0.2)
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.connect()
    assert caught.value.timeout == 0.2
    assert {message["method"] for message in server.received} == {"server/discover"}


async def test_without_a_connect_timeout_connecting_waits():
    server = FakeServer({"server/discover": lambda *_: SILENCE})
    client = mcpwire.Client(server, connect_timeout=None, probe_timeout=None)
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.1):
            await client.connect()
    assert not isinstance(caught.value, mcpwire.MCPError)


# Figures...


async def test_stats_count_over_all_connections():
    def call(_, server):
        server.send({"jsonrpc": "2.0", "id": 999, "result": {}})
        return text("ok")

    server = FakeServer({"tools/call": call})
    client = mcpwire.Client(server, mode="session")
    sent = 0
    for connections in (1, 2):
        async with client:
            await client.call_tool("x")
            sent += client._connection.channel.bytes_sent
            during = client.stats
        after = client.stats
        assert after == during
        assert after.connections == connections
        assert after.requests == 2 * connections  # initialize and the call
        assert after.messages == 3 * connections  # their answers and one for nobody
        assert after.unknown_answers == connections
        assert after.bytes_sent == sent
    client.stats.requests = 0  # what is given out is the caller's own
    assert client.stats.requests == 4
