"""Answers given on the command line: one ``--answer`` for each form, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from mcpwire.cli.arguments import read_object
from mcpwire.cli.failures import UsageError, close_matches, did_you_mean
from mcpwire.types.requests import LoggingLevel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwire.cli.grammar import Options
    from mcpwire.types import ElicitAction

__all__ = ["Answer", "parse_answers", "read_options"]

Answer: TypeAlias = "dict[str, Any] | ElicitAction"
"""The fields of an accepted form, or the action that answers it without."""

ACTIONS: Final[dict[str, ElicitAction]] = {"decline": "decline", "cancel": "cancel"}
LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)


def parse_answers(
    words: Sequence[str],
    *,
    read_file: Callable[[str], str],
    read_input: Callable[[], str],
) -> list[Answer]:
    """Read the answers: JSON objects, ``@file``, ``-``, ``decline`` or ``cancel``.

    Raises:
        UsageError: One is none of these.
    """
    if words.count("-") > 1:
        raise UsageError("standard input can be one --answer, not several")
    found: list[Answer] = []
    for word in words:
        if word in ACTIONS:
            found.append(ACTIONS[word])
        elif word == "-":
            found.append(read_object(read_input(), "standard input"))
        elif word.startswith("@"):
            found.append(read_object(read_file(word[1:]), f"--answer {word}"))
        else:
            found.append(read_object(word, "--answer"))
    return found


def read_options(
    options: Options, *, read_file: Callable[[str], str], read_input: Callable[[], str]
) -> None:
    """Read what the options say that are about the server's questions and words.

    Raises:
        UsageError: One of them makes no sense, or two do not go together.
    """
    words = options.given_answers
    if "-" in words and "-" in options.words:
        raise UsageError("standard input can be arguments or an --answer, not both")
    options.answers = parse_answers(words, read_file=read_file, read_input=read_input)
    if options.sample_with is not None:
        options.sample_program = _program(options)
    level = options.log_level
    if level is not None and level not in LEVELS:
        similar = close_matches(level, LEVELS)
        advice = did_you_mean(similar[:1]) or f"; the levels are {', '.join(LEVELS)}"
        raise UsageError(f"--log-level: no level is {level!r}{advice}")


def _program(options: Options) -> Sequence[str]:
    import shlex

    line = options.sample_with or ""
    if options.sample is not None:
        raise UsageError("--sample and --sample-with do not go together")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"--sample-with: cannot split {line!r}: {error}") from error
    if not words:
        raise UsageError("--sample-with: the command is empty")
    return words
