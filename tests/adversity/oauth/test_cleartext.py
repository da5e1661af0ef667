"""Credentials that would be sent unencrypted."""

import pytest
from authorization_server import oauth
from evil_issuer import GOOD, SECRETS

import mcpwire

pytestmark = pytest.mark.attack("S30")

UNENCRYPTED = (
    *("http://mcp.example/mcp", "http://mcp.example:443/mcp"),
    *("http://93.184.216.34/mcp", "http://10.0.0.1/mcp", "http://169.254.169.254/mcp"),
    *("http://0.0.0.0/mcp", "http://localhost.example/mcp"),
    *("http://127.0.0.1.example/mcp", "HTTP://mcp.example/mcp"),
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
