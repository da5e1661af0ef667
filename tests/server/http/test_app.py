"""The application: paths, Host and Origin, CORS, formats, mounting, its life."""

import json

import pytest
from asgi_driver import Visit, scope, visit
from hosted import app, ask, call, fields, post

# Paths...


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_the_endpoint_is_at_its_path(path):
    seen = await visit(app(), scope(path=path, headers=fields(call())), b"{}")
    assert seen.status == 400


async def test_the_path_can_be_chosen():
    made = app(path="/")
    assert (await ask(made, "GET", "/")).status == 405
    assert (await ask(made, "GET", "/mcp")).status == 404


@pytest.mark.parametrize("path", ["/", "/other", "/mcp/x", "/mcpx", ""])
async def test_elsewhere_there_is_nothing(path):
    assert (await ask(app(), "POST", path)).status == 404


@pytest.mark.parametrize(
    ("options", "root", "place"),
    [({}, "", "/mcp"), ({"path": "/"}, "", "/"), ({"path": "/x/"}, "/api", "/api/x")],
)
async def test_who_mistakes_the_path_is_told_which_it_is(options, root, place):
    seen = await ask(app(**options), "POST", f"{root}/other", root_path=root)
    said = json.loads(seen.body)["error"]["message"]
    assert said == f"there is nothing at this path; the endpoint is {place}"


@pytest.mark.parametrize(
    ("root", "path", "status"),
    [
        ("/api", "/api/mcp", 405),
        ("/api", "/api", 405),
        ("/api", "/api/", 405),
        ("/api", "/mcp", 405),
        ("/api", "/", 405),
        ("/api", "", 405),
        ("/api", "/api/health", 200),
        ("/api", "/apimcp", 404),
        ("/api", "/api/other", 404),
    ],
)
async def test_it_can_be_mounted(root, path, status):
    seen = await ask(app(), "GET", path, root_path=root)
    assert seen.status == status


@pytest.mark.parametrize("option", ["path", "health", "ready"])
def test_a_path_begins_with_a_slash(option):
    with pytest.raises(ValueError, match=option):
        app(**{option: "mcp"})


async def test_health_is_for_everybody():
    made = app()
    for path in ("/health", "/ready"):
        seen = await ask(made, "GET", path, headers=[("host", "evil.example")])
        assert seen.status == 200
        assert (await ask(made, "HEAD", path)).body == b""
        assert (await ask(made, "POST", path)).status == 405
    await made.aclose()


async def test_health_can_be_left_out():
    assert (await ask(app(health=None, ready=None), "GET", "/health")).status == 404


# Formats and sizes...


@pytest.mark.system("O50")
@pytest.mark.case("D01", "D02")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "application/json"}, 406),
        ({"accept": "*/*"}, 200),
        ({"accept": None}, 200),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/json; charset=latin-1"}, 415),
        ({"content_type": "application/json; charset=utf-8"}, 200),
        ({"content_encoding": "gzip"}, 415),
    ],
)
async def test_formats_are_looked_at(headers, status):
    assert (await post(app(), call(), **headers)).status == status


@pytest.mark.attack("X12")
async def test_a_body_of_too_many_values_is_refused_and_the_next_is_answered():
    made = app()
    seen = await post(made, call(id=5, arguments={"text": [{}] * 1_000_000}))
    assert (seen.status, seen.json()["id"]) == (400, 5)
    assert seen.json()["error"]["code"] == -32600
    assert "2000000 values (Limits.values)" in seen.json()["error"]["message"]
    assert (await post(made, call())).status == 200


# Other things that web servers bring...


async def test_websockets_are_closed():
    seen = Visit({"type": "websocket"})
    seen.incoming.put_nowait({"type": "websocket.connect"})
    await seen.begin(app()).done()
    assert seen.sent == [{"type": "websocket.close", "code": 1000}]


async def test_what_asgi_does_not_have_is_an_error():
    with pytest.raises(RuntimeError, match="unknown kind"):
        await app()({"type": "smtp"}, None, None)
