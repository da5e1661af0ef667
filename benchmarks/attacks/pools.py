"""Attacks on shared resources: sessions, listens, elicitations, tasks, threads."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from attacks.issuer import GOOD
from attacks.scene import FAILURES, Outcome, attack
from attacks.wire import HONEST, call, initialize, message, post, stateless

if TYPE_CHECKING:
    from attacks.scene import Scene, Size

SHARE = "a share of the pool for each principal or address"
LISTENED = b"notifications/subscriptions/acknowledged"


def session_options(size: Size) -> dict[str, Any]:
    """Return the default limit of sessions at this size, with a long idle timeout."""
    return {"sessions": size.many(10_000), "idle": 4 * size.idle}


@attack("12,000 sessions", "X07", SHARE, options=session_options)
async def many_sessions(scene: Scene) -> Outcome:
    """One client opens 12,000 sessions; the server allows 10,000."""
    is_there = await scene.honest_session()
    wanted = scene.many(12_000)
    numbers = count()
    deadline = time.monotonic() + 2 * scene.size.hold
    request = post(scene.port, initialize())
    opened = 0

    async def open_many() -> None:
        nonlocal opened
        with suppress(*FAILURES):
            peer = await scene.connect()
            while next(numbers) < wanted and time.monotonic() < deadline:
                answer = await peer.ask(request)
                opened += bool(answer.session)

    await asyncio.gather(*(open_many() for _ in range(8)))
    is_kept = await is_there()
    text = f"{opened} sessions opened; another client's "
    return Outcome(text + ("kept" if is_kept else "evicted"), is_kept)


def listen_options(size: Size) -> dict[str, Any]:
    """Return the limit of listens at this size."""
    return {"limits": {"listens": size.many(1_024)}}


async def listens(scene: Scene, source: str) -> bool:
    """Open a `subscriptions/listen`; return whether it was acknowledged."""
    wanted = {"notifications": {"toolsListChanged": True}}
    with suppress(*FAILURES):
        peer = await scene.connect(source)
        await peer.send(stateless(scene.port, "subscriptions/listen", wanted))
        return await peer.has_sent(LISTENED)
    return False


@attack("1,100 listens", "X07", SHARE, options=listen_options, descriptors=4_096)
async def many_listens(scene: Scene) -> Outcome:
    """One client opens 1,100 `subscriptions/listen`; the server allows 1,024."""
    opened = 0
    for _ in range(scene.many(1_100)):
        opened += await listens(scene, "127.0.0.2")
    is_heard = await listens(scene, HONEST)
    text = f"{opened} opened; another client's "
    return Outcome(text + ("acknowledged" if is_heard else "refused"), is_heard)


def question_options(size: Size) -> dict[str, Any]:
    """Return a limit of sessions that equals the number of elicitations."""
    return {"sessions": size.many(200), "json": False, "idle": 4 * size.idle}


@attack("abandoned questions", "X07", SHARE, options=question_options)
async def abandoned_questions(scene: Scene) -> Outcome:
    """One client leaves elicitations open in 200 sessions; the server allows 200."""
    wanted = scene.many(200)
    asked = 0
    done = message("notifications/initialized", is_request=False)
    for _ in range(wanted):
        with suppress(*FAILURES):
            peer = await scene.connect()
            session = await scene.open_session(peer)
            await peer.ask(scene.in_session(session, done))
            await peer.send(scene.in_session(session, call("ask")))
            asked += await peer.has_sent(b"elicitation/create")
            peer.close()
    answer = await scene.ask(post(scene.port, initialize()), HONEST)
    is_in = answer is not None and bool(answer.session)
    text = f"{asked} questions; a newcomer is "
    return Outcome(text + ("let in" if is_in else "refused"), is_in)


def task_options(size: Size) -> dict[str, Any]:
    """Return the limit of tasks of a principal at this size."""
    return {"tasks": size.many(100)}


@attack("100 tasks", "X07", SHARE, options=task_options, has_peers=False)
async def many_tasks(scene: Scene) -> Outcome:
    """One client starts 102 tasks; the server allows 100 for each principal."""
    seconds = 2 * scene.size.hold
    params = {"name": "work", "arguments": {"seconds": seconds}}
    request = stateless(scene.port, "tools/call", params, "work")

    async def begun(source: str = "127.0.0.2") -> bool:
        answer = await scene.ask(request, source)
        found = answer.message.get("result", {}) if answer is not None else {}
        return "taskId" in found

    tasks = 0
    for _ in range(scene.many(100) + 2):
        tasks += await begun()
    is_taken = await begun(HONEST)
    await asyncio.sleep(seconds)
    text = f"{tasks} tasks; another client's is "
    return Outcome(text + ("begun" if is_taken else "refused"), is_taken)


@attack(
    "abandoned plain calls",
    "X07",
    SHARE,
    tool="plain",
    options=lambda size: {"threads": size.many(64)},
)
async def abandoned_calls(scene: Scene) -> Outcome:
    """One client makes 64 calls that each block a thread, and disconnects."""
    first = await scene.connect()
    session = await scene.open_session(first)
    seconds = scene.size.hold
    began = time.monotonic()
    for _ in range(scene.many(64)):
        with suppress(*FAILURES):
            peer = await scene.connect()
            body = call("block", seconds=seconds)
            await peer.send(scene.in_session(session, body))
    await asyncio.sleep(seconds / 8)
    for peer in scene.peers:
        peer.close(reset=True)
    asked = time.monotonic()
    probe = await scene.ask(post(scene.port, initialize()), HONEST)
    is_answered = False
    if probe is not None:
        body = call("plain", text="hi")
        answer = await scene.ask(scene.in_session(probe.session, body), HONEST)
        is_answered = answer is not None and answer.is_result
    waited = time.monotonic() - asked
    await asyncio.sleep(max(0.0, began + seconds * 1.25 - time.monotonic()))
    text = f"another client's plain call waits {waited:.2f} s"
    return Outcome(text, is_answered and waited < seconds / 2)


@attack("bad tokens", "X07", SHARE, token=GOOD, has_peers=False)
async def bad_tokens(scene: Scene) -> Outcome:
    """200 concurrent bad tokens, repeated; the issuer takes a second for each."""
    deadline = time.monotonic() + scene.size.hold
    numbers = count()

    async def guess() -> None:
        while time.monotonic() < deadline:
            token = [("authorization", f"Bearer bad-{next(numbers)}")]
            await scene.ask(post(scene.port, initialize(), token))

    await asyncio.gather(*(guess() for _ in range(max(70, scene.many(200)))))
    return Outcome(f"{next(numbers)} tokens")
