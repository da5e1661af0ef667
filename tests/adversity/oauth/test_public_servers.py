"""Public servers that name internal addresses (SSRF), or URLs that harm a browser.

Every connection is recorded, whichever code opens it. tests/auth/test_discovery.py has
each URL that a server may name, tests/oauth/test_fetch_addresses.py each address.
"""

import contextlib
import json
import webbrowser
from collections.abc import Iterator
from typing import Any, Final

import pytest
from authorization_server import (
    authorization_server,
    browse,
    json_answer,
    oauth,
    protected_server,
)
from evil_issuer import use
from fake_network import LOGIN_ADDRESS, SERVER_ADDRESS, Internet
from hostile_urls import HOSTILE

import mcpwire
import mcpwire.sync

HOST: Final = "mcp.example"
LOGIN: Final = "login.example"
URL: Final = f"http://{HOST}/mcp"
"""Unencrypted, which a user must allow: it gives an attacker more options."""
ISSUER: Final = f"http://{LOGIN}"
OUTSIDE: Final = {SERVER_ADDRESS, LOGIN_ADDRESS}

NAMES: Final = {
    "a1.example": "127.0.0.1",
    "a2.example": "fd00:ec2::254",
    "a3.example": "::ffff:169.254.169.254",
    "a4.example": "169.254.169.254",
}
"""Host names of an attacker, and the addresses they resolve to."""


def out_there(document: Any, server: Any, auth: Any) -> Any:
    """Return a document with the public names of both servers."""
    text = json.dumps(document)
    text = text.replace(server.raw.origin, f"http://{HOST}")
    # An authorization URL must be https, whatever else is allowed.
    text = text.replace(f"{auth.origin}/authorize", f"https://{LOGIN}/authorize")
    return json.loads(text.replace(auth.origin, ISSUER))


def browse_out_there(url: str) -> str:
    """Open an https URL of a server that has no certificate here."""
    return browse(url.replace(f"https://{LOGIN}/", ISSUER + "/"))


@contextlib.contextmanager
def public_servers(internet: Internet, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Serve both at their own addresses; no other address answers."""
    with authorization_server(**options) as auth, protected_server(auth) as server:
        internet.names |= {HOST: [[SERVER_ADDRESS]], LOGIN: [[LOGIN_ADDRESS]]}
        internet.names |= {name: [[address]] for name, address in NAMES.items()}
        internet.hosts = {SERVER_ADDRESS: server.raw.port, LOGIN_ADDRESS: auth.raw.port}
        usual = server._challenge
        server._challenge = lambda params: usual(params).replace(
            server.raw.origin, f"http://{HOST}"
        )
        server.on_metadata = lambda request: json_answer(
            out_there(server.metadata(), server, auth)
        )
        auth.edit["metadata"] = lambda document: out_there(document, server, auth)
        auth.iss = False  # it would contain its address
        yield server, auth


IGNORED = (
    *("jwks_uri", "service_documentation", "op_policy_uri", "op_tos_uri"),
    *("introspection_endpoint", "userinfo_endpoint", "device_authorization_endpoint"),
    *("pushed_authorization_request_endpoint", "check_session_iframe"),
    *("registration_client_uri", "resource_documentation", "resource_policy_uri"),
    *("resource_tos_uri", "signed_metadata", "logo_uri"),
)


async def log_in(grant=None, url=URL):
    grant = grant or oauth(ask=browse_out_there)
    return await use(url, grant, allow_insecure=True, trust_env=False)


@pytest.mark.attack("S05")
@pytest.mark.case("G07")
async def test_login_to_a_public_server_works(internet):
    """Otherwise the tests below would prove nothing."""
    with public_servers(internet):
        assert (await log_in()).text == "hi"
    assert set(internet.connects) == OUTSIDE


@pytest.mark.attack("S05")
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


@pytest.mark.attack("S05")
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


# Authorization URLs that a server chooses must not harm the user's machine.


WAYS = ("ask", "browser", "own browser", "nobody")


class Shown:
    """Records each URL that a user would have seen."""

    def __init__(self, monkeypatch):
        self.urls = []
        browser = webbrowser.BaseBrowser("noting")
        browser.open = self.note
        monkeypatch.setattr(webbrowser, "get", lambda *_: browser)

    def note(self, url, *_, **__):
        self.urls.append(url)
        return True

    def grant(self, way):
        return {
            "ask": lambda: oauth(ask=self.note),
            "browser": lambda: oauth(ask=None, on_url=self.note, timeout=0.2),
            "own browser": lambda: oauth(ask=None, open_browser=self.note, timeout=0.2),
            "nobody": lambda: oauth(ask=self.note, interactive=False),
        }[way]()


@pytest.fixture
def shown(monkeypatch):
    return Shown(monkeypatch)


def named(text, server, auth):
    """Return an edit that sets the authorization endpoint to this text."""
    return lambda document: (
        out_there(document, server, auth) | {"authorization_endpoint": text}
    )


@pytest.mark.attack("S04")
@pytest.mark.rule("SEC-08")
@pytest.mark.parametrize("turn", range(len(WAYS)))
async def test_hostile_authorization_url_is_never_shown(internet, shown, turn):
    with public_servers(internet) as (server, auth):
        for number, text in enumerate(HOSTILE[turn :: len(WAYS)]):
            auth.edit["metadata"] = named(text, server, auth)
            grant = shown.grant(WAYS[(turn + number) % len(WAYS)])
            outcome = await use(URL, grant, allow_insecure=True, trust_env=False)
            assert isinstance(outcome, mcpwire.AuthError), (text, outcome)
            assert not isinstance(outcome, mcpwire.AuthRequired), text
            assert str(outcome).isprintable()
            assert "hush-hush" not in str(outcome)
        assert auth.token_requests == []
    assert shown.urls == []


@pytest.mark.attack("S04")
@pytest.mark.rule("SEC-08")
@pytest.mark.parametrize("way", WAYS)
async def test_harmless_authorization_url_is_shown(internet, shown, way):
    """Otherwise the test above would prove nothing."""
    with public_servers(internet):
        grant = shown.grant(way)
        outcome = await use(URL, grant, allow_insecure=True, trust_env=False)
        if way == "nobody":
            assert isinstance(outcome, mcpwire.AuthRequired)
            shown.urls.append(outcome.url)
    assert shown.urls
    for url in shown.urls:
        assert url.startswith("https://login.example/authorize?")
