"""What kinds of values a configuration has: how each is checked, and its JSON Schema.

Check and schema of a kind stand beside each other and say the same. No fault shows the
value that it is about: it may be a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "CONFIRM",
    "COUNT",
    "NAMES",
    "PAIRS",
    "SECONDS",
    "SWITCH",
    "SWITCH_OR_NAMES",
    "TEXT",
    "TEXTS",
    "TEXT_OR_TEXTS",
    "Fault",
    "Kind",
    "choice",
    "kind_of",
]


class Fault(NamedTuple):
    """Where in a value something is wrong, and what."""

    at: str
    """What follows the field's name, such as ``".TOKEN"`` or ``"[1]"``."""

    problem: str


@attrs.frozen
class Kind:
    """One kind of value."""

    check: Callable[[Any], Fault | None]
    """Returns what is wrong with a value, or ``None``."""

    schema: Mapping[str, Any]
    """The same as JSON Schema."""


_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "true or false"),
    (int, "an integer"),
    (float, "a number"),
    (str, "a string"),
    (list, "a list"),
    (tuple, "a list"),
    (dict, "a table"),
)


def kind_of(value: object) -> str:
    """Say of what kind a value is, not which."""
    if value is None:
        return "null"
    for kind, said in _KINDS:
        if isinstance(value, kind):
            return said
    return f"a {type(value).__name__}"


def _wrong(wanted: str, value: object, at: str = "") -> Fault:
    return Fault(at, f"must be {wanted}, got {kind_of(value)}")


def _text(value: Any) -> Fault | None:
    if not isinstance(value, str):
        return _wrong("a string", value)
    return None if value else Fault("", "must not be empty")


def _items(value: Any, *, may_be_empty: bool) -> Iterator[Fault]:
    for at, item in enumerate(value):
        if not isinstance(item, str):
            yield _wrong("a string", item, f"[{at}]")
        elif not item and not may_be_empty:
            yield Fault(f"[{at}]", "must not be empty")


def _list(value: Any, wanted: str, *, may_be_empty: bool = False) -> Fault | None:
    if not isinstance(value, (list, tuple)):
        return _wrong(wanted, value)
    return next(_items(value, may_be_empty=may_be_empty), None)


def _texts(value: Any) -> Fault | None:
    return _list(value, "a list of strings", may_be_empty=True)


def _names(value: Any) -> Fault | None:
    return _list(value, "a list of names")


def _pairs(value: Any) -> Fault | None:
    if not isinstance(value, dict):
        return _wrong("a table of names and strings", value)
    for name, text in value.items():
        if not isinstance(name, str) or not name:
            return Fault("", "holds a name that is empty or no string")
        if not isinstance(text, str):
            return _wrong("a string", text, f".{_readable(name)}")
    return None


def _readable(name: str) -> str:
    """Return a name for a message: one line, and no more than a name."""
    return name[:64] if name.isprintable() else repr(name[:64])


def _seconds(value: Any) -> Fault | None:
    if value == "inf":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _wrong('a number of seconds or "inf"', value)
    return None if value > 0 else Fault("", f"must be above zero, got {value!r}")


def _switch(value: Any) -> Fault | None:
    return None if isinstance(value, bool) else _wrong("true or false", value)


def _count(value: Any) -> Fault | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return _wrong("an integer", value)
    return None if value >= 0 else Fault("", f"must be 0 or more, got {value!r}")


def _switch_or_names(value: Any) -> Fault | None:
    if isinstance(value, bool):
        return None
    return _list(value, "true, false or a list of names")


def _confirm(value: Any) -> Fault | None:
    if isinstance(value, bool) or value == "mutating":
        return None
    return _list(value, 'true, false, "mutating" or a list of names')


def _text_or_texts(value: Any) -> Fault | None:
    return None if isinstance(value, str) and value else _names(value)


_STRING: Final = {"type": "string", "minLength": 1}
_LIST: Final = {"type": "array", "items": {"type": "string"}}
_NAME_LIST: Final = {"type": "array", "items": _STRING}
_BOOLEAN: Final = {"type": "boolean"}

TEXT: Final = Kind(_text, _STRING)
TEXTS: Final = Kind(_texts, _LIST)
NAMES: Final = Kind(_names, _NAME_LIST)
PAIRS: Final = Kind(
    _pairs,
    {
        "type": "object",
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "string"},
    },
)
SECONDS: Final = Kind(
    _seconds,
    {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "inf"}]},
)
SWITCH: Final = Kind(_switch, _BOOLEAN)
COUNT: Final = Kind(_count, {"type": "integer", "minimum": 0})
SWITCH_OR_NAMES: Final = Kind(_switch_or_names, {"anyOf": [_BOOLEAN, _NAME_LIST]})
CONFIRM: Final = Kind(
    _confirm, {"anyOf": [_BOOLEAN, {"const": "mutating"}, _NAME_LIST]}
)
TEXT_OR_TEXTS: Final = Kind(_text_or_texts, {"anyOf": [_STRING, _NAME_LIST]})


def choice(*known: str) -> Kind:
    """Return the kind of a field that is one of a few words."""
    listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"

    def check(value: Any) -> Fault | None:
        if not isinstance(value, str):
            return _wrong(listed, value)
        return None if value in known else Fault("", f"must be {listed}")

    return Kind(check, {"enum": list(known)})
