"""The `Messages` transport: single messages over functions of the user."""

import asyncio
import json
from pathlib import Path

import pytest

import mcpwire
from mcpwire.limits import Limits, Recovery
from mcpwire.transports import Messages

pytestmark = pytest.mark.usefixtures("bounded")

PAGE = Path(__file__).parents[2] / "docs" / "transports.md"


class Peer:
    def __init__(self):
        self.received = asyncio.Queue()
        self.to_send = asyncio.Queue()
        self.closed = 0

    def close(self):
        self.closed += 1

    def target(self, send=None, receive=None, **options):
        options.setdefault("close", self.close)
        return Messages(
            send or self.received.put, receive or self.to_send.get, **options
        )

    async def agree(self):
        """Take the first request and accept the latest revision."""
        request = json.loads(await self.received.get())
        result = {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
        }
        self.answer(request["id"], result)

    def answer(self, id, result):
        self.to_send.put_nowait({"jsonrpc": "2.0", "id": id, "result": result})


async def connected(peer, target, **options):
    client = mcpwire.Client(target, **options)
    agreeing = asyncio.create_task(peer.agree())
    await client.connect()
    await agreeing
    return client


@pytest.mark.rule("TR-CUST-01")
@pytest.mark.parametrize(
    "form", [bytes, bytearray, memoryview, str, "spread", dict], ids=str
)
async def test_received_messages_may_have_any_form(form):
    peer = Peer()
    client = await connected(peer, peer.target())
    call = asyncio.create_task(client.call_tool("echo", {}))
    request = json.loads(await peer.received.get())
    content = [{"type": "text", "text": "ä\n"}]
    result = {"resultType": "complete", "content": content}
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    text = json.dumps(answer, indent=4 if form == "spread" else None)
    made = {dict: answer, str: text, "spread": text}
    peer.to_send.put_nowait(made.get(form) or form(text.encode()))
    assert (await call).text == "ä\n"
    await client.aclose()
    assert peer.closed == 1


@pytest.mark.parametrize(
    ("form", "kind"), [("bytes", bytes), ("text", str), ("dict", dict)]
)
async def test_send_gets_single_messages_in_the_chosen_form(form, kind):
    sent = []
    peer = Peer()

    def send(message):  # a plain function works as well
        sent.append(message)
        peer.received.put_nowait(
            json.dumps(message) if isinstance(message, dict) else message
        )

    client = await connected(peer, peer.target(send, form=form))
    calls = [asyncio.create_task(client.call_tool("echo", {})) for _ in range(3)]
    for _ in calls:
        request = json.loads(await peer.received.get())
        peer.answer(request["id"], {"resultType": "complete", "content": []})
    await asyncio.gather(*calls)
    await client.aclose()
    assert len(sent) == 4
    assert {type(message) for message in sent} == {kind}


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (None, "the peer closed it"),
        (EOFError(), "the peer closed it"),
        (StopAsyncIteration(), "the peer closed it"),
        (OSError("unplugged"), "receiving failed: OSError: unplugged"),
        (asyncio.CancelledError(), "receiving was cancelled"),
        (3.5, "a message is a dict, a str, bytes, or None at the end, got a float"),
    ],
    ids=repr,
)
async def test_the_end_of_receiving_ends_the_calls_with_its_reason(ends, why):
    peer = Peer()

    async def receive():
        message = await peer.to_send.get()
        if isinstance(message, BaseException):
            raise message
        return message

    client = await connected(peer, peer.target(receive=receive))
    call = asyncio.create_task(client.call_tool("echo", {}, timeout=30))
    await peer.received.get()
    peer.to_send.put_nowait(ends)
    with pytest.raises(mcpwire.ConnectionClosed, match=why) as caught:
        await call
    assert caught.value.sent
    await client.aclose()
    assert peer.closed == 1


@pytest.mark.parametrize("ends", [OSError("full"), asyncio.CancelledError()], ids=repr)
async def test_a_failed_send_ends_the_calls_as_sent(ends):
    peer = Peer()
    fails = False

    async def send(message):
        if fails:
            raise ends
        await peer.received.put(message)

    recovery = Recovery(restart=False)
    client = await connected(peer, peer.target(send), recovery=recovery)
    fails = True
    call = asyncio.create_task(client.call_tool("echo", {}))
    other = asyncio.create_task(client.call_tool("echo", {}))
    with pytest.raises(mcpwire.ConnectionClosed, match="sending failed") as caught:
        await call
    # A part of it may have been sent: the call may have run.
    assert caught.value.sent
    with pytest.raises(mcpwire.MCPError):
        await other
    await client.aclose()


async def test_messages_behind_a_slow_send_are_limited():
    peer = Peer()
    free = asyncio.Event()
    free.set()

    async def send(message):
        await free.wait()
        await peer.received.put(message)

    limits = Limits(unwritten=5_000, close_grace=0.05)
    client = await connected(peer, peer.target(send), limits=limits)
    free.clear()
    big = {"message": "x" * 2_000}
    calls = [asyncio.create_task(client.call_tool("echo", big)) for _ in range(6)]
    done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    for call in done:
        with pytest.raises(mcpwire.TransportError, match="does not read"):
            await call
    await client.aclose()
    for call in set(calls) - done:
        with pytest.raises(mcpwire.ConnectionClosed):
            await call


@pytest.mark.parametrize(
    ("error", "asynchronous", "words"),
    [
        (OSError("it would not"), False, "closing a connection failed"),
        (OSError("it would not"), True, "closing a connection failed"),
        (asyncio.CancelledError(), True, "was cancelled"),
    ],
)
async def test_an_error_of_close_is_only_logged(caplog, error, asynchronous, words):
    peer = Peer()

    def fails():
        raise error

    async def fails_later():
        fails()

    close = fails_later if asynchronous else fails
    client = await connected(peer, peer.target(close=close))
    await client.aclose()
    assert words in caplog.text


async def test_hanging_functions_do_not_block_closing(caplog):
    peer = Peer()
    released = asyncio.Event()

    async def receive():
        while True:
            try:
                return await peer.to_send.get()
            except asyncio.CancelledError:
                await released.wait()

    async def close():
        await asyncio.Event().wait()

    target = peer.target(receive=receive, close=close)
    limits = Limits(close_grace=0.05)
    client = await connected(peer, target, limits=limits)
    await client.aclose()
    assert "receiving cannot be cancelled" in caplog.text
    released.set()
    peer.to_send.put_nowait(None)


@pytest.mark.parametrize("swallows", [False, True])
async def test_close_is_called_though_send_hangs(swallows):
    peer = Peer()
    hangs = False
    released = asyncio.Event()

    async def send(message):
        if not hangs:
            await peer.received.put(message)
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallows:
                raise
            await released.wait()

    limits = Limits(close_grace=0.05)
    client = await connected(peer, peer.target(send), limits=limits)
    hangs = True
    with pytest.raises(mcpwire.RequestTimeout):
        await client.call_tool("echo", {}, timeout=0.05)
    await client.aclose()
    assert peer.closed == 1
    released.set()


async def test_a_connection_opened_too_late_is_closed(caplog):
    peer = Peer()
    released = asyncio.Event()

    async def opens():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await released.wait()
        return peer.target()

    limits = Limits(close_grace=0.05)
    client = mcpwire.Client(Messages(open=opens), connect_timeout=0.05, limits=limits)
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    await client.aclose()
    assert "cannot be cancelled" in caplog.text
    released.set()
    while not peer.closed:  # noqa: ASYNC110 - no event says it
        await asyncio.sleep(0)  # one loop iteration


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "give functions as send and receive"),
        ({"send": print}, "give functions as send and receive"),
        ({"send": print, "receive": print, "open": print}, "or as open alone"),
        ({"open": print, "close": print}, "close belongs to"),
        ({"open": print, "form": "yaml"}, "form must be 'bytes'"),
    ],
)
async def test_incomplete_or_conflicting_options_are_refused(options, why):
    with pytest.raises(ValueError, match=why):
        Messages(**options)


async def test_given_functions_are_one_connection_only():
    peer = Peer()
    target = peer.target()
    client = await connected(peer, target)
    await client.aclose()
    with pytest.raises(mcpwire.ConnectError, match=r"Messages\(open=...\)"):
        await client.connect()

    async def wrong():
        return print, print

    with pytest.raises(mcpwire.ConnectError, match="must return Messages"):
        await mcpwire.Client(Messages(open=wrong)).connect()


@pytest.mark.unchecked_wire("a client by hand, which names no revision")
async def test_serving_ends_with_the_messages_and_calls_close(server):
    there, back, closed = asyncio.Queue(), asyncio.Queue(), []
    for ends in (None, EOFError()):

        async def receive(ends=ends):
            if there.empty():
                if ends is None:
                    return None
                raise ends
            return there.get_nowait()

        there.put_nowait({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await server.serve_messages(
            back.put, receive, close=lambda: closed.append(1), form="dict"
        )
        assert (await back.get())["id"] == 1
    assert closed == [1, 1]
    with pytest.raises(ValueError, match="form must be"):
        await server.serve_messages(back.put, there.get, form="xml")


@pytest.mark.rule("TR-CUST-03")
@pytest.mark.parametrize("part", ["Establishment", "Framing", "Cancellation"])
async def test_the_page_explains_establishment_framing_cancellation(part):
    _, _, text = PAGE.read_text(encoding="utf-8").partition(f"**{part}.**")
    assert len(text.partition("**")[0].split()) > 40
