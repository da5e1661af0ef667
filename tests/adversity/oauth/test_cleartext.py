"""Credentials that would be sent unencrypted."""

from __future__ import annotations

import certificates
import pytest
from authorization_server import json_answer, oauth
from evil_issuer import GOOD, SECRETS, good_and_evil, protected_server, stolen, use

import mcpwire

pytestmark = pytest.mark.attack("S30")

UNENCRYPTED = (
    "http://mcp.example/mcp",
    "http://mcp.example:443/mcp",
    "http://93.184.216.34/mcp",
    "http://10.0.0.1/mcp",
    "http://169.254.169.254/mcp",
    "http://0.0.0.0/mcp",
    "http://localhost.example/mcp",
    "http://127.0.0.1.example/mcp",
    "HTTP://mcp.example/mcp",
)
AUTH = {
    "oauth": lambda: "oauth",
    "a login": oauth,
    "a token": lambda: f"{GOOD}-token",
    **{
        kind: lambda kind=kind: SECRETS[kind](Idp, issuer="https://login.example")
        for kind in SECRETS
    },
}


class Idp:
    issuer = "https://idp.example"


@pytest.mark.system("U01")
@pytest.mark.parametrize("kind", AUTH)
@pytest.mark.parametrize("url", UNENCRYPTED)
def test_credentials_for_an_unencrypted_server_are_refused(url, kind):
    with pytest.raises(ValueError, match="unencrypted") as caught:
        mcpwire.Http(f"{url}?key=hush-hush", auth=AUTH[kind]())
    assert "allow_insecure=True" in str(caught.value)
    assert GOOD not in str(caught.value)
    assert "hush-hush" not in str(caught.value)
    mcpwire.Http(url, auth=AUTH[kind](), allow_insecure=True)


LOCAL = ("http://127.0.0.1/mcp", "http://[::1]:8000/mcp", "http://localhost/mcp")


@pytest.mark.parametrize("kind", AUTH)
@pytest.mark.parametrize("url", [*LOCAL, "https://mcp.example/mcp"])
def test_credentials_for_a_local_or_encrypted_server_are_accepted(url, kind):
    assert mcpwire.Http(url, auth=AUTH[kind]())


ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
ISSUER = "http://login.example"


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("field", [*ENDPOINTS, "authorization_servers"])
async def test_https_discovery_never_continues_over_http(internet, field, allowed):
    """Not even with `allow_insecure=True`."""
    context = certificates.server_context()
    with (
        good_and_evil() as (good, _),
        protected_server(good, ssl_context=context) as server,
    ):
        internet.hosts["127.0.0.1"] = server.raw.port
        # The MCP server is its own authorization server, at one address.
        resource_metadata = {"resource": server.url, "authorization_servers": [ISSUER]}
        own = server.raw.origin
        if field != "authorization_servers":
            resource_metadata["authorization_servers"] = [own]
        document = good.metadata() | {
            "issuer": own,
            **dict.fromkeys(ENDPOINTS, f"{own}/x"),
            field: f"{ISSUER}/x",
        }
        server.on_metadata = lambda request: json_answer(
            resource_metadata if "protected-resource" in request.target else document
        )
        asked_urls = []
        outcome = await use(
            server.url,
            oauth(ask=asked_urls.append),
            ssl=certificates.client_context(),
            allow_insecure=allowed,
            trust_env=False,
        )
        assert isinstance(outcome, mcpwire.UrlRefused), outcome
        assert outcome.rule == "it must be https"
        assert asked_urls == []
        assert stolen(good, server.bodies) == []
    assert set(internet.connects) == {"127.0.0.1"}
    assert internet.asked == []
