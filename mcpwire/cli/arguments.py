"""Conversion of ``key=value`` words to arguments, by the schema of a tool or prompt.

`parse_words` parses the words before any server is started; `bind_tool` and
`bind_prompt` then apply the schema. They reject arguments that are certainly invalid,
with a suggestion; the server checks all others.

Schemas are supplied by servers: a reference is resolved within its schema only, and the
number of steps to read a schema is limited, even if its parts refer to each other.
"""

from __future__ import annotations

import contextlib
import json
import re
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpwire.cli.failures import UsageError, close_matches, did_you_mean, unknown_name
from mcpwire.cli.output import one_line, read_file, read_input, shorten
from mcpwire.protocol.json_schema import (
    alternatives_of,
    branches_of,
    properties_of,
    required_of,
    resolve_pointer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwire.types import Prompt, Tool

JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")


class Argument(NamedTuple):
    """One ``key=value`` or ``key:=json`` word."""

    key: str
    value: Any
    """A string that is not yet coerced, or a JSON value."""

    is_json: bool


class ParsedWords(NamedTuple):
    """All arguments of a command line."""

    base: dict[str, Any]
    """The JSON object read from standard input."""

    arguments: tuple[Argument, ...]


def parse_words(words: Sequence[str]) -> ParsedWords:
    """Parse ``key=value``, ``key:=json``, ``key=@file``, ``key:=@file`` and ``-``."""
    base: dict[str, Any] = {}
    arguments: dict[str, Argument] = {}
    for word in words:
        if word == "-":
            base = read_object(read_input(), "standard input")
            continue
        argument = _parse_word(word)
        if argument.key in arguments:
            raise UsageError(f"argument {argument.key!r} is given twice")
        arguments[argument.key] = argument
    return ParsedWords(base, tuple(arguments.values()))


def read_object(text: str, source: str) -> dict[str, Any]:
    """Parse a text as one JSON object."""
    value = _parse_json(text, source)
    if not isinstance(value, dict):
        raise UsageError(
            f"{source} must be one JSON object, got {shorten(json_text(value), 40)}"
        )
    return value


def _parse_word(word: str) -> Argument:
    key, equals, text = word.partition("=")
    is_json = key.endswith(":")
    key = key.removesuffix(":") if is_json else key
    if "://" in key:
        raise UsageError(
            f"{word!r} is not an argument: put the server's URL before the arguments, "
            "or after `--` at the end"
        )
    if not equals or not key:
        raise UsageError(
            f"{word!r} is not an argument: write key=value, key:=json, or - to read "
            "one JSON object from standard input"
        )
    if text.startswith("@"):
        try:
            text = read_file(text[1:])
        except UsageError as error:
            raise UsageError(
                f"argument {key!r}: {error} (for the text itself: {key}:='\"{text}\"')"
            ) from error
    value = _parse_json(text, f"argument {key!r}") if is_json else text
    return Argument(key, value, is_json)


def _parse_json(text: str, source: str) -> Any:
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{source} is not JSON: {shorten(text.strip(), 40)!r}: {error}"
        ) from error


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def raw_arguments(parsed: ParsedWords) -> dict[str, Any]:
    """Return the arguments without coercion: texts, and the values given as JSON."""
    return {**parsed.base, **{item.key: item.value for item in parsed.arguments}}


def bind_tool(tool: Tool, parsed: ParsedWords) -> dict[str, Any]:
    """Return a tool's arguments, coerced by its input schema."""
    reader = SchemaReader(tool.input_schema)
    known = reader.properties()
    names = [*parsed.base, *(argument.key for argument in parsed.arguments)]
    if not reader.is_open():
        _reject_unknown("tool", tool.name, names, list(known))
    _reject_missing("tool", tool.name, names, reader.required())
    bound = dict(parsed.base)
    for argument in parsed.arguments:
        try:
            bound[argument.key] = (
                argument.value
                if argument.is_json
                else coerce(argument.value, known.get(argument.key), reader)
            )
        except ValueError as error:
            raise UsageError(
                f"argument {argument.key!r} of tool {tool.name!r} {error}"
            ) from error
    return bound


def bind_prompt(prompt: Prompt, parsed: ParsedWords) -> dict[str, str]:
    """Return a prompt's arguments; they are all text."""
    known = prompt.arguments or []
    values = raw_arguments(parsed)
    _reject_unknown("prompt", prompt.name, list(values), [a.name for a in known])
    required = [argument.name for argument in known if argument.required]
    _reject_missing("prompt", prompt.name, list(values), required)
    for key, value in values.items():
        if not isinstance(value, str):
            raise UsageError(
                f"argument {key!r} of prompt {prompt.name!r} must be a string, got "
                f"{shorten(json_text(value), 40)}"
            )
    return values


def _reject_unknown(
    kind: str, owner: str, names: Sequence[str], known: Sequence[str]
) -> None:
    for name in names:
        if name not in known:
            advice = f"; it takes {', '.join(known) or 'no arguments'}"
            problem = f"{kind} {owner!r} has no argument {name!r}"
            raise unknown_name(problem, name, known, one_line(advice))


def _reject_missing(
    kind: str, owner: str, names: Sequence[str], required: Sequence[str]
) -> None:
    missing = [name for name in required if name not in names]
    if missing:
        text = ", ".join(map(repr, missing))
        plural = "s" if len(missing) > 1 else ""
        raise UsageError(f"{kind} {owner!r} needs the argument{plural} {text}")


# --- conversion of text to JSON values


def json_text(value: Any) -> str:
    """Return a value as JSON text; "..." if it is nested too deeply."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "..."


def coerce(text: str, schema: Any, reader: SchemaReader) -> Any:
    """Convert a text to a value that the argument's schema allows.

    The value is one of the enumerated values, or has the first type of `KINDS` that
    fits. Without a type in the schema it is a string.
    """
    values = reader.choices(schema)
    if values is None:
        kinds = reader.kinds(schema)
        return read_typed(text, kinds) if kinds else text
    for item in values:
        if text == (item if isinstance(item, str) else json_text(item)):
            return item
    expected = shorten(" or ".join(map(json_text, values)), 200)
    similar = close_matches(text, [item for item in values if isinstance(item, str)])
    raise ValueError(
        one_line(f"must be {expected}, got {text!r}{did_you_mean(similar[:1])}")
    )


def read_typed(text: str, kinds: Sequence[str]) -> Any:
    """Convert a text to the first of the given JSON Schema types that it fits."""
    for kind in kinds:
        with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):
            return KINDS[kind].read(text)
    nouns = " or ".join(KINDS[kind].noun for kind in kinds)
    raise ValueError(f"must be {nouns}, got {shorten(text, 40)!r}")


def _read_integer(text: str) -> int:
    # Python's limit is 4,300 digits by default; JSON peers support far fewer exactly.
    if len(text) > 4_000 or not INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _read_number(text: str) -> float:
    if INTEGER.fullmatch(text):
        return _read_integer(text)
    if not (JSON_NUMBER.fullmatch(text) and isfinite(float(text))):
        raise ValueError(text)
    return float(text)


def _read_json(text: str, kind: type) -> Any:
    value = json.loads(text)
    if not isinstance(value, kind):
        raise TypeError(text)
    return value


class Kind(NamedTuple):
    """One type of JSON Schema."""

    noun: str
    name: str
    """The name that a printed signature uses."""

    read: Callable[[str], Any]
    """Converts a text; raises ValueError, TypeError or LookupError if it is invalid."""


BOOLEANS: Final = {"true": True, "false": False}

KINDS: Final = {
    "null": Kind("null", "null", {"null": None}.__getitem__),
    "boolean": Kind("true or false", "bool", lambda text: BOOLEANS[text.lower()]),
    "integer": Kind("an integer", "int", _read_integer),
    "number": Kind("a number", "float", _read_number),
    "array": Kind("a JSON array", "list", lambda text: _read_json(text, list)),
    "object": Kind("a JSON object", "object", lambda text: _read_json(text, dict)),
    "string": Kind("a string", "str", str),
}
"""Type name -> type, in the order in which the types are tried on a text."""


# --- reading of schemas


MAX_STEPS: Final = 5_000
"""Maximum number of subschemas read per schema; further ones count as "any"."""

MAX_REFERENCES: Final = 16
"""Maximum length of a chain of references; real schemas have one or two."""

MAX_DEPTH: Final = 4
"""Maximum nesting depth of unions that are read."""

OPEN_KEYS: Final = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "$dynamicRef")
"""Keywords that allow an object to have members outside its `properties`."""


class SchemaReader:
    """Reads the types, enumerated values and properties of a schema and its parts."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._steps = 0

    def resolve(self, schema: Any) -> dict[str, Any]:
        """Resolve references; return ``{}`` if there is no schema.

        An `allOf` with a single subschema is replaced by that subschema, too.
        """
        for _ in range(MAX_REFERENCES):
            self._steps += 1
            if self._steps > MAX_STEPS or not isinstance(schema, dict):
                return {}
            self._steps += len(schema) // 32  # they are copied if it is a target
            branches = branches_of(schema, "allOf")
            if isinstance(schema.get("$ref"), str):
                target, keyword = resolve_pointer(self.root, schema["$ref"]), "$ref"
            elif len(branches) == 1:
                target, keyword = branches[0], "allOf"
            else:
                return schema
            siblings = {key: value for key, value in schema.items() if key != keyword}
            schema = {**target, **siblings} if isinstance(target, dict) else siblings
        return {}

    def kinds(self, schema: Any, depth: int = MAX_DEPTH) -> list[str]:
        """Return the types a schema allows, in the order of `KINDS`; empty: any."""
        schema = self.resolve(schema)
        types = schema.get("type")
        if isinstance(types, str):
            types = [types]
        if not isinstance(types, list):
            types = self._join_alternatives(schema, self.kinds, depth) or []
        return [kind for kind in KINDS if kind in types]

    def choices(self, schema: Any, depth: int = MAX_DEPTH) -> list[Any] | None:
        """Return the values that a schema enumerates; None if it enumerates none."""
        schema = self.resolve(schema)
        if "const" in schema:
            return [schema["const"]]
        if values := branches_of(schema, "enum"):
            return values
        if schema.get("type") == "null":
            return [None]
        return self._join_alternatives(schema, self.choices, depth)

    @staticmethod
    def _join_alternatives(
        schema: dict[str, Any], read: Callable[[Any, int], list[Any] | None], depth: int
    ) -> list[Any] | None:
        """Join the results of all alternatives; None if one of them is unrestricted."""
        results: list[Any] = []
        for member in alternatives_of(schema) if depth else ():
            values = read(member, depth - 1)
            if not values:
                return None
            results += values
        return results or None

    def properties(self) -> dict[str, Any]:
        """Return the properties of the object, those of its subschemas included."""
        properties: dict[str, Any] = {}
        seen: set[int] = set()
        pending: list[tuple[Any, int]] = [(self.root, 0)]
        for schema, depth in pending:
            part = self.resolve(schema)
            own = properties_of(part)
            if id(own) not in seen:  # many references may share a target
                seen.add(id(own))
                properties |= {k: v for k, v in own.items() if k not in properties}
            subschemas = alternatives_of(part) + branches_of(part, "allOf")
            if depth < MAX_DEPTH and len(pending) < MAX_STEPS:
                pending += [(schema, depth + 1) for schema in subschemas]
        return properties

    def required(self) -> list[str]:
        """Return the names of the required properties."""
        return required_of(self.resolve(self.root))

    def is_open(self) -> bool:
        """Return whether the object may have members that the schema does not name.

        JSON Schema allows them by default, but authors that declare `properties` mean
        only those.
        """
        part = self.resolve(self.root)
        if "properties" not in part or self.allows_additional():
            return True
        return any(keyword in part for keyword in OPEN_KEYS)

    def allows_additional(self) -> bool:
        """Return whether `additionalProperties` allows further members."""
        return self.resolve(self.root).get("additionalProperties", False) is not False
