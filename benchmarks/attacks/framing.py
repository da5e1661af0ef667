"""Attacks by `initialize`, trailers, an upgrade and malformed requests."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attacks.issuer import GOOD
from attacks.scene import FAILURES, Outcome, attack
from attacks.wire import call, chunked, head, initialize, post, stateless

if TYPE_CHECKING:
    from attacks.scene import Scene

MIB = 1024 * 1024
PIECE = 64 * 1024
EVERY = ("x-field: value\r\n" * (PIECE // 16)).encode()


async def initialized_with(scene: Scene, experimental: Any) -> Outcome:
    """Open 60 sessions with the experimental capabilities, and keep them open."""
    wanted = scene.many(60)
    request = post(scene.port, initialize({"experimental": experimental}))
    answers = [await scene.ask(request) for _ in range(wanted)]
    opened = sum(each is not None and bool(each.session) for each in answers)
    await scene.hold(0.25)
    return Outcome(f"{opened} of {wanted} sessions opened", opened == 0)


INITIALIZE_BOUND = "64 KiB of `initialize` for each session, containers counted"


@attack("initialize with 3.9 MB", "X02", INITIALIZE_BOUND)
async def large_initialize(scene: Scene) -> Outcome:
    """60 sessions with 3.9 MB in `capabilities.experimental`."""
    return await initialized_with(scene, {"x": {"y": "z" * 3_900_000}})


@attack("initialize with 280,000 objects", "X02", INITIALIZE_BOUND)
async def initialize_of_objects(scene: Scene) -> Outcome:
    """60 sessions with 280,000 empty objects in `capabilities.experimental`."""
    return await initialized_with(scene, {"x": {"y": [{}] * 280_000}})


async def trailed(scene: Scene, begin: bytes, piece: bytes, most: int) -> Outcome:
    """Send trailers until the server closes, `most` bytes are sent, or time is up."""
    peer = await scene.connect()
    sent = 0
    deadline = time.monotonic() + 3 * scene.size.hold
    with suppress(*FAILURES):
        await peer.send(chunked(scene.port, initialize()) + begin)
        while sent < most and peer.is_established and time.monotonic() < deadline:
            await peer.send(piece)
            sent += len(piece)
    await scene.hold(0.25)
    text = f"{sent / MIB:.1f} MiB sent, connection "
    text += "still open" if peer.is_established else "ended by the server"
    return Outcome(text, not peer.is_established)


TRAILER_BOUND = "`Limits.head` for head and trailers together"


@attack("endless trailer", "X03", TRAILER_BOUND)
async def endless_trailer(scene: Scene) -> Outcome:
    """One trailer field of 40 MiB."""
    most = scene.many(40 * MIB)
    return await trailed(scene, b"x-endless: ", b"x" * PIECE, most)


@attack("trailers of many fields", "X03", TRAILER_BOUND)
async def many_trailers(scene: Scene) -> Outcome:
    """100 MiB of trailer fields."""
    return await trailed(scene, b"", EVERY, scene.many(100 * MIB))


@attack("trailers as header fields", "X03", "trailers are dropped", token=GOOD)
async def trailers_taken(scene: Scene) -> Outcome:
    """Valid `Authorization`, `Host` and `Mcp-Method` fields sent in a trailer only."""
    good = f"Bearer {GOOD}"
    right = f"127.0.0.1:{scene.port}"
    taken = []

    async def sent(
        name: str, trailer: str, fields: dict[str, str], body: bytes
    ) -> None:
        request = chunked(scene.port, body, fields.items())
        without = await scene.ask(request + b"\r\n")
        if without is not None and without.status < 300:
            return  # the server does not require the field
        answer = await scene.ask(request + f"{name}: {trailer}\r\n\r\n".encode())
        if answer is not None and answer.status < 300:
            taken.append(name)

    if scene.is_ours:
        await sent("authorization", good, {}, initialize())
    wrong = {"host": "attack.example", "authorization": good}
    await sent("host", right, wrong, initialize())
    whole = stateless(scene.port, "tools/list", {})
    fields = {"authorization": good, "mcp-protocol-version": "2026-07-28"}
    body = whole.partition(b"\r\n\r\n")[2]
    await sent("mcp-method", "tools/list", fields, body)
    return Outcome(f"taken: {', '.join(taken) or 'none'}", not taken)


@attack("upgrade to h2c", "X11", "`Upgrade` is ignored")
async def upgraded(scene: Scene) -> Outcome:
    """200 POST requests that offer an upgrade to HTTP/2."""
    fields = {
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": "h2c",
        "http2-settings": "AAMAAABkAAQAAP__",
    }
    wanted = scene.many(200)
    answered = 0
    for _ in range(wanted):
        answer = await scene.ask(post(scene.port, initialize(), fields.items()))
        answered += answer is not None and answer.status == 200
    return Outcome(f"{answered} of {wanted} answered", answered == wanted)


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
async def flood_of_malformed(scene: Scene) -> Outcome:
    """18 kinds of malformed requests, repeated by 4 concurrent senders."""
    requests = malformed(scene.port)
    deadline = time.monotonic() + scene.size.hold
    sent = 0

    async def flood(first: int) -> None:
        nonlocal sent
        number = first
        while time.monotonic() < deadline:
            await scene.ask(requests[number % len(requests)])
            number += 1
            sent += 1

    await asyncio.gather(*(flood(first) for first in range(4)))
    lines = scene.running.log_text().count("\n")
    return Outcome(f"{sent} requests, {lines} log lines")
