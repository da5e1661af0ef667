"""The servers of this folder check clients: a rule violation fails the test."""

import json

import httpx
import pytest
import schema_checks
from mcp_server import scripted_mcp
from raw_server import raw_server, reply

pytestmark = pytest.mark.unchecked_wire("it sends what is wrong, to be found out")

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
MODERN = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
MIRRORED = {"name": "mirrored", "arguments": {"region": "ä"}, "_meta": META}


def post(url, message, headers):
    with httpx.Client(trust_env=False, timeout=30) as client:
        return client.post(url, content=json.dumps(message), headers=headers)


@pytest.mark.parametrize(
    ("fields", "method", "params", "status", "code"),
    [
        ({"Mcp-Method": "ping"}, "ping", {"_meta": META}, 404, -32601),
        ({"Mcp-Method": "tools/list"}, "ping", {"_meta": META}, 400, -32020),
        ({"MCP-Protocol-Version": "2026-07-29"}, "ping", {"_meta": META}, 400, -32020),
        ({"Mcp-Method": "ping"}, "ping", {"_meta": {}}, 400, -32602),
        ({"Mcp-Method": "tools/call"}, "tools/call", MIRRORED, 400, -32020),
        (
            {"Mcp-Method": "tools/call", "Mcp-Name": "mirrored"},
            "tools/call",
            MIRRORED,
            400,
            -32020,
        ),
    ],
)
def test_stateless_server_refuses_headers_that_differ_from_the_body(
    fields, method, params, status, code
):
    headers = {**MODERN, "Content-Type": "application/json", **fields}
    with scripted_mcp("stateless") as server:
        message = {**PING, "method": method, "params": params}
        response = post(server.url, message, headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_rule_violation_of_a_client_fails_the_test():
    def body():
        with scripted_mcp() as server:
            post(server.url, PING, {"Accept": "text/html"})

    with pytest.raises(AssertionError, match="Accept lacks"):
        body()


def test_script_error_fails_the_test_or_becomes_a_note_of_its_error():
    def script(conn):
        assert conn.receive().verb == "GET"

    def body(error):
        with raw_server(script) as server:
            with pytest.raises(httpx.HTTPError):
                post(server.url, PING, {})
            server.wait_until(lambda: not server.open)
            if error is not None:
                raise error

    with pytest.raises(AssertionError, match="GET"):
        body(None)
    with pytest.raises(ValueError, match="of the test") as caught:
        body(ValueError("of the test"))
    assert "GET" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("message", "fields", "wrong"),
    [
        (PING, {"MCP-Protocol-Version": "2025-11-25"}, None),
        (PING, MODERN, "may not send ping in 2026-07-28"),
        ({**PING, "id": None}, {"MCP-Protocol-Version": "2025-11-25"}, "$.id"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, {}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": 1}, {}, "$.result"),
        ({**PING, "method": "tools/list", "params": {"_meta": META}}, MODERN, None),
        ({**PING, "method": "tools/list"}, MODERN, "params"),
        ({"no": "message"}, {}, None),
    ],
)
def test_schema_errors_of_posted_messages_are_collected(
    spec_dir, message, fields, wrong
):
    def script(conn):
        conn.receive()
        conn.send(reply(202))

    with schema_checks.watch() as found, raw_server(script) as server:
        post(server.url, message, fields)
    assert (wrong in "\n".join(found)) if wrong else found == []
