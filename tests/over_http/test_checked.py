"""What is POSTed is checked against the schema of its own revision."""

import json

import checked
import pytest
from little_client import META, MODERN
from raw_server import raw_server, reply

pytestmark = pytest.mark.unchecked_wire("it sends what is wrong, to be found out")

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


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
def test_what_is_wrong_is_collected(spec_dir, client_of, message, fields, wrong):
    def script(conn):
        conn.receive()
        conn.send(reply(202))

    with checked.watch() as found, raw_server(script) as server:
        client = client_of(server)
        client.http.post(server.url, content=json.dumps(message), headers=fields)
    assert (wrong in "\n".join(found)) if wrong else found == []
