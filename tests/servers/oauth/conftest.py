"""Authorization servers of others, and MCP servers that want their tokens."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

TESTS = Path(__file__).parents[2]
for folder in ("over_http", "oauth"):
    sys.path.insert(0, str(TESTS / folder))

import checked  # noqa: E402 - found through the lines above
from protected import protected_server  # noqa: E402 - as above
from real_servers import PEERS, require  # noqa: E402 - as above

posted_messages_are_checked = checked.posted_messages_are_checked

FOREIGN = TESTS / "servers/foreign"
END_S = 30


def ask(url, verb="GET", body=None, **headers):
    """Make one request; return status, where it leads, and what it says."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(verb, path, body, headers)
        response = connection.getresponse()
        text = response.read().decode()
        return response.status, response.getheader("location"), text
    finally:
        connection.close()


class Foreign:
    """Such a server as the tests see it, and as their MCP servers do."""

    def __init__(self, issuer):
        self.issuer = issuer
        self.live = self
        self.bound = {}

    def get(self, token):
        """Return the scopes of an access token that is good, else None."""
        status, _, text = ask(f"{self.issuer}/test/token/{token}")
        return tuple(json.loads(text)) if status == 200 else None

    def post(self, what):
        assert ask(f"{self.issuer}/test/{what}", "POST")[0] == 200

    def expire_all(self):
        self.post("expire")

    def add_client(self, **client):
        header = {"content-type": "application/json"}
        answer = ask(f"{self.issuer}/test/client", "POST", json.dumps(client), **header)
        assert answer[0] == 200

    def register(self, **client):
        """Register a client by hand; return what it is told."""
        header = {"content-type": "application/json"}
        answer = ask(f"{self.issuer}/register", "POST", json.dumps(client), **header)
        return json.loads(answer[2])

    def redirects_to(self, url):
        return ask(url)[1]

    def seen(self):
        """Return what it has noted since this was last asked."""
        return json.loads(ask(f"{self.issuer}/test/seen")[2])


class Authlib(Foreign):
    """Authlib as the tests see it."""

    def seen(self):
        """Return the requests since this was last asked, as (path, what it said)."""
        found = super().seen()
        return [(each["path"], {**each["query"], **each["form"]}) for each in found]


class Browser:
    """A browser and its user, who looks at the page and says yes, or no."""

    def __init__(self, answer="yes"):
        self.answer = answer
        self.asked = []
        self.came_back = []
        self.threads = []

    def __call__(self, url):
        thread = threading.Thread(target=self.visit, args=(url,))
        self.threads.append(thread)
        thread.start()

    def visit(self, url):
        asked = parse_qs(urlsplit(url).query)
        self.asked.append({name: text for name, [text] in asked.items()})
        status, location, page = ask(url)
        if status == 302:  # its user agrees at once
            self.came_back.append((location, ask(location)))
            return
        assert (status, "<button>" in page) == (200, True), page
        form = urlencode({"answer": self.answer})
        kind = {"content-type": "application/x-www-form-urlencoded"}
        status, location, page = ask(url, "POST", form, **kind)
        assert status == 302, page
        self.came_back.append((location, ask(location)))

    def done(self):
        for thread in self.threads:
            thread.join(END_S)
            assert not thread.is_alive()


@contextlib.contextmanager
def serving(peer, program):
    """Serve it; skip where it is not installed, but fail under CI. Gives its issuer."""
    python = PEERS / peer / "bin/python"
    require(python)
    process = subprocess.Popen(
        [str(python), str(FOREIGN / program)],
        env={**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            process.kill()


@pytest.fixture(scope="module")
def authlib():
    with serving("authlib", "authlib_server.py") as issuer:
        yield Authlib(issuer)


@pytest.fixture(scope="module")
def sdk():
    with serving("python-sdk", "sdk_authorized_server.py") as issuer:
        yield Foreign(issuer)


@pytest.fixture
def server(authlib):
    with protected_server(authlib, ("mcp:read",)) as made:
        authlib.seen()
        yield made


@pytest.fixture
def browser():
    made = Browser()
    yield made
    made.done()
