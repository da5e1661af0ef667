"""The HTTP endpoints that give the delegate content to deliver."""

from typing import Any

import httpx
import pytest

from mcpwire.gateway import QueueDelegate
from mcpwire.gateway.delegates import NotifyApp
from mcpwire.limits import Limits
from mcpwire.testing import AsgiTransport

pytestmark = pytest.mark.system("O10")

TOKEN = "a-secret-of-sixteen-and-more"
ROW = [{"type": "text", "text": "news"}]


def an_app(**options: Any) -> tuple[QueueDelegate, httpx.AsyncClient]:
    delegate = QueueDelegate(max_rows=2)
    delegate.register("ann")
    app = NotifyApp(delegate, token=TOKEN, **options)
    client = httpx.AsyncClient(
        transport=AsgiTransport(app, lifespan=False),
        base_url="http://localhost",
        headers={"authorization": f"Bearer {TOKEN}", "x-agent-id": "ann"},
    )
    return delegate, client


async def test_posted_row_is_queued_and_can_be_fetched_once():
    _, client = an_app()
    async with client:
        assert (await client.get("/notify/queued")).json() is False
        assert (await client.post("/notify", json=ROW)).status_code == 202
        assert (await client.get("/notify/queued")).json() is True
        assert (await client.get("/notify")).json() == [ROW]
        assert (await client.get("/notify")).json() == []


@pytest.mark.parametrize(
    ("verb", "path", "content", "headers", "status", "code"),
    [
        ("POST", "/notify", b"[", {}, 400, -32700),
        ("POST", "/notify", b"{}", {}, 400, -32602),
        ("POST", "/notify", b"[1]", {}, 400, -32602),
        ("POST", "/notify", b"[]", {"x-agent-id": "eve"}, 404, -32600),
        ("GET", "/notify", b"", {"x-agent-id": "eve"}, 404, -32600),
        ("GET", "/elsewhere", b"", {}, 404, -32600),
        ("PUT", "/notify", b"", {}, 404, -32600),
        ("GET", "/notify", b"", {"authorization": "Bearer other"}, 401, -32600),
        ("GET", "/notify", b"", {"authorization": ""}, 401, -32600),
        ("POST", "/notify", b"[" + b"1," * 40 + b"1]", {}, 413, -32600),
    ],
)
async def test_invalid_request_is_answered_with_an_error(
    *, verb, path, content, headers, status, code
):
    _, client = an_app(limits=Limits(body=64))
    async with client:
        response = await client.request(verb, path, content=content, headers=headers)
        assert response.status_code == status
        assert response.json()["error"]["code"] == code


async def test_rows_over_the_limit_are_answered_429():
    _, client = an_app()
    async with client:
        found = [(await client.post("/notify", json=ROW)).status_code for _ in range(3)]
        assert found == [202, 202, 429]


async def test_request_without_an_agent_id_is_answered_404():
    _, client = an_app()
    async with client:
        del client.headers["x-agent-id"]
        assert (await client.get("/notify/queued")).json() is False
        assert (await client.get("/notify")).status_code == 404
        assert (await client.post("/notify", json=ROW)).status_code == 404


def test_short_token_is_refused():
    with pytest.raises(ValueError, match="16 characters"):
        NotifyApp(QueueDelegate(), token="short")


async def test_notify_app_refuses_websockets():
    app = NotifyApp(QueueDelegate(), token=TOKEN)
    unused: Any = None
    with pytest.raises(RuntimeError, match="websocket"):
        await app({"type": "websocket"}, unused, unused)
