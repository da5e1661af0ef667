"""Conversion of values between JSON and Python, and its error messages.

msgspec converts. For other types it calls hooks: for paths, for pydantic's types, which
validate themselves, and for each `StandIn`. `to_json_value` converts back to JSON.

An error message contains the location, the expected type and the received value, in
JSON terms, so that a model can correct its arguments. It quotes at most a hundred
characters of the client's value.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import re
import sys
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import attrs
import msgspec

from mcpwire.errors import LocalProtocolError, RemoteProtocolError, ToolError
from mcpwire.types import encode as encode_wire_type
from mcpwire.types._base import WireType
from mcpwire.types._codec import json_type
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.protocol.output_validation import SchemaValidator
    from mcpwire.server.authoring.schemas import Schemas

Path: TypeAlias = "tuple[str | int, ...]"
"""The path to a location in a value."""


_MAX_EXCERPT: Final = 100
_MAX_FAULTS: Final = 20
_MAX_MESSAGE: Final = 200

_TYPE_NAMES: Final = {
    "array": "array",
    "bool": "boolean",
    "bytes": "Base64",
    "dict": "object",
    "float": "number",
    "int": "integer",
    "list": "array",
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
        reported = self.faults[:_MAX_FAULTS]
        if len(self.faults) > _MAX_FAULTS:
            reported = (*reported, f"and {len(self.faults) - _MAX_FAULTS} more")
        super().__init__("; ".join(reported))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.faults,)


def excerpt(text: object) -> str:
    """Return the truncated `repr` of a name or text from a client."""
    string = str(text)
    return repr(string if len(string) <= _MAX_EXCERPT else string[:_MAX_EXCERPT] + "…")


def describe_value(value: Any) -> str:
    """Return the type of a JSON value, with the value if it is short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"string {excerpt(value)}"
    if isinstance(value, (int, float)):
        # Formatting an integer of many digits is slow.
        is_short = isinstance(value, float) or value.bit_length() <= _MAX_EXCERPT
        return f"number {value}" if is_short else "a huge number"
    return json_type(value)


def format_location(name: str, path: Iterable[str | int]) -> str:
    """Return a location in words: the argument and the path into it."""
    text = name if len(name) <= _MAX_EXCERPT else name[:_MAX_EXCERPT] + "…"
    for step in path:
        if step is UNNAMED:
            text += "[...]"
        elif isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() and len(step) <= _MAX_EXCERPT:
            text += f".{step}"
        else:
            text += f"[{excerpt(step)}]"
        if len(text) > 2 * _MAX_EXCERPT:
            return text[: 2 * _MAX_EXCERPT] + "…"
    return text


def locations_of(error: BaseException) -> list[tuple[Path, str]]:
    """Return the paths and messages of an error of msgspec, or of a hook's `Fault`."""
    message, _, raw_path = str(error).rpartition(" - at `")
    if not message:
        message, raw_path = str(error), ""
    steps = _STEP.finditer(raw_path.partition("`")[0])
    path = tuple(step[1] or (int(step[2]) if step[2] else UNNAMED) for step in steps)
    locations = getattr(error.__cause__, "locations", None)
    if locations is None:
        return [(path, message)]
    return [((*path, *inner_path), reason) for inner_path, reason in locations]


def faults_of(
    name: str, value: Any, error: BaseException, schema: Mapping[str, Any]
) -> list[str]:
    """Return the messages about an argument, from the error of its conversion."""
    if isinstance(error, RecursionError):
        return [f"{name}: nested too deeply"]
    if isinstance(error, TypeError):
        return [f"{name}: a set must not contain arrays or objects"]
    return [
        _format_fault(name, value, *location, schema)
        for location in locations_of(error)
    ]


def _format_fault(
    name: str, value: Any, path: Path, message: str, schema: Mapping[str, Any]
) -> str:
    if (missing := _MISSING.fullmatch(message)) is not None:
        return f"{format_location(name, (*path, missing[1]))} is missing"
    if (unknown := _UNKNOWN_MEMBER.fullmatch(message)) is not None:
        return f"{format_location(name, path)}: unknown member {excerpt(unknown[1])}"
    received = _value_at(value, path)
    got = "" if received is _NO_VALUE else f", got {describe_value(received)}"
    return f"{format_location(name, path)}: {_sentence(message, path, schema)}{got}"


def _sentence(message: str, path: Path, schema: Mapping[str, Any]) -> str:
    if (expected := _EXPECTED.fullmatch(message)) is not None:
        kinds = [_TYPE_NAMES.get(kind, kind) for kind in expected[1].split(" | ")]
        return f"expected {' or '.join(kinds)}{expected[2]}"
    if message.startswith("Invalid enum value"):
        return f"expected {describe_choices([] if path else _choices(schema))}"
    text = message[:_MAX_MESSAGE]
    return f"{text[:1].lower()}{text[1:]}"


def describe_choices(allowed: list[Any]) -> str:
    """Return a list of allowed values in words, truncated."""
    if not allowed:
        return "one of the allowed values"
    texts = [repr(value) for value in allowed[:_MAX_FAULTS]]
    ellipsis = [] if len(allowed) <= _MAX_FAULTS else ["..."]
    return f"one of {', '.join(texts + ellipsis)}"


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    members = [schema, *schema.get("anyOf", ())]
    return [value for member in members for value in member.get("enum", ())]


_NO_VALUE: Final = object()
"""In place of a value: the path does not lead to one."""


def _value_at(value: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        if isinstance(value, str):  # JSON in a text
            return _NO_VALUE
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return _NO_VALUE
    return value


_MAX_EXACT_FLOAT: Final = 2**53


class Fault(ValueError):
    """A value that does not fit; `locations` holds the paths and the reasons."""

    def __init__(self, locations: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
        self.locations = tuple(locations)
        super().__init__("; ".join(reason for _, reason in self.locations))


class _AcceptsAll(type):
    """Accepts every instance: msgspec checks the class of a hook's result."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class StandIn(metaclass=_AcceptsAll):
    """Stand-in for a type hint; created by `new_stand_in`."""

    make: ClassVar[Callable[..., Any]]
    """Converts a JSON value, given `strict`; raises `ValueError`."""

    describe: ClassVar[Callable[[Schemas], dict[str, Any]]]
    """Returns the schema."""


def new_stand_in(name: str, **functions: Any) -> Any:
    """Return a new stand-in class; the caller may set its functions later."""
    return _AcceptsAll(name, (StandIn,), functions)


def _build(kind: Any, value: Any, *, strict: bool) -> Any:
    """Build a value of a type that msgspec does not support."""
    if issubclass(kind, StandIn):
        return kind.make(value, strict=strict)
    if is_pydantic(kind):
        return validate_pydantic(kind.__pydantic_validator__, value, strict=strict)
    # A path: `Schemas` refuses all other types.
    if isinstance(value, str):
        return kind(value)
    raise Fault([((), f"Expected `a path as text`, got `{type(value).__name__}`")])


STRICT: Final = partial(_build, strict=True)
"""The `dec_hook` that does not convert between JSON types."""

LENIENT: Final = partial(_build, strict=False)
"""The `dec_hook` that converts between JSON types, such as texts to numbers."""


def convert(value: Any, hint: Any, *, strict: bool = True) -> Any:
    """Convert a JSON value to a translated hint."""
    hook = STRICT if strict else LENIENT
    return msgspec.convert(value, hint, strict=strict, str_keys=True, dec_hook=hook)


# --- to JSON

_JSON_SCALARS: Final = frozenset({str, int, float, bool, type(None)})

# msgspec encodes neither subclasses, such as the float64 of numpy, nor these.
_TO_PLAIN: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes,
    collections.UserString: str,
    collections.abc.Mapping: dict,
    collections.abc.Sequence: list,
    collections.abc.Set: list,
    collections.abc.ValuesView: list,
}


def to_json_value(value: Any) -> Any:
    """Return the JSON form of a value."""
    if type(value) in _JSON_SCALARS:
        return value
    return msgspec.to_builtins(value, str_keys=True, enc_hook=to_encodable)


def is_json(value: Any) -> bool:
    """Return whether a value can be sent."""
    try:
        encode(value)
    except LocalProtocolError:
        return False
    return True


def contains_pydantic(value: Any) -> bool:
    """Return whether a value contains objects that pydantic has validated."""
    kinds: list[type] = []

    def record(item: Any) -> Any:
        kinds.append(type(item))
        return to_encodable(item)

    msgspec.to_builtins(value, str_keys=True, enc_hook=record)
    return any(map(is_pydantic, kinds))


def is_record(value: Any) -> bool:
    """Return whether a value's JSON form is an object."""
    kind = type(value)
    return (
        isinstance(value, collections.abc.Mapping)
        or attrs.has(kind)
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "__struct_fields__")
        or hasattr(kind, "model_fields")
    )


def to_encodable(value: Any) -> Any:
    """Return a value in a form that msgspec can encode; for `enc_hook`."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, WireType):
        return encode_wire_type(value)
    kind = type(value)
    if is_pydantic(kind):
        dump = getattr(value, "model_dump", None)
        dump = dump or partial(adapter_of(kind).dump_python, value)
        try:
            return dump(mode="json", by_alias=True)
        except ValueError:
            # It holds a value that pydantic cannot write; `fallback` is new in 2.11.
            return dump(mode="json", by_alias=True, fallback=to_json_value)
    for plain_kind, to_plain in _TO_PLAIN.items():
        if isinstance(value, plain_kind):
            return to_plain(value)
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


def validate_pydantic(adapter: Any, value: Any, *, strict: bool) -> Any:
    """Convert and validate a value with pydantic."""
    pydantic: Any = sys.modules["pydantic"]

    def read(item: Any) -> Any:
        # As JSON: only from JSON does strict mode accept a text as a date.
        return adapter.validate_json(encode(item), strict=strict or None)

    try:
        return read_whole(read, value) if strict else read(value)
    except LocalProtocolError as error:  # nested too deeply to encode
        raise Fault([((), str(error).removeprefix("cannot send $: "))]) from error
    except pydantic.ValidationError as error:
        faults = [
            (tuple(detail["loc"]), detail["msg"][:_MAX_MESSAGE])
            for detail in error.errors(include_url=False)[:_MAX_FAULTS]
        ]
        raise Fault(faults) from error


def read_whole(read: Callable[[Any], Any], value: Any) -> Any:
    """Read a JSON value; if that fails, with floats without a fraction as integers."""
    try:
        return read(value)
    except ValueError:
        # Not always an error: for JSON Schema, 1.0 is an integer (2020-12
        # validation, 6.1.1).
        whole = _with_whole_numbers(value)
        if whole is value:
            raise
    return read(whole)


def _with_whole_numbers(value: Any) -> Any:
    """Return the value with integers; the same object if nothing changes."""
    if type(value) is float:
        is_whole = value.is_integer() and abs(value) <= _MAX_EXACT_FLOAT
        return int(value) if is_whole else value
    if type(value) is dict:
        converted: Any = {
            name: _with_whole_numbers(item) for name, item in value.items()
        }
        changed = any(converted[name] is not item for name, item in value.items())
        return converted if changed else value
    if type(value) is list:
        converted = [_with_whole_numbers(item) for item in value]
        changed = any(new is not old for new, old in zip(converted, value, strict=True))
        return converted if changed else value
    return value


def validator_of(schema: Mapping[str, Any], option: str) -> SchemaValidator | None:
    """Return a validator of a schema; ``None``: jsonschema-rs is not installed."""
    from mcpwire.protocol.output_validation import SchemaValidator

    try:
        return SchemaValidator(schema)
    except LocalProtocolError:
        return None
    except RemoteProtocolError as error:
        raise ValueError(f"{option}: {error}") from error
