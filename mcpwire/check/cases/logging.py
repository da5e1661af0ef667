"""Log messages: levels of a session or a request, order, declared capability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Start
from mcpwire.check.cases._calls import expect_before, notified
from mcpwire.check.cases._exchange import Error, Refusal, Request, Result, exchange

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Message, Subject

FAMILY: Final = Family("logging")

MESSAGE: Final = "notifications/message"
LEVELS: Final = (
    *("debug", "info", "notice", "warning"),
    *("error", "critical", "alert", "emergency"),
)
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
PER_REQUEST: Final = "server/utilities/logging#per-request-log-level"

session = FAMILY.where(revisions=LEGACY, needs=("logging",))
request = FAMILY.where(revisions=MODERN, needs=("role:notify",))


async def _call(
    subject: Subject, level: str | None = None
) -> tuple[Answer, list[Message]]:
    meta = None if level is None else {LOG_LEVEL: level}
    return await notified(subject, MESSAGE, meta)


async def _observed(subject: Subject) -> tuple[Answer, list[Message]]:
    answer, found = await _call(subject, "debug" if subject.is_modern else None)
    if not found:
        subject.absent("log message of the `notify` tool")
    return answer, found


def _expect_emergencies(subject: Subject, found: list[Message]) -> None:
    levels = [each.params.get("level") for each in found]
    low = [level for level in levels if level != "emergency"]
    subject.expect(not low, "no message below emergency", f"levels {low}")


async def _set(subject: Subject, level: str) -> None:
    await subject.request("logging/setLevel", {"level": level})


def _setting(*levels: Any) -> tuple[Request, ...]:
    return tuple(Request("logging/setLevel", {"level": each}) for each in levels)


# --- session level --------------------------------------------------------------------

exchange(
    session.should,
    "LOG-05.a",
    "each of the eight levels can be set",
    source="server/utilities/logging#log-levels",
    send=_setting(*reversed(LEVELS)),
    expect=Result(),
    why="users cannot choose the log level",
)

exchange(
    session.should,
    "LOG-05.b",
    "an unknown level is answered with -32602",
    source="server/utilities/logging#error-handling",
    send=_setting("loud", "DEBUG", ""),
    expect=Error(-32602),
    lenient=Result(),
    why="a misspelt level goes unnoticed",
)

exchange(
    session.robust,
    "F07.a",
    "a level that is missing or not a string is refused",
    rules=("LOG-05",),
    send=(Request("logging/setLevel", {}), *_setting(3, None)),
    expect=Refusal(),
    lenient=Result(),
    why="a faulty request goes unnoticed",
)


@session.should(
    "LOG-05.c",
    "messages below the set level are not sent",
    source="server/utilities/logging#setting-log-level",
    needs=("logging", "role:notify"),
    sends="the level debug and a call of the `notify` tool, then emergency and a call",
    expects="messages at first, then none below emergency",
    why="users get log messages that they have turned off",
)
async def level_is_kept(subject: Subject) -> None:
    await _set(subject, "debug")
    await _observed(subject)
    await _set(subject, "emergency")
    found = (await _call(subject))[1]
    await _set(subject, "debug")
    _expect_emergencies(subject, found)


@session.should(
    "LOG-05.d",
    "messages are sent again after the level is lowered",
    source="server/utilities/logging#setting-log-level",
    needs=("logging", "role:notify"),
    is_quick=False,
    sends="the levels debug, emergency and debug, with a call after the first and last",
    expects="log messages from both calls",
    why="a user who lowers the level sees nothing",
)
async def level_is_lowered(subject: Subject) -> None:
    await _set(subject, "debug")
    first = (await _observed(subject))[1]
    await _set(subject, "emergency")
    await _set(subject, "debug")
    found = (await _call(subject))[1]
    subject.expect(found and first, "log messages again", f"{len(found)} messages")


# --- request level --------------------------------------------------------------------


@request.must(
    "LOG-02.a",
    "no log message is sent for a request without a level",
    source=PER_REQUEST,
    sends="a call of the `notify` tool with the level debug, then one without",
    expects="messages at first, then none",
    why="clients get log data that they did not request",
)
async def silent_without_level(subject: Subject) -> None:
    await _observed(subject)
    subject.expect_none((await _call(subject))[1], "no log message")


@request.should(
    "LOG-02.b",
    "messages below the level of the request are not sent",
    source=PER_REQUEST,
    sends="a call of the `notify` tool with the level debug, then with emergency",
    expects="messages at first, then none below emergency",
    why="users get log messages that they have turned off",
)
async def level_of_the_request(subject: Subject) -> None:
    await _observed(subject)
    _expect_emergencies(subject, (await _call(subject, "emergency"))[1])


exchange(
    session.should,
    "LOG-04.a",
    "a request with an unknown level is answered with -32602",
    source="server/utilities/logging#error-handling",
    revisions=MODERN,
    send=(
        Request("server/discover", {"_meta": {LOG_LEVEL: "loud"}}),
        Request("server/discover", {"_meta": {LOG_LEVEL: 3}}),
    ),
    expect=Error(-32602),
    lenient=Result(),
    why="a misspelt level goes unnoticed",
)


@request.must(
    "LOG-03.a",
    "no log message is sent after the answer to its request",
    source=PER_REQUEST,
    sends="a call of the `notify` tool, and a request after its answer",
    expects="no log message after the answer",
    why="the client has dropped the request that it belongs to",
)
async def none_behind(subject: Subject) -> None:
    answer, found = await _observed(subject)
    expect_before(subject, answer, found, "log messages before the answer only")


@FAMILY.must(
    "LOG-01.a",
    "a server that logs declares `logging`",
    source="server/utilities/logging#capabilities",
    start=Start.LAST,
    sends="nothing; checks all messages of the connection",
    expects="the capability `logging`, if there is a log message",
    why="clients drop the messages, or reject an undeclared notification",
)
async def log_is_declared(subject: Subject) -> None:
    found = [each for each in subject.received if each.method == MESSAGE]
    if not found:
        subject.absent("log message")
    subject.expect(subject.facts.declares("logging"), "`logging`", found[0].raw)
