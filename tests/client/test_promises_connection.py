"""Promises about the connection of a client: opening, closing, collecting, reprs."""

import asyncio
import json
import threading
import time
from unittest.mock import Mock

import pytest
from clocks import on_a_clock_by_hand
from fakes import SILENCE, FakeServer, text
from loop_polling import until
from scripted import ECHO_LOOP, pid_of, scripted

import mcpwire
from mcpwire.transports.stdio import StdioChannel

BOUND_S = 30.0


async def test_connect_during_close_waits_and_then_connects():
    client = mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP))
    await client.connect()
    first = pid_of(client)
    closing = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)  # one loop iteration
    await client.connect()
    assert closing.done()
    assert pid_of(client) != first
    assert (await client.call_tool("x", {"text": "hi"})).text == "hi"
    await client.aclose()


async def test_closing_waits_for_a_cancelled_callback():
    entered, left = asyncio.Event(), asyncio.Event()

    async def callback(_):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)  # one loop iteration
            left.set()

    server = FakeServer()
    client = mcpwire.Client(server, on_notification=callback)
    await client.connect()
    server.notify("notifications/tools/list_changed")
    await entered.wait()
    await client.aclose()
    assert left.is_set()


async def test_a_client_collected_in_another_thread_ends_on_its_loop(monkeypatch):
    client = mcpwire.Client(scripted("handshake()\n" + ECHO_LOOP))
    await client.connect()
    threads = []
    abandon = StdioChannel.abandon
    done = asyncio.Event()

    def record_thread(channel):
        threads.append(threading.current_thread())
        abandon(channel)
        done.set()

    monkeypatch.setattr(StdioChannel, "abandon", record_thread)
    with pytest.warns(ResourceWarning, match="unclosed"):
        await asyncio.to_thread(client.__del__)
    await done.wait()
    assert threads == [threading.current_thread()]


async def test_noise_before_the_handshake_is_logged(caplog):
    target = scripted("raw(b'Welcome!\\n'); handshake()\n" + ECHO_LOOP)
    async with mcpwire.Client(target) as client:
        assert client.stats.noise == ("Welcome!",)
    assert "1 line(s) that are not messages" in caplog.text
    assert "Welcome!" in caplog.text


@on_a_clock_by_hand
async def test_a_request_timeout_quotes_the_noise():
    target = scripted("handshake()\nrecv(); raw(b'oops, no JSON\\n'); recv(); recv()")
    async with mcpwire.Client(target) as client:
        call = asyncio.create_task(client.call_tool("x", timeout=1))
        await until(lambda: client.stats.noise)
        await asyncio.get_running_loop().advance(2)
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await call
    assert "oops, no JSON" in str(caught.value)


@pytest.mark.system("A11", "A12", "A13", "L-A4")
async def test_a_child_gets_arguments_folder_and_variables_unchanged(tmp_path):
    odd = ["$HOME", "*", "a b", "", "'", '"', "\\", ";true", "--x=\n"]
    body = (
        "handshake()\nm = recv()\n"
        "text(m, json.dumps([sys.argv[1:], os.getcwd(), os.environ['LANG']])); recv()"
    )
    target = scripted(body, *odd, cwd=tmp_path, env={"LANG": "mine"})
    async with mcpwire.Client(target) as client:
        result = await client.call_tool("x")
        assert "\n" not in repr(client)
    assert json.loads(result.text) == [odd, str(tmp_path), "mine"]


async def test_no_url_in_a_command_shows_its_secrets():
    secret = "https://me:hush@example.com/mcp?token=hush#hush"
    target = mcpwire.Stdio(
        "no-such-command-at-all", [secret, f"--url={secret}", '{"a": "b"}']
    )
    client = mcpwire.Client(target)
    shown = [repr(client), repr(target), str(target)]
    with pytest.raises(mcpwire.LocalProtocolError) as refused:
        await client.ping()
    with pytest.raises(mcpwire.ConnectError) as failed:
        await client.connect()
    for error in (refused.value, failed.value):
        shown += [str(error), repr(error), str(getattr(error, "target", ""))]
    assert [line for line in shown if "hush" in line] == []
    assert "--url=https://***@example.com/mcp?***" in str(target)
    assert target.args == (secret, f"--url={secret}", '{"a": "b"}')


async def test_the_error_of_a_lost_connection_hides_url_secrets():
    target = scripted("handshake()\nrecv()", "https://me:hush@example.com/?hush")
    async with mcpwire.Client(target) as client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert "example.com" in caught.value.target
    assert "hush" not in caught.value.target + str(caught.value)


@pytest.mark.system("O81")
@pytest.mark.rule("LIFE-05")
async def test_only_the_handshake_is_sent_before_it_completes():
    server = FakeServer({"tools/call": lambda *_: text("too early")})
    client = mcpwire.Client(server, mode="session")
    opened = asyncio.Event()

    def opening(*_):
        opened.set()
        return SILENCE

    server.methods["initialize"] = opening
    connecting = asyncio.create_task(client.connect())
    await opened.wait()
    early = (
        lambda: client.call_tool("x"),
        lambda: client.request("tools/call", {"name": "x"}),
        lambda: client.notify("notifications/mine"),
        client.ping,
    )
    for use in early:
        with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
            await use()
    await client.aclose()
    with pytest.raises(mcpwire.ConnectionClosed):
        await connecting
    assert [message["method"] for message in server.received] == ["initialize"]


async def test_each_connection_has_its_own_negotiation_record():
    client = mcpwire.Client(FakeServer())
    records = []
    for _ in range(2):
        async with client:
            records.append(client.negotiation)
    first, second = ([step.event for step in record.steps] for record in records)
    assert first == second
    assert records[0] is not records[1]
    times = [step.at for step in records[1].steps]
    assert times == sorted(times)
    assert (first[0], first[-1]) == ("sent server/discover", "agreed")
    assert "\n" not in repr(records[0])


async def test_errors_of_a_connection_name_its_target():
    target = scripted("handshake()\nrecv(); recv()", "the-one")
    async with mcpwire.Client(target) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await asyncio.sleep(0)  # one loop iteration
        await client.aclose()
        with pytest.raises(mcpwire.ConnectionClosed) as closed:
            await call
        with pytest.raises(mcpwire.ConnectError) as refused:
            await mcpwire.Client(scripted("sys.exit(1)", "the-one")).connect()
    for error in (closed.value, refused.value):
        assert error.target.endswith("the-one")


async def test_the_stderr_tail_is_limited():
    target = scripted("os.write(2, b'x' * 5000 + b'end')\nhandshake()\nsys.exit(1)")
    limits = mcpwire.Limits(stderr_tail=100)
    client = mcpwire.Client(target, limits=limits)
    async with client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert caught.value.stderr_tail == "x" * 97 + "end"


async def test_the_stderr_tail_includes_unread_output():
    target = scripted("recv()\nos.write(2, b'now')\nrecv()")
    channel = StdioChannel(Mock(), target, mcpwire.Limits())
    channel.notify_nowait("notifications/mine")
    while not channel.stderr_tail:
        time.sleep(0.001)  # noqa: ASYNC251 - no loop iteration may read it
    assert channel.stderr_tail == "now"
    await channel.aclose()
