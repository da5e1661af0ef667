"""What comes back to a request: its own answer in a body, or why there is none."""

import pytest
from fed_replies import (
    HTML,
    ID,
    JSON,
    METHOD,
    RESULT,
    SSE,
    URL,
    Owner,
    an,
    answer,
    asks,
    call,
    check,
    failure,
    feed,
    fields,
    in_three_ways,
    log,
    text,
)

from mcpwire.errors import (
    HTTPError,
    InvalidMessage,
    InvalidRequest,
    MessageTooLarge,
    MethodNotFound,
    RemoteProtocolError,
    RequestTimeout,
    RPCError,
)
from mcpwire.limits import Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.wire.urls import parse_url

HINT = "changed the type of the request's id"
NOT_JSON = an(InvalidMessage, METHOD, "JSON in UTF-8", path="body")
NO_ANSWER = an(InvalidMessage, METHOD, path="body", expected=f"the answer to {METHOD}")
FOREIGN = an(InvalidMessage, path="response.id", expected="the integer 7")
RETYPED = an(InvalidMessage, HINT, path="response.id", expected="the integer 7")
OURS = an(RPCError, METHOD, code=-32000, message="no", status=None, method=METHOD)

BODIES = {
    # body -> outcome, what is counted
    "the answer": (answer(), RESULT, {}),
    "an empty result": (answer(result={}), {}, {}),
    "members nobody knows": (answer(x=1, _meta={}), RESULT, {}),
    "white space": (b" \r\n\t" + text(answer()) + b"\n\n", RESULT, {}),
    "a byte order mark": (b"\xef\xbb\xbf" + text(answer()), RESULT, {}),
    "an error": (failure(), OURS, {}),
    "an error of a class": (failure(-32601), an(MethodNotFound, code=-32601), {}),
    "an error, null for the id": (failure(id=None), OURS, {}),
    "an error without id": (
        {k: v for k, v in failure().items() if k != "id"}, OURS, {}),
    "an error, an id of nobody's": (failure(id="server-error"), OURS, {}),
    "an error, another's id": (failure(id=8), FOREIGN, {"unknown": 1}),
    "an error, the id as text": (failure(id="7"), RETYPED, {"unknown": 1}),
    "another's answer": (answer(8), FOREIGN, {"unknown": 1}),
    "the id as text": (answer("7"), RETYPED, {"unknown": 1}),
    "the id as other text": (answer("007"), FOREIGN, {"unknown": 1}),
    "the id as a float": (
        answer(7.0), an(InvalidMessage, HINT, path="message.id"), {"invalid": 1}),
    "the id as true": (
        answer(True), an(InvalidMessage, path="message.id"), {"invalid": 1}),
    "no id": (
        {"jsonrpc": "2.0", "result": {}},
        an(InvalidMessage, path="message.id"), {"invalid": 1}),
    "no jsonrpc": (
        {"id": ID, "result": {}},
        an(InvalidMessage, path="message.jsonrpc"), {"invalid": 1}),
    "three members, no jsonrpc": (
        {"id": ID, "result": {}, "x": 1},
        an(InvalidMessage, path="message.jsonrpc"), {"invalid": 1}),
    "a list for a result": (
        answer(result=[]), an(InvalidMessage, path="message.result"), {"invalid": 1}),
    "a notification": (log(), NO_ANSWER, {}),
    "a request": (asks(), NO_ANSWER, {}),
    "a request with that id": (asks(ID), NO_ANSWER, {}),
    "an object": ({}, NO_ANSWER, {"invalid": 1}),
    "an object of no JSON-RPC": (
        b'{"status": "ok"}', an(InvalidMessage, '{"status": "ok"}'), {"invalid": 1}),
    "an error of no JSON-RPC": (
        {"error": "Session not found"},
        an(InvalidMessage, path="message.jsonrpc"), {"invalid": 1}),
    "a number": (b"200", NO_ANSWER, {"invalid": 1}),
    "null": (b"null", NO_ANSWER, {"invalid": 1}),
    "a text": (b'"ok"', NO_ANSWER, {"invalid": 1}),
    "nothing": (b"", NOT_JSON, {}),
    "blanks": (b" \n", NOT_JSON, {}),
    "half of it": (text(answer())[:-1], NOT_JSON, {}),
    "two answers": (text(answer()) * 2, NOT_JSON, {}),
    "no UTF-8": (text(answer()).replace(b"\xc3", b"\xff"), NOT_JSON, {}),
    "NaN": (b'{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}', NOT_JSON, {}),
    "an event": (b"data: {}\n\n", NOT_JSON, {}),
    "html": (b"<html>", NOT_JSON, {}),
    "two marks": (b"\xef\xbb\xbf\xef\xbb\xbf", NOT_JSON, {}),
}  # fmt: skip


def as_bytes(body):
    return body if type(body) is bytes else text(body)


@in_three_ways
@pytest.mark.parametrize("is_traced", [False, True], ids=["", "watched"])
@pytest.mark.parametrize("case", BODIES)
@pytest.mark.fault("F14", "F24")
@pytest.mark.rule("TR-HTTP-13", "RPC-07")
def test_a_body_is_the_answer_or_an_error_that_says_what_it_is(case, is_traced, way):
    body, expected, counted = BODIES[case]
    owner = Owner(is_traced=is_traced)
    reply = call(owner)
    feed(reply, 200, JSON, as_bytes(body), way)
    check(reply, expected)
    assert owner.counted() == counted
    assert owner.stats.messages == 1
    assert reply.openings == 0


BATCHES = {
    "its answer": ([answer()], RESULT, {}, []),
    "beside others": ([log(1), asks(), answer(), log(2)], RESULT, {}, [1, 2]),
    "two answers": ([answer(), answer(result={})], RESULT, {"unknown": 1}, []),
    "behind what is none": ([{}, answer()], RESULT, {"invalid": 1}, []),
    "not in it": ([log(1)], NO_ANSWER, {}, [1]),
    "an empty one": ([], NO_ANSWER, {"invalid": 1}, []),
    "one within it": ([[answer()]], None, {"invalid": 1}, []),
    "its error": ([failure()], OURS, {}, []),
    "another's answer": ([answer(8)], FOREIGN, {"unknown": 1}, []),
}


@in_three_ways
@pytest.mark.parametrize("content_type", [JSON, SSE])
@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.rule("RPC-13", "LHTTP-35")
def test_a_batch_is_taken_apart_at_its_one_revision(case, content_type, way):
    batch, expected, counted, notes = BATCHES[case]
    owner = Owner("2025-03-26")
    reply = call(owner)
    body = text(batch)
    if content_type == SSE:
        body = b"data: " + body + b"\n\n"
    feed(reply, 200, content_type, body, way)
    assert owner.counted() == counted
    assert owner.notes == notes
    if expected is None or (content_type == SSE and expected is NO_ANSWER):
        assert reply.result is None
    else:
        check(reply, expected)


@pytest.mark.parametrize("content_type", [JSON, SSE])
@pytest.mark.parametrize(
    "revision", [None, "2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"]
)
@pytest.mark.rule("RPC-15")
def test_elsewhere_a_batch_with_the_answer_fails_the_call(revision, content_type):
    owner = Owner(revision)
    reply = call(owner)
    body = text([log(), answer()])
    feed(reply, 200, content_type, b"data: " + body + b"\n\n" if content_type == SSE
         else body)  # fmt: skip
    check(reply, an(InvalidMessage, "2025-03-26 only", expected="object", got="array"))
    assert owner.told == []


@pytest.mark.parametrize("status", [201, 203])
@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", SSE])
@pytest.mark.fault("F24")
def test_an_answer_in_another_success_is_the_answer(status, content_type):
    reply = call(Owner())
    body = text(answer())
    feed(reply, status, content_type, b"data: " + body + b"\n\n" if content_type == SSE
         else body)  # fmt: skip
    check(reply, RESULT)


# Answers that complete nothing...


@pytest.mark.parametrize("status", [202, 204, 205, 206, 207, 299])
@pytest.mark.parametrize("content_type", [JSON, SSE, HTML, None])
@pytest.mark.fault("F25")
@pytest.mark.pain("P02")
def test_an_acceptance_of_a_request_ends_it_with_its_head(status, content_type):
    reply = call(Owner())
    reply.head(status, fields(content_type))
    assert reply.is_over
    check(reply, an(RemoteProtocolError, METHOD, URL, str(status), "no answer can"))
    reply.data(text(answer()))
    reply.end()
    assert reply.result is None


@pytest.mark.parametrize("status", [201, 203])
def test_another_success_in_another_type_ends_it_too(status):
    reply = call(Owner())
    reply.head(status, fields(HTML))
    check(reply, an(RemoteProtocolError, str(status), HTML))


@in_three_ways
@pytest.mark.parametrize("content_type", [HTML, "text/plain", "application/xml", None])
@pytest.mark.parametrize("body", [b"", b"<html>no", text(answer())])
@pytest.mark.fault("F24")
def test_a_body_of_another_type_is_told_with_its_type(content_type, body, way):
    reply = call(Owner())
    feed(reply, 200, content_type, body, way)
    kind = content_type or ("no content type" if body else "200")
    check(reply, an(RemoteProtocolError, METHOD, URL, "200", kind, body[:9].decode()))


@pytest.mark.attack("S15")
@pytest.mark.fault("F24")
@pytest.mark.parametrize("way", ["whole", "byte by byte"])
def test_no_more_of_it_is_waited_for_than_is_told(way):
    reply = call(Owner())
    feed(reply, 200, HTML, b"x" * 201, way, ends=False)
    assert reply.is_over
    check(reply, an(RemoteProtocolError, "'" + "x" * 200 + "'"))


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 399])
@pytest.mark.attack("S02")
def test_a_redirect_that_is_not_followed_ends_it_and_says_why(status):
    reply = call(Owner())
    reply.head(status, fields(HTML, location="https://u:p@else.where/?key=1"))
    check(reply, an(HTTPError, str(status), "it leads to another origin", body=b""))
    reply.data(b"<html>")
    reply.end()
    assert reply.error.body == b""


def test_a_redirect_that_is_followed_is_over_when_its_body_is_through():
    owner = Owner()
    owner.redirects = parse_url("http://127.0.0.1:1/there")
    reply = call(owner)
    reply.head(307, fields(HTML, location="/there"))
    assert not reply.is_over
    reply.data(b"<html>")
    assert not reply.is_over
    reply.end()
    assert reply.is_over
    reply.restart()
    assert (reply.status, dict(reply.fields), reply.error) == (0, {}, None)
    feed(reply, 200, JSON, text(answer()))
    check(reply, RESULT)


@in_three_ways
@pytest.mark.parametrize("status", [400, 401, 404, 405, 410, 429, 500, 502, 503, 599])
@pytest.mark.fault("F26")
def test_an_error_is_over_when_its_body_has_told_why(status, way):
    reply = call(Owner())
    reply.head(status, fields(JSON))
    assert not reply.is_over
    feed(reply, status, JSON, text(failure(-32600, id="server-error")), way)
    check(reply, an(InvalidRequest, code=-32600, status=status, method=METHOD))
    other = call(Owner())
    feed(other, status, HTML, b"<html>", way)
    assert type(other.error) is HTTPError
    assert other.error.body.strip() == b"<html>"


@pytest.mark.attack("S15")
@pytest.mark.parametrize("message_limit", [64 * 2**20, 1000])
def test_an_error_body_without_end_is_read_so_far_and_no_farther(message_limit):
    reply = call(Owner(limits=Limits(message=message_limit)))
    reply.head(500, fields(HTML))
    fed = 0
    while not reply.is_over:
        reply.data(b"x" * 4096)
        fed += 4096
    assert fed <= min(message_limit, 2**20) + 4096
    check(reply, an(HTTPError, body=b"x" * 2000))


@pytest.mark.attack("S15")
@pytest.mark.parametrize("way", ["whole", "byte by byte"])
def test_a_body_at_the_limit_is_read_and_one_over_it_is_refused(way):
    body = text(answer())
    owner = Owner(limits=Limits(message=len(body)))
    reply = call(owner)
    feed(reply, 200, JSON, body, way, more=b"")
    check(reply, RESULT)
    reply = call(owner)
    with pytest.raises(MessageTooLarge, match=r"Limits\.message") as caught:
        feed(reply, 200, JSON, body + b" ", way)
    assert caught.value.limit == len(body)
    check(reply, None)


@pytest.mark.attack("X12")
@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_body_of_too_many_values_fails_the_call(pieces, is_traced):
    many = b'{"jsonrpc":"2.0","result":[' + b"{}," * 400_000 + b"{}]}"
    owner = Owner(limits=Limits(values=600_000))
    owner.is_traced = is_traced
    reply = call(owner)
    reply.head(200, fields(JSON))
    for piece in (many,) if pieces == 1 else (many[:9], many[9:]):
        reply.data(piece)
    reply.end()
    check(reply, an(MessageTooLarge, "Limits.values", limit=600_000))
    assert reply.error.__traceback__ is None
    assert owner.stats.invalid == 1


@pytest.mark.attack("S15")
def test_tiny_pieces_of_a_large_body_cost_no_more_than_the_body():
    import tracemalloc

    reply = call(Owner())
    reply.head(200, fields(JSON))
    tracemalloc.start()
    try:
        for index in range(50_000):
            reply.data(b"%02d" % (index % 100))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 3 * 100_000


# Time...


@pytest.mark.fault("F37")
@pytest.mark.parametrize(
    ("status", "content_type", "expected"),
    [
        (None, None, an(RequestTimeout, METHOD, "2 s", detail=None)),
        (200, JSON, an(RequestTimeout, "200 came, and not all of the body")),
        (200, SSE, an(RequestTimeout, "the stream of the answer has brought none")),
        (200, HTML, an(RemoteProtocolError, "200", HTML, "'half", "not all of the")),
        (503, HTML, an(HTTPError, "503", "'half", "not all of the", status=503)),
        (400, JSON, an(HTTPError, "400", "'half", status=400)),
    ],
)
def test_when_time_is_over_it_is_told_what_has_come_so_far(
    status, content_type, expected
):
    reply = call(Owner(), deadline=Deadline(0.0, 2.0))
    if status is not None:
        reply.head(status, fields(content_type))
        reply.data(b"half")
    error = reply.out_of_time(2.5)
    expected.check(error)
    if type(error) is RequestTimeout:
        assert (error.method, error.timeout, error.elapsed) == (METHOD, 2.0, 2.5)


def test_a_pause_between_two_streams_of_a_call_is_its_own_time():
    """What the last GET was answered with is not the answer to the request."""
    reply = call(Owner(), deadline=Deadline(0.0, 2.0))
    reply.is_resumed = True
    reply.head(503, fields(HTML))
    an(RequestTimeout, "503 came").check(reply.out_of_time(2.0))
    reply.end()
    an(RequestTimeout).check(reply.out_of_time(2.0))
    reply = call(Owner(), deadline=Deadline(0.0, 2.0))
    feed(reply, 200, SSE, b"id: 1\n\n")
    an(RequestTimeout).check(reply.out_of_time(2.0))
