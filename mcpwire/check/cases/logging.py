"""Log messages: levels, their filter, and who gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Level, Start
from mcpwire.check.cases._calls import BRIEF_S, lasting, position
from mcpwire.check.cases._exchange import Error, Refusal, Request, Result, exchange

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Message, Subject

__all__ = ["FAMILY"]

FAMILY: Final = Family("logging")
case = FAMILY.case

MESSAGE: Final = "notifications/message"
LEVELS: Final = (
    *("debug", "info", "notice", "warning"),
    *("error", "critical", "alert", "emergency"),
)
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
PER_REQUEST: Final = "server/utilities/logging#per-request-log-level"


async def _call(
    subject: Subject, level: str | None = None
) -> tuple[Answer, list[Message]]:
    """Call the tool that logs; return what came until a barrier after it."""
    params = lasting(subject.need_tool("notify"), BRIEF_S)
    if level is not None:
        params["_meta"] = {LOG_LEVEL: level}
    before = len(subject.received)
    answer = await subject.request("tools/call", params, timeout=15.0)
    await subject.barrier()
    found = [each for each in subject.received[before:] if each.method == MESSAGE]
    return answer, found


async def _observed(subject: Subject) -> tuple[Answer, list[Message]]:
    answer, found = await _call(subject, "debug" if subject.is_modern else None)
    if not found:
        subject.absent("log message of the tool that plays the role notify")
    return answer, found


def _levels(messages: list[Message]) -> list[Any]:
    return [each.params.get("level") for each in messages]


# --- the session's level --------------------------------------------------------------

exchange(
    FAMILY,
    "LOG-05.a",
    Level.SHOULD,
    "each of the eight levels can be set",
    source="server/utilities/logging#log-levels",
    revisions=LEGACY,
    needs=("logging",),
    send=tuple(
        Request("logging/setLevel", {"level": level}) for level in reversed(LEVELS)
    ),
    expect=Result(),
    why="users cannot choose what they see",
)

exchange(
    FAMILY,
    "LOG-05.b",
    Level.SHOULD,
    "an unknown level is answered with -32602",
    source="server/utilities/logging#error-handling",
    revisions=LEGACY,
    needs=("logging",),
    send=(
        Request("logging/setLevel", {"level": "loud"}),
        Request("logging/setLevel", {"level": "DEBUG"}),
        Request("logging/setLevel", {"level": ""}),
    ),
    expect=Error(-32602),
    lenient=Result(),
    why="a misspelt level is found out much later",
)

exchange(
    FAMILY,
    "F07.a",
    Level.ROBUST,
    "a level that is missing or no text is refused",
    rules=("LOG-05",),
    revisions=LEGACY,
    needs=("logging",),
    send=(
        Request("logging/setLevel", {}),
        Request("logging/setLevel", {"level": 3}),
        Request("logging/setLevel", {"level": None}),
    ),
    expect=Refusal(),
    lenient=Result(),
    why="a faulty call is found out much later",
)


@case(
    "LOG-05.c",
    Level.SHOULD,
    "messages below the level that was set do not come",
    source="server/utilities/logging#setting-log-level",
    revisions=LEGACY,
    needs=("logging", "role:notify"),
    sends="the level debug and a call of the tool that logs, then emergency and again",
    expects="messages at first, then none below emergency",
    why="users who want no log get it all the same",
)
async def level_is_kept(subject: Subject) -> None:
    await subject.request("logging/setLevel", {"level": "debug"})
    await _observed(subject)
    await subject.request("logging/setLevel", {"level": "emergency"})
    found = (await _call(subject))[1]
    await subject.request("logging/setLevel", {"level": "debug"})
    low = [level for level in _levels(found) if level != "emergency"]
    subject.expect(not low, "no message below emergency", f"levels {low}")


@case(
    "LOG-05.d",
    Level.SHOULD,
    "messages come again once the level is lowered",
    source="server/utilities/logging#setting-log-level",
    revisions=LEGACY,
    needs=("logging", "role:notify"),
    is_quick=False,
    sends="the levels debug, emergency and debug, with a call after the first and last",
    expects="as many messages after the last as after the first",
    why="a user who lowers the level sees nothing",
)
async def level_is_lowered(subject: Subject) -> None:
    await subject.request("logging/setLevel", {"level": "debug"})
    first = (await _observed(subject))[1]
    await subject.request("logging/setLevel", {"level": "emergency"})
    await subject.request("logging/setLevel", {"level": "debug"})
    found = (await _call(subject))[1]
    subject.expect(found and first, "log messages", f"{len(found)} messages")


# --- the request's level --------------------------------------------------------------


@case(
    "LOG-02.a",
    Level.MUST,
    "no log message comes for a request without a level",
    source=PER_REQUEST,
    revisions=MODERN,
    needs=("role:notify",),
    sends="a call of the tool that logs with the level debug, then one without",
    expects="messages at first, then none",
    why="clients that did not ask for a log get one, with what it tells",
)
async def silent_without_level(subject: Subject) -> None:
    await _observed(subject)
    found = (await _call(subject))[1]
    if found:
        subject.broken("no log message", found[0].raw)


@case(
    "LOG-02.b",
    Level.SHOULD,
    "messages below the level of the request do not come",
    source=PER_REQUEST,
    revisions=MODERN,
    needs=("role:notify",),
    sends="a call of the tool that logs with the level debug, then with emergency",
    expects="messages at first, then none below emergency",
    why="users who want no log get it all the same",
)
async def level_of_the_request(subject: Subject) -> None:
    await _observed(subject)
    found = (await _call(subject, "emergency"))[1]
    low = [level for level in _levels(found) if level != "emergency"]
    subject.expect(not low, "no message below emergency", f"levels {low}")


exchange(
    FAMILY,
    "LOG-04.a",
    Level.SHOULD,
    "a request with an unknown level is answered with -32602",
    source="server/utilities/logging#error-handling",
    revisions=MODERN,
    needs=("logging",),
    send=(
        Request("server/discover", {"_meta": {LOG_LEVEL: "loud"}}),
        Request("server/discover", {"_meta": {LOG_LEVEL: 3}}),
    ),
    expect=Error(-32602),
    lenient=Result(),
    why="a misspelt level is found out much later",
)


@case(
    "LOG-03.a",
    Level.MUST,
    "no log message comes behind the answer of its request",
    source=PER_REQUEST,
    revisions=MODERN,
    needs=("role:notify",),
    sends="a call of the tool that logs, and a request behind its answer",
    expects="no log message behind the answer",
    why="the client has forgotten the request that it belongs to",
)
async def none_behind(subject: Subject) -> None:
    answer, found = await _observed(subject)
    at = position(subject, answer.message)
    for each in found:
        is_before = position(subject, each) < at
        subject.expect(is_before, "messages before the answer alone", each.raw)


@case(
    "LOG-01.a",
    Level.MUST,
    "a server that logs declares it",
    source="server/utilities/logging#capabilities",
    start=Start.LAST,
    sends="nothing by itself: it looks at all messages of the connection",
    expects="the capability `logging`, if there is a log message",
    why="clients show no log, and end the connection over a message they do not know",
)
async def log_is_declared(subject: Subject) -> None:
    found = [each for each in subject.received if each.method == MESSAGE]
    if not found:
        subject.absent("log message")
    subject.expect(subject.facts.declares("logging"), "`logging`", found[0].raw)
