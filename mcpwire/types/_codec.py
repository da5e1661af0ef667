"""Codec of wire types: the annotations of a class define its decoder and encoder.

::

    annotations, leniency ──> TypeSpec ─┬─> decoder ──────────────────> an instance
                                        └─> encoder of a revision ────> a JSON object

Two tables define the leniency: `DEFAULTED` and `LOSABLE` name members that may be
missing or malformed in a peer's message without an error.

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
``TextContent | ...``        a union, chosen by its members' constant or by `Pick`
``X | list[X]``              one value or an array
``X | None``                 nullable if it has no default, else optional
``ClassVar[Literal["a"]]``   a constant member, no constructor argument
===========================  ========================================================

Three attribute names are special: `meta` is ``_meta`` in JSON, `extra` takes unknown
members, and `raw` keeps the decoded object. A class with a required `raw` is opaque: it
is encoded as `raw`.
"""

from __future__ import annotations

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
    TypeAlias,
    TypeVar,
)

import attrs

import mcpwire.types as public_names
from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.types import _base
from mcpwire.types._base import UNSET, Pick, Spec, Unset, WireType

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

DEFAULTED: Final = frozenset(
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

LOSABLE: Final = frozenset(
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


class Closed(NamedTuple):
    """One of a closed set of strings."""

    values: tuple[str, ...]


class Array(NamedTuple):
    """A JSON array."""

    item: Kind


class Map(NamedTuple):
    """A JSON object with arbitrary member names."""

    item: Kind


class Nested(NamedTuple):
    """A JSON object of one wire type."""

    cls: type[WireType]


class Tagged(NamedTuple):
    """A union of wire types that a constant member distinguishes."""

    key: str
    members: Mapping[str, type[WireType]]
    fallback: type[WireType] | None
    """The type for an unknown constant; ``None``: refuse it."""

    @property
    def classes(self) -> tuple[type[WireType], ...]:
        rest = () if self.fallback is None else (self.fallback,)
        return (*self.members.values(), *rest)


class Picked(NamedTuple):
    """A union of wire types that a function distinguishes."""

    pick: Pick
    classes: tuple[type[WireType], ...]


class Either(NamedTuple):
    """One value or an array."""

    one: Kind
    item: Kind


Kind: TypeAlias = Leaf | Closed | Array | Map | Nested | Tagged | Picked | Either

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


def _unmarked(hint: Any) -> tuple[Any, Spec]:
    """Return an annotation without its `Spec`, and the `Spec`."""
    marks = getattr(hint, "__metadata__", ())
    spec = next((mark for mark in marks if isinstance(mark, Spec)), None)
    if spec is None:
        return hint, Spec()
    # Nested Annotated types are flattened: a union's Pick is next to the Spec.
    others = tuple(mark for mark in marks if mark is not spec)
    plain = hint.__origin__
    return (Annotated[plain, *others] if others else plain), spec


_UNIONS: Final = frozenset({types.UnionType, typing.Union})


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def _union_of(members: Iterable[Any]) -> Any:
    return functools.reduce(operator.or_, members)


_LEAVES: Final = {
    str: Leaf((str,), "str"),
    int: Leaf((int,), "int"),
    float: Leaf((int, float), "number"),
    bool: Leaf((bool,), "bool"),
    Any: ANY,
}


def _kind(hint: Any) -> Kind:
    if hint in _LEAVES:
        return _LEAVES[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        pick = next(mark for mark in hint.__metadata__ if isinstance(mark, Pick))
        return Picked(pick, _members(hint.__origin__))
    if origin is Literal:
        return Closed(arguments)
    if origin is list:
        return Array(_kind(arguments[0]))
    if origin is dict:
        item = _kind(arguments[1])
        return Leaf((dict,), "object") if item is ANY else Map(item)
    return _union(arguments) if origin in _UNIONS else Nested(hint)


def _union(members: tuple[Any, ...]) -> Kind:
    for array in members:
        if typing.get_origin(array) is list:
            rest = _union_of(member for member in members if member is not array)
            return Either(_kind(rest), _kind(typing.get_args(array)[0]))
    kinds = [_kind(member) for member in members]
    leaves = [kind for kind in kinds if isinstance(kind, Leaf)]
    if leaves:
        return Leaf(
            tuple(each for leaf in leaves for each in leaf.types),
            " or ".join(leaf.name for leaf in leaves),
            tuple(v for kind in kinds if isinstance(kind, Closed) for v in kind.values),
        )
    known = {cls: _constants(cls) for cls in members}
    key = next(name for constants in known.values() for name in constants)
    return Tagged(
        key,
        {constants[key]: cls for cls, constants in known.items() if constants},
        next((cls for cls, constants in known.items() if not constants), None),
    )


# --- error messages

_SHOWN: Final = 40
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


def describe(value: object) -> str:
    """Return the name of a value's JSON type."""
    return _JSON_NAMES.get(type(value), type(value).__name__)


def member(path: str, name: str) -> str:
    """Return the path of a member of the object at a path."""
    return f"{path}.{name}" if _PLAIN.match(name) else f"{path}[{json.dumps(name)}]"


def _shown(value: Json) -> str:
    if type(value) is not str:
        return describe(value)
    return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")


def _expected(kind: Kind) -> str:
    match kind:
        case Leaf():
            return kind.name
        case Closed(values):
            return " or ".join(map(repr, values))
        case Array():
            return "array"
        case Either(one, _):
            return f"{_expected(one)} or array"
        case Tagged(members=members, fallback=None):
            return " or ".join(map(repr, members))
    return "object"


# --- code generation


class Refused(Exception):
    """The value is invalid; `decode` converts this error to `InvalidMessage`."""

    def __init__(self, path: str, expected: str, got: str) -> None:
        self.path, self.expected, self.got = path, expected, got

    def below(self, path: str) -> Refused:
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
        self.lines += ["    " * (self.depth + 1) + each for each in inside]

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
            Refused=Refused,
            cls=cls,
            describe=describe,
            known=frozenset(spec.constants) | {field.wire for field in spec.fields},
            member=member,
            new=object.__new__,
            shown=_shown,
        )
        self.require_type("dict", "d", "''", "object")
        for name, value in spec.constants.items():
            found = f"d.get({name!r}, UNSET)"
            path = repr(member("", name))
            self.require(f"{found} == {value!r}", path, repr(value), f"shown({found})")
        self.line("o = new(cls)")
        if spec.keeps_raw:
            self.line("o.raw = d")
        demanded = [field for field in spec.fields if not field.accepts_missing]
        for field in demanded:
            self.demand(field)
        if not spec.opaque:
            self.line(f"n = len(d) - {len(spec.constants) + len(demanded)}")
            for field in spec.fields:
                if field.accepts_missing:
                    self.accept(field)
            unknown = "{k: d[k] for k in d if k not in known} or None"
            self.line(f"o.extra = ({unknown}) if n else None")
        self.line("return o")

    def require(self, condition: str, path: str, expected: str, got: str) -> None:
        error = f"Refused({path}, {expected!r}, {got})"
        self.line(f"if not ({condition}):", f"raise {error}")

    def require_type(self, kind: str, value: str, path: str, expected: str) -> None:
        self.require(f"type({value}) is {kind}", path, expected, f"describe({value})")

    def demand(self, field: FieldSpec) -> None:
        """Add the code for a required field."""
        value, path = self.name("v"), repr(member("", field.wire))
        self.line(f"{value} = d.get({field.wire!r}, UNSET)")
        if isinstance(field.kind, Tagged | Either):
            expected = _expected(field.kind)
            self.require(f"{value} is not UNSET", path, expected, "'nothing'")
        if field.nullable and field.kind is not ANY:
            with self.block(f"if {value} is not None:"):
                self.check(field.kind, value, path)
        else:
            self.check(field.kind, value, path)
        self.line(f"o.{field.attribute} = {value}")

    def accept(self, field: FieldSpec) -> None:
        """Add the code for an optional field; ``n`` counts the remaining members."""
        value, default = self.name("v"), self.default(field.default)
        found = f"({value} := d.get({field.wire!r}, {field.absent!r}))"
        with self.block(f"if n and {found} is not {field.absent!r}:"):
            self.line("n -= 1")
            self.check_optional(field, value, default)
            self.line(f"o.{field.attribute} = {value}")
        self.line("else:", f"o.{field.attribute} = {default}")

    def check_optional(self, field: FieldSpec, value: str, default: str) -> None:
        path = repr(member("", field.wire))
        if field.name not in LOSABLE:
            self.check(field.kind, value, path)
            return
        with self.block("try:"):
            self.check(field.kind, value, path)
        with self.block("except Refused:"):
            self.line("if lost is None:", "raise")
            self.line(f"lost.append({field.name!r})")
            self.line(f"{value} = {default}")

    def check(self, kind: Kind, value: str, path: str, expected: str = "") -> None:
        """Add the code that checks a value and decodes it to its wire type."""
        expected = expected or _expected(kind)
        match kind:
            case Leaf():
                self.check_leaf(kind, value, path, expected)
            case Closed(values):
                fits = f"{value} in {values!r}"
                self.require(fits, path, expected, f"shown({value})")
            case Array(item):
                self.require_type("list", value, path, expected)
                self.check_items(item, value, path)
            case Map(item):
                self.require_type("dict", value, path, expected)
                self.check_members(item, value, path)
            case Nested(cls):
                self.decode_as(self.name("C", cls), value, path)
            case Either(one, item):
                with self.block(f"if type({value}) is list:"):
                    self.check_items(item, value, path)
                with self.block("else:"):
                    is_simple = isinstance(one, Leaf | Closed)
                    self.check(one, value, path, expected if is_simple else "")
            case Tagged():
                self.check_tagged(kind, value, path)
            case _:
                chosen, choose = self.name("c"), self.name("choose", kind.pick.choose)
                self.require_type("dict", value, path, "object")
                self.line(f"{chosen} = {choose}({value})")
                expected = kind.pick.expected
                self.require(f"{chosen} is not None", path, expected, "'neither'")
                self.decode_as(chosen, value, path)

    def check_leaf(self, leaf: Leaf, value: str, path: str, expected: str) -> None:
        got = f"describe({value})"
        if leaf.types == (int,):
            with self.block(f"if type({value}) is not int:"):
                integral = f"type({value}) is float and {value}.is_integer()"
                self.require(integral, path, expected, got)
                self.line(f"{value} = int({value})")
        else:
            types = [f"type({value}) is {each.__name__}" for each in leaf.types]
            fits = " or ".join(types) or f"{value} is not UNSET"
            self.require(fits, path, expected, got)

    def check_items(self, item: Kind, value: str, path: str) -> None:
        each, out = self.name("x"), self.name("out")
        self.line(f"{out} = []")
        with self.block(f"for {each} in {value}:"):
            self.check(item, each, f"{path} + f'[{{len({out})}}]'")
            self.line(f"{out}.append({each})")
        self.line(f"{value} = {out}")

    def check_members(self, item: Kind, value: str, path: str) -> None:
        key, each, out = self.name("k"), self.name("x"), self.name("out")
        self.line(f"{out} = {{}}")
        with self.block(f"for {key}, {each} in {value}.items():"):
            self.check(item, each, f"member({path}, {key})")
            self.line(f"{out}[{key}] = {each}")
        self.line(f"{value} = {out}")

    def check_tagged(self, union: Tagged, value: str, path: str) -> None:
        tag, table = self.name("t"), self.name("T", union.members)
        where, got = f"{path} + {member('', union.key)!r}", f"shown({tag})"
        self.require_type("dict", value, path, "object")
        self.line(f"{tag} = {value}.get({union.key!r}, UNSET)")
        self.require_type("str", tag, where, "str")
        cls = f"{table}[{tag}]"
        if union.fallback is None:
            self.require(f"{tag} in {table}", where, _expected(union), got)
        else:
            cls += f" if {tag} in {table} else {self.name('C', union.fallback)}"
        self.decode_as(cls, value, path)

    def decode_as(self, cls: str, value: str, path: str) -> None:
        self.line("try:", f"{value} = D[{cls}]({value}, lost)")
        self.line("except Refused as e:", f"raise e.below({path})")


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
            f"encoder of {cls.__name__}",
            "def function(o):",
            E=_encoders[revision],
        )
        if self.spec.opaque:
            self.line("return o.raw")
            return
        members = {name: repr(value) for name, value in self.spec.constants.items()}
        rest = []
        for field in self.fields:
            if field.default is attrs.NOTHING or hasattr(field.default, "factory"):
                value = f"o.{field.attribute}"
                members[field.wire] = self.expression(field.kind, value)
            else:
                rest.append(field)
        inside = ", ".join(f"{name!r}: {members[name]}" for name in members)
        self.line(f"d = {{{inside}}}")
        for field in rest:
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
            case Nested(cls):
                return f"E[{self.name('C', cls)}]({value})"
            case Tagged() | Picked():
                # A value of another type raises KeyError; `encode` handles that.
                table = self.name("T", {cls: cls for cls in kind.classes})
                return f"E[{table}[type({value})]]({value})"
            case Array(item):
                each = self.name("x")
                inner = self.expression(item, each)
                return value if inner == each else f"[{inner} for {each} in {value}]"
            case Map(item):
                key, each = self.name("k"), self.name("x")
                inner = self.expression(item, each)
                members = f"for {key}, {each} in {value}.items()"
                return value if inner == each else f"{{{key}: {inner} {members}}}"
            case Either(one, item):
                first = self.expression(one, value)
                rest = self.expression(Array(item), value)
                if first != rest:
                    return f"({rest} if type({value}) is list else {first})"
        return value


# --- from a class to its specification


def _field(cls: type[WireType], attribute: attrs.Attribute[Any]) -> FieldSpec:
    module = vars(sys.modules[cls.__module__])
    hint = eval(str(attribute.type), module, _SCOPE)  # noqa: S307 - our own source, never data
    hint, spec = _unmarked(hint)
    members = _members(hint)
    rest = tuple(each for each in members if each is not types.NoneType)
    has_null, plain = len(rest) < len(members), _union_of(rest)
    wire = spec.wire or wire_name(attribute.name)
    name = f"{cls.__name__}.{wire}"
    has_default = attribute.default is not attrs.NOTHING
    return FieldSpec(
        name,
        attribute.name,
        wire,
        _kind(plain),
        attribute.default,
        nullable=(has_null and not has_default) or plain is Any,
        accepts_missing=(has_default and spec.required is not True)
        or name in DEFAULTED,
        spec=spec,
    )


def read_class(cls: type[WireType]) -> TypeSpec:
    attributes = {field.name: field for field in attrs.fields(cls)}
    raw = attributes.pop("raw", None)
    attributes.pop("extra", None)
    return TypeSpec(
        _constants(cls),
        tuple(_field(cls, attribute) for attribute in attributes.values()),
        keeps_raw=raw is not None,
        opaque=raw is not None and raw.default is attrs.NOTHING,
    )


# --- the compiled functions


class _Cache(dict[Any, Any]):
    """Creates a value at the first access to its key."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> Any:
        made = self[key] = self._make(key)
        return made


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
        lost: If given, malformed members that are `LOSABLE` are omitted, and their
            names are appended to this list.

    Raises:
        InvalidMessage: The value is not valid for the type; `path` is the place.
    """
    try:
        return _decoders[cls](value, lost)  # type: ignore[no-any-return]  # the table is shared by all types
    except Refused as error:
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
    except (AttributeError, KeyError, TypeError) as symptom:
        try:
            _check_own(Nested(type(value)), value, type(value).__name__)
        except LocalProtocolError as error:
            raise error from symptom
        raise


def encoder(
    cls: type[T],  # noqa: ARG001 - for type checkers
    revision: Revision | None = None,
) -> Callable[[T], JsonObject]:
    """Return a function that encodes a type like `encode`."""
    return functools.partial(encode, revision=revision)


def _check_own(kind: Kind, value: Any, path: str) -> None:
    """Check that a value consists of the wire types of a kind; ignore leaves."""
    match kind:
        case Nested(cls):
            _check_fields((cls,), value, path)
        case Tagged() | Picked():
            _check_fields(kind.classes, value, path)
        case Array(item):
            _require(isinstance(value, list | tuple), path, "list", value)
            for index, each in enumerate(value):
                _check_own(item, each, f"{path}[{index}]")
        case Map(item):
            _require(isinstance(value, dict), path, "dict", value)
            for name, each in value.items():
                _check_own(item, each, member(path, name))
        case Either(one, item):
            inner = Array(item) if isinstance(value, list | tuple) else one
            _check_own(inner, value, path)


def _check_fields(classes: tuple[type[WireType], ...], value: Any, path: str) -> None:
    names = " or ".join(cls.__name__ for cls in classes)
    _require(type(value) in classes, path, names, value)
    extra = getattr(value, "extra", None) or {}
    _require(isinstance(extra, dict), f"{path}.extra", "dict", extra)
    for field in spec_of(type(value)).fields:
        inside = getattr(value, field.attribute)
        absent = inside is field.default or (inside is None and field.nullable)
        if not absent:
            _check_own(field.kind, inside, member(path, field.attribute))


def _require(fits: bool, path: str, expected: str, value: Any) -> None:  # noqa: FBT001 - a check reads best with its condition first
    if not fits:
        got = type(value).__name__
        raise LocalProtocolError(f"{path}: expected {expected}, got {got}")
