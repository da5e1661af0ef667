"""What is wrong with arguments, said so that a model can put it right.

Each fault names the place, what was expected there and what came instead, in the words
of JSON. Of what the client sent, a hundred characters are repeated at most.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpwire.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Path: TypeAlias = "tuple[str | int, ...]"
"""The way into a value."""

__all__ = ["BadArguments", "excerpt", "faults_of", "places_of", "shown", "spelled"]

_EXCERPT: Final = 100
_FAULTS: Final = 20
_MESSAGE: Final = 200

_WORDS: Final = {
    "array": "array",
    "bool": "boolean",
    "bytes": "Base64",
    "float": "number",
    "int": "integer",
    "null": "null",
    "object": "object",
    "str": "string",
}

UNNAMED: Final = "..."
"""In a path, a member of an object whose name is not told."""

_EXPECTED: Final = re.compile(r"Expected `([^`]*)`(?:, got `[^`]*`)?(.*)", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN_MEMBER: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


class BadArguments(ToolError, ValueError):
    """Arguments that do not fit the function's parameters.

    Attributes:
        faults: What is wrong, a sentence for each place.
    """

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        told = self.faults[:_FAULTS]
        if len(self.faults) > _FAULTS:
            told = (*told, f"and {len(self.faults) - _FAULTS} more")
        super().__init__("; ".join(told))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the faults."""
        return type(self), (self.faults,)


def excerpt(text: object) -> str:
    """Return the beginning of a name or text that a client chose, as Python has it."""
    whole = str(text)
    return repr(whole if len(whole) <= _EXCERPT else whole[:_EXCERPT] + "…")


def shown(value: Any) -> str:
    """Return what a JSON value is, with the value where that is short."""
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"string {excerpt(value)}"
    if isinstance(value, (int, float)):
        # An integer of many digits takes long to write.
        is_short = isinstance(value, float) or value.bit_length() <= _EXCERPT
        return f"number {value}" if is_short else "a huge number"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else type(value).__name__


def spelled(name: str, path: Iterable[str | int]) -> str:
    """Return where something is: the argument and the way into it."""
    text = name if len(name) <= _EXCERPT else name[:_EXCERPT] + "…"
    for step in path:
        if step is UNNAMED:
            text += "[...]"
        elif isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() and len(step) <= _EXCERPT:
            text += f".{step}"
        else:
            text += f"[{excerpt(step)}]"
        if len(text) > 2 * _EXCERPT:
            return text[: 2 * _EXCERPT] + "…"
    return text


def places_of(error: BaseException) -> list[tuple[Path, str]]:
    """Return where msgspec found faults, and what it says of each.

    A hook's own `Fault` knows more places, within the one that it was asked about.
    """
    message, _, raw_path = str(error).rpartition(" - at `")
    if not message:
        message, raw_path = str(error), ""
    path = _path(raw_path.partition("`")[0])
    inner = getattr(error.__cause__, "places", None)
    if inner is None:
        return [(path, message)]
    return [((*path, *deeper), said) for deeper, said in inner]


def faults_of(
    name: str, value: Any, error: BaseException, schema: Mapping[str, Any]
) -> list[str]:
    """Return what is wrong with an argument, from what a reader of types said of it."""
    if isinstance(error, RecursionError):
        return [f"{name}: nested too deeply"]
    return [_fault(name, value, *place, schema) for place in places_of(error)]


def _fault(
    name: str, value: Any, path: Path, message: str, schema: Mapping[str, Any]
) -> str:
    if (missing := _MISSING.fullmatch(message)) is not None:
        return f"{spelled(name, (*path, missing[1]))} is missing"
    if (unknown := _UNKNOWN_MEMBER.fullmatch(message)) is not None:
        return f"{spelled(name, path)}: unknown member {excerpt(unknown[1])}"
    came = _at(value, path)
    got = "" if came is _UNKNOWN else f", got {shown(came)}"
    return f"{spelled(name, path)}: {_sentence(message, path, schema)}{got}"


def _sentence(message: str, path: Path, schema: Mapping[str, Any]) -> str:
    if (expected := _EXPECTED.fullmatch(message)) is not None:
        kinds = [_WORDS.get(kind, kind) for kind in expected[1].split(" | ")]
        return f"expected {' or '.join(kinds)}{expected[2]}"
    if message.startswith("Invalid enum value"):
        return f"expected {_listed([] if path else _choices(schema))}"
    said = message[:_MESSAGE]
    return f"{said[:1].lower()}{said[1:]}"


def _listed(allowed: list[Any]) -> str:
    if not allowed:
        return "one of the allowed values"
    shorter = [repr(each) for each in allowed[:_FAULTS]]
    more = [] if len(allowed) <= _FAULTS else ["..."]
    return f"one of {', '.join(shorter + more)}"


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    found = list(schema.get("enum", ()))
    for inner in schema.get("anyOf", ()):
        found += inner.get("enum", ())
    return found


class _Unknown:
    """Stands for what cannot be found again."""


_UNKNOWN: Final = _Unknown()


def _path(raw: str) -> Path:
    """Return a path as msgspec writes it."""
    steps: list[str | int] = []
    for step in _STEP.finditer(raw.removeprefix("$")):
        if step[1] is not None:
            steps.append(step[1])
        else:
            steps.append(int(step[2]) if step[2] is not None else UNNAMED)
    return tuple(steps)


def _at(value: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return _UNKNOWN
    return value
