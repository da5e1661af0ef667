"""Conversion of values between JSON and Python, and its error messages.

msgspec converts. For other types it calls hooks: for paths, for pydantic's types, which
validate themselves, and for `Foreign` stand-ins. `plain` converts values back to JSON.

An error message contains the location, the expected type and the received value, in
JSON terms, so that a model can correct its arguments. It quotes at most a hundred
characters of the client's value.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import attrs
import msgspec

from mcpwire.errors import LocalProtocolError, RemoteProtocolError, ToolError
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.protocol.output_validation import SchemaValidator
    from mcpwire.server.authoring.schemas import Schemas

Path: TypeAlias = "tuple[str | int, ...]"
"""The path to a location in a value."""


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
"""In a path, a member of an object with an unknown name."""

_EXPECTED: Final = re.compile(r"Expected `([^`]*)`(?:, got `[^`]*`)?(.*)", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN_MEMBER: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


class BadArguments(ToolError, ValueError):
    """Arguments that do not fit the function's parameters."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        told = self.faults[:_FAULTS]
        if len(self.faults) > _FAULTS:
            told = (*told, f"and {len(self.faults) - _FAULTS} more")
        super().__init__("; ".join(told))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.faults,)


def excerpt(text: object) -> str:
    """Return the truncated `repr` of a name or text from a client."""
    whole = str(text)
    return repr(whole if len(whole) <= _EXCERPT else whole[:_EXCERPT] + "…")


def shown(value: Any) -> str:
    """Return the type of a JSON value, with the value if it is short."""
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"string {excerpt(value)}"
    if isinstance(value, (int, float)):
        # Formatting an integer of many digits is slow.
        is_short = isinstance(value, float) or value.bit_length() <= _EXCERPT
        return f"number {value}" if is_short else "a huge number"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else type(value).__name__


def spelled(name: str, path: Iterable[str | int]) -> str:
    """Return a location in words: the argument and the path into it."""
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
    """Return the paths and messages of an error of msgspec, or of a hook's `Fault`."""
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
    """Return the messages about an argument, from the error of its conversion."""
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
        return f"expected {listed([] if path else _choices(schema))}"
    said = message[:_MESSAGE]
    return f"{said[:1].lower()}{said[1:]}"


def listed(allowed: list[Any]) -> str:
    """Return a list of allowed values in words, truncated."""
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


_UNKNOWN: Final = object()
"""In place of a value: the path does not lead to one."""


def _path(raw: str) -> Path:
    """Parse a path in msgspec's notation."""
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


_EXACT_FLOATS: Final = 2**53


class Fault(ValueError):
    """A value that does not fit; `places` holds the paths and the reasons."""

    def __init__(self, places: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
        self.places = tuple(places)
        super().__init__("; ".join(said for _, said in self.places))


class _Anything(type):
    """Accepts every instance: msgspec checks the class of a hook's result."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Foreign(metaclass=_Anything):
    """Stand-in for a type hint; created by `stands_for`."""

    make: ClassVar[Callable[..., Any]]
    """Converts a JSON value, given `strict`; raises `ValueError`."""

    describe: ClassVar[Callable[[Schemas], dict[str, Any]]]
    """Returns the schema."""


def stands_for(name: str) -> Any:
    """Return a new stand-in class; the caller sets its `make` and `describe`."""
    return _Anything(name, (Foreign,), {})


def _build(kind: Any, value: Any, *, strict: bool) -> Any:
    """Build a value of a type that msgspec does not support."""
    if issubclass(kind, Foreign):
        return kind.make(value, strict=strict)
    if is_pydantic(kind):
        return validate(kind.__pydantic_validator__, value, strict=strict)
    # A path: `Schemas` refuses all other types.
    if isinstance(value, str):
        return kind(value)
    raise Fault([((), "expected a path as text")])


STRICT: Final = partial(_build, strict=True)
"""The `dec_hook` that does not convert between JSON types."""

LENIENT: Final = partial(_build, strict=False)
"""The `dec_hook` that converts between JSON types, such as texts to numbers."""


# --- to JSON

_AS_THEY_ARE: Final = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """Return the JSON form of a value."""
    if type(value) in _AS_THEY_ARE:
        return value
    return msgspec.to_builtins(value, str_keys=True, enc_hook=to_plain)


def is_record(value: Any) -> bool:
    """Return whether a value's JSON form is an object."""
    kind = type(value)
    return (
        isinstance(value, dict)
        or attrs.has(kind)
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "__struct_fields__")
        or hasattr(kind, "model_fields")
    )


def to_plain(value: Any) -> Any:
    """Return a value in a form that msgspec can encode; for `enc_hook`."""
    if isinstance(value, PurePath):
        return str(value)
    kind = type(value)
    if is_pydantic(kind):
        if hasattr(kind, "model_dump"):
            return value.model_dump(mode="json", by_alias=True)
        return adapter_of(kind).dump_python(value, mode="json", by_alias=True)
    raise TypeError(f"a value of type {kind.__name__} has no JSON form")


# --- pydantic


_PYDANTIC: Final = ("__pydantic_validator__", "__get_pydantic_core_schema__")


def is_pydantic(kind: Any) -> bool:
    """Return whether a type has pydantic's methods, without importing pydantic."""
    return "pydantic" in sys.modules and any(hasattr(kind, name) for name in _PYDANTIC)


def adapter_of(hint: Any) -> Any:
    """Return pydantic's adapter for a hint, which validates and describes it."""
    pydantic: Any = sys.modules["pydantic"]  # imported, because the hint is pydantic's
    return pydantic.TypeAdapter(hint)


def validate(adapter: Any, value: Any, *, strict: bool) -> Any:
    """Convert and validate a value with pydantic."""
    pydantic: Any = sys.modules["pydantic"]
    try:
        try:
            # As JSON: only from JSON does strict mode accept a text as a date.
            return adapter.validate_json(encode(value), strict=strict or None)
        except pydantic.ValidationError:
            whole = with_whole_numbers(value)
            if whole is value or not strict:
                raise
            return adapter.validate_json(encode(whole), strict=True)
    except LocalProtocolError as error:  # nested too deeply to encode
        raise Fault([((), str(error).removeprefix("cannot send $: "))]) from error
    except pydantic.ValidationError as error:
        faults = [
            (tuple(each["loc"]), each["msg"][:_MESSAGE])
            for each in error.errors(include_url=False)[:_FAULTS]
        ]
        raise Fault(faults) from error


def with_whole_numbers(value: Any) -> Any:
    """Return a JSON value in which floats without a fraction are integers.

    If nothing changes, it is the same object (JSON Schema 2020-12 validation 6.1.1).
    """
    if type(value) is float:
        is_whole = value.is_integer() and abs(value) <= _EXACT_FLOATS
        return int(value) if is_whole else value
    if type(value) is dict:
        made: Any = {name: with_whole_numbers(each) for name, each in value.items()}
        changed = any(made[name] is not each for name, each in value.items())
        return made if changed else value
    if type(value) is list:
        made = [with_whole_numbers(each) for each in value]
        changed = any(a is not b for a, b in zip(made, value, strict=True))
        return made if changed else value
    return value


def validator_of(schema: Mapping[str, Any], what: str) -> SchemaValidator | None:
    """Return a validator of a schema; ``None``: jsonschema-rs is not installed."""
    from mcpwire.protocol.output_validation import SchemaValidator

    try:
        return SchemaValidator(schema)
    except LocalProtocolError:
        return None
    except RemoteProtocolError as error:
        raise ValueError(f"{what}: {error}") from error
