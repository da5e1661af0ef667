"""Read the classes: which wire name, kind, requiredness and revisions a field has.

A wire type's annotations are its specification, so that what type checkers see and what
the codec does cannot differ. The annotations are strings until a class is first used;
then they are evaluated here, once, with the names of `mcpwire.types` in scope.

===========================  ========================================================
annotation                   kind
===========================  ========================================================
``str int float bool Any``   a leaf; ``float`` is JSON's number, ``int`` its integer
``int | str``                a leaf of several types
``Literal["a", "b"]``        a closed set of strings
``Literal["a"] | str``       an open set of strings: unknown ones survive
``dict[str, Any]``           an object that the specification leaves open
``dict[str, X]``             an object of values of that kind
``list[X]``                  an array
``Tool``                     an object of that wire type
``TextContent | ...``        told apart by the members' common constant, or by `Pick`
``X | list[X]``              one, or an array of them
``X | None``                 without a default: ``null`` is a value, else absent
``ClassVar[Literal["a"]]``   a constant on the wire, no constructor argument
===========================  ========================================================

Three attribute names are special: `meta` is ``_meta`` on the wire, `extra` takes the
unknown members, and `raw` keeps the decoded object itself. A class whose `raw` has no
default is opaque: it is encoded as what it was.
"""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import attrs

import mcpwire.types as public_names
from mcpwire.types._codec import base
from mcpwire.types._codec.base import Pick
from mcpwire.types._codec.forgive import forgives
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.types._codec.base import WireType

__all__ = [
    "ANY",
    "Array",
    "Closed",
    "Either",
    "FieldSpec",
    "Kind",
    "Leaf",
    "Map",
    "Nested",
    "Picked",
    "Spec",
    "Tagged",
    "TypeSpec",
    "spec_of",
]


@attrs.frozen
class Spec:
    """Mark a field with what its Python type does not say."""

    since: str = REVISIONS[0].name
    """The first revision that has the field."""

    until: str | None = None
    """The last revision that has the field."""

    required: bool | tuple[str, ...] = False
    """Whether (or in which revisions) it must be on the wire despite the default."""

    wire: str | None = None
    """Its name on the wire, where that is not the attribute's in camel case."""


# Only made once and compared by identity; what attrs would write for the rest is half
# of what importing this module costs.


@attrs.frozen(repr=False, eq=False)
class Leaf:
    """A value without structure of ours: its exact Python types, none for any."""

    types: tuple[type, ...]
    name: str
    known: tuple[str, ...] = ()
    """The members of an open set of strings that are known by now."""


@attrs.frozen(repr=False, eq=False)
class Closed:
    """One of a closed set of strings."""

    values: tuple[str, ...]


@attrs.frozen(repr=False, eq=False)
class Array:
    """A JSON array."""

    item: Kind


@attrs.frozen(repr=False, eq=False)
class Map:
    """A JSON object whose members' names are open."""

    item: Kind


@attrs.frozen(repr=False, eq=False)
class Nested:
    """A JSON object of one wire type."""

    cls: type[WireType]


@attrs.frozen(repr=False, eq=False)
class Tagged:
    """A union of wire types that a constant member tells apart."""

    key: str
    members: Mapping[str, type[WireType]]
    fallback: type[WireType] | None
    """What an unknown constant decodes to; without one it is refused."""

    @property
    def classes(self) -> tuple[type[WireType], ...]:
        """All that the union may hold."""
        rest = () if self.fallback is None else (self.fallback,)
        return (*self.members.values(), *rest)


@attrs.frozen(repr=False, eq=False)
class Picked:
    """A union of wire types that a function tells apart."""

    pick: Pick
    classes: tuple[type[WireType], ...]


@attrs.frozen(repr=False, eq=False)
class Either:
    """One value, or an array of them."""

    one: Kind
    many: Array


Kind: TypeAlias = Leaf | Closed | Array | Map | Nested | Tagged | Picked | Either

ANY: Final = Leaf((), "any")
_NAMES: Final = {str: "str", int: "int", float: "number", bool: "bool"}


@attrs.frozen(repr=False, eq=False)
class FieldSpec:
    """One field of a wire type."""

    attribute: str
    wire: str
    kind: Kind
    default: Any
    """What absence decodes to; `attrs.NOTHING` where the constructor asks for it."""

    nullable: bool
    """Whether ``null`` is a value of its own."""

    accepts_missing: bool
    accepts_null: bool
    """Whether ``null`` is read as absence."""

    spec: Spec

    def exists_in(self, revision: str) -> bool:
        """Return whether a revision's schema has the field."""
        until = self.spec.until
        return self.spec.since <= revision and (until is None or revision <= until)

    def required_in(self, revision: str) -> bool:
        """Return whether a revision's schema requires the field."""
        required = self.spec.required
        if isinstance(required, tuple):
            return revision in required
        return self.exists_in(revision) and (required or self.default is attrs.NOTHING)


@attrs.frozen(repr=False, eq=False)
class TypeSpec:
    """A wire type as the codec sees it."""

    cls: type[WireType]
    constants: Mapping[str, str]
    fields: tuple[FieldSpec, ...]
    keeps_raw: bool
    opaque: bool

    @property
    def known(self) -> frozenset[str]:
        """The names on the wire that the type knows."""
        return frozenset(self.constants) | {field.wire for field in self.fields}


class _Scope(dict[str, Any]):
    """The names that annotations may use; those of `mcpwire.types` load on demand."""

    def __missing__(self, name: str) -> Any:
        from mcpwire.types._codec import fields

        if name in fields.__all__:
            return getattr(fields, name)
        # KeyError lets the interpreter look into the module and the builtins.
        if name not in public_names.__all__:
            raise KeyError(name)
        return getattr(public_names, name)


_SCOPE: Final = _Scope(
    {
        name: getattr(typing, name)
        for name in ("Annotated", "Any", "ClassVar", "Literal")
    }
    | {name: getattr(base, name) for name in ("Json", "JsonObject")}
    | {"Pick": Pick, "Spec": Spec}
)


def _evaluate(cls: type, annotation: str) -> Any:
    module = vars(sys.modules[cls.__module__])
    return eval(annotation, module, _SCOPE)  # noqa: S307 - our own source, never data


_SPECS: Final[dict[type[WireType], TypeSpec]] = {}


def spec_of(cls: type[WireType]) -> TypeSpec:
    """Return what a wire type's annotations say, read once."""
    if cls not in _SPECS:
        _SPECS[cls] = _read(cls)
    return _SPECS[cls]


def _read(cls: type[WireType]) -> TypeSpec:
    attributes = {field.name: field for field in attrs.fields(cls)}
    raw = attributes.pop("raw", None)
    attributes.pop("extra", None)
    return TypeSpec(
        cls,
        _constants(cls),
        tuple(_field(cls, attribute) for attribute in attributes.values()),
        keeps_raw=raw is not None,
        opaque=raw is not None and raw.default is attrs.NOTHING,
    )


def _constants(cls: type[WireType]) -> dict[str, str]:
    # `from __future__ import annotations` keeps them as text in every types module.
    return {
        wire_name(name): getattr(cls, name)
        for name, annotation in cls.__annotations__.items()
        if annotation.startswith("ClassVar[Literal")
    }


def wire_name(attribute: str) -> str:
    """Return an attribute's name on the wire: camel case, and ``_meta``."""
    if attribute == "meta":
        return "_meta"
    head, *tail = attribute.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _field(cls: type[WireType], attribute: attrs.Attribute[Any]) -> FieldSpec:
    annotation = _evaluate(cls, str(attribute.type))
    spec = Spec()
    if typing.get_origin(annotation) is typing.Annotated:
        marks = [mark for mark in annotation.__metadata__ if isinstance(mark, Spec)]
        if marks:
            spec = marks[0]
            # Annotated flattens, so the Pick of a union's alias stands beside the Spec.
            others = tuple(mark for mark in annotation.__metadata__ if mark is not spec)
            plain_type = annotation.__origin__
            annotation = Annotated[plain_type, *others] if others else plain_type
    wire = spec.wire or wire_name(attribute.name)
    optional = attribute.default is not attrs.NOTHING
    demanded = not optional or spec.required is True
    plain, has_null = _without_none(annotation)
    null_is_absence = optional and attribute.default is not base.UNSET
    return FieldSpec(
        attribute=attribute.name,
        wire=wire,
        kind=_kind(plain),
        default=attribute.default,
        nullable=(has_null and not optional) or plain is Any,
        accepts_missing=not demanded
        or (optional and forgives(cls.__name__, wire, "missing", optional=False)),
        accepts_null=null_is_absence
        and forgives(cls.__name__, wire, "null", optional=not demanded),
        spec=spec,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    members = _members(annotation)
    rest = tuple(member for member in members if member is not types.NoneType)
    if len(rest) == len(members):
        return annotation, False
    return _union_of(rest), True


def _union_of(members: tuple[Any, ...]) -> Any:
    return functools.reduce(operator.or_, members)


def _members(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in {types.UnionType, typing.Union}:
        return typing.get_args(annotation)
    return (annotation,)


def _kind(annotation: Any) -> Kind:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return ANY
    if annotation in _NAMES:
        return Leaf(_exact(annotation), _NAMES[annotation])
    if origin in _GENERIC:
        return _GENERIC[origin](annotation, arguments)
    return Nested(annotation)


def _picked(annotation: Any, _: tuple[Any, ...]) -> Kind:
    pick = next(mark for mark in annotation.__metadata__ if isinstance(mark, Pick))
    return Picked(pick, _members(annotation.__origin__))


def _object(_: Any, arguments: tuple[Any, ...]) -> Kind:
    item = _kind(arguments[1])
    return Leaf((dict,), "object") if item is ANY else Map(item)


def _exact(kind: type) -> tuple[type, ...]:
    return (int, float) if kind is float else (kind,)


def _union(_: Any, members: tuple[Any, ...]) -> Kind:
    arrays = [member for member in members if typing.get_origin(member) is list]
    if arrays:
        rest = tuple(member for member in members if member is not arrays[0])
        return Either(
            _kind(_union_of(rest)), Array(_kind(typing.get_args(arrays[0])[0]))
        )
    kinds = [_kind(member) for member in members]
    leaves = [kind for kind in kinds if isinstance(kind, Leaf)]
    if leaves:
        found = tuple(kind for leaf in leaves for kind in leaf.types)
        known = (kind.values for kind in kinds if isinstance(kind, Closed))
        names = " or ".join(leaf.name for leaf in leaves)
        return Leaf(found, names, tuple(itertools.chain.from_iterable(known)))
    return _tagged(members)


_GENERIC: Final[Mapping[Any, Callable[[Any, tuple[Any, ...]], Kind]]] = {
    Annotated: _picked,
    Literal: lambda _, arguments: Closed(arguments),
    list: lambda _, arguments: Array(_kind(arguments[0])),
    dict: _object,
    types.UnionType: _union,
    typing.Union: _union,
}


def _tagged(members: tuple[type[WireType], ...]) -> Tagged:
    known = {cls: _constants(cls) for cls in members}
    key = next(iter(next(constants for constants in known.values() if constants)))
    fallbacks = [cls for cls, constants in known.items() if not constants]
    return Tagged(
        key,
        {constants[key]: cls for cls, constants in known.items() if constants},
        fallbacks[0] if fallbacks else None,
    )
