"""Helpers for the tests of fetching: servers, requests and failures."""

import contextlib
import ssl
import traceback

import certificates
import pytest
from fake_network import LOGIN_ADDRESS, SERVER_ADDRESS
from raw_server import json_reply, raw_server

import mcpwire
from mcpwire.auth.steps import Fetch
from mcpwire.limits import Limits

HUSH = "hush-hush"
SERVER = "mcp.example"
LOGIN = "login.example"
NAMED = certificates.AUTHORITY.issue_cert(SERVER, LOGIN)
ANSWER = json_reply({"ok": True})
SHORT = Limits(oauth_timeout=0.4)
SMALL = Limits(oauth_document=1_000)

GET = {"may_redirect": True}
POST = {"form": (("refresh_token", HUSH),)}
REGISTER = {"document": {"client_name": HUSH}}


def step(url, **options):
    return Fetch("the token endpoint", url, **options)


def serve(conn):
    while conn.receive(timeout=None) is not None:
        conn.send(ANSWER)


def sending(data):
    def script(conn):
        while conn.receive(timeout=None) is not None:
            conn.send(data)

    return script


def named_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    NAMED.configure_cert(context)
    return context


def target(url=f"https://{SERVER}/mcp", **options):
    if url.startswith("https:"):
        options.setdefault("ssl", certificates.client_context())
    return mcpwire.Http(url, **options)


@contextlib.contextmanager
def login_server(internet, script=serve):
    """Serve both names, each at its own address."""
    internet.names |= {SERVER: [[SERVER_ADDRESS]], LOGIN: [[LOGIN_ADDRESS]]}
    with raw_server(script, ssl_context=named_context()) as server:
        internet.hosts = {SERVER_ADDRESS: server.port, LOGIN_ADDRESS: server.port}
        yield server


@contextlib.contextmanager
def local_server(internet, script=serve, **options):
    """Serve on loopback, where http is allowed."""
    with raw_server(script, **options) as server:
        internet.hosts["127.0.0.1"] = server.port
        yield server


def failure(fetches, request, expected):
    with pytest.raises(expected) as caught:
        fetches.fetch(request)
    assert HUSH not in "".join(traceback.format_exception_only(caught.value))
    # A whole traceback would contain the source lines of the test.
    chain = caught.value
    while chain is not None:
        assert HUSH not in str(chain) + repr(chain)
        chain = chain.__cause__
    return caught.value
