"""Which failed requests are sent again, and when."""

import pytest

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
from mcpwire.protocol.retry import declined_error, retry_delay

RECOVERY = Recovery(backoff_initial=1.0, backoff_max=6.0, attempts=5)
ALMOST_ONE = 1 - 2**-53
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
NOW = 784_111_777.0 - 3.0

CALL, READ = "tools/call", "resources/read"


def wait(error, method=CALL, *, idempotent=None, attempt=1, chance=0.5):
    """Return the verdict on a failure."""
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
    """Return the error of an answer without a JSON-RPC body."""
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return HTTPError(f"HTTP {status}", status=status, headers=headers)


# What each failure allows: any request, or only one that may be repeated, or none.
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
def test_what_the_server_did_not_take_up_is_sent_again_whatever_it_is(
    error, method, idempotent
):
    assert wait(error, method, idempotent=idempotent) is not None


@pytest.mark.pain("P24")
@pytest.mark.parametrize(
    ("method", "idempotent", "again"),
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
def test_what_may_have_run_is_sent_again_only_if_that_does_no_more(
    error, method, idempotent, again
):
    assert (wait(error, method, idempotent=idempotent) is not None) == again


@pytest.mark.system("L-O6")
@pytest.mark.pain("P24")
@pytest.mark.parametrize("error", NONE, ids=repr)
def test_other_failures_are_final(error):
    for method in (CALL, READ):
        assert wait(error, method, idempotent=True) is None


@pytest.mark.pain("P24")
@pytest.mark.parametrize(
    ("attempt", "bound"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 6.0), (5, None), (9, None)]
)
def test_each_attempt_waits_longer_and_after_so_many_it_is_enough(attempt, bound):
    refused = ConnectError("refused", reason="refused")
    if bound is None:
        assert wait(refused, attempt=attempt) is None
    else:
        assert wait(refused, attempt=attempt) == bound / 2
        assert wait(refused, attempt=attempt, chance=0.0) == 0.0
        assert wait(refused, attempt=attempt, chance=ALMOST_ONE) < bound


@pytest.mark.fault("F23")
def test_a_connection_that_had_ended_before_is_replaced_at_once_but_not_for_ever():
    ended = ConnectionClosed("idle connection was closed", sent=False)
    assert wait(ended) == 0.0
    assert wait(ended, attempt=2) == 1.0
    assert wait(ended, attempt=5) is None
    assert wait(ConnectionClosed("cut off", sent=True), READ) == 0.5


@pytest.mark.fault("F36")
@pytest.mark.pain("P24")
@pytest.mark.parametrize(
    ("retry_after", "least"),
    [("0", 0.0), ("2", 2.0), (DATE, 3.0), ("soon", 0.0), ("-1", 0.0), ("9" * 10, 1e9)],
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_time_to_come_back_is_honoured_and_nonsense_is_backed_off_from(
    status, retry_after, least
):
    error = http(status, retry_after)
    assert wait(error, chance=0.0) == least
    assert wait(error, chance=0.5, attempt=2) == least + 1.0


def test_a_gateway_that_names_a_time_is_waited_for_too():
    assert wait(http(502, "7"), READ, chance=0.0) == 7.0


def json_error(status, *, came_with=True):
    error = RPCError("busy", code=-32000)
    error.status = status
    if came_with:
        error.__cause__ = HTTPError("no", status=status, headers={"retry-after": "1"})
    return error


@pytest.mark.fault("F36")
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_json_rpc_error_is_turned_away_as_its_http_error_says(status):
    error = json_error(status)
    turned_away = declined_error(error)
    assert turned_away.rpc_error is error
    assert turned_away.status == status
    assert turned_away.headers == {"retry-after": "1"}


@pytest.mark.parametrize("status", [None, 400, 404, 500])
def test_any_other_json_rpc_error_is_the_servers_answer(status):
    assert declined_error(json_error(status)) is None


def test_a_json_rpc_error_without_its_http_error_is_the_servers_answer():
    assert declined_error(json_error(503, came_with=False)) is None
