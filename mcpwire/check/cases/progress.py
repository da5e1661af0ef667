"""Progress notifications: token, order, end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Family
from mcpwire.check.cases._calls import BRIEF_S, expect_before, lasting, notified
from mcpwire.check.cases._exchange import (
    IGNORED,
    AnyOf,
    Changed,
    Error,
    Notification,
    Result,
    exchange,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.check.subject import Answer, Message, Subject

FAMILY: Final = Family("progress")

PROGRESS: Final = "notifications/progress"
FLOW: Final = "basic/utilities/progress#progress-flow"
BEHAVIOR: Final = "basic/utilities/progress#behavior-requirements"

case = FAMILY.where(needs=("role:notify",))


async def _call(subject: Subject, token: Any = None) -> tuple[Answer, list[Message]]:
    meta = None if token is None else {"progressToken": token}
    return await notified(subject, PROGRESS, meta)


async def _observed(subject: Subject, token: Any) -> tuple[Answer, list[Message]]:
    answer, found = await _call(subject, token)
    if not found:
        subject.absent("progress notification of the `notify` tool")
    return answer, found


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _expect_token(subject: Subject, token: Any, found: Iterable[Message]) -> None:
    for each in found:
        got = each.params.get("progressToken")
        subject.expect(_is_same(got, token), f"the token {token!r}", each.raw)


@case.must(
    "PROG-01.a",
    "progress has the token of its call, with the same JSON type",
    source=BEHAVIOR,
    rules=("PROG-03",),
    sends="a call with a string token, and one with a number",
    expects="progress notifications with exactly that token",
    why="the client cannot tell which call the progress belongs to",
)
async def tokens_come_back(subject: Subject) -> None:
    for token in ("mcpwire-progress", 77_001):
        _expect_token(subject, token, (await _observed(subject, token))[1])


@case.robust(
    "F03.a",
    "0 and the empty string are valid tokens",
    rules=("PROG-01",),
    is_quick=False,
    sends='a call with the token 0, and one with ""',
    expects="progress notifications with exactly that token",
    why="the first call of a client that counts from 0 has no progress",
)
async def falsy_tokens(subject: Subject) -> None:
    await _observed(subject, "mcpwire")
    for token in (0, ""):
        found = (await _call(subject, token))[1]
        subject.expect(found, f"progress with the token {token!r}", "none")
        _expect_token(subject, token, found)


@case.must(
    "PROG-02.a",
    "progress increases with each notification",
    source=FLOW,
    sends="a call with a token",
    expects="a greater `progress` each time",
    why="progress bars go backwards, and strict clients abort the call",
)
async def increases(subject: Subject) -> None:
    last: float | None = None
    for each in (await _observed(subject, "mcpwire-increase"))[1]:
        got = each.params.get("progress")
        is_number = isinstance(got, (int, float)) and not isinstance(got, bool)
        subject.expect(is_number, "a number", each.raw)
        if last is not None:
            subject.expect(got > last, f"more than {last:g}", each.raw)  # type: ignore[operator]
        last = got


@case.must(
    "PROG-03.a",
    "a call without a token causes no progress notifications",
    source=BEHAVIOR,
    sends="a call with a token, then one without",
    expects="no progress notification for the second",
    why="the client assigns it to another call",
)
async def no_token(subject: Subject) -> None:
    await _observed(subject, "mcpwire-with")
    found = (await _call(subject))[1]
    subject.expect_none(found, "no progress without a token")


@case.must(
    "PROG-03.b",
    "concurrent calls report progress with their own tokens",
    source=BEHAVIOR,
    rules=("PROG-01",),
    is_quick=False,
    sends="two concurrent calls, each with its token",
    expects="progress notifications for both tokens, and for no other",
    why="a client shows progress for the wrong call, or none",
)
async def two_at_once(subject: Subject) -> None:
    alone = len((await _observed(subject, "mcpwire-alone"))[1])
    before = len(subject.received)
    started = []
    for token in ("mcpwire-one", "mcpwire-two"):
        params = lasting(subject.need_tool("notify"), BRIEF_S)
        params["_meta"] = {"progressToken": token}
        id = subject.next_id()
        message = subject.message("tools/call", params, id=id)
        started.append((id, await subject.send(message)))
    for id, response in started:
        await subject.answer(id, response, timeout=15.0)
    await subject.barrier()
    tokens = [
        each.params.get("progressToken")
        for each in subject.received[before:]
        if each.method == PROGRESS
    ]
    foreign = set(map(str, tokens)) - {"mcpwire-one", "mcpwire-two"}
    subject.expect(not foreign, "no other token", sorted(foreign))
    both = all(tokens.count(t) for t in ("mcpwire-one", "mcpwire-two"))
    subject.expect(both and alone, "progress for both tokens", tokens)


@case.must(
    "PROG-04.a",
    "no progress is sent after the answer",
    source="basic/utilities/progress#implementation-notes",
    rules=("PROG-03",),
    sends="a call with a token, and a request after its answer",
    expects="no progress notification after the answer",
    why="the client has dropped the call, and treats the notification as an error",
)
async def none_behind(subject: Subject) -> None:
    answer, found = await _observed(subject, "mcpwire-behind")
    expect_before(subject, answer, found, "progress before the answer only")


exchange(
    FAMILY.robust,
    "F03.b",
    "progress with an unknown token is ignored",
    rules=("PROG-03",),
    send=(
        Notification(PROGRESS, {"progressToken": "mcpwire-never", "progress": 1}),
        Notification(PROGRESS, {"progressToken": 2**40, "progress": 1, "total": 2}),
        Notification(PROGRESS, {}),
    ),
    expect=IGNORED,
    why="late progress breaks the connection",
)


def _with_token(token: Any, text: str) -> Changed:
    return Changed({}, text, params={"_meta": {"progressToken": token}})


exchange(
    FAMILY.robust,
    "F03.c",
    "a token that is neither a string nor a number is ignored or refused",
    rules=("PROG-01",),
    send=(
        _with_token({"a": 1}, "a request with an object as its token"),
        _with_token(None, "one with null as its token"),
    ),
    expect=AnyOf(Result(), Error(-32600, -32602)),
    why="one faulty client aborts the calls of all others",
)
