"""A server that sends far more than requested, or does not read."""

import asyncio
import logging
import os
import signal
from unittest.mock import Mock

import pytest
from scripted import ECHO_LOOP, pid_of, scripted
from traced_memory import traced_memory

import mcpwire
from mcpwire.transports.duplex import PipeDuplex
from mcpwire.transports.process import StderrTail
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import notification

pytestmark = pytest.mark.timeout(120)

BOUND_S = 100.0
FLOOD_SIZE = 20_000
LOG_LINE = (
    '{"jsonrpc":"2.0","method":"notifications/message",'
    '"params":{"level":"info","data":%d}}\\n'
)
FLOOD = (
    "handshake(capabilities={'tools': {}, 'logging': {}})\n"
    "m = recv()\n"
    f"for start in range(0, {FLOOD_SIZE}, 1000):\n"
    f"    raw(''.join('{LOG_LINE}' % n for n in range(start, start + 1000)).encode())\n"
    "text(m, 'the answer')\n" + ECHO_LOOP
)
SHORTEST_LINE = len(LOG_LINE) - len("%d\\") + 1
READ_BYTES = 65_536


class LoopWatch:
    """Watches a loop: how many events arrive between two of its iterations."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self._events = 0
        self._runs = True
        self.most_events = 0
        self._loop.call_soon(self._turn)

    def count(self):
        self._events += 1

    def _turn(self):
        self.most_events = max(self.most_events, self._events)
        self._events = 0
        if self._runs:
            self._loop.call_soon(self._turn)

    def stop(self):
        self._runs = False


@pytest.mark.fault("F16")
async def test_flood_before_a_response_is_in_order_and_blocks_no_loop():
    """Counted, not timed: an iteration does one read of the pipe."""
    received, watch = [], LoopWatch()

    def take(notification):
        received.append(notification.params.data)
        watch.count()

    target = scripted(FLOOD)
    async with (
        asyncio.timeout(BOUND_S),
        mcpwire.Client(target, on_notification=take) as client,
    ):
        assert (await client.call_tool("x")).text == "the answer"
        assert (await client.call_tool("y", {"text": "more"})).text == "more"
    watch.stop()
    await asyncio.sleep(0)  # an iteration of the loop
    assert received == list(range(FLOOD_SIZE))
    assert 0 < watch.most_events <= READ_BYTES // SHORTEST_LINE + 1


# Stderr...

TAIL = mcpwire.Limits().stderr_tail


@pytest.mark.system("U38")
@pytest.mark.pain("P16")
@pytest.mark.parametrize("chunk", ["b'e' * 65536", "b'a line of a log\\n' * 4096"])
async def test_10_mib_of_stderr_block_nothing_and_the_tail_is_kept(chunk):
    target = scripted(
        f"for _ in range(160): os.write(2, {chunk})\n"
        "handshake()\nm = recv(); text(m, 'ok')\nrecv()\n"
        "os.write(2, b'the very end'); os._exit(3)"
    )
    async with asyncio.timeout(BOUND_S), mcpwire.Client(target) as client:
        assert (await client.call_tool("x")).text == "ok"
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("y")
    assert caught.value.exit_code == 3
    assert len(caught.value.stderr_tail) == TAIL
    assert caught.value.stderr_tail.endswith("the very end")
    assert "the very end" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.pain("P16")
@pytest.mark.attack("S16")
async def test_endless_stderr_line_uses_bounded_memory():
    target = scripted(
        "import threading\n"
        "def pour():\n    while True: os.write(2, b'x' * 65536)\n"
        "threading.Thread(target=pour, daemon=True).start()\n"
        "handshake()\n" + ECHO_LOOP
    )
    limits = mcpwire.Limits(stderr_tail=1000, close_grace=0.2, terminate_grace=0.2)
    once = mcpwire.Recovery(restart=False)
    client = mcpwire.Client(target, limits=limits, recovery=once)
    async with asyncio.timeout(BOUND_S), client:
        for number in range(50):
            text = str(number)
            assert (await client.call_tool("x", {"text": text})).text == text
        os.kill(pid_of(client), signal.SIGKILL)
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert caught.value.stderr_tail == "x" * 1000
    tail = StderrTail(1000)
    with traced_memory() as memory:
        for _ in range(100):
            tail.feed(b"x" * 65_536)
    assert memory.held <= 2 * 1000 + 2 * 65_536


# Failing user callbacks...


@pytest.mark.system("A44")
@pytest.mark.fault("F17")
async def test_failing_callback_is_logged_and_later_items_arrive(caplog):
    received = []

    def fail(notification):
        received.append(notification.method)
        raise [RuntimeError, ValueError, asyncio.CancelledError][len(received) % 3]

    target = scripted(
        "handshake()\n"
        "m = recv()\nfor _ in range(20):\n"
        "    send({'jsonrpc': '2.0', 'method': 'x/y'})\n"
        "text(m, 'ok')\nrecv()"
    )
    with caplog.at_level(logging.ERROR, "mcpwire"):
        async with (
            asyncio.timeout(BOUND_S),
            mcpwire.Client(target, on_notification=fail) as client,
        ):
            assert (await client.call_tool("x")).text == "ok"
    assert received == ["x/y"] * 20
    assert caplog.text.count("raised") == 20


# A peer that does not read...


@pytest.fixture
async def unread():
    """Yield a channel and the descriptor from which its output can be read."""
    never, hold = os.pipe()
    read, write = os.pipe()
    channel = PipeDuplex(Mock(), never, write)
    yield channel, read
    await channel.aclose()
    os.close(hold)
    os.close(read)


@pytest.mark.fault("F07")
async def test_queue_of_small_lines_uses_about_their_size(unread):
    channel, _ = unread
    large = {"text": "a" * 100_000}
    channel.notify_nowait("x/y", large)  # fills the pipe
    with traced_memory() as memory:
        for _ in range(8_000):
            channel.notify_nowait("x/y")
    lines = [notification("x/y", large), *[notification("x/y", None)] * 8_000]
    waiting = sum(len(encode(line)) + 1 for line in lines) - channel.bytes_sent
    assert memory.held < 2 * waiting, (memory.held, waiting)
