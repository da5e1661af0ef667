"""What the client promises in passing: options of each verb, bounds, fault, figures."""

import asyncio
import inspect
import json
import threading
from pathlib import Path

import attrs
import pytest
from fakes import SILENCE, FakeServer, text
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire import types

pytestmark = pytest.mark.anyio

BOUND_S = 10.0

# Whose fault...


def asking(**question):
    return {"resultType": "input_required", **question}


ROOTS = {"k": {"method": "roots/list", "params": {}}}


async def test_a_question_nobody_may_ask_is_the_servers_fault_and_no_error_of_its():
    server = FakeServer(
        {"tools/call": lambda *_: asking(inputRequests=ROOTS)}, version="2026-07-28"
    )
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.RemoteProtocolError, match="roots/list"):
            await client.call_tool("x")


# Bounds...


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


async def test_input_rounds_end_at_the_clients_limit():
    server = FakeServer(
        {"tools/call": lambda *_: asking(requestState="again")}, version="2026-07-28"
    )
    limits = mcpwire.Limits(input_rounds=1)
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(server, limits=limits) as client,
    ):
        with pytest.raises(mcpwire.RemoteProtocolError, match="after 1 rounds"):
            await client.call_tool("x")
    assert len(server.requests("tools/call")) == 2


async def test_iterating_ends_at_the_clients_limit_of_pages():
    def page(params, _):
        return {"tools": [], "nextCursor": params.get("cursor", "") + "x"}

    limits = mcpwire.Limits(pages=3)
    server = FakeServer({"tools/list": page})
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(server, limits=limits) as client,
    ):
        with pytest.raises(mcpwire.RemoteProtocolError, match="3 pages"):
            _ = [tool async for tool in client.iter_tools()]
    assert len(server.requests("tools/list")) == 3


async def test_progress_beyond_the_limit_is_dropped_while_a_callback_is_slow():
    def flood(params, server):
        token = params["_meta"]["progressToken"]
        for step in range(100):
            server.notify("notifications/progress", progressToken=token, progress=step)
        return text("done")

    seen = []

    async def slowly(progress, *_):
        await asyncio.sleep(0)
        seen.append(progress)

    limits = mcpwire.Limits(notifications=10)
    server = FakeServer({"tools/call": flood})
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(server, limits=limits) as client,
    ):
        await client.call_tool("x", on_progress=slowly)
    assert seen == list(range(11))  # the first, and the ten that may wait behind it


LATER = {"head", "oauth_document", "oauth_timeout"}
"""Limits of transports that are not written yet."""


def test_each_limit_is_read_by_the_code_that_keeps_it():
    package = Path(mcpwire.__file__).parent
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in package.rglob("*.py")
        if path != package / "limits.py"
    )
    unread = {
        field.name
        for field in attrs.fields(mcpwire.Limits)
        if f"imits.{field.name}" not in code
    }
    assert unread == LATER


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


def test_every_verb_that_sends_a_request_stands_in_the_table():
    verbs = {
        name
        for name, function in inspect.getmembers(mcpwire.Client, inspect.isfunction)
        if {"options", "on_progress"} & set(inspect.signature(function).parameters)
        and not name.startswith(("_", "iter_"))
    }
    assert verbs - {"discover"} == set(VERBS)


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
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
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
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="HTTP only"):
            await getattr(client, verb)(*args, headers={"x": "y"})
    assert server.requests(method) == []


@pytest.mark.parametrize("noun", ["tools", "resources", "resource_templates"])
async def test_iterating_takes_the_options_too(noun):
    server = FakeServer(
        {"tools/list": lambda *_: SILENCE, "resources/list": lambda *_: SILENCE}
        | {"resources/templates/list": lambda *_: SILENCE}
    )
    async with asyncio.timeout(BOUND_S), mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            _ = [x async for x in getattr(client, f"iter_{noun}")(timeout=0.01)]
    assert caught.value.timeout == 0.01


async def test_it_introduces_itself_as_it_is_told_and_hears_instructions():
    server = FakeServer(instructions="be kind")
    who = types.Implementation("mine", "7", title="Mine")
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(server, client_info=who, mode="session") as client,
    ):
        assert client.instructions == "be kind"
        assert client.server_info == types.Implementation("fake", "1")
        assert client.session_id is None
    (opening,) = server.requests("initialize")
    assert opening["clientInfo"] == {"name": "mine", "version": "7", "title": "Mine"}


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


async def test_ping_returns_the_seconds_that_passed():
    async with asyncio.timeout(BOUND_S), mcpwire.Client(FakeServer()) as client:
        started = client._connection.time()
        seconds = await client.ping()
        assert 0 < seconds <= client._connection.time() - started


# Figures...


async def test_stats_count_over_all_connections():
    def call(_, server):
        server.send({"jsonrpc": "2.0", "id": 999, "result": {}})
        return text("ok")

    server = FakeServer({"tools/call": call})
    client = mcpwire.Client(server, mode="session")
    sent = 0
    for connections in (1, 2):
        async with asyncio.timeout(BOUND_S), client:
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


# The connection...


async def test_connecting_while_it_closes_waits_and_then_connects():
    client = mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP))
    async with asyncio.timeout(BOUND_S):
        await client.connect()
        first = client._connection.channel.pid
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        await client.connect()
        assert closing.done()
        assert client._connection.channel.pid != first
        assert (await client.call_tool("x", {"text": "hi"})).text == "hi"
        await client.aclose()


async def test_closing_waits_until_a_callback_it_cancelled_has_ended():
    entered, left = asyncio.Event(), asyncio.Event()

    async def callback(_):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            left.set()

    server = FakeServer()
    client = mcpwire.Client(server, on_notification=callback)
    async with asyncio.timeout(BOUND_S):
        await client.connect()
        server.notify("notifications/tools/list_changed")
        await entered.wait()
        await client.aclose()
        assert left.is_set()


async def test_a_client_forgotten_in_another_thread_is_let_go_on_its_own():
    client = mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP))
    async with asyncio.timeout(BOUND_S):
        await client.connect()
        channel = client._connection.channel
        threads = []
        abandon = channel.abandon
        done = asyncio.Event()

        def noted():
            threads.append(threading.current_thread())
            abandon()
            done.set()

        channel.abandon = noted
        with pytest.warns(ResourceWarning, match="unclosed"):
            await asyncio.to_thread(client.__del__)
        await done.wait()
    assert threads == [threading.current_thread()]


async def test_noise_before_the_agreement_is_told_in_the_log(caplog):
    target = scripted("raw(b'Welcome!\\n'); handshake()\n" + ECHO_LOOP)
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
        assert client.stats.noise == ("Welcome!",)
    assert "1 line(s) to stdout that are no messages" in caplog.text
    assert "Welcome!" in caplog.text


async def test_a_call_that_times_out_quotes_the_noise():
    target = scripted("handshake()\nrecv(); raw(b'oops, no JSON\\n'); recv(); recv()")
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("x", timeout=0.3)
    assert "oops, no JSON" in str(caught.value)


async def test_a_child_gets_arguments_folder_and_variables_exactly_as_given(tmp_path):
    odd = ["$HOME", "*", "a b", "", "'", '"', "\\", ";true", "--x=\n"]
    body = (
        "handshake()\nm = recv()\n"
        "text(m, json.dumps([sys.argv[1:], os.getcwd(), os.environ['LANG']])); recv()"
    )
    target = scripted(body, *odd, cwd=tmp_path, env={"LANG": "mine"})
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
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


async def test_a_connection_that_is_lost_shows_no_url_s_secrets():
    target = scripted("handshake()\nrecv()", "https://me:hush@example.com/?hush")
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert "example.com" in caught.value.target
    assert "hush" not in caught.value.target + str(caught.value)
