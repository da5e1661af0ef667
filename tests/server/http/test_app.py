"""The application: paths, health endpoints, formats, sizes and mounting."""

import json

import pytest
from asgi_driver import Visit, scope, visit
from hosted import app, asgi_request, call, fields, post


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_endpoint_is_served_with_or_without_a_trailing_slash(path):
    seen = await visit(app(), scope(path=path, headers=fields(call())), b"{}")
    assert seen.status == 400


async def test_the_path_can_be_chosen():
    made = app(path="/")
    assert (await asgi_request(made, "GET", "/")).status == 405
    assert (await asgi_request(made, "GET", "/mcp")).status == 404


@pytest.mark.parametrize("path", ["/", "/other", "/mcp/x", "/mcpx", ""])
async def test_other_paths_return_404(path):
    assert (await asgi_request(app(), "POST", path)).status == 404


@pytest.mark.parametrize(
    ("options", "root", "place"),
    [({}, "", "/mcp"), ({"path": "/"}, "", "/"), ({"path": "/x/"}, "/api", "/api/x")],
)
async def test_404_names_the_path_of_the_endpoint(options, root, place):
    seen = await asgi_request(app(**options), "POST", f"{root}/other", root_path=root)
    message = json.loads(seen.body)["error"]["message"]
    assert message == f"nothing is served at this path; the endpoint is {place}"


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
async def test_application_can_be_mounted_below_a_root_path(root, path, status):
    seen = await asgi_request(app(), "GET", path, root_path=root)
    assert seen.status == status


@pytest.mark.parametrize("option", ["path", "health", "ready"])
def test_path_option_without_a_leading_slash_is_refused(option):
    with pytest.raises(ValueError, match=option):
        app(**{option: "mcp"})


async def test_health_endpoints_accept_any_host_header():
    made = app()
    for path in ("/health", "/ready"):
        seen = await asgi_request(made, "GET", path, headers=[("host", "evil.example")])
        assert seen.status == 200
        assert (await asgi_request(made, "HEAD", path)).body == b""
        assert (await asgi_request(made, "POST", path)).status == 405
    await made.aclose()


async def test_health_endpoints_can_be_disabled():
    assert (
        await asgi_request(app(health=None, ready=None), "GET", "/health")
    ).status == 404


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
async def test_accept_and_content_headers_are_checked(headers, status):
    assert (await post(app(), call(), **headers)).status == status


@pytest.mark.attack("X12")
async def test_a_body_of_too_many_values_is_refused_and_the_next_is_answered():
    made = app()
    seen = await post(made, call(id=5, arguments={"text": [{}] * 1_000_000}))
    assert (seen.status, seen.json()["id"]) == (400, 5)
    assert seen.json()["error"]["code"] == -32600
    assert "2000000 values (Limits.values)" in seen.json()["error"]["message"]
    assert (await post(made, call())).status == 200


async def test_websockets_are_closed():
    seen = Visit({"type": "websocket"})
    seen.incoming.put_nowait({"type": "websocket.connect"})
    await seen.begin(app()).done()
    assert seen.sent == [{"type": "websocket.close", "code": 1000}]


async def test_unknown_asgi_scope_type_raises():
    with pytest.raises(RuntimeError, match="unknown kind"):
        await app()({"type": "smtp"}, None, None)
