"""Who comes in: Host and Origin, browsers, credentials; what nobody foresaw."""

import attrs
import pytest
from asgi_driver import scope, visit
from hosted import app, ask, call, echo, fields, post, posted, tools

from mcpwire.errors import RPCError
from mcpwire.server.auth import Principal, ResourceServer, StaticTokens
from mcpwire.server.auth.resource_server import HttpRefusal

# Who comes in...


async def test_a_server_may_be_asked_by_the_name_of_its_own_resource():
    auth = ResourceServer(
        "https://mcp.example/mcp",
        authorization_servers=["https://issuer.example"],
        verifiers=[StaticTokens({"good": Principal(subject="s")})],
    )
    made = app(dispatcher=tools(echo, auth=auth))
    allowed = {"authorization": "Bearer good"}
    assert (await post(made, call(), host="mcp.example", **allowed)).status == 200
    assert (await post(made, call(), host="evil.example", **allowed)).status == 403


@pytest.mark.system("L-O8")
@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02", "TR-HTTP-03")
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
async def test_strangers_are_refused_whatever_they_want(verb, headers):
    seen = await ask(app(), verb, headers=fields(call(), **headers))
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
async def test_who_was_let_in_before_is_let_in_again_only_with_the_same_head(
    changed, status
):
    auth = ResourceServer(
        "http://localhost/mcp",
        authorization_servers=["https://issuer.example"],
        verifiers=[
            StaticTokens(
                {"good": Principal(subject="s", audience=("http://localhost/mcp",))}
            )
        ],
    )
    made = app(dispatcher=tools(echo, auth=auth))
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
async def test_who_may_come_in_can_be_said(options, headers, status):
    assert (await post(app(**options), call(), **headers)).status == status


async def test_a_server_on_a_socket_has_no_address():
    seen = await visit(app(), scope(headers=fields(), server=None), b"{}")
    assert seen.status == 400


# Browsers...


PREFLIGHT = [
    ("host", "127.0.0.1:8000"),
    ("origin", "http://localhost:5173"),
    ("access-control-request-method", "POST"),
    ("access-control-request-headers", "content-type, mcp-param-city,a b,, x-1"),
]


async def test_a_browser_is_told_that_it_may_ask():
    made = app(cors=True)
    seen = await ask(made, "OPTIONS", headers=PREFLIGHT)
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


async def test_a_page_may_read_answers_and_refusals_each_time():
    made = app(cors="https://a.example")
    for headers, status in [({}, 200), ({"content_type": "text/plain"}, 415)] * 2:
        seen = await post(made, call(), origin="https://a.example", **headers)
        assert seen.status == status
        assert seen.headers["access-control-allow-origin"] == "https://a.example"
        plain = await post(made, call())
        assert "access-control-allow-origin" not in plain.headers


async def test_pages_that_may_not_ask_are_told_nothing():
    made = app(cors=["https://a.example"])
    seen = await ask(made, "OPTIONS", headers=PREFLIGHT)
    assert seen.status == 403
    assert "access-control-allow-origin" not in seen.headers


async def test_without_cors_there_is_no_preflight():
    assert (await ask(app(), "OPTIONS", headers=PREFLIGHT)).status == 405
    no_preflight = [PREFLIGHT[0], PREFLIGHT[1]]
    assert (await ask(app(cors=True), "OPTIONS", headers=no_preflight)).status == 405
    assert (await ask(app(cors=True), "OPTIONS", headers=PREFLIGHT[:1])).status == 405


# Who asks...


@attrs.frozen
class Person:
    name: str


class Refused(RPCError, HttpRefusal):
    default_code = -32600
    http_status = 401
    http_headers = (("www-authenticate", "Bearer"),)


class Guard:
    """A resource server for one person."""

    credential_headers = frozenset({"authorization", "x-key"})
    resource = "http://127.0.0.1:8000/mcp"

    def __init__(self):
        self.urls = []

    def metadata(self):
        return {"resource": "http://127.0.0.1:8000/mcp"}

    def metadata_paths(self):
        return ("/.well-known/oauth-protected-resource/mcp",)

    async def authenticate(self, headers, verb, url):
        self.urls.append(f"{verb} {url}")
        if headers.all("x-key") != ["open"]:
            raise Refused("no")
        return Person("ada")


async def told(params, request):
    info = request.info
    seen = [info.transport, info.principal.name, sorted(info.headers)]
    return {"content": [], "seen": seen}


@pytest.mark.rule("TR-HTTP-05")
async def test_who_asks_is_known_and_how_it_was_proved_is_not():
    guard = Guard()
    made = app(dispatcher=tools(told, auth=guard))
    seen = await post(made, call(), x_key="open")
    transport, name, headers = seen.json()["result"]["seen"]
    assert (transport, name) == ("http", "ada")
    assert "x-key" not in headers
    assert "mcp-method" in headers
    assert guard.urls == ["POST http://127.0.0.1:8000/mcp"]


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_who_may_not_ask_is_refused_before_anything_is_read(verb):
    guard = Guard()
    made = app(dispatcher=tools(told, auth=guard))
    seen = await ask(made, verb, query_string=b"a=b")
    assert seen.status == 401
    assert seen.headers["www-authenticate"] == "Bearer"
    assert guard.urls == [f"{verb} http://127.0.0.1:8000/mcp?a=b"]


async def test_what_the_server_says_of_itself_is_for_everybody():
    made = app(dispatcher=tools(told, auth=Guard()))
    path = "/.well-known/oauth-protected-resource/mcp"
    seen = await ask(made, "GET", path)
    assert seen.json() == {"resource": "http://127.0.0.1:8000/mcp"}
    assert seen.headers["access-control-allow-origin"] == "*"


async def test_a_refusal_need_be_no_error_of_json_rpc():
    class Odd(Guard):
        async def authenticate(self, headers, verb, url):
            error = HttpRefusal("why")
            error.http_status = 403
            raise error

    seen = await post(app(dispatcher=tools(told, auth=Odd())), call())
    assert seen.status == 403
    assert seen.json()["error"] == {"code": -32600, "message": "why"}


# What nobody foresaw...


@pytest.mark.attack("S12")
async def test_an_error_of_ours_is_one_answer_and_no_secret(caplog):
    class Broken(Guard):
        async def authenticate(self, headers, verb, url):
            raise ValueError("secret")

    made = app(dispatcher=tools(told, auth=Broken()))
    seen = await post(made, call())
    assert seen.status == 500
    assert seen.json()["error"]["code"] == -32603
    assert b"secret" not in seen.body
    assert "secret" in caplog.text


@pytest.mark.attack("S12")
async def test_an_error_after_the_beginning_is_only_logged(caplog):
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
