"""Framing over stdio: partial and combined lines, line ends, encoding, size."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family, NoAnswer, PeerDied, Start, since
from mcpwire.check.cases._calls import echo_params, texts_of
from mcpwire.check.cases._exchange import (
    AnyOf,
    Error,
    Octets,
    Refusal,
    Result,
    Silence,
    add_exchange_case,
    request_with_value,
    rewritten_request,
)
from mcpwire.testing.procfs import resident_memory
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("framing")

LARGE_TIMEOUT_S: Final = 10.0  # limit for the answer to many lines or a long line
_PAUSE_S: Final = 0.001
"""Pause between two parts of a line, so that the server reads them separately.

If the server still reads them together, the case tests less, and passes.
"""

_MAX_DELAY_S: Final = 1.0
"""Maximum delay of an answer after the answer to a later request."""

case = FAMILY.with_defaults(transports=("stdio",))
hostile = case.with_defaults(
    start=Start.OWN, is_once=True, is_hostile=True, bound_s=60.0
)


async def _write(subject: Subject, data: bytes) -> None:
    subject.last_sent = data
    await subject.need_stdio().write(data)


async def _write_parts(subject: Subject, *parts: bytes) -> None:
    for part in parts:
        await _write(subject, part)
        await asyncio.sleep(_PAUSE_S)


# --- partial and combined lines -------------------------------------------------------


@case.robust(
    "A11.a",
    "a line may arrive in two parts, split anywhere",
    sends="about forty requests, each in two parts and split at a different byte, also "
    "within a character",
    expects="an answer to each",
    why="requests across a buffer boundary are sometimes lost",
)
async def every_split(subject: Subject) -> None:
    barrier = subject.facts.barrier
    params = {"_meta": {"a": "\u00e9\U0001f600"}}
    line = encode(subject.message(barrier, params, id=subject.next_id()))
    size, start = len(line), line.index(b"\xc3")
    cuts = {subject.random.randint(1, size) for _ in range(30)}
    for index in sorted(cuts | {1, size - 1, size} | set(range(start, start + 7))):
        id = subject.next_id()
        line = encode(subject.message(barrier, params, id=id)) + b"\n"
        await _write_parts(subject, line[:index], line[index:])
        await subject.wait_answer(id)  # A11.e sends input while the server writes


@case.robust(
    "A11.b",
    "a line may arrive byte by byte",
    sends="one request, its first and last sixteen bytes one by one",
    expects="an answer",
    why="requests over a slow pipe are lost",
)
async def byte_by_byte(subject: Subject) -> None:
    id = subject.next_id()
    line = encode(subject.message(subject.facts.barrier, id=id)) + b"\n"
    ends = [line[i : i + 1] for i in range(16)], [line[i:][:1] for i in range(-16, 0)]
    await _write_parts(subject, *ends[0], line[16:-16], *ends[1])
    await subject.wait_answer(id)


async def _write_many(subject: Subject, count: int) -> None:
    ids = [subject.next_id() for _ in range(count)]
    messages = [subject.message(subject.facts.barrier, id=id) for id in ids]
    await _write(subject, b"".join(encode(each) + b"\n" for each in messages))
    await subject.wait_answer(ids[-1], timeout=LARGE_TIMEOUT_S)
    for id in ids:
        await subject.wait_answer(id)
        subject.expect_one_answer(id, f"one answer to {id}")


@case.robust(
    "A11.c",
    "one hundred lines may arrive at once",
    sends="one hundred requests in one write",
    expects="one answer to each",
    why="lines after the first one in a buffer are lost or late",
)
async def a_hundred_at_once(subject: Subject) -> None:
    await _write_many(subject, 100)


@case.robust(
    "A11.d",
    "a thousand lines may arrive at once",
    sends="a thousand requests in one write, twice",
    expects="one answer to each",
    why="a client that starts with many calls blocks forever",
    is_quick=False,
    bound_s=40.0,
)
async def a_thousand_at_once(subject: Subject) -> None:
    for _ in range(2):
        await _write_many(subject, 1000)


@case.robust(
    "A11.e",
    "the end of one line and the start of the next may arrive together",
    sends="three requests, split within the first and the last, ten times",
    expects="an answer to each",
    why="requests across a buffer boundary are sometimes lost",
)
async def lines_across_writes(subject: Subject) -> None:
    barrier = subject.facts.barrier
    for _ in range(10):
        ids = [subject.next_id() for _ in range(3)]
        data = b"".join(encode(subject.message(barrier, id=i)) + b"\n" for i in ids)
        await _write_parts(subject, data[:30], data[30:-30], data[-30:])
        for id in ids:
            await subject.wait_answer(id)


# --- line ends and white space --------------------------------------------------------

add_exchange_case(
    case.robust,
    "A09.a",
    "a line may end with CR LF",
    send=rewritten_request(lambda line: line + b"\r", "a request that ends with CR LF"),
    expect=Result(),
    why="clients on Windows write such lines",
)

add_exchange_case(
    case.robust,
    "A09.b",
    "white space around and within a message is ignored",
    send=(
        rewritten_request(
            lambda line: b" \t" + line + b" \t ",
            "a request with spaces and tabs around it",
        ),
        rewritten_request(
            lambda line: line.replace(b",", b" ,\t "),
            "one with spaces and tabs between its tokens",
        ),
    ),
    expect=Result(),
    why="JSON allows it, and some encoders write it",
)

add_exchange_case(
    case.robust,
    "A01.a",
    "a carriage return between tokens does not end the line",
    rules=("TR-STDIO-01",),
    send=rewritten_request(
        lambda line: line.replace(b",", b",\r", 1),
        "a request with a CR between two tokens",
    ),
    expect=Result(),
    why="valid requests are split",
)

add_exchange_case(
    case.robust,
    "A01.b",
    "U+2028, U+2029 and U+0085 in a string do not end the line",
    rules=("TR-STDIO-01",),
    send=tuple(
        request_with_value(b'"a%sb"' % c.encode(), f"a string with U+{ord(c):04X}")
        for c in "\u2028\u2029\x85"
    ),
    expect=Result(),
    why="text from web pages splits the request",
)

add_exchange_case(
    case.robust,
    "A09.c",
    "blank lines are ignored or refused",
    send=(Octets(b"", "an empty line"), Octets(b"  \t ", "a line of spaces and a tab")),
    expect=AnyOf(Silence(), Error(-32700, -32600)),
    why="clients that send an extra newline break the connection",
)


@case.robust(
    "A09.d",
    "the last line before the end of the input needs no newline",
    start=Start.OWN,
    is_once=True,
    is_quick=False,
    sends="a request without a newline, then the end of the input, to each of 5 to 9 "
    "processes",
    expects="an answer from most of the processes",
    why="the request of `echo -n ... | server` is lost",
    bound_s=40.0,
)
async def last_line(subject: Subject) -> None:
    # A server that cancels its work at the end of its input answers only by chance, but
    # it has read the line. A server that exits at once loses the line most times.
    answered, lost = 0, 0
    while answered < 5:
        server = await subject.open_another() if answered or lost else subject
        id = server.next_id()
        subject.last_sent = encode(server.message(server.facts.barrier, id=id))
        try:
            await server.need_stdio().write_last(subject.last_sent)
            await server.wait_answer(id)
            answered += 1
        except (PeerDied, NoAnswer) as error:
            lost += 1
            if lost == 5 or not isinstance(error, PeerDied):
                subject.raise_broken(
                    "an answer before most processes end", error.actual
                )


# --- encoding -------------------------------------------------------------------------

add_exchange_case(
    FAMILY.robust,
    "A08.a",
    "invalid UTF-8 is refused or ignored",
    rules=("RPC-02",),
    revisions=since("2025-03-26"),
    send=(
        request_with_value(b'"aa\xffbb"', "a string with the byte FF"),
        request_with_value(b'"aa\xc3b"', "a truncated character"),
        request_with_value(b'"a\xed\xa0\x80b"', "an encoded surrogate"),
        request_with_value(b'"a\xc0\xaeb"', "a dot encoded in two bytes"),
    ),
    expect=AnyOf(Refusal(), Silence()),
    lenient=Result(),
    why="text is altered silently",
)

add_exchange_case(
    case.robust,
    "A08.b",
    "a line of invalid UTF-8 does not affect the next one",
    send=Octets(b"\xff\xfe\x80\x81", "a line of four bytes that are not UTF-8"),
    expect=AnyOf(Silence(), Error(-32700, -32600)),
    why="one invalid byte aborts all other calls",
)

add_exchange_case(
    FAMILY.robust,
    "A08.c",
    "a byte order mark before a message is skipped or refused",
    send=rewritten_request(
        lambda line: b"\xef\xbb\xbf" + line, "a request after a BOM"
    ),
    expect=AnyOf(Result(), Refusal()),
    why="calls hang if the client writes a byte order mark",
)


@case.robust(
    "A08.d",
    "a byte order mark at the start of the input is skipped",
    revisions=since("2024-11-05", "2025-11-25"),
    start=Start.RAW,
    is_once=True,
    is_quick=False,
    sends="`initialize` after a byte order mark, then without one",
    expects="a result for the first",
    why="clients whose encoder writes a byte order mark cannot connect",
    bound_s=40.0,
)
async def bom_at_start(subject: Subject) -> None:
    messages = [
        subject.message("initialize", subject.initialize_params(), id=id)
        for id in (1, 2)
    ]
    await _write(subject, b"\xef\xbb\xbf" + encode(messages[0]) + b"\n")
    await _write(subject, encode(messages[1]) + b"\n")
    await subject.wait_answer(2)
    await subject.wait_until(lambda: subject.answers_to(1), _MAX_DELAY_S)
    for answer in subject.answers_to(1):
        subject.expect("result" in answer.value, "a result", answer.raw)
        return
    subject.raise_broken("an answer to the first", "an answer to the second only")


add_exchange_case(
    FAMILY.robust,
    "A08.e",
    "a raw control character in a string is refused, or its message ignored",
    send=(
        request_with_value(b'"aa\x00bb"', "a string with the byte 00"),
        request_with_value(b'"aa\x1fbb"', "a string with the byte 1F"),
    ),
    expect=AnyOf(Refusal(), Silence()),
    lenient=Result(),
    why="JSON forbids it, and other parsers reject the whole message",
)

add_exchange_case(
    case.robust,
    "A08.f",
    "a NUL between messages does not end the connection",
    send=(Octets(b"\x00"), Octets(b"\x00\x00\x00\x00")),
    expect=AnyOf(Silence(), Error(-32700, -32600)),
    why="stray NUL bytes abort all other calls",
)

add_exchange_case(
    FAMILY.robust,
    "A08.g",
    "every JSON escape is accepted",
    send=request_with_value(
        rb'"a\u0000\n\r\t\b\f\/\\\"\u00e9\ud83d\ude00\u2028b"',
        "a request with escaped NUL, line ends, quotes and a surrogate pair",
    ),
    expect=Result(),
    why="clients that escape non-ASCII characters cannot use the server",
)

add_exchange_case(
    FAMILY.robust,
    "A08.h",
    "a lone surrogate does not end the connection",
    send=request_with_value(rb'"a\ud800b"', r"a request with \ud800 alone"),
    expect=AnyOf(Result(), Refusal()),
    why="such a string can be decoded but not encoded, so the answer fails",
)


@case.must(
    "TR-STDIO-01.a",
    "line ends in strings do not split server messages",
    source="basic/transports#stdio",
    rules=("RPC-02",),
    needs=("role:echo",),
    sends="a call to the `echo` tool with LF, CR, U+0085, U+2028, NUL and an emoji in "
    "its argument",
    expects="one answer, on one line",
    why="every multi-line text breaks the connection",
)
async def echoed_line_ends(subject: Subject) -> None:
    text = 'a\nb\r\nc\rd\x85e\u2028f\u2029g\u0000h"\\i\u00e9\U0001f600'
    start = len(subject.received)
    answer = await subject.request("tools/call", echo_params(subject, text))
    invalid = [each.raw for each in subject.received[start:] if each.problem]
    subject.expect(not invalid, "each line is a message", invalid[:1])
    if (answer.result or {}).get("isError") or answer.error is not None:
        subject.raise_absent("`echo` tool that accepts such text")
    if "\u00e9" not in texts_of(answer.message):
        # Only a tool that returns the text makes the server write its line ends.
        subject.raise_absent("`echo` tool that returns its text")


# --- size -----------------------------------------------------------------------------


async def _send_long_line(subject: Subject, size: int, timeout: float) -> None:
    id = subject.next_id()
    message = subject.message(
        subject.facts.barrier, {"_meta": {"com.example/x": "x" * size}}, id=id
    )
    await subject.send(message)
    subject.last_sent = b"a request of %d bytes" % size
    try:
        answer = await subject.wait_answer(id, timeout=timeout)
    except NoAnswer:
        await subject.barrier()
        subject.raise_broken(
            "a result or an error", "no answer, but one to the next request"
        )
    if answer.result is None:
        subject.raise_lenient("a result", answer)


@case.robust(
    "A10.a",
    "a request of one mebibyte is answered",
    sends="a request with a string of one mebibyte in its params",
    expects="a result; lenient: an error",
    why="a file or an image as an argument breaks the connection",
)
async def one_mebibyte(subject: Subject) -> None:
    await _send_long_line(subject, 1024 * 1024, LARGE_TIMEOUT_S)


@hostile.robust(
    "A10.b",
    "a request of 32 MiB is answered or refused",
    sends="a request with a string of 32 MiB in its params",
    expects="a result (lenient: an error), and an answer to the next request",
    why="one large message aborts all other calls",
)
async def large_line(subject: Subject) -> None:
    await _send_long_line(subject, 32 * 1024 * 1024, 40.0)
    await subject.barrier()


@hostile.robust(
    "A10.c",
    "an endless line does not exhaust the memory",
    sends="256 MiB without a newline",
    expects="the process exits, or uses less than 1 GiB",
    why="one client exhausts the memory of the machine",
)
async def endless_line(subject: Subject) -> None:
    stdio = subject.need_stdio()
    chunk = b"x" * (1024 * 1024)
    try:
        for _ in range(256):
            await stdio.write(chunk)
    except PeerDied:
        return
    memory = resident_memory(stdio.pid)
    if memory is None:
        subject.raise_absent("/proc")
    subject.expect(memory < 1 << 30, "less than 1 GiB", f"{memory >> 20} MiB")
