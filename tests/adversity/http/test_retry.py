"""Which requests are repeated and which never: side effects happen at most once.

The server records each run of a tool's body before it does anything else; whatever
happens to the connection then, no call may be recorded twice.
"""

import asyncio
import email.utils
import time
from collections import Counter

import pytest
from faulty import ERAS, QUICK, answering, client_of, once, outcome
from mcp_server import scripted_mcp
from raw_server import json_reply, reply, sse_head

import mcpwire
from mcpwire import ConnectionClosed, HTTPError, RequestTimeout


def texts(server):
    """Return how often the body of each call ran."""
    return Counter(arguments["text"] for _, arguments, _ in server.executed)


def run(server, request):
    """Record a call's run, as its tool would."""
    message = request.json
    arguments = message["params"].get("arguments") or {}
    server.executed.append((message["params"]["name"], arguments, message["id"]))


READS = {
    "list_tools": (),
    "list_resources": (),
    "read_resource": ("memo://one",),
    "ping": (),
}


@pytest.mark.system("O84", "L-U15")
@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.pain("P24")
async def test_read_request_is_repeated(name, how):
    methods = {
        "list_tools": "tools/list",
        "list_resources": "resources/list",
        "read_resource": "resources/read",
        "ping": "ping",
    }
    async with client_of(recovery=QUICK) as (server, client):
        server.on[methods[name]] = once(answering(b"", how))
        await getattr(client, name)(*READS[name])
    assert server.verbs().count(methods[name]) == 2


@pytest.mark.pain("P24")
async def test_idempotent_call_is_repeated():
    def handler(request, conn):
        run(server, request)
        conn.close()
        return True

    async with client_of(recovery=QUICK) as (server, client):
        server.on["tools/call"] = once(handler)
        result = await client.call_tool("echo", {"text": "x"}, idempotent=True)
        assert result.text == "x"
    assert texts(server) == Counter(x=2)


DECLINED = {
    "429": reply(429),
    "429 with a time": reply(429, retry_after="0"),
    "503 with a time": reply(503, retry_after="0"),
    "503 with garbage": reply(503, retry_after="soon"),
    "429 in JSON-RPC": json_reply(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "busy"}},
        429,
        retry_after="0",
    ),
}


@pytest.mark.grounds(1, "era")
@pytest.mark.parametrize("case", DECLINED)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.fault("F36")
@pytest.mark.pain("P24")
async def test_declined_call_is_repeated(era, case):
    async with client_of(era, recovery=QUICK) as (server, client):
        server.on["tools/call"] = once(answering(DECLINED[case]))
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert texts(server) == Counter(x=1)
    assert server.verbs().count("tools/call") == 2


@pytest.mark.system("L-O6")
@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.fault("F26", "F36")
@pytest.mark.pain("P24")
async def test_5xx_without_retry_after_ends_the_call(status):
    """A gateway may send this after its server has run the call."""
    async with client_of(recovery=QUICK) as (server, client):
        server.on["tools/call"] = answering(reply(status))
        with pytest.raises(HTTPError) as caught:
            await client.call_tool("echo")
        assert caught.value.status == status
        assert server.verbs().count("tools/call") == 1


@pytest.mark.system("L-U16")
@pytest.mark.fault("F36")
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_respected(form):
    at = []

    def handler(request, conn):
        at.append(time.monotonic())
        if len(at) > 1:
            return False
        # A date has whole seconds: two of them are at least one from now.
        date = email.utils.formatdate(time.time() + 2, usegmt=True)
        conn.send(reply(503, retry_after="0.3" if form == "seconds" else date))
        return True

    async with client_of(recovery=QUICK) as (server, client):
        server.on["tools/call"] = handler
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert at[1] - at[0] >= (0.3 if form == "seconds" else 0.9)


@pytest.mark.system("L-U16")
@pytest.mark.fault("F36")
@pytest.mark.parametrize("wait", ["40", "1000000000", "99999999999999999999"])
async def test_retry_after_beyond_the_deadline_ends_the_call(wait):
    async with client_of() as (server, client):
        server.on["tools/call"] = answering(reply(503, b"", retry_after=wait))
        error = await outcome(client.call_tool("echo"))
        assert isinstance(error, (HTTPError, RequestTimeout)), error
    assert server.verbs().count("tools/call") == 1


@pytest.mark.fault("F36")
async def test_repeatedly_declined_call_fails_after_all_attempts():
    recovery = mcpwire.Recovery(attempts=3, backoff_initial=0.001, backoff_max=0.01)
    async with client_of(recovery=recovery) as (server, client):
        server.on["tools/call"] = answering(reply(429, b"later"))
        with pytest.raises(HTTPError) as caught:
            await client.call_tool("echo")
        assert caught.value.status == 429
    assert server.verbs().count("tools/call") == 3


@pytest.mark.system("O84")
@pytest.mark.parametrize(
    ("data", "how"),
    [(b"", "close"), (b"", "reset"), (sse_head() + b"5\r\n: hi\n\r\n", "close")],
    ids=["no byte", "no byte, reset", "a stream that breaks"],
)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.fault("F21", "F23")
@pytest.mark.pain("P24")
async def test_call_that_ran_without_a_response_is_not_repeated(era, data, how):
    def handler(request, conn):
        run(server, request)
        conn.send(data)
        getattr(conn, how)()
        return True

    async with client_of(era) as (server, client):
        for _ in range(5):  # the connection is in use, and quick to be acknowledged
            await client.call_tool("echo", {"text": "before"})
        server.on["tools/call"] = handler
        for number in range(10):
            with pytest.raises(ConnectionClosed) as caught:
                await client.call_tool("echo", {"text": str(number)})
            assert caught.value.sent is True
        del server.on["tools/call"]
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    ran = texts(server)
    del ran["before"]
    assert ran == Counter({**{str(n): 1 for n in range(10)}, "x": 1})


@pytest.mark.system("V32")
@pytest.mark.pain("P24")
async def test_call_waits_for_a_temporarily_absent_server():
    """A refused connection sent nothing: even a call may be repeated."""
    recovery = mcpwire.Recovery(attempts=1000, backoff_initial=0.02, backoff_max=0.02)
    with scripted_mcp() as first:
        client = mcpwire.Client(first.url, recovery=recovery)
        await client.connect()
    async with client:
        call = asyncio.ensure_future(client.call_tool("echo", {"text": "x"}))
        await asyncio.sleep(0.1)  # it is refused meanwhile
        with scripted_mcp(port=first.raw.port) as second:
            assert (await call).text == "x"
            await client.aclose()
    assert texts(second) == Counter(x=1)
    assert first.executed == []
