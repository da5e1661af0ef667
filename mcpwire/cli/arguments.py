"""Turns ``key=value`` words into arguments, by the schema of what they are for.

First the words alone (`parse_words`, before any server is started), then the schema
(`bind_tool`, `bind_prompt`). What cannot be right is refused here, with what may have
been meant; what may be right is left to the server.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpwire.cli.escape import one_line, shorten
from mcpwire.cli.failures import UsageError, close_matches, did_you_mean
from mcpwire.cli.schemas import SchemaReader, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwire.cli.schemas import Json
    from mcpwire.types import Prompt, Tool

__all__ = [
    "Argument",
    "Given",
    "bind_prompt",
    "bind_tool",
    "coerce",
    "parse_words",
    "read_object",
    "unchecked",
]

JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")

NOUNS: Final = {
    "array": "a JSON array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "a JSON object",
    "string": "a string",
}


class Argument(NamedTuple):
    """One ``key=value`` or ``key:=json``."""

    key: str
    value: Any
    """A string still to be coerced, or a JSON value."""

    is_json: bool


class Given(NamedTuple):
    """All arguments of a command line."""

    base: dict[str, Any]
    """The object that came by standard input."""

    arguments: tuple[Argument, ...]


def parse_words(
    words: Sequence[str],
    *,
    read_file: Callable[[str], str],
    read_input: Callable[[], str],
) -> Given:
    """Parse ``key=value``, ``key:=json``, ``key=@file``, ``key:=@file`` and ``-``.

    Raises:
        UsageError: A word is none of these, or names an argument again.
    """
    base: dict[str, Any] = {}
    found: dict[str, Argument] = {}
    for word in words:
        if word == "-":
            base = read_object(read_input(), "standard input")
            continue
        argument = _parse_word(word, read_file)
        if argument.key in found:
            raise UsageError(f"argument {argument.key!r} is given twice")
        found[argument.key] = argument
    return Given(base, tuple(found.values()))


def read_object(text: str, what: str) -> dict[str, Any]:
    """Return the JSON object that a text is.

    Raises:
        UsageError: It is none.
    """
    value = _json(text, what)
    if not isinstance(value, dict):
        raise UsageError(
            f"{what} must be one JSON object, got {shorten(literal(value), 40)}"
        )
    return value


def _parse_word(word: str, read_file: Callable[[str], str]) -> Argument:
    key, equals, text = word.partition("=")
    is_json = key.endswith(":")
    key = key.removesuffix(":") if is_json else key
    if not equals or not key:
        raise UsageError(
            f"{word!r} is no argument: write key=value, key:=json, or - to read one "
            "JSON object from standard input"
        )
    if text.startswith("@"):
        try:
            text = read_file(text[1:])
        except UsageError as error:
            raise UsageError(
                f"argument {key!r}: {error} (for the text itself: {key}:='\"{text}\"')"
            ) from error
    value = _json(text, f"argument {key!r}") if is_json else text
    return Argument(key, value, is_json)


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{what} is no JSON: {shorten(text.strip(), 40)!r}: {error}"
        ) from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def unchecked(given: Given) -> dict[str, Any]:
    """Return the arguments as they were typed: texts, and what was given as JSON."""
    return {**given.base, **{item.key: item.value for item in given.arguments}}


def bind_tool(tool: Tool, given: Given) -> dict[str, Any]:
    """Return a tool's arguments, coerced by its input schema.

    Raises:
        UsageError: One is unknown, missing, or cannot be what the schema asks for.
    """
    reader = SchemaReader(tool.input_schema)
    known = reader.properties()
    names = [*given.base, *(item.key for item in given.arguments)]
    if not reader.is_open():
        _refuse_unknown("tool", tool.name, names, list(known))
    _refuse_missing("tool", tool.name, names, reader.required())
    bound = dict(given.base)
    for item in given.arguments:
        try:
            bound[item.key] = (
                item.value
                if item.is_json
                else coerce(item.value, known.get(item.key), reader)
            )
        except ValueError as error:
            raise UsageError(
                f"argument {item.key!r} of tool {tool.name!r} {error}"
            ) from error
    return bound


def bind_prompt(prompt: Prompt, given: Given) -> dict[str, str]:
    """Return a prompt's arguments; they are all text.

    Raises:
        UsageError: One is unknown, missing or no text.
    """
    known = prompt.arguments or []
    values = unchecked(given)
    _refuse_unknown("prompt", prompt.name, list(values), [a.name for a in known])
    required = [argument.name for argument in known if argument.required]
    _refuse_missing("prompt", prompt.name, list(values), required)
    for key, value in values.items():
        if not isinstance(value, str):
            raise UsageError(
                f"argument {key!r} of prompt {prompt.name!r} must be a string, got "
                f"{shorten(literal(value), 40)}"
            )
    return values


def _refuse_unknown(
    kind: str, owner: str, names: Sequence[str], known: Sequence[str]
) -> None:
    for name in names:
        if name not in known:
            similar = close_matches(name, known)
            takes = f"takes {', '.join(known)}" if known else "takes no arguments"
            raise UsageError(
                f"{kind} {owner!r} has no argument {name!r}"
                + one_line(did_you_mean(similar) or f"; it {takes}"),
                suggestions=similar,
            )


def _refuse_missing(
    kind: str, owner: str, names: Sequence[str], required: Sequence[str]
) -> None:
    missing = [name for name in required if name not in names]
    if missing:
        listed = ", ".join(map(repr, missing))
        plural = "s" if len(missing) > 1 else ""
        raise UsageError(f"{kind} {owner!r} needs the argument{plural} {listed}")


def coerce(text: str, schema: Json, reader: SchemaReader) -> Any:
    """Return what a typed text stands for, by the schema of its argument.

    The first that fits of: one of the listed values, null, boolean, integer, number,
    array, object, string. Where the schema says nothing, it is a string.

    Raises:
        ValueError: It can be none of what the schema allows.
    """
    listed = reader.choices(schema)
    if listed is not None:
        return _choose(text, listed)
    allowed = reader.kinds(schema)
    if not allowed:
        return text
    for kind in allowed:
        found, value = READERS[kind](text)
        if found:
            return value
    nouns = " or ".join(NOUNS[kind] for kind in allowed)
    raise ValueError(f"must be {nouns}, got {shorten(text, 40)!r}")


def _choose(text: str, listed: list[Json]) -> Json:
    for value in listed:
        if text == (value if isinstance(value, str) else literal(value)):
            return value
    shown = shorten(" or ".join(map(literal, listed)), 200)
    similar = close_matches(text, [value for value in listed if isinstance(value, str)])
    raise ValueError(
        one_line(f"must be {shown}, got {text!r}{did_you_mean(similar[:1])}")
    )


Reading = tuple[bool, Any]
NOTHING: Final[Reading] = (False, None)


def _read_boolean(text: str) -> Reading:
    folded = text.lower()
    return (True, folded == "true") if folded in {"true", "false"} else NOTHING


def _read_integer(text: str) -> Reading:
    # Python converts no more digits than this; JSON peers read far fewer exactly.
    if len(text) <= 4_000 and INTEGER.fullmatch(text):
        return True, int(text)
    return NOTHING


def _read_number(text: str) -> Reading:
    if not JSON_NUMBER.fullmatch(text):
        return NOTHING
    found, value = _read_integer(text)
    value = value if found else float(text)
    return (True, value) if found or isfinite(value) else NOTHING


def _read_json(text: str, kind: type) -> Reading:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return NOTHING
    return (True, value) if isinstance(value, kind) else NOTHING


READERS: Final[dict[str, Callable[[str], Reading]]] = {
    "null": lambda text: (text == "null", None),
    "boolean": _read_boolean,
    "integer": _read_integer,
    "number": _read_number,
    "array": lambda text: _read_json(text, list),
    "object": lambda text: _read_json(text, dict),
    "string": lambda text: (True, text),
}
