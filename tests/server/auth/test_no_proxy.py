"""A resource server has no authorization endpoints and redirects to none."""

import httpx
import pytest

import mcpwire
from mcpwire.testing import AsgiTransport

RESOURCE = "https://mcp.example/mcp"
ISSUER = "https://login.example"


@pytest.mark.attack("S25")
@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        "/authorize",
        "/token",
        "/register",
        "/revoke",
        "/callback",
        "/mcp/authorize",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
    ],
)
async def test_authorization_endpoints_are_not_served(verb, path):
    auth = mcpwire.ResourceServer(
        RESOURCE,
        authorization_servers=[ISSUER],
        verifiers=[mcpwire.StaticTokens({"a-long-random-text": {"subject": "ada"}})],
    )
    server = mcpwire.Server("guarded", "1", auth=auth)
    transport = AsgiTransport(server.asgi())
    async with httpx.AsyncClient(transport=transport) as http_client:
        answer = await http_client.request(verb, f"https://mcp.example{path}")
        assert answer.status_code in {401, 404}
        assert "location" not in answer.headers
        shown = await http_client.get(
            "https://mcp.example/.well-known/oauth-protected-resource"
        )
        assert shown.json()["authorization_servers"] == [ISSUER]
