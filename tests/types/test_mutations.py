"""One fault in a valid value: it is refused with its exact path, or tolerated."""

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
    member_path,
    spec_of,
)

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


def accepted_types(kind):
    match kind:
        case Leaf(types=kinds):
            found = {NAMES[each] for each in kinds} or set(VALUES) - {"null"}
            return found | {"int"} if "number" in found else found
        case StringEnum():
            return set()
        case Array():
            return {"array"}
        case OneOrArray(one, _):
            return accepted_types(one) | {"array"}
    return {"object"}


def wrong(kind, path):
    """Yield wrong values of a kind, each with the path of its fault and what is shown.

    The tag of a union selects another type, and each type is tested on its own. For
    unions that a function distinguishes see test_unions.py.
    """
    if isinstance(kind, SelectedUnion):
        return
    shown_kind = kind.one if isinstance(kind, OneOrArray) else kind
    for name in VALUES.keys() - accepted_types(kind):
        is_shown = isinstance(shown_kind, StringEnum) and name == "str"
        yield VALUES[name], path, repr(VALUES[name]) if is_shown else name
    yield from wrong_inside(kind, path)


def wrong_inside(kind, path):
    """Yield values of a kind that have one fault in a part of them."""
    match kind:
        case TypedObject(cls):
            yield from wrong_objects(cls, path)
        case Array(item):
            for value, *fault in wrong(item, f"{path}[0]"):
                yield [value], *fault
        case Map(item):
            for value, *fault in wrong(item, f"{path}.key"):
                yield {"key": value}, *fault
        case OneOrArray(one, _):
            yield from (each for each in wrong(one, path) if each[1] != path)
        case TaggedUnion(key):
            for value, place, shown in wrong_objects(kind.classes[0], path):
                if place != f"{path}.{key}":
                    yield value, place, shown


def wrong_objects(cls, path):
    """Yield objects with one fault in a field."""
    spec, whole = spec_of(cls), full(cls)
    fields = [(name, StringEnum((value,))) for name, value in spec.constants.items()]
    fields += [(field.wire, field.kind) for field in spec.fields]
    nullable = {field.wire for field in spec.fields if field.nullable}
    for wire, kind in fields:
        where = member_path(path, wire)
        for value, place, shown in wrong(kind, where):
            is_null = value is None and place == where
            if not (is_null and wire in optional_fields(cls) | nullable):
                yield whole | {wire: value}, place, shown
        if wire not in optional_fields(cls):
            without = {name: whole[name] for name in whole if name != wire}
            yield without, where, "nothing"


def optional_fields(cls):
    """Return the members that may be missing: by their type, or by the table."""
    return {
        field.wire
        for field in spec_of(cls).fields
        if (field.default is not attrs.NOTHING and field.spec.required is not True)
        or f"{cls.__name__}.{field.wire}" in DEFAULTED_FIELDS
    }


ROOTS = [pytest.param(cls, id=name_of(cls)) for cls in PLAIN]


@pytest.mark.parametrize("cls", ROOTS)
def test_wrong_value_is_refused_with_its_path(cls):
    """Our choice: every fault outside the table is refused."""
    assert encode(decode(cls, full(cls))) == full(cls)
    for value, path, shown in wrong_objects(cls, cls.__name__):
        with pytest.raises(InvalidMessage) as caught:
            decode(cls, value)
        assert caught.value.path == path
        assert caught.value.got == shown


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
    for field in spec_of(cls).fields:
        if field.wire in optional_fields(cls):
            without = {name: root[name] for name in root if name != field.wire}
            absent, null = decode(cls, without), decode(cls, root | {field.wire: None})
            assert absent == null or field.nullable
        elif field.nullable:
            decode(cls, root | {field.wire: None})


def grown(kind):
    """Return an example with an unknown member in its objects."""
    match kind:
        case TypedObject() | TaggedUnion():
            return example(kind) | {"x-later": 1}
        case Array(item):
            return [grown(item)]
        case Map(item):
            return {"key": grown(item)}
        case OneOrArray(one, _):
            return grown(one)
    return example(kind)


@pytest.mark.parametrize("cls", ROOTS)
def test_unknown_members_survive_at_every_level(cls):
    """Our choice: members of newer peers are not lost."""
    fields = {field.wire: grown(field.kind) for field in spec_of(cls).fields}
    root = full(cls) | fields | {"x-later": {"a": [None]}}
    assert encode(decode(cls, root)) == root
