"""Walk the classes' own specifications: their list, example values, random values."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.types._codec import (
    ANY,
    Array,
    Closed,
    Either,
    FieldSpec,
    Leaf,
    Map,
    Nested,
    Picked,
    Tagged,
    decoder,
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
    """Name a parametrized class."""
    return cls.__name__


# --- one value with everything in it

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
    Closed: lambda kind: kind.values[0],
    Array: lambda kind: [example(kind.item)],
    Map: lambda kind: {"key": example(kind.item)},
    Nested: lambda kind: full(kind.cls),
    Either: lambda kind: example(kind.one),
    Tagged: lambda kind: full(kind.classes[0]),
    Picked: lambda kind: full(kind.classes[0]),
}


def full(cls: type) -> dict[str, Any]:
    """Return a JSON object with every field that any revision has."""
    spec = spec_of(cls)
    return dict(spec.constants) | {f.wire: example(f.kind) for f in spec.fields}


# --- random values of one revision

# What the schema demands beyond the type; our types do not look at it.
_UNIT = st.integers(0, 1) | st.floats(0, 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_OBJECT_SCHEMA = st.fixed_dictionaries({"type": st.just("object")})
_NATURAL = st.integers(0, 2**31)
SPECIAL: dict[tuple[str, str], Any] = {
    ("Annotations", "priority"): _UNIT,
    ("ModelPreferences", "costPriority"): _UNIT,
    ("ModelPreferences", "speedPriority"): _UNIT,
    ("ModelPreferences", "intelligencePriority"): _UNIT,
    ("Tool", "inputSchema"): _OBJECT_SCHEMA,
    ("Tool", "outputSchema"): _OBJECT_SCHEMA,
    # Until 2025-11-25 it had to be an object.
    ("CallToolResult", "structuredContent"): st.just({"any": 1}),
    ("ToolResultContent", "structuredContent"): st.just({"any": 1}),
}

# The schema calls numbers of open JSON "integer" and knows no null there; see
# JSONValue of 2026-07-28.
JSON = st.recursive(
    st.booleans() | _NATURAL | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2)
    ),
    max_leaves=4,
)
_LEAVES: dict[type, Any] = {
    str: _TEXT,
    int: _NATURAL,
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    dict: st.dictionaries(_TEXT, JSON, max_size=2),
}
_FIRST_WITH_ARRAYS = "2025-11-25"


@attrs.frozen
class Maker:
    """Makes strategies for the JSON values of one revision."""

    revision: str
    known: frozenset[str]
    """The names of the types that the revision has."""

    _made: dict[type, Any] = attrs.field(factory=dict, init=False)

    def values(self, kind: Any) -> st.SearchStrategy[Any]:
        """Return a strategy for the JSON values of a kind."""
        strategy: st.SearchStrategy[Any] = _VALUES_OF[type(kind)](self, kind)
        return strategy

    def leaf(self, kind: Leaf) -> st.SearchStrategy[Any]:
        """Return a strategy for what has no structure of ours."""
        if kind.known:
            return st.sampled_from(kind.known)
        return st.one_of([_LEAVES[each] for each in kind.types]) if kind.types else JSON

    def either(self, kind: Either) -> st.SearchStrategy[Any]:
        """Return a strategy for one value, or where the revision allows it several."""
        if self.revision < _FIRST_WITH_ARRAYS:
            return self.values(kind.one)
        return self.values(kind.one) | self.values(Array(kind.item))

    def union(self, kind: Tagged | Picked) -> st.SearchStrategy[Any]:
        """Return a strategy for the members that the revision has."""
        members = [cls for cls in kind.classes if cls.__name__ in self.known]
        return st.one_of([self.objects(cls) for cls in members])

    def objects(self, cls: type) -> st.SearchStrategy[dict[str, Any]]:
        """Return a strategy for the JSON objects of a type, made once."""
        if cls not in self._made:
            self._made[cls] = self._objects(cls)
        return self._made[cls]

    def _objects(self, cls: type) -> st.SearchStrategy[dict[str, Any]]:
        spec = spec_of(cls)
        required: dict[str, Any] = {k: st.just(v) for k, v in spec.constants.items()}
        optional: dict[str, Any] = {}
        for field in spec.fields:
            if field.exists_in(self.revision):
                demanded = required_in(field, self.revision)
                place = required if demanded else optional
                place[field.wire] = self.field(cls, field)
        return st.fixed_dictionaries(required, optional=optional)

    def field(self, cls: type, field: FieldSpec) -> st.SearchStrategy[Any]:
        """Return a strategy for a field."""
        if field.wire == "_meta":
            return st.just(META)
        values = SPECIAL.get((cls.__name__, field.wire))
        values = self.values(field.kind) if values is None else values
        null = field.nullable and field.kind is not ANY
        return st.none() | values if null else values

    def instances(self, cls: type) -> st.SearchStrategy[Any]:
        """Return a strategy for our own values of a type, as the revision has it."""
        return self.objects(cls).map(decoder(cls))


_VALUES_OF: dict[type, Any] = {
    Leaf: Maker.leaf,
    Closed: lambda _, kind: st.sampled_from(kind.values),
    Array: lambda maker, kind: st.lists(maker.values(kind.item), max_size=2),
    Map: lambda maker, kind: st.dictionaries(
        _TEXT, maker.values(kind.item), max_size=2
    ),
    Nested: lambda maker, kind: maker.objects(kind.cls),
    Either: Maker.either,
    Tagged: Maker.union,
    Picked: Maker.union,
}

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/subscriptionId": 7,
}
"""A `_meta` with all that any place of 2026-07-28 requires."""
