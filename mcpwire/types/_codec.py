"""Codec of wire types: the annotations of a class define its decoder and encoder.

::

    annotations, leniency ──> TypeSpec ─┬─> decoder ──────────────────> an instance
                                        └─> encoder of a revision ────> a JSON object

Two tables define the leniency: `DEFAULTED_FIELDS` and `OMITTABLE_FIELDS` name members
that may be missing or malformed in a peer's message without an error.

Decoders and encoders are generated straight-line functions, compiled at the first use
of a type. Their source contains names of our classes and fields only, no peer data.

===========================  ========================================================
annotation                   kind
===========================  ========================================================
``str int float bool Any``   a leaf; ``float`` is a JSON number, ``int`` an integer
``int | str``                a leaf of several types
``Literal["a", "b"]``        a closed set of strings
``Literal["a"] | str``       an open set of strings: unknown ones are kept
``dict[str, Any]``           an object with undefined members
``dict[str, X]``             an object with values of that kind
``list[X]``                  an array
``Tool``                     an object of that wire type
``TextContent | ...``        a union, by its members' constant or a `Selector`
``X | list[X]``              one value or an array
``X | None``                 nullable if it has no default, else optional
``ClassVar[Literal["a"]]``   a constant member, no constructor argument
===========================  ========================================================

Three attribute names are special: `meta` is ``_meta`` in JSON, `extra` takes unknown
members, and `raw` keeps the decoded object. A class with a required `raw` is opaque: it
is encoded as `raw`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
import re
import sys
import types
import typing
from contextlib import contextmanager
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
)

import attrs

import mcpwire.types as public_names
from mcpwire.errors import InvalidMessage, LocalProtocolError, excerpt
from mcpwire.types import _base
from mcpwire.types._base import UNSET, Selector, Spec, Unset, WireType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcpwire.types._base import Json, JsonObject
    from mcpwire.versions import Revision

T = TypeVar("T", bound="WireType")


# --- leniency: deviations that are accepted
#
# All optional fields accept ``null``, as serialised models contain it for unset fields,
# and integers accept 5.0, as in JSON Schema. All other deviations raise an error with
# their path.

DEFAULTED_FIELDS: Final = frozenset(
    {
        "CallToolResult.content",  # some servers send structuredContent only
        "ToolResultContent.content",  # the content of such a CallToolResult
        "Tool.inputSchema",  # one malformed tool must not fail the whole list
        "InitializeResult.serverInfo",  # for display only
        "InitializeResult.capabilities",  # missing means no capabilities
        "DiscoverResult.capabilities",
        "InitializeRequestParams.capabilities",
    }
)
"""Required fields that decode to their default if missing or ``null``."""

OMITTABLE_FIELDS: Final = frozenset(
    {
        "Tool.annotations",  # malformed hints must not fail the whole list
        "ToolAnnotations.title",  # the default of each hint is the safe value
        "ToolAnnotations.readOnlyHint",
        "ToolAnnotations.destructiveHint",
        "ToolAnnotations.idempotentHint",
        "ToolAnnotations.openWorldHint",
    }
)
"""Fields that `decode` may omit if malformed; see its `lost`."""


# --- specifications of types


class Leaf(NamedTuple):
    """A value that is not decoded further, with its exact Python types; none: any."""

    types: tuple[type, ...]
    name: str
    known: tuple[str, ...] = ()
    """The known members of an open set of strings."""


class StringEnum(NamedTuple):
    """One of a closed set of strings."""

    values: tuple[str, ...]


class Array(NamedTuple):
    """A JSON array."""

    item: Kind


class Map(NamedTuple):
    """A JSON object with arbitrary member names."""

    item: Kind


class TypedObject(NamedTuple):
    """A JSON object of one wire type."""

    cls: type[WireType]


class TaggedUnion(NamedTuple):
    """A union of wire types that a constant member distinguishes."""

    key: str
    members: Mapping[str, type[WireType]]
    fallback: type[WireType] | None
    """The type for an unknown constant; ``None``: refuse it."""

    @property
    def classes(self) -> tuple[type[WireType], ...]:
        rest = () if self.fallback is None else (self.fallback,)
        return (*self.members.values(), *rest)


class SelectedUnion(NamedTuple):
    """A union of wire types that a function distinguishes."""

    selector: Selector
    classes: tuple[type[WireType], ...]


class OneOrArray(NamedTuple):
    """One value or an array."""

    one: Kind
    item: Kind


Kind: TypeAlias = (
    Leaf
    | StringEnum
    | Array
    | Map
    | TypedObject
    | TaggedUnion
    | SelectedUnion
    | OneOrArray
)

ANY: Final = Leaf((), "any")


class FieldSpec(NamedTuple):
    """One field of a wire type."""

    name: str
    """The names of type and member, such as ``Tool.inputSchema``."""

    attribute: str
    wire: str
    kind: Kind
    default: Any
    """The value if absent; `attrs.NOTHING` if the constructor requires the field."""

    nullable: bool
    """Whether ``null`` is a value and does not mean absent."""

    accepts_missing: bool
    spec: Spec
    hint: Any
    """The annotation without its `Spec`."""

    @property
    def absent(self) -> Unset | None:
        """The value that means a missing member: ``None`` if ``null`` counts as one."""
        return None if self.accepts_missing and self.default is not UNSET else UNSET

    def exists_in(self, revision: str) -> bool:
        until = self.spec.until
        return self.spec.since <= revision and (until is None or revision <= until)


class TypeSpec(NamedTuple):
    """The specification of a wire type for the codec."""

    constants: Mapping[str, str]
    fields: tuple[FieldSpec, ...]
    keeps_raw: bool
    opaque: bool


# --- reading annotations


class _Scope(dict[str, Any]):
    """The names that annotations may use; `mcpwire.types` is imported on demand."""

    def __missing__(self, name: str) -> Any:
        # After a KeyError, `eval` searches the module and the builtins.
        if name not in public_names.__all__:
            raise KeyError(name)
        return getattr(public_names, name)


_SCOPE: Final = _Scope(vars(_base))


def wire_name(attribute: str) -> str:
    """Return the JSON name of an attribute: in camel case, or ``_meta``."""
    if attribute == "meta":
        return "_meta"
    head, *tail = attribute.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _constants(cls: type[WireType]) -> dict[str, str]:
    # `from __future__ import annotations` makes them strings in every types module.
    return {
        wire_name(name): getattr(cls, name)
        for name, annotation in cls.__annotations__.items()
        if annotation.startswith("ClassVar[Literal")
    }


def _split_spec(hint: Any) -> tuple[Any, Spec]:
    """Return an annotation without its `Spec`, and the `Spec`."""
    marks = getattr(hint, "__metadata__", ())
    spec = next((mark for mark in marks if isinstance(mark, Spec)), None)
    if spec is None:
        return hint, Spec()
    # Nested Annotated types are flattened: a union's selector is next to the Spec.
    other_marks = tuple(mark for mark in marks if mark is not spec)
    plain = hint.__origin__
    return (Annotated[plain, *other_marks] if other_marks else plain), spec


_UNIONS: Final = frozenset({types.UnionType, typing.Union})


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def _join_union(members: Iterable[Any]) -> Any:
    return functools.reduce(operator.or_, members)


_LEAVES: Final = {
    str: Leaf((str,), "str"),
    int: Leaf((int,), "int"),
    float: Leaf((int, float), "number"),
    bool: Leaf((bool,), "bool"),
    Any: ANY,
}


def _read_kind(hint: Any) -> Kind:
    if hint in _LEAVES:
        return _LEAVES[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        selector = next(m for m in hint.__metadata__ if isinstance(m, Selector))
        return SelectedUnion(selector, _members(hint.__origin__))
    if origin is Literal:
        return StringEnum(arguments)
    if origin is list:
        return Array(_read_kind(arguments[0]))
    if origin is dict:
        item = _read_kind(arguments[1])
        return Leaf((dict,), "object") if item is ANY else Map(item)
    return _read_union(arguments) if origin in _UNIONS else TypedObject(hint)


def _read_union(members: tuple[Any, ...]) -> Kind:
    for array in members:
        if typing.get_origin(array) is list:
            rest = _join_union(member for member in members if member is not array)
            return OneOrArray(_read_kind(rest), _read_kind(typing.get_args(array)[0]))
    kinds = [_read_kind(member) for member in members]
    leaves = [kind for kind in kinds if isinstance(kind, Leaf)]
    if leaves:
        return Leaf(
            tuple(leaf_type for leaf in leaves for leaf_type in leaf.types),
            " or ".join(leaf.name for leaf in leaves),
            tuple(
                value
                for kind in kinds
                if isinstance(kind, StringEnum)
                for value in kind.values
            ),
        )
    known = {cls: _constants(cls) for cls in members}
    key = next(name for constants in known.values() for name in constants)
    return TaggedUnion(
        key,
        {constants[key]: cls for cls, constants in known.items() if constants},
        next((cls for cls, constants in known.items() if not constants), None),
    )


# --- fields of a user's classes


def read_fields(kind: Any) -> list[tuple[str, str, Any]] | None:
    """Return the fields of a class: JSON name, constructor parameter, default.

    The default is `attrs.NOTHING` only if the field is required. ``None``: not a class
    with known fields.
    """
    kind = typing.get_origin(kind) or kind
    if hasattr(kind, "__required_keys__"):  # also a TypedDict of typing_extensions
        # `__required_keys__` ignores NotRequired in annotations that are strings.
        marks = {n: typing.get_origin(hint) for n, hint in type_hints(kind).items()}
        required = {n for n in kind.__required_keys__ if marks[n] is not NotRequired}
        required |= {name for name, mark in marks.items() if mark is Required}
        return [(n, n, attrs.NOTHING if n in required else ...) for n in marks]
    if attrs.has(kind):
        fields = [field for field in attrs.fields(kind) if field.init]
        return [(f.name, f.alias or f.name, f.default) for f in fields]
    if dataclasses.is_dataclass(kind):
        fields = [field for field in dataclasses.fields(kind) if field.init]
        # Both are `dataclasses.MISSING` only if the field is required.
        required = {f.name for f in fields if f.default is f.default_factory}
        return [
            (f.name, f.name, attrs.NOTHING if f.name in required else f.default)
            for f in fields
        ]
    return None


def type_hints(kind: Any) -> dict[str, Any]:
    """Return the type hints of a class, or of `Page[int]`, with their metadata."""
    cls = typing.get_origin(kind) or kind
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"a hint in {cls.__name__} names {error.name!r}, which is not known there"
        ) from error
    inherited: dict[str, Any] = {}
    box: Any = list  # its `__parameters__` are the variables of a hint in it
    for base in reversed(vars(cls).get("__orig_bases__", cls.__bases__)):
        if typing.Generic in getattr(typing.get_origin(base) or base, "__mro__", ()):
            # As a hint in the module of the class, for names in texts: `Page["Item"]`.
            space = {"__annotations__": {"base": base}, "__module__": cls.__module__}
            inherited |= type_hints(type_hints(type(cls.__name__, (), space))["base"])
    for name, hint in hints.items():
        if box[hint].__parameters__:
            hints[name] = replace_variables(inherited.get(name, hint), kind)
    return hints


def replace_variables(hint: Any, kind: Any) -> Any:
    """Return a hint with the arguments of a `Page[int]` in place of its variables."""
    variables = getattr(typing.get_origin(kind), "__parameters__", ())
    arguments = dict(zip(variables, typing.get_args(kind), strict=False))
    boxed: Any = list[hint]
    if arguments and boxed.__parameters__:
        boxed = boxed[tuple(arguments.get(each, each) for each in boxed.__parameters__)]
    return boxed.__args__[0]


# --- error messages

_PLAIN: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_JSON_NAMES: Final[Mapping[type, str]] = {
    str: "str",
    int: "int",
    float: "number",
    bool: "bool",
    dict: "object",
    list: "array",
    type(None): "null",
    Unset: "nothing",
}


def json_type(value: object) -> str:
    """Return the name of a value's JSON type."""
    return _JSON_NAMES.get(type(value), type(value).__name__)


def member_path(path: str, name: str) -> str:
    """Return the path of a member of the object at a path."""
    return f"{path}.{name}" if _PLAIN.match(name) else f"{path}[{json.dumps(name)}]"


def _describe_value(value: Json) -> str:
    return excerpt(value) if type(value) is str else json_type(value)


def _describe_kind(kind: Kind) -> str:
    match kind:
        case Leaf():
            return kind.name
        case StringEnum(values):
            return " or ".join(map(repr, values))
        case Array():
            return "array"
        case OneOrArray(one, _):
            return f"{_describe_kind(one)} or array"
        case TaggedUnion(members=members, fallback=None):
            return " or ".join(map(repr, members))
    return "object"


# --- code generation


class DecodeError(Exception):
    """The value is invalid; `decode` converts this error to `InvalidMessage`."""

    def __init__(self, path: str, expected: str, got: str) -> None:
        self.path, self.expected, self.got = path, expected, got

    def prepend(self, path: str) -> DecodeError:
        """Return this error with a path of the enclosing object prepended."""
        self.path = path + self.path
        return self


class _Source:
    """The source of a generated function, and its global names."""

    def __init__(self, label: str, head: str, **names: Any) -> None:
        self.label = label
        self.names = {"UNSET": UNSET, **names}
        self.lines = [head]
        self.depth = 1

    def line(self, text: str, *inside: str) -> None:
        """Add a line and, indented, the lines inside it."""
        self.lines.append("    " * self.depth + text)
        self.lines += ["    " * (self.depth + 1) + line for line in inside]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, prefix: str, value: Any = None) -> str:
        """Return a new name for a variable or a global value."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def default(self, default: Any) -> str:
        """Return an expression for the default of a field."""
        factory = getattr(default, "factory", None)
        return repr(default) if factory is None else f"{self.name('make', factory)}()"

    def compile(self) -> Any:
        """Return the compiled function."""
        source = "\n".join(self.lines)
        exec(compile(source, f"<mcpwire {self.label}>", "exec"), self.names)  # noqa: S102 - generated code decodes in about 1 us; it contains our names only
        return self.names["function"]


class _DecoderSource(_Source):
    """Source of a decoder; it takes a value and a list for lost members, or None."""

    def __init__(self, cls: type[WireType]) -> None:
        self.spec = spec = spec_of(cls)
        super().__init__(
            f"decoder of {cls.__name__}",
            "def function(d, lost=None):",
            D=_decoders,
            DecodeError=DecodeError,
            cls=cls,
            json_type=json_type,
            known=frozenset(spec.constants) | {field.wire for field in spec.fields},
            member_path=member_path,
            new=object.__new__,
            describe=_describe_value,
        )
        self.require_type("dict", "d", "''", "object")
        for name, value in spec.constants.items():
            got = f"d.get({name!r}, UNSET)"
            path = repr(member_path("", name))
            self.require(f"{got} == {value!r}", path, repr(value), f"describe({got})")
        self.line("o = new(cls)")
        if spec.keeps_raw:
            self.line("o.raw = d")
        required = [field for field in spec.fields if not field.accepts_missing]
        for field in required:
            self.decode_required(field)
        if not spec.opaque:
            self.line(f"n = len(d) - {len(spec.constants) + len(required)}")
            for field in spec.fields:
                if field.accepts_missing:
                    self.decode_optional(field)
            unknown = "{k: d[k] for k in d if k not in known} or None"
            self.line(f"o.extra = ({unknown}) if n else None")
        self.line("return o")

    def require(self, condition: str, path: str, expected: str, got: str) -> None:
        error = f"DecodeError({path}, {expected!r}, {got})"
        self.line(f"if not ({condition}):", f"raise {error}")

    def require_type(self, kind: str, value: str, path: str, expected: str) -> None:
        self.require(f"type({value}) is {kind}", path, expected, f"json_type({value})")

    def decode_required(self, field: FieldSpec) -> None:
        """Add the code for a required field."""
        value, path = self.name("v"), repr(member_path("", field.wire))
        self.line(f"{value} = d.get({field.wire!r}, UNSET)")
        if isinstance(field.kind, TaggedUnion | OneOrArray):
            expected = _describe_kind(field.kind)
            self.require(f"{value} is not UNSET", path, expected, "'nothing'")
        if field.nullable and field.kind is not ANY:
            with self.block(f"if {value} is not None:"):
                self.check(field.kind, value, path)
        else:
            self.check(field.kind, value, path)
        self.line(f"o.{field.attribute} = {value}")

    def decode_optional(self, field: FieldSpec) -> None:
        """Add the code for an optional field; ``n`` counts the remaining members."""
        value, default = self.name("v"), self.default(field.default)
        assignment = f"({value} := d.get({field.wire!r}, {field.absent!r}))"
        with self.block(f"if n and {assignment} is not {field.absent!r}:"):
            self.line("n -= 1")
            self.check_optional(field, value, default)
            self.line(f"o.{field.attribute} = {value}")
        self.line("else:", f"o.{field.attribute} = {default}")

    def check_optional(self, field: FieldSpec, value: str, default: str) -> None:
        path = repr(member_path("", field.wire))
        if field.name not in OMITTABLE_FIELDS:
            self.check(field.kind, value, path)
            return
        with self.block("try:"):
            self.check(field.kind, value, path)
        with self.block("except DecodeError:"):
            self.line("if lost is None:", "raise")
            self.line(f"lost.append({field.name!r})")
            self.line(f"{value} = {default}")

    def check(self, kind: Kind, value: str, path: str, expected: str = "") -> None:
        """Add the code that checks a value and decodes it to its wire type."""
        expected = expected or _describe_kind(kind)
        match kind:
            case Leaf():
                self.check_leaf(kind, value, path, expected)
            case StringEnum(values):
                fits = f"{value} in {values!r}"
                self.require(fits, path, expected, f"describe({value})")
            case Array(item):
                self.require_type("list", value, path, expected)
                self.check_items(item, value, path)
            case Map(item):
                self.require_type("dict", value, path, expected)
                self.check_members(item, value, path)
            case TypedObject(cls):
                self.decode_as(self.name("C", cls), value, path)
            case OneOrArray(one, item):
                with self.block(f"if type({value}) is list:"):
                    self.check_items(item, value, path)
                with self.block("else:"):
                    is_simple = isinstance(one, Leaf | StringEnum)
                    self.check(one, value, path, expected if is_simple else "")
            case TaggedUnion():
                self.check_tagged(kind, value, path)
            case _:
                selected, select = (
                    self.name("c"),
                    self.name("choose", kind.selector.select),
                )
                self.require_type("dict", value, path, "object")
                self.line(f"{selected} = {select}({value})")
                expected = kind.selector.expected
                self.require(f"{selected} is not None", path, expected, "'neither'")
                self.decode_as(selected, value, path)

    def check_leaf(self, leaf: Leaf, value: str, path: str, expected: str) -> None:
        got = f"json_type({value})"
        if leaf.types == (int,):
            with self.block(f"if type({value}) is not int:"):
                integral = f"type({value}) is float and {value}.is_integer()"
                self.require(integral, path, expected, got)
                self.line(f"{value} = int({value})")
        else:
            types = [
                f"type({value}) is {leaf_type.__name__}" for leaf_type in leaf.types
            ]
            fits = " or ".join(types) or f"{value} is not UNSET"
            self.require(fits, path, expected, got)

    def check_items(self, item: Kind, value: str, path: str) -> None:
        element, out = self.name("x"), self.name("out")
        self.line(f"{out} = []")
        with self.block(f"for {element} in {value}:"):
            self.check(item, element, f"{path} + f'[{{len({out})}}]'")
            self.line(f"{out}.append({element})")
        self.line(f"{value} = {out}")

    def check_members(self, item: Kind, value: str, path: str) -> None:
        key, element, out = self.name("k"), self.name("x"), self.name("out")
        self.line(f"{out} = {{}}")
        with self.block(f"for {key}, {element} in {value}.items():"):
            self.check(item, element, f"member_path({path}, {key})")
            self.line(f"{out}[{key}] = {element}")
        self.line(f"{value} = {out}")

    def check_tagged(self, union: TaggedUnion, value: str, path: str) -> None:
        tag, table = self.name("t"), self.name("T", union.members)
        where, got = f"{path} + {member_path('', union.key)!r}", f"describe({tag})"
        self.require_type("dict", value, path, "object")
        self.line(f"{tag} = {value}.get({union.key!r}, UNSET)")
        self.require_type("str", tag, where, "str")
        cls = f"{table}[{tag}]"
        if union.fallback is None:
            self.require(f"{tag} in {table}", where, _describe_kind(union), got)
        else:
            cls += f" if {tag} in {table} else {self.name('C', union.fallback)}"
        self.decode_as(cls, value, path)

    def decode_as(self, cls: str, value: str, path: str) -> None:
        self.line("try:", f"{value} = D[{cls}]({value}, lost)")
        self.line("except DecodeError as e:", f"raise e.prepend({path})")


class _Classes(dict[type, type]):
    """The classes of a union; its subclasses are members, too."""

    def __missing__(self, cls: type) -> type:
        if issubclass(cls, tuple(self)):
            return cls
        raise KeyError(cls)  # `encode` handles it


class _EncoderSource(_Source):
    """Source of an encoder: constants, required and set fields, then unknown members.

    Leaves and open objects are shared with the value. With a revision, the encoder
    omits the fields that the revision lacks.
    """

    def __init__(self, cls: type[WireType], revision: str | None) -> None:
        self.spec = spec_of(cls)
        self.fields = [
            field
            for field in self.spec.fields
            if revision is None or field.exists_in(revision)
        ]
        super().__init__(
            f"encoder of {cls.__name__}", "def function(o):", E=_encoders[revision]
        )
        if self.spec.opaque:
            self.line("return o.raw")
            return
        members = {name: repr(value) for name, value in self.spec.constants.items()}
        optional = []
        for field in self.fields:
            if field.default is attrs.NOTHING or hasattr(field.default, "factory"):
                value = f"o.{field.attribute}"
                members[field.wire] = self.expression(field.kind, value)
            else:
                optional.append(field)
        items = ", ".join(f"{name!r}: {members[name]}" for name in members)
        self.line(f"d = {{{items}}}")
        for field in optional:
            self.write_if_set(field)
        self.line("if o.extra:", "d = d | o.extra | d")  # own fields take precedence
        self.line("return d")

    def write_if_set(self, field: FieldSpec) -> None:
        value, default = self.name("v"), field.default
        self.line(f"{value} = o.{field.attribute}")
        if default is None or default is UNSET:
            condition = f"{value} is not {self.default(default)}"
        else:
            # Other defaults are written, unless the peer omitted the member.
            assert self.spec.keeps_raw, f"{field.attribute}: only results know that"
            raw = f"o.raw is None or {field.wire!r} in o.raw"
            condition = f"{value} != {default!r} or {raw}"
        expression = self.expression(field.kind, value)
        self.line(f"if {condition}:", f"d[{field.wire!r}] = {expression}")

    def expression(self, kind: Kind, value: str) -> str:
        """Return the expression that encodes a value of a kind."""
        match kind:
            case TypedObject(cls):
                return f"E[{self.name('C', cls)}]({value})"
            case TaggedUnion() | SelectedUnion():
                table = self.name("T", _Classes((cls, cls) for cls in kind.classes))
                return f"E[{table}[type({value})]]({value})"
            case Array(item):
                element = self.name("x")
                inner = self.expression(item, element)
                return (
                    value if inner == element else f"[{inner} for {element} in {value}]"
                )
            case Map(item):
                key, element = self.name("k"), self.name("x")
                inner = self.expression(item, element)
                members = f"for {key}, {element} in {value}.items()"
                return value if inner == element else f"{{{key}: {inner} {members}}}"
            case OneOrArray(one, item):
                first = self.expression(one, value)
                rest = self.expression(Array(item), value)
                if first != rest:
                    is_array = f"isinstance({value}, (list, tuple))"
                    return f"({rest} if {is_array} else {first})"
        return value


# --- from a class to its specification


def _read_field(cls: type[WireType], attribute: attrs.Attribute[Any]) -> FieldSpec:
    module = vars(sys.modules[cls.__module__])
    hint: Any = attribute.type
    if isinstance(hint, str):  # no longer after `attrs.resolve_types`
        hint = eval(hint, module, _SCOPE)  # noqa: S307 - our own source, never data
    hint, spec = _split_spec(hint)
    members = _members(hint)
    not_null = tuple(
        alternative for alternative in members if alternative is not types.NoneType
    )
    has_null, plain = len(not_null) < len(members), _join_union(not_null)
    wire = spec.wire or wire_name(attribute.name)
    name = f"{cls.__name__}.{wire}"
    has_default = attribute.default is not attrs.NOTHING
    return FieldSpec(
        name,
        attribute.name,
        wire,
        _read_kind(plain),
        attribute.default,
        nullable=(has_null and not has_default) or plain is Any,
        accepts_missing=(has_default and spec.required is not True)
        or name in DEFAULTED_FIELDS,
        spec=spec,
        hint=hint,
    )


def read_class(cls: type[WireType]) -> TypeSpec:
    attributes = {field.name: field for field in attrs.fields(cls)}
    raw = attributes.pop("raw", None)
    attributes.pop("extra", None)
    return TypeSpec(
        _constants(cls),
        tuple(_read_field(cls, attribute) for attribute in attributes.values()),
        keeps_raw=raw is not None,
        opaque=raw is not None and raw.default is attrs.NOTHING,
    )


# --- the compiled functions


class _Cache(dict[Any, Any]):
    """Creates a value at the first access to its key."""

    def __init__(self, create: Callable[[Any], Any]) -> None:
        super().__init__()
        self._create = create

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self._create(key)
        return value


spec_of: Final[Callable[[type[WireType]], TypeSpec]] = _Cache(read_class).__getitem__
_decoders: Final = _Cache(lambda cls: _DecoderSource(cls).compile())
_encoders: Final = _Cache(
    lambda revision: _Cache(lambda cls: _EncoderSource(cls, revision).compile())
)


def decode(cls: type[T], value: Json, lost: list[str] | None = None) -> T:
    """Decode a wire type from a JSON value that is already parsed.

    Open objects, leaves and `raw` are shared with the value, not copied.

    Args:
        cls: The type.
        value: The value.
        lost: If given, malformed members that are `OMITTABLE_FIELDS` are omitted, and
            their names are appended to this list.

    Raises:
        InvalidMessage: The value is not valid for the type; `path` is the place.
    """
    try:
        return _decoders[cls](value, lost)  # type: ignore[no-any-return]  # the table is shared by all types
    except DecodeError as error:
        path = cls.__name__ + error.path
        raise InvalidMessage(path, expected=error.expected, got=error.got) from None


def decoder(cls: type[T]) -> Callable[[Json], T]:
    """Return a function that decodes a type like `decode`."""
    return functools.partial(decode, cls)


def encode(value: WireType, revision: Revision | None = None) -> JsonObject:
    """Encode a wire type as a JSON object; absent fields are omitted, never null.

    With a revision, fields that the revision lacks are omitted, too. Open objects and
    leaves are shared with the value, not copied.

    Raises:
        LocalProtocolError: A field has a value of another type than its wire type.
            Leaves are only checked when the message is written.
    """
    encoders = _encoders[None if revision is None else revision.name]
    try:
        return encoders[type(value)](value)  # type: ignore[no-any-return]  # the table is shared by all types
    except (AttributeError, KeyError, TypeError, ValueError) as cause:
        try:
            _check_types(TypedObject(WireType), value, type(value).__name__)
        except LocalProtocolError as error:
            raise error from cause
        raise


def encoder(
    cls: type[T],  # noqa: ARG001 - for type checkers
    revision: Revision | None = None,
) -> Callable[[T], JsonObject]:
    """Return a function that encodes a type like `encode`."""
    return functools.partial(encode, revision=revision)


def _check_types(kind: Kind, value: Any, path: str) -> None:
    """Check that a value consists of the wire types of a kind; ignore leaves."""
    match kind:
        case TypedObject(cls):
            _check_field_types((cls,), value, path)
        case TaggedUnion() | SelectedUnion():
            _check_field_types(kind.classes, value, path)
        case Array(item):
            _require(isinstance(value, list | tuple), path, "list", value)
            for index, element in enumerate(value):
                _check_types(item, element, f"{path}[{index}]")
        case Map(item):
            _require(isinstance(value, dict), path, "dict", value)
            for name, element in value.items():
                _check_types(item, element, member_path(path, name))
        case OneOrArray(one, item):
            inner = Array(item) if isinstance(value, list | tuple) else one
            _check_types(inner, value, path)


def _check_field_types(
    classes: tuple[type[WireType], ...], value: Any, path: str
) -> None:
    names = " or ".join(cls.__name__ for cls in classes)
    _require(isinstance(value, classes), path, names, value)
    extra = getattr(value, "extra", None) or {}
    _require(isinstance(extra, dict), f"{path}.extra", "dict", extra)
    for field in spec_of(type(value)).fields:
        field_value = getattr(value, field.attribute)
        absent = field_value is field.default or (
            field_value is None and field.nullable
        )
        if not absent:
            _check_types(field.kind, field_value, member_path(path, field.attribute))


def _require(fits: bool, path: str, expected: str, value: Any) -> None:  # noqa: FBT001 - a check reads best with its condition first
    if not fits:
        got = type(value).__name__
        raise LocalProtocolError(f"{path}: expected {expected}, got {got}")
