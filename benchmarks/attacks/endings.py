"""SIGTERM under load: incomplete request bodies, and lost calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from attacks.scene import FAILURES, Outcome, attack
from attacks.wire import call, head

if TYPE_CHECKING:
    from attacks.scene import Scene

LONGEST_S = 5.0
"""The drain timeout of 3 s, 1 s for connections that remain, and 1 s to exit."""


@attack("half-sent bodies at SIGTERM", "X10", "the drain's timeout", stops=True)
async def half_bodies(scene: Scene) -> Outcome:
    """20 connections have sent half of a body when the server receives SIGTERM."""
    begin = f"{head(scene.port)}content-length: 1000\r\n\r\n{{".encode()
    for peer in await scene.connect_many(scene.many(20)):
        with suppress(*FAILURES):
            await peer.send(begin)
    await scene.hold(0.1)
    await scene.terminate()
    seconds = await scene.ended()
    tracebacks = scene.running.log_text().count("Traceback")
    return Outcome(
        f"ended after {seconds:.1f} s, {tracebacks} tracebacks",
        seconds < LONGEST_S and not tracebacks,
    )


@attack("a flood of calls at SIGTERM", "X10", "half-closed, then read", stops=True)
async def flood(scene: Scene) -> Outcome:
    """32 connections make calls without a pause when the server receives SIGTERM."""
    first = await scene.connect()
    session = await scene.open_session(first)
    came: Counter[str] = Counter()

    async def keep_calling() -> None:
        with suppress(OSError):
            peer = await scene.connect()
            while True:
                body = call("echo", text="hi")
                try:
                    answer = await peer.ask(scene.in_session(session, body))
                except EOFError as error:
                    came["closed" if str(error) == "clean" else "lost"] += 1
                    return
                except OSError:
                    came["lost"] += 1
                    return
                came["answered" if answer.is_result else "refused"] += 1

    number = max(8, scene.many(32))
    calling = [asyncio.create_task(keep_calling()) for _ in range(number)]
    await scene.hold(0.5)
    await scene.terminate()
    await asyncio.gather(*calling)
    seconds = await scene.ended()
    text = f"{came['answered']} calls answered, {came['refused']} refused, "
    text += f"{came['closed']} not taken, {came['lost']} lost; "
    return Outcome(f"{text}ended after {seconds:.1f} s", not came["lost"])
