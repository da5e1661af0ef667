"""Attacks by `initialize`, trailers, an upgrade and malformed requests."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attacks.issuer import GOOD
from attacks.runner import FAILURES, Outcome, attack
from attacks.wire import call, chunked, head, initialize, post, stateless

if TYPE_CHECKING:
    from attacks.runner import AttackContext

MIB = 1024 * 1024
PIECE_SIZE = 64 * 1024
MANY_FIELDS = ("x-field: value\r\n" * (PIECE_SIZE // 16)).encode()


async def initialize_with(context: AttackContext, experimental: Any) -> Outcome:
    """Open 60 sessions with the experimental capabilities, and keep them open."""
    sessions = context.scale_count(60)
    request = post(context.port, initialize({"experimental": experimental}))
    answers = [await context.send_request(request) for _ in range(sessions)]
    opened = sum(answer is not None and bool(answer.session) for answer in answers)
    await context.hold(0.25)
    return Outcome(f"{opened} of {sessions} sessions opened", opened == 0)


INITIALIZE_BOUND = "64 KiB of `initialize` for each session, containers counted"


@attack("initialize with 3.9 MB", "X02", INITIALIZE_BOUND)
async def large_initialize(context: AttackContext) -> Outcome:
    """60 sessions with 3.9 MB in `capabilities.experimental`."""
    return await initialize_with(context, {"x": {"y": "z" * 3_900_000}})


@attack("initialize with 280,000 objects", "X02", INITIALIZE_BOUND)
async def initialize_of_objects(context: AttackContext) -> Outcome:
    """60 sessions with 280,000 empty objects in `capabilities.experimental`."""
    return await initialize_with(context, {"x": {"y": [{}] * 280_000}})


async def send_trailers(
    context: AttackContext, begin: bytes, piece: bytes, max_bytes: int
) -> Outcome:
    """Send trailers until the server closes, `max_bytes` are sent, or time is up."""
    connection = await context.connect()
    sent = 0
    deadline = time.monotonic() + 3 * context.size.hold
    with suppress(*FAILURES):
        await connection.send(chunked(context.port, initialize()) + begin)
        while (
            sent < max_bytes
            and connection.is_established
            and time.monotonic() < deadline
        ):
            await connection.send(piece)
            sent += len(piece)
    await context.hold(0.25)
    text = f"{sent / MIB:.1f} MiB sent, connection "
    text += "still open" if connection.is_established else "ended by the server"
    return Outcome(text, not connection.is_established)


TRAILER_BOUND = "`Limits.head` for head and trailers together"


@attack("endless trailer", "X03", TRAILER_BOUND)
async def endless_trailer(context: AttackContext) -> Outcome:
    """One trailer field of 40 MiB."""
    max_bytes = context.scale_count(40 * MIB)
    return await send_trailers(context, b"x-endless: ", b"x" * PIECE_SIZE, max_bytes)


@attack("trailers of many fields", "X03", TRAILER_BOUND)
async def many_trailers(context: AttackContext) -> Outcome:
    """100 MiB of trailer fields."""
    return await send_trailers(
        context, b"", MANY_FIELDS, context.scale_count(100 * MIB)
    )


@attack("trailers as header fields", "X03", "trailers are dropped", token=GOOD)
async def trailers_taken(context: AttackContext) -> Outcome:
    """Valid `Authorization`, `Host` and `Mcp-Method` fields sent in a trailer only."""
    bearer = f"Bearer {GOOD}"
    host = f"127.0.0.1:{context.port}"
    accepted = []

    async def try_field(
        name: str, trailer: str, fields: dict[str, str], body: bytes
    ) -> None:
        request = chunked(context.port, body, fields.items())
        plain_answer = await context.send_request(request + b"\r\n")
        if plain_answer is not None and plain_answer.status < 300:
            return  # the server does not require the field
        answer = await context.send_request(
            request + f"{name}: {trailer}\r\n\r\n".encode()
        )
        if answer is not None and answer.status < 300:
            accepted.append(name)

    if context.is_ours:
        await try_field("authorization", bearer, {}, initialize())
    wrong_fields = {"host": "attack.example", "authorization": bearer}
    await try_field("host", host, wrong_fields, initialize())
    valid_request = stateless(context.port, "tools/list", {})
    fields = {"authorization": bearer, "mcp-protocol-version": "2026-07-28"}
    body = valid_request.partition(b"\r\n\r\n")[2]
    await try_field("mcp-method", "tools/list", fields, body)
    return Outcome(f"taken: {', '.join(accepted) or 'none'}", not accepted)


@attack("upgrade to h2c", "X11", "`Upgrade` is ignored")
async def upgraded(context: AttackContext) -> Outcome:
    """200 POST requests that offer an upgrade to HTTP/2."""
    fields = {
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": "h2c",
        "http2-settings": "AAMAAABkAAQAAP__",
    }
    requests = context.scale_count(200)
    answered = 0
    for _ in range(requests):
        answer = await context.send_request(
            post(context.port, initialize(), fields.items())
        )
        answered += answer is not None and answer.status == 200
    return Outcome(f"{answered} of {requests} answered", answered == requests)


def malformed(port: int) -> list[bytes]:
    """Return requests that no server can answer with a result."""
    unknown = [("mcp-session-id", "unknown")]
    return [
        b"no request at all\r\n\r\n",
        b"POST /mcp HTTP/9.9\r\n\r\n",
        b"POST  HTTP/1.1\r\nhost: \x00\r\n\r\n",
        f"{head(port)}content-length: -1\r\n\r\n".encode(),
        f"{head(port)}transfer-encoding: chunked\r\n\r\nzz\r\n".encode(),
        post(port, b"{"),
        post(port, b"\xff\xfe"),
        post(port, b"[" * 100_000),
        post(port, b'{"jsonrpc":"2.0","id":1,"method":1}'),
        post(port, call("echo"), unknown),
        post(port, call("missing")),
        post(port, initialize(), [("host", "attack.example")]),
        post(port, initialize(), [("origin", "https://attack.example")]),
        post(port, initialize(), [("content-type", "text/plain")]),
        post(port, initialize(), [("authorization", "Bearer \x7f")]),
        stateless(port, "tools/call", {"name": "echo"}, "echo"),
        stateless(port, "tools/call", {"name": "missing"}, "missing"),
        stateless(port, "tools/list", {}, mcp_method="tools/call"),
    ]


@attack("malformed requests", "X13", "one log line of each kind a second")
async def flood_of_malformed(context: AttackContext) -> Outcome:
    """18 kinds of malformed requests, repeated by 4 concurrent senders."""
    requests = malformed(context.port)
    deadline = time.monotonic() + context.size.hold
    sent = 0

    async def flood(first: int) -> None:
        nonlocal sent
        number = first
        while time.monotonic() < deadline:
            await context.send_request(requests[number % len(requests)])
            number += 1
            sent += 1

    await asyncio.gather(*(flood(first) for first in range(4)))
    lines = context.running.log_text().count("\n")
    return Outcome(f"{sent} requests, {lines} log lines")
