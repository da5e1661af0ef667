"""The handshake over HTTP: replies to the probe, to initialize and to the GET."""

import json

import pytest
from handshakes import (
    discovered,
    initialize_gets,
    initialized,
    play,
    probe_gets,
    refused,
    silence,
)

from mcpwire.errors import (
    AuthError,
    ConnectError,
    ConnectionClosed,
    HTTPError,
    InvalidMessage,
    MessageTooLarge,
    NegotiationError,
    RemoteProtocolError,
    rpc_error,
)
from mcpwire.protocol import negotiation
from mcpwire.protocol.http_reply import unusable_answer
from mcpwire.protocol.negotiation import Negotiation

PROBE = "server/discover 2026-07-28"
INITIALIZE = "initialize 2025-11-25"
INITIALIZED = "notifications/initialized at 2025-11-25"
NO_ENDPOINT = ConnectError("no event stream")

REFUSING = (400, 402, 404, 405, 406, 409, 410, 411, 413, 415, 418, 421, 422, 426, 431,
            451)  # fmt: skip
NEUTRAL_STATUS = (301, 307, 401, 403, 407, 408, 425, 429, 500, 501, 502, 503, 504, 599)


def http(status, body=b""):
    return unusable_answer("x", status, {}, body, target=None)


def rpc(status, code, message="no"):
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    error = http(status, json.dumps(body).encode())
    assert (error.code, error.status) == (code, status)
    return error


def over_http(*script, mode="auto", endpoint=NO_ENDPOINT):
    return play(mode, *script, over_http=True, endpoint=endpoint)


UNLIKE_MODERN = {
    **{f"HTTP {status}": http(status) for status in REFUSING},
    "-32601": refused(-32601),
    "-32601 with 404": rpc(404, -32601),
    "-32601 with 500": rpc(500, -32601),
    **{f"{code} with 500": rpc(500, code) for code in (-32000, -32603, -32600)},
    "-32602": refused(-32602),
    "-32000 with 400": rpc(400, -32000, "Bad Request: Server not initialized"),
    "-32600 with 400": rpc(400, -32600, "Bad Request: Missing session ID"),
    "-32001 with 404": rpc(404, -32001, "Session not found"),
    "a text of 422": http(422, b"Unexpected message, expect initialize request"),
    "accepted": RemoteProtocolError("202"),
    "html": RemoteProtocolError("200 (text/html)"),
    "no message": InvalidMessage("body", expected="JSON", got="none"),
    "too much": MessageTooLarge("too long", limit=1),
    "no DiscoverResult": {"tools": []},
    "another's result": initialized(),
}
NEUTRAL = {
    **{f"HTTP {status}": http(status) for status in NEUTRAL_STATUS},
    **{
        f"{code} with {status}": rpc(status, code)
        for code in (-32000, -32603, -32600)
        for status in NEUTRAL_STATUS
        if status >= 400
    },
    "refused": ConnectError("refused", reason="refused"),
    "tls": ConnectError("expired", reason="tls"),
    "closed": ConnectionClosed("gone", sent=True),
    "closed before": ConnectionClosed("gone", sent=False),
}

NEUTRAL_CASES = [
    (case, mode)
    for case in NEUTRAL
    for mode in ("auto", "stateless")
    # Cases in which `initialize` is tried are left out.
    if mode == "stateless" or case not in UNLIKE_MODERN
]


def raised_for(error):
    """Return the raised error: the HTTP error if the body was a JSON-RPC error."""
    return error.__cause__ if isinstance(error.__cause__, HTTPError) else error


@pytest.mark.pain("P26")
@pytest.mark.rule("VER-13")
@pytest.mark.parametrize("case", UNLIKE_MODERN)
def test_answer_that_no_modern_server_gives_leads_to_initialize(case):
    played = over_http(probe_gets(UNLIKE_MODERN[case]), initialize_gets(initialized()))
    assert played.transcript == [PROBE, "wait 5 s", INITIALIZE, "wait", INITIALIZED]
    assert played.agreement.revision.name == "2025-11-25"


@pytest.mark.pain("P26")
@pytest.mark.fault("F26")
@pytest.mark.parametrize(("case", "mode"), NEUTRAL_CASES)
def test_neutral_failure_of_the_probe_is_raised_unchanged(case, mode):
    error = NEUTRAL[case]
    played = over_http(probe_gets(error), mode=mode)
    assert played.transcript == [PROBE, "wait 5 s" if mode == "auto" else "wait"]
    assert played.error is raised_for(error)
    is_lost = not hasattr(error, "status")
    last = "the connection ended" if is_lost else "server/discover failed"
    assert played.record[-1] == f"1 {last}"


@pytest.mark.rule("VER-03", "VER-13")
@pytest.mark.parametrize("status", [None, 400, 404, 500])
@pytest.mark.parametrize("code", [-32020, -32021, -32022])
def test_modern_error_code_never_leads_to_initialize(code, status):
    error = refused(code) if status is None else rpc(status, code)
    played = over_http(probe_gets(error), endpoint=None)
    assert played.transcript == [PROBE, "wait 5 s"]
    assert type(played.error) is NegotiationError
    assert played.error.__cause__ is error


@pytest.mark.rule("VER-03")
def test_revision_named_by_a_modern_server_is_initialized():
    error = rpc_error(-32022, "no", data={"supported": ["2025-06-18", "2024-11-05"]})
    error.status = 400
    played = over_http(probe_gets(error), initialize_gets(initialized("2025-06-18")))
    assert played.transcript[2] == "initialize 2025-06-18"
    assert played.agreement.revision.name == "2025-06-18"


STATELESS_ONLY = {
    "-32601": refused(-32601),
    "-32601 with 404": rpc(404, -32601, "Method not found: initialize"),
    "-32601 with 400": rpc(400, -32601),
    "-32022 with 400": rpc(400, -32022),
    "-32020 with 400": rpc(400, -32020),
}
NOT_STREAMABLE = {
    **{f"HTTP {status}": http(status) for status in REFUSING},
    "-32000 with 400": rpc(400, -32000),
    "-32602 with 400": rpc(400, -32602),
    "its own stream": InvalidMessage("event", expected="'message'", got="'endpoint'"),
}
REFUSED_INITIALIZE = {
    "-32602": refused(-32602),
    "-32000": refused(-32000),
    "html": RemoteProtocolError("200 (text/html)"),
    "no message": InvalidMessage("body", expected="JSON", got="none"),
    "no InitializeResult": {"tools": []},
}


def modes_and_scripts(outcome):
    """Yield each mode that sends initialize, with its script and expected steps."""
    not_found = probe_gets(http(404))
    yield "auto", [not_found, initialize_gets(outcome)], [PROBE, "wait 5 s", INITIALIZE]
    yield "session", [initialize_gets(outcome)], [INITIALIZE]


@pytest.mark.rule("LHTTP-34", "TR-HTTP-35")
@pytest.mark.parametrize("case", NOT_STREAMABLE)
def test_url_that_refuses_post_falls_back_to_http_sse(case):
    for mode, script, steps in modes_and_scripts(NOT_STREAMABLE[case]):
        script.append(initialize_gets(initialized("2024-11-05"), 3.0))
        played = over_http(*script, mode=mode, endpoint=None)
        assert played.transcript == [
            *steps,
            "wait",
            "downgrade",
            INITIALIZE,
            "wait",
            "notifications/initialized at 2024-11-05",
        ]
        assert played.agreement.revision.name == "2024-11-05"
        assert "2 HTTP+SSE is open" in played.record


@pytest.mark.rule("LHTTP-34", "TR-HTTP-35")
@pytest.mark.parametrize("case", NOT_STREAMABLE)
def test_failed_fallback_raises_the_error_of_the_post(case):
    for mode, script, steps in modes_and_scripts(NOT_STREAMABLE[case]):
        played = over_http(*script, mode=mode)
        assert played.transcript == [*steps, "wait", "downgrade"]
        assert type(played.error) is NegotiationError
        assert played.error.__cause__ is NOT_STREAMABLE[case]
        assert played.record[-1] == "2 HTTP+SSE failed"


@pytest.mark.rule("TR-HTTP-35")
@pytest.mark.parametrize("case", STATELESS_ONLY | REFUSED_INITIALIZE)
def test_server_that_refuses_initialize_is_not_tried_over_http_sse(case):
    outcome = (STATELESS_ONLY | REFUSED_INITIALIZE)[case]
    for mode, script, steps in modes_and_scripts(outcome):
        played = over_http(*script, mode=mode, endpoint=None)
        assert played.transcript == [*steps, "wait"]
        assert type(played.error) is NegotiationError
        assert played.error.__cause__ is outcome or case in REFUSED_INITIALIZE


@pytest.mark.pain("P26")
@pytest.mark.fault("F26")
@pytest.mark.parametrize("case", NEUTRAL)
def test_neutral_failure_of_initialize_is_raised_unchanged(case):
    for mode, script, steps in modes_and_scripts(NEUTRAL[case]):
        played = over_http(*script, mode=mode, endpoint=None)
        assert played.transcript == [*steps, "wait"]
        assert played.error is raised_for(NEUTRAL[case])


def test_server_that_named_its_revisions_is_not_tried_over_http_sse():
    answer = probe_gets(discovered("2025-11-25"))
    played = over_http(answer, initialize_gets(http(405)), endpoint=None)
    assert played.transcript == [PROBE, "wait 5 s", INITIALIZE, "wait"]
    assert played.error.__cause__.status == 405


def test_http_sse_is_tried_only_once():
    played = over_http(
        initialize_gets(http(405)), initialize_gets(rpc(400, -32000)), mode="session",
        endpoint=None,
    )  # fmt: skip
    assert played.transcript == [INITIALIZE, "wait", "downgrade", INITIALIZE, "wait"]
    assert played.error.__cause__.code == -32000


def test_stateless_mode_does_not_fall_back():
    played = over_http(probe_gets(http(404)), mode="stateless", endpoint=None)
    assert played.transcript == [PROBE, "wait"]
    assert type(played.error) is NegotiationError


@pytest.mark.parametrize("case", [*NEUTRAL, "HTTP 404"])
def test_late_failure_of_the_probe_does_not_fail_initialize(case):
    """A gateway may give up one request; the other one is independent of it."""
    error = {**NEUTRAL, **UNLIKE_MODERN}[case]
    played = over_http(
        silence(), probe_gets(error, 9.0), initialize_gets(initialized(), 9.1)
    )
    assert played.transcript == [
        *(PROBE, "wait 5 s", INITIALIZE, "wait", "wait", INITIALIZED)
    ]


def test_failure_of_initialize_after_a_failed_probe_is_raised():
    script = silence(), probe_gets(http(504), 9.0)
    played = over_http(*script, initialize_gets(http(401), 9.1), endpoint=None)
    assert played.error.status == 401
    played = over_http(*script, initialize_gets(http(405), 9.1))
    assert played.transcript[-1] == "downgrade"
    assert played.error.__cause__.status == 405


def test_failure_of_initialize_does_not_wait_for_a_silent_probe():
    played = over_http(silence(), initialize_gets(http(401), 6.0))
    assert played.error.status == 401
    assert played.transcript[-1] == "wait"


def test_pending_probe_is_awaited_if_initialize_is_refused():
    played = over_http(
        silence(),
        initialize_gets(http(405), 6.0),
        probe_gets(discovered("2026-07-28"), 7.0),
    )
    assert played.agreement.revision.name == "2026-07-28"


@pytest.mark.fault("F50")
def test_negotiation_without_allowed_revisions_sends_no_request():
    """For example, another client remembered an era that this one may not speak."""
    record = Negotiation()
    identity = negotiation.Identity({"name": "c", "version": "1"}, {})
    steps = negotiation.negotiate(identity, (), probe_timeout=1, record=record)
    with pytest.raises(NegotiationError) as caught:
        next(steps)
    assert caught.value.negotiation is record


@pytest.mark.parametrize("mode", ["auto", "session", "stateless"])
def test_authorization_error_is_raised_unchanged(mode):
    error = AuthError("the resource is about another server")
    gets = initialize_gets if mode == "session" else probe_gets
    played = over_http(gets(error), mode=mode)
    assert played.error is error
    assert INITIALIZE not in played.steps or mode == "session"
    assert len(played.steps) == 2
