"""Servers that make the client send requests to internal addresses (SSRF).

Every connection is recorded, whichever code opens it.
"""

from __future__ import annotations

import pytest
from authorization_server import json_answer, oauth
from evil_issuer import use
from fake_network import SERVER_ADDRESS
from public import (
    HOST,
    LITERALS,
    NAMES,
    OUTSIDE,
    URL,
    browse_out_there,
    out_there,
    public_servers,
)

import mcpwire
import mcpwire.sync

pytestmark = pytest.mark.attack("S05")

ENDPOINTS = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
)
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


def both(host):
    return [f"https://{host}", f"http://{host}"]


def batches(hosts, size):
    return [hosts[start : start + size] for start in range(0, len(hosts), size)]


@pytest.mark.case("G07")
async def test_login_to_a_public_server_works(internet):
    """Otherwise the tests below would prove nothing."""
    with public_servers(internet):
        assert (await log_in()).text == "hi"
    assert set(internet.connects) == OUTSIDE


async def test_private_server_may_use_a_private_issuer(internet):
    """The recording that the tests below rely on works."""
    with public_servers(internet) as (server, auth):
        internet.names[HOST] = [["10.0.0.1"]]
        internet.names["login.example"] = [["10.0.0.2"]]
        internet.hosts = {"10.0.0.1": server.raw.port, "10.0.0.2": auth.raw.port}
        assert (await log_in()).text == "hi"
    assert set(internet.connects) == {"10.0.0.1", "10.0.0.2"}


@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("hosts", [LITERALS, NAMES], ids=["literals", "names"])
async def test_challenge_with_an_internal_url_is_refused(internet, hosts):
    with public_servers(internet) as (server, auth):
        for url in (f"{each}/x" for host in hosts for each in both(host)):
            server._challenge = lambda _, url=url: f'Bearer resource_metadata="{url}"'
            outcome = await log_in()
            assert isinstance(outcome, mcpwire.UrlRefused), (url, outcome)
        assert auth.requests == []
    assert set(internet.connects) == {SERVER_ADDRESS}
    assert set(internet.asked) == {HOST}


@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("path", ["", "/tenant"])
@pytest.mark.parametrize("hosts", [LITERALS, NAMES], ids=["literals", "names"])
async def test_internal_issuer_is_refused(internet, hosts, path):
    with public_servers(internet) as (server, auth):
        for four in batches([*hosts], 4):
            named = [f"{each}{path}" for host in four for each in both(host)]
            metadata = {"resource": URL, "authorization_servers": named}
            server.on_metadata = lambda request, metadata=metadata: json_answer(
                metadata
            )
            outcome = await log_in()
            assert isinstance(outcome, mcpwire.UrlRefused), (four, outcome)
        assert auth.requests == []
    assert set(internet.connects) == {SERVER_ADDRESS}


@pytest.mark.case("G07")
@pytest.mark.rule("SEC-04", "SEC-05")
@pytest.mark.parametrize("field", ENDPOINTS)
async def test_endpoint_with_an_internal_address_is_refused(internet, field):
    asked_urls = []
    with public_servers(internet) as (server, auth):
        for host in LITERALS:
            bad = {field: f"https://{host}/x?SENTINEL=1"}
            auth.edit["metadata"] = lambda document, bad=bad: (
                out_there(document, server, auth) | bad
            )
            outcome = await log_in(oauth(ask=asked_urls.append))
            assert isinstance(outcome, mcpwire.UrlRefused), (host, outcome)
            assert "SENTINEL" not in str(outcome) + outcome.url
        assert {request.verb for request in auth.requests} == {"GET"}
    assert (set(internet.connects), asked_urls) == (OUTSIDE, [])


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


@pytest.mark.rule("SEC-04")
async def test_revocation_is_not_sent_to_an_internal_address(internet):
    with public_servers(internet) as (server, auth):
        for host in NAMES:
            bad = {"revocation_endpoint": f"https://{host}/x"}
            auth.edit["metadata"] = lambda document, bad=bad: (
                out_there(document, server, auth) | bad
            )
            grant = oauth(ask=browse_out_there)
            assert (await log_in(grant)).text == "hi"
            target = mcpwire.Http(URL, auth=grant, allow_insecure=True, trust_env=False)
            assert await mcpwire.logout(target)
            assert mcpwire.login_status(target) is None
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
