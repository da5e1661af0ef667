"""Progress notifications: token, order, end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Family
from mcpwire.check.cases._calls import (
    SHORT_CALL_S,
    call_notify_tool,
    expect_before_answer,
    params_with_duration,
)
from mcpwire.check.cases._exchange import (
    IGNORED,
    AnyOf,
    ChangedRequest,
    Error,
    Notification,
    Result,
    add_exchange_case,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.check.subject import Answer, Message, Subject

FAMILY: Final = Family("progress")

PROGRESS: Final = "notifications/progress"
FLOW: Final = "basic/utilities/progress#progress-flow"
BEHAVIOR: Final = "basic/utilities/progress#behavior-requirements"

case = FAMILY.with_defaults(needs=("role:notify",))


async def _call_with_token(
    subject: Subject, token: Any = None
) -> tuple[Answer, list[Message]]:
    meta = None if token is None else {"progressToken": token}
    return await call_notify_tool(subject, PROGRESS, meta)


async def _call_with_progress(
    subject: Subject, token: Any
) -> tuple[Answer, list[Message]]:
    answer, notifications = await _call_with_token(subject, token)
    if not notifications:
        subject.raise_absent("progress notification of the `notify` tool")
    return answer, notifications


def _is_same(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)


def _expect_token(
    subject: Subject, token: Any, notifications: Iterable[Message]
) -> None:
    for notification in notifications:
        got = notification.params.get("progressToken")
        subject.expect(_is_same(got, token), f"the token {token!r}", notification.raw)


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
        _expect_token(subject, token, (await _call_with_progress(subject, token))[1])


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
    await _call_with_progress(subject, "mcpwire")
    for token in (0, ""):
        notifications = (await _call_with_token(subject, token))[1]
        subject.expect(notifications, f"progress with the token {token!r}", "none")
        _expect_token(subject, token, notifications)


@case.must(
    "PROG-02.a",
    "progress increases with each notification",
    source=FLOW,
    sends="a call with a token",
    expects="a greater `progress` each time",
    why="progress bars go backwards, and strict clients abort the call",
)
async def progress_increases(subject: Subject) -> None:
    last: float | None = None
    for notification in (await _call_with_progress(subject, "mcpwire-increase"))[1]:
        value = notification.params.get("progress")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        subject.expect(is_number, "a number", notification.raw)
        if last is not None:
            subject.expect(value > last, f"more than {last:g}", notification.raw)  # type: ignore[operator]
        last = value


@case.must(
    "PROG-03.a",
    "a call without a token causes no progress notifications",
    source=BEHAVIOR,
    sends="a call with a token, then one without",
    expects="no progress notification for the second",
    why="the client assigns the notification to another call",
)
async def no_token(subject: Subject) -> None:
    await _call_with_progress(subject, "mcpwire-with")
    notifications = (await _call_with_token(subject))[1]
    subject.expect_none(notifications, "no progress without a token")


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
async def concurrent_tokens(subject: Subject) -> None:
    alone = len((await _call_with_progress(subject, "mcpwire-alone"))[1])
    start = len(subject.received)
    calls = []
    for token in ("mcpwire-one", "mcpwire-two"):
        params = params_with_duration(subject.need_tool("notify"), SHORT_CALL_S)
        params["_meta"] = {"progressToken": token}
        id = subject.next_id()
        message = subject.message("tools/call", params, id=id)
        calls.append((id, await subject.send(message)))
    for id, response in calls:
        await subject.wait_answer(id, response, timeout=15.0)
    await subject.barrier()
    tokens = [
        each.params.get("progressToken")
        for each in subject.received[start:]
        if each.method == PROGRESS
    ]
    other_tokens = set(map(str, tokens)) - {"mcpwire-one", "mcpwire-two"}
    subject.expect(not other_tokens, "no other token", sorted(other_tokens))
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
async def none_after_answer(subject: Subject) -> None:
    answer, notifications = await _call_with_progress(subject, "mcpwire-behind")
    expect_before_answer(
        subject, answer, notifications, "progress before the answer only"
    )


add_exchange_case(
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


def _with_token(token: Any, text: str) -> ChangedRequest:
    return ChangedRequest({}, text, params={"_meta": {"progressToken": token}})


add_exchange_case(
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
