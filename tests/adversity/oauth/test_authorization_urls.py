"""Authorization URLs that a server chooses must not harm the user's machine."""

from __future__ import annotations

import webbrowser

import pytest
from authorization_server import oauth
from evil_issuer import use
from hostile_urls import HOSTILE
from public import URL, out_there, public_servers

import mcpwire
import mcpwire.sync

pytestmark = [pytest.mark.attack("S04"), pytest.mark.rule("SEC-08")]

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
