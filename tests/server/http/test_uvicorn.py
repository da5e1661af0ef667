"""HTTP/1.1 connections on real sockets: parsing, limits, timeouts, shutdown."""

import asyncio
import contextlib
import json
import logging
import socket
import ssl
from types import SimpleNamespace

import pytest
import trustme
from clocks import on_a_clock_by_hand
from hosted import call
from loop_polling import until
from raw_sockets import (
    TIMEOUT_S,
    Small,
    answer,
    connected,
    port_of,
    raw,
    rest,
    served,
    socket_request,
)

from mcpwire import Limits
from mcpwire.server import log_limit
from mcpwire.server.http import uvicorn as http1
from mcpwire.server.http.uvicorn import MAX_WAITING_REQUESTS, Connections
from mcpwire.server.log_limit import LogLimit

HEAD_MOST = 2_048
ATTACKER, HONEST = "127.0.0.2", "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


async def hello(scope, receive, send):
    """Answer with the names of the header fields, after the whole body."""
    while (await receive()).get("more_body"):
        pass
    names = b",".join(name for name, _ in scope["headers"])
    await send(start((b"content-length", b"%d" % len(names))))
    await send(body(names))


class Waits:
    """Answers as `hello` does, after the test releases it."""

    def __init__(self):
        self.release = asyncio.Event()

    async def __call__(self, scope, receive, send):
        await self.release.wait()
        await hello(scope, receive, send)


def sends(*events):
    async def app(scope, receive, send):
        for event in events:
            await send(event)

    return app


def start(*headers, status=200):
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data=b"", **more):
    return {"type": "http.response.body", "body": data, **more}


LENGTH_1 = (b"content-length", b"1")
REFUSES = sends(start(LENGTH_1, status=401), body(b"x"))


async def hang(*_):
    await asyncio.Event().wait()


class Host:
    """Connections on a port of their own, as uvicorn makes them."""

    def __init__(self, app, *, most=100, keep_alive=30.0, **limits):
        self.config = SimpleNamespace(
            loaded_app=app,
            root_path="",
            asgi_version="3.0",
            limit_concurrency=None,
            reset_contextvars=False,
            access_log=False,
        )
        self.state = SimpleNamespace(
            connections=set(), tasks=set(), default_headers=[], total_requests=0
        )
        self.connections = Connections(
            Limits(**limits), maximum=most, keep_alive=keep_alive
        )
        self.port = None

    def make(self):
        return self.connections(self.config, self.state, {})

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(self.make, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for connection in list(self.state.connections):
            connection.abort()
        tasks = list(self.state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drain(self):
        """Let each connection end after its current response."""
        self.connections.is_draining = True
        for connection in self.state.connections:
            connection.shutdown()

    async def has(self, count):
        """Wait until there are `count` connections."""
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: len(self.state.connections) == count, 0.001)

    async def runs(self, count=1):
        """Wait until at least `count` requests are running."""
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: len(self.state.tasks) >= count, 0.001)


class SmallWrites(Host):
    """A host whose sockets have small send buffers."""

    def make(self):
        protocol = super().make()
        before = protocol.connection_made

        def connection_made(transport):
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            before(transport)

        protocol.connection_made = connection_made
        return protocol


async def echoes(scope, receive, send):
    whole, more = b"", True
    while more:
        event = await receive()
        whole += event["body"]
        more = event["more_body"]
    await send(start((b"content-length", b"%d" % len(whole))))
    await send(body(whole))


async def test_interleaved_bodies_of_two_connections_are_not_mixed():
    data = [b"a" * 100_000, b"b" * 300_000]
    async with (
        Host(echoes) as host,
        connected(host.port) as first,
        connected(host.port) as second,
    ):
        both = list(zip(data, (first, second), strict=True))
        for each, (_, writer) in both:
            writer.write(POST + b"content-length: %d\r\n\r\n" % len(each))
        for at in range(0, 300_000, 10_000):
            for each, (_, writer) in both:
                writer.write(each[at : at + 10_000])
                await writer.drain()
        for each, (reader, _) in both:
            assert await answer(reader) == (200, each)


async def test_requests_with_large_bodies_work_over_tls(tmp_path):
    authority = trustme.CA()
    leaf, file = authority.issue_cert("127.0.0.1"), tmp_path / "server.pem"
    leaf.private_key_and_cert_chain_pem.write_to_path(file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    secure = {"ssl_certfile": str(file)}
    async with served(Small(), uvicorn=secure) as (url, _), asyncio.timeout(TIMEOUT_S):
        assert url.startswith("https://")
        address = "127.0.0.1", port_of(url)
        reader, writer = await asyncio.open_connection(*address, ssl=context)
        for message in (call(1), call(2, arguments={"text": "x" * 1_000_000})):
            writer.write(raw(message, connection="keep-alive"))
            status, content = await answer(reader)
            assert status == 200
            assert json.loads(content)["id"] == message["id"]
        writer.close()
        await writer.wait_closed()


@pytest.mark.attack("X03")
@pytest.mark.parametrize(
    "endless",
    [
        b"0\r\nx: " + b"x" * 400_000,
        b"0\r\n" + b"a: b\r\n" * 100_000,
        b"5;" + b"x" * 400_000,
        b"5\r\nhello\r\n5;" + b"x" * 400_000,
    ],
)
async def test_trailers_and_chunk_framing_are_bounded_by_the_head_limit(endless):
    async with Host(hello, head=HEAD_MOST) as host, connected(host.port) as (r, w):
        w.write(CHUNKED + endless)
        assert (await rest(r)).startswith(b"HTTP/1.1 400 ")
        await host.has(0)


@pytest.mark.attack("X03")
async def test_trailers_are_not_added_to_the_header_fields():
    async with Host(hello) as host, connected(host.port) as (r, w):
        trailers = b"authorization: Bearer t\r\nhost: y\r\nmcp-method: z\r\n\r\n"
        w.write(CHUNKED + b"1\r\nx\r\n0\r\n" + trailers)
        assert await answer(r) == (200, b"host,transfer-encoding")
        w.write(GET)
        assert await answer(r) == (200, b"host")


async def test_many_small_chunks_are_accepted():
    async with Host(hello, head=HEAD_MOST) as host, connected(host.port) as (r, w):
        w.write(CHUNKED)
        for _ in range(2_000):
            w.write(b"1\r\nx\r\n")
            await w.drain()
        w.write(b"0\r\n\r\n")
        assert (await answer(r))[0] == 200


@pytest.mark.attack("S13")
@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nx: " + b"x" * 2 * HEAD_MOST + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * HEAD_MOST + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x:\r\n" * (HEAD_MOST // 32) + b"\r\n\r\n",
        b"GET /" + b"x" * 300_000,
        b"GET /" + b"x" * HEAD_MOST + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"x: y\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
async def test_head_that_is_too_long_or_malformed_is_refused(head):
    async with Host(hello, head=HEAD_MOST) as host, connected(host.port) as (r, w):
        w.write(head)
        assert (await rest(r)).startswith(b"HTTP/1.1 400 ")


async def test_absolute_target_without_a_path_is_the_root():
    seen = []

    async def app(scope, receive, send):
        seen.append((scope["path"], scope["raw_path"], scope["query_string"]))
        await hello(scope, receive, send)

    head = b"GET http://x?a=b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    async with Host(app) as host, connected(host.port) as (r, w):
        w.write(head)
        assert (await rest(r)).startswith(b"HTTP/1.1 200 ")
    assert seen == [("/", b"/", b"a=b")]


@pytest.mark.attack("X11")
async def test_an_upgrade_is_ignored():
    upgrade = raw(call(3), connection="Upgrade, HTTP2-Settings", upgrade="h2c")
    async with served(Small()) as (url, _), connected(port_of(url)) as (r, w):
        w.write(upgrade * 2)
        for _ in range(2):
            status, body = await answer(r)
            assert status == 200
            assert b'"id":3' in body


@pytest.mark.attack("X05")
@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nhost", GET + b"GET / H"])
async def test_connection_without_a_complete_head_is_closed(start):
    async with Host(hello, head_timeout=0.05) as host, connected(host.port) as (r, w):
        w.write(start)
        await rest(r)
        await host.has(0)


@pytest.mark.attack("X05")
async def test_head_sent_byte_by_byte_has_one_timeout():
    async with Host(hello, head_timeout=0.05) as host, connected(host.port) as (r, w):
        reading = asyncio.create_task(rest(r))
        with contextlib.suppress(OSError):
            while not reading.done():
                w.write(b"G")
                await w.drain()
                await asyncio.sleep(0)
        await reading


@pytest.mark.attack("X05")
async def test_body_after_an_early_response_has_the_head_timeout():
    early = sends(start((b"content-length", b"0"), status=401), body())
    head = POST + b"content-length: 9\r\n\r\n"
    async with Host(early, head_timeout=0.05) as host:
        async with connected(host.port) as (r, w):
            w.write(head)
            assert (await answer(r))[0] == 401
            await rest(r)
        host.connections.head_timers.seconds = TIMEOUT_S
        async with connected(host.port) as (r, w):
            w.write(head)
            assert (await answer(r))[0] == 401
            w.write(b"123456789" + head)
            assert (await answer(r))[0] == 401


async def test_idle_connection_is_closed_after_the_keep_alive_time():
    async with Host(hello, keep_alive=0.05) as host, connected(host.port) as (r, w):
        for _ in range(2):
            w.write(GET)
            assert (await answer(r))[0] == 200
        await rest(r)


@pytest.mark.attack("X05")
async def test_silent_connections_of_one_address_are_closed_for_new_ones():
    async with Host(hello, most=4) as host, contextlib.AsyncExitStack() as stack:
        silent = [
            await stack.enter_async_context(connected(host.port, ATTACKER))
            for _ in range(4)
        ]
        r, w = await stack.enter_async_context(connected(host.port))
        w.write(GET)
        assert (await answer(r))[0] == 200
        assert await rest(silent[0][0]) == b""
        # Another connection of the attacker replaces one of its own.
        await stack.enter_async_context(connected(host.port, ATTACKER))
        assert await rest(silent[1][0]) == b""
        w.write(GET)
        assert (await answer(r))[0] == 200


@pytest.mark.attack("X05")
async def test_least_recently_used_connection_is_closed_for_a_new_one():
    async with (
        Host(hello, most=2) as host,
        connected(host.port, ATTACKER) as (used, w),
        connected(host.port, ATTACKER) as (unused, _),
    ):
        await host.has(2)
        w.write(GET)
        assert (await answer(used))[0] == 200
        async with connected(host.port) as (r, other):
            other.write(GET)
            assert (await answer(r))[0] == 200
            assert await rest(unused) == b""
            w.write(GET)
            assert (await answer(used))[0] == 200


@pytest.mark.attack("X05")
async def test_busy_connection_is_closed_for_an_address_with_fewer():
    async with Host(hang, most=2) as host, contextlib.AsyncExitStack() as stack:
        busy = []
        for count in (1, 2):
            r, w = await stack.enter_async_context(connected(host.port, ATTACKER))
            w.write(GET)
            busy.append(r)
            await host.runs(count)
        r, _ = await stack.enter_async_context(connected(host.port, ATTACKER))
        assert (await rest(r)).startswith(b"HTTP/1.1 503 ")
        r, w = await stack.enter_async_context(connected(host.port))
        assert await rest(busy[0]) == b""
        await host.has(2)


@pytest.mark.attack("X05", "X13")
async def test_accept_errors_are_logged_once_per_interval(caplog, monkeypatch):
    monkeypatch.setattr(LogLimit, "INTERVAL_S", 1e9)
    monkeypatch.setattr(log_limit, "shared", LogLimit())
    loop, others = asyncio.get_running_loop(), []
    error = OSError(24, "Too many open files")
    full = {"message": "socket.accept() out of system resource", "exception": error}
    loop.set_exception_handler(lambda _, context: others.append(context))
    async with served(Small()):
        for _ in range(64):
            loop.call_exception_handler(full)
        loop.call_exception_handler({"message": "else"})
    assert [each.getMessage() for each in caplog.records] == [
        "cannot accept connections: [Errno 24] Too many open files"
    ]
    assert others == [{"message": "else"}]
    loop.set_exception_handler(None)
    async with served(Small()):
        loop.call_exception_handler({"message": "else"})
    assert caplog.records[-1].name == "asyncio"


def large(size):
    async def app(scope, receive, send):
        await receive()
        await send(start((b"content-length", b"%d" % size)))
        await send(body(bytes(size)))

    return app


@pytest.mark.attack("X04")
async def test_unread_responses_are_bounded_in_total():
    size = 16 * 2**20
    app = large(size)
    async with (
        Host(app, unwritten_total=4 * size) as host,
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(8):
            _, w = await stack.enter_async_context(
                connected(host.port, ATTACKER, buffer=4_096)
            )
            w.transport.pause_reading()
            w.write(GET)
        r, w = await stack.enter_async_context(connected(host.port))
        w.write(GET)
        assert len((await answer(r))[1]) == size
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: len(host.state.connections) <= 5, 0.001)
        assert sum(each.unread for each in host.state.connections) <= 4 * size


@pytest.mark.attack("X04")
@pytest.mark.parametrize(
    "data",
    [GET, GET.replace(b"host", b"connection: close\r\nhost")],
    ids=["kept", "last"],
)
async def test_connection_of_a_peer_that_stops_reading_is_reset(data):
    async with (
        Host(large(16 * 2**20), stall_timeout=0.05) as host,
        connected(host.port, buffer=4_096) as (r, w),
    ):
        w.transport.pause_reading()
        w.write(data)
        await host.has(1)
        await host.has(0)
        # By a reset, which also discards the kernel's send buffer.
        w.transport.resume_reading()
        with pytest.raises(ConnectionResetError):
            await r.read()


@pytest.mark.attack("X04")
async def test_half_closed_connection_with_unread_responses_is_closed():
    begun, release = asyncio.Event(), asyncio.Event()

    async def second_waits(scope, receive, send):
        if scope["path"] == "/second":
            begun.set()
            await release.wait()
        await hello(scope, receive, send)

    first = b"GET / HTTP/1.1\r\n" + b"%b: y\r\n" % (b"x" * 16_000) * 3 + b"\r\n"
    second = b"GET /second HTTP/1.1\r\nhost: x\r\n\r\n"
    async with (
        SmallWrites(second_waits, stall_timeout=0.05) as host,
        connected(host.port, buffer=4_096) as (_, w),
    ):
        w.transport.pause_reading()
        w.write(first + second)
        await begun.wait()
        (connection,) = host.state.connections
        assert connection.unread
        assert connection.writable is None  # it is below the limit that pauses writing
        w.write_eof()
        await host.has(0)
        release.set()


async def test_http_1_0_body_without_a_length_ends_with_the_connection():
    app = sends(start(), body(b"part", more_body=True), body(b"part"))
    async with Host(app) as host, connected(host.port) as (r, w):
        w.write(GET.replace(b"1.1", b"1.0"))
        head, _, parts = (await r.read()).partition(b"\r\n\r\n")
        assert parts == b"partpart"
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head


@pytest.mark.attack("X10")
async def test_slow_reader_gets_the_whole_response_while_draining(monkeypatch):
    monkeypatch.setattr(http1, "LINGER_S", 0.01)
    size = 16 * 2**20
    async with Host(large(size)) as host, connected(host.port, buffer=4_096) as (r, w):
        w.write(GET)
        await r.readuntil(b"\r\n\r\n")
        host.drain()
        received = 0
        while received < size:
            received += len(await r.readexactly(65_536))
            await asyncio.sleep(0)
        assert received == size
        w.close()
        await host.has(0)


@on_a_clock_by_hand
async def test_slow_reader_gets_the_whole_response():
    """The whole takes longer than the stall timeout; each pause is shorter."""
    size, loop = 16 * 2**20, asyncio.get_running_loop()
    large_one = Host(large(size), stall_timeout=3.0)
    async with large_one as host, connected(host.port, buffer=65_536) as (r, w):
        w.write(GET)
        head = await r.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        for _ in range(16):  # the data in flight is less than six of these
            await r.readexactly(size // 16)
            await loop.advance(0.4)
        w.write(GET)
        assert (await answer(r))[0] == 200


async def test_pipelined_requests_are_bounded():
    waits = Waits()
    async with Host(waits) as host, connected(host.port) as (r, w):
        w.write(GET * (MAX_WAITING_REQUESTS + 1))
        waits.release.set()
        for _ in range(MAX_WAITING_REQUESTS + 1):
            assert await answer(r) == (200, b"host")
        waits.release.clear()
        w.write(GET * (MAX_WAITING_REQUESTS + 2))
        await host.has(1)
        waits.release.set()
        assert (await rest(r)).count(b"HTTP/1.1 ") == 1


@pytest.mark.attack("X10")
async def test_a_drained_connection_is_read_to_its_end():
    async with Host(hello) as host, connected(host.port) as (r, w):
        w.write(GET)
        assert (await answer(r))[0] == 200
        host.drain()
        # A request that crosses our end of the stream causes no reset.
        w.write(GET)
        assert await r.read() == b""
        w.close()
        await host.has(0)


@pytest.mark.attack("X10")
async def test_drained_connection_closes_after_its_pending_response():
    waits = Waits()
    async with Host(waits) as host, connected(host.port) as (r, w):
        w.write(GET)
        await host.runs()
        host.drain()
        waits.release.set()
        received = await r.read()
        assert b"connection: close\r\n" in received
        assert received.endswith(b"\r\n\r\nhost")


@pytest.mark.attack("X10")
async def test_connection_is_closed_when_the_peer_does_not_close_its_side(monkeypatch):
    monkeypatch.setattr(http1, "LINGER_S", 0.05)
    async with Host(hello) as host, connected(host.port):
        await host.has(1)
        for connection in host.state.connections:
            connection.shutdown()
            connection.shutdown()
        await host.has(0)


@pytest.mark.attack("X10")
async def test_half_sent_body_gets_503_at_shutdown(caplog):
    async with served(Small()) as (url, task), connected(port_of(url)) as (r, w):
        data = raw(call(1))
        w.write(data[:-5])
        r2, w2 = await asyncio.open_connection("127.0.0.1", port_of(url))
        w2.write(raw(call(2)))  # answered, so the first is being read
        await r2.read()
        w2.close()
        task.cancel()
        status, body = await answer(r)
        assert status == 503
        assert b"shutting down" in body
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.attack("X13")
async def test_invalid_requests_are_logged_once_per_interval(caplog, monkeypatch):
    monkeypatch.setattr(LogLimit, "INTERVAL_S", 1e9)
    monkeypatch.setattr(log_limit, "shared", LogLimit())
    async with Host(hello) as host:
        for _ in range(20):
            async with connected(host.port) as (r, w):
                w.write(b"\x16\x03\x01 no HTTP\r\n\r\n")
                assert (await rest(r)).startswith(b"HTTP/1.1 400 ")
    lines = [each.getMessage() for each in caplog.records if each.name == "mcpwire"]
    assert lines == ["refused a connection: invalid HTTP request"]


async def test_parse_error_after_a_request_keeps_its_response():
    waits = Waits()
    async with Host(waits) as host, connected(host.port) as (r, w):
        w.write(GET + b"\x00\x00\r\n\r\n")
        await host.has(1)
        waits.release.set()
        received = await rest(r)
        assert received.startswith(b"HTTP/1.1 200 ")
        assert received.count(b"HTTP/1.1 ") == 1


async def test_parse_error_in_a_body_replaces_the_response_by_a_400():
    async with Host(hello) as host, connected(host.port) as (r, w):
        w.write(CHUNKED + b"no chunk\r\n")
        received = await rest(r)
        assert received.startswith(b"HTTP/1.1 400 ")
        assert received.count(b"HTTP/1.1 ") == 1


async def test_parse_error_in_a_body_cuts_a_started_response():
    async def stream(scope, receive, send):
        await send(start())
        await send(body(b"1", more_body=True))
        while (await receive())["type"] != "http.disconnect":
            pass

    async with Host(stream) as host, connected(host.port) as (r, w):
        w.write(CHUNKED)
        assert (await r.readuntil(b"1\r\n1\r\n")).startswith(b"HTTP/1.1 200 ")
        w.write(b"no chunk\r\n")
        assert await rest(r) == b""


async def test_parse_error_in_a_body_after_its_response_gets_no_response():
    async with Host(REFUSES) as host, connected(host.port) as (r, w):
        w.write(CHUNKED)
        assert await answer(r) == (401, b"x")
        w.write(b"no chunk\r\n")
        assert await rest(r) == b""


async def test_connection_closes_after_a_refusal_instead_of_100_continue():
    expecting = POST + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(GET)
    async with Host(REFUSES) as host, connected(host.port) as (r, w):
        w.write(expecting)
        head = await r.readuntil(b"\r\n\r\n")
        assert b"\r\nconnection: close\r\n" in head
        w.write(GET)
        assert await rest(r) == b"x"


async def test_data_after_a_request_with_connection_close_is_ignored():
    last = GET.replace(b"host", b"connection: close\r\nhost")
    async with Host(hello) as host, connected(host.port) as (r, w):
        w.write(last + CHUNKED + b"1\r\nx\r\n0\r\n\r\n" + b"GET / H")
        assert (await rest(r)).count(b"HTTP/1.1 ") == 1


async def response_of(app, data=GET, **options):
    async with Host(app, **options) as host, connected(host.port) as (r, w):
        w.write(data)
        return await rest(r)


@pytest.mark.parametrize(
    "app",
    [
        sends(),
        sends(body(b"x")),
        sends(start(), start()),
        sends(start(LENGTH_1), body(b"12")),
        sends(start(LENGTH_1), body(b"")),
        sends(start((b"x", b"1\r\ny: 2"))),
        sends(start((b"x", b"1\ny: 2"))),
        sends({"type": "websocket.send"}),
    ],
)
async def test_application_error_before_its_response_gives_a_500(app, caplog):
    received = await response_of(app)
    assert received.startswith(b"HTTP/1.1 500 ")
    assert b"connection: close\r\n" in received
    assert received.count(b"HTTP/1.1 ") == 1
    assert "an ASGI application" in caplog.text


async def test_application_error_within_its_response_ends_the_connection():
    received = await response_of(sends(start(), body(b"x", more_body=True)))
    assert received.endswith(b"1\r\nx\r\n")


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ((start(), body(b"ab")), b"2\r\nab\r\n0\r\n\r\n"),
        ((start(), body(more_body=True), body()), b"0\r\n\r\n"),
        ((start((b"transfer-encoding", b"chunked")), body(b"x")), b"x\r\n0\r\n\r\n"),
        ((start(status=204), body(b"ab")), b"connection: close\r\n\r\n"),
        ((start(LENGTH_1), body(b"x")), b"x"),
        ((start(LENGTH_1, (b"connection", b"close")), body(b"x")), b"\r\n\r\nx"),
    ],
)
async def test_responses_are_framed_by_length_chunks_or_close(events, end):
    data = GET.replace(b"host", b"connection: close\r\nhost")
    received = await response_of(sends(*events), data)
    assert received.startswith(b"HTTP/1.1 2")
    assert received.endswith(end)
    assert received.count(b"connection: close") == 1


async def test_response_to_head_has_no_body():
    data = GET.replace(b"GET", b"HEAD").replace(b"host", b"connection: close\r\nhost")
    received = await response_of(sends(start(LENGTH_1), body(b"x")), data)
    assert received.endswith(b"content-length: 1\r\nconnection: close\r\n\r\n")


async def test_body_of_a_request_answered_early_is_skipped():
    async def early(scope, receive, send):
        await send(start(LENGTH_1))
        await send(body(b"x"))
        assert (await receive())["type"] == "http.disconnect"

    data = POST + b"content-length: 300000\r\n\r\n" + bytes(300_000)
    async with Host(early) as host, connected(host.port) as (r, w):
        for _ in range(2):
            w.write(data)
            assert await answer(r) == (200, b"x")


async def test_body_is_read_only_as_fast_as_the_application_receives_it():
    release = asyncio.Event()

    async def waits(scope, receive, send):
        await release.wait()
        size, more = 0, True
        while more:
            event = await receive()
            size, more = size + len(event["body"]), event["more_body"]
        await send(start())
        await send(body(b"%d" % size))

    size = 32 * 2**20
    async with Host(waits) as host, connected(host.port) as (r, w):
        w.write(POST + b"content-length: %d\r\n\r\n" % size)
        w.write(bytes(size))
        await host.has(1)
        assert w.transport.get_write_buffer_size() > 0
        release.set()
        await r.readuntil(b"8\r\n33554432\r\n")


async def test_uvicorn_options_for_log_headers_and_concurrency_apply(caplog):
    caplog.set_level(logging.INFO, "uvicorn.access")
    async with Host(hello) as host, connected(host.port) as (r, w):
        host.config.access_log = host.config.reset_contextvars = True
        host.state.default_headers.append((b"server", b"x"))
        w.write(GET.replace(b"/ ", b"/a%20b?c=d "))
        head = await r.readuntil(b"\r\n\r\n")
        assert b"server: x\r\n" in head
        await r.readexactly(4)
        assert caplog.records[-1].getMessage().endswith('"GET /a%20b?c=d HTTP/1.1" 200')
        host.config.limit_concurrency = 1
        w.write(GET)
        assert (await answer(r))[0] == 503
        assert host.state.total_requests == 2
        assert await r.read() == b""


async def test_cancelled_request_task_ends_its_connection():
    async with Host(hang) as host, connected(host.port) as (r, w):
        w.write(GET)
        await host.runs()
        for task in host.state.tasks:
            task.cancel()
        assert await rest(r) == b""


async def test_disconnect_reaches_the_application_and_is_not_logged(caplog):
    seen = asyncio.Queue()

    async def wait_for_disconnect(scope, receive, send):
        while (event := await receive())["type"] != "http.disconnect":
            pass
        seen.put_nowait(event)
        await send(start())
        await send(body())

    async with Host(wait_for_disconnect) as host:
        async with connected(host.port) as (_, w):
            w.write(GET)
        async with asyncio.timeout(TIMEOUT_S):
            await seen.get()
        await host.has(0)
        assert not caplog.records
        assert (await socket_request(f"http://127.0.0.1:{host.port}/", b"", end=True))[
            0
        ] is None
