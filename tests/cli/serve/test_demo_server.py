"""``mcpwire demo-server`` over HTTP, without authorization and with its own."""

from __future__ import annotations

import asyncio

import pytest
from cli_servers import TIMEOUT_S, serving
from ports import kept_port

import mcpwire
from mcpwire.cli.main import main


async def test_demo_server_over_http_needs_no_token():
    with serving("demo-server", "--http", ":0") as it:
        url = it.line(r"serving (\S+) \(mcpwire-demo, ")[1]
        async with mcpwire.Client(url) as client:
            result = await client.call_tool("add", {"a": 2, "b": 3})
            assert result.structured_content == {"sum": 5}


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
async def test_demo_server_with_auth_requires_and_issues_tokens(host):
    with (
        kept_port() as port,
        serving("demo-server", "--http", f"{host}:{port}", "--auth") as it,
    ):
        url = it.line(r"serving (\S+) ")[1]
        assert url == f"http://{host or 'localhost'}:{port}/mcp"
        with pytest.raises(mcpwire.HTTPError) as caught:
            await mcpwire.Client(url).connect()
        assert caught.value.status == 401
        auth = mcpwire.OAuth(ask=consent, storage=mcpwire.MemoryStorage())
        service = mcpwire.ClientCredentials(
            client_id="my-service",
            client_secret="s3cret",
            issuer=url.removesuffix("/mcp"),
        )
        for each in (auth, service):
            target = mcpwire.Http(url, auth=each)
            async with mcpwire.Client(target) as client:
                result = await client.call_tool("add", {"a": 2, "b": 3})
                assert result.structured_content == {"sum": 5}


async def consent(url):
    """Request the URL as a browser does, and return the redirect target."""
    import httpx

    async with httpx.AsyncClient() as client:
        answer = await asyncio.wait_for(client.get(url), TIMEOUT_S)
    return answer.headers["location"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--auth"], "--auth needs --http"),
        (["--quiet"], "--quiet needs --http"),
        (["--http", ":0", "--auth"], "--auth needs a port that its tokens can name"),
        (["--http", "0.0.0.0:80", "--auth"], "--auth is for this machine only"),
        (["--http", "a.example:80", "--auth"], "--auth is for this machine only"),
        (["--http", "nonsense"], "--http: the address must be HOST:PORT"),
        (["--http", "192.0.2.1:8000"], "cannot listen on '192.0.2.1', port 8000"),
    ],
)
def test_invalid_options_are_usage_errors(words, message, capsys):
    assert main(["demo-server", *words]) == 2
    assert capsys.readouterr().err.startswith(f"mcpwire: {message}")
