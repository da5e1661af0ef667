"""Types that msgspec does not build itself: the hooks through which it asks for them.

pydantic's types validate themselves; paths are made of texts. Whatever else needs help
gets a class of its own when a function is registered, a `Foreign`, which stands in for
the hint. The way back, from values to JSON, is `plain`.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import msgspec

from mcpwire.errors import LocalProtocolError
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpwire.server.authoring.hints.schema import Schemas

__all__ = [
    "LENIENT",
    "STRICT",
    "Fault",
    "Foreign",
    "adapter_of",
    "is_pydantic",
    "is_record",
    "plain",
    "stands_for",
    "to_plain",
    "validate",
    "with_whole_numbers",
]

_MESSAGE_LENGTH: Final = 200
_FAULTS: Final = 20
_EXACT_FLOATS: Final = 2**53


class Fault(ValueError):
    """A value that does not fit; says where within it, and why.

    Attributes:
        places: For each fault the path of its value, and a sentence about it.
    """

    def __init__(self, places: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
        self.places = tuple(places)
        super().__init__("; ".join(said for _, said in self.places))


class _Anything(type):
    """Lets what a hook returns pass: it is made right, whatever its class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Foreign(metaclass=_Anything):
    """Stands in for a hint; made by `stands_for`."""

    make: ClassVar[Callable[..., Any]]
    """Takes a JSON value and `strict`; raises ValueError."""

    describe: ClassVar[Callable[[Schemas], dict[str, Any]]]
    """Returns the schema."""


def stands_for(name: str) -> Any:
    """Return a new class that stands in for a hint; it lacks its two functions yet."""
    return _Anything(name, (Foreign,), {})


def _build(kind: Any, value: Any, *, strict: bool) -> Any:
    """Build a value of a type that msgspec asks about."""
    if issubclass(kind, Foreign):
        return kind.make(value, strict=strict)
    if is_pydantic(kind):
        return validate(kind.__pydantic_validator__, value, strict=strict)
    # A path; no other type has a schema.
    if isinstance(value, str):
        return kind(value)
    raise Fault([((), "expected a path as text")])


STRICT: Final = partial(_build, strict=True)
"""For `dec_hook`: a text is no number."""

LENIENT: Final = partial(_build, strict=False)
"""For `dec_hook`: what can be read as the type is taken for it."""


# --- to JSON

_AS_THEY_ARE: Final = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """Return a value as JSON has it.

    Raises:
        TypeError: It has no JSON form.
        RecursionError: It is nested too deeply.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    return msgspec.to_builtins(value, str_keys=True, enc_hook=to_plain)


def is_record(value: Any) -> bool:
    """Tell whether a value's JSON form is an object."""
    kind = type(value)
    return (
        isinstance(value, dict)
        or attrs.has(kind)
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "__struct_fields__")
        or hasattr(kind, "model_fields")
    )


def to_plain(value: Any) -> Any:
    """Return something nearer to JSON than the value; for `enc_hook`.

    Raises:
        TypeError: It has no JSON form.
    """
    if isinstance(value, PurePath):
        return str(value)
    if is_pydantic(type(value)):
        return _dumped(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


# --- pydantic


_PYDANTIC: Final = ("__pydantic_validator__", "__get_pydantic_core_schema__")


def is_pydantic(kind: Any) -> bool:
    """Tell whether pydantic knows a type by its own methods; never imports it."""
    return "pydantic" in sys.modules and any(hasattr(kind, name) for name in _PYDANTIC)


def adapter_of(hint: Any) -> Any:
    """Return what validates and describes a hint in pydantic's way."""
    pydantic: Any = sys.modules["pydantic"]  # else there would be no such hint
    return pydantic.TypeAdapter(hint)


def _dumped(value: Any) -> Any:
    kind = type(value)
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    return adapter_of(kind).dump_python(value, mode="json", by_alias=True)


def validate(adapter: Any, value: Any, *, strict: bool) -> Any:
    """Have pydantic make a value.

    Raises:
        Fault: It does not fit.
    """
    pydantic: Any = sys.modules["pydantic"]
    try:
        return _validate(adapter, value, strict=strict)
    except LocalProtocolError as error:  # too deep to be written for it
        raise Fault([((), str(error).removeprefix("cannot send $: "))]) from error
    except pydantic.ValidationError as error:
        faults = [
            (tuple(each["loc"]), each["msg"][:_MESSAGE_LENGTH])
            for each in error.errors(include_url=False)[:_FAULTS]
        ]
        raise Fault(faults) from error


def _validate(adapter: Any, value: Any, *, strict: bool) -> Any:
    pydantic: Any = sys.modules["pydantic"]
    # As JSON, because there a strict reader still takes a text for a date.
    try:
        return adapter.validate_json(encode(value), strict=strict or None)
    except pydantic.ValidationError:
        whole = with_whole_numbers(value)
        if whole is value or not strict:
            raise
    return adapter.validate_json(encode(whole), strict=True)


def with_whole_numbers(value: Any) -> Any:
    """Return a JSON value whose floats without a fraction are integers.

    It is the value itself where nothing changes. JSON Schema 2020-12 validation, 6.1.1:
    a number without a fraction is an integer.
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
