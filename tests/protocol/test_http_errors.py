"""Errors made of replies that complete no request, and what follows from them."""

import copy
import pickle
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reply_feeding import HTML, METHOD, an, answer, failure, fields, log, text

from mcpwire.errors import (
    ConnectionClosed,
    HeaderMismatch,
    HTTPError,
    InternalError,
    InvalidMessage,
    InvalidRequest,
    MethodNotFound,
    RemoteProtocolError,
    RPCError,
    rpc_error,
)
from mcpwire.protocol import http_reply
from mcpwire.protocol.http_reply import contradicts_era, is_expired, unusable_answer
from mcpwire.versions import Era
from mcpwire.wire.sse import SSEDecoder, SSEEvent

STATUSES = (400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 421, 429, 431, 500, 501,
            502, 503, 504)  # fmt: skip
TARGET = "http://127.0.0.1:1/mcp"


def error_of(status, body=b"", content_type=None, *, detail="", **headers):
    given = fields(content_type, **headers)
    return unusable_answer(
        "tools/call", status, given, body, target=TARGET, detail=detail
    )


@pytest.mark.fault("F24")
@pytest.mark.rule("TR-HTTP-13")
@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("application/json", "json"),
        ("application/json; charset=utf-8", "json"),
        ("Application/JSON;charset=UTF-8", "json"),
        (" application/json ; odd", "json"),
        ("text/event-stream", "stream"),
        ("text/event-stream;charset=utf-8", "stream"),
        ("TEXT/Event-Stream", "stream"),
        ("text/html", "other"),
        ("application/json-rpc", "other"),
        ("application/jsonl", "other"),
        ("text/json", "other"),
        ("application/json, text/html", "other"),
        ("größe", "other"),
        ("", "other"),
        (None, "other"),
    ],
)
def test_content_type_is_matched_ignoring_case_and_parameters(content_type, kind):
    assert http_reply.body_kind(fields(content_type)) == kind


LONE = [
    *(b'data: {"a":1}\n\n', b"data: {}\r\n\r\n", b"event: message\ndata: {}\n\n"),
    b"event: message\r\ndata: { }\r\n\r\n",
]
MIXED = [
    *(b"", b"data: {}", b"data: {}\n", b"data: {}\r\r", b"data: {}\n\ndata: {}\n\n"),
    *(b"data: {\ndata: }\n\n", b"data: {\rdata: }\n\n", b"data: {}\r\n\n"),
    *(b"data: {}\nid: 1}\n\n", b"data: {}\n\n\n", b"data: {}\n\n: {}\n\n"),
    *(b"data: []\n\n", b"data:{}\n\n", b"\xef\xbb\xbfdata: {}\n\n"),
    *(b"event: ping\ndata: {}\n\n", b"id: 1\ndata: {}\n\n"),
    *(b": {}\n\n", b"\ndata: {}\n\n"),
]


@pytest.mark.fault("F30")
@pytest.mark.parametrize("piece", LONE)
def test_piece_that_is_one_message_needs_no_decoder(piece):
    assert http_reply.single_message(piece) == piece[piece.index(b"{") : -2].strip()


@pytest.mark.parametrize("piece", MIXED)
def test_any_other_piece_needs_a_decoder(piece):
    assert http_reply.single_message(piece) is None


PARTS = st.sampled_from(
    [
        *(b"data: {", b"}", b"\n", b"\r", b"event: message", b"id: 1", b":", b"{"),
        *(b" ", b"x"),
    ]
)


@pytest.mark.fault("F30")
@given(
    st.sampled_from([*LONE, b"data: {"]),
    st.lists(PARTS, max_size=6).map(b"".join),
    st.sampled_from([b"", b"}\n\n", b"}\r\n\r\n"]),
)
def test_single_message_agrees_with_the_decoder(start, middle, end):
    piece = start + middle + end
    data = http_reply.single_message(piece)
    if data is not None:
        decoder = SSEDecoder(10**6)
        assert decoder.feed(piece) == [SSEEvent("message", data, "", None)]
        # No part of it waits for more input.
        assert decoder.feed(b"data: 1\n\n") == [SSEEvent("message", b"1", "", None)]


NO_JSONRPC = {"error": {"code": -32000, "message": "no"}, "id": 7}
FOUND = {
    "own id": failure(),
    "null id": failure(id=None),
    "a text for an id": failure(id="server-error"),
    "another's id": failure(id=999),
    "no id": {"jsonrpc": "2.0", "error": {"code": -32000, "message": "no"}},
    "no jsonrpc": NO_JSONRPC,
    "jsonrpc 1.0": {**NO_JSONRPC, "jsonrpc": "1.0"},
    "jsonrpc as a number": {**NO_JSONRPC, "jsonrpc": 2.0},
    "an invalid id": failure(id=[1]),
    "a result beside it": {**failure(), "result": None},
    "a batch of one": [failure()],
}
NOT_FOUND = {
    "nothing": b"",
    "html": b"<html>no</html>",
    "text": b"no",
    "half of it": text(failure())[:-1],
    "no UTF-8": text(failure())[:-1] + b', "x": "\xff"}',
    "no error": b"{}",
    "a result": text(answer()),
    "a notification": text(log()),
    "a notification that has an error": text({**log(), "error": {"code": 1}}),
    "a malformed request": text({**log(), "jsonrpc": 1, "error": failure()["error"]}),
    "a batch of two": text([failure(), failure()]),
    "OAuth's": b'{"error": "invalid_token", "error_description": "no"}',
    "null for an error": b'{"jsonrpc": "2.0", "id": 7, "error": null}',
    "no code": b'{"jsonrpc": "2.0", "id": 7, "error": {"message": "no"}}',
    "no message": b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 1}}',
    "a gateway's own": b'{"error": {"code": 404, "message": "no", "status": "x"}}',
}


@pytest.mark.parametrize("case", FOUND)
@pytest.mark.fault("F26")
def test_json_rpc_error_wins_whatever_its_id_and_keeps_the_status(case):
    for status, content_type in product(STATUSES, ("application/json", HTML, None)):
        error = error_of(status, text(FOUND[case]), content_type, x_why="so")
        expected = an(RPCError, METHOD, code=-32000, message="no", data=None)
        expected.check(error)
        assert (error.status, error.method) == (status, METHOD)
        # Its HTTP error stays: it may hold a challenge or Retry-After.
        assert type(error.__cause__) is HTTPError
        assert error.__cause__.status == status
        assert error.__cause__.headers["x-why"] == "so"


@pytest.mark.parametrize("case", NOT_FOUND)
@pytest.mark.fault("F26")
def test_any_other_error_body_becomes_an_http_error(case):
    body = NOT_FOUND[case]
    headers = {"retry-after": "3", "content-type": HTML}
    for status in STATUSES:
        error = error_of(status, body, HTML, retry_after="3")
        expected = an(
            HTTPError, METHOD, TARGET, str(status), HTML, body=body, target=TARGET
        )
        expected.check(error)
        assert (error.status, error.headers) == (status, headers)
        assert error.__cause__ is None
        start = ascii(body[:9].decode("utf-8", "replace"))[1:-1]
        assert start in ascii(str(error))


@pytest.mark.parametrize(
    ("code", "cls"),
    [(-32601, MethodNotFound), (-32020, HeaderMismatch), (-32600, InvalidRequest)],
)
def test_error_in_the_body_has_its_class_and_its_data(code, cls):
    body = text([failure(code, data={"a": [1]})])
    an(cls, code=code, data={"a": [1]}, status=400).check(error_of(400, body))


def test_code_outside_the_status_range_counts_without_an_envelope():
    for code in (1, 99, 600, -404):
        body = text({"error": {"code": code, "message": "no"}})
        assert error_of(404, body).code == code
    whole = text(failure(404))  # in a JSON-RPC envelope any code counts
    assert type(error_of(404, whole)) is RPCError


@pytest.mark.parametrize("remake", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_status_survives_copy_and_pickle(remake):
    error = remake(error_of(429, text(failure(-32603, data=1))))
    an(InternalError, code=-32603, data=1, status=429, method="tools/call").check(error)


# Successes without a usable answer...


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
@pytest.mark.fault("F24", "F25")
def test_success_without_an_answer_is_a_protocol_error(status):
    error = error_of(
        status, text(failure()), "text/plain", detail=": no answer can come"
    )
    an(RemoteProtocolError, "tools/call", TARGET, str(status), "text/plain",
       '"message": "no"', "no answer can come").check(error)  # fmt: skip


def test_unknown_target_is_called_the_server():
    assert (
        str(unusable_answer("GET", 405, {}, b"", target=None))
        == "GET: the server answered 405"
    )


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        (None, b"", "answered 500"),
        (None, b"x", "answered 500 (no content type): 'x'"),
        ("", b"x", "answered 500 (no content type): 'x'"),
        ("text/html;charset=x", b"", "answered 500 (text/html)"),
        ("a\x9bb\x1b/é", b"", "answered 500 (a\\x9bb\\x1b/\\xe9)"),
        ("x" * 999, b"", f"answered 500 ({'x' * 80})"),
    ],
)
def test_content_type_is_shown_without_control_characters(content_type, body, message):
    assert str(error_of(500, body, content_type)).endswith(message)


@pytest.mark.attack("S15")
def test_large_body_is_kept_and_shown_shortened():
    error = error_of(500, b"x" * 100_000)
    assert error.body == b"x" * 2000
    assert str(error).count("x") == 200
    assert "'" + "x" * 200 + "'" in str(error)


SECRET = "s3cr3t-VALUE"
SNIPPETS = [
    *("Authorization: {}", "Authorization: Bearer {}"),
    *('{{"authorization": "Basic {}"}}', "bearer {} is no good", "your token={}&x=1"),
    *("access_token: {}", "'client_secret': '{}'", '{{"X-Api-Key":"{}"}}'),
    *("api_key={};", "password = {}", "Mcp-Session-Id: {}", "set-cookie: {}"),
    *('see <a href="https://host/path?code={}">', "https://user:{}@host/path"),
    "https://host/path#{}",
]


@pytest.mark.parametrize("snippet", SNIPPETS)
@pytest.mark.parametrize("before", ["", "x" * 170 + " ", "x" * 1980 + " "])
def test_secrets_in_a_body_are_masked_in_the_message(snippet, before):
    """Not even where shortening would cut them in two."""
    message = str(error_of(400, (before + snippet.format(SECRET)).encode()))
    assert SECRET[:6] not in message
    if not before:
        assert "***" in message


@given(st.text(max_size=40), st.sampled_from(SNIPPETS), st.text("abc =:'", max_size=40))
def test_text_around_a_secret_does_not_unmask_it(before, snippet, after):
    body = f"{before} {snippet.format(SECRET)} {after}".encode("utf-8", "replace")
    assert SECRET not in http_reply.body_excerpt(body)


@pytest.mark.parametrize(
    "words",
    [
        "Bad Request: No valid session ID provided",
        "Not Acceptable: Client must accept application/json and text/event-stream",
        '{"detail":"Not authorized to use this token"}',
        "basic rules apply",
    ],
)
def test_harmless_words_are_shown(words):
    assert http_reply.body_excerpt(words.encode()) == repr(words)


@given(st.binary(max_size=400))
def test_excerpt_is_short_printable_and_quoted(body):
    message = http_reply.body_excerpt(body)
    assert message.isprintable()
    assert message[0] == message[-1]
    assert message[0] in "'\""
    assert len(eval(message)) <= 200


def test_masking_takes_linear_time():
    for part in (b"a-", b"token", b"x://", b"bearer ", b"=", b"_"):
        assert len(http_reply.body_excerpt(part * 100_000)) <= 202


# Which errors end a session, and which contradict the era of the server...


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
