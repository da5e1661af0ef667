"""Foreign authorization servers, and MCP servers that require their tokens."""

import contextlib
import http.client
import json
import os
import subprocess
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import schema_checks
from protected import protected_server
from real_servers import PEERS, require

posted_messages_are_checked = schema_checks.posted_messages_are_checked

FOREIGN = Path(__file__).parents[1] / "foreign"
END_S = 30


def send(url, verb="GET", body=None, **headers):
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


class ForeignServer:
    """A foreign server as the tests and their MCP servers use it."""

    def __init__(self, issuer):
        self.issuer = issuer
        self.live = self
        self.bound = {}

    def get(self, token):
        """Return the scopes of a valid access token, else None."""
        status, _, text = send(f"{self.issuer}/test/token/{token}")
        return tuple(json.loads(text)) if status == 200 else None

    def post(self, what):
        assert send(f"{self.issuer}/test/{what}", "POST")[0] == 200

    def expire_all(self):
        self.post("expire")

    def add_client(self, **client):
        header = {"content-type": "application/json"}
        answer = send(
            f"{self.issuer}/test/client", "POST", json.dumps(client), **header
        )
        assert answer[0] == 200

    def register(self, **client):
        header = {"content-type": "application/json"}
        answer = send(f"{self.issuer}/register", "POST", json.dumps(client), **header)
        return json.loads(answer[2])

    def redirects_to(self, url):
        return send(url)[1]

    def seen(self):
        """Return what it recorded since the last call."""
        return json.loads(send(f"{self.issuer}/test/seen")[2])


class Authlib(ForeignServer):
    """Authlib as the tests see it."""

    def seen(self):
        """Return the requests since the last call, as (path, parameters)."""
        found = super().seen()
        return [(each["path"], {**each["query"], **each["form"]}) for each in found]


class Browser:
    """A browser and its user, who answers the page with yes or no."""

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
        status, location, page = send(url)
        if status == 302:  # its user has agreed already
            self.came_back.append((location, send(location)))
            return
        assert (status, "<button>" in page) == (200, True), page
        form = urlencode({"answer": self.answer})
        kind = {"content-type": "application/x-www-form-urlencoded"}
        status, location, page = send(url, "POST", form, **kind)
        assert status == 302, page
        self.came_back.append((location, send(location)))

    def done(self):
        for thread in self.threads:
            thread.join(END_S)
            assert not thread.is_alive()


@contextlib.contextmanager
def serving(peer, program):
    """Serve it and yield its issuer; skip if it is not installed, but fail under CI."""
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
        yield ForeignServer(issuer)


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
