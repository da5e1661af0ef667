"""Servers that make the client send requests to internal addresses (SSRF).

Every connection is recorded, whichever code opens it. tests/auth/test_discovery.py has
each URL that a server may name, tests/oauth/test_fetch_addresses.py each address.
"""

from __future__ import annotations

import pytest
from authorization_server import json_answer, oauth
from evil_issuer import use
from public import NAMES, OUTSIDE, URL, browse_out_there, out_there, public_servers

import mcpwire
import mcpwire.sync

pytestmark = pytest.mark.attack("S05")

IGNORED = (
    "jwks_uri",
    "service_documentation",
    "op_policy_uri",
    "op_tos_uri",
    "introspection_endpoint",
    "userinfo_endpoint",
    "device_authorization_endpoint",
    "pushed_authorization_request_endpoint",
    "check_session_iframe",
    "registration_client_uri",
    "resource_documentation",
    "resource_policy_uri",
    "resource_tos_uri",
    "signed_metadata",
    "logo_uri",
)


async def log_in(grant=None, url=URL):
    grant = grant or oauth(ask=browse_out_there)
    return await use(url, grant, allow_insecure=True, trust_env=False)


@pytest.mark.case("G07")
async def test_login_to_a_public_server_works(internet):
    """Otherwise the tests below would prove nothing."""
    with public_servers(internet):
        assert (await log_in()).text == "hi"
    assert set(internet.connects) == OUTSIDE


@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("field", ["token_endpoint", "registration_endpoint"])
async def test_endpoint_that_resolves_to_an_internal_address_is_refused(
    internet, field
):
    with public_servers(internet) as (server, auth):
        for host in NAMES:
            bad = {field: f"https://{host}/x"}
            auth.edit["metadata"] = lambda document, bad=bad: (
                out_there(document, server, auth) | bad
            )
            outcome = await log_in()
            assert isinstance(outcome, mcpwire.UrlRefused), (host, outcome)
        assert auth.token_requests == []
    assert set(internet.connects) == OUTSIDE
    assert set(internet.asked) >= {*NAMES}


@pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.1", "a4.example"])
async def test_ignored_metadata_urls_are_not_requested(internet, host):
    with public_servers(internet) as (server, auth):
        extra = dict.fromkeys(IGNORED, f"https://{host}/x")
        for key in ("metadata", "register"):
            auth.edit[key] = lambda document: out_there(document, server, auth) | extra
        server.on_metadata = lambda request: json_answer(
            out_there(server.metadata(), server, auth) | extra
        )
        assert (await log_in()).text == "hi"
    assert set(internet.connects) == OUTSIDE
    assert host not in internet.asked
