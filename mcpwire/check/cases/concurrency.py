"""Concurrency over HTTP: calls, sessions, idle and abandoned connections."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Absent, Family, NoAnswer
from mcpwire.check.cases._calls import SHORT_CALL_S, echo_params, params_with_duration
from mcpwire.check.cases._http import HTTP, SESSIONS, expect_answer_beside, messages_on
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("concurrency")

_SLOW_CALL_S: Final = 0.5
_MIN_SLOW_S: Final = 0.2

case = FAMILY.with_defaults(transports=HTTP)
hostile = case.with_defaults(is_hostile=True, is_quick=False, bound_s=60.0)


def _expect_text(subject: Subject, answer: Answer, text: str) -> None:
    got = encode(answer.value).decode()
    subject.expect(text in got, f"an answer with {text}", answer)


async def _call_at_once(subject: Subject, count: int) -> None:
    """Make `count` concurrent calls; check that each returns its own text."""
    ids = [subject.next_id() for _ in range(count)]
    texts = {id: f"mcpwire-{id}-of-{count}" for id in ids}

    async def call(id: int) -> None:
        params = echo_params(subject, texts[id])
        answer = await subject.request("tools/call", params, id=id)
        _expect_text(subject, answer, texts[id])

    tasks = [asyncio.ensure_future(call(id)) for id in texts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


for id, count, is_hostile in (("D15.a", 100, False), ("D15.b", 1_000, True)):

    async def many_calls(subject: Subject, count: int = count) -> None:
        bound_s, subject.bound_s = subject.bound_s, max(subject.bound_s, 15.0)
        try:
            await _call_at_once(subject, count)
        finally:
            subject.bound_s = bound_s

    case.robust(
        id,
        f"each of {count:,} concurrent calls gets its own answer",
        needs=("role:echo",),
        is_hostile=is_hostile,
        is_quick=count < 1_000,
        bound_s=60.0,
        sends=f"{count:,} concurrent calls, each with its own text",
        expects="the same text in each answer",
        why="under load, callers get each other's answers",
    )(many_calls)


@case.robust(
    "D15.c",
    "requests with the same ids from two clients are kept apart",
    is_quick=False,
    needs=("role:echo",),
    sends="ten concurrent calls from each of two clients, with the same ids",
    expects="in each answer, the text of the same client",
    why="one user gets the answers of another",
)
async def equal_ids(subject: Subject) -> None:
    sessions = [await subject.open_another(), await subject.open_another()]

    async def call(session: int, id: int) -> None:
        connection = sessions[session]
        text = f"mcpwire-session-{session}-call-{id}"
        answer = await connection.request(
            "tools/call", echo_params(connection, text), id=id
        )
        _expect_text(subject, answer, text)

    await asyncio.gather(*(call(s, id) for id in range(1, 11) for s in (0, 1)))


@case.robust(
    "D15.d",
    "progress with the same token for two clients is kept apart",
    is_quick=False,
    needs=("role:notify",),
    sends="concurrent calls from two clients, with the same id and token",
    expects="as many progress notifications for each client as for one call alone",
    why="one user sees the progress of another",
)
async def equal_tokens(subject: Subject) -> None:
    params = params_with_duration(subject.need_tool("notify"), SHORT_CALL_S)
    params["_meta"] = {"progressToken": "mcpwire-same"}

    async def count_reports(connection: Subject, id: int) -> int:
        try:
            answer = await connection.request("tools/call", params, id=id)
        except NoAnswer as error:
            raise Absent(f"tool that ends in time: {error.expected}") from None
        response = answer.response
        messages = messages_on(connection, response) if response is not None else []
        return sum(each.method == "notifications/progress" for each in messages)

    single_count = await count_reports(await subject.open_another(), 1)
    if not single_count:
        subject.raise_absent("progress notification on the response to a call")
    sessions = [await subject.open_another(), await subject.open_another()]
    counts = await asyncio.gather(
        *(count_reports(connection, 1) for connection in sessions)
    )
    subject.expect(
        counts == [single_count, single_count],
        f"{single_count} notifications for each client",
        f"{counts}",
    )


@case.robust(
    "D15.e",
    "a slow call does not block others",
    needs=("role:slow",),
    is_quick=False,
    sends="a slow call, and two requests after it",
    expects="the answers to both requests before the answer to the slow call",
    why="one slow call blocks the server for all clients",
)
async def slow_and_quick(subject: Subject) -> None:
    params = params_with_duration(subject.need_tool("slow"), _SLOW_CALL_S)
    began = monotonic()
    try:
        await subject.request("tools/call", params)
    except NoAnswer as error:
        raise Absent(f"tool that ends in time: {error.expected}") from None
    if monotonic() - began < _MIN_SLOW_S:
        subject.raise_absent("slow tool")
    id = subject.next_id()
    response = await subject.send(subject.message("tools/call", params, id=id))
    for _ in range(2):  # the server may read the first before the call
        await subject.request(
            subject.facts.barrier, timeout=subject.bound_s + _SLOW_CALL_S
        )
    is_first = not subject.answers_to(id)
    await subject.wait_answer(id, response, timeout=subject.bound_s + _SLOW_CALL_S)
    subject.expect(is_first, "the other answers first", "the answer to the call first")


@case.robust(
    "D15.f",
    "50 idle connections do not block requests",
    sends="50 connections without a request, and a request",
    expects="an answer",
    why="idle connections block the server for all clients",
)
async def idle_connections(subject: Subject) -> None:
    http = subject.need_http()
    idle = [await http.send_raw(b"") for _ in range(50)]
    await expect_answer_beside(subject, idle)


@hostile.robust(
    "D15.g",
    "200 abandoned sessions do not stop the server",
    revisions=SESSIONS,
    sends="initialize 200 times, without further requests",
    expects="an answer in the first session and in a new one",
    why="crashed clients exhaust the server",
)
async def abandoned_sessions(subject: Subject) -> None:
    for _ in range(200):
        other = await subject.open_another()
        other.session_id = None  # prevents the DELETE that ends the session
    await subject.request(subject.facts.barrier)
    fresh = await subject.open_another()
    await fresh.request(fresh.facts.barrier)


@hostile.robust(
    "D15.h",
    "200 abandoned calls do not stop the server",
    needs=("role:slow",),
    sends="200 slow calls, each connection closed during the call",
    expects="an answer to the next request",
    why="crashed clients exhaust the server",
)
async def abandoned_calls(subject: Subject) -> None:
    http = subject.need_http()
    params = params_with_duration(subject.need_tool("slow"), _SLOW_CALL_S)
    for _ in range(200):
        message = subject.message("tools/call", params, id=subject.next_id())
        response = await subject.send(message)
        if response is not None:
            await http.close_exchange(response)
    await subject.request(subject.facts.barrier)
    await asyncio.sleep(_SLOW_CALL_S)
    await subject.request(subject.facts.barrier)
