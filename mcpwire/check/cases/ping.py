"""Ping, in the session revisions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mcpwire.check.case import LEGACY, Absent, Family
from mcpwire.check.cases._calls import params_with_duration, start_slow_call
from mcpwire.check.cases._exchange import (
    ChangedRequest,
    Request,
    Result,
    add_exchange_case,
)

if TYPE_CHECKING:
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("ping")

case = FAMILY.with_defaults(revisions=LEGACY)


def _is_empty(result: dict[str, object]) -> bool:
    return not set(result) - {"_meta"}


add_exchange_case(
    case.must,
    "PING-01.a",
    "a ping is answered with an empty result",
    source="basic/utilities/ping#behavior-requirements",
    send=(Request("ping"), Request("ping", {})),
    expect=Result(_is_empty, "an empty result"),
    why="clients consider the server dead, and disconnect",
)

add_exchange_case(
    case.must,
    "PING-01.b",
    "a ping may have `_meta`",
    source="schema#PingRequest",
    send=(
        Request("ping", {"_meta": {}}),
        Request("ping", {"_meta": {"progressToken": "mcpwire"}}),
    ),
    expect=Result(_is_empty, "an empty result"),
    why="clients that trace their requests consider the server dead",
)

add_exchange_case(
    case.robust,
    "F04.a",
    "a ping with unknown params is answered",
    rules=("RPC-33", "PING-01"),
    send=ChangedRequest(
        {"params": {"mcpwireUnknown": [1]}}, "a ping with unknown params"
    ),
    expect=Result(),
    why="newer clients consider the server dead",
)


@case.robust(
    "F04.b",
    "a ping is answered while a call runs",
    rules=("PING-01",),
    needs=("role:slow",),
    is_quick=False,
    sends="a call that takes a second, and a ping after it",
    expects="the answer to the ping first",
    why="clients consider a busy server dead, and disconnect",
)
async def while_a_call_runs(subject: Subject) -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        call = await start_slow_call(subject, 1.0)
    except Absent:
        has_duration = params_with_duration(
            subject.need_tool("slow"), 1.0
        ) != params_with_duration(subject.need_tool("slow"), 2.0)
        if not has_duration or clock() - began < 0.9:
            raise  # the tool itself is quick
        subject.raise_broken(
            "the answer to the ping first", "the answer to the call first"
        )
    await subject.wait_answer(call.id, call.response, timeout=1.0 + subject.bound_s)
