"""Event streams in reply to a request: messages, its own response among them."""

import sys

import pytest
from delivery import cut
from hypothesis import example, given
from hypothesis import strategies as st
from reply_feeding import (
    ID,
    JSON,
    LOG,
    METHOD,
    RESULT,
    SSE,
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
    text,
)

from mcpwire.errors import InvalidMessage, MessageTooLarge, RPCError
from mcpwire.limits import Limits, Recovery
from mcpwire.protocol.methods import LISTEN

HINT = "changed the type of the request's id"
NO_OUTCOME = None  # neither a result nor an error: the owner knows what follows
NO_ANSWER = an(InvalidMessage, METHOD, path="stream")
UNREADABLE = an(InvalidMessage, METHOD, "JSON in UTF-8", path="message")
FOREIGN = an(InvalidMessage, path="response.id", expected="the integer 7")
RETYPED = an(InvalidMessage, HINT, path="response.id")
OURS = an(RPCError, METHOD, code=-32000, status=None, method=METHOD)

THE_ANSWER = event(answer())

STREAMS = {
    # stream -> outcome, notifications, counters
    "the answer": (THE_ANSWER, RESULT, [], {}),
    "named": (event(answer(), name="message"), RESULT, [], {}),
    "CRLF line ends": (
        THE_ANSWER.replace(b"\n", b"\r\n"), RESULT, [], {}),
    "CR line ends": (THE_ANSWER.replace(b"\n", b"\r"), RESULT, [], {}),
    "a byte order mark": (b"\xef\xbb\xbf" + THE_ANSWER, RESULT, [], {}),
    "comments": (b": a\n\n:\n" + THE_ANSWER + b": b\n\n", RESULT, [], {}),
    "an event to begin with": (event(b"", id="1") + THE_ANSWER, RESULT, [], {}),
    "an empty event": (b"data\n\n" + THE_ANSWER, RESULT, [], {}),
    "blanks": (b"data:  \t\n\n" + THE_ANSWER, RESULT, [], {}),
    "a retry time": (b"retry: 5\n\n" + THE_ANSWER, RESULT, [], {}),
    "several lines of data": (
        event(b'{"jsonrpc":"2.0",\n"id":7,\n"result":{}}'), {}, [], {}),
    "other events": (
        event(b"{}", name="ping") + THE_ANSWER, RESULT, [], {}),
    "notifications": (
        event(log(1)) + event(log(2)) + THE_ANSWER, RESULT, [1, 2], {}),
    "a notification behind": (THE_ANSWER + event(log(1)), RESULT, [1], {}),
    "its error": (event(failure()), OURS, [], {}),
    "an error, null for the id": (event(failure(id=None)), OURS, [], {}),
    "an error, an unknown id": (event(failure(id="server-error")), OURS, [], {}),
    "noise": (
        event(b"[DONE]") + event(b"ping") + THE_ANSWER, RESULT, [], {"noise": 2}),
    "an error event before it": (
        event(b"oh no", name="error") + THE_ANSWER, RESULT, [], {}),
    # Responses to other requests...
    "another's answer": (event(answer(8)) + THE_ANSWER, FOREIGN, [], {"unknown": 2}),
    "another's error": (event(failure(id=8)), FOREIGN, [], {"unknown": 1}),
    "the id as text": (event(answer("7")), RETYPED, [], {"unknown": 1}),
    "a second answer": (
        THE_ANSWER + event(answer(result={})), RESULT, [], {"unknown": 1}),
    "an error behind it": (THE_ANSWER + event(failure()), RESULT, [], {"unknown": 1}),
    "another's answer behind it": (
        THE_ANSWER + event(answer(8)), RESULT, [], {"unknown": 1}),
    "an answer behind its error": (
        event(failure()) + THE_ANSWER, OURS, [], {"unknown": 1}),
    # Invalid messages...
    "malformed, by its id": (
        event(answer(result=[])),
        an(InvalidMessage, path="message.result"), [], {"invalid": 1}),
    "the id as a float": (
        event(answer(7.0)),
        an(InvalidMessage, HINT, path="message.id"), [], {"invalid": 1}),
    "unreadable, by its id": (
        event(b'{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}') + event(log(1)),
        UNREADABLE, [1], {}),
    "no UTF-8, by its id": (
        event(b'{"jsonrpc":"2.0","id":7,"result":{"x":"\xff"}}'),
        UNREADABLE, [], {}),
    "malformed, before it": (
        event(answer(8, result=[])) + THE_ANSWER, RESULT, [], {"invalid": 1}),
    "malformed, behind it": (
        THE_ANSWER + event(answer(result=[])), RESULT, [], {"invalid": 1}),
    "malformed calls": (
        event({"jsonrpc": "2.0", "method": 1, "id": ID}) + THE_ANSWER,
        RESULT, [], {"invalid": 1}),
    "unreadable calls": (
        event(b'{"jsonrpc":"2.0","id":7,"method":"x","params":NaN}') + THE_ANSWER,
        RESULT, [], {"noise": 1}),
    # No response at all...
    "nothing": (b"", NO_OUTCOME, [], {}),
    "comments alone": (b": a\n\n", NO_OUTCOME, [], {}),
    "notifications alone": (event(log(1)), NO_OUTCOME, [1], {}),
    "an event without its end": (THE_ANSWER[:-1], NO_OUTCOME, [], {}),
    "noise alone": (event(b"[DONE]") + event(b"hi"), NO_OUTCOME, [], {"noise": 2}),
    "a heartbeat": (event({"type": "ping"}), NO_OUTCOME, [], {"invalid": 1}),
    "values": (event(b"1") + event(b"null"), NO_OUTCOME, [], {"invalid": 2}),
    "a malformed notification": (
        event({"jsonrpc": "2.0", "method": 1}), NO_OUTCOME, [], {"invalid": 1}),
    "an error that is no JSON-RPC": (
        event({"error": "Session not found"}),
        an(InvalidMessage, "Session not found", path="stream"), [], {"invalid": 1}),
    "a result without an id": (
        event({"jsonrpc": "2.0", "result": {}}), NO_ANSWER, [], {"invalid": 1}),
    "unreadable, without an id": (
        event(b'  {"jsonrpc":"2.0","result":'), NO_ANSWER, [], {"noise": 1}),
    "an error event": (
        event(b"out of memory", name="error"),
        an(InvalidMessage, "out of memory", path="stream"), [], {}),
    "the stream of 2024-11-05": (
        event(b"/messages", name="endpoint") + event(log(1)),
        an(InvalidMessage, "2024-11-05", path="event"), [1], {}),
    "a batch": (event(b"[{}]"), NO_ANSWER, [], {"invalid": 1}),
}  # fmt: skip


def more_of(stream):
    return b"" if stream == THE_ANSWER[:-1] else b": more\n\n: and"


@in_each_delivery
@pytest.mark.parametrize("is_traced", [False, True], ids=["", "watched"])
@pytest.mark.parametrize("case", STREAMS)
@pytest.mark.attack("S31")
@pytest.mark.fault("F14", "F30", "F31")
@pytest.mark.pain("P19")
@pytest.mark.rule("TR-HTTP-13", "TR-HTTP-20")
def test_stream_yields_its_answer_or_an_error_with_its_content(case, is_traced, way):
    stream, expected, notes, counted = STREAMS[case]
    owner = Owner(is_traced=is_traced)
    reply = call(owner)
    feed(reply, 200, SSE, stream, way, more=more_of(stream))
    check(reply, expected)
    assert owner.notes == notes
    assert owner.counted() == counted
    assert reply.openings == 1


@in_each_delivery
def test_trace_receives_head_and_messages_unchanged(way):
    owner = Owner(is_traced=True)
    events = event(b"", id="1") + event(b"hi") + THE_ANSWER
    feed(call(owner), 200, SSE, events, way)
    assert owner.events == [
        ("head", 200),
        ("message", b"hi"),
        ("message", text(answer())),
    ]
    owner.events.clear()
    feed(call(owner), 200, JSON, text(answer()), way, more=b"")
    assert owner.events == [("head", 200), ("message", text(answer()))]


@in_each_delivery
@pytest.mark.rule("LHTTP-11")
def test_server_messages_reach_the_owner_in_order(way):
    owner = Owner()
    reply = call(owner)
    events = (
        log(1),
        build_ping("s1"),
        build_ping(7),
        log(2),
        answer(),
        build_ping("s2"),
    )
    feed(reply, 200, SSE, b"".join(map(event, events)), way)
    check(reply, RESULT)
    assert owner.events == [
        ("notified", LOG, 1),
        ("requested", "s1", "ping"),
        ("requested", 7, "ping"),
        ("notified", LOG, 2),
        ("requested", "s2", "ping"),
    ]
    assert owner.stats.messages == 6
    assert owner.stats.line_bytes == len(text(build_ping("s2")))


@pytest.mark.system("U21")
@pytest.mark.parametrize("content_type", [JSON, SSE])
def test_event_stream_is_over_with_its_answer_and_json_with_its_end(content_type):
    reply = call(Owner())
    reply.head(200, fields(content_type))
    for byte in event(log()) + THE_ANSWER if content_type == SSE else text(answer()):
        assert not reply.is_over
        reply.data(bytes([byte]))
    assert reply.is_over == (content_type == SSE)
    reply.end()
    assert reply.is_over


@pytest.mark.attack("S31")
@pytest.mark.fault("F14")
def test_answer_on_the_wrong_stream_fails_only_that_call():
    owner = Owner()
    first, second = call(owner, id=1), call(owner, id=2)
    feed(first, 200, SSE, event(answer(2)))
    feed(second, 200, SSE, event(answer(2)))
    an(InvalidMessage, path="response.id", got="2").check(first.error)
    check(second, RESULT)


@pytest.mark.attack("S15")
@pytest.mark.parametrize("way", ["whole", "byte by byte"])
def test_event_over_the_limit_raises_and_earlier_events_count(way):
    owner = Owner(limits=Limits(message=200))
    reply = call(owner)
    with pytest.raises(MessageTooLarge, match="an event") as caught:
        feed(reply, 200, SSE, event(log(1)) + event(b"x" * 201) + THE_ANSWER, way)
    assert caught.value.limit == 200
    assert owner.notes == [1]
    assert not reply.is_over
    fitting = call(owner)
    feed(fitting, 200, SSE, event(b"x" * 200) + THE_ANSWER, way)
    check(fitting, RESULT)


LARGE_LIST = b"[" + b"{}," * 400_000 + b"{}]}"


@pytest.mark.attack("X12")
@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("way", ["whole", "pieces"])
def test_event_of_too_many_values_fails_the_call_that_it_answers(way, is_traced):
    limits = Limits(values=600_000)
    ours = b'{"jsonrpc":"2.0","id":%d,"result":' % ID + LARGE_LIST
    others = b'{"jsonrpc":"2.0","method":"x","params":' + LARGE_LIST
    for data, error in ((ours, an(MessageTooLarge, "Limits.values")), (others, None)):
        owner = Owner(limits=limits)
        owner.is_traced = is_traced
        reply = call(owner)
        reply.head(200, fields(SSE))
        for piece in (event(data),) if way == "whole" else (b": x\n\n", event(data)):
            reply.data(piece)
        reply.data(THE_ANSWER)
        check(reply, error or RESULT)
        assert owner.stats.invalid == 1


@pytest.mark.attack("S15")
def test_piece_that_is_one_message_has_the_same_limit():
    for spare, is_refused in ((0, False), (-1, True)):
        owner = Owner(limits=Limits(message=len(text(answer())) + spare))
        reply = call(owner)
        if is_refused:
            with pytest.raises(MessageTooLarge):
                feed(reply, 200, SSE, THE_ANSWER, more=b"")
        else:
            feed(reply, 200, SSE, THE_ANSWER, more=b"")
            check(reply, RESULT)


@pytest.mark.attack("S15")
@pytest.mark.parametrize("way", ["whole", "byte by byte"])
def test_answer_counts_if_an_event_over_the_limit_follows(way):
    owner = Owner(limits=Limits(message=200))
    reply = call(owner)
    feed(reply, 200, SSE, THE_ANSWER + event(b"x" * 201) + event(log(1)), way)
    check(reply, RESULT)
    assert owner.notes == []


@pytest.mark.attack("S15")
def test_error_does_not_keep_the_message_alive():
    for content_type in (JSON, SSE):
        body = text(answer(result=[0] * 100))
        chunk = body if content_type == JSON else b"data: " + body + b"\n\n"
        references = sys.getrefcount(body), sys.getrefcount(chunk)
        reply = call(Owner())
        reply.head(200, fields(content_type))
        reply.data(chunk)
        reply.end()
        check(reply, an(InvalidMessage, path="message.result"))
        error, reply = reply.error, None
        assert (sys.getrefcount(body), sys.getrefcount(chunk)) == references
        assert error.__traceback__ is None
        assert len(error.raw) == 200


@pytest.mark.attack("S15")
def test_reply_releases_its_body_when_it_is_over():
    for status, content_type in ((200, JSON), (500, JSON), (200, "text/html")):
        reply = call(Owner())
        reply.head(status, fields(content_type))
        reply.data(b"x" * 100)
        reply.data(b"x" * 50)
        assert kept_bytes(reply) == 150
        reply.end()
        assert kept_bytes(reply) == 0
        reply.data(b"x" * 100)
        assert kept_bytes(reply) == 0


@pytest.mark.attack("S15")
def test_noise_lines_are_kept_shortened_and_up_to_the_limit():
    owner = Owner(limits=Limits(noise_lines=2))
    stream = b"".join(event(b"noise %d" % n + b"x" * 999) for n in range(5))
    feed(call(owner), 200, SSE, stream)
    assert owner.stats.noise == 5
    assert [line[:7] for line in owner.stats.noise_lines] == ["noise 0", "noise 1"]
    assert {len(line) for line in owner.stats.noise_lines} == {200}


def test_listen_stream_reports_each_opening():
    owner = Owner("2026-07-28")
    reply = call(owner, LISTEN)
    for opening in (1, 2):
        feed(reply, 200, SSE, event(log(opening)))
        assert owner.opened_streams == reply.openings == opening
        check(reply, NO_OUTCOME)
        reply.restart()
    assert owner.notes == [1, 2]
    plain = call(owner)
    feed(plain, 200, SSE, THE_ANSWER)
    assert owner.opened_streams == 2


def test_error_event_does_not_fail_a_reconnecting_listen_stream():
    reply = call(Owner("2026-07-28"), LISTEN)
    feed(reply, 200, SSE, event({"error": "restarting"}))
    check(reply, NO_OUTCOME)


MESSAGES = st.sampled_from(
    [
        event(log(1)),
        event(log("ä\r\nö"), id="1"),
        event(log(2), id="2", name="message"),
        event(b"", id="3"),
        event(build_ping("s"), name="message"),
        event(answer(8)),
        event(answer("7")),
        event(failure()),
        THE_ANSWER,
        event(answer(), id="4"),
        event(b"{", id="5"),
        event(b"hi", name="error"),
        event({"error": 1}),
        b": comment\n\n",
        b"id: 6\n\n",
        b"retry: 7\n\n",
        b"\n",
        b"data: 1",
        b"\xef\xbb\xbf",
    ]
)


def state_of(reply, owner):
    """Return the complete state of a fed reply and its owner."""
    place = reply.resumption
    error = reply.error
    return (
        reply.result,
        None if error is None else (type(error), str(error)),
        reply.is_over,
        None if place is None else (place.cursor, place.retry_ms),
        owner.events,
        owner.counted(),
        owner.stats.messages,
        owner.stats.noise_lines,
    )


@given(
    st.lists(MESSAGES, max_size=8),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 10**6), max_size=6),
    st.booleans(),
)
@example(
    events=[event(log(1)), b": a\n\n", THE_ANSWER],
    end=b"\n",
    places=[],
    is_resumed=False,
)
@example(  # a byte order mark inside the stream is part of a field's name
    events=[event(log(1)), b"\xef\xbb\xbf", event(log(2))],
    end=b"\n",
    places=[],
    is_resumed=False,
)
@pytest.mark.fault("F30")
@pytest.mark.pain("P19")
def test_stream_means_the_same_wherever_it_is_cut(events, end, places, is_resumed):
    events = [each.replace(b"\n", end) for each in events]
    stream = b"".join(events)
    single = [bytes([byte]) for byte in stream]
    states = []
    for chunks in ([stream], cut(stream, places), single, events):
        owner = Owner()
        reply = call(owner)
        reply.is_resumed = is_resumed
        reply.head(200, fields(SSE))
        for chunk in chunks:
            reply.data(chunk)
        reply.end()
        states.append(state_of(reply, owner))
    assert states[0] == states[1] == states[2] == states[3]


def test_error_event_fails_the_call_only_where_resumption_is_off():
    for recovery, expected in (
        (Recovery(), NO_OUTCOME),
        (Recovery(resume=False), NO_ANSWER),
    ):
        reply = call(Owner(recovery=recovery))
        feed(reply, 200, SSE, event({"error": "x"}, id="1"))
        check(reply, expected)
