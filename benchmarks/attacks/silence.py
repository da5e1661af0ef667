"""Attacks by connections that send nothing, send slowly, or do not read."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attacks.scene import FAILURES, Outcome, attack
from attacks.wire import call, head, in_session

if TYPE_CHECKING:
    from attacks.scene import Scene

SMALL_BUFFER = 4_096
STREAMS = lambda _: {"json": False}  # noqa: E731 - an option of the attack

HEAD_CLOCK = "a clock for the head, a bound on connections"
STALL_CLOCK = "a bound on unread bytes in all, a clock for what is not read"


async def call_unread(
    scene: Scene, connections: int, tool: str, **arguments: int
) -> Outcome:
    """Make calls on connections that do not read; count those the server keeps open.

    Counted by descriptors: a client with a closed window sees no end of a connection.
    """
    before = await scene.descriptors()
    first = await scene.connect()
    session = await scene.open_session(first)
    first.close()
    scene.peers.clear()
    for _ in range(connections):
        with suppress(*FAILURES):
            peer = await scene.connect(receive_buffer=SMALL_BUFFER)
            body = call(tool, **arguments)
            await peer.send(scene.in_session(session, body))
    await scene.hold()
    made = len(scene.peers)
    kept = min(made, max(0, await scene.descriptors() - before))
    text = f"{made - kept} of {made} connections ended by the server"
    return Outcome(text, not kept)


@attack("large answers unread", "X04", STALL_CLOCK)
async def unread_answers(scene: Scene) -> Outcome:
    """60 connections each request 10 MB and read nothing."""
    return await call_unread(scene, scene.many(60), "big", size=10_000_000)


@attack("event streams unread", "X04", STALL_CLOCK, options=STREAMS)
async def unread_streams(scene: Scene) -> Outcome:
    """40 calls each cause 16 MB of messages on an event stream that is not read."""
    return await call_unread(scene, scene.many(40), "flow", number=200, size=80_000)


@attack("silent connections", "X05", HEAD_CLOCK)
async def silent(scene: Scene) -> Outcome:
    """150 connections send nothing."""
    await scene.connect_many(scene.many(150))
    await scene.hold()
    return scene.about_connections()


@attack("half a head", "X05", HEAD_CLOCK)
async def half_heads(scene: Scene) -> Outcome:
    """150 connections send a request head without its final empty line."""
    for peer in await scene.connect_many(scene.many(150)):
        with suppress(*FAILURES):
            await peer.send(head(scene.port).encode())
    await scene.hold()
    return scene.about_connections()


@attack("a byte a second", "X05", HEAD_CLOCK)
async def drops(scene: Scene) -> Outcome:
    """150 connections send one byte of a request head per second."""
    peers = await scene.connect_many(scene.many(150))
    for byte in head(scene.port).encode()[: int(scene.size.hold)]:
        began = time.monotonic()
        for peer in peers:
            with suppress(*FAILURES):
                if peer.is_established:
                    await peer.send(bytes([byte]))
        await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))
    return scene.about_connections()


@attack("more connections than descriptors", "X05", HEAD_CLOCK, descriptors=256)
async def exhausted(scene: Scene) -> Outcome:
    """300 silent connections to a server with 256 descriptors."""
    await asyncio.gather(*(scene.connect_many(1) for _ in range(300)))
    await scene.hold()
    taken = scene.about_connections()
    return Outcome(taken.text)


@attack("silent GET streams", "X05", "a bound on connections", options=STREAMS)
async def idle_streams(scene: Scene) -> Outcome:
    """150 idle GET streams of 150 sessions, which are legitimate."""
    opened = 0
    for _ in range(scene.many(150)):
        with suppress(*FAILURES):
            peer = await scene.connect()
            session = await scene.open_session(peer)
            fields = in_session(session)
            await peer.send(f"{head(scene.port, fields, 'GET')}\r\n".encode())
            opened += 1
    await scene.hold(0.25)
    return Outcome(f"{opened} streams")
