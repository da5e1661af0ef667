"""Concurrency over HTTP: calls, sessions, idle and abandoned connections."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Absent, Family, NoAnswer
from mcpwire.check.cases._calls import BRIEF_S, echo_params, lasting
from mcpwire.check.cases._http import HTTP, SESSIONS, answered_beside, messages_on
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("concurrency")

_LASTING_S: Final = 0.5
_NOTICEABLE_S: Final = 0.2

case = FAMILY.where(transports=HTTP)
flood = case.where(is_hostile=True, is_quick=False, bound_s=60.0)


def _expect_text(subject: Subject, answer: Answer, text: str) -> None:
    got = encode(answer.value).decode()
    subject.expect(text in got, f"an answer with {text}", answer)


async def _at_once(subject: Subject, count: int) -> None:
    """Make `count` concurrent calls; check that each returns its own text."""
    ids = [subject.next_id() for _ in range(count)]
    texts = {id: f"mcpwire-{id}-of-{count}" for id in ids}

    async def call(id: int) -> None:
        params = echo_params(subject, texts[id])
        answer = await subject.request("tools/call", params, id=id)
        _expect_text(subject, answer, texts[id])

    calls = [asyncio.ensure_future(call(id)) for id in texts]
    try:
        await asyncio.gather(*calls)
    finally:
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


for id, count, is_hostile in (("D15.a", 100, False), ("D15.b", 1_000, True)):

    async def many(subject: Subject, count: int = count) -> None:
        patience, subject.bound_s = subject.bound_s, max(subject.bound_s, 15.0)
        try:
            await _at_once(subject, count)
        finally:
            subject.bound_s = patience

    case.robust(
        id,
        f"each of {count:,} concurrent calls gets its own answer",
        needs=("role:echo",),
        is_hostile=is_hostile,
        is_quick=count < 1_000,
        bound_s=60.0,
        sends=f"{count:,} concurrent calls, each with its own text",
        expects="the same text in each answer",
        why="under load, callers get the answers of others",
    )(many)


@case.robust(
    "D15.c",
    "equal ids in two sessions are kept apart",
    is_quick=False,
    needs=("role:echo",),
    sends="ten concurrent calls in each of two sessions, with the same ids",
    expects="the text of its own session in each answer",
    why="one user gets the answers of another",
)
async def equal_ids(subject: Subject) -> None:
    both = [await subject.another(), await subject.another()]

    async def call(session: int, id: int) -> None:
        its = both[session]
        text = f"mcpwire-session-{session}-call-{id}"
        answer = await its.request("tools/call", echo_params(its, text), id=id)
        _expect_text(subject, answer, text)

    await asyncio.gather(*(call(s, id) for id in range(1, 11) for s in (0, 1)))


@case.robust(
    "D15.d",
    "equal progress tokens in two sessions are kept apart",
    is_quick=False,
    needs=("role:notify",),
    sends="concurrent calls in two sessions, with the same id and token",
    expects="as many progress notifications in each as for one call alone",
    why="one user sees the progress of another",
)
async def equal_tokens(subject: Subject) -> None:
    params = lasting(subject.need_tool("notify"), BRIEF_S)
    params["_meta"] = {"progressToken": "mcpwire-same"}

    async def reports(its: Subject, id: int) -> int:
        try:
            answer = await its.request("tools/call", params, id=id)
        except NoAnswer as late:
            raise Absent(f"tool that ends in time: {late.expected}") from None
        response = answer.response
        found = messages_on(its, response) if response is not None else []
        return sum(each.method == "notifications/progress" for each in found)

    alone = await reports(await subject.another(), 1)
    if not alone:
        subject.absent("progress notification on the response to a call")
    both = [await subject.another(), await subject.another()]
    got = await asyncio.gather(*(reports(its, 1) for its in both))
    subject.expect(got == [alone, alone], f"{alone} notifications in each", f"{got}")


@case.robust(
    "D15.e",
    "a slow call does not block others",
    needs=("role:slow",),
    is_quick=False,
    sends="a slow call, and two requests after it",
    expects="their answers before the answer to the call",
    why="one slow call blocks the server for all",
)
async def slow_and_quick(subject: Subject) -> None:
    params = lasting(subject.need_tool("slow"), _LASTING_S)
    began = monotonic()
    try:
        await subject.request("tools/call", params)
    except NoAnswer as found:
        raise Absent(f"tool that ends in time: {found.expected}") from None
    if monotonic() - began < _NOTICEABLE_S:
        subject.absent("slow tool")
    id = subject.next_id()
    response = await subject.send(subject.message("tools/call", params, id=id))
    for _ in range(2):  # the server may read the first before the call
        await subject.request(
            subject.facts.barrier, timeout=subject.bound_s + _LASTING_S
        )
    is_first = not subject.answers_to(id)
    await subject.answer(id, response, timeout=subject.bound_s + _LASTING_S)
    subject.expect(is_first, "the other answers first", "the answer to the call first")


@case.robust(
    "D15.f",
    "50 idle connections do not block requests",
    sends="50 connections without a request, and a request",
    expects="an answer",
    why="clients with idle connections block the server for all",
)
async def idle_connections(subject: Subject) -> None:
    http = subject.need_http()
    idle = [await http.raw(b"") for _ in range(50)]
    await answered_beside(subject, idle)


@flood.robust(
    "D15.g",
    "200 abandoned sessions do not stop the server",
    revisions=SESSIONS,
    sends="initialize 200 times, without further requests",
    expects="an answer in the first session and in a new one",
    why="crashed clients exhaust the server",
)
async def left_sessions(subject: Subject) -> None:
    for _ in range(200):
        other = await subject.another()
        other.session_id = None  # prevents the DELETE that ends the session
    await subject.request(subject.facts.barrier)
    fresh = await subject.another()
    await fresh.request(fresh.facts.barrier)


@flood.robust(
    "D15.h",
    "200 abandoned calls do not stop the server",
    needs=("role:slow",),
    sends="200 slow calls, each connection closed during the call",
    expects="an answer to the next request",
    why="crashed clients exhaust the server",
)
async def left_calls(subject: Subject) -> None:
    http = subject.need_http()
    params = lasting(subject.need_tool("slow"), _LASTING_S)
    for _ in range(200):
        message = subject.message("tools/call", params, id=subject.next_id())
        response = await subject.send(message)
        if response is not None:
            await http.abandon(response)
    await subject.request(subject.facts.barrier)
    await asyncio.sleep(_LASTING_S)
    await subject.request(subject.facts.barrier)
