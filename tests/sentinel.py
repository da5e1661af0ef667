"""Searches the output of the whole test run for secrets.

Every secret that tests use contains `SENTINEL`. A test fails if one appears in a log
record (at any level in `FOLDERS`), in a warning, in an error of ours when it is
created, in an error that a test expects, with its cause, notes and repr, in standard
output that a test reads, in what pytest captures, or in the test's name.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["FOLDERS", "SENTINEL", "WATCH", "Watch", "install", "listens", "set_levels"]

SENTINEL: Final = "SENTINEL"
AROUND: Final = 60

FOLDERS: Final = (
    *("adversity/oauth/", "auth/", "cli/", "config/", "oauth/", "servers/oauth/"),
    *("gateway/sessions/", "gateway/serving/"),
)
"""Tests that use secrets: all log levels are checked there."""

LOGGERS: Final = ("mcpwire", "httpx")


class Watch(logging.Handler):
    """Checks texts, and records where a secret was.

    Attributes:
        found: The places, with the text around each secret.
    """

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.found: list[str] = []

    def take(self) -> list[str]:
        found, self.found = self.found, []
        return found

    def look(self, where: str, text: object) -> None:
        """Search a text for a secret."""
        shown = text if isinstance(text, str) else str(text)
        at = shown.find(SENTINEL)
        if at >= 0:
            around = shown[max(0, at - AROUND) : at + AROUND]
            self.found.append(f"{where}: ...{around!r}...")

    def look_at_error(self, where: str, error: BaseException) -> None:
        """Search all that an error shows, and its causes, for a secret."""
        for each in chain_of(error):
            kind = f"{where} {type(each).__name__}"
            self.look(kind, str(each))
            self.look(f"{kind}'s repr", repr(each))
            self.look(f"{kind}'s args", repr(each.args))
            for note in getattr(each, "__notes__", ()):
                self.look(f"{kind}'s notes", note)

    def emit(self, record: logging.LogRecord) -> None:
        where = f"the log of {record.name}"
        self.look(where, record.getMessage())
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self.look_at_error(f"{where}, with", error)


WATCH: Final = Watch()
"""The watch of this run."""


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the errors in its group, its causes and its contexts."""
    rest, seen = [error], set()
    while rest:
        each = rest.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        rest += getattr(each, "exceptions", ())
        rest += [one for one in (each.__cause__, each.__context__) if one is not None]


@functools.cache
def listens(path: Path, tests: Path) -> bool:
    """Return whether all log levels are checked in tests of that file."""
    if not path.is_relative_to(tests):
        return False
    return path.relative_to(tests).as_posix().startswith(FOLDERS)


def set_levels(level: int) -> None:
    """Set the level of the loggers that may know secrets."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(level)


def install(patch: pytest.MonkeyPatch, watch: Watch) -> None:
    """Check everything that tests see, as long as `patch` lasts."""
    from mcpwire.errors import MCPError

    logging.getLogger().addHandler(watch)

    def made(self: Any, *args: Any, **options: Any) -> None:
        super(MCPError, self).__init__(*args, **options)
        watch.look(f"{type(self).__name__}, made", repr(args))

    patch.setattr(MCPError, "__init__", made)
    _after(patch, pytest.RaisesExc, "__exit__", lambda it, _: _expected(watch, it))
    _after(patch, pytest.WarningsRecorder, "__exit__", lambda it, _: _warned(watch, it))
    _after(
        patch,
        pytest.CaptureFixture,
        "readouterr",
        lambda _, shown: watch.look("what was printed", "".join(map(str, shown))),
    )


def _warned(watch: Watch, recorded: Any) -> None:
    for each in recorded.list:
        watch.look("an expected warning", each.message)


def _expected(watch: Watch, raises: Any) -> None:
    caught = raises.excinfo
    if caught is not None and caught._excinfo is not None:
        watch.look_at_error("an expected", caught.value)


def _after(
    patch: pytest.MonkeyPatch, cls: type, name: str, look: Callable[[Any, Any], None]
) -> None:
    method = getattr(cls, name)

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        outcome = method(self, *args, **options)
        look(self, outcome)
        return outcome

    patch.setattr(cls, name, wrapped)
