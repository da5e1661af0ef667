"""How real servers answer over HTTP, asked by hand: what the client's verdicts rest on.

`README.md` in the folder above holds the findings as a table. Nothing of mcpwire runs
here, so a change in these servers is told apart from a fault of ours.
"""

from __future__ import annotations

import httpx
import pytest
from serving import EVERYTHING, FASTMCP, SDK, TYPESCRIPT

pytestmark = pytest.mark.servers

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "hand", "version": "1"},
}
SESSION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "hand", "version": "1"},
}
LATER = {"mcp-protocol-version": "2026-07-28"}
LIST = {"id": "l", "method": "tools/list"}
PLACES = [(kind, "session") for kind in (EVERYTHING, SDK, FASTMCP, TYPESCRIPT)]
LATER_PLACES = [(kind, "stateless") for kind in (SDK, FASTMCP, TYPESCRIPT)]

FORGOTTEN = {
    "everything": (400, -32000, "Bad Request: No valid session ID provided"),
    "sdk": (404, -32600, "Session not found"),
    "fastmcp": (404, -32600, "Session not found"),
    "typescript": (404, -32001, "Session not found"),
}


def kind_of(place):
    return place[0].name


class Hand:
    """Requests written by hand to one server."""

    def __init__(self, url, http):
        self.url = url
        self.http = http

    def ask(self, verb="POST", message=None, **fields):
        accept = "application/json, text/event-stream"
        body = None if message is None else {"jsonrpc": "2.0", **message}
        headers = {"accept": accept, **fields}
        with self.http.stream(verb, self.url, json=body, headers=headers) as answer:
            if verb != "GET" or answer.status_code != 200:  # such a stream has no end
                answer.read()
            return answer

    def open(self):
        """Begin a session and return its headers."""
        answer = self.ask(message={"id": 1, "method": "initialize", "params": SESSION})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        id = answer.headers["mcp-session-id"]
        return {"mcp-session-id": id, "mcp-protocol-version": "2025-11-25"}


@pytest.fixture
def hand(place):
    with httpx.Client(timeout=30, trust_env=False) as http:
        yield Hand(place.url, http)


def error_of(answer):
    error = answer.json()["error"]
    return (answer.status_code, error["code"], error["message"])


@pytest.mark.parametrize("place", PLACES, ids=kind_of, indirect=True)
def test_a_session_that_is_unknown_is_said_to_be(hand, place):
    session = hand.open()
    lost = {**session, "mcp-session-id": "nope"}
    expected = FORGOTTEN[place.kind.name]
    notice = {"method": "notifications/initialized"}
    for answer in (
        hand.ask(message=LIST, **lost),
        hand.ask(message=notice, **lost),
        hand.ask("GET", **lost),
        hand.ask("DELETE", **lost),
    ):
        assert error_of(answer) == expected
    assert hand.ask(message=notice, **session).status_code == 202
    assert hand.ask("GET", **session).status_code == 200
    assert hand.ask("DELETE", **session).status_code == 200
    assert error_of(hand.ask(message=LIST, **session)) == expected


@pytest.mark.parametrize("place", PLACES, ids=kind_of, indirect=True)
def test_a_request_without_a_session_is_a_bad_one(hand, place):
    status, _, said = error_of(hand.ask(message=LIST))
    assert (status, said) == (
        400,
        "Bad Request: Missing session ID"
        if place.kind.name in {"sdk", "fastmcp"}
        else "Bad Request: Server not initialized",
    )


@pytest.mark.parametrize("place", LATER_PLACES, ids=kind_of, indirect=True)
def test_later_requests_are_answered_in_json_and_their_head_must_agree(hand, place):
    discover = {"id": "d", "method": "server/discover", "params": {"_meta": META}}
    answer = hand.ask(message=discover, **LATER, **{"mcp-method": "server/discover"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["supportedVersions"] == ["2026-07-28"]
    enveloped = {**LIST, "params": {"_meta": META}}
    assert error_of(hand.ask(message=enveloped, **LATER))[:2] == (400, -32020)
    unknown = {**enveloped, "method": "tools/nope"}
    answer = hand.ask(message=unknown, **LATER, **{"mcp-method": "tools/nope"})
    assert error_of(answer)[:2] == (404, -32601)


@pytest.mark.parametrize("place", PLACES[:1], ids=kind_of, indirect=True)
def test_a_server_of_sessions_refuses_the_probe_with_400(hand, place):
    discover = {"id": "d", "method": "server/discover", "params": {"_meta": META}}
    answer = hand.ask(message=discover, **LATER, **{"mcp-method": "server/discover"})
    assert error_of(answer) == (400, -32000, "Bad Request: Server not initialized")
