"""How a peer reads bytes (noise, damage, limits, end of stream), and what it sends."""

import json
from collections import deque
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import (
    ALL,
    BATCHES,
    ERRORS_WITHOUT_ID,
    NO_ERRORS_WITHOUT_ID,
    SESSION,
    STATELESS,
    Call,
    Error,
    Refusal,
    Row,
    check,
    make_peer,
    msg,
    one_message,
    open_call,
    params,
    table,
)

from mcpwire.errors import InvalidMessage, LocalProtocolError, MessageTooLarge
from mcpwire.limits import Limits
from mcpwire.protocol.peer import TOO_MANY_REASON, Peer, too_many_questions
from mcpwire.versions import LATEST, find_revision

DONE = ("answered", 1, {})
RESULT = msg('"id":1,"result":{}')
ANY_REVISION = (None, *ALL)
NOT_BATCHING = tuple(name for name in ANY_REVISION if name not in BATCHES)
TWO = ("tools/call", "tools/list")
DEEP = "[" * 2_000 + "]" * 2_000


def noise(name, *lines, revisions=ANY_REVISION):
    """Make the row of noise lines before the response to call 1."""
    data = b"".join(line + b"\n" for line in lines)
    noisy = sum(bool(line.strip()) for line in lines)
    return Row(
        name=name,
        data=data + RESULT,
        revisions=revisions,
        events=(DONE,),
        stats={"messages": noisy + 1, **({"noise": noisy} if noisy else {})},
    )


@pytest.mark.pain("P15")
@pytest.mark.fault("F12")
@pytest.mark.rule("RPC-15")
@table(
    noise("blank lines", b"", b" \t ", b"\r", b"\x0b\x0c"),
    noise("text", b"Server listens on stdio", b"> npx it", "\u2714 ok".encode()),
    noise("scalars", b"1", b'"text"', b"true", b"null", b"-0.5"),
    noise("objects that are no messages", b"{}", b'{"level":"info"}', b'{"id":9}'),
    noise("logs that hold an id like ours", b'{"id":1,"msg":"m"}', b'{"id":"1"}'),
    noise("only a version", b'{"jsonrpc":"2.0"}'),
    noise("half a message", b'{"jsonrpc":"2.0","method":"x","params":{'),
    noise("NUL bytes", b"\x00", b"\x00\x00{}"),
    noise("UTF-16", "{}".encode("utf-16-be")),
    noise("a batch elsewhere", b"[" + RESULT.strip() + b"]", revisions=NOT_BATCHING),
    noise("an empty array elsewhere", b"[]", revisions=NOT_BATCHING),
)
def test_noise_is_counted_and_the_next_response_arrives(row):
    check(row)


def answer_holding(text, encoding="utf-8"):
    return msg(f'"id":1,"result":{{"text":{text}}}').decode().encode(encoding)


def unreadable(name, line):
    """Make the row of a damaged response to call 1, before a valid one to call 2."""
    error = Error(InvalidMessage, path="message", expected="JSON in UTF-8")
    events = (("failed", 1, error), ("answered", 2, {}))
    data = line + msg('"id":2,"result":{}')
    return Row(name=name, opens=TWO, revisions=ANY_REVISION, data=data, events=events)


@pytest.mark.pain("P17")
@pytest.mark.fault("F13")
@pytest.mark.rule("RPC-02")
@table(
    unreadable("a byte that is no UTF-8", answer_holding('"\xe9t\xe9"', "latin-1")),
    unreadable("half a character", answer_holding('"\u20ac"')[:-5] + b'"}}\n'),
    unreadable("a lone surrogate", answer_holding('"\\ud800"')),
    unreadable("a surrogate in UTF-8",
               answer_holding('"?"').replace(b"?", b"\xed\xa0\x80")),
    unreadable("NaN", answer_holding("NaN")),
    unreadable("a number beyond all floats", answer_holding("1e999")),
    unreadable("a raw control character", answer_holding('"\x01"')),
    unreadable("too deep", answer_holding(DEEP)),
    Row(name="an unknown call's answer", revisions=ANY_REVISION, events=(DONE,),
        data=msg('"id":9,"result":{"a":NaN}') + RESULT, stats={"noise": 1}),
    Row(name="the only answer's id in another type", revisions=ANY_REVISION,
        data=msg('"id":"1","result":{"a":NaN}') + RESULT, events=(DONE,),
        stats={"noise": 1}),
    Row(name="a notification", revisions=ANY_REVISION, events=(DONE,),
        data=msg('"method":"notifications/message"', params('{"a":NaN}')) + RESULT,
        stats={"noise": 1}),
)  # fmt: skip
def test_unreadable_response_fails_only_its_call(row):
    check(row)


def refused_request(name, id, line, revisions):
    """Make the row of a damaged request with a readable id."""
    sent = (Refusal(-32700, id=id),)
    stats = {"invalid": 1}
    return Row(name=name, role="server", opens=(), revisions=revisions, data=line,
               sent=sent, stats=stats)  # fmt: skip


ASK = '"method":"tools/call"'


@pytest.mark.pain("P17")
@pytest.mark.rule("RPC-08")
@table(
    refused_request("NaN", 7, msg('"id":7', ASK, params('{"a":NaN}')), ANY_REVISION),
    refused_request("no UTF-8", "a-1", msg('"id":"a-1"', ASK, params('{"a":"?"}'))
                    .replace(b"?", b"\xff"), ANY_REVISION),
    refused_request("too deep", 0, msg('"id":0', ASK, params(f'{{"a":{DEEP}}}')),
                    ANY_REVISION),
    Row(name="to a client inside a session", revisions=SESSION, open_after=(1,),
        data=msg('"id":1,"method":"roots/list"', params('{"a":NaN}')),
        sent=(Refusal(-32700, id=1),), stats={"invalid": 1}),
    Row(name="to a stateless client", revisions=STATELESS, open_after=(1,),
        data=msg('"id":1,"method":"roots/list"', params('{"a":NaN}')),
        stats={"invalid": 1}),
    Row(name="in flight already", role="server", opens=(), answers=True,
        data=msg('"id":7', ASK) + msg('"id":7', ASK, params('{"a":NaN}')),
        events=(("requested", 7, "tools/call", None),), stats={"invalid": 1},
        sent=({"jsonrpc": "2.0", "id": 7, "result": {"to": [7, "tools/call"]}},)),
)  # fmt: skip
def test_unreadable_request_is_refused_by_its_id(row):
    check(row)


DAMAGED = '"a":NaN'


def no_id(name, line, code, counted):
    """Make two rows: for revisions with errors without an id, and for the others."""
    shared = {"role": "server", "opens": (), "data": line, "stats": counted}
    return (
        Row(name=f"{name}, answered", revisions=ERRORS_WITHOUT_ID,
            sent=(Refusal(code),), **shared),
        Row(name=f"{name}, not answered", revisions=NO_ERRORS_WITHOUT_ID, **shared),
    )  # fmt: skip


@pytest.mark.rule("RPC-08")
@table(
    *no_id("text", b"GET / HTTP/1.1\n", -32700, {"noise": 1}),
    *no_id("scalar", b"42\n", -32600, {"noise": 1}),
    *no_id("no members", b"{}\n", -32600, {"noise": 1}),
    *no_id("no method", msg(params("{}")), -32600, {"noise": 1}),
    *no_id("damaged, no id", msg(ASK, DAMAGED), -32700, {"noise": 1}),
    *no_id("damaged, id true", msg('"id":true', ASK, DAMAGED), -32700, {"noise": 1}),
    *no_id("damaged, id beyond 64 bit", msg(f'"id":{2**64}', ASK, DAMAGED), -32700,
              {"noise": 1}),
    *no_id("damaged in the id", msg('"id":"?"', ASK).replace(b"?", b"\xff"), -32700,
              {"noise": 1}),
    *no_id("surrogate in the id", msg('"id":"\\ud800"', ASK), -32700, {"noise": 1}),
    *no_id("id null", msg('"id":null', ASK), -32600, {"invalid": 1}),
    *no_id("id 1.0", msg('"id":1.0', ASK), -32600, {"invalid": 1}),
    *no_id("id true", msg('"id":true', ASK), -32600, {"invalid": 1}),
    *no_id("id an array", msg('"id":[]', ASK), -32600, {"invalid": 1}),
)  # fmt: skip
def test_message_without_a_readable_id_is_refused_if_the_revision_can(row):
    check(row)


@table(
    *(Row(name=spelling, revisions=ANY_REVISION, open_after=(1,), stats={"invalid": 1},
          data=msg(f'"id":{spelling}', ASK)) for spelling in ("null", "1.0", "true")),
)  # fmt: skip
def test_client_never_refuses_a_message_without_a_readable_id(row):
    check(row)


def text_result(text):
    return msg(f'"id":1,"result":{{"text":"{text}"}}')


SEPARATORS = "\u2028\u2029\u0085"
WHITE = "\u000b\u000c\u001c\u001d\u001e\r"


@pytest.mark.pain("P14")
@pytest.mark.fault("F11")
@table(
    Row(name="separators that are no line ends", data=text_result(SEPARATORS),
        events=(("answered", 1, {"text": SEPARATORS}),)),
    Row(name="characters of several bytes", data=text_result("\xe9\u20ac\U0001f600"),
        events=(("answered", 1, {"text": "\xe9\u20ac\U0001f600"}),)),
    Row(name="escaped control characters",
        data=text_result(json.dumps(WHITE)[1:-1]),
        events=(("answered", 1, {"text": WHITE}),)),
    Row(name="CRLF", data=RESULT[:-1] + b"\r\n", events=(DONE,)),
    Row(name="CR between tokens", data=RESULT.replace(b",", b",\r"), events=(DONE,)),
    Row(name="white space around", data=b" \t" + RESULT[:-1] + b" \t\n",
        events=(DONE,)),
    Row(name="byte order mark", data=b"\xef\xbb\xbf" + RESULT, events=(DONE,)),
    Row(name="mark and blank line", data=b"\xef\xbb\xbf\n" + RESULT, events=(DONE,),
        stats={"messages": 1}),
    Row(name="a second mark is no mark", data=b"\n\xef\xbb\xbf{}\n" + RESULT,
        events=(DONE,), stats={"messages": 2, "noise": 1}),
)  # fmt: skip
def test_only_a_newline_ends_a_line_and_text_is_preserved(row):
    check(row)


@pytest.mark.parametrize("size", [1, 7, 4_096])
def test_events_before_a_message_over_the_limit_are_delivered(size):
    peer, owner = make_peer(opens=TWO, limits=Limits(message=64))
    data = RESULT + msg('"id":2,"result":{{"a":"{}"}}'.format("x" * 64)) + RESULT
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    with pytest.raises(MessageTooLarge) as raised:
        deque(map(peer.receive, chunks))
    assert raised.value.limit == 64
    assert "64 bytes" in str(raised.value)
    assert owner.events == [DONE]
    with pytest.raises(MessageTooLarge):
        peer.receive(msg('"id":2,"result":{}'))
    assert [call.number for call in peer.end()] == [2]
    assert owner.events == [DONE]


LARGE_LIST = b"[" + b"{}," * 400_000 + b"{}]"
VALUE_LIMITS = Limits(values=600_000)


@pytest.mark.attack("X12")
def test_response_of_too_many_values_fails_only_its_call():
    peer, owner = make_peer(opens=TWO, limits=VALUE_LIMITS)
    peer.receive(msg(f'"id":1,"result":{{"a":{LARGE_LIST.decode()}}}') + RESULT)
    peer.receive(msg('"id":2,"result":{}'))
    (kind, id, error), second = owner.events
    assert (kind, id, type(error)) == ("failed", 1, MessageTooLarge)
    assert error.limit == 600_000
    assert error.__traceback__ is None  # a stored error does not keep the message
    assert "holds more than 600000 values (Limits.values)" in str(error)
    assert second == ("answered", 2, {})
    assert (peer.stats.messages, peer.stats.invalid, peer.stats.noise) == (3, 1, 0)
    assert peer.stats.unknown == 1


@pytest.mark.attack("X12")
@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize(
    ("head", "id"),
    [
        ('"id":"x","method":"m","params":', "x"),
        ('"method":"m","params":', None),
        ('"id":9,"result":', None),
    ],
)
def test_request_of_too_many_values_is_refused_and_the_next_accepted(role, head, id):
    peer, owner = make_peer(role=role, revision="2025-11-25", limits=VALUE_LIMITS)
    peer.receive(msg(head + LARGE_LIST.decode()))
    peer.receive(msg('"id":2,"method":"ping","params":{}'))
    assert owner.events == [("requested", 2, "ping", {})]
    assert peer.stats.invalid == 1
    answers = [one_message(line) for line in owner.transmitted]
    if id is None and not (role == "server" and "method" not in head):
        assert answers == []
    else:
        (answer,) = answers
        assert (answer.get("id"), answer["error"]["code"]) == (id, -32600)
        assert "Limits.values" in answer["error"]["message"]


def test_message_of_exactly_the_limit_is_accepted():
    line = msg('"id":1,"result":{"a":"xx"}')
    peer, owner = make_peer(opens=TWO, limits=Limits(message=len(line) - 1))
    peer.receive(line)
    assert owner.events == [("answered", 1, {"a": "xx"})]


@pytest.mark.pain("P15")
def test_first_noise_lines_are_kept_shortened_and_decoded():
    peer, _ = make_peer(limits=Limits(noise_lines=2))
    peer.receive(b"  hello\xff \r\n" + b"y" * 500 + b"\nthird\n")
    assert peer.stats.noise == 3
    assert peer.stats.noise_lines == ["hello\ufffd", "y" * 200]


@pytest.mark.pain("P14")
def test_end_delivers_an_unterminated_last_line():
    peer, owner = make_peer(opens=TWO)
    peer.receive(RESULT[:-1])
    assert owner.events == []
    assert [call.number for call in peer.end()] == [2]
    assert owner.events == [DONE]
    assert (peer.stats.messages, peer.outstanding) == (1, {})


def test_end_counts_a_partial_message_as_noise_and_ignores_blanks():
    peer, owner = make_peer(opens=TWO)
    peer.receive(RESULT[:-4])
    assert [call.number for call in peer.end()] == [1, 2]
    assert peer.end() == []
    assert (peer.stats.messages, peer.stats.noise, owner.events) == (1, 1, [])
    peer, _ = make_peer()
    peer.receive(b" \t")
    peer.end()
    assert peer.stats.messages == 0


def test_end_discards_unanswered_requests():
    peer, owner = make_peer("server")
    peer.receive(msg('"id":1,"method":"ping"'))
    assert 1 in peer.unanswered
    peer.end()
    assert owner.events == [("requested", 1, "ping", None)]
    assert 1 not in peer.unanswered
    assert peer.answer(1, {}) is None


@pytest.mark.parametrize("rest", [b"", b"garbage\n", b'"scalar"\n'])
def test_ending_the_peer_inside_receive_drops_the_rest(rest):
    # An owner that cannot write ends the peer from inside `transmit`.
    peer, owner = make_peer("server", None)
    owner.transmit = lambda data: peer.end()
    request = msg('"id":1,"method":"ping"')
    peer.receive(request + b"noise\n" + rest + msg('"id":2,"method":"ping"'))
    assert owner.events == [("requested", 1, "ping", None)]
    assert peer.stats.noise == 1


@pytest.mark.fault("F13", "F11")
@given(
    st.lists(st.binary(max_size=60) | st.just(b"\n") | st.just(RESULT), max_size=8),
    st.sampled_from(["client", "server"]),
    st.sampled_from([None, *ALL]),
)
def test_arbitrary_bytes_are_received_or_too_large(chunks, role, revision):
    peer, owner = make_peer(role, revision, limits=Limits(message=100))
    try:
        for chunk in chunks:
            peer.receive(chunk)
    except MessageTooLarge:
        pass
    peer.end()
    assert all(one_message(line) for line in owner.transmitted)


FIELDS = {
    "jsonrpc": ['"2.0"', "2"],
    "id": ["1", '"1"', "1.0", "null", "true", '"\\ud800"', f"{2**64}", "[]", '"a"'],
    "method": ['"ping"', '"initialize"', '"notifications/cancelled"', "1",
               '"notifications/progress"'],
    "params": ["{}", "[]", "null", '{"requestId":1}', '{"progressToken":1}',
               '{"requestId":"a"}', '{"_meta":{}}', '{"_meta":7}', DEEP,
               '{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}'],
    "result": ["{}", "[]", "NaN"],
    "error": ['{"code":1,"message":"m"}', "{}", "1", '{"code":1,"message":"\\ud800"}'],
}  # fmt: skip
OBJECTS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(texts) for name, texts in FIELDS.items()}
).map(lambda members: "{" + ",".join(f'"{n}":{t}' for n, t in members.items()) + "}")
LINES = OBJECTS | st.lists(OBJECTS | st.just("7"), max_size=4).map(
    lambda members: "[" + ",".join(members) + "]"
)


@pytest.mark.fault("F12", "F14")
@given(
    st.lists(LINES, min_size=1, max_size=5),
    st.sampled_from(["client", "server"]),
    st.sampled_from([None, *ALL]),
)
def test_any_mixture_of_members_is_received(lines, role, revision):
    opens = ("subscriptions/listen",) if role == "client" else ()
    peer, owner = make_peer(role, revision, opens)
    peer.receive("\n".join([*lines, ""]).encode())
    ends = [event for event in owner.events if event[0] in {"answered", "failed"}]
    assert len(ends) + len(peer.outstanding) == len(opens)
    assert peer.stats.messages == len(lines)
    requests = [event[1] for event in owner.events if event[0] == "requested"]
    for id in requests:
        peer.answer(id, {})
        assert peer.answer(id, {}) is None
    for line in owner.transmitted:
        one_message(line)


@pytest.mark.parametrize("half", [b"{", b"[", b"7", b'{"jsonrpc":"2.0","id":1,'])
def test_partial_line_at_the_end_is_not_answered(half):
    peer, owner = make_peer("server")
    peer.receive(half)
    owner.transmit = lambda data: pytest.fail(f"answered {data!r}")
    assert peer.end() == []
    assert peer.stats.noise == 1


@pytest.mark.system("V20")
@pytest.mark.rule("RPC-01", "RPC-03", "TR-STDIO-01", "TR-STDIO-03")
def test_request_is_one_line_with_the_next_id():
    peer, _ = make_peer()
    id, line = open_call(peer, "ping")
    assert id == 1
    assert one_message(line) == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    nested = {"a": "line\nfeed", "b": [None]}
    id, line = open_call(peer, "tools/call", nested)
    assert id == 2
    assert one_message(line) == {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": nested,
    }
    assert peer.requests_sent == 2
    assert [call.method for call in peer.outstanding.values()] == ["ping", "tools/call"]


@pytest.mark.rule("RPC-05", "RPC-06")
@pytest.mark.fault("F15")
def test_ids_are_never_used_twice():
    peer, _ = make_peer()
    ids = [open_call(peer)[0]]
    peer.receive(msg('"id":1,"result":{}'))
    ids.append(open_call(peer)[0])
    peer.cancel(ids[-1], "test")
    ids.append(open_call(peer)[0])
    peer.drop_request(ids[-1])
    ids.append(open_call(peer)[0])
    peer.end()
    ids.append(open_call(peer)[0])
    assert ids == [1, 2, 3, 4, 5]


@pytest.mark.rule("PROG-01")
@pytest.mark.parametrize(
    ("params", "sent"),
    [
        (None, {"_meta": {"progressToken": 1}}),
        ({}, {"_meta": {"progressToken": 1}}),
        ({"a": 1, "_meta": None}, {"a": 1, "_meta": {"progressToken": 1}}),
        (
            {"_meta": {"x/y": 2, "progressToken": "old"}},
            {"_meta": {"x/y": 2, "progressToken": 1}},
        ),
    ],
)
def test_progress_token_is_the_id_and_the_given_params_stay_unchanged(params, sent):
    peer, _ = make_peer()
    before = repr(params)
    _, line = open_call(peer, "m", params, progress=True)
    assert one_message(line)["params"] == sent
    assert repr(params) == before


def test_unencodable_request_changes_no_state():
    peer, _ = make_peer()
    with pytest.raises(LocalProtocolError) as raised:
        peer.start_request("tools/call", {"a": {"b": [...]}}, Call("tools/call"))
    assert "$.params.a.b[0]" in str(raised.value)
    assert (peer.outstanding, peer.requests_sent) == ({}, 0)
    assert open_call(peer)[0] == 1


@pytest.mark.rule("RPC-20", "TR-STDIO-07")
@pytest.mark.parametrize("revision", [None, *STATELESS])
def test_server_may_send_no_request_outside_a_session(revision):
    peer, _ = make_peer("server", revision)
    with pytest.raises(LocalProtocolError) as raised:
        peer.start_request("sampling/createMessage", {}, Call("sampling/createMessage"))
    assert "'sampling/createMessage'" in str(raised.value)
    assert (peer.outstanding, peer.requests_sent) == ({}, 0)


@pytest.mark.parametrize("revision", SESSION)
def test_server_may_send_requests_inside_a_session(revision):
    peer, owner = make_peer("server", revision)
    assert open_call(peer, "roots/list")[0] == 1
    peer.receive(msg('"id":1,"result":{"roots":[]}'))
    assert owner.events == [("answered", 1, {"roots": []})]


@pytest.mark.rule("CAN-01", "CAN-02", "CAN-12", "TR-STDIO-10", "LIFE-14")
@pytest.mark.parametrize("revision", ALL)
def test_cancelled_call_is_closed_and_its_id_is_sent_to_the_peer(revision):
    peer, owner = make_peer(revision=revision, opens=("tools/call", "tools/call"))
    assert one_message(peer.cancel(2, "no longer needed")) == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 2, "reason": "no longer needed"},
    }
    assert list(peer.outstanding) == [1]
    assert owner.events == []


@pytest.mark.system("A31")
@pytest.mark.rule("CAN-01", "CAN-02")
def test_call_that_is_not_open_cannot_be_cancelled():
    peer, _ = make_peer(opens=("tools/call",))
    assert peer.cancel(7, "unknown") is None
    peer.receive(msg('"id":1,"result":{}'))
    assert peer.cancel(1, "answered already") is None
    open_call(peer)
    assert peer.cancel(2, "once") is not None
    assert peer.cancel(2, "twice") is None


@pytest.mark.rule("LIFE-16")
@pytest.mark.parametrize("revision", [None, *ALL])
def test_initialize_is_never_cancelled(revision):
    peer, _ = make_peer(revision=revision, opens=("initialize",))
    assert peer.cancel(1, "timeout") is None
    assert peer.outstanding == {}


@pytest.mark.rule("LIFE-05")
def test_cancellation_is_not_sent_before_the_agreement():
    peer, owner = make_peer(revision=None, opens=("server/discover", "tools/call"))
    assert peer.cancel(1, "timeout") is None
    peer.revision = find_revision("2025-11-25")
    assert peer.cancel(2, "timeout") is not None
    peer.receive(msg('"id":1,"result":{}'))
    assert (owner.events, peer.stats.late, peer.stats.unknown) == ([], 1, 0)


def test_unencodable_cancellation_leaves_the_call_open():
    peer, owner = make_peer(opens=("tools/call",))
    with pytest.raises(LocalProtocolError):
        peer.cancel(1, "\ud800")
    assert list(peer.outstanding) == [1]
    peer.receive(msg('"id":1,"result":{}'))
    assert owner.events == [("answered", 1, {})]


def test_dropped_call_receives_no_event():
    peer, owner = make_peer(opens=("tools/call", "tools/call"))
    peer.drop_request(1)
    peer.drop_request(1)
    assert list(peer.outstanding) == [2]
    peer.receive(msg('"id":1,"result":{}'))
    assert (owner.events, peer.stats.unknown) == ([], 1)


@pytest.mark.rule("RPC-11")
@pytest.mark.parametrize(
    ("params", "members"),
    [(None, {}), ({}, {"params": {}}), ({"a": "\n"}, {"params": {"a": "\n"}})],
)
def test_notification_is_one_line_without_an_id(params, members):
    peer, _ = make_peer()
    line = peer.notify("notifications/x", params)
    assert one_message(line) == {
        "jsonrpc": "2.0",
        "method": "notifications/x",
        **members,
    }


def test_unanswered_requests_and_the_current_line_length_are_counted():
    line_lengths = []

    class Owner:
        def __getattr__(self, name):
            return lambda *_: line_lengths.append(peer.stats.line_bytes)

    peer = Peer(Owner(), role="client")
    peer.revision = LATEST
    for _ in range(5):
        peer.start_request(
            "tools/call", {"name": "x"}, SimpleNamespace(method="tools/call")
        )
    peer.cancel(1, "enough")
    peer.cancel(1, "twice")
    peer.drop_request(2)
    peer.drop_request(2)
    line = b'{"jsonrpc":"2.0","method":"notifications/x"}\n'
    peer.receive(line)
    peer.receive(b'{"jsonrpc":"2.0","id":3,"result":{}}\n')
    peer.end()
    assert peer.stats.unanswered == 4
    assert line_lengths[0] == len(line.rstrip())


def test_too_many_questions_error_names_the_reason():
    error = too_many_questions()
    assert error.code == -32600
    assert error.message.endswith(f": {TOO_MANY_REASON}")
