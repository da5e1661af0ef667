"""Requests with ambiguous framing (request smuggling), with both parsers of uvicorn.

A proxy in front of us may see another end than we do; what it reads as the body of one
request must not be another one here.
"""

import pytest
from attacked_server import build
from hosted import call
from raw_sockets import answer, connected, port_of, raw, rest, served


def marked(text, **fields):
    return raw(call(1, "mark", {"text": text}), connection=None, **fields)


TOP, _, OUTER = marked("outer", content_length=None).partition(b"\r\n\r\n")
INNER = marked("inner")
SIZE = len(OUTER)
CHUNK = b"%x\r\n" % SIZE + OUTER + b"\r\n0\r\n\r\n"


def framed(fields, body):
    return TOP + b"\r\n" + fields + b"\r\n\r\n" + body


LENGTH = b"Content-Length: %d" % SIZE
CODED = b"Transfer-Encoding: chunked"

DISPUTED = {
    "both, the length reaches further": framed(
        b"Content-Length: %d\r\n" % len(CHUNK + INNER) + CODED, CHUNK + INNER
    ),
    "both, the chunks reach further": framed(
        CODED + b"\r\nContent-Length: 5", CHUNK + INNER
    ),
    "both, no chunk": framed(
        b"Content-Length: %d\r\n" % (5 + len(INNER)) + CODED, b"0\r\n\r\n" + INNER
    ),
    "two lengths": framed(
        LENGTH + b"\r\nContent-Length: %d" % (SIZE + len(INNER)), OUTER + INNER
    ),
    "a list of lengths": framed(LENGTH + b", 5", OUTER + INNER),
    "a length with a sign": framed(b"Content-Length: +%d" % SIZE, OUTER + INNER),
    "a length below zero": framed(b"Content-Length: -%d" % SIZE, OUTER + INNER),
    "a length in hexadecimal": framed(b"Content-Length: 0x%x" % SIZE, OUTER + INNER),
    "a length with a line below": framed(b"Content-Length: 1_0", OUTER + INNER),
    "no digits": framed(b"Content-Length: ", OUTER + INNER),
    "space before the colon": framed(b"Content-Length : %d" % SIZE, OUTER + INNER),
    "another coding": framed(b"Transfer-Encoding: xchunked", CHUNK + INNER),
    "no coding": framed(b"Transfer-Encoding: identity", CHUNK + INNER),
    "two codings": framed(b"Transfer-Encoding: gzip, chunked", CHUNK + INNER),
    "not chunked last": framed(b"Transfer-Encoding: chunked, gzip", CHUNK + INNER),
    "two fields of codings": framed(
        b"Transfer-Encoding: identity\r\n" + CODED, CHUNK + INNER
    ),
    "chunked and not": framed(
        CODED + b"\r\nTransfer-Encoding: identity", CHUNK + INNER
    ),
    "space before the coding's colon": framed(
        b"Transfer-Encoding : chunked", CHUNK + INNER
    ),
    "a control before the coding": framed(
        b"Transfer-Encoding: \x0bchunked", CHUNK + INNER
    ),
    "a bare line feed": framed(b"X: a\nContent-Length: 5\r\n" + LENGTH, OUTER + INNER),
    "a bare return": framed(b"X: a\rContent-Length: 5\r\n" + LENGTH, OUTER + INNER),
    "a NUL": framed(b"X: a\0b\r\n" + LENGTH, OUTER + INNER),
    "a NUL in a name": framed(b"X\0: a\r\n" + LENGTH, OUTER + INNER),
    "no colon": framed(b"X\r\n" + LENGTH, OUTER + INNER),
    "no name": framed(b": x\r\n" + LENGTH, OUTER + INNER),
    "a chunk below zero": framed(CODED, b"-5\r\n" + OUTER + INNER),
    "a chunk in other digits": framed(CODED, b"0x" + CHUNK + INNER),
    "a chunk of 2**68": framed(CODED, b"1" * 18 + b"\r\n" + OUTER + INNER),
    "an extension over lines": framed(
        CODED, b"%x;a=\n" % SIZE + OUTER + b"\r\n0\r\n\r\n" + INNER
    ),
    "a chunk after a line feed": framed(
        CODED, b"%x\n" % SIZE + OUTER + b"\n0\n\n" + INNER
    ),
    "no line after a chunk": framed(
        CODED, b"%x\r\n" % SIZE + OUTER + b"XX0\r\n\r\n" + INNER
    ),
}

AGREED = {
    "a length": framed(LENGTH, OUTER),
    "chunks": framed(CODED, CHUNK),
    "a coding in capitals": framed(b"Transfer-Encoding: CHUNKED", CHUNK),
}


def build_marking_server():
    """Return a server, and the list of arguments of its tool calls."""
    ran = []
    server = build()

    @server.tool
    async def mark(text: str) -> str:
        ran.append(text)
        return text

    return server, ran


@pytest.mark.attack("S33")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("parser", [None, "h11"])
async def test_ambiguously_framed_request_closes_the_connection(parser):
    server, ran = build_marking_server()
    options = {} if parser is None else {"uvicorn": {"http": parser}}
    async with served(server, **options) as (url, _):
        for name, data in DISPUTED.items():
            async with connected(port_of(url)) as (reader, writer):
                writer.write(data)
                writer.write_eof()
                output = await rest(reader)
            assert ran == [], name
            statuses = [each[:3] for each in output.split(b"HTTP/1.1 ")[1:]]
            assert statuses in ([b"400"], []), name
        for name, data in AGREED.items():
            async with connected(port_of(url)) as (reader, writer):
                writer.write(data + INNER)
                assert [(await answer(reader))[0] for _ in range(2)] == [200, 200]
            assert ran == ["outer", "inner"], name
            ran.clear()


@pytest.mark.attack("S33")
async def test_request_after_a_refused_one_is_read_separately():
    server, ran = build_marking_server()
    # A refused request must not smuggle in the next one.
    evil = marked("one", host="evil.example")
    async with served(server) as (url, _), connected(port_of(url)) as (reader, writer):
        for data, statuses in ((evil * 2, [403, 403]), (INNER, [200])):
            writer.write(data)
            assert [(await answer(reader))[0] for _ in statuses] == statuses
    assert ran == ["inner"]
