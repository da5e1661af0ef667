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


def delay_of(error, method=CALL, *, idempotent=None, attempt=1, chance=0.5):
    """Return the delay before a retry, or None."""
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
    """Return the error of an HTTP response without a JSON-RPC body."""
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


def test_retry_after_of_a_gateway_error_is_honoured():
    assert delay_of(http(502, "7"), READ, chance=0.0) == 7.0


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


def test_json_rpc_error_without_its_http_error_is_final():
    assert declined_error(json_error(503, with_cause=False)) is None
