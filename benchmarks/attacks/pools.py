"""Attacks on shared resources: sessions, listens, elicitations, tasks, threads."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from attacks.issuer import GOOD
from attacks.runner import FAILURES, Outcome, attack
from attacks.wire import HONEST, call, initialize, message, post, stateless

if TYPE_CHECKING:
    from attacks.runner import AttackContext, Size

SHARE = "a share of the pool for each principal or address"
ACKNOWLEDGED = b"notifications/subscriptions/acknowledged"


def session_options(size: Size) -> dict[str, Any]:
    """Return the default limit of sessions at this size, with a long idle timeout."""
    return {"sessions": size.scale_count(10_000), "idle": 4 * size.idle}


@attack("12,000 sessions", "X07", SHARE, options=session_options)
async def many_sessions(context: AttackContext) -> Outcome:
    """One client opens 12,000 sessions; the server allows 10,000."""
    is_session_open = await context.honest_session()
    sessions = context.scale_count(12_000)
    numbers = count()
    deadline = time.monotonic() + 2 * context.size.hold
    request = post(context.port, initialize())
    opened = 0

    async def open_many() -> None:
        nonlocal opened
        with suppress(*FAILURES):
            connection = await context.connect()
            while next(numbers) < sessions and time.monotonic() < deadline:
                answer = await connection.send_request(request)
                opened += bool(answer.session)

    await asyncio.gather(*(open_many() for _ in range(8)))
    is_open = await is_session_open()
    text = f"{opened} sessions opened; another client's "
    return Outcome(text + ("kept" if is_open else "evicted"), is_open)


def listen_options(size: Size) -> dict[str, Any]:
    """Return the limit of listens at this size."""
    return {"limits": {"listens": size.scale_count(1_024)}}


async def open_listen(context: AttackContext, source: str) -> bool:
    """Open a `subscriptions/listen`; return whether it was acknowledged."""
    params = {"notifications": {"toolsListChanged": True}}
    with suppress(*FAILURES):
        connection = await context.connect(source)
        await connection.send(stateless(context.port, "subscriptions/listen", params))
        return await connection.wait_for(ACKNOWLEDGED)
    return False


@attack("1,100 listens", "X07", SHARE, options=listen_options, descriptors=4_096)
async def many_listens(context: AttackContext) -> Outcome:
    """One client opens 1,100 `subscriptions/listen`; the server allows 1,024."""
    opened = 0
    for _ in range(context.scale_count(1_100)):
        opened += await open_listen(context, "127.0.0.2")
    is_acknowledged = await open_listen(context, HONEST)
    text = f"{opened} opened; another client's "
    return Outcome(
        text + ("acknowledged" if is_acknowledged else "refused"), is_acknowledged
    )


def question_options(size: Size) -> dict[str, Any]:
    """Return a limit of sessions that equals the number of elicitations."""
    return {"sessions": size.scale_count(200), "json": False, "idle": 4 * size.idle}


@attack("abandoned questions", "X07", SHARE, options=question_options)
async def abandoned_questions(context: AttackContext) -> Outcome:
    """One client leaves elicitations open in 200 sessions; the server allows 200."""
    sessions = context.scale_count(200)
    elicitations = 0
    initialized = message("notifications/initialized", is_request=False)
    for _ in range(sessions):
        with suppress(*FAILURES):
            connection = await context.connect()
            session = await context.open_session(connection)
            await connection.send_request(context.in_session(session, initialized))
            await connection.send(context.in_session(session, call("ask")))
            elicitations += await connection.wait_for(b"elicitation/create")
            connection.close()
    answer = await context.send_request(post(context.port, initialize()), HONEST)
    is_accepted = answer is not None and bool(answer.session)
    text = f"{elicitations} questions; a newcomer is "
    return Outcome(text + ("let in" if is_accepted else "refused"), is_accepted)


def task_options(size: Size) -> dict[str, Any]:
    """Return the limit of tasks of a principal at this size."""
    return {"tasks": size.scale_count(100)}


@attack("100 tasks", "X07", SHARE, options=task_options, has_peers=False)
async def many_tasks(context: AttackContext) -> Outcome:
    """One client starts 102 tasks; the server allows 100 for each principal."""
    seconds = 2 * context.size.hold
    params = {"name": "work", "arguments": {"seconds": seconds}}
    request = stateless(context.port, "tools/call", params, "work")

    async def start_task(source: str = "127.0.0.2") -> bool:
        answer = await context.send_request(request, source)
        result = answer.message.get("result", {}) if answer is not None else {}
        return "taskId" in result

    tasks = 0
    for _ in range(context.scale_count(100) + 2):
        tasks += await start_task()
    is_started = await start_task(HONEST)
    await asyncio.sleep(seconds)
    text = f"{tasks} tasks; another client's is "
    return Outcome(text + ("begun" if is_started else "refused"), is_started)


@attack(
    "abandoned plain calls",
    "X07",
    SHARE,
    tool="plain",
    options=lambda size: {"threads": size.scale_count(64)},
)
async def abandoned_calls(context: AttackContext) -> Outcome:
    """One client makes 64 calls that each block a thread, and disconnects."""
    first = await context.connect()
    session = await context.open_session(first)
    seconds = context.size.hold
    start = time.monotonic()
    for _ in range(context.scale_count(64)):
        with suppress(*FAILURES):
            connection = await context.connect()
            body = call("block", seconds=seconds)
            await connection.send(context.in_session(session, body))
    await asyncio.sleep(seconds / 8)
    for connection in context.connections:
        connection.close(reset=True)
    probe_start = time.monotonic()
    probe = await context.send_request(post(context.port, initialize()), HONEST)
    is_answered = False
    if probe is not None:
        body = call("plain", text="hi")
        answer = await context.send_request(
            context.in_session(probe.session, body), HONEST
        )
        is_answered = answer is not None and answer.is_result
    wait_s = time.monotonic() - probe_start
    await asyncio.sleep(max(0.0, start + seconds * 1.25 - time.monotonic()))
    text = f"another client's plain call waits {wait_s:.2f} s"
    return Outcome(text, is_answered and wait_s < seconds / 2)


@attack("bad tokens", "X07", SHARE, token=GOOD, has_peers=False)
async def bad_tokens(context: AttackContext) -> Outcome:
    """200 concurrent bad tokens, repeated; the issuer takes a second for each."""
    deadline = time.monotonic() + context.size.hold
    numbers = count()

    async def guess() -> None:
        while time.monotonic() < deadline:
            token = [("authorization", f"Bearer bad-{next(numbers)}")]
            await context.send_request(post(context.port, initialize(), token))

    await asyncio.gather(*(guess() for _ in range(max(70, context.scale_count(200)))))
    return Outcome(f"{next(numbers)} tokens")
