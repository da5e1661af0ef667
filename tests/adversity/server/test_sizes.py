"""Large or slow bodies use no unbounded resources."""

import contextlib
import json

import pytest
from attacked_server import build
from hosted import call
from raw_sockets import connected, port_of, raw, rest, served, socket_request
from wires import resident

from mcpwire import Limits

KIB = 1024
LIMITS = Limits(body=64 * KIB, body_timeout=0.3)


BUFFERED = 8 * 1024 * KIB
"""How much the kernel's buffers on both sides may hold."""


async def flood(writer, piece, maximum):
    """Send a piece repeatedly; return how many bytes the server accepted."""
    accepted = 0
    with contextlib.suppress(OSError):
        while accepted < maximum and not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            accepted += len(piece)
    return accepted


@pytest.mark.attack("S13")
@pytest.mark.case("D14")
async def test_body_is_not_read_beyond_its_limit():
    async with served(build(limits=LIMITS)) as (url, _):
        port, before = port_of(url), resident("self")
        for length in (64 * KIB + 1, 2**40, 10**30):
            async with connected(port) as (reader, writer):
                writer.write(raw(b"", content_length=str(length)))
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert head.startswith((b"http/1.1 400 ", b"http/1.1 413 ")), length
                assert b"connection: close" in head
                piece = b"x" * 64 * KIB
                assert await flood(writer, piece, 64 * BUFFERED) <= 2 * BUFFERED
        coded = raw(b"", content_length=None, transfer_encoding="chunked")
        for chunk in (
            b"10000\r\n" + b"x" * 64 * KIB + b"\r\n",
            b"1\r\nx\r\n" * 8 * KIB,
            b"ffffffff\r\n" + b"x" * 64 * KIB,
        ):
            async with connected(port) as (reader, writer):
                writer.write(coded)
                assert await flood(writer, chunk, 64 * BUFFERED) <= 2 * BUFFERED
                # After much unread data, the reset may overtake the response.
                assert (await rest(reader))[:12] in {
                    b"HTTP/1.1 413",
                    b"HTTP/1.1 400",
                    b"",
                }
        assert resident("self") - before < 2 * BUFFERED
        status, _, body = await socket_request(url, raw(call("after")))
        assert (status, json.loads(body)["id"]) == (200, "after")
