"""Callbacks to this machine during a login: any process may send them."""

from __future__ import annotations

import http.client
import socket
import threading
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from authorization_server import browse, oauth
from evil_issuer import good_and_evil, protected_server, use

import mcpwire

pytestmark = pytest.mark.attack("S22")

MARK = "<script>SENTINEL</script>"


def get(port, path, *, verb="GET", host=None):
    """Request the port of a login; return status and page, or None if it is closed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        headers = {} if host is None else {"Host": host}
        connection.request(verb, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return None
    finally:
        connection.close()


class Visits:
    """Replaces the browser: sends the callbacks itself, in a thread."""

    def __init__(self, *before):
        self.before = before
        self.port = None
        self.answers = []
        self.good = self.again = None
        self.thread = None

    def __call__(self, url):
        self.thread = threading.Thread(target=self.visit, args=(url,))
        self.thread.start()

    def visit(self, url):
        back = urlsplit(browse(url))
        assert (back.hostname, back.path) == ("127.0.0.1", "/callback")
        self.port = back.port
        for each in self.before:
            self.answers.append(each(self.port, back))
        self.good = get(self.port, f"{back.path}?{back.query}")
        self.again = get(self.port, f"{back.path}?{back.query}")


def with_params(**changes):
    """Send a callback with changed parameters; None removes one."""

    def visit(port, back):
        params = {name: text for name, [text] in parse_qs(back.query).items()}
        for name, change in changes.items():
            params[name] = change(params[name]) if callable(change) else change
        left = {name: text for name, text in params.items() if text is not None}
        return get(port, f"{back.path}?{urlencode(left)}")

    return visit


BAD = {
    "another state": with_params(state="guessed", code=MARK),
    "no state": with_params(state=None, code="stolen"),
    "a blank state": with_params(state=""),
    "a longer state": with_params(state=lambda text: text + "x"),
    "the state without its end": with_params(state=lambda text: text[:-1]),
    "the state in capitals": with_params(state=str.upper),
    "the state, and nothing else": with_params(code=None),
    "two states": lambda port, back: get(port, f"{back.path}?{back.query}&state=x"),
    "an error of another": with_params(
        state="guessed", code=None, error="access_denied", error_description=MARK
    ),
    "an error without state": with_params(state=None, code=None, error="x"),
    "a POST": lambda port, back: get(port, f"{back.path}?{back.query}", verb="POST"),
    "a HEAD": lambda port, back: get(port, f"{back.path}?{back.query}", verb="HEAD"),
    "another path": lambda port, back: get(port, f"/?{back.query}"),
    "below the path": lambda port, back: get(port, f"{back.path}/x?{back.query}"),
    "another host": lambda port, back: get(
        port, f"{back.path}?{back.query}", host=f"evil.example:{port}"
    ),
    "nothing": lambda port, back: get(port, "/favicon.ico"),
}


@pytest.mark.rule("FLOW-09")
async def test_concurrent_bad_callbacks_do_not_prevent_the_login():
    def at_once(port, back):
        visits = [
            threading.Thread(target=each, args=(port, back)) for each in BAD.values()
        ]
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        for each in visits:
            each.start()
        for each in visits:
            each.join(30)
        for each in silent:
            each.close()
        return 400, ""

    with good_and_evil() as (good, _), protected_server(good) as server:
        visits = Visits(at_once)
        grant = oauth(ask=None, open_browser=visits)
        assert (await use(server.url, grant)).text == "hi"
        visits.thread.join(30)
        assert good.grants == ["authorization_code"]


@pytest.mark.rule("FLOW-09")
@pytest.mark.parametrize("params", [{"code": ""}, {"iss": "x"}, {"iss": None}])
async def test_bad_callback_with_the_right_state_ends_the_login(params):
    """The state authenticates the callback: the login waits for no other."""
    with good_and_evil() as (good, _), protected_server(good) as server:
        visits = Visits(with_params(**params))
        grant = oauth(ask=None, open_browser=visits)
        outcome = await use(server.url, grant)
        visits.thread.join(30)
        assert isinstance(outcome, mcpwire.AuthError), outcome
        assert good.token_requests == []
        assert visits.good is None or visits.good[0] >= 400
