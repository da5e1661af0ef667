"""Watches the whole run for secrets where no secret must be.

Every secret that tests use holds `SENTINEL`. The test fails in which one shows up in
what anybody logs (at any level in `FOLDERS`), in a warning, in an error of ours when it
is made, in an error that a test expects, with its cause, notes and repr, in what a test
reads of standard output, in what pytest captures, or in the test's name.
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
"""Tests that have secrets, where everything is listened to that anybody says."""

LOGGERS: Final = ("mcpwire", "httpx")


class Watch(logging.Handler):
    """Looks at what it is shown, and keeps where a secret was.

    Attributes:
        found: Where, and what stood around it.
    """

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.found: list[str] = []

    def take(self) -> list[str]:
        """Return what was found, and forget it."""
        found, self.found = self.found, []
        return found

    def look(self, where: str, text: object) -> None:
        """Look for a secret in what can be read there."""
        said = text if isinstance(text, str) else str(text)
        at = said.find(SENTINEL)
        if at >= 0:
            around = said[max(0, at - AROUND) : at + AROUND]
            self.found.append(f"{where}: ...{around!r}...")

    def look_at_error(self, where: str, error: BaseException) -> None:
        """Look for a secret in all that an error shows, and what led to it."""
        for each in chain_of(error):
            kind = f"{where} {type(each).__name__}"
            self.look(kind, str(each))
            self.look(f"{kind}'s repr", repr(each))
            self.look(f"{kind}'s args", repr(each.args))
            for note in getattr(each, "__notes__", ()):
                self.look(f"{kind}'s notes", note)

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a line of a log."""
        where = f"the log of {record.name}"
        self.look(where, record.getMessage())
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self.look_at_error(f"{where}, with", error)


WATCH: Final = Watch()
"""The one of this run."""


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it holds, what caused it and what it came up in."""
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
    """Tell whether everything is listened to in tests of that file."""
    if not path.is_relative_to(tests):
        return False
    return path.relative_to(tests).as_posix().startswith(FOLDERS)


def set_levels(level: int) -> None:
    """Have those who may know secrets say everything, or what they usually do."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(level)


def install(patch: pytest.MonkeyPatch, watch: Watch) -> None:
    """Have what tests see looked at, for as long as `patch` lasts."""
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
        lambda _, said: watch.look("what was printed", "".join(map(str, said))),
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
