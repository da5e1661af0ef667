"""What comes back to a notification, on the server's own stream; where one goes on."""

from types import SimpleNamespace

import pytest
from fed_replies import (
    HTML,
    JSON,
    LOG,
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
    event,
    failure,
    feed,
    fields,
    in_three_ways,
    kept,
    log,
    notice,
    stream,
    text,
)
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import (
    HTTPError,
    InvalidMessage,
    RemoteProtocolError,
    RequestTimeout,
    RPCError,
)
from mcpwire.protocol.methods import LISTEN
from mcpwire.wire.urls import parse_url

# To a notification, or to an answer of ours...


@pytest.mark.fault("F24", "F25")
@pytest.mark.rule("LHTTP-04", "TR-HTTP-10")
@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
@pytest.mark.parametrize("content_type", [None, JSON, HTML, SSE])
def test_a_notification_is_accepted_by_any_success_with_its_head(status, content_type):
    owner = Owner()
    reply = notice(owner)
    reply.head(status, fields(content_type))
    assert reply.is_over
    assert reply.error is None
    reply.data(b"whatever")
    assert kept(reply) == 0
    reply.end()
    assert reply.error is None
    assert owner.told == []


@in_three_ways
def test_what_stands_on_the_stream_of_a_notification_is_told_and_answers_nothing(way):
    owner = Owner()
    reply = notice(owner)
    events = (log(1), asks("s"), answer(), failure())
    feed(reply, 202, SSE, b"".join(map(event, events)), way)
    assert owner.told == []  # 202 has no body that counts
    feed(reply := notice(owner), 200, SSE, b"".join(map(event, events)), way)
    assert owner.told == [("notified", LOG, 1), ("requested", "s", "ping")]
    assert owner.counted() == {"unknown": 2}
    assert reply.error is None


@in_three_ways
@pytest.mark.parametrize("status", [400, 401, 404, 405, 429, 500, 503])
@pytest.mark.fault("F26")
@pytest.mark.rule("TR-HTTP-11")
def test_a_notification_that_is_refused_has_its_error(status, way):
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
        assert kept(reply) == 0


@pytest.mark.attack("S02")
def test_a_redirect_of_a_notification_ends_it_and_says_why():
    reply = notice(Owner())
    reply.head(308, fields(None, location="https://else.where/"))
    assert reply.is_over
    an(HTTPError, "308", "another origin").check(reply.error)


@pytest.mark.fault("F37")
def test_a_notification_that_is_not_accepted_in_time_says_what_is_known():
    reply = notice(Owner())
    error = reply.out_of_time(31.0)
    an(RequestTimeout, "notifications/x", "not accepted", timeout=30.0).check(error)
    assert error.elapsed == 31.0
    reply.head(503, fields(HTML))
    reply.data(b"<ht")
    an(HTTPError, "503", "<ht", "not all of the body").check(reply.out_of_time(31.0))


# The server's own stream...


@in_three_ways
@pytest.mark.rule("LHTTP-14", "LHTTP-16")
def test_the_server_s_stream_tells_what_it_brings_and_answers_nothing(way):
    owner = Owner()
    reply = stream(owner)
    events = (log(1), asks("s"), answer(), failure(), log(2), {}, [])
    feed(reply, 200, SSE, b"".join(map(event, events)) + event(b"hi"), way)
    assert owner.told == [
        ("notified", LOG, 1),
        ("requested", "s", "ping"),
        ("notified", LOG, 2),
    ]
    assert owner.counted() == {"unknown": 2, "invalid": 2, "noise": 1}
    assert reply.error is None
    assert (reply.messages, reply.openings, owner.opened_streams) == (8, 1, 1)


def test_it_is_open_with_its_head_and_over_with_its_end():
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
def test_whatever_else_comes_is_no_stream_and_says_so_with_its_head(
    status, content_type, cls
):
    owner = Owner()
    reply = stream(owner)
    reply.head(status, fields(content_type, retry_after="3"))
    assert reply.is_over
    an(cls, "GET", URL, str(status), content_type or "", "no stream").check(reply.error)
    reply.data(text(log()))
    reply.end()
    assert (owner.told, owner.opened_streams, reply.openings) == ([], 0, 0)


@pytest.mark.attack("S02")
def test_a_redirect_of_the_stream_says_why_it_is_not_followed():
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


def test_a_stream_has_no_time_of_its_own():
    an(RemoteProtocolError, "GET", "in time").check(stream(Owner()).out_of_time(9.0))
    reply = stream(Owner())
    assert reply.deadline is None


# Where a stream goes on...


def place(reply):
    known = reply.resumption
    return None if known is None else (known.cursor, known.retry_ms)


@in_three_ways
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
def test_the_place_is_known_however_the_stream_ends(body, expected, way):
    for ends in ("end", "save_position"):
        for reply in (call(Owner()), stream(Owner())):
            feed(reply, 200, SSE, body, way, more=b": and", ends=False)
            getattr(reply, ends)()
            assert place(reply) == expected
            assert reply.is_over == (ends == "end")


def test_what_is_no_stream_has_no_place():
    reply = call(Owner())
    reply.head(200, fields(JSON))
    reply.data(b"id: 1\n\n")
    reply.save_position()
    assert place(reply) is None


@pytest.mark.rule("TR-HTTP-21")
def test_an_id_of_the_stateless_era_is_no_place_and_hides_nothing():
    """A listen that is asked for anew is numbered anew."""
    owner = Owner("2026-07-28")
    reply = call(owner, LISTEN)
    for turn in (1, 2):
        body = event(log(turn), id="1") + b"retry: 9\n\n" + event(log(turn), id="2")
        feed(reply, 200, SSE, body)
        assert place(reply) == ("", 9)
        reply.restart()
    assert owner.notes == [1, 1, 2, 2]


@in_three_ways
@pytest.mark.fault("F33")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-22")
def test_what_is_replayed_is_told_once_and_answers_of_other_streams_are_passed_over(
    way,
):
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
        assert place(reply) == ("x", None)
    reply.restart()
    others = event(answer(8)) + event(failure(id=9)) + event(log(3), id="3")
    feed(reply, 200, SSE, others + event(answer(), id="4"), way)
    check(reply, RESULT)
    assert owner.notes == [1, 2, 3]


@pytest.mark.pain("P22")
def test_a_resumed_message_has_brought_something_though_that_has_no_id():
    delays = []
    for body in (event(log()), b": nothing\n\n"):
        reply = call(Owner())
        feed(reply, 200, SSE, event(b"", id="1"))
        reply.resumption.ended(0.0)
        reply.restart()
        reply.is_resumed = True
        feed(reply, 200, SSE, body, more=b"")
        reply.resumption.ended(0.0)
        delays.append(reply.resumption.delay(0.0, 0.5))
    assert delays[0] < delays[1]


@pytest.mark.fault("F33")
def test_on_a_resumed_stream_its_own_id_as_text_is_still_diagnosed():
    reply = call(Owner())
    reply.is_resumed = True
    feed(reply, 200, SSE, event(answer("7")))
    an(InvalidMessage, "changed the type", path="response.id").check(reply.error)


@pytest.mark.fault("F33")
@pytest.mark.parametrize("make", [call, stream])
def test_on_a_stream_of_its_own_no_id_makes_a_replay(make):
    """Some servers number the kinds of their messages, or their answers."""
    owner = Owner()
    body = b"".join(event(log(n), id=id) for n, id in enumerate(["0", "1", "0", "1"]))
    feed(make(owner), 200, SSE, body)
    assert owner.notes == [0, 1, 2, 3]


@pytest.mark.fault("F33")
@pytest.mark.rule("LHTTP-21")
def test_the_server_s_stream_goes_on_where_it_was_if_it_has_a_place():
    owner = Owner()
    first = stream(owner)
    feed(first, 200, SSE, event(log(1), id="1"))
    second = stream(owner)
    second.resumption = first.resumption
    second.resumption.ended(0.0)
    feed(second, 200, SSE, event(log(1), id="1") + event(log(2), id="2"))
    assert owner.notes == [1, 2]
    assert place(second) == ("2", None)
    # One without a place begins anew.
    third, fourth = stream(owner), stream(owner)
    feed(third, 200, SSE, b"retry: 5\n\n" + event(log(3)))
    fourth.resumption = third.resumption
    feed(fourth, 200, SSE, event(log(4)))
    assert not fourth.is_resumed
    assert owner.notes == [1, 2, 3, 4]


def test_a_reply_is_fed_anew_as_if_it_were_new():
    reply = call(Owner())
    feed(reply, 503, HTML, b"<html>")
    assert type(reply.error) is HTTPError
    reply.restart()
    assert (reply.status, reply.is_over, reply.error) == (0, False, None)
    reply.head(200, fields(JSON))
    reply.data(b"{")
    reply.restart()
    assert kept(reply) == 0
    feed(reply, 200, SSE, event(answer()))
    check(reply, RESULT)
    assert reply.method == METHOD


@given(st.lists(st.binary(max_size=40), max_size=8), st.sampled_from([200, 202, 404]))
@pytest.mark.attack("S15")
def test_no_bytes_of_a_body_raise_or_hang(chunks, status):
    for content_type in (JSON, SSE, HTML, None):
        owner = Owner()
        for reply in (call(owner), notice(owner), stream(owner)):
            reply.head(status, fields(content_type))
            for chunk in chunks:
                reply.data(chunk)
            reply.end()
            assert reply.is_over
            assert kept(reply) == 0


# A body that only says why...


@pytest.mark.fault("F26", "F37")
@pytest.mark.parametrize(
    ("status", "content_type", "kind"),
    [(404, HTML, HTTPError), (500, JSON, HTTPError), (200, HTML, RemoteProtocolError)],
)
def test_an_answer_that_brings_nothing_may_be_cut_short(status, content_type, kind):
    owner = Owner()
    reply = call(owner)
    reply.head(status, fields(content_type))
    assert owner.error_bodies == [reply]
    reply.data(b"because")
    assert not reply.is_over
    reply.cut_short()
    assert reply.is_over
    an(kind, str(status), "because", "not all of the body").check(reply.error)


def test_an_answer_with_a_wanted_body_is_not_cut_short():
    owner = Owner()
    reply = call(owner)
    feed(reply, 200, JSON, text(answer()))
    assert owner.error_bodies == []


def test_what_is_fed_anew_is_not_cut_short_for_what_came_before():
    cancelled = []
    reply = call(Owner())
    reply.head(503, fields(HTML))
    reply.timer = SimpleNamespace(cancel=lambda: cancelled.append(True))
    reply.restart()
    assert cancelled == [True]
    assert reply.timer is None
