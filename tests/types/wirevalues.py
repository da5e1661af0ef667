"""The list of our classes, and example values made from their specifications."""

from typing import Any

import attrs

from mcpwire import types
from mcpwire.types._codec import (
    Array,
    Leaf,
    Map,
    OneOrArray,
    SelectedUnion,
    StringEnum,
    TaggedUnion,
    TypedObject,
    spec_of,
)


def required_in(field, revision):
    """Tell whether a revision's schema requires the field."""
    required = field.spec.required
    if isinstance(required, tuple):
        return revision in required
    return field.exists_in(revision) and (required or field.default is attrs.NOTHING)


CLASSES = [
    value
    for name in types.__all__
    if isinstance(value := getattr(types, name), type)
    and issubclass(value, types.WireType)
    and value is not types.WireType
]
OPAQUE = [cls for cls in CLASSES if spec_of(cls).opaque]
PLAIN = [cls for cls in CLASSES if not spec_of(cls).opaque]
RESULTS = [cls for cls in PLAIN if spec_of(cls).keeps_raw]


def name_of(cls: type) -> str:
    """Return the id of a parametrized class."""
    return cls.__name__


# --- one value with every field

_EXAMPLES: dict[type, Any] = {
    str: "text",
    int: 7,
    float: 1.5,
    bool: True,
    dict: {"any": [1, None]},
}


def example(kind: Any) -> Any:
    """Return a JSON value of a kind."""
    return _EXAMPLE_OF[type(kind)](kind)


def _leaf_example(kind: Leaf) -> Any:
    if kind.known:
        return kind.known[0]
    return _EXAMPLES[kind.types[0]] if kind.types else {"any": 1}


_EXAMPLE_OF: dict[type, Any] = {
    Leaf: _leaf_example,
    StringEnum: lambda kind: kind.values[0],
    Array: lambda kind: [example(kind.item)],
    Map: lambda kind: {"key": example(kind.item)},
    TypedObject: lambda kind: full(kind.cls),
    OneOrArray: lambda kind: example(kind.one),
    TaggedUnion: lambda kind: full(kind.classes[0]),
    SelectedUnion: lambda kind: full(kind.classes[0]),
}


def full(cls: type) -> dict[str, Any]:
    """Return a JSON object with every field that any revision has."""
    spec = spec_of(cls)
    return dict(spec.constants) | {f.wire: example(f.kind) for f in spec.fields}
