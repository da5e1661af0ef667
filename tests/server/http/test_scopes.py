"""Scopes are checked against the body of a request, not against its headers."""

import json

import pytest
from asgi_driver import Visit, scope
from hosted import META, fields

from mcpwire import ApiKeys, Principal, ResourceServer, Server


def guarded(called):
    auth = ResourceServer(
        "https://mcp.example/mcp",
        authorization_servers=["https://issuer.example"],
        verifiers=[ApiKeys({"key": Principal(subject="ada", scopes=["read"])})],
    )
    server = Server("guarded", "1", auth=auth)
    server.add_tool(lambda: called.append("open"), name="open", thread=False)
    server.add_tool(
        lambda: called.append("closed"), name="closed", scopes=["write"], thread=False
    )
    return server.asgi()


async def call(app, name, **head):
    params = {"name": name, "arguments": {}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    named = fields(message, host="mcp.example", authorization="Bearer key", **head)
    visit = Visit(scope(headers=named), json.dumps(message).encode())
    return await visit.begin(app).done()


@pytest.mark.rule("HDR-33")
@pytest.mark.case("D13")
async def test_name_header_does_not_bypass_the_scopes_of_the_called_tool():
    called = []
    app = guarded(called)
    seen = await call(app, "closed", mcp_name="open")
    assert (seen.status, seen.json()["error"]["code"]) == (400, -32020)
    seen = await call(app, "closed")
    assert seen.status == 403
    challenge = seen.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="write"' in challenge
    assert called == []
    assert (await call(app, "open")).status == 200
    assert called == ["open"]
