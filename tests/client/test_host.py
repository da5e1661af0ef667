"""Requests of a server to the client: the same handlers in both eras."""

import asyncio

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer, text
from requesting_server import FORM, SAMPLE, STATELESS, Asking, Hanging, sampled

import mcpwire
from mcpwire import types
from mcpwire.wire.jsonrpc import failure

BOUND_S = 30.0


async def answer_of(server, **features):
    """Call a tool; return the answer that the server received."""
    async with mcpwire.Client(server, **features) as client:
        result = await client.call_tool("x")
    assert result.text == "done"
    return server.answered


ERA = pytest.mark.parametrize("version", ["2025-11-25", STATELESS])


@pytest.mark.system("A50")
@ERA
@pytest.mark.fault("F18")
@pytest.mark.rule("SAMP-01", "MRTR-12")
async def test_a_sampling_handler_answers_during_its_call(version):
    seen = []

    async def sample(params):
        await asyncio.sleep(0)  # one loop iteration
        seen.append(params)
        return sampled("Hi.")

    server = Asking("sampling/createMessage", SAMPLE, version)
    answer = await answer_of(server, sampling=sample)
    assert answer == {
        "result": {
            "role": "assistant",
            "content": {"type": "text", "text": "Hi."},
            "model": "m",
        }
    }
    assert type(seen[0]) is types.CreateMessageRequestParams
    assert seen[0].messages[0].content.text == "Hello?"
    assert "sampling" in declared(server)


def declared(server):
    """Return the capabilities the client declared."""
    if server.version == STATELESS:
        call = server.requests("tools/call")[0]
        return call["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    return server.requests("initialize")[0]["capabilities"]


@pytest.mark.system("A52")
@ERA
@pytest.mark.rule("ELIC-01", "ELIC-06", "ELIC-08")
async def test_form_defaults_complete_the_content_of_the_handler(version):
    server = Asking("elicitation/create", FORM, version)
    answer = await answer_of(
        server, elicitation=lambda form: {"name": form.message[:3]}
    )
    assert answer == {
        "result": {"action": "accept", "content": {"name": "Who", "age": 30}}
    }
    assert declared(server)["elicitation"] == {"form": {}}


@pytest.mark.system("A52")
@ERA
@pytest.mark.rule("ELIC-20")
@pytest.mark.parametrize(
    "content", [{"name": 7}, {"age": 7}, {"name": "A", "age": 121}]
)
async def test_content_that_does_not_fit_its_form_is_not_sent(version, content):
    server = Asking("elicitation/create", FORM, version)
    if version == STATELESS:
        with pytest.raises(mcpwire.LocalProtocolError, match="elicitation content"):
            await answer_of(server, elicitation=lambda _: content)
        assert len(server.requests("tools/call")) == 1
    else:
        answer = await answer_of(server, elicitation=lambda _: content)
        assert answer["error"]["code"] == -32603


@pytest.mark.system("A52")
@ERA
@pytest.mark.rule("MRTR-22")
async def test_a_declined_form_is_sent_to_the_server(version):
    server = Asking("elicitation/create", FORM, version)
    answer = await answer_of(
        server, elicitation=lambda _: types.ElicitResult(action="decline")
    )
    assert answer == {"result": {"action": "decline"}}


@pytest.mark.system("A51")
@ERA
@pytest.mark.rule("ROOT-01", "ROOT-02")
async def test_roots_are_read_at_the_time_of_the_request(version, tmp_path):
    roots = []
    server = Asking("roots/list", None, version)
    if version != STATELESS:
        del server.question["params"]
    roots.append(tmp_path)
    answer = await answer_of(server, roots=roots)
    assert answer == {"result": {"roots": [{"uri": tmp_path.as_uri()}]}}
    expected = {} if version == STATELESS else {"listChanged": True}
    assert declared(server)["roots"] == expected


@pytest.mark.system("U25")
async def test_a_handler_rpc_error_is_sent_to_a_session_server():
    def refuse(_):
        raise mcpwire.RPCError("User rejected sampling request", code=-1)

    server = Asking("sampling/createMessage", SAMPLE)
    answer = await answer_of(server, sampling=refuse)
    assert answer["error"]["code"] == -1


@pytest.mark.system("A50", "U25")
async def test_an_unexpected_handler_error_is_logged_and_not_sent(caplog):
    def broken(_):
        raise ValueError("secret")

    server = Asking("sampling/createMessage", SAMPLE)
    answer = await answer_of(server, sampling=broken)
    assert answer["error"]["code"] == -32603
    assert "secret" not in str(answer)
    assert "secret" in caplog.text


@pytest.mark.rule("TR-CUST-04")
async def test_stateless_server_requests_are_not_answered():
    handled = []

    def ask(_, server):
        question = {"method": "sampling/createMessage", "params": SAMPLE}
        server.send({"jsonrpc": "2.0", "id": "q-1", **question})
        return {"resultType": "complete", **text("done")}

    server = FakeServer({"tools/call": ask}, version=STATELESS)
    async with mcpwire.Client(server, sampling=handled.append) as client:
        assert (await client.call_tool("x")).text == "done"
        await client.ping()
        assert client.stats.invalid_messages == 1
    assert handled == []
    assert all("method" in message for message in server.received)


@pytest.mark.rule("SAMP-08", "MRTR-22")
async def test_a_handler_rpc_error_ends_a_stateless_call():
    def refuse(_):
        raise mcpwire.RPCError("not now", code=-1)

    server = Asking("sampling/createMessage", SAMPLE, STATELESS)
    with pytest.raises(mcpwire.CallCancelled, match="not now") as caught:
        await answer_of(server, sampling=refuse)
    assert type(caught.value.__cause__) is mcpwire.RPCError
    assert len(server.requests("tools/call")) == 1


async def test_a_handler_whose_work_was_cancelled_ends_a_stateless_call():
    async def dismissed(_):
        window = asyncio.get_running_loop().create_future()
        window.cancel()
        await window

    server = Asking("elicitation/create", FORM, STATELESS)
    async with mcpwire.Client(server, elicitation=dismissed) as client:
        with pytest.raises(mcpwire.CallCancelled, match="handler was cancelled"):
            await client.call_tool("x")
        with pytest.raises(mcpwire.CallCancelled, match="handler was cancelled"):
            await (await client.start_call("x"))


async def test_an_unexpected_handler_error_ends_a_stateless_call():
    def broken(_):
        raise ZeroDivisionError("mine")

    server = Asking("sampling/createMessage", SAMPLE, STATELESS)
    with pytest.raises(ZeroDivisionError, match="mine"):
        await answer_of(server, sampling=broken)


@pytest.mark.pain("P08")
@ERA
@on_a_virtual_clock
async def test_a_busy_handler_pauses_the_timeout_of_its_call(version):
    async def slowly(_):
        await asyncio.sleep(0.2)
        return {"name": "Ada"}

    server = Asking("elicitation/create", FORM, version)
    async with mcpwire.Client(server, elicitation=slowly) as client:
        result = await client.call_tool("x", timeout=0.1)
    assert result.text == "done"


@pytest.mark.pain("P02", "P08")
@on_a_virtual_clock
async def test_a_call_made_by_a_handler_keeps_its_own_timeout():
    async def sample(_):
        await client.list_tools(timeout=0.05)

    server = Asking("sampling/createMessage", SAMPLE)
    server.methods["tools/list"] = lambda *_: SILENCE
    async with mcpwire.Client(server, sampling=sample) as client:
        assert (await client.call_tool("x", timeout=BOUND_S)).text == "done"
    assert server.answered["error"]["code"] == -32603


@pytest.mark.system("U25")
@pytest.mark.rule("ROOT-05")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("roots/list", {}),
        ("sampling/createMessage", SAMPLE),
        ("elicitation/create", FORM),
        ("made/up", {}),
    ],
)
@pytest.mark.unchecked_wire("one of them asks what no revision knows")
async def test_undeclared_requests_get_method_not_found(method, params):
    answer = await answer_of(Asking(method, params))
    assert answer["error"]["code"] == -32601


async def test_a_cancelled_request_cancels_its_handler():
    handler = Hanging()
    server = FakeServer()
    async with mcpwire.Client(server, sampling=handler) as client:
        question = {"method": "sampling/createMessage", "params": SAMPLE}
        server.send({"jsonrpc": "2.0", "id": 1, **question})
        await handler.running.wait()
        server.notify("notifications/cancelled", requestId=1)
        await handler.ended.wait()
        await client.ping()
    assert not [m for m in server.received if "result" in m or "error" in m]


@ERA
async def test_closing_cancels_running_handlers(version):
    handler = Hanging()
    server = Asking("sampling/createMessage", SAMPLE, version)
    async with mcpwire.Client(server, sampling=handler) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await handler.running.wait()
    with pytest.raises(mcpwire.ConnectionClosed):
        await call
    assert handler.ended.is_set()


@ERA
async def test_a_handler_may_use_and_close_its_own_client(version):
    async def sample(_):
        listed.append(await client.list_tools())
        await client.aclose()
        ended.set()
        return sampled("Hi.")

    ended = asyncio.Event()
    listed = []
    server = Asking("sampling/createMessage", SAMPLE, version)
    server.methods["tools/list"] = lambda *_: {"tools": []}
    client = mcpwire.Client(server, sampling=sample)
    await client.connect()
    with pytest.raises(mcpwire.ConnectionClosed):
        await client.call_tool("x")
    await client.aclose()
    await ended.wait()
    assert listed == [[]]


@pytest.mark.parametrize(
    "option",
    [
        {"sampling": 1},
        {"elicitation": "form"},
        {"roots": ["not/a/uri"]},
        {"extensions": ["no-prefix"]},
        {"keepalive": 0},
    ],
)
async def test_invalid_options_are_refused_at_construction(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        mcpwire.Client(FakeServer(), **option)


@pytest.mark.system("A35", "L-U2")
@pytest.mark.rule("ROOT-03")
async def test_roots_list_changed_is_sent_in_a_session_only():
    for version, count in (("2025-11-25", 1), (STATELESS, 0)):
        server = FakeServer(version=version)
        async with mcpwire.Client(server, roots=["file:///a"]) as client:
            await client.notify_roots_changed()
            await client.ping()
        methods = [m["method"] for m in server.received]
        assert methods.count("notifications/roots/list_changed") == count


async def test_notify_roots_changed_needs_roots():
    async with mcpwire.Client(FakeServer()) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="without roots"):
            await client.notify_roots_changed()


@pytest.mark.rule("ELIC-23")
async def test_only_open_elicitations_can_be_completed():
    done = []

    def call(_, server):
        for id in ("known", "unknown", "known"):
            server.notify("notifications/elicitation/complete", elicitationId=id)
        return mcpwire.RPCError("visit first", code=-32042)

    class Server(FakeServer):
        def answer(self, request):
            if request["method"] != "tools/call" or done:
                return super().answer(request)
            elicitation = {
                "mode": "url",
                "elicitationId": "known",
                "url": "https://example.com/",
                "message": "visit",
            }
            data = {"elicitations": [elicitation]}
            error = mcpwire.RPCError("visit first", code=-32042, data=data)
            return self.send(failure(request["id"], error))

    server = Server({"tools/call": call})
    async with mcpwire.Client(server, on_notification=done.append) as client:
        with pytest.raises(mcpwire.UrlElicitationRequired):
            await client.call_tool("x")
        done.append("the call failed")
        with pytest.raises(mcpwire.UrlElicitationRequired):
            await client.call_tool("x")
    completed = [n for n in done if n != "the call failed"]
    assert [n.params.elicitation_id for n in completed] == ["known"]
