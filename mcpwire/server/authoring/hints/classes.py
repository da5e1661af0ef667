"""Classes with fields, of whatever library: what they hold, and by default."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NotRequired, Required

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MARKS",
    "Field",
    "defaults_of",
    "described",
    "fields_of",
    "has_fields",
    "loses_defaults",
]

MARKS: Final = frozenset({Required, NotRequired})
"""What a field of a TypedDict may have around its hint."""


class Field(NamedTuple):
    """A field of a class: on the wire, in its constructor, and what it holds."""

    name: str
    parameter: str
    hint: Any
    is_needed: bool


def fields_of(kind: Any) -> list[Field]:
    """Return the fields of a class; none where they are nobody else's business.

    Raises:
        TypeError: A hint cannot be read.
    """
    if typing.is_typeddict(kind):
        return [_member(kind, name, hint) for name, hint in _hints(kind).items()]
    if attrs.has(kind):
        own = _hints(kind)
        return [
            Field(
                field.name,
                field.alias or field.name,
                own.get(field.name, Any),
                field.default is attrs.NOTHING,
            )
            for field in attrs.fields(kind)
            if field.init
        ]
    if not dataclasses.is_dataclass(kind):
        return []
    hints = _hints(kind)
    missing = dataclasses.MISSING
    return [
        Field(f.name, f.name, hints[f.name], f.default is f.default_factory is missing)
        for f in dataclasses.fields(kind)
        if f.init
    ]


def has_fields(kind: Any) -> bool:
    """Tell whether `fields_of` knows the fields of a class."""
    return (
        typing.is_typeddict(kind) or attrs.has(kind) or dataclasses.is_dataclass(kind)
    )


def _member(kind: Any, name: str, hint: Any) -> Field:
    # `__required_keys__` does not see NotRequired in annotations that are text.
    mark = typing.get_origin(hint)
    is_needed = mark is Required or (
        mark is not NotRequired and name in kind.__required_keys__
    )
    return Field(
        name, name, typing.get_args(hint)[0] if mark in MARKS else hint, is_needed
    )


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"a hint in {kind.__name__} names {error.name!r}, which is not known there"
        ) from error


def defaults_of(kind: Any) -> dict[str, Any]:
    """Return the defaults of a class that are plain enough to be shown."""
    if attrs.has(kind):
        found = {f.name: f.default for f in attrs.fields(kind)}
    elif dataclasses.is_dataclass(kind):
        found = {f.name: f.default for f in dataclasses.fields(kind)}
    else:
        found = {}
    plain = (str, int, float, bool, type(None))
    return {
        name: value.value if isinstance(value, enum.Enum) else value
        for name, value in found.items()
        if isinstance(value, (*plain, enum.Enum)) and value is not attrs.NOTHING
    }


def described(
    kind: Any, fields: Sequence[Field], schemas: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the schema of a class, made of those of its fields."""
    made: dict[str, Any] = {"title": kind.__name__, "type": "object"}
    text = vars(kind).get("__doc__")
    # A dataclass without one gets its signature.
    if text and not text.startswith(f"{kind.__name__}("):
        made["description"] = inspect.cleandoc(text)
    defaults = defaults_of(kind)
    made["properties"] = {
        field.name: {**schema, "default": defaults[field.name]}
        if field.name in defaults
        else schema
        for field, schema in zip(fields, schemas, strict=True)
    }
    required = [field.name for field in fields if field.is_needed]
    return {**made, "required": required} if required else made


def loses_defaults(kind: type) -> bool:
    """Tell whether msgspec makes objects of a class that lack what was not given.

    It leaves a dataclass's defaults where they are, in the class, and writes only what
    it finds in the object.
    """
    return (
        dataclasses.is_dataclass(kind)
        and hasattr(kind, "__dict__")
        and any(f.default is not dataclasses.MISSING for f in dataclasses.fields(kind))
    )
