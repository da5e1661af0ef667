"""Replies to a request, to a notification, and on the server's own stream."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reply_feeding import (
    HTML,
    ID,
    JSON,
    LOG,
    METHOD,
    RESULT,
    SSE,
    URL,
    Owner,
    an,
    answer,
    build_ping,
    call,
    check,
    event,
    failure,
    feed,
    fields,
    in_each_delivery,
    kept_bytes,
    log,
    notice,
    stream,
    text,
)
from traced_memory import traced_memory

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
from mcpwire.protocol.methods import LISTEN
from mcpwire.wire.urls import parse_url

# Replies to a notification, or to a response of ours...


@pytest.mark.fault("F24", "F25")
@pytest.mark.rule("LHTTP-04", "TR-HTTP-10")
@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
@pytest.mark.parametrize("content_type", [None, JSON, HTML, SSE])
def test_any_success_accepts_a_notification_with_its_head(status, content_type):
    owner = Owner()
    reply = notice(owner)
    reply.head(status, fields(content_type))
    assert reply.is_over
    assert reply.error is None
    reply.data(b"whatever")
    assert kept_bytes(reply) == 0
    reply.end()
    assert reply.error is None
    assert owner.events == []


@in_each_delivery
def test_stream_after_a_notification_delivers_only_server_messages(way):
    owner = Owner()
    reply = notice(owner)
    events = (log(1), build_ping("s"), answer(), failure())
    feed(reply, 202, SSE, b"".join(map(event, events)), way)
    assert owner.events == []  # the body of a 202 does not count
    feed(reply := notice(owner), 200, SSE, b"".join(map(event, events)), way)
    assert owner.events == [("notified", LOG, 1), ("requested", "s", "ping")]
    assert owner.counted() == {"unknown": 2}
    assert reply.error is None


@in_each_delivery
@pytest.mark.parametrize("status", [400, 401, 404, 405, 429, 500, 503])
@pytest.mark.fault("F26")
@pytest.mark.rule("TR-HTTP-11")
def test_refused_notification_has_its_error(status, way):
    for content_type, body, expected in (
        (HTML, b"<html>", an(HTTPError, "notifications/x", URL, HTML, status=status)),
        (None, b"", an(HTTPError, str(status), status=status)),
        (JSON, text(failure(id=None)), an(RPCError, code=-32000, status=status)),
    ):
        reply = notice(Owner())
        reply.head(status, fields(content_type))
        assert not reply.is_over
        feed(reply, status, content_type, body, way, more=b"")
        expected.check(reply.error)
        assert kept_bytes(reply) == 0


@pytest.mark.attack("S02")
def test_redirect_of_a_notification_ends_it_with_an_error():
    reply = notice(Owner())
    reply.head(308, fields(None, location="https://else.where/"))
    assert reply.is_over
    an(HTTPError, "308", "another origin").check(reply.error)


@pytest.mark.fault("F37")
def test_notification_timeout_reports_what_was_received():
    reply = notice(Owner())
    error = reply.timeout_error(31.0)
    an(RequestTimeout, "notifications/x", "not accepted", timeout=30.0).check(error)
    assert error.elapsed == 31.0
    reply.head(503, fields(HTML))
    reply.data(b"<ht")
    an(HTTPError, "503", "<ht", "not the whole body").check(reply.timeout_error(31.0))


@in_each_delivery
@pytest.mark.rule("LHTTP-14", "LHTTP-16")
def test_server_stream_delivers_server_messages_and_no_answers(way):
    owner = Owner()
    reply = stream(owner)
    events = (log(1), build_ping("s"), answer(), failure(), log(2), {}, [])
    feed(reply, 200, SSE, b"".join(map(event, events)) + event(b"hi"), way)
    assert owner.events == [
        ("notified", LOG, 1),
        ("requested", "s", "ping"),
        ("notified", LOG, 2),
    ]
    assert owner.counted() == {"unknown": 2, "invalid": 2, "noise": 1}
    assert reply.error is None
    assert (reply.messages, reply.openings, owner.opened_streams) == (8, 1, 1)


def test_server_stream_opens_with_its_head_and_ends_with_its_body():
    owner = Owner()
    reply = stream(owner)
    reply.head(200, fields(SSE))
    assert owner.opened_streams == 1
    reply.data(b": hello\n\n" + event(b"", id="1"))
    assert not reply.is_over
    assert reply.messages == 0
    reply.end()
    assert reply.is_over


@pytest.mark.fault("F29")
@pytest.mark.pain("P20")
@pytest.mark.rule("LHTTP-15")
@pytest.mark.parametrize(
    ("status", "content_type", "cls"),
    [
        *((status, None, HTTPError) for status in (400, 401, 403, 404, 405, 406, 501)),
        *((status, JSON, HTTPError) for status in (405, 500, 503)),
        *((status, None, RemoteProtocolError) for status in (202, 204)),
        (202, SSE, RemoteProtocolError),
        (200, JSON, RemoteProtocolError),
        (200, HTML, RemoteProtocolError),
        (200, None, RemoteProtocolError),
    ],
)
def test_reply_other_than_an_event_stream_is_an_error_at_its_head(
    status, content_type, cls
):
    owner = Owner()
    reply = stream(owner)
    reply.head(status, fields(content_type, retry_after="3"))
    assert reply.is_over
    an(cls, "GET", URL, str(status), content_type or "", "no stream").check(reply.error)
    reply.data(text(log()))
    reply.end()
    assert (owner.events, owner.opened_streams, reply.openings) == ([], 0, 0)


@pytest.mark.attack("S02")
def test_redirect_of_the_stream_is_refused_or_followed():
    owner = Owner()
    reply = stream(owner)
    reply.head(307, fields(None, location="/there"))
    an(HTTPError, "307", "another origin").check(reply.error)
    owner.redirects = parse_url("http://127.0.0.1:1/there")
    reply = stream(owner)
    reply.head(307, fields(None, location="/there"))
    assert not reply.is_over
    reply.end()
    reply.restart()
    reply.head(200, fields(SSE))
    assert (reply.openings, reply.error) == (1, None)


def test_server_stream_has_no_deadline():
    an(RemoteProtocolError, "GET", "in time").check(stream(Owner()).timeout_error(9.0))
    reply = stream(Owner())
    assert reply.deadline is None


def resume_point(reply):
    known = reply.resumption
    return None if known is None else (known.cursor, known.retry_ms)


@in_each_delivery
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (event(log()), None),
        (event(b"", id="a"), ("a", None)),
        (event(log(), id="a") + event(log()), ("a", None)),
        (event(log(), id="a") + event(log(), id="b c"), ("b c", None)),
        (event(log(), id="a") + b"id: b\n\n", ("b", None)),
        (b"id: b\nretry: 9\n\n", ("b", 9)),
        (b"retry: 9\n\n", ("", 9)),
        (b"retry: 9\n\n" + event(b"", id="a") + b"retry: 10\n\n", ("a", 10)),
        (b"retry: 9\ndata\n\n" + event(log()), ("", 9)),
        (event(log(), id="a") + b"id\n\n", ("a", None)),
        (b"id: a\0b\n\n", None),
        (event(log(), id="a") + b"id: b\n", ("a", None)),
    ],
)
@pytest.mark.fault("F30", "F31")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-06")
def test_resumption_point_is_known_however_the_stream_ends(body, expected, way):
    for ends in ("end", "save_position"):
        for reply in (call(Owner()), stream(Owner())):
            feed(reply, 200, SSE, body, way, more=b": and", ends=False)
            getattr(reply, ends)()
            assert resume_point(reply) == expected
            assert reply.is_over == (ends == "end")


def test_json_reply_has_no_resumption_point():
    reply = call(Owner())
    reply.head(200, fields(JSON))
    reply.data(b"id: 1\n\n")
    reply.save_position()
    assert resume_point(reply) is None


@pytest.mark.rule("TR-HTTP-21")
def test_stateless_event_ids_neither_resume_nor_deduplicate():
    """A repeated listen request numbers its events anew."""
    owner = Owner("2026-07-28")
    reply = call(owner, LISTEN)
    for opening in (1, 2):
        body = (
            event(log(opening), id="1") + b"retry: 9\n\n" + event(log(opening), id="2")
        )
        feed(reply, 200, SSE, body)
        assert resume_point(reply) == ("", 9)
        reply.restart()
    assert owner.notes == [1, 1, 2, 2]


@in_each_delivery
@pytest.mark.fault("F33")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-22")
def test_replayed_events_are_delivered_once_and_foreign_answers_ignored(way):
    owner = Owner()
    reply = call(owner)
    feed(reply, 200, SSE, event(log(1), id="1") + event(log(2), id="2"), way)
    check(reply, None)
    for _ in range(3):
        reply.restart()
        reply.is_resumed = True
        replayed = event(log(1), id="1") + event(log(2), id="2")
        feed(reply, 200, SSE, replayed + event(answer(8), id="x"), way)
        check(reply, None)
        assert resume_point(reply) == ("x", None)
    reply.restart()
    others = event(answer(8)) + event(failure(id=9)) + event(log(3), id="3")
    feed(reply, 200, SSE, others + event(answer(), id="4"), way)
    check(reply, RESULT)
    assert owner.notes == [1, 2, 3]


@pytest.mark.pain("P22")
def test_resumed_message_without_an_id_still_resets_the_backoff():
    delays = []
    for body in (event(log()), b": nothing\n\n"):
        reply = call(Owner())
        feed(reply, 200, SSE, event(b"", id="1"))
        reply.resumption.record_end(0.0)
        reply.restart()
        reply.is_resumed = True
        feed(reply, 200, SSE, body, more=b"")
        reply.resumption.record_end(0.0)
        delays.append(reply.resumption.delay(0.0, 0.5))
    assert delays[0] < delays[1]


@pytest.mark.fault("F33")
def test_retyped_id_on_a_resumed_stream_is_diagnosed():
    reply = call(Owner())
    reply.is_resumed = True
    feed(reply, 200, SSE, event(answer("7")))
    an(InvalidMessage, "changed the type", path="response.id").check(reply.error)


@pytest.mark.fault("F33")
@pytest.mark.parametrize("make", [call, stream])
def test_repeated_event_ids_on_a_fresh_stream_are_not_replays(make):
    """Some servers number the kinds of their messages, or their responses."""
    owner = Owner()
    body = b"".join(event(log(n), id=id) for n, id in enumerate(["0", "1", "0", "1"]))
    feed(make(owner), 200, SSE, body)
    assert owner.notes == [0, 1, 2, 3]


@pytest.mark.fault("F33")
@pytest.mark.rule("LHTTP-21")
def test_server_stream_with_a_resumption_point_skips_replayed_events():
    owner = Owner()
    first = stream(owner)
    feed(first, 200, SSE, event(log(1), id="1"))
    second = stream(owner)
    second.resumption = first.resumption
    second.resumption.record_end(0.0)
    feed(second, 200, SSE, event(log(1), id="1") + event(log(2), id="2"))
    assert owner.notes == [1, 2]
    assert resume_point(second) == ("2", None)
    # A stream without an event id begins anew.
    third, fourth = stream(owner), stream(owner)
    feed(third, 200, SSE, b"retry: 5\n\n" + event(log(3)))
    fourth.resumption = third.resumption
    feed(fourth, 200, SSE, event(log(4)))
    assert not fourth.is_resumed
    assert owner.notes == [1, 2, 3, 4]


def test_restarted_reply_behaves_like_a_new_one():
    reply = call(Owner())
    feed(reply, 503, HTML, b"<html>")
    assert type(reply.error) is HTTPError
    reply.restart()
    assert (reply.status, reply.is_over, reply.error) == (0, False, None)
    reply.head(200, fields(JSON))
    reply.data(b"{")
    reply.restart()
    assert kept_bytes(reply) == 0
    feed(reply, 200, SSE, event(answer()))
    check(reply, RESULT)
    assert reply.what == METHOD


@given(st.lists(st.binary(max_size=40), max_size=8), st.sampled_from([200, 202, 404]))
@pytest.mark.attack("S15")
def test_any_body_bytes_neither_raise_nor_hang(chunks, status):
    for content_type in (JSON, SSE, HTML, None):
        owner = Owner()
        for reply in (call(owner), notice(owner), stream(owner)):
            reply.head(status, fields(content_type))
            for chunk in chunks:
                reply.data(chunk)
            reply.end()
            assert reply.is_over
            assert kept_bytes(reply) == 0


# Bodies that only explain an error...


@pytest.mark.fault("F26", "F37")
@pytest.mark.parametrize(
    ("status", "content_type", "kind"),
    [(404, HTML, HTTPError), (500, JSON, HTTPError), (200, HTML, RemoteProtocolError)],
)
def test_error_body_may_be_cut_short(status, content_type, kind):
    owner = Owner()
    reply = call(owner)
    reply.head(status, fields(content_type))
    assert owner.error_bodies == [reply]
    reply.data(b"because")
    assert not reply.is_over
    reply.end_early()
    assert reply.is_over
    an(kind, str(status), "because", "not the whole body").check(reply.error)


def test_body_of_an_answer_is_not_cut_short():
    owner = Owner()
    reply = call(owner)
    feed(reply, 200, JSON, text(answer()))
    assert owner.error_bodies == []


def test_restart_cancels_the_timer_of_the_error_body():
    cancelled = []
    reply = call(Owner())
    reply.head(503, fields(HTML))
    reply.timer = SimpleNamespace(cancel=lambda: cancelled.append(True))
    reply.restart()
    assert cancelled == [True]
    assert reply.timer is None


HINT = "changed the type of the request's id"
NOT_JSON = an(InvalidMessage, METHOD, "JSON in UTF-8", path="body")
NO_ANSWER = an(InvalidMessage, METHOD, path="body", expected=f"the answer to {METHOD}")
FOREIGN = an(InvalidMessage, path="response.id", expected="the integer 7")
RETYPED = an(InvalidMessage, HINT, path="response.id", expected="the integer 7")
OURS = an(RPCError, METHOD, code=-32000, message="no", status=None, method=METHOD)

BODIES = {
    # body -> outcome, counters
    "the answer": (answer(), RESULT, {}),
    "an empty result": (answer(result={}), {}, {}),
    "unknown members": (answer(x=1, _meta={}), RESULT, {}),
    "white space": (b" \r\n\t" + text(answer()) + b"\n\n", RESULT, {}),
    "a byte order mark": (b"\xef\xbb\xbf" + text(answer()), RESULT, {}),
    "an error": (failure(), OURS, {}),
    "an error of a class": (failure(-32601), an(MethodNotFound, code=-32601), {}),
    "an error, null for the id": (failure(id=None), OURS, {}),
    "an error without id": (
        {k: v for k, v in failure().items() if k != "id"}, OURS, {}),
    "an error, an unknown id": (failure(id="server-error"), OURS, {}),
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
    "a request": (build_ping(), NO_ANSWER, {}),
    "a request with that id": (build_ping(ID), NO_ANSWER, {}),
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


@in_each_delivery
@pytest.mark.parametrize("is_traced", [False, True], ids=["", "watched"])
@pytest.mark.parametrize("case", BODIES)
@pytest.mark.fault("F14", "F24")
@pytest.mark.rule("TR-HTTP-13", "RPC-07")
def test_json_body_is_the_answer_or_a_precise_error(case, is_traced, way):
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
    "beside others": ([log(1), build_ping(), answer(), log(2)], RESULT, {}, [1, 2]),
    "two answers": ([answer(), answer(result={})], RESULT, {"unknown": 1}, []),
    "after an invalid member": ([{}, answer()], RESULT, {"invalid": 1}, []),
    "not in it": ([log(1)], NO_ANSWER, {}, [1]),
    "an empty one": ([], NO_ANSWER, {"invalid": 1}, []),
    "one within it": ([[answer()]], None, {"invalid": 1}, []),
    "its error": ([failure()], OURS, {}, []),
    "another's answer": ([answer(8)], FOREIGN, {"unknown": 1}, []),
}


@in_each_delivery
@pytest.mark.parametrize("content_type", [JSON, SSE])
@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.rule("RPC-13", "LHTTP-35")
def test_batch_is_split_at_its_one_revision(case, content_type, way):
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
def test_batch_at_another_revision_fails_the_call(revision, content_type):
    owner = Owner(revision)
    reply = call(owner)
    body = text([log(), answer()])
    feed(reply, 200, content_type, b"data: " + body + b"\n\n" if content_type == SSE
         else body)  # fmt: skip
    check(reply, an(InvalidMessage, "2025-03-26 only", expected="object", got="array"))
    assert owner.events == []


@pytest.mark.parametrize("status", [201, 203])
@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", SSE])
@pytest.mark.fault("F24")
def test_answer_with_status_201_or_203_is_accepted(status, content_type):
    reply = call(Owner())
    body = text(answer())
    feed(reply, status, content_type, b"data: " + body + b"\n\n" if content_type == SSE
         else body)  # fmt: skip
    check(reply, RESULT)


@pytest.mark.parametrize("status", [202, 204, 205, 206, 207, 299])
@pytest.mark.parametrize("content_type", [JSON, SSE, HTML, None])
@pytest.mark.fault("F25")
@pytest.mark.pain("P02")
def test_acceptance_of_a_request_is_an_error_at_its_head(status, content_type):
    reply = call(Owner())
    reply.head(status, fields(content_type))
    assert reply.is_over
    check(reply, an(RemoteProtocolError, METHOD, URL, str(status), "no answer can"))
    reply.data(text(answer()))
    reply.end()
    assert reply.result is None


@pytest.mark.parametrize("status", [201, 203])
def test_status_201_or_203_with_another_type_is_an_error(status):
    reply = call(Owner())
    reply.head(status, fields(HTML))
    check(reply, an(RemoteProtocolError, str(status), HTML))


@in_each_delivery
@pytest.mark.parametrize("content_type", [HTML, "text/plain", "application/xml", None])
@pytest.mark.parametrize("body", [b"", b"<html>no", text(answer())])
@pytest.mark.fault("F24")
def test_body_of_another_type_is_an_error_that_names_the_type(content_type, body, way):
    reply = call(Owner())
    feed(reply, 200, content_type, body, way)
    kind = content_type or ("no content type" if body else "200")
    check(reply, an(RemoteProtocolError, METHOD, URL, "200", kind, body[:9].decode()))


@pytest.mark.attack("S15")
@pytest.mark.fault("F24")
@pytest.mark.parametrize("way", ["whole", "byte by byte"])
def test_unusable_body_is_read_only_as_far_as_it_is_shown(way):
    reply = call(Owner())
    feed(reply, 200, HTML, b"x" * 201, way, ends=False)
    assert reply.is_over
    check(reply, an(RemoteProtocolError, "'" + "x" * 200 + "'"))


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 399])
@pytest.mark.attack("S02")
def test_refused_redirect_ends_the_call_with_an_error(status):
    reply = call(Owner())
    reply.head(status, fields(HTML, location="https://u:p@else.where/?key=1"))
    check(reply, an(HTTPError, str(status), "it leads to another origin", body=b""))
    reply.data(b"<html>")
    reply.end()
    assert reply.error.body == b""


def test_followed_redirect_is_over_at_the_end_of_its_body():
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


@in_each_delivery
@pytest.mark.parametrize("status", [400, 401, 404, 405, 410, 429, 500, 502, 503, 599])
@pytest.mark.fault("F26")
def test_error_status_is_over_at_the_end_of_its_body(status, way):
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
def test_endless_error_body_is_read_up_to_a_bound(message_limit):
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
def test_body_at_the_limit_is_read_and_one_byte_more_refused(way):
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
def test_body_of_too_many_values_fails_the_call(pieces, is_traced):
    body = b'{"jsonrpc":"2.0","result":[' + b"{}," * 400_000 + b"{}]}"
    owner = Owner(limits=Limits(values=600_000))
    owner.is_traced = is_traced
    reply = call(owner)
    reply.head(200, fields(JSON))
    for piece in (body,) if pieces == 1 else (body[:9], body[9:]):
        reply.data(piece)
    reply.end()
    check(reply, an(MessageTooLarge, "Limits.values", limit=600_000))
    assert reply.error.__traceback__ is None
    assert owner.stats.invalid == 1


@pytest.mark.attack("S15")
def test_tiny_pieces_of_a_body_cost_no_more_than_the_body():
    reply = call(Owner())
    reply.head(200, fields(JSON))
    with traced_memory() as memory:
        for index in range(50_000):
            reply.data(b"%02d" % (index % 100))
    assert memory.held < 3 * 100_000


@pytest.mark.fault("F37")
@pytest.mark.parametrize(
    ("status", "content_type", "expected"),
    [
        (None, None, an(RequestTimeout, METHOD, "2 s", detail=None)),
        (200, JSON, an(RequestTimeout, "200 was received, but not the whole body")),
        (200, SSE, an(RequestTimeout, "the response stream has delivered no answer")),
        (200, HTML, an(RemoteProtocolError, "200", HTML, "'half", "not the whole")),
        (503, HTML, an(HTTPError, "503", "'half", "not the whole", status=503)),
        (400, JSON, an(HTTPError, "400", "'half", status=400)),
    ],
)
def test_timeout_reports_what_was_received(status, content_type, expected):
    reply = call(Owner(), deadline=Deadline(0.0, 2.0))
    if status is not None:
        reply.head(status, fields(content_type))
        reply.data(b"half")
    error = reply.timeout_error(2.5)
    expected.check(error)
    if type(error) is RequestTimeout:
        assert (error.method, error.timeout, error.elapsed) == (METHOD, 2.0, 2.5)


def test_timeout_between_two_streams_is_a_plain_timeout():
    """The reply to the last GET is not the answer to the request."""
    reply = call(Owner(), deadline=Deadline(0.0, 2.0))
    reply.is_resumed = True
    reply.head(503, fields(HTML))
    an(RequestTimeout, "503 was received").check(reply.timeout_error(2.0))
    reply.end()
    an(RequestTimeout).check(reply.timeout_error(2.0))
    reply = call(Owner(), deadline=Deadline(0.0, 2.0))
    feed(reply, 200, SSE, b"id: 1\n\n")
    an(RequestTimeout).check(reply.timeout_error(2.0))
