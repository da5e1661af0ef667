"""Calls of many kinds to real servers, each with its expected text."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import mcpwire

CALL: Final = "call_tool"
LONG: Final = "trigger-long-running-operation"
PIPE, WEB, TIME, GIT, BROKEN = "pipe", "web", "time", "git", "broken"
ATTEMPTS: Final = 5


@dataclass
class Call:
    """One call: its server, method and arguments, the expected text, and its losses.

    Attributes:
        again: The arguments of a retry, if they differ after the call was lost.
        lost: How often its connection was lost; it was repeated then.
    """

    server: str
    verb: str
    words: tuple[Any, ...]
    expected: str
    options: dict[str, Any] = field(default_factory=dict)
    again: tuple[Any, ...] | None = None
    lost: int = 0

    async def perform(self, group: mcpwire.Group) -> str:
        """Return the text of the result.

        Only a tool call may be lost, and only one that may have run.
        """
        method: Callable[..., Awaitable[Any]] = getattr(group, self.verb)
        while True:
            try:
                return text_of(await method(self.server, *self.words, **self.options))
            except mcpwire.ConnectionClosed as error:
                self.lost += 1
                if self.verb != CALL or not error.sent or self.lost == ATTEMPTS:
                    raise
                self.words = self.again or self.words


def text_of(result: Any) -> str:
    """Return the text of a tool's result, of a resource or of a prompt."""
    if isinstance(result, mcpwire.types.ReadResourceResult):
        return result.contents[0].text
    if isinstance(result, mcpwire.types.GetPromptResult):
        return result.messages[0].content.text
    assert not result.is_error, result
    return result.text


def everything(server: str, number: int) -> tuple[Call, ...]:
    """Return calls of the everything server with unique arguments."""
    a, b = number, 1000 * number
    name = f"{server}-{number}"
    return (
        Call(server, CALL, ("echo", {"message": name}), f"Echo: {name}"),
        Call(
            server,
            CALL,
            ("get-sum", {"a": a, "b": b}),
            f"The sum of {a} and {b} is {a + b}.",
        ),
        Call(
            server,
            "read_resource",
            (f"demo://resource/dynamic/text/{number + 1}",),
            f"Resource {number + 1}:",
        ),
        Call(
            server,
            "get_prompt",
            ("args-prompt", {"city": name}),
            f"What's weather in {name}?",
        ),
    )


def long(server: str, number: int, on_progress: Callable[..., Any]) -> Call:
    """Return a call that reports progress for long, and whose retry is short."""
    seconds = number / 1000
    return Call(
        server,
        CALL,
        (LONG, {"duration": 600, "steps": 6_000}),
        f"Duration: {seconds} seconds, Steps: 1",
        {"on_progress": on_progress},
        again=(LONG, {"duration": seconds, "steps": 1}),
    )


def hour(number: int) -> Call:
    """Return a call of the time server: convert a minute of the day to UTC+9."""
    then = f"{number // 60 + 9:02}:{number % 60:02}:00+09:00"
    words = {
        "source_timezone": "UTC",
        "time": f"{number // 60:02}:{number % 60:02}",
        "target_timezone": "Asia/Tokyo",
    }
    return Call(TIME, CALL, ("convert_time", words), then)


def commit(repository: Any, number: int) -> Call:
    """Return a call of the git server: the log, or the status."""
    path = {"repo_path": str(repository)}
    if number % 2:
        return Call(GIT, CALL, ("git_log", path), "The first line")
    return Call(GIT, CALL, ("git_status", path), "nothing to commit")
