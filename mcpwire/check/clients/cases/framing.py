"""Lines over stdio, and the life of the server's process."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Start, since
from mcpwire.check.clients.cases._forms import (
    answer_with,
    before_first_answer,
    need_ending,
    need_operation,
    observed_case,
    of_messages,
    undisturbed_case,
)
from mcpwire.check.clients.subject import SETTING_UP, make_message
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.check.clients.subject import ClientSubject, Exchange, PipeConnection
    from mcpwire.check.subject import Message

FAMILY: Final = Family("framing", defaults={"role": "client", "transports": ("stdio",)})

_STDIO: Final = "basic/transports#stdio"
_BOM: Final = b"\xef\xbb\xbf"
_TEXT: Final = "\u00e9 \U0001f600 \u2028 \u2029 \x85"

once = FAMILY.with_defaults(is_once=True)
own = FAMILY.with_defaults(start=Start.OWN, is_once=True)


# --- lines of the client --------------------------------------------------------------


@observed_case(
    FAMILY.must,
    "C-TR-STDIO-01.a",
    "each line of the client is one message",
    source=_STDIO,
    rules=("TR-STDIO-03",),
    expects="lines of JSON, without line feeds within a message",
    why="servers drop the line, or end",
)
@of_messages
def _is_invalid_line(message: Message) -> bool:
    return bool(message.problem)


@observed_case(
    FAMILY.must,
    "C-RPC-02.a",
    "the client's messages are UTF-8, without a byte order mark",
    transports=("stdio", "http"),
    revisions=since("2025-03-26"),
    source="basic/transports",
    expects="UTF-8",
    why="servers refuse the message, or read other characters",
)
def _not_utf8(client: ClientSubject) -> object:
    inputs = [bytes(c.received) for c in client.connections]
    for data in [*inputs, *(request.body for request in client.requests)]:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return data[max(0, error.start - 40) : error.end + 40]
        if data.startswith(_BOM):
            return data[:80]
    return None


# --- lines of the server --------------------------------------------------------------


def _with_text(message: dict[str, Any], text: str = _TEXT) -> dict[str, Any]:
    """Return an answer with a text in the `_meta` of its result."""
    meta = {**message["result"].get("_meta", {}), "mcpwire.example/text": text}
    return {**message, "result": {**message["result"], "_meta": meta}}


_PAUSE_S: Final = 0.002
"""Pause between two parts of a line, so that the client reads them separately.

If it still reads them together, the case tests less, and passes.
"""


@undisturbed_case(
    once.robust,
    "C-F11.a",
    "a line of the server may arrive in parts, split anywhere",
    rules=("TR-STDIO-01",),
    sends="each answer in parts, also split within a character and before the line end",
    why="answers across a buffer boundary are lost",
)
@answer_with
async def _write_in_parts(exchange: Exchange, message: dict[str, Any]) -> None:
    text = "\u00e9 \U0001f600"
    line = encode(_with_text(message, text)) + b"\n"
    start = line.index(text.encode())
    cuts = [0, 1, *range(start, start + 7), len(line) - 2, len(line) - 1, len(line)]
    parts = [line[begin:end] for begin, end in pairwise(cuts)]
    assert exchange.pipe is not None, "this case runs over stdio"
    await exchange.pipe.write(*parts, pause_s=_PAUSE_S)


async def _write_together(exchange: Exchange, message: dict[str, Any]) -> None:
    log = {"level": "info", "data": "mcpwire"}
    line = encode(make_message("notifications/message", log)) + b"\n"
    data = line * 3 + encode(message) + b"\n" + line
    assert exchange.pipe is not None, "this case runs over stdio"
    await exchange.pipe.write(data + line[:20], line[20:])


undisturbed_case(
    once.robust,
    "C-F11.b",
    "several lines of the server may arrive at once",
    revisions=LEGACY,
    sends="each answer in one write with log messages before and after it",
    why="answers that follow a notification are lost or late",
)(answer_with(_write_together, is_handshake=False))


@undisturbed_case(
    once.robust,
    "C-F12.a",
    "lines may end with CR LF, and blank lines are ignored",
    sends="each answer with CR LF at its end, between blank lines",
    why="servers on Windows write such lines",
)
@answer_with
async def _write_crlf(exchange: Exchange, message: dict[str, Any]) -> None:
    await exchange.write(b"\r\n\n" + encode(message) + b"\r\n \n")


@undisturbed_case(
    once.robust,
    "C-F12.b",
    "lines of the server that are no messages are ignored",
    sends="lines of text and of other JSON values around each answer",
    why="one `print` in a server ends all calls",
)
@answer_with
async def _write_text_lines(exchange: Exchange, message: dict[str, Any]) -> None:
    await exchange.write(b"Server started.\n{ 'level': 'info' }\n[1]\n")
    await exchange.write(encode(message) + b"\nnull\n")


@undisturbed_case(
    once.robust,
    "C-F13.a",
    "a line that is not UTF-8 is ignored",
    sends="a line of text in Latin-1 before each answer",
    why="one log line of a server ends all calls",
)
@answer_with
async def _write_invalid_utf8(exchange: Exchange, message: dict[str, Any]) -> None:
    await exchange.write(b"caf\xe9 \xff\x00\n" + encode(message) + b"\n")


@undisturbed_case(
    once.robust,
    "C-F13.b",
    "a byte order mark before the first line is ignored",
    sends="a byte order mark before the first answer",
    why="servers on Windows write one",
)
def _start_with_bom(client: ClientSubject) -> None:
    client.on_connect = lambda connection: connection.write(_BOM)


@undisturbed_case(
    once.robust,
    "C-F13.c",
    "only a line feed ends a line; characters may be escaped",
    rules=("TR-STDIO-01",),
    sends="U+2028, U+2029 and U+0085 in each answer, and an escaped surrogate pair",
    why="text from web pages splits the message",
)
@answer_with
async def _write_unicode(exchange: Exchange, message: dict[str, Any]) -> None:
    lines = b"\x0b \x0c \x1c \x1e".decode()  # str.splitlines splits there
    line = encode(_with_text(message, f"{_TEXT} \ud7ff \uffff {lines} SMILE"))
    await exchange.write(line.replace(b"SMILE", b"\\ud83d\\ude00 \\u00e9 \\/") + b"\n")


async def _write_long_line(exchange: Exchange, message: dict[str, Any]) -> None:
    await exchange.write(encode(_with_text(message, "x" * 8_000_000)) + b"\n")


@undisturbed_case(
    once.robust,
    "C-A16.a",
    "a line of the server may have 8 MB",
    sends="an answer of 8 MB",
    why="results with images and files are lost, and the connection with them",
    is_quick=False,
)
def _first_answer_long(client: ClientSubject) -> None:
    answer_with(_write_long_line, is_handshake=False)(client)
    client.first = next(iter(client.answers.values()))
    client.answers = {}


# --- stderr of the server -------------------------------------------------------------


@undisturbed_case(
    FAMILY.should,
    "C-TR-STDIO-05.a",
    "text on stderr is no error",
    revisions=since("2025-11-25"),
    source=_STDIO,
    sends="a line with `ERROR` on stderr before an answer",
    why="servers log to stderr, and clients give up",
)
@before_first_answer
async def _write_errors(exchange: Exchange) -> None:
    await asyncio.gather(
        *(
            connection.write_stderr(b"ERROR: Traceback (most recent call last):\n")
            for connection in exchange.client.connections
        )
    )


@undisturbed_case(
    once.robust,
    "C-A16.b",
    "much text on stderr does not block the server",
    rules=("TR-STDIO-05",),
    sends="half a megabyte on stderr before the handshake, and again before an answer",
    why="calls hang as soon as a server has logged 64 KiB",
)
def _flood_stderr(client: ClientSubject) -> None:
    need_operation(client)
    text = b"".join(b"log line %d of the server\n" % i for i in range(20_000))

    async def write(connection: PipeConnection) -> None:
        await connection.write_stderr(text)

    async def answer(exchange: Exchange) -> None:
        for connection in client.connections:
            await connection.write_stderr(text)
        await exchange.correct()

    client.on_connect = write
    client.first = answer


# --- life of the process --------------------------------------------------------------


def _ended_too_early(client: ClientSubject) -> object:
    need_ending(client)
    for connection in client.connections:
        if not connection.input_ended.is_set():
            return f"{'' if connection.terminated else 'no '}SIGTERM, no end of stdin"
    return None


def _add_shutdown_cases(revisions: tuple[str, ...], rule: str, source: str) -> None:
    observed_case(
        FAMILY.should,
        f"C-{rule}.a",
        "at its end a client first closes the server's stdin",
        revisions=revisions,
        source=source,
        expects="the end of stdin, before any signal",
        why="servers lose what they have not saved",
    )(_ended_too_early)

    @own.should(
        f"C-{rule}.b",
        "a client ends a server that ignores the end of its stdin and SIGTERM",
        revisions=revisions,
        source=source,
        sends="nothing: the server keeps running",
        expects="the process has ended before the client ends",
        why="processes accumulate on the user's machine",
        is_quick=False,
    )
    async def stubborn_server(client: ClientSubject) -> None:
        need_ending(client)
        client.keeps_processes = True
        client.run_s += 30.0
        await client.run(must_end=True)
        if client.left_processes:
            client.raise_broken(
                "no process of the server after the end of the client",
                "the process was still running",
            )


_add_shutdown_cases(LEGACY, "LIFE-12", "basic/lifecycle#shutdown")
_add_shutdown_cases(MODERN, "TR-STDIO-12", "basic/transports/stdio#shutdown")


@own.robust(
    "C-F02.a",
    "a client whose server exits at once ends",
    sends="the exit of the process with code 1",
    expects="the client ends, without a signal",
    why="the client hangs if a server cannot start",
)
async def exit_at_once(client: ClientSubject) -> None:
    need_ending(client)
    client.on_connect = lambda connection: connection.exit(1)
    await client.run(must_end=True)


async def _run_without_answer(
    client: ClientSubject, end: Callable[[PipeConnection], Awaitable[object]]
) -> None:
    need_operation(client)
    need_ending(client)

    async def handle(_: Exchange) -> None:
        for connection in client.connections:
            await end(connection)

    client.first = handle
    await client.run(must_end=True)
    client.need_first_request()


@own.robust(
    "C-F04.a",
    "a client whose server exits during a request does not wait for the answer",
    sends="the exit of the process with code 1, in place of an answer",
    expects="the client ends, without a signal",
    why="calls hang after the crash of a server",
)
async def exit_in_a_request(client: ClientSubject) -> None:
    await _run_without_answer(client, lambda connection: connection.exit(1))


@own.robust(
    "C-F05.a",
    "a client whose server closes its stdout does not wait for the answer",
    rules=("LIFE-13",),
    sends="the end of stdout in place of an answer; the process keeps running",
    expects="the client ends, without a signal",
    why="calls hang after the crash of a server behind a wrapper",
)
async def closed_output(client: ClientSubject) -> None:
    await _run_without_answer(client, lambda connection: connection.close_output())


_ATTEMPTS: Final = 3
"""A request that crosses the exit is lost, which a client cannot see."""


@own.should(
    "C-TR-STDIO-14.a",
    "a client restarts a server that exits between two requests",
    revisions=MODERN,
    source="basic/transports/stdio#unexpected-termination",
    sends="the exit of the process with code 1, after the first answer",
    expects="another process",
    why="one crash of a server makes its tools unusable until somebody restarts both",
)
async def exit_after_an_answer(client: ClientSubject) -> None:
    need_operation(client)
    if len(client.facts.sent) < 3:  # the handshake and one request
        client.raise_absent("second request")

    async def answer(exchange: Exchange) -> None:
        await exchange.correct()
        assert exchange.pipe is not None, "this case runs over stdio"
        await exchange.pipe.exit(1)

    is_observed = False
    run = client
    for _ in range(_ATTEMPTS):
        run.first = answer
        await run.run()
        run.need_first_request()
        if len(run.connections) > 1:
            return
        requests = run.connections[0].messages
        sent = [m for m in requests if m.method and "id" in m.value]
        is_observed |= sum(m.method not in SETTING_UP for m in sent) == 1
        run = client.again()
    if not is_observed:
        client.raise_absent("request while no other one is open")
    client.raise_broken("another process", client.ending)
