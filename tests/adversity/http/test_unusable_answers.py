"""A response that cannot complete its call ends it at once, with every engine."""

import pytest
from clocks import on_a_clock_by_hand
from faulty import ENGINES, ERAS, answering, connected, outcome, stream
from http_bytes import chunk, head, json_reply, reply, sse_event, sse_head
from mcp_server import scripted_mcp

import mcpwire
from mcpwire import ConnectionClosed, HTTPError, InvalidMessage, RemoteProtocolError
from mcpwire.wire.jsonrpc import notification

DOUBTFUL = ("no http",)
"""One engine reports invalid HTTP here, the other an early end of the connection."""


PROGRESS = notification("notifications/progress", {"progressToken": "x", "progress": 1})
HALF = b'{"jsonrpc": "2.0", "id": 2, "result": {"content": ['


USELESS = {
    # (bytes, end of the connection) -> error, words in its message
    "html": ((reply(200, b"<html>no", content_type="text/html"), None),
             RemoteProtocolError, ("200", "text/html", "<html>no")),
    "no type": ((reply(200, b"hello"), None),
                RemoteProtocolError, ("200", "no content type", "hello")),
    "empty html": ((reply(200, b"", content_type="text/html"), None),
                   RemoteProtocolError, ("200", "text/html")),
    "empty json": ((reply(200, b"", content_type="application/json"), None),
                   InvalidMessage, ("JSON",)),
    "half json": ((reply(200, HALF, content_type="application/json"), None),
                  InvalidMessage, ("JSON",)),
    "a notification": ((json_reply(PROGRESS), None), InvalidMessage, ("tools/call",)),
    "202": ((reply(202), None), RemoteProtocolError, ("202",)),
    "204": ((head(204), None), RemoteProtocolError, ("204",)),
    "206": ((reply(206, b"x"), None), RemoteProtocolError, ("206",)),
    "empty stream": ((stream(), None), ConnectionClosed, ("the stream ended",)),
    "stream without": ((stream(sse_event(PROGRESS)), None),
                       ConnectionClosed, ("the stream ended",)),
    "comments only": ((stream(b": hello\n\n"), None),
                      ConnectionClosed, ("the stream ended",)),
    "unfinished event": ((stream(b'data: {"jsonrpc"'), None),
                         ConnectionClosed, ("the stream ended",)),
    "fin before head": ((b"", "close"), ConnectionClosed, ()),
    "rst in length": ((head(200, content_type="application/json", content_length=99)
                       + HALF, "reset"), ConnectionClosed, ()),
    "fin in a chunk": ((sse_head() + b"99\r\ndata: 1", "close"),
                       ConnectionClosed, ()),
    "rst in a stream": ((sse_head() + chunk(sse_event(PROGRESS)), "reset"),
                        ConnectionClosed, ()),
    "fin at the end of a stream to the end": (
        (sse_head(chunked=False) + sse_event(PROGRESS), "close"),
        ConnectionClosed, ()),
    "no http": ((b"SSH-2.0-OpenSSH_9.6\r\n", "close"), RemoteProtocolError, ()),
}  # fmt: skip


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
    """Return the error of a call, which is raised long before the call's timeout."""
    target = mcpwire.Http(server.url, engine=engine)
    async with connected(target) as client:
        server.on["tools/call"] = handler
        error = await outcome(client.call_tool("echo"))
        assert server.verbs().count("tools/call") == 1
        # One bad response does not affect the next call.
        del server.on["tools/call"]
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        return error


@on_a_clock_by_hand
@pytest.mark.system("U20", "V30")
@pytest.mark.grounds(2, "era", "engine")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("case", USELESS)
@pytest.mark.fault("F21", "F22", "F24", "F25", "F31")
@pytest.mark.pain("P02")
async def test_useless_response_ends_its_call_at_once(era, case, engine):
    """The clock stands still: the call waits for no timer.

    Recovery has its defaults, which do not repeat a tool call.
    """
    (data, then), expected, named = USELESS[case]
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
async def test_call_does_not_wait_for_the_rest_of_a_useless_response(case, engine):
    data, expected, named = UNFINISHED[case]
    with scripted_mcp() as server:
        error = await error_of(server, engine, answering(data))
    assert type(error) is expected, error
    assert named in str(error), error


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.pain("P02")
async def test_peer_error_is_raised_without_the_end_of_its_body(status, engine):
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
