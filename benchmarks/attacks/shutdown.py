"""SIGTERM under load: incomplete request bodies, and lost calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from attacks.runner import FAILURES, Outcome, attack
from attacks.wire import call, head

if TYPE_CHECKING:
    from attacks.runner import AttackContext

MAX_EXIT_S = 5.0
"""The drain timeout of 3 s, 1 s for connections that remain, and 1 s to exit."""


@attack("half-sent bodies at SIGTERM", "X10", "the drain's timeout", stops=True)
async def half_bodies(context: AttackContext) -> Outcome:
    """20 connections have sent half of a body when the server receives SIGTERM."""
    begin = f"{head(context.port)}content-length: 1000\r\n\r\n{{".encode()
    for connection in await context.open_connections(context.scale_count(20)):
        with suppress(*FAILURES):
            await connection.send(begin)
    await context.hold(0.1)
    await context.terminate()
    seconds = await context.wait_ended()
    tracebacks = context.running.log_text().count("Traceback")
    return Outcome(
        f"ended after {seconds:.1f} s, {tracebacks} tracebacks",
        seconds < MAX_EXIT_S and not tracebacks,
    )


@attack("a flood of calls at SIGTERM", "X10", "half-closed, then read", stops=True)
async def flood(context: AttackContext) -> Outcome:
    """32 connections make calls without a pause when the server receives SIGTERM."""
    first = await context.connect()
    session = await context.open_session(first)
    counts: Counter[str] = Counter()

    async def call_until_closed() -> None:
        with suppress(OSError):
            connection = await context.connect()
            while True:
                body = call("echo", text="hi")
                try:
                    answer = await connection.send_request(
                        context.in_session(session, body)
                    )
                except EOFError as error:
                    counts["closed" if str(error) == "clean" else "lost"] += 1
                    return
                except OSError:
                    counts["lost"] += 1
                    return
                counts["answered" if answer.is_result else "refused"] += 1

    number = max(8, context.scale_count(32))
    tasks = [asyncio.create_task(call_until_closed()) for _ in range(number)]
    await context.hold(0.5)
    await context.terminate()
    await asyncio.gather(*tasks)
    seconds = await context.wait_ended()
    text = f"{counts['answered']} calls answered, {counts['refused']} refused, "
    text += f"{counts['closed']} not taken, {counts['lost']} lost; "
    return Outcome(f"{text}ended after {seconds:.1f} s", not counts["lost"])
