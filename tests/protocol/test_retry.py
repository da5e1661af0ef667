"""Which requests, connections and streams are tried again, and when."""

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    HTTPError,
    InternalError,
    LocalProtocolError,
    MessageTooLarge,
    RemoteProtocolError,
    RequestTimeout,
    RPCError,
    SessionExpired,
    TransportError,
)
from mcpwire.limits import Recovery
from mcpwire.protocol.retry import (
    RestartBackoff,
    Resumption,
    StreamBackoff,
    declined_error,
    may_repeat,
    retry_delay,
    tool_allows_repeat,
)

RECOVERY = Recovery(backoff_initial=1.0, backoff_max=6.0, attempts=5)
ALMOST_ONE = 1 - 2**-53
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
NOW = 784_111_777.0 - 3.0

CALL, READ = "tools/call", "resources/read"


def delay_of(error, method=CALL, *, idempotent=None, attempt=1, chance=0.5):
    return retry_delay(
        error,
        method,
        idempotent=idempotent,
        attempt=attempt,
        recovery=RECOVERY,
        chance=chance,
        now_wall=NOW,
    )


def http(status, retry_after=None):
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return HTTPError(f"HTTP {status}", status=status, headers=headers)


# Failures after which any request, only a repeatable one, or none is sent again.
ANY = [
    ConnectError("refused", reason="refused"),
    ConnectError("no such host", reason="dns"),
    ConnectError("no route", reason="unreachable"),
    ConnectError("too slow", reason="timeout"),
    ConnectError("who knows"),
    ConnectionClosed("idle connection was closed", sent=False),
    http(429),
    http(429, "0"),
    http(503, "0"),
    http(503, "soon"),
    AuthTemporarilyUnavailable("busy", retry_after=0.0),
]
REPEATABLE = [
    ConnectionClosed("cut off", sent=True),
    http(502),
    http(503),
    http(503, ""),
    http(503, "  "),
    http(504),
    http(502, "0"),
    http(504, "0"),
]
NONE = [
    ConnectError("certificate has expired", reason="tls"),
    *(http(status, "0") for status in (400, 401, 403, 404, 408, 409, 425, 500, 501)),
    http(307),
    SessionExpired("gone"),
    TransportError("odd"),
    AuthTemporarilyUnavailable("down"),
    InternalError("failed"),
    LocalProtocolError("illegal"),
    RemoteProtocolError("odd answer"),
    MessageTooLarge("long", limit=1),
    RequestTimeout(method=CALL, timeout=1.0, elapsed=1.0),
]


@pytest.mark.system("L-U15")
@pytest.mark.pain("P24")
@pytest.mark.parametrize("idempotent", [None, False, True])
@pytest.mark.parametrize("method", [CALL, READ, "x/own"])
@pytest.mark.parametrize("error", ANY, ids=repr)
def test_unprocessed_request_is_always_retried(error, method, idempotent):
    assert delay_of(error, method, idempotent=idempotent) is not None


@pytest.mark.pain("P24")
@pytest.mark.parametrize(
    ("method", "idempotent", "is_retried"),
    [
        (CALL, None, False),
        (CALL, False, False),
        (CALL, True, True),
        (READ, None, True),
        (READ, False, False),
        (READ, True, True),
        ("tools/list", None, True),
        ("initialize", None, False),
        ("x/own", None, False),
        ("x/own", True, True),
    ],
)
@pytest.mark.parametrize("error", REPEATABLE, ids=repr)
def test_possibly_executed_request_is_retried_only_if_repeatable(
    error, method, idempotent, is_retried
):
    assert (delay_of(error, method, idempotent=idempotent) is not None) == is_retried


@pytest.mark.system("L-O6")
@pytest.mark.pain("P24")
@pytest.mark.parametrize("error", NONE, ids=repr)
def test_other_failures_are_not_retried(error):
    for method in (CALL, READ):
        assert delay_of(error, method, idempotent=True) is None


@pytest.mark.pain("P24")
@pytest.mark.parametrize(
    ("attempt", "bound"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 6.0), (5, None), (9, None)]
)
def test_each_attempt_waits_longer_until_the_attempts_are_used_up(attempt, bound):
    refused = ConnectError("refused", reason="refused")
    if bound is None:
        assert delay_of(refused, attempt=attempt) is None
    else:
        assert delay_of(refused, attempt=attempt) == bound / 2
        assert delay_of(refused, attempt=attempt, chance=0.0) == 0.0
        assert delay_of(refused, attempt=attempt, chance=ALMOST_ONE) < bound


@pytest.mark.fault("F23")
def test_closed_idle_connection_is_replaced_at_once_but_not_forever():
    ended = ConnectionClosed("idle connection was closed", sent=False)
    assert delay_of(ended) == 0.0
    assert delay_of(ended, attempt=2) == 1.0
    assert delay_of(ended, attempt=5) is None
    assert delay_of(ConnectionClosed("cut off", sent=True), READ) == 0.5


@pytest.mark.fault("F36")
@pytest.mark.pain("P24")
@pytest.mark.parametrize(
    ("retry_after", "least"),
    [("0", 0.0), ("2", 2.0), (DATE, 3.0), ("soon", 0.0), ("-1", 0.0), ("9" * 10, 1e9)],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_a_lower_bound_and_nonsense_is_ignored(
    status, retry_after, least
):
    error = http(status, retry_after)
    assert delay_of(error, chance=0.0) == least
    assert delay_of(error, chance=0.5, attempt=2) == least + 1.0
    assert delay_of(http(502, "7"), READ, chance=0.0) == 7.0  # of a gateway


def json_error(status, *, with_cause=True):
    error = RPCError("busy", code=-32000)
    error.status = status
    if with_cause:
        error.__cause__ = HTTPError("no", status=status, headers={"retry-after": "1"})
    return error


@pytest.mark.fault("F36")
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_json_rpc_error_with_a_retry_status_becomes_its_http_error(status):
    error = json_error(status)
    declined = declined_error(error)
    assert declined.rpc_error is error
    assert declined.status == status
    assert declined.headers == {"retry-after": "1"}


@pytest.mark.parametrize("status", [None, 400, 404, 500])
def test_json_rpc_error_with_another_status_is_final(status):
    assert declined_error(json_error(status)) is None
    assert declined_error(json_error(503, with_cause=False)) is None


# When a lost connection is opened again, and which requests are sent again on it...


RESTARTS = Recovery(backoff_initial=1.0, backoff_max=10.0, attempts=6)


def backoff_after(*, failures=0, now=0.0, recovery=RESTARTS):
    """Return the backoff after so many failed openings, the last of them now."""
    backoff = RestartBackoff.of(recovery)
    for _ in range(failures):
        backoff.record_failure(now)
    return backoff


OPENED, FAILED, LOST, RESET = "record_open", "record_failure", "record_loss", "reset"


def row(name, failures, *events, at=0.0, chance=0.5, delay, marks=()):
    """Make the row of events after some failed openings, and of the expected delay."""
    return pytest.param(failures, events, at, chance, delay, id=name, marks=marks)


@pytest.mark.parametrize(
    ("failures", "events", "at", "chance", "delay"),
    [
        row("no delay before the first opening", 0, at=5.0, chance=0.9, delay=0.0),
        row("no delay after an answered call", 3, (OPENED, 0.0),
              (LOST, 0.1, True), at=0.1, chance=0.9, delay=0.0,
              marks=pytest.mark.pain("P04")),
        row("shorter than the longest delay", 1, (OPENED, 100.0),
              (LOST, 109.99), at=109.99, delay=1.0),
        row("as long as the longest delay", 1, (OPENED, 100.0), (LOST, 110.0),
              at=110.0, delay=0.0),
        row("an answer on an earlier connection", 0, (OPENED, 0.0),
              (LOST, 1.0, True), (OPENED, 1.0), (LOST, 1.0), at=1.0, delay=0.5),
        row("a loss without a connection", 1, (LOST, 0.0), (OPENED, 0.0),
              (FAILED, 0.0), (LOST, 0.0), delay=1.0),
        *(row(f"{n} in vain, by {chance}", n, chance=chance, delay=bound * chance)
          for n, bound in enumerate((1.0, 2.0, 4.0, 8.0, 10.0), 1)
          for chance in (0.0, 0.25, ALMOST_ONE)),
        row("None after the last attempt", 6, chance=0.0, delay=None),
        row("None at any later time", 6, at=1e9, chance=0.0, delay=None),
        row("reset by a connection", 6, (RESET,), chance=0.9, delay=0.0),
        row("elapsed time is subtracted", 3, at=1.5, delay=0.5),
        row("the whole delay has elapsed", 3, at=3.0, delay=0.0),
    ],
)  # fmt: skip
def test_delay_depends_on_failures_and_elapsed_time(
    failures, events, at, chance, delay
):
    backoff = backoff_after(failures=failures)
    for event, *args in events:
        getattr(backoff, event)(*args[:1], **({"answered": True} if args[1:] else {}))
    assert backoff.delay(at, chance) == delay


def test_connection_lost_without_an_answer_counts_as_failed():
    backoff = backoff_after()
    for attempt in range(RESTARTS.attempts):
        assert backoff.delay(attempt, 0.0) == 0.0
        backoff.record_open(attempt)
        backoff.record_loss(attempt)
    assert backoff.delay(99.0, 0.0) is None


def test_delay_after_very_many_failures_is_finite():
    backoff = backoff_after(failures=5_000, recovery=Recovery(attempts=1_000_000))
    assert backoff.delay(0.0, 0.5) == 15.0


@given(
    st.lists(st.sampled_from([OPENED, FAILED, LOST, "answered"]), max_size=30),
    st.floats(0, ALMOST_ONE),
)
def test_delay_is_within_bounds_for_any_order_of_events(events, chance):
    backoff = RestartBackoff.of(RESTARTS)
    for now, event in enumerate(events):
        if event == "answered":
            backoff.record_loss(now, answered=True)
        else:
            getattr(backoff, event)(now)
        delay = backoff.delay(now, chance)
        assert delay is None or 0.0 <= delay <= RESTARTS.backoff_max


@pytest.mark.parametrize(
    ("method", "is_repeated"),
    [
        ("tools/list", True),
        ("resources/read", True),
        ("prompts/get", True),
        ("completion/complete", True),
        ("subscriptions/listen", True),
        ("ping", True),
        ("tools/call", False),
        ("initialize", False),
        ("tasks/update", False),
        ("tasks/cancel", False),
        ("x/unknown", False),
    ],
)
def test_sent_request_is_repeated_only_if_its_method_allows_it(method, is_repeated):
    assert may_repeat(method, sent=True) is is_repeated


@pytest.mark.rule("TOOL-24")
@pytest.mark.parametrize(
    ("annotations", "is_allowed"),
    [
        (None, False),
        ({}, False),
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True}, True),
        ({"readOnlyHint": False, "idempotentHint": True}, True),
        ({"readOnlyHint": False}, False),
        ({"idempotentHint": False}, False),
        ({"destructiveHint": False, "openWorldHint": False}, False),
    ],
)
def test_tool_call_is_repeated_only_if_its_hints_allow_it(annotations, is_allowed):
    raw = {"name": "t", "inputSchema": {"type": "object"}}
    if annotations is not None:
        raw["annotations"] = annotations
    assert tool_allows_repeat(types.decode(types.Tool, raw)) is is_allowed
    assert not tool_allows_repeat(None)


STREAMS = Recovery(backoff_initial=1.0, backoff_max=10.0, attempts=3)


def failed_stream(*, failures=0, now=0.0, recovery=STREAMS):
    """Return the backoff of a stream that once worked and then failed so often."""
    backoff = StreamBackoff(recovery)
    backoff.record_open(now)
    backoff.record_message()
    backoff.record_end(now)
    for _ in range(failures):
        backoff.record_end(now)
    return backoff


@pytest.mark.pain("P21")
@pytest.mark.parametrize(
    ("age", "message", "failures"), [(29.9, False, 4), (30.0, False, 0), (0, True, 0)]
)
def test_long_lived_stream_or_a_message_resets_the_backoff(age, message, failures):
    backoff = failed_stream(failures=3)
    backoff.record_open(100.0)
    if message:
        backoff.record_message()
    backoff.record_end(100.0 + age)
    assert backoff._failures == failures
    bound = 1.0 if failures == 0 else 8.0
    assert backoff.delay(100.0 + age, 0.5) == pytest.approx(0.1 + bound / 2)


@pytest.mark.pain("P21")
def test_each_failed_opening_waits_longer_up_to_the_maximum():
    bounds = []
    backoff = failed_stream()
    for attempt in range(6):
        now = 1000.0 * attempt
        backoff.record_open(now)
        backoff.record_end(now)
        bounds.append(backoff.delay(now, 0.5) - 0.1)
        assert backoff.delay(now, ALMOST_ONE) <= 10.0
    assert bounds == pytest.approx([0.5, 1.0, 2.0, 4.0, 5.0, 5.0])


@pytest.mark.pain("P21")
def test_server_delay_is_a_lower_bound():
    backoff = failed_stream(failures=1)
    assert backoff.delay(0.0, 0.5, retry_ms=5_000) == pytest.approx(5.5)
    assert backoff.delay(0.0, 0.5, retry_ms=10**12) == 60.0
    assert backoff.delay(0.0, 0.5, retry_after=7.0) == pytest.approx(7.5)
    assert backoff.delay(0.0, 0.5, retry_ms=9_000, retry_after=7.0) == pytest.approx(
        9.5
    )
    assert backoff.delay(0.0, 0.5, retry_after=1e9) == 1e9
    assert backoff.delay(0.0, 0.5, retry_after=0.0) == pytest.approx(0.6)


def test_time_since_the_end_counts_towards_the_delay():
    backoff = failed_stream(failures=3, now=50.0)
    assert backoff.delay(50.0, 0.5) == pytest.approx(2.1)
    assert backoff.delay(51.6, 0.5) == pytest.approx(0.5)
    assert backoff.delay(53.0, 0.5) == 0.0


@pytest.mark.fault("F29")
@pytest.mark.pain("P20")
def test_refused_stream_is_never_opened_again():
    backoff = failed_stream()
    backoff.record_refusal()
    assert backoff.delay(1e9, 0.0) is None
    backoff = StreamBackoff(STREAMS)
    backoff.record_refusal()
    backoff.record_end(0.0)
    assert backoff.delay(1e9, 0.0) is None


@pytest.mark.fault("F29")
def test_never_opened_stream_is_given_up_after_the_attempts():
    backoff = StreamBackoff(STREAMS)
    assert backoff.delay(5.0, 0.9) == 0.0
    for attempt in range(STREAMS.attempts):
        assert backoff.delay(attempt, 0.0) is not None
        backoff.record_end(attempt)
    assert backoff.delay(1e9, 0.0) is None


@pytest.mark.system("L-U9")
def test_once_opened_stream_is_retried_without_limit():
    backoff = StreamBackoff(STREAMS)
    backoff.record_open(0.0)
    for attempt in range(1_000):
        backoff.record_end(attempt)
    assert backoff.delay(1_000.0, 0.5) is not None


CHANCES = st.floats(0, ALMOST_ONE)


@pytest.mark.pain("P21")
@given(
    st.lists(
        st.tuples(
            CHANCES,
            st.none() | st.integers(0, 10**6),
            st.none() | st.floats(0, 100),
            st.booleans(),
            st.floats(0, 1),
        ),
        min_size=20,
        max_size=20,
    ),
    st.floats(0.001, 100),
)
def test_stream_closed_at_once_is_opened_at_most_8_times_a_minute(attempts, longest):
    recovery = Recovery(backoff_initial=0.001, backoff_max=longest)
    backoff = StreamBackoff(recovery)
    now = 0.0
    openings = []
    for chance, retry_ms, retry_after, opens, age in attempts:
        openings.append(now)
        if opens or len(openings) == 1:
            backoff.record_open(now)
        backoff.record_end(now + age)
        delay = backoff.delay(now + age, chance, retry_ms, retry_after)
        assert delay <= max(60.0, longest, 101.0)
        now += age + delay
        assert backoff.delay(now, chance, retry_ms, retry_after) == pytest.approx(
            0.0, abs=1e-6
        )
    for index in range(len(openings) - 8):
        assert openings[index + 8] - openings[index] >= 60.0 - 1e-6


# One event stream over many HTTP responses: its cursor, replays and delays...


@pytest.fixture
def stream():
    """Give a stream that has delivered one event with an id, and ended."""
    resumption = Resumption(STREAMS)
    assert resumption.add_event("1")
    resumption.record_end(100.0)
    return resumption


@pytest.mark.pain("P22")
def test_empty_resumed_response_keeps_the_cursor(stream):
    for now in range(101, 140):
        stream.record_end(now)
        stream.add_event("1")
        assert stream.cursor == "1"
    stream.record_end(140.0, failed=True)
    assert stream.cursor == "1"


@pytest.mark.attack("S19")
@pytest.mark.parametrize("event_id", ["a\tb", "\x7f", "  ", "x" * 5_000, "\ud800"])
def test_unsendable_id_is_deduplicated_but_not_used_as_cursor(stream, event_id):
    assert stream.add_event(event_id)
    assert stream.cursor == "1"
    stream.record_end(0.0)
    assert not stream.add_event(event_id)


@pytest.mark.system("U23")
@pytest.mark.rule("LHTTP-08")
@pytest.mark.parametrize(
    ("retry_ms", "expected"),
    [
        (None, 0.1),
        (0, 0.1),
        (99, 0.1),
        (500, 0.5),
        (60_000, 60.0),
        (60_001, 60.0),
        (10**12, 60.0),
    ],
)
def test_reconnection_time_of_the_server_is_bounded(stream, retry_ms, expected):
    stream.retry_ms = retry_ms
    assert stream.delay(100.0, ALMOST_ONE) == pytest.approx(expected)
    assert stream.delay(100.0 + expected / 2, 0.0) == pytest.approx(expected / 2)
    assert stream.delay(200.0, 0.0) == 0.0


@pytest.mark.rule("LHTTP-08")
@pytest.mark.fault("F31")
@pytest.mark.parametrize(
    ("recovery", "event_id", "delay"),
    [
        (STREAMS, "only an id", 0.5),
        (STREAMS, "", None),
        (Recovery(resume=False), "1", None),
    ],
)
def test_only_a_stream_with_ids_is_resumed_if_that_is_on(recovery, event_id, delay):
    stream = Resumption(recovery)
    stream.retry_ms = 500
    stream.add_event(event_id)
    stream.record_end(0.0)
    assert stream.delay(0.0, ALMOST_ONE) == delay


@pytest.mark.fault("F32")
@pytest.mark.pain("P22")
def test_thousands_of_productive_rounds_take_constant_memory():
    stream = Resumption(STREAMS)
    stream.retry_ms = 0
    sizes = set()
    for cycle in range(5_000):
        assert stream.add_event(f"{cycle:08}")
        stream.record_end(cycle)
        assert stream.cursor == f"{cycle:08}"
        assert stream.delay(cycle, ALMOST_ONE) == pytest.approx(0.1)
        if cycle >= 2_500:
            sizes.add((len(stream._seen), sys.getsizeof(stream._seen)))
    assert {count for count, _ in sizes} == {1_024}
    assert max(size for _, size in sizes) < 200_000


def test_long_ids_take_no_more_memory_than_short_ones():
    stream = Resumption(STREAMS)
    for number in range(1_030):
        assert stream.add_event(f"{number:0100000}")
    stream.record_end(0.0)
    assert not stream.add_event(f"{1_029:0100000}")
    assert sum(map(sys.getsizeof, stream._seen)) < 200_000


@pytest.mark.parametrize("event_id", ["2", ""])
def test_empty_rounds_back_off_and_are_never_given_up(stream, event_id):
    bounds = []
    for _ in range(50):
        stream.record_end(100.0)
        assert stream.delay(100.0, 0.0) == pytest.approx(0.1)
        bounds.append(stream.delay(100.0, 0.5) - 0.1)
    assert bounds == pytest.approx([0.5, 1.0, 2.0, 4.0] + [5.0] * 46)
    stream.add_event(event_id)
    stream.record_end(100.0)
    assert stream.delay(100.0, 0.5) == pytest.approx(0.1)


@pytest.mark.pain("P21", "P24")
def test_consecutive_failures_back_off_and_are_given_up(stream):
    stream.record_end(100.0, failed=True)
    assert stream.delay(100.0, 0.5) == pytest.approx(0.1 + 0.5)
    stream.record_end(100.0, failed=True)
    assert stream.delay(100.0, 0.5) == pytest.approx(0.1 + 1.0)
    stream.record_end(100.0, failed=True)
    assert stream.delay(100.0, 0.5) is None
    assert stream.cursor == "1"


def test_opened_stream_resets_the_count_of_failures(stream):
    for _ in range(20):
        stream.record_end(100.0, failed=True)
        stream.record_end(100.0, failed=True)
        stream.record_end(100.0)
    assert stream.delay(100.0, 0.5) == pytest.approx(0.1 + 5.0)


def test_failure_after_an_event_does_not_count_as_failure(stream):
    for cycle in range(20):
        stream.add_event(f"c-{cycle}")
        stream.record_end(100.0 + cycle, failed=True)
        assert stream.delay(100.0 + cycle, 0.5) == pytest.approx(0.1)


@pytest.mark.fault("F36")
def test_retry_after_of_a_refusal_applies_once(stream):
    stream.record_end(100.0, failed=True, retry_after=7.0)
    assert stream.delay(100.0, 0.5) == pytest.approx(7.0 + 0.5)
    stream.record_end(200.0, failed=True, retry_after=0.01)
    assert stream.delay(200.0, 0.0) == pytest.approx(0.1)
    stream.add_event("2")
    stream.record_end(300.0)
    assert stream.delay(300.0, 0.0) == pytest.approx(0.1)


EVENTS = st.one_of(
    st.tuples(st.just("take"), st.text("abc\t", max_size=2)),
    st.tuples(st.just("ended"), st.booleans(), st.none() | st.floats(0, 100)),
    st.tuples(st.just("retry"), st.none() | st.integers(0, 10**12)),
)


def steps_of(*messages):
    """Return the steps of some responses, each of which ends."""
    return [
        step
        for ids in messages
        for step in (*(("take", id) for id in ids), ("ended", False, None))
    ]


@pytest.mark.fault("F33")
@pytest.mark.pain("P22")
@pytest.mark.rule("LHTTP-21")
@example(steps_of("1234", "2345", "2"), 0.0)  # replayed events are accepted once
@example(steps_of("1", "1"), 0.0)  # also the newest one, in the next response
@example(steps_of("56567"), 0.0)  # a replay and the live event are one event
@example(steps_of(["", "", *"1112"], ["", "1", "1"]), 0.0)  # no ids of their own
@example(steps_of(["1", "größe", ""]), 0.0)  # an empty id keeps the cursor
@given(st.lists(EVENTS, max_size=40), st.floats(0, ALMOST_ONE))
def test_cursor_and_delay_are_correct_for_any_order_of_events(events, chance):
    stream = Resumption(STREAMS)
    cursor, seen_ids, last = "", set(), ""
    for now, (event, *event_args) in enumerate(events):
        if event == "take":
            (event_id,) = event_args
            is_new = event_id not in seen_ids
            assert stream.add_event(event_id) == (is_new or event_id in {"", last})
            seen_ids.add(event_id)
            last = event_id or last
            if event_id and is_new and "\t" not in event_id:
                cursor = event_id
        elif event == "ended":
            stream.record_end(now, failed=event_args[0], retry_after=event_args[1])
            last = ""
        else:
            stream.retry_ms = event_args[0]
        assert stream.cursor == cursor
        if event == "ended":
            delay = stream.delay(now, chance)
            assert delay is None or 0.099 <= delay <= 110.0
            assert delay is None or cursor
