"""The target `Stdio`: which command, with what environment, where.

2026-07-28 basic/transports/stdio leaves the environment open; what a server gets of
ours is an allow-list, for servers are other people's programs.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import ConnectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["INHERITED", "Stdio", "parse_command"]

INHERITED: Final = (
    (
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
    )
    if sys.platform == "win32"
    else (
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
    )
)
"""What a server gets of our environment unasked: enough to run, and no secrets."""


def _strings(value: Sequence[str] | Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError(f"args must be a list of arguments, got the string {value!r}")
    return tuple(os.fspath(item) for item in value)


def _names(value: bool | Iterable[str]) -> bool | tuple[str, ...]:  # noqa: FBT001 - public option
    return value if isinstance(value, bool) else _strings(value)


def _shown(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command's words with what is secret in their URLs hidden.

    Words with variables that were filled in are shown as they were `written`.
    """
    written = (getattr(word, "written", word) for word in words)
    return tuple(_masked(word) if "://" in word else word for word in written)


def _masked(word: str) -> str:
    import re

    from mcpwire.wire.urls import mask_url

    url = re.search(r"[A-Za-z][A-Za-z0-9+.-]*://", word)
    start = url.start() if url is not None else 0
    return word[:start] + mask_url(word[start:])


@attrs.frozen
class Stdio:
    """A server to be started as a child process.

    The command is run as given, without a shell. It gets a short list of harmless
    variables (`INHERITED`) and what `env` adds, not our whole environment.
    """

    command: str = attrs.field(converter=os.fspath)
    """The program: a name looked up in PATH, or a path."""

    args: tuple[str, ...] = attrs.field(
        default=(), converter=_strings, repr=lambda args: repr(_shown(args))
    )
    """Its arguments, exactly as the program shall see them. In reprs and messages URLs
    among them lose userinfo, query and fragment; other secrets belong into `env`."""

    env: Mapping[str, str] | None = attrs.field(
        default=None, kw_only=True, repr=lambda env: repr(sorted(env or ()))
    )
    """Variables to add or replace. Values stay out of the repr."""

    inherit_env: bool | tuple[str, ...] = attrs.field(
        default=(), kw_only=True, converter=_names
    )
    """Further variables to pass on by name; ``True`` passes on all of them."""

    cwd: str | None = attrs.field(
        default=None,
        kw_only=True,
        converter=attrs.converters.optional(os.fspath),
    )
    """The working directory; ours by default."""

    stderr: str | Callable[[bytes], None] = attrs.field(default="tail", kw_only=True)
    """``"tail"`` keeps the end of it for error messages, ``"inherit"`` lets it through
    to ours, and a function gets the bytes as they come (the tail is kept too)."""

    @env.validator
    def _check_env(self, _: Any, value: Mapping[Any, Any] | None) -> None:
        # A number is the usual mistake; values are never shown, they may be secrets.
        for name, text in (value or {}).items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise ValueError(
                    f"env must map names to strings, got {type(text).__name__} "
                    f"for {name!r}"
                )

    @stderr.validator
    def _check_stderr(self, _: Any, value: object) -> None:
        if value not in {"tail", "inherit"} and not callable(value):
            raise ValueError(
                f"stderr must be 'tail', 'inherit' or a function, got {value!r}"
            )

    def __str__(self) -> str:
        """Return the command line as one would type it, without the secrets of URLs."""
        import shlex

        line = shlex.join(_shown((self.command, *self.args)))
        if line.isprintable():
            return line
        # Scripts passed as arguments have many lines; a message has one.
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)

    def environment(self) -> dict[str, str]:
        """Return the environment the child will get.

        Raises:
            ConnectError: `inherit_env` names a variable that is not set.
        """
        if self.inherit_env is True:
            chosen = dict(os.environ)
        else:
            names = (*INHERITED, *(self.inherit_env or ()))
            chosen = {name: os.environ[name] for name in names if name in os.environ}
            missing = [name for name in self.inherit_env or () if name not in chosen]
            if missing:
                raise ConnectError(
                    f"inherit_env names variables that are not set: {missing}",
                    target=self.command,
                )
        # An exported shell function is code that the child's shell would run.
        chosen = {k: v for k, v in chosen.items() if not v.startswith("()")}
        return {**chosen, **(self.env or {})}


def parse_command(text: str) -> Stdio:
    """Split a command line as a POSIX shell would, and run none."""
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot split the command line {text!r}: {error}") from error
    if not words:
        raise ValueError("the command line is empty")
    return Stdio(words[0], words[1:])
