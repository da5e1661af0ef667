"""Attacks by connections that send nothing, send slowly, or do not read."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attacks.runner import FAILURES, Outcome, attack
from attacks.wire import call, head, in_session

if TYPE_CHECKING:
    from attacks.runner import AttackContext

SMALL_BUFFER = 4_096
STREAMS = lambda _: {"json": False}  # noqa: E731 - an option of the attack

HEAD_CLOCK = "a clock for the head, a bound on connections"
STALL_CLOCK = "a bound on unread bytes in all, a clock for what is not read"


async def call_unread(
    context: AttackContext, count: int, tool: str, **arguments: int
) -> Outcome:
    """Make calls on connections that do not read; count those the server keeps open.

    Counted by descriptors: a client with a closed window sees no end of a connection.
    """
    before = await context.descriptors()
    first = await context.connect()
    session = await context.open_session(first)
    first.close()
    context.connections.clear()
    for _ in range(count):
        with suppress(*FAILURES):
            connection = await context.connect(receive_buffer=SMALL_BUFFER)
            body = call(tool, **arguments)
            await connection.send(context.in_session(session, body))
    await context.hold()
    opened = len(context.connections)
    open_count = min(opened, max(0, await context.descriptors() - before))
    text = f"{opened - open_count} of {opened} connections ended by the server"
    return Outcome(text, not open_count)


@attack("large answers unread", "X04", STALL_CLOCK)
async def unread_answers(context: AttackContext) -> Outcome:
    """60 connections each request 10 MB and read nothing."""
    return await call_unread(context, context.scale_count(60), "big", size=10_000_000)


@attack("event streams unread", "X04", STALL_CLOCK, options=STREAMS)
async def unread_streams(context: AttackContext) -> Outcome:
    """40 calls each cause 16 MB of messages on an event stream that is not read."""
    return await call_unread(
        context, context.scale_count(40), "flow", number=200, size=80_000
    )


@attack("silent connections", "X05", HEAD_CLOCK)
async def silent(context: AttackContext) -> Outcome:
    """150 connections send nothing."""
    await context.open_connections(context.scale_count(150))
    await context.hold()
    return context.connection_outcome()


@attack("half a head", "X05", HEAD_CLOCK)
async def half_heads(context: AttackContext) -> Outcome:
    """150 connections send a request head without its final empty line."""
    for connection in await context.open_connections(context.scale_count(150)):
        with suppress(*FAILURES):
            await connection.send(head(context.port).encode())
    await context.hold()
    return context.connection_outcome()


@attack("a byte a second", "X05", HEAD_CLOCK)
async def slow_heads(context: AttackContext) -> Outcome:
    """150 connections send one byte of a request head per second."""
    connections = await context.open_connections(context.scale_count(150))
    for byte in head(context.port).encode()[: int(context.size.hold)]:
        start = time.monotonic()
        for connection in connections:
            with suppress(*FAILURES):
                if connection.is_established:
                    await connection.send(bytes([byte]))
        await asyncio.sleep(max(0.0, start + 1 - time.monotonic()))
    return context.connection_outcome()


@attack("more connections than descriptors", "X05", HEAD_CLOCK, descriptors=256)
async def too_many_connections(context: AttackContext) -> Outcome:
    """300 silent connections to a server with 256 descriptors."""
    await asyncio.gather(*(context.open_connections(1) for _ in range(300)))
    await context.hold()
    outcome = context.connection_outcome()
    return Outcome(outcome.text)


@attack("silent GET streams", "X05", "a bound on connections", options=STREAMS)
async def idle_streams(context: AttackContext) -> Outcome:
    """150 idle GET streams of 150 sessions, which are legitimate."""
    opened = 0
    for _ in range(context.scale_count(150)):
        with suppress(*FAILURES):
            connection = await context.connect()
            session = await context.open_session(connection)
            fields = in_session(session)
            await connection.send(f"{head(context.port, fields, 'GET')}\r\n".encode())
            opened += 1
    await context.hold(0.25)
    return Outcome(f"{opened} streams")
