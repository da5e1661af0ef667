"""One fault in a valid value: it is refused with its exact path, or tolerated."""

from __future__ import annotations

import copy
from typing import Any

import attrs
import pytest
from wirevalues import PLAIN, example, full, name_of

from mcpwire.errors import InvalidMessage
from mcpwire.types import decode, encode
from mcpwire.types._codec import (
    DEFAULTED_FIELDS,
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

MISSING = object()

VALUES = {
    "str": "x-unknown",
    "int": 3,
    "number": 2.5,
    "bool": True,
    "object": {},
    "array": [],
    "null": None,
}
NAMES = {str: "str", int: "int", float: "number", bool: "bool", dict: "object"}


@attrs.frozen
class Place:
    """A place in a value: its position, and the kind of value that belongs there."""

    keys: tuple[Any, ...]
    path: str
    kind: Any
    owner: str = ""
    """The type whose field it is; the attributes below describe that field."""

    wire: str = ""
    optional: bool = False
    nullable: bool = False

    def put(self, root, value):
        """Return a copy of the whole value with another value at this place."""
        changed = copy.deepcopy(root)
        inside = changed
        for key in self.keys[:-1]:
            inside = inside[key]
        if value is MISSING:
            del inside[self.keys[-1]]
        else:
            inside[self.keys[-1]] = copy.deepcopy(value)
        return changed


def places(kind, keys, path):
    """Yield all places inside a value that `example` made."""
    match kind:
        case TypedObject(cls):
            yield from places_of(cls, keys, path)
        case Array(item):
            yield Place((*keys, 0), f"{path}[0]", item)
            yield from places(item, (*keys, 0), f"{path}[0]")
        case Map(item):
            yield Place((*keys, "key"), f"{path}.key", item)
            yield from places(item, (*keys, "key"), f"{path}.key")
        case OneOrArray(one, _):
            yield from places(one, keys, path)
        case TaggedUnion(key):
            # The tag selects another type; each member type is tested on its own.
            for place in places_of(kind.classes[0], keys, path):
                if place.keys != (*keys, key):
                    yield place


def places_of(cls, keys, path):
    """Yield all places of an object that `full` made."""
    spec = spec_of(cls)
    for name, value in spec.constants.items():
        yield Place((*keys, name), f"{path}.{name}", StringEnum((value,)))
    for field in spec.fields:
        where = path + (
            f".{field.wire}" if "/" not in field.wire else f'["{field.wire}"]'
        )
        optional = (
            field.default is not attrs.NOTHING and field.spec.required is not True
        )
        inner = (*keys, field.wire)
        yield Place(
            inner, where, field.kind, cls.__name__, field.wire, optional, field.nullable
        )
        yield from places(field.kind, inner, where)


def accepted_types(kind):
    """Return the names of the JSON types that a kind accepts."""
    match kind:
        case Leaf(types=kinds):
            found = {NAMES[each] for each in kinds} or set(VALUES)
            return found | {"int"} if "number" in found else found
        case StringEnum():
            return set()
        case Array():
            return {"array"}
        case OneOrArray(one, _):
            return accepted_types(one) | {"array"}
    return {"object"}


def is_closed(kind):
    """Tell whether the error shows the wrong string itself."""
    return isinstance(kind.one if isinstance(kind, OneOrArray) else kind, StringEnum)


def is_tolerated(place):
    """Look only into the table of defaulted fields."""
    return f"{place.owner}.{place.wire}" in DEFAULTED_FIELDS


def wrong_values(place):
    """Yield each wrong value for a place, and whether it is accepted anyway."""
    accepted_names = accepted_types(place.kind)
    for name, value in VALUES.items():
        if name == "null":
            yield name, value, place.nullable or place.optional or is_tolerated(place)
        elif name not in accepted_names:
            yield name, value, False
    if place.owner or isinstance(place.kind, StringEnum):
        missing = place.optional or is_tolerated(place)
        yield "nothing", MISSING, missing


ROOTS = [pytest.param(cls, id=name_of(cls)) for cls in PLAIN]


@pytest.mark.parametrize("cls", ROOTS)
def test_wrong_value_is_refused_with_its_path_or_tolerated(cls):
    """Our choice: every fault outside the table is refused."""
    root = full(cls)
    assert encode(decode(cls, root)) == root
    for place in places_of(cls, (), cls.__name__):
        if isinstance(place.kind, SelectedUnion):
            continue  # see test_unions.py
        for name, value, accepted in wrong_values(place):
            changed = place.put(root, value)
            if accepted:
                decode(cls, changed)
                continue
            with pytest.raises(InvalidMessage) as caught:
                decode(cls, changed)
            assert caught.value.path == place.path
            shown = repr(value) if is_closed(place.kind) else None
            assert caught.value.got in {name, shown}


@pytest.mark.parametrize("value", [None, [], "x", 1, 1.5, True])
def test_non_object_is_refused_as_a_whole(value):
    for cls in PLAIN:
        with pytest.raises(InvalidMessage) as caught:
            decode(cls, value)
        assert caught.value.path == cls.__name__
        assert caught.value.expected == "object"


@pytest.mark.parametrize("cls", ROOTS)
def test_null_for_an_optional_field_reads_as_absence(cls):
    """Our choice (the table): models are often serialized with unset members."""
    root = full(cls)
    for place in places_of(cls, (), cls.__name__):
        if place.optional and not place.nullable and len(place.keys) == 1:
            without = place.put(root, MISSING)
            assert decode(cls, place.put(root, None)) == decode(cls, without)


@pytest.mark.parametrize("cls", ROOTS)
def test_unknown_members_survive_at_every_level(cls):
    """Our choice: members of newer peers are not lost."""
    root = full(cls) | {"x-later": {"a": [None]}}
    encoded = encode(decode(cls, root))
    assert encoded == root
    inner = [place for place in places_of(cls, (), cls.__name__) if is_object(place)]
    for place in inner:
        changed = place.put(root, example(place.kind) | {"x-later": 1})
        assert encode(decode(cls, changed)) == changed


def is_object(place):
    return isinstance(place.kind, TypedObject | TaggedUnion)
