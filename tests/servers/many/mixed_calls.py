"""Calls of many kinds to real servers; of each it is known what must come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import mcpwire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CALL: Final = "call_tool"
LONG: Final = "trigger-long-running-operation"
PIPE, WEB, TIME, GIT, BROKEN = "pipe", "web", "time", "git", "broken"
ATTEMPTS: Final = 5


@dataclass
class Asked:
    """One call: whom it asks for what, what must come, and what came.

    Attributes:
        again: The words for the next time, where they differ once the call was lost.
        lost: How often the connection went down under it; the caller repeated it then.
    """

    server: str
    verb: str
    words: tuple[Any, ...]
    expected: str
    options: dict[str, Any] = field(default_factory=dict)
    again: tuple[Any, ...] | None = None
    lost: int = 0

    async def perform(self, group: mcpwire.Group) -> str:
        """Return the text that comes.

        Only a call of a tool may be lost, and only one that may have run.
        """
        ask: Callable[..., Awaitable[Any]] = getattr(group, self.verb)
        while True:
            try:
                return text_of(await ask(self.server, *self.words, **self.options))
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


def everything(server: str, number: int) -> tuple[Asked, ...]:
    """Return calls of the everything server that nobody else makes."""
    a, b = number, 1000 * number
    name = f"{server}-{number}"
    return (
        Asked(server, CALL, ("echo", {"message": name}), f"Echo: {name}"),
        Asked(
            server,
            CALL,
            ("get-sum", {"a": a, "b": b}),
            f"The sum of {a} and {b} is {a + b}.",
        ),
        Asked(
            server,
            "read_resource",
            (f"demo://resource/dynamic/text/{number + 1}",),
            f"Resource {number + 1}:",
        ),
        Asked(
            server,
            "get_prompt",
            ("args-prompt", {"city": name}),
            f"What's weather in {name}?",
        ),
    )


def long(server: str, number: int, on_progress: Callable[..., Any]) -> Asked:
    """Return a call that reports progress for long, and ends soon the next time."""
    seconds = number / 1000
    return Asked(
        server,
        CALL,
        (LONG, {"duration": 600, "steps": 6_000}),
        f"Duration: {seconds} seconds, Steps: 1",
        {"on_progress": on_progress},
        again=(LONG, {"duration": seconds, "steps": 1}),
    )


def hour(number: int) -> Asked:
    """Return a call of the time server: what a minute of the day is nine hours east."""
    then = f"{number // 60 + 9:02}:{number % 60:02}:00+09:00"
    words = {
        "source_timezone": "UTC",
        "time": f"{number // 60:02}:{number % 60:02}",
        "target_timezone": "Asia/Tokyo",
    }
    return Asked(TIME, CALL, ("convert_time", words), then)


def commit(repository: Any, number: int) -> Asked:
    """Return a call of the git server: the one commit, or what is not committed."""
    path = {"repo_path": str(repository)}
    if number % 2:
        return Asked(GIT, CALL, ("git_log", path), "The first line")
    return Asked(GIT, CALL, ("git_status", path), "nothing to commit")
