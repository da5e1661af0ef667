"""Forms: the fields that an elicitation asks for, their defaults, and what fits them.

A form is a flat JSON Schema of few kinds of fields (client/elicitation, "Requested
Schema"). Where JSON Schema or the specification leaves something open:

- A field that the form does not have is refused, unless the form's
  ``additionalProperties`` allows it: nobody was shown it.
- An integral float is an integer, as in JSON Schema, and is sent as one.
- ``True`` and ``False`` are no numbers, and no text is ever taken for a number.
- Lengths count code points. Keywords beyond those of the specification (``pattern``,
  ``multipleOf``, ...) are not checked here: the server has the last word.
- Of a field of a kind that no revision knows, only its presence is checked, and that
  its value is one that an answer may hold at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.host.formats import misfit
from mcpwire.protocol.host.question import excerpt
from mcpwire.types.elicitation import (
    BooleanSchema,
    LegacyTitledEnumSchema,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UnknownSchema,
    UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
)
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpwire.types import PrimitiveSchemaDefinition, RequestedSchema
    from mcpwire.versions import Revision

__all__ = ["Value", "check_value", "choices_of", "defaults", "fill"]

Value: TypeAlias = str | int | float | bool | list[str]
"""What a field may hold."""

_LISTS_SINCE: Final = REVISIONS[3]
_EXACT_FLOATS: Final = 2**53
_CHOICES_SHOWN: Final = 8


def check_value(field: PrimitiveSchemaDefinition, value: object) -> Value:
    """Return a field's value in the plain type that JSON has for it.

    Raises:
        ValueError: The value does not fit the field; says why.
    """
    return _CHECKS[type(field)](field, value)


def choices_of(field: PrimitiveSchemaDefinition) -> dict[str, str]:
    """Return the values that may be chosen, each with its title."""
    match field:
        case TitledSingleSelectEnumSchema():
            return {option.const: option.title for option in field.one_of}
        case TitledMultiSelectEnumSchema():
            return {option.const: option.title for option in field.items.any_of}
        case UntitledMultiSelectEnumSchema():
            return {value: value for value in field.items.enum}
        case UntitledSingleSelectEnumSchema():
            return {value: value for value in field.enum}
        case LegacyTitledEnumSchema():
            titles = dict(zip(field.enum, field.enum_names or (), strict=False))
            return {value: titles.get(value, value) for value in field.enum}
    return {}


def defaults(schema: RequestedSchema) -> dict[str, Value]:
    """Return the fields' defaults, to fill a form in advance.

    A default that does not fit its own field is left out.
    """
    found = {}
    for name, field in schema.properties.items():
        value = getattr(field, "default", None)
        if value is not None:
            try:
                found[name] = check_value(field, value)
            except ValueError:
                continue
    return found


def fill(
    schema: RequestedSchema, content: Mapping[str, object], revision: Revision
) -> dict[str, Value]:
    """Return the content of an accepted form, with the defaults of what it leaves out.

    A field that is ``None`` stays out and does not get its default.

    Raises:
        LocalProtocolError: The content does not fit the form; names field and rule.
    """
    if not isinstance(content, Mapping):
        raise LocalProtocolError(
            f"elicitation content: expected a mapping, got {type(content).__name__}"
        )
    required = dict.fromkeys(schema.required or ())
    fields = dict.fromkeys(required, _ANYTHING) | schema.properties
    filled: dict[str, Value] = {
        name: value
        for name, value in defaults(schema).items()
        if name not in content and not _is_early(value, revision)
    }
    for name, value in content.items():
        if value is not None:
            field = fields.get(name) or _additional(schema, name)
            filled[name] = checked = _checked(field, name, value)
            if _is_early(checked, revision):
                raise _refused(
                    name, f"lists exist since {_LISTS_SINCE}, not at {revision}"
                )
    for name in required:
        if name not in filled:
            raise _refused(name, "it is required")
    order = (*schema.properties, *filled)
    return {name: filled[name] for name in order if name in filled}


def _checked(field: PrimitiveSchemaDefinition, name: str, value: object) -> Value:
    try:
        return check_value(field, value)
    except ValueError as error:
        raise _refused(name, str(error)) from error


def _additional(schema: RequestedSchema, name: object) -> PrimitiveSchemaDefinition:
    allowed = (schema.extra or {}).get("additionalProperties", False)
    if type(name) is not str or allowed is False or allowed is None:
        raise _refused(name, "the form has no such field")
    return _ANYTHING


def _is_early(value: Value, revision: Revision) -> bool:
    return isinstance(value, list) and revision < _LISTS_SINCE


def _refused(name: object, reason: str) -> LocalProtocolError:
    plain = isinstance(name, str) and name.isidentifier() and len(name) <= 40
    path = f".{name}" if plain else f"[{excerpt(name)}]"
    return LocalProtocolError(f"elicitation content{path}: {reason}")


# --- the kinds of fields


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {excerpt(value)}")
    # A member of an enum is sent as the text that it is.
    return str.__str__(value)


def _string(field: Any, value: object) -> str:
    text = _text(value)
    length = len(text)
    if field.min_length is not None and length < field.min_length:
        raise ValueError(f"{length} characters, the minimum is {field.min_length}")
    if field.max_length is not None and length > field.max_length:
        raise ValueError(f"{length} characters, the maximum is {field.max_length}")
    expected = misfit(text, field.format)
    if expected is not None:
        raise ValueError(f"{excerpt(text)} is not {expected}")
    return text


def _number(field: Any, value: object) -> int | float:
    number = _finite(value)
    if field.type == "integer" and type(number) is float:
        if not number.is_integer():
            raise ValueError(f"{number} is no integer")
        if abs(number) <= _EXACT_FLOATS:
            number = int(number)
    if field.minimum is not None and number < field.minimum:
        raise ValueError(f"{excerpt(number)} is below the minimum {field.minimum}")
    if field.maximum is not None and number > field.maximum:
        raise ValueError(f"{excerpt(number)} is above the maximum {field.maximum}")
    return number


def _finite(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, got {excerpt(value)}")
    if isinstance(value, int):
        return int(value)
    if not isfinite(value):
        raise ValueError(f"{value} is no number that can be sent")
    return float(value)


def _truth(_: Any, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected True or False, got {excerpt(value)}")
    return value


def _one(field: Any, value: object) -> str:
    text = _text(value)
    _check_choice(text, choices_of(field))
    return text


def _several(field: Any, value: object) -> list[str]:
    chosen = _texts(value)
    choices = choices_of(field)
    for text in chosen:
        _check_choice(text, choices)
    if field.min_items is not None and len(chosen) < field.min_items:
        raise ValueError(f"{len(chosen)} chosen, the minimum is {field.min_items}")
    if field.max_items is not None and len(chosen) > field.max_items:
        raise ValueError(f"{len(chosen)} chosen, the maximum is {field.max_items}")
    return chosen


def _texts(value: object) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"expected a list of texts, got {excerpt(value)}")
    return [_text(item) for item in value]


def _check_choice(text: str, choices: Iterable[str]) -> None:
    if text not in choices:
        shown = [excerpt(choice) for choice in choices]
        more = ", ..." if len(shown) > _CHOICES_SHOWN else ""
        raise ValueError(
            f"{excerpt(text)} is none of {', '.join(shown[:_CHOICES_SHOWN])}{more}"
        )


def _anything(_: Any, value: object) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    return _texts(value) if isinstance(value, (list, tuple)) else _finite(value)


_ANYTHING: Final = UnknownSchema({})

_CHECKS: Final[Mapping[type, Callable[[Any, object], Value]]] = {
    StringSchema: _string,
    NumberSchema: _number,
    BooleanSchema: _truth,
    UntitledSingleSelectEnumSchema: _one,
    TitledSingleSelectEnumSchema: _one,
    LegacyTitledEnumSchema: _one,
    UntitledMultiSelectEnumSchema: _several,
    TitledMultiSelectEnumSchema: _several,
    UnknownSchema: _anything,
}
