"""Which errors end a session, and which contradict the era of the server."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reply_feeding import failure, fields, text

from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    RemoteProtocolError,
    rpc_error,
)
from mcpwire.protocol import http_reply
from mcpwire.protocol.http_reply import contradicts_era, is_expired
from mcpwire.versions import Era


def error_of(status, body=b"", content_type=None, **others):
    given = fields(content_type, **others)
    return http_reply.unusable_answer("tools/call", status, given, body, target=None)


# Sessions...

PLAIN = "text/plain"
EXPIRED = {
    # What widespread servers answer to a session id that they do not know (any more).
    "404": error_of(404),
    "404 html": error_of(404, b"<h1>Not Found</h1>", "text/html"),
    "404, a session": error_of(404, text(failure(-32001, "Session not found"))),
    "404, a bad request": error_of(404, text(failure(-32600, "Not Found: terminated"))),
    "404, any code": error_of(404, text(failure(-32603, "gone"))),
    "404, no such method, session": error_of(404, text(failure(-32601, "no Session"))),
    "404, loosely": error_of(404, b'{"error":{"code":-32000,"message":"gone"}}'),
    "400, a session": error_of(
        400, text(failure(-32000, "Bad Request: No valid session ID provided", None))
    ),
    "400, not initialized": error_of(
        400, text(failure(-32000, "Bad Request: Server not initialized", None))
    ),
    "400, a bad request": error_of(
        400, text(failure(-32600, "Bad Request: Missing session ID", "server-error"))
    ),
    "400 plain": error_of(400, b"Bad Request: No valid session ID provided", PLAIN),
    "400 plain, in Go": error_of(400, b"Invalid session ID\n", PLAIN),
    "400 of no JSON-RPC": error_of(400, b'{"error":"Session not found"}'),
    "401 plain": error_of(401, b"Unauthorized: Session not found", PLAIN),
}
NOT_EXPIRED = {
    "400": error_of(400),
    "400 plain": error_of(400, b"Bad Request", PLAIN),
    "400, bad params": error_of(400, text(failure(-32602, "no such session tool"))),
    "400, no meaning": error_of(400, text(failure(-32000, "Bad Request"))),
    "400, a meaning": error_of(400, text(failure(-32603, "the session crashed"))),
    "401": error_of(401),
    "401 with a challenge": error_of(
        401, b"Your session is over", PLAIN, www_authenticate="Bearer"
    ),
    "401, in JSON-RPC": error_of(401, text(failure(-32001, "Session not found"))),
    "403": error_of(403, b"session", PLAIN),
    "404, no such method": error_of(404, text(failure(-32601, "Method not found"))),
    "404, bad params": error_of(404, text(failure(-32602, "Unknown tool"))),
    "404, no such resource": error_of(404, text(failure(-32002, "no such thing"))),
    "410": error_of(410, b"session gone", PLAIN),
    "500": error_of(500, b"no session", PLAIN),
    "an error in a 200": rpc_error(-32001, "Session not found"),
    "html in a 200": error_of(200, b"Session not found", PLAIN),
    "closed": ConnectionClosed("404 session"),
    "no message": InvalidMessage("session", expected="x", got="y"),
}


@pytest.mark.system("U12")
@pytest.mark.pain("P05")
@pytest.mark.rule("LHTTP-27")
@pytest.mark.parametrize("case", EXPIRED)
def test_error_that_names_a_lost_session_expires_it(case):
    assert is_expired(EXPIRED[case], has_session=True)
    # A client without a session cannot lose one.
    assert not is_expired(EXPIRED[case], has_session=False)


@pytest.mark.pain("P05")
@pytest.mark.parametrize("case", NOT_EXPIRED)
def test_other_errors_do_not_expire_the_session(case):
    assert not is_expired(NOT_EXPIRED[case], has_session=True)


@pytest.mark.attack("S19")
@pytest.mark.rule("LHTTP-23")
@pytest.mark.parametrize("given", [b"a", b"!~", b"x" * 4096, b"a,b", b'"q"', b"0-9_.="])
def test_session_id_is_read_as_sent(given):
    assert http_reply.read_session_id({b"mcp-session-id": given}) == given.decode()


@pytest.mark.system("U08")
@pytest.mark.parametrize("given", [{}, {b"mcp-session-id": b""}])
def test_session_id_may_be_absent(given):
    assert http_reply.read_session_id(given) is None


@pytest.mark.attack("S19")
@pytest.mark.rule("LHTTP-23")
@given(st.binary(min_size=1, max_size=20))
def test_session_id_outside_visible_ascii_is_refused_and_not_shown(given):
    response_headers = {b"mcp-session-id": given}
    if re.fullmatch(rb"[!-~]+", given):
        assert http_reply.read_session_id(response_headers) == given.decode()
        return
    with pytest.raises(RemoteProtocolError, match="visible ASCII") as caught:
        http_reply.read_session_id(response_headers)
    assert str(caught.value).isprintable()


@pytest.mark.attack("S19")
@pytest.mark.parametrize("given", [b"a b", b"a, a", b"a\r\nx: y", b"\xc3\xa9", b"\x7f"])
def test_session_id_that_would_inject_headers_is_refused(given):
    with pytest.raises(RemoteProtocolError):
        http_reply.read_session_id({b"mcp-session-id": given})


# Eras...

MODERN = {code: rpc_error(code, "no") for code in (-32020, -32021, -32022)}
OLDER = {
    # What a server of the session era answers to a stateless request.
    **{str(status): error_of(status) for status in (400, 404, 405, 406, 422)},
    "plain": error_of(400, b"Bad Request: No valid session ID provided", PLAIN),
    "rmcp": error_of(422, b"Unexpected message, expect initialize request", PLAIN),
    "no session": error_of(400, text(failure(-32000, "Bad Request: no session", None))),
    "not initialized": error_of(400, text(failure(-32000, "Server not initialized"))),
    "no meaning": error_of(404, text(failure(-32001, "no"))),
    "missing id": error_of(
        400, text(failure(-32600, "Bad Request: Missing session ID"))
    ),
    "a version": error_of(
        400, text(failure(-32600, "Bad Request: Unsupported protocol version: x"))
    ),
}
NOT_OLDER = {
    **{str(status): error_of(status) for status in (401, 403, 408, 410, 429, 500, 503)},
    "a bad request": error_of(400, text(failure(-32600, "id must be unique"))),
    "bad params": error_of(400, text(failure(-32602, "no session argument"))),
    "no such resource": error_of(404, text(failure(-32002, "no such resource"))),
    "no such method": error_of(404, text(failure(-32601, "Method not found: ping"))),
    "trouble": error_of(500, text(failure(-32000, "no session"))),
    "an error in a 200": rpc_error(-32000, "no session"),
    "modern errors": error_of(400, text(failure(-32022, "no session"))),
    "closed": ConnectionClosed("404"),
    "html in a 200": error_of(200, b"no session", PLAIN),
}


@pytest.mark.fault("F50")
@pytest.mark.rule("VER-08")
@pytest.mark.parametrize("case", OLDER)
def test_session_era_error_contradicts_the_stateless_era(case):
    assert contradicts_era(OLDER[case], Era.STATELESS, "tools/call")


@pytest.mark.fault("F50")
@pytest.mark.parametrize("case", NOT_OLDER)
def test_other_errors_do_not_contradict_the_stateless_era(case):
    assert not contradicts_era(NOT_OLDER[case], Era.STATELESS, "tools/call")


@pytest.mark.fault("F50")
@pytest.mark.parametrize("status", [None, 200, 400, 404])
def test_unknown_discover_method_contradicts_the_stateless_era(status):
    error = rpc_error(-32601, "Method not found")
    error.status = status
    assert contradicts_era(error, Era.STATELESS, "server/discover")
    assert not contradicts_era(error, Era.STATELESS, "tools/list")
    assert not contradicts_era(error, Era.SESSION, "server/discover")


@pytest.mark.fault("F50")
@pytest.mark.rule("VER-08")
@pytest.mark.parametrize("code", MODERN)
def test_stateless_era_error_with_a_status_contradicts_a_session(code):
    error = error_of(400, text(failure(code, "no")))
    assert contradicts_era(error, Era.SESSION, "tools/call")
    # In a successful HTTP response it says nothing about the era.
    assert not contradicts_era(MODERN[code], Era.SESSION, "tools/call")


@pytest.mark.parametrize("case", sorted({*OLDER, *NOT_OLDER} - {"modern errors"}))
def test_other_errors_do_not_contradict_the_session_era(case):
    error = {**OLDER, **NOT_OLDER}[case]
    assert not contradicts_era(error, Era.SESSION, "tools/call")
