"""The server behind web servers: uvicorn as we run it, and others that run the app."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap

import pytest
from hosted import call
from wired import PATHS, PATIENCE, Small, raw, spoken

import mcpwire
from mcpwire import Limits
from mcpwire.errors import LocalProtocolError
from mcpwire.server.http import serving
from mcpwire.server.http.serving import read_address, run_http, serve_http

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextlib.asynccontextmanager
async def served(server, **options):
    """Serve on a free port; yields the URL and the task."""
    pytest.importorskip("uvicorn")
    urls = asyncio.Queue()
    task = asyncio.get_running_loop().create_task(
        serve_http(server, "127.0.0.1:0", announce=urls.put_nowait, **options)
    )
    getting = asyncio.get_running_loop().create_task(urls.get())
    try:
        await asyncio.wait([task, getting], return_when="FIRST_COMPLETED")
        if task.done():
            await task
        yield getting.result(), task
    finally:
        getting.cancel()
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)


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
def test_addresses_are_hosts_and_ports(address, found):
    assert read_address(address) == found


@pytest.mark.parametrize(
    "address",
    ["", "localhost", "::1", "::1:80", "a:b", "a:", "a:65536", "a:-1", "a:²", 8000],
)
def test_other_addresses_are_refused(address):
    with pytest.raises(ValueError, match="address"):
        read_address(address)


def test_all_addresses_have_no_name():
    assert serving._name("Box.example") == "box.example"
    assert serving._name("0.0.0.0") is None
    assert serving._name("::") is None


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"'127.0.0.1', port {port}"):
            serving._listen("127.0.0.1", port)


def test_answers_are_not_held_back():
    with serving._listen("127.0.0.1", 0) as listening:
        # What asyncio looks at before it switches Nagle's algorithm off.
        assert listening.proto == socket.IPPROTO_TCP


async def test_ipv6_is_spelled_as_urls_have_it():
    try:
        listening = serving._listen("::1", 0)
    except OSError:
        pytest.skip("there is no IPv6 here")
    with listening:
        assert serving._spell(listening).startswith("[::1]:")


async def test_both_eras_are_served(capfd):
    async with served(Small()) as (url, _):
        for mode in ("stateless", "session"):
            async with mcpwire.Client(mcpwire.Http(url), mode=mode) as client:
                result = await client.call_tool("echo", {"a": 1})
                assert result.text == "{'a': 1}"
    assert capfd.readouterr().err == ""


async def test_the_url_is_said_on_stderr(capfd, monkeypatch):
    pytest.importorskip("uvicorn")
    said = asyncio.Event()
    to_stderr = serving._to_stderr

    def tell(url):
        to_stderr(url)
        said.set()

    monkeypatch.setattr(serving, "_to_stderr", tell)
    task = asyncio.get_running_loop().create_task(serve_http(Small(), "127.0.0.1:0"))
    await asyncio.wait_for(said.wait(), PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert capfd.readouterr().err.startswith("mcpwire: serving http://127.0.0.1:")
    monkeypatch.setattr(sys, "stderr", None)
    to_stderr("nowhere")


async def test_an_open_server_without_auth_is_spoken_of(caplog):
    with serving._listen("0.0.0.0", 0) as listening:
        serving._warn(Small(), listening)
    assert "it has no auth" in caplog.text


@pytest.mark.case("D14")
@pytest.mark.attack("S13")
async def test_bodies_are_bounded_on_the_wire():
    async with served(Small(limits=Limits(body=1000))) as (url, _):
        lie = raw(b"{}", content_length="1001")
        assert (await spoken(url, lie))[0] == 413
        head = raw(b"", content_length=None, transfer_encoding="chunked")
        flood = head + (b"1f4\r\n" + b"x" * 500 + b"\r\n") * 3
        assert (await spoken(url, flood))[0] == 413
        cut = raw(b"{", content_length="10")
        assert await spoken(url, cut, end=True) == (None, b"", b"")
        expecting = raw(call(), expect="100-continue")
        status, _, body = await spoken(url, expecting)
        assert status == 100
        assert b"200 OK" in body
        refused = raw(b"{}", content_length="1001", expect="100-continue")
        assert (await spoken(url, refused))[0] == 413
        status, head, body = await spoken(url, raw(call()))
        assert status == 200
        assert b"server:" not in head
        assert json.loads(body)["id"] == 1
    async with served(Small(limits=Limits(body_timeout=0.2))) as (url, _):
        slow = raw(b"{", content_length="10")
        assert (await spoken(url, slow))[0] == 408


@pytest.mark.case("D13")
async def test_duplicate_fields_are_seen_on_the_wire():
    async with served(Small()) as (url, _):
        twice = raw(call()).replace(b"\r\n\r\n", b"\r\nMcp-Name: echo\r\n\r\n", 1)
        status, _, body = await spoken(url, twice)
        assert status == 400
        assert json.loads(body)["error"]["code"] == -32020
        padded = raw(call()).replace(b"mcp-name: echo", b"MCP-NAME:   echo  ", 1)
        assert (await spoken(url, padded))[0] == 200


@pytest.mark.case("D11")
@pytest.mark.rule("TR-HTTP-23")
async def test_a_connection_that_is_closed_cancels_its_call():
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def hangs(params, request):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with served(Small(hangs), stream_after=0.001) as (url, _):
        port = int(url.rpartition(":")[2].partition("/")[0])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw(call()))
        await asyncio.wait_for(entered.wait(), PATIENCE)
        writer.close()
        await asyncio.wait_for(cancelled.wait(), PATIENCE)


@pytest.mark.case("D17")
async def test_ending_lets_calls_end_and_frees_the_port():
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(params, request):
        entered.set()
        await go_on.wait()
        return {"content": []}

    async with served(Small(slow)) as (url, task):
        answer = asyncio.get_running_loop().create_task(spoken(url, raw(call())))
        await asyncio.wait_for(entered.wait(), PATIENCE)
        task.cancel()
        go_on.set()
        status, _, _ = await answer
        assert status == 200
        with pytest.raises(asyncio.CancelledError):
            await task
    port = int(url.rpartition(":")[2].partition("/")[0])
    with socket.create_server(("127.0.0.1", port)):
        pass


async def test_a_lifespan_that_fails_is_the_callers_error():
    server = Small()

    async def fails():
        raise ZeroDivisionError

    server.dispatcher.start = fails
    with pytest.raises(ZeroDivisionError):
        async with served(server):
            pass


def test_without_uvicorn_there_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(LocalProtocolError, match="needs uvicorn: pip install uvicorn"):
        run_http(Small())


PROGRAM = """
import asyncio, sys
sys.path[:0] = {paths!r}
import hosted, wired
from mcpwire.server.http.serving import run_http

async def hangs(params, request):
    if params["name"] == "echo":
        return await hosted.echo(params, request)
    print("hangs", file=sys.stderr, flush=True)
    await asyncio.Event().wait()

run_http(wired.Small(hangs), "127.0.0.1:0", drain_timeout=60)
print("ended", file=sys.stderr, flush=True)
"""


@pytest.mark.case("D17")
@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
async def test_a_signal_ends_it_and_a_second_one_ends_it_at_once():
    pytest.importorskip("uvicorn")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(PROGRAM.format(paths=PATHS)),
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(30):
            line = (await child.stderr.readline()).decode()
            url = line.split()[-1]
            assert (await spoken(url, raw(call())))[0] == 200
            hanging = asyncio.get_running_loop().create_task(
                spoken(url, raw(call(name="other")))
            )
            assert await child.stderr.readline() == b"hangs\n"
            child.send_signal(signal.SIGTERM)
            # It drains once it says so.
            while (await spoken(url, raw(call())))[0] != 503:
                pass
            child.send_signal(signal.SIGTERM)
            _, _, body = await hanging
            assert b"the server is shutting down" in body
            assert await child.stderr.read() == b"ended\n"
            assert await child.wait() == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
