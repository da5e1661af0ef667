"""Serving by uvicorn: addresses, options, limits, signals and shutdown."""

import asyncio
import contextlib
import contextvars
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from unittest.mock import Mock

import pytest
from hosted import call
from living import living
from loop_polling import until
from raw_http_client import Work
from raw_sockets import (
    PATHS,
    TIMEOUT_S,
    Small,
    answer,
    connected,
    port_of,
    raw,
    served,
    socket_request,
)

import mcpwire
from mcpwire import Limits
from mcpwire.errors import LocalProtocolError
from mcpwire.server.http import uvicorn as serving
from mcpwire.server.http.event_store import MemoryEventStore
from mcpwire.server.http.uvicorn import read_address, run_http, serve_http


@pytest.mark.rule("TR-HTTP-04")
@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("8000", ("127.0.0.1", 8000)),
        (":8000", ("127.0.0.1", 8000)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:8000", ("::1", 8000)),
    ],
)
def test_addresses_are_read_as_hosts_and_ports(address, found):
    assert read_address(address) == found


@pytest.mark.parametrize(
    "address",
    ["", "localhost", "::1", "::1:80", "a:b", "a:", "a:65536", "a:-1", "a:²", 8000],
)
def test_invalid_addresses_are_refused(address):
    with pytest.raises(ValueError, match="address"):
        read_address(address)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("workers", 3), ("reload", True), ("port", 80), ("uds", "a.sock")],
        *[("factory", True), ("reload_dirs", ["."]), ("reload_delay", 0.5)],
        ("loop", "uvloop"),
    ],
)
async def test_uvicorn_options_without_effect_are_refused(option, value):
    with pytest.raises(ValueError, match=f"{option!r} has no effect here"):
        await serve_http(Small(), "127.0.0.1:0", uvicorn={option: value})


async def test_uvicorn_options_with_default_values_are_accepted():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = {"workers": 1, "reload": False, "loop": "asyncio"}
        with pytest.raises(OSError, match="cannot listen"):
            await serve_http(Small(), str(port), uvicorn=given)


@pytest.mark.parametrize(
    ("address", "bound"),
    [("Box.example:1", "box.example"), ("0.0.0.0:1", None), ("[::]:1", None)],
)
async def test_wildcard_addresses_have_no_host_name(address, bound):
    given = []

    class Bound(Small):
        def asgi(self, **options):
            given.append(options["bound"])
            raise LookupError

    with pytest.raises(LookupError):
        await serve_http(Bound(), address)
    assert given == [bound]


async def test_error_for_a_used_port_names_the_address_and_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"'127.0.0.1', port {port}"):
            await serve_http(Small(), str(port))


async def test_nagle_is_disabled_on_accepted_connections():
    async with served(Small()) as (url, _), connected(port_of(url)) as (_, writer):
        ends = [writer.get_extra_info(name) for name in ("peername", "sockname")]

        def accepted():
            open_ones = (each for each in living(socket.socket) if each.fileno() >= 0)
            at_port = [
                each
                for each in open_ones
                if each.family == socket.AF_INET and each.getsockname() == ends[0]
            ]
            name = socket.SOL_SOCKET, socket.SO_ACCEPTCONN
            return [each for each in at_port if not each.getsockopt(*name)]

        await until(accepted)
        (one,) = accepted()
        assert one.getpeername() == ends[1]
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_ipv6_address_is_formatted_in_brackets():
    try:
        async with served(Small(), address="[::1]:0") as (url, _):
            assert url.startswith("http://[::1]:")
    except OSError:
        pytest.skip("there is no IPv6 here")


async def test_both_eras_are_served(capfd):
    async with served(Small()) as (url, _):
        for mode in ("stateless", "session"):
            async with mcpwire.Client(mcpwire.Http(url), mode=mode) as client:
                result = await client.call_tool("echo", {"a": 1})
                assert result.text == "{'a': 1}"
    assert capfd.readouterr().err == ""


async def test_url_is_printed_on_stderr(capfd, monkeypatch):
    pytest.importorskip("uvicorn")
    printed = asyncio.Event()
    to_stderr = serving.print_url

    def print_and_set(url, server):
        to_stderr(url, server)
        printed.set()

    monkeypatch.setattr(serving, "print_url", print_and_set)
    task = asyncio.get_running_loop().create_task(serve_http(Small(), "127.0.0.1:0"))
    await asyncio.wait_for(printed.wait(), TIMEOUT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert capfd.readouterr().err.startswith("mcpwire: serving http://127.0.0.1:")
    for stream in (None, Mock(**{"write.side_effect": OSError})):
        monkeypatch.setattr(sys, "stderr", stream)
        to_stderr("nowhere", Small())


async def test_open_server_without_auth_logs_a_warning(caplog):
    async with served(Small(), address="0.0.0.0:0"):
        assert "it has no auth" in caplog.text


@pytest.mark.case("D14")
@pytest.mark.attack("S13")
async def test_size_and_time_of_bodies_are_bounded_on_sockets():
    async with served(Small(limits=Limits(body=1000))) as (url, _):
        lie = raw(b"{}", content_length="1001")
        assert (await socket_request(url, lie))[0] == 413
        head = raw(b"", content_length=None, transfer_encoding="chunked")
        flood = head + (b"1f4\r\n" + b"x" * 500 + b"\r\n") * 3
        assert (await socket_request(url, flood))[0] == 413
        cut = raw(b"{", content_length="10")
        assert await socket_request(url, cut, end=True) == (None, b"", b"")
        expecting = raw(call(), expect="100-continue")
        status, _, body = await socket_request(url, expecting)
        assert status == 100
        assert b"200 OK" in body
        refused = raw(b"{}", content_length="1001", expect="100-continue")
        assert (await socket_request(url, refused))[0] == 413
        status, head, body = await socket_request(url, raw(call()))
        assert status == 200
        assert b"server:" not in head
        assert json.loads(body)["id"] == 1
    async with served(Small(limits=Limits(body_timeout=0.2))) as (url, _):
        slow = raw(b"{", content_length="10")
        assert (await socket_request(url, slow))[0] == 408


@pytest.mark.case("D13")
async def test_duplicate_header_fields_are_refused_on_sockets():
    async with served(Small()) as (url, _):
        twice = raw(call()).replace(b"\r\n\r\n", b"\r\nMcp-Name: echo\r\n\r\n", 1)
        status, _, body = await socket_request(url, twice)
        assert status == 400
        assert json.loads(body)["error"]["code"] == -32020
        padded = raw(call()).replace(b"mcp-name: echo", b"MCP-NAME:   echo  ", 1)
        assert (await socket_request(url, padded))[0] == 200


@pytest.mark.case("D11")
@pytest.mark.rule("TR-HTTP-23")
async def test_closed_connection_cancels_its_call():
    work = Work()
    async with served(Small(work), stream_after=0.001) as (url, _):
        async with connected(port_of(url)) as (_, writer):
            writer.write(raw(call()))
            await work.began.wait()
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: work.outcomes == ["cancelled"])


@pytest.mark.case("D17")
async def test_shutdown_finishes_calls_and_frees_the_port():
    work = Work()
    async with served(Small(work)) as (url, task):
        answer = asyncio.get_running_loop().create_task(
            socket_request(url, raw(call()))
        )
        await asyncio.wait_for(work.began.wait(), TIMEOUT_S)
        task.cancel()
        work.release.set()
        status, _, _ = await answer
        assert status == 200
        with pytest.raises(asyncio.CancelledError):
            await task
    with socket.create_server(("127.0.0.1", port_of(url))):
        pass


async def test_failing_lifespan_raises_in_the_caller():
    server = Small()

    async def fails():
        raise ZeroDivisionError

    server.dispatcher.start = fails
    with pytest.raises(ZeroDivisionError):
        async with served(server):
            pass


def test_missing_uvicorn_raises_an_error_that_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(LocalProtocolError, match="needs uvicorn: pip install uvicorn"):
        run_http(Small())


PROGRAM = """
import asyncio, sys
sys.path[:0] = {paths!r}
import hosted, raw_sockets
from mcpwire.server.http.uvicorn import run_http

async def hangs(params, request):
    if params["name"] == "echo":
        return await hosted.echo(params, request)
    print("hangs", file=sys.stderr, flush=True)
    await asyncio.Event().wait()

def say(url):
    print(url, file=sys.stderr, flush=True)

run_http(
    raw_sockets.Small(hangs), "127.0.0.1:0", drain_timeout=60, quiet=True, announce=say
)
print("ended", file=sys.stderr, flush=True)
"""


async def test_server_stops_listening_when_announce_raises(monkeypatch):
    loop, servers = asyncio.get_running_loop(), []
    create_server = loop.create_server

    async def remember(*args, **options):
        servers.append(await create_server(*args, **options))
        return servers[-1]

    def refuse(_):
        raise BrokenPipeError("nobody reads it")

    monkeypatch.setattr(loop, "create_server", remember)
    with pytest.raises(BrokenPipeError, match="nobody reads it"):
        await serve_http(mcpwire.Server("x"), "127.0.0.1:0", announce=refuse)
    assert [each.is_serving() for each in servers] == [False]


async def test_connections_end_even_if_closing_the_event_store_fails():
    class Broken(MemoryEventStore):
        async def aclose(self):
            raise ValueError("it cannot be closed")

    async with served(mcpwire.Server("x"), event_store=Broken()) as (url, task):
        async with connected(port_of(url)) as (r, w):
            w.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert await r.readuntil(b"}")
            task.cancel()
            assert await r.read() == b""
        await asyncio.wait([task])
        with pytest.raises(ValueError, match="it cannot be closed"):
            task.result()


on_posix = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")


@contextlib.asynccontextmanager
async def served_by_a_child():
    """Serve in a separate process; yields the URL and the process."""
    pytest.importorskip("uvicorn")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(PROGRAM.format(paths=PATHS)),
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield (await child.stderr.readline()).decode().split()[-1], child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


@on_posix
@pytest.mark.case("D17")
async def test_first_signal_drains_the_server_and_the_second_ends_it_at_once():
    async with served_by_a_child() as (url, child):
        assert (await socket_request(url, raw(call())))[0] == 200
        hanging = asyncio.get_running_loop().create_task(
            socket_request(url, raw(call(name="other")))
        )
        assert await child.stderr.readline() == b"hangs\n"
        child.send_signal(signal.SIGTERM)
        # The first response 503 shows that it drains.
        while (await socket_request(url, raw(call())))[0] != 503:
            pass
        child.send_signal(signal.SIGTERM)
        _, _, body = await hanging
        assert b"the server is shutting down" in body
        assert await child.stderr.read() == b"ended\n"
        assert await child.wait() == 0


@on_posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_the_url_is_announced_ends_the_server(number):
    pytest.importorskip("uvicorn")
    program = PROGRAM.format(paths=PATHS).replace(
        "print(url, file=sys.stderr, flush=True)",
        f"import os; os.kill(os.getpid(), {int(number)})",
    )
    command = [sys.executable, "-c", program]
    completed = subprocess.run(
        command, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert (completed.returncode, completed.stderr) == (0, b"ended\n")


class Caller:
    """One connection that calls as fast as it can until the server ends it."""

    def __init__(self, answered):
        self.answered = answered
        self.statuses = []

    async def run(self, url):
        """Return how the connection ended: cleanly, cut in a response, or reset."""
        port = port_of(url)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = raw(call(), connection="keep-alive")
        try:
            while True:
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                self.statuses.append(int(head.split(b" ")[1]))
                self.answered()
        except asyncio.IncompleteReadError as error:
            return "cut" if error.partial or reader.exception() else "ended"
        except ConnectionError:
            return "reset"
        finally:
            writer.close()


@on_posix
@pytest.mark.attack("X10")
async def test_signal_resets_no_connection():
    enough, count = asyncio.Event(), itertools.count(1)

    def answered():
        if next(count) == 500:
            enough.set()

    async with served_by_a_child() as (url, child):
        callers = [Caller(answered) for _ in range(32)]
        running = [asyncio.create_task(each.run(url)) for each in callers]
        await enough.wait()
        child.send_signal(signal.SIGTERM)
        assert await asyncio.gather(*running) == ["ended"] * 32
        assert {status for each in callers for status in each.statuses} <= {200, 503}
        assert await child.stderr.read() == b"ended\n"
        assert await child.wait() == 0


@on_posix
@pytest.mark.attack("X10")
async def test_a_signal_ends_half_sent_requests_at_once():
    async with served_by_a_child() as (url, child):
        port = port_of(url)
        data = raw(call(), connection="keep-alive")
        chunked = raw(b"", content_length=None, transfer_encoding="chunked")
        # The requests end within a body, within a chunk, and within a head.
        halves = [data[:-5], chunked + b"5\r\n{", data[:20]]
        halves = [each for each in halves for _ in range(8)]
        peers = [await asyncio.open_connection("127.0.0.1", port) for _ in halves]
        for half, (_, writer) in zip(halves, peers, strict=True):
            writer.write(half)
        # Its response shows that the others were accepted before.
        assert (await socket_request(url, raw(call())))[0] == 200
        # Their bodies may take 30 s, and calls are drained for 60 s.
        child.send_signal(signal.SIGTERM)
        received = [(await reader.read())[:12] for reader, _ in peers]
        assert received == [b"HTTP/1.1 503"] * 16 + [b""] * 8
        for _, writer in peers:
            writer.close()
        assert await child.stderr.read() == b"ended\n"
        assert await child.wait() == 0


NAMES = ["auto", "httptools", "h11"]
"""Our protocol, and the two of uvicorn."""

HEAD_MOST = 2_048


@pytest.fixture(params=NAMES)
async def connection(request):
    async with (
        served(Small(), uvicorn={"http": request.param}) as (url, _),
        connected(port_of(url)) as both,
    ):
        yield both


def keep_alive(id, **more):
    return raw(call(id, arguments={"n": id}), connection=None, **more)


async def ids(reader, count):
    return [json.loads((await answer(reader))[1])["id"] for _ in range(count)]


async def test_requests_of_one_connection_are_answered_in_order(connection):
    reader, writer = connection
    for id in range(3):
        writer.write(keep_alive(id))
        assert await ids(reader, 1) == [id]
    writer.write(b"".join(keep_alive(id) for id in range(5)))
    assert await ids(reader, 5) == list(range(5))


async def test_requests_may_arrive_in_any_pieces(connection):
    reader, writer = connection
    data = keep_alive(1) + keep_alive(2)
    for at in range(0, len(data), 97):
        writer.write(data[at : at + 97])
        await writer.drain()
        await asyncio.sleep(0)  # each piece is read separately
    assert await ids(reader, 2) == [1, 2]


async def test_expect_100_continue_gets_100_before_the_body(connection):
    reader, writer = connection
    head, _, body = keep_alive(1, expect="100-continue").partition(b"\r\n\r\n")
    writer.write(head + b"\r\n\r\n")
    interim = await reader.readuntil(b"\r\n\r\n")
    assert interim.startswith(b"HTTP/1.1 100")
    writer.write(body)
    assert await ids(reader, 1) == [1]


async def test_response_to_head_comes_at_once_without_a_body(connection):
    reader, writer = connection
    for _ in range(2):
        writer.write(b"HEAD /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")


@pytest.mark.attack("S13")
async def test_size_of_request_heads_is_bounded():
    server = Small(limits=Limits(head=HEAD_MOST))
    async with served(server) as (url, _):
        endless = b"POST /mcp HTTP/1.1\r\nx: " + b"x" * 2 * HEAD_MOST
        status, _, _ = await socket_request(url, endless)
        assert status == 400


async def test_waiting_call_delays_only_later_calls_of_its_connection():
    release = asyncio.Event()
    tasks = []

    async def work(params, _):
        tasks.append(asyncio.current_task())
        if params["arguments"]["n"] == 1:
            await release.wait()
        tasks.append(asyncio.current_task())
        return {"content": []}

    options = {"stream_after": 30.0}
    async with (
        served(Small(work), **options) as (url, _),
        connected(port_of(url)) as (reader, writer),
    ):
        writer.write(keep_alive(1) + keep_alive(2))
        async with connected(port_of(url)) as (second, other):
            other.write(keep_alive(3))
            assert await ids(second, 1) == [3]
        release.set()
        assert await ids(reader, 2) == [1, 2]
    # In order: 1 begins and waits, 3 runs to its end, 1 continues, 2 follows.
    assert tasks[0] is tasks[3]
    assert tasks[1] is tasks[2] is not tasks[0]


async def test_context_variables_of_a_call_do_not_reach_other_calls():
    seen, variable = [], contextvars.ContextVar("variable", default=None)

    async def work(params, _):
        seen.append(variable.get())
        variable.set(params["arguments"]["n"])
        return {"content": []}

    async with (
        served(Small(work)) as (url, _),
        connected(port_of(url)) as (reader, writer),
    ):
        for id in range(3):
            writer.write(keep_alive(id))
            await ids(reader, 1)
    assert seen == [None, None, None]


async def test_reset_contextvars_option_of_uvicorn_is_accepted():
    options = {"reset_contextvars": True}
    async with served(Small(), uvicorn=options) as (url, _):
        assert (await socket_request(url, raw(call(7))))[0] == 200


async def test_custom_protocol_class_of_the_user_is_used():
    from uvicorn.protocols.http.h11_impl import H11Protocol

    made = []

    class Own(H11Protocol):
        def connection_made(self, transport):
            made.append(type(transport))
            super().connection_made(transport)

    async with served(Small(), uvicorn={"http": Own}) as (url, _):
        assert (await socket_request(url, raw(call(7))))[0] == 200
    assert made
