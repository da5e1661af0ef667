"""Large or slow bodies use no unbounded resources."""

import json

import pytest
from attacked_server import build
from sockets import Line, call, raw, served
from wires import resident

from mcpwire import Limits

KIB = 1024
LIMITS = Limits(body=64 * KIB, body_timeout=0.3)


BUFFERED = 8 * 1024 * KIB
"""How much the kernel's buffers on both sides may hold."""


async def flood(line, piece, maximum):
    """Send a piece repeatedly; return how many bytes the server accepted."""
    accepted = 0
    while accepted < maximum and await line.send(piece):
        accepted += len(piece)
    return accepted


async def still_serves(port):
    async with Line(port) as line:
        await line.send(raw(call("after")))
        status, _, body = await line.answer()
    assert (status, json.loads(body)["id"]) == (200, "after")


@pytest.mark.attack("S13")
@pytest.mark.case("D14")
async def test_body_is_not_read_beyond_its_limit():
    async with served(build(limits=LIMITS)) as port:
        before = resident("self")
        for length in (64 * KIB + 1, 2**40, 10**30):
            async with Line(port) as line:
                await line.send(raw(b"", Content_Length=str(length)))
                status, head, _ = await line.answer()
                assert status in {400, 413}, length
                assert b"connection: close" in head
                assert await flood(line, b"x" * 64 * KIB, 64 * BUFFERED) <= 2 * BUFFERED
        coded = raw(b"", Content_Length=None, Transfer_Encoding="chunked")
        piece = b"10000\r\n" + b"x" * 64 * KIB + b"\r\n"
        for chunk in (
            piece,
            b"1\r\nx\r\n" * 8 * KIB,
            b"ffffffff\r\n" + b"x" * 64 * KIB,
        ):
            async with Line(port) as line:
                await line.send(coded)
                assert await flood(line, chunk, 64 * BUFFERED) <= 2 * BUFFERED
                # After much unread data, the reset may overtake the response.
                assert (await line.answer())[0] in {413, 400, None}
        assert resident("self") - before < 2 * BUFFERED
        await still_serves(port)
