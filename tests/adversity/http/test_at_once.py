"""An answer that can complete no call ends it at once, beneath every engine."""

from __future__ import annotations

import pytest
from clocks import on_a_clock_by_hand
from faulty import ERAS, answering, connected, outcome
from http_bytes import chunk, head, json_reply
from mcp_server import scripted_mcp
from test_answers import HOPELESS

import mcpwire
from mcpwire import ConnectionClosed, HTTPError, RemoteProtocolError

pytestmark = pytest.mark.anyio

ENGINES = ("direct", "httpx")
DOUBTFUL = ("no http",)
"""What one engine takes for no HTTP, and another for an end before any."""


# The rest of these bodies never comes, and their connections stay open.
UNFINISHED = {
    "500": (head(500, content_length=99) + b"half of", HTTPError, "500"),
    "500 in chunks": (
        head(500, content_type="text/plain", transfer_encoding="chunked")
        + chunk(b"half of"),
        HTTPError,
        "500",
    ),
    "405 without a body": (head(405, content_length=99), HTTPError, "405"),
    "a page": (
        head(200, content_type="text/html", content_length=9999) + b"<html>",
        RemoteProtocolError,
        "text/html",
    ),
    "202": (head(202, content_length=99), RemoteProtocolError, "202"),
    "307": (head(307, content_length=99, location="/x"), HTTPError, "307"),
}


async def error_of(server, engine, handler):
    """Return the error of a call, which comes long before the time of the call."""
    target = mcpwire.Http(server.url, engine=engine)
    async with connected(target) as client:
        server.on["tools/call"] = handler
        error = await outcome(client.call_tool("echo"))
        assert server.verbs().count("tools/call") == 1
        # One answer says nothing about the next.
        del server.on["tools/call"]
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        return error


@on_a_clock_by_hand
@pytest.mark.system("U20", "V30")
@pytest.mark.grounds(2, "era", "engine")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("case", HOPELESS)
@pytest.mark.fault("F21", "F22", "F24", "F25", "F31")
@pytest.mark.pain("P02")
async def test_each_of_them_ends_its_call_at_once(era, case, engine):
    """The clock stands still: nothing is waited for.

    Recovery is as by default, which may not run a tool again.
    """
    (data, then), expected, named = HOPELESS[case]
    with scripted_mcp(era) as server:
        error = await error_of(server, engine, answering(data, then))
    if case not in DOUBTFUL:
        assert type(error) is expected, error
    assert all(name in str(error) for name in named), error
    if type(error) is ConnectionClosed:
        assert error.sent is True


@pytest.mark.grounds(1, "engine")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", UNFINISHED)
@pytest.mark.fault("F24", "F26", "F37")
@pytest.mark.pain("P02")
async def test_no_more_of_an_answer_is_waited_for_than_can_matter(case, engine):
    data, expected, named = UNFINISHED[case]
    with scripted_mcp() as server:
        error = await error_of(server, engine, answering(data))
    assert type(error) is expected, error
    assert named in str(error), error


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.pain("P02")
async def test_an_error_of_the_peers_is_told_without_the_end_of_its_body(
    status, engine
):
    def handler(request, conn):
        error = {"code": -32602, "message": "no such tool"}
        answer = {"jsonrpc": "2.0", "id": request.json["id"], "error": error}
        whole = json_reply(answer, status)
        conn.send(whole.replace(b"content-length: ", b"content-length: 9"))
        return True

    with scripted_mcp(session_ids=False) as server:
        error = await error_of(server, engine, handler)
    assert isinstance(error, mcpwire.MCPError), error
    assert "no such tool" in str(error), error
    assert str(status) in str(error) or error.status == status
