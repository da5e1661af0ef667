"""How the direct asyncio engine connects: racing addresses, without leftovers."""

import asyncio
import errno
import socket

import pytest
from engines import RecordedResponse, echo, eventually, open_engine
from ports import kept_port
from raw_server import raw_server

from mcpwire.errors import CallCancelled, ConnectError
from mcpwire.transports.http import connecting, direct

pytestmark = pytest.mark.unchecked_wire("the bodies are no MCP")


@pytest.mark.fault("F20")
async def test_connecting_to_unresponsive_addresses_can_be_cancelled(
    monkeypatch, black_hole
):
    """Both addresses are tried concurrently."""
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def two(host, port, **options):
        found = await real("127.0.0.1", port, **options)
        return [*found, *found]

    monkeypatch.setattr(loop, "getaddrinfo", two)
    url = f"http://two.example:{black_hole}/mcp"
    async with open_engine("direct", url) as engine:
        task = asyncio.create_task(engine.ask())
        await asyncio.sleep(0.3)  # both are tried
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def resolve_to(monkeypatch, *addresses):
    """Make every name resolve to these addresses, in this order."""

    async def lookup(host, port, **options):
        return [entry for address in addresses for entry in literal(address, port)]

    def literal(address, port):
        return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
    return "http://some.example:{}/mcp"


async def connects(url):
    """Connect to a server at this name; make a call."""
    with raw_server(echo) as server:
        async with open_engine("direct", url.format(server.port)) as engine:
            assert (await engine.ask("hi")).json == "hi"


async def test_refused_address_is_followed_by_the_next_at_once(monkeypatch):
    monkeypatch.setattr(connecting, "ATTEMPT_DELAY_S", 60)
    url = resolve_to(monkeypatch, "127.0.0.2", "127.0.0.3", "127.0.0.1")
    await connects(url)


async def test_refusal_by_all_addresses_is_connection_refused(monkeypatch):
    with kept_port() as port:
        url = resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2").format(port)
        async with open_engine("direct", url) as engine:
            with pytest.raises(ConnectError, match="Connection refused") as caught:
                await engine.ask()
    assert caught.value.errno == errno.ECONNREFUSED
    assert caught.value.reason == "refused"


@pytest.mark.parametrize(
    "addresses", [("127.0.0.1",), ("10.0.0.1", "169.254.169.254", "::1", "fd00::1")]
)
async def test_name_without_a_public_address_is_refused_with_public_only(
    monkeypatch, addresses
):
    tried = []
    monkeypatch.setattr(connecting, "_open_socket", tried.append)
    url = resolve_to(monkeypatch, *addresses).format(1)
    async with open_engine("direct", url, public_only=True) as engine:
        with pytest.raises(ConnectError, match="it has no public address") as caught:
            await engine.ask()
    assert tried == []
    assert caught.value.reason is None


async def test_public_only_connects_only_to_public_addresses(monkeypatch):
    tried = []

    async def attempt(address):
        tried.append(address[4][0])
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    monkeypatch.setattr(connecting, "_open_socket", attempt)
    addresses = ("10.0.0.1", "192.0.2.1", "1.1.1.1", "127.0.0.1", "2606:4700::1111")
    url = resolve_to(monkeypatch, *addresses).format(1)
    async with open_engine("direct", url, public_only=True) as engine:
        with pytest.raises(ConnectError, match="Connection refused"):
            await engine.ask()
    assert sorted(tried) == ["1.1.1.1", "2606:4700::1111"]


async def test_name_without_an_address_is_a_connect_error(monkeypatch):
    url = resolve_to(monkeypatch).format(1)
    async with open_engine("direct", url) as engine:
        with pytest.raises(ConnectError, match="it has no address"):
            await engine.ask()


async def test_one_of_two_simultaneous_connections_is_kept(monkeypatch):
    """Both connections are established in the same turn."""

    async def connect(sock, address):
        attempts.append(sock)
        if len(attempts) == 2:
            loop.call_soon(both.set)
        await both.wait()
        sock.setblocking(True)
        sock.connect(address)
        sock.setblocking(False)

    attempts, both = [], asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(connecting, "ATTEMPT_DELAY_S", 0.001)
    monkeypatch.setattr(loop, "sock_connect", connect)
    url = resolve_to(monkeypatch, "127.0.0.1", "127.0.0.1")
    with raw_server(echo) as server:
        async with open_engine("direct", url.format(server.port)) as engine:
            assert (await engine.ask("hi")).json == "hi"
            await eventually(lambda: sum(s.fileno() >= 0 for s in attempts) == 1)
            assert len(attempts) == 2


async def test_slow_address_is_used_if_the_others_refuse(monkeypatch):
    async def connect(sock, address):
        if address[0] == "127.0.0.2":
            refused.set()
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        await refused.wait()
        await asyncio.sleep(0.001)  # after the refusal
        await real(sock, address)

    refused = asyncio.Event()
    loop = asyncio.get_running_loop()
    real = loop.sock_connect
    monkeypatch.setattr(connecting, "ATTEMPT_DELAY_S", 0.001)
    monkeypatch.setattr(loop, "sock_connect", connect)
    url = resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2")
    await connects(url)


async def test_connect_timeout_of_the_system_is_reported_with_its_errno(monkeypatch):
    async def connect(*args):
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "sock_connect", connect)
    async with open_engine("direct", "http://192.0.2.1/mcp") as engine:
        with pytest.raises(ConnectError, match="Connection timed out") as caught:
            await engine.ask()
        assert caught.value.errno == errno.ETIMEDOUT


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(errno.ECONNREFUSED, "no"), ConnectError("none")]
)
async def test_abort_takes_precedence_over_a_simultaneous_connect_error(
    monkeypatch, error
):
    """Otherwise the call would be retried."""
    may_fail = asyncio.Event()

    async def connect(http):
        await may_fail.wait()
        raise error

    monkeypatch.setattr(direct, "connect", connect)
    async with open_engine("direct", "http://192.0.2.1/mcp") as engine:
        response, cancelled = (
            RecordedResponse(),
            CallCancelled("x", reason="of the test"),
        )
        call = asyncio.create_task(engine.ask(response=response))
        await asyncio.sleep(0)  # one loop iteration
        may_fail.set()
        assert engine.abort(response, cancelled)
        with pytest.raises(CallCancelled) as caught:
            await call
        assert caught.value is cancelled
