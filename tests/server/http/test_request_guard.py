"""The request guard: Host and Origin, CORS, credentials; unexpected errors."""

import attrs
import pytest
from asgi_driver import scope, visit
from hosted import app, asgi_request, call, echo, fields, post, posted, tools

from mcpwire import Server
from mcpwire.errors import RPCError
from mcpwire.server.auth import ApiKeys, Principal, ResourceServer, StaticTokens
from mcpwire.server.auth.resource_server import HttpRefusal

URL = "http://127.0.0.1:8000/mcp"


def requiring(verifier, resource=URL):
    """Return a resource server with one verifier of tokens."""
    issuers = ["https://issuer.example"]
    return ResourceServer(resource, authorization_servers=issuers, verifiers=[verifier])


async def test_host_of_the_servers_own_resource_is_allowed():
    verifier = StaticTokens({"good": Principal(subject="s")})
    auth = requiring(verifier, "https://mcp.example/mcp")
    made = app(dispatcher=tools(echo, auth=auth))
    allowed = {"authorization": "Bearer good"}
    assert (await post(made, call(), host="mcp.example", **allowed)).status == 200
    assert (await post(made, call(), host="evil.example", **allowed)).status == 403


@pytest.mark.system("L-O8")
@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02", "TR-HTTP-03", "SSE-05")
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE", "OPTIONS", "PUT"])
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "localhost.evil.com"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"host": None},
    ],
)
async def test_foreign_host_or_origin_is_refused_for_every_verb(verb, headers):
    made, sent = app(legacy_sse=True), fields(call(), **headers)
    for path in ("/mcp", "/mcp/sse", "/mcp/messages"):
        seen = await asgi_request(made, verb, path, headers=sent)
        assert seen.status == 403
        assert "id" not in seen.json()
        assert "allowed_" in seen.json()["error"]["message"]


@pytest.mark.attack("S11")
@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"accept": "text/html"}, 406),
        ({"mcp-protocol-version": "2025-11-25"}, 400),
        ({"mcp-method": "tools/list"}, 400),
        ({"mcp-name": "other"}, 400),
        ({"authorization": "Bearer bad"}, 401),
        ({"authorization": None}, 401),
    ],
)
async def test_changed_headers_are_checked_again_after_an_accepted_request(
    changed, status
):
    verifier = StaticTokens({"good": Principal(subject="s", audience=(URL,))})
    made = app(dispatcher=tools(echo, auth=requiring(verifier)))
    good = {"authorization": "Bearer good"}
    for _ in range(2):
        assert (await post(made, call(), **good)).status == 200
        assert (await post(made, call(), **{**good, **changed})).status == status


@pytest.mark.parametrize(
    ("options", "headers", "status"),
    [
        ({}, {"origin": "http://localhost:5173"}, 200),
        ({"allowed_hosts": ["mcp.example"]}, {"host": "mcp.example"}, 200),
        ({"allowed_hosts": "mcp.example"}, {"host": "mcp.example"}, 200),
        ({"allowed_hosts": ["mcp.example"]}, {}, 403),
        (
            {"allowed_origins": ["https://a.example"]},
            {"origin": "https://a.example"},
            200,
        ),
        ({"bound": "box.example"}, {"host": "box.example:8000"}, 200),
        ({"bound": "box.example"}, {"host": "evil.example"}, 403),
    ],
)
async def test_allowed_hosts_and_origins_can_be_configured(options, headers, status):
    assert (await post(app(**options), call(), **headers)).status == status


async def test_request_without_a_server_address_passes_the_guard():
    seen = await visit(app(), scope(headers=fields(), server=None), b"{}")
    assert seen.status == 400


PREFLIGHT = [
    ("host", "127.0.0.1:8000"),
    ("origin", "http://localhost:5173"),
    ("access-control-request-method", "POST"),
    ("access-control-request-headers", "content-type, mcp-param-city,a b,, x-1"),
]


async def test_cors_preflight_is_answered_with_the_allowed_headers():
    made = app(cors=True)
    seen = await asgi_request(made, "OPTIONS", headers=PREFLIGHT)
    assert seen.status == 204
    assert seen.headers == {
        "access-control-allow-origin": "http://localhost:5173",
        "access-control-expose-headers": (
            "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"
        ),
        "vary": "Origin",
        "access-control-allow-methods": "POST, GET, DELETE",
        "access-control-allow-headers": "content-type, mcp-param-city, x-1",
        "access-control-max-age": "600",
    }


async def test_cors_preflight_of_the_oauth_metadata_is_answered():
    auth = requiring(StaticTokens({"t": "ann"}))
    made = app(dispatcher=tools(echo, auth=auth), cors=True)
    path = "/.well-known/oauth-protected-resource"
    seen = await asgi_request(made, "OPTIONS", path, headers=PREFLIGHT)
    assert seen.status == 204
    assert seen.headers["access-control-allow-origin"] == "*"
    assert "mcp-param-city" in seen.headers["access-control-allow-headers"]


async def test_cors_headers_are_on_responses_and_refusals():
    made = app(cors="https://a.example")
    for headers, status in [({}, 200), ({"content_type": "text/plain"}, 415)] * 2:
        seen = await post(made, call(), origin="https://a.example", **headers)
        assert seen.status == status
        assert seen.headers["access-control-allow-origin"] == "https://a.example"
        plain = await post(made, call())
        assert "access-control-allow-origin" not in plain.headers


async def test_preflight_of_a_foreign_origin_gets_no_cors_headers():
    made = app(cors=["https://a.example"])
    seen = await asgi_request(made, "OPTIONS", headers=PREFLIGHT)
    assert seen.status == 403
    assert "access-control-allow-origin" not in seen.headers


async def test_preflight_without_cors_or_its_headers_gets_405():
    assert (await asgi_request(app(), "OPTIONS", headers=PREFLIGHT)).status == 405
    no_preflight = [PREFLIGHT[0], PREFLIGHT[1]]
    assert (
        await asgi_request(app(cors=True), "OPTIONS", headers=no_preflight)
    ).status == 405
    assert (
        await asgi_request(app(cors=True), "OPTIONS", headers=PREFLIGHT[:1])
    ).status == 405


@attrs.frozen
class Person:
    name: str


class Refused(RPCError, HttpRefusal):
    default_code = -32600
    http_status = 401
    http_headers = (("www-authenticate", "Bearer"),)


class Guard:
    """A resource server with one principal."""

    credential_headers = frozenset({"authorization", "x-key"})
    resource = URL

    def __init__(self):
        self.urls = []

    def metadata(self):
        return {"resource": URL}

    def metadata_paths(self):
        return ("/.well-known/oauth-protected-resource/mcp",)

    async def authenticate(self, headers, verb, url):
        self.urls.append(f"{verb} {url}")
        if headers.all("x-key") != ["open"]:
            raise Refused("no")
        return Person("ada")


async def show_request(params, request):
    info = request.info
    seen = [info.transport, info.principal.name, sorted(info.headers)]
    return {"content": [], "seen": seen}


@pytest.mark.rule("TR-HTTP-05")
async def test_handlers_see_the_principal_but_not_the_credentials():
    guard = Guard()
    made = app(dispatcher=tools(show_request, auth=guard))
    seen = await post(made, call(), x_key="open")
    transport, name, headers = seen.json()["result"]["seen"]
    assert (transport, name) == ("http", "ada")
    assert "x-key" not in headers
    assert "mcp-method" in headers
    assert guard.urls == [f"POST {URL}"]


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_request_without_credentials_gets_401_for_every_verb(verb):
    guard = Guard()
    made = app(dispatcher=tools(show_request, auth=guard))
    seen = await asgi_request(made, verb, query_string=b"a=b")
    assert seen.status == 401
    assert seen.headers["www-authenticate"] == "Bearer"
    assert guard.urls == [f"{verb} {URL}?a=b"]


async def test_resource_metadata_is_served_without_credentials():
    made = app(dispatcher=tools(show_request, auth=Guard()))
    path = "/.well-known/oauth-protected-resource/mcp"
    seen = await asgi_request(made, "GET", path)
    assert seen.json() == {"resource": URL}
    assert seen.headers["access-control-allow-origin"] == "*"


async def test_http_refusal_without_an_rpc_error_is_answered_with_its_status():
    class Odd(Guard):
        async def authenticate(self, headers, verb, url):
            error = HttpRefusal("why")
            error.http_status = 403
            raise error

    seen = await post(app(dispatcher=tools(show_request, auth=Odd())), call())
    assert seen.status == 403
    assert seen.json()["error"] == {"code": -32600, "message": "why"}


@pytest.mark.rule("HDR-33")
@pytest.mark.case("D13")
async def test_name_header_does_not_bypass_the_scopes_of_the_called_tool():
    called = []
    reader = Principal(subject="ada", scopes=["read"])
    server = Server("guarded", "1", auth=requiring(ApiKeys({"key": reader})))

    @server.tool(name="open")
    async def note_open() -> None:
        called.append("open")

    @server.tool(name="closed", scopes=["write"])
    async def note_closed() -> None:
        called.append("closed")

    made, key = server.asgi(), {"authorization": "Bearer key"}
    seen = await post(made, call(name="closed"), mcp_name="open", **key)
    assert (seen.status, seen.json()["error"]["code"]) == (400, -32020)
    seen = await post(made, call(name="closed"), **key)
    assert seen.status == 403
    challenge = seen.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="write"' in challenge
    assert called == []
    assert (await post(made, call(name="open"), **key)).status == 200
    assert called == ["open"]


@pytest.mark.attack("S12")
async def test_unexpected_error_gets_500_and_reveals_no_secret(caplog):
    class Broken(Guard):
        async def authenticate(self, headers, verb, url):
            raise ValueError("secret")

    made = app(dispatcher=tools(show_request, auth=Broken()))
    seen = await post(made, call())
    assert seen.status == 500
    assert seen.json()["error"]["code"] == -32603
    assert b"secret" not in seen.body
    assert "secret" in caplog.text


@pytest.mark.attack("S12")
async def test_error_after_the_response_start_is_only_logged(caplog):
    made = app()
    seen = posted(call())
    sent = []

    async def send(event):
        sent.append(event)
        if event["type"] == "http.response.body":
            raise ValueError("broken")

    await made(seen.scope, seen.receive, send)
    assert len(sent) == 2
    assert "could not be answered" in caplog.text
