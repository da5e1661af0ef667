"""Foreign web pages get no access to a server on this machine."""

import itertools
import json

import pytest
from asgi_driver import Visit, scope
from attacked_server import build
from hosted import fields
from raw_client import modern, request, session

VERBS = ("POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH", "TRACE", "X")

PATHS = ("/mcp", "/mcp/", "/mcp/sse", "/mcp/messages", "/", "/.well-known/x", "/admin")

EVIL_HOSTS = (
    *("evil.example", "localhost.evil.com", "127.0.0.1.nip.io", "127.0.0.1.evil.com"),
    *("evil.example:8000", "localhost@evil.example", "evil.example#localhost", "", " "),
    *("localhost, evil.example", "evil.example, localhost", "[::1].evil.example"),
    *("[::1", "[::1]]", "[evil.example]", "localhost:x", "localhost:0:0"),
    *("0.0.0.0", "10.0.0.1", "169.254.169.254", "[fe80::1]", "[::ffff:8.8.8.8]"),
    *("localhost/..", "localhost\\evil", "local\u00adhost", "localhost\tx", "*"),
    *("xn--lcalhost-n1a", "localhost%00", "localhost.."),
)
"""Values of Host that no local server has; some resolve to this machine."""

HOSTS = (
    *("localhost", "127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]", "[::1]:8000"),
    *("LOCALHOST", "127.0.0.2"),
)

EVIL_ORIGINS = (
    *("http://evil.example", "https://evil.example:8000", "null", "NULL", "", "*"),
    *(
        "http://localhost.evil.com",
        "http://127.0.0.1.nip.io",
        "http://evil.localhost.x",
    ),
    *("http://localhost@evil.example", "http://evil.example/#http://localhost"),
    *("http://localhost, http://evil.example", "http://evil.example http://localhost"),
    *("file://", "data:", "javascript:0", "chrome-extension://localhost", "localhost"),
    *("//localhost", "http:localhost", "http:///localhost", "http://", "http://[::1"),
    *(
        "http://localhost\\@evil.example",
        "http://localhost:8000/",
        "http://localhost?x",
    ),
)

ORIGINS = ("http://localhost", "http://127.0.0.1:5173", "https://localhost:8443")


async def response_to(app, verb, path, body=b"{}", **more):
    named = fields(mcp_protocol_version=None, **more)
    visit = Visit(scope(verb, path, named), body)
    visit.leave()
    return await visit.begin(app).done()


@pytest.mark.attack("S11")
@pytest.mark.case("D06")
@pytest.mark.parametrize("cors", [None, True])
async def test_foreign_hosts_and_origins_are_refused_on_every_path(cors):
    ran = []
    server = build()

    @server.tool
    async def mark() -> str:
        ran.append(1)
        return "x"

    app = server.asgi(legacy_sse=True, cors=cors)
    bodies = {
        "call": json.dumps(modern(1, "tools/call", {"name": "mark"})).encode(),
        "initialize": json.dumps(request(1, "initialize", session())).encode(),
    }
    hosts = [{"host": each} for each in (*EVIL_HOSTS, None)]
    origins = [{"origin": each} for each in EVIL_ORIGINS]
    foreign = (*hosts, *origins)
    every_route = itertools.product(VERBS, PATHS, [hosts[0], origins[0]])
    cases = [*every_route, *itertools.product(["POST", "GET"], ["/mcp"], foreign)]
    for verb, path, named in cases:
        answer = await response_to(app, verb, path, bodies["initialize"], **named)
        assert answer.status == 403, (verb, path, named)
        # No header allows the page's browser to read the response.
        assert not {name for name in answer.headers if name.startswith("access-")}
        assert "mcp-session-id" not in answer.headers
    for named in foreign:
        answer = await response_to(app, "POST", "/mcp", bodies["call"], **named)
        assert answer.status == 403
    assert ran == []
    local = [{"host": each} for each in HOSTS] + [{"origin": o} for o in ORIGINS]
    for named in local:
        answer = await response_to(app, "POST", "/mcp", bodies["initialize"], **named)
        assert answer.status == 200, named
    await app.aclose()


SIMPLE = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")


@pytest.mark.attack("S11")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/messages"])
async def test_request_without_cors_preflight_is_refused(path):
    app = build().asgi(legacy_sse=True)
    body = json.dumps(request(1, "initialize", session())).encode()
    for kind in (*SIMPLE, "text/plain;application/json", "application/jsonx", "", None):
        answer = await response_to(app, "POST", path, body, **{"content-type": kind})
        assert answer.status == 415, kind
    await app.aclose()
