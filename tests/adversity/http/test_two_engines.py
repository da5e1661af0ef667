"""Both engines and custom HTTP clients, used by whole clients."""

import contextlib
import ssl

import certificates
import httpx
import httpx2
import pytest
from faulty import ENGINES, connected, until
from http_proxy import http_proxy
from legacy_server import legacy_server
from mcp_server import scripted_mcp

import mcpwire


async def use_everything(server, target):
    """Let a client send each kind of request of a session; each one is answered."""
    async with connected(target) as client:
        await until(lambda: server.streams)
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert {"tools/call", "GET", "DELETE"} <= set(server.verbs())
    assert not server.sessions, "DELETE came through"


@pytest.fixture
def files(tmp_path):
    """Return the options of our authority and our certificate, by name."""
    authority, own = certificates.ca_file(tmp_path), tmp_path / "own.pem"
    leaf = certificates.AUTHORITY.issue_cert("me.example.org")
    leaf.private_key_and_cert_chain_pem.write_to_path(own)
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(own)
    return {
        "ca_file and client_cert": {"ca_file": authority, "client_cert": own},
        "ssl": {"ssl": context},
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("option", ["ca_file and client_cert", "ssl"])
@pytest.mark.pain("P28")
async def test_tls_options_apply_to_every_kind_of_request(files, engine, option):
    context = certificates.server_context(wants_client=True)
    with scripted_mcp(ssl_context=context) as server:
        target = mcpwire.Http(
            server.url, server_stream="always", engine=engine, **files[option]
        )
        await use_everything(server, target)


@pytest.mark.pain("P28")
async def test_tls_options_apply_to_http_sse(files):
    context = certificates.server_context(wants_client=True)
    with legacy_server(ssl_context=context) as server:
        target = mcpwire.Http(server.url, **files["ca_file and client_cert"])
        async with connected(target) as client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


# Proxies and custom HTTP clients...


@pytest.mark.pain("P28")
async def test_every_kind_of_request_goes_through_the_proxy():
    with http_proxy() as proxy, scripted_mcp() as server:
        options = {"proxy": proxy.url, "server_stream": "always"}
        await use_everything(server, mcpwire.Http(server.url, **options))
        # The proxy sees the first request of each connection.
        assert len(proxy.asked) == server.connections
        assert all(server.url in line for line in proxy.asked)


KINDS = {"httpx": httpx, "httpx2": httpx2}


@contextlib.asynccontextmanager
async def custom_http_client(module):
    """Yield a custom HTTP client; fail if our code closed it."""
    async with module.AsyncClient(headers={"x-theirs": "1"}) as client:
        yield client
        assert not client.is_closed


@pytest.mark.parametrize("module", KINDS)
@pytest.mark.parametrize("replies", ["json", "sse"])
async def test_custom_http_client_sends_every_kind_of_request(module, replies):
    with scripted_mcp(replies=replies) as server:
        async with custom_http_client(KINDS[module]) as http_client:
            target = mcpwire.Http(
                server.url, http_client=http_client, server_stream="always"
            )
            await use_everything(server, target)
        assert all(r.headers["x-theirs"] == "1" for r in server.requests)


@pytest.mark.parametrize("module", KINDS)
@pytest.mark.pain("P24")
async def test_no_call_runs_twice_over_a_custom_http_client(module):
    with scripted_mcp(closes=True) as server:
        async with custom_http_client(KINDS[module]) as http_client:
            target = mcpwire.Http(server.url, http_client=http_client)
            async with connected(target) as client:
                for number in range(30):
                    text = str(number)
                    result = await client.call_tool("echo", {"text": text})
                    assert result.text == text
        ran = [arguments["text"] for _, arguments, _ in server.executed]
        assert ran == [str(number) for number in range(30)]
