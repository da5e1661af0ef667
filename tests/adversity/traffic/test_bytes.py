"""Bytes as peers deliver them: huge, split anywhere, between noise, invalid."""

import asyncio
import logging
import os
from unittest.mock import Mock

import pytest
from scripted import ECHO_LOOP, scripted
from traced_memory import traced_memory

import mcpwire
from mcpwire.wire.jsonrpc import LineDecoder

MIB = 2**20

# A child that waits until all it wrote has been read: a split stays a split.
WAITING = """
import fcntl, struct, termios
def unread():
    return struct.unpack("i", fcntl.ioctl(1, termios.FIONREAD, bytes(4)))[0]
def until_read():
    while unread(): time.sleep(0.0002)
def line(request, text):
    result = {"content": [{"type": "text", "text": text}]}
    message = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    return (json.dumps(message, ensure_ascii=False) + "\\n").encode()
"""

# Each class of code points that some line readers handle wrongly.
TROUBLE = (
    "\x00\x08\t\n\x0b\x0c\r\r\n\x1c\x1d\x1e\x1f\x7f\x80\x85\xa0\xad\u2028\u2029\u200b"
    "\u200e\ufeff\ufffd\ufffe\uffff\U0001f600\U0001f468\u200d\U0001f469\U0010ffff"
)

PIPE = 2**16
"""The capacity of a pipe, and the maximum of one read."""

ANSWER = (
    b'{"jsonrpc": "2.0", "id": 2, '
    b'"result": {"content": [{"type": "text", "text": "|"}]}}\n'
)


@pytest.mark.pain("P13")
async def test_each_byte_of_a_huge_line_is_copied_once(monkeypatch):
    """Linear by structure; tests/wire/test_lines shows it for the decoder itself.

    `benchmarks/bench_large.py` measures the time: twice the bytes, twice the
    time, up to 32 MiB.
    """
    target = scripted(
        WAITING + "handshake()\nwhile True:\n"
        "    m = recv(); size = m['params']['arguments']['size']\n"
        "    head, tail = line(m, '|').split(b'|')\n"
        "    raw(head); raw(memoryview(b'a' * size)); raw(tail)"
    )
    fed = []
    places = set()
    feed = LineDecoder.feed

    def counted(decoder, data):
        fed.append(len(data))
        lines = feed(decoder, data)
        if not lines:
            places.add(id(decoder._partial))
        return lines

    async with mcpwire.Client(
        target, limits=mcpwire.Limits(message=100 * MIB)
    ) as client:
        monkeypatch.setattr(LineDecoder, "feed", counted)
        result = await client.call_tool("x", {"size": 66 * MIB})
        monkeypatch.undo()
    assert len(result.text) == 66 * MIB
    around = len(ANSWER) - len("|")
    assert sum(fed) == 66 * MIB + around
    assert len(fed) > 66 * MIB // PIPE
    assert len(places) == 1


@pytest.mark.system("V22")
@pytest.mark.pain("P13")
@pytest.mark.attack("S15", "S16")
async def test_line_over_the_limit_uses_under_three_times_the_limit():
    limit = 4 * MIB
    target = scripted(
        "handshake()\na, b = recv(), recv()\ntext(a, 'small')\n"
        f"text(b, 'a' * {limit})\nrecv()"
    )
    async with mcpwire.Client(target, limits=mcpwire.Limits(message=limit)) as client:
        with traced_memory() as memory:
            small, large = await asyncio.gather(
                client.call_tool("a"), client.call_tool("b"), return_exceptions=True
            )
    assert small.text == "small"
    assert type(large) is mcpwire.ConnectionClosed
    assert f"{limit} bytes" in str(large)
    assert type(large.__cause__) is mcpwire.MessageTooLarge
    assert limit < memory.peak < 3 * limit


@pytest.mark.system("V22")
@pytest.mark.pain("P13")
@pytest.mark.parametrize("over", [0, 1])
async def test_message_size_limit_is_exact(over):
    target = scripted(
        WAITING + "handshake()\nm = recv()\n"
        f"raw(line(m, 'a' * (100_000 - len(line(m, '')) + 1 + {over})))\nrecv()"
    )
    async with mcpwire.Client(target, limits=mcpwire.Limits(message=100_000)) as client:
        if over:
            with pytest.raises(mcpwire.ConnectionClosed) as caught:
                await client.call_tool("x")
            assert type(caught.value.__cause__) is mcpwire.MessageTooLarge
            assert caught.value.__cause__.limit == 100_000
        else:
            assert (await client.call_tool("x")).text.startswith("aaa")


@pytest.mark.pain("P14")
@pytest.mark.fault("F10", "F11")
async def test_response_split_at_any_offset_is_read_correctly():
    target = scripted(
        WAITING + "handshake()\ncut = 0\n"
        "while True:\n"
        "    m = recv()\n"
        "    data = line(m, m['params']['arguments']['text'])\n"
        "    cut += 1\n"
        "    raw(data[:cut]); until_read(); raw(data[cut:])\n"
    )
    async with mcpwire.Client(target) as client:
        for _ in range(6 * len(TROUBLE) + 100):  # no line is longer
            assert (await client.call_tool("x", {"text": TROUBLE})).text == TROUBLE
        assert client.stats.noise_lines == client.stats.invalid_messages == 0


@pytest.mark.pain("P14")
@pytest.mark.parametrize("escaped", [False, True])
async def test_every_code_point_makes_a_round_trip(escaped):
    answer = "text(m, t)" if escaped else "raw(line(m, t))"
    target = scripted(
        WAITING + "handshake()\nwhile True:\n"
        f"    m = recv(); t = m['params']['arguments']['text']; {answer}"
    )
    async with mcpwire.Client(target) as client:
        for plane in (0, 1, 16) if escaped else range(17):
            codes = range(plane << 16, (plane + 1) << 16)
            text = "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)
            assert (await client.call_tool("x", {"text": text})).text == text


@pytest.mark.pain("P14")
async def test_crlf_and_a_missing_last_newline_are_accepted():
    target = scripted(
        WAITING + "handshake()\n"
        "m = recv(); raw(line(m, 'crlf')[:-1] + b'\\r\\n')\n"
        "m = recv(); raw(line(m, 'unterminated')[:-1])\nos._exit(0)"
    )
    async with mcpwire.Client(target) as client:
        assert (await client.call_tool("x")).text == "crlf"
        assert (await client.call_tool("x")).text == "unterminated"
        assert client.stats.noise_lines == 0


@pytest.mark.fault("F10")
async def test_waiting_for_the_rest_of_a_line_uses_no_cpu(monkeypatch):
    target = scripted(
        WAITING + "handshake()\n"
        "m = recv(); data = line(m, 'whole')\n"
        "raw(data[:20]); until_read(); os.write(2, b'half')\n"
        "recv()\n"  # nothing more before the client says go
        "raw(data[20:]); recv()"
    )
    half = asyncio.Event()
    target = mcpwire.Stdio(
        target.command, target.args, stderr=lambda data: half.set() if data else None
    )
    async with mcpwire.Client(target) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await half.wait()
        with monkeypatch.context() as patch:
            patch.setattr(os, "read", Mock(side_effect=os.read))
            for _ in range(1000):
                await asyncio.sleep(0)  # an iteration of the loop
            assert os.read.call_count == 0  # no loop iteration was spent on it
        await client.notify("x/go")
        assert (await call).text == "whole"


BANNER = "raw(b'Welcome!\\nListening on stdio\\n')\nhandshake()\n" + ECHO_LOOP
DEBUG = (
    "handshake()\nwhile True:\n    m = recv(); raw(b'debug: called\\n'); text(m, 'ok')"
)


@pytest.mark.pain("P15")
@pytest.mark.parametrize(
    ("body", "quoted"),
    [(BANNER, ("Welcome!", "2 line(s)")), (DEBUG, ("debug: called",))],
    ids=["at the start", "later"],
)
async def test_noise_is_logged_once_as_a_warning_that_quotes_it(body, quoted, caplog):
    with caplog.at_level(logging.WARNING, "mcpwire"):
        async with mcpwire.Client(scripted(body)) as client:
            for _ in range(5):
                await client.call_tool("x")
    (warning,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert all(words in warning.getMessage() for words in quoted)


@pytest.mark.pain("P17")
@pytest.mark.attack("S14")
@pytest.mark.parametrize("at", ["value", "key"])
async def test_lone_surrogate_is_refused_before_writing(at):
    arguments = {"text": "a\ud800"} if at == "value" else {"a\udfff": 1}
    target = scripted("handshake()\n" + ECHO_LOOP)
    async with mcpwire.Client(target) as client:
        sent = client.stats.bytes_sent
        with pytest.raises(mcpwire.LocalProtocolError):
            await client.call_tool("x", arguments)
        assert client.stats.bytes_sent == sent
        assert (await client.call_tool("x", {"text": "fine"})).text == "fine"


@pytest.mark.pain("P17")
@pytest.mark.fault("F13")
@pytest.mark.attack("S12")
@pytest.mark.parametrize(
    "junk",
    [
        *("bytes(range(256))", "b'\\x00' * 10", "b'\\xef\\xbb\\xbf'", "b'\\xc3\\x28'"),
        *("b'\\xed\\xa0\\x80'", "b'[' * 100_000", "b'{\"a\":' * 100_000"),
        *('b\'{"jsonrpc":"2.0","id":1e400,"result":{}}\'', "b'\"' + b'x' * 100_000"),
        "b'9' * 100_000",
    ],
)
async def test_line_of_junk_does_not_affect_other_lines(junk):
    target = scripted(
        f"handshake()\nm = recv(); raw({junk} + b'\\n'); text(m, 'ok')\n" + ECHO_LOOP
    )
    async with mcpwire.Client(target) as client:
        assert (await client.call_tool("x")).text == "ok"
        assert (await client.call_tool("x", {"text": "more"})).text == "more"
