"""Log messages: levels of a session or a request, order, declared capability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import LEGACY, MODERN, Family, Start
from mcpwire.check.cases._calls import call_notify_tool, expect_before_answer
from mcpwire.check.cases._exchange import (
    Error,
    Refusal,
    Request,
    Result,
    add_exchange_case,
)

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

session = FAMILY.with_defaults(revisions=LEGACY, needs=("logging",))
request = FAMILY.with_defaults(revisions=MODERN, needs=("role:notify",))


async def _call_with_level(
    subject: Subject, level: str | None = None
) -> tuple[Answer, list[Message]]:
    meta = None if level is None else {LOG_LEVEL: level}
    return await call_notify_tool(subject, MESSAGE, meta)


async def _call_with_messages(subject: Subject) -> tuple[Answer, list[Message]]:
    answer, messages = await _call_with_level(
        subject, "debug" if subject.is_modern else None
    )
    if not messages:
        subject.raise_absent("log message of the `notify` tool")
    return answer, messages


def _expect_emergencies(subject: Subject, messages: list[Message]) -> None:
    levels = [each.params.get("level") for each in messages]
    low = [level for level in levels if level != "emergency"]
    subject.expect(not low, "no message below emergency", f"levels {low}")


async def _set_level(subject: Subject, level: str) -> None:
    await subject.request("logging/setLevel", {"level": level})


def _level_requests(*levels: Any) -> tuple[Request, ...]:
    return tuple(Request("logging/setLevel", {"level": level}) for level in levels)


# --- session level --------------------------------------------------------------------

add_exchange_case(
    session.should,
    "LOG-05.a",
    "each of the eight levels can be set",
    source="server/utilities/logging#log-levels",
    send=_level_requests(*reversed(LEVELS)),
    expect=Result(),
    why="users cannot choose the log level",
)

add_exchange_case(
    session.should,
    "LOG-05.b",
    "an unknown level is answered with -32602",
    source="server/utilities/logging#error-handling",
    send=_level_requests("loud", "DEBUG", ""),
    expect=Error(-32602),
    lenient=Result(),
    why="a misspelt level goes unnoticed",
)

add_exchange_case(
    session.robust,
    "F07.a",
    "a level that is missing or not a string is refused",
    rules=("LOG-05",),
    send=(Request("logging/setLevel", {}), *_level_requests(3, None)),
    expect=Refusal(),
    lenient=Result(),
    why="a faulty request goes unnoticed",
)


@session.should(
    "LOG-05.c",
    "messages below the set level are not sent",
    source="server/utilities/logging#setting-log-level",
    needs=("logging", "role:notify"),
    sends="the level debug and a call to the `notify` tool, then emergency and a call",
    expects="messages at first, then none below emergency",
    why="users get log messages that they have turned off",
)
async def level_is_applied(subject: Subject) -> None:
    await _set_level(subject, "debug")
    await _call_with_messages(subject)
    await _set_level(subject, "emergency")
    messages = (await _call_with_level(subject))[1]
    await _set_level(subject, "debug")
    _expect_emergencies(subject, messages)


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
    await _set_level(subject, "debug")
    first = (await _call_with_messages(subject))[1]
    await _set_level(subject, "emergency")
    await _set_level(subject, "debug")
    messages = (await _call_with_level(subject))[1]
    subject.expect(
        messages and first, "log messages again", f"{len(messages)} messages"
    )


# --- request level --------------------------------------------------------------------


@request.must(
    "LOG-02.a",
    "no log message is sent for a request without a level",
    source=PER_REQUEST,
    sends="a call to the `notify` tool with the level debug, then one without",
    expects="messages at first, then none",
    why="clients get log data that they did not request",
)
async def silent_without_level(subject: Subject) -> None:
    await _call_with_messages(subject)
    subject.expect_none((await _call_with_level(subject))[1], "no log message")


@request.should(
    "LOG-02.b",
    "messages below the level of the request are not sent",
    source=PER_REQUEST,
    sends="a call to the `notify` tool with the level debug, then with emergency",
    expects="messages at first, then none below emergency",
    why="users get log messages that they have turned off",
)
async def level_of_the_request(subject: Subject) -> None:
    await _call_with_messages(subject)
    _expect_emergencies(subject, (await _call_with_level(subject, "emergency"))[1])


add_exchange_case(
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
    sends="a call to the `notify` tool, and a request after its answer",
    expects="no log message after the answer",
    why="the client has dropped the request that it belongs to",
)
async def none_after_answer(subject: Subject) -> None:
    answer, messages = await _call_with_messages(subject)
    expect_before_answer(
        subject, answer, messages, "log messages before the answer only"
    )


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
    messages = [each for each in subject.received if each.method == MESSAGE]
    if not messages:
        subject.raise_absent("log message")
    subject.expect(subject.facts.declares("logging"), "`logging`", messages[0].raw)
