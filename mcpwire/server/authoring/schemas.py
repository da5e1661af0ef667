"""JSON Schemas of type hints, and translation of hints for msgspec.

`translate` replaces parts that msgspec does not support: constraints of `Arg` and of
other libraries, classes with fields, unions of several classes, pydantic's annotations.
Where necessary it creates a class, a `StandIn`, as a stand-in for the hint.

`Schemas` generates the schemas. msgspec and pydantic use references; here each
reference is replaced by its definition, unless the definition is recursive or large.
"""

from __future__ import annotations

import collections.abc
import contextlib
import datetime as dt
import enum
import functools
import inspect
import math
import operator
import re
import sys
import types
import typing
from fractions import Fraction
from pathlib import PurePath
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    Union,
)

import attrs
import msgspec

from mcpwire.protocol.json_schema import map_schemas, replace_children, walk
from mcpwire.server.authoring.conversion import (
    Fault,
    StandIn,
    adapter_of,
    convert,
    is_json,
    is_pydantic,
    locations_of,
    new_stand_in,
    to_json_value,
    validate_pydantic,
)
from mcpwire.types._base import WireType
from mcpwire.types._codec import (
    decode,
    read_fields,
    replace_variables,
    spec_of,
    type_hints,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Definitions = Mapping[str, dict[str, Any]]

_NUMBERS: Final = ("ge", "gt", "le", "lt", "multiple_of")
_LENGTHS: Final = ("min_length", "max_length")

BOUNDS: Final = (*_NUMBERS, *_LENGTHS, "pattern")
"""The constraints of a value; `msgspec.Meta` uses the same names."""

PATTERN_LENGTH: Final = 1_024
"""The maximum length of a text with a pattern, unless `max_length` is given."""

_ANNOTATIONS: Final = ("title", "description", "examples", "extra_json_schema")


@attrs.frozen(kw_only=True, eq=False)  # hints have to be hashable
class Arg:
    """Metadata of a parameter or a field, within ``Annotated``.

    ::

        def search(limit: Annotated[int, Arg("How many", ge=1, le=100)] = 10): ...
    """

    description: str | None = attrs.field(default=None, kw_only=False)
    """The description, for models and people."""

    title: str | None = None
    """The name to show to people."""

    ge: float | None = None
    """The smallest allowed number."""

    gt: float | None = None
    """The exclusive lower bound of a number."""

    le: float | None = None
    """The largest allowed number."""

    lt: float | None = None
    """The exclusive upper bound of a number."""

    multiple_of: float | None = None
    """The number must be a multiple of this."""

    min_length: int | None = None
    """The minimum number of characters, items or members."""

    max_length: int | None = None
    """The maximum number of characters, items or members."""

    pattern: str | None = None
    """A regular expression of Python that is searched in the text. As this may be slow,
    the text has at most 1,024 characters, unless `max_length` is given. A pattern with
    nested unlimited repeats, such as ``(a+)*``, is refused when the function is
    registered."""

    examples: Sequence[Any] | None = None
    """Examples of values."""

    header: str | None = None
    """The argument is repeated in the HTTP header field ``Mcp-Param-<header>`` (since
    2026-07-28), so that intermediaries can route by it."""

    choices: Mapping[str, str] | None = None
    """Titles of the values, for forms."""


def attributes_of(metadata: Iterable[Any]) -> dict[str, Any]:
    """Return the attributes in metadata, by the names of `Arg`; the last one wins."""
    attributes: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, str):
            attributes["description"] = item
        elif not isinstance(item, type):
            # pydantic's `Field` keeps its constraints in a list of `annotated_types`.
            inner = getattr(item, "metadata", None)
            if isinstance(inner, (list, tuple)):
                attributes |= attributes_of(inner)
            is_own = isinstance(item, Arg)
            for name in attrs.fields_dict(Arg) if is_own else (*BOUNDS, *_ANNOTATIONS):
                value = getattr(item, name, None)
                if value is not None and not callable(value):
                    attributes[name] = value
            documentation = getattr(item, "documentation", None)  # PEP 727
            if isinstance(documentation, str):
                attributes["description"] = documentation
    return attributes


# --- patterns

_TOKEN: Final = re.compile(
    r"(?P<repeat>(?:[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\})[+?]?)"
    r"|(?P<other>\(\?(?:#[^)]*|P=\w+|[aiLmsux]+)\)|[\^$|]|\\(?:[AbBZ]|[1-9]\d?))"
    r"|(?P<open>\((?:\?(?:P<\w+>|[aiLmsux-]*:|[=!>]|<[=!]|\(\w+\)))?)"
    r"|(?P<close>\))"
    r"|(?P<part>\\(?:x\w{2}|u\w{4}|U\w{8}|N\{[^}]*\}|[0-7]{1,3}|.)"
    r"|\[\^?\]?(?:[^\]\\]|\\.)*\]|.)",
    re.DOTALL,
)
"""The tokens of a regular expression; `part` matches one character of the text."""


_CHARACTERS: Final = range(0x10000)
"""The characters with which `_is_disjoint` compares two parts of a pattern."""


@attrs.define
class _Group:
    """A group of a pattern, as far as it has been parsed."""

    start: int = 0
    is_atomic: bool = False
    """Whether the matcher never backtracks into it."""
    repeated: str = ""
    """A part of it that is repeated without limit."""
    parts: list[str] = attrs.field(factory=list)
    repeated_parts: set[int] = attrs.field(factory=set)
    """The indexes of the repeated parts."""
    is_plain: bool = True
    """Whether it contains nothing but `parts` and repeats."""

    def is_open(self) -> bool:
        """Return whether a text may be split in many ways into repeats of the group.

        The split is unique if the first or last part matches no character of the other
        parts, such as the hyphen of ``(-[a-z]+)*``, and only one part is repeated.
        """
        if not self.repeated or self.is_atomic:
            return False
        if not self.is_plain or len(self.repeated_parts) != 1:
            return True
        ends = {0, len(self.parts) - 1} - self.repeated_parts
        return not any(
            _is_disjoint(self.parts[end], self.parts[:end] + self.parts[end + 1 :])
            for end in ends
        )


def check_pattern(pattern: str) -> None:
    """Raise `TypeError` if a regular expression has nested unlimited repeats.

    Matching such a pattern may take time that doubles with each character of the text.
    The pattern must be valid for `re`.
    """
    groups = [_Group()]
    before = ""
    closed: _Group | None = None  # a group that ends just before the token
    for token in _TOKEN.finditer(pattern):
        group, kind, text = groups[-1], token.lastgroup, token[0]
        if kind == "repeat":
            is_unlimited = text[0] in "*+" or ",}" in text
            if is_unlimited and not text[1:].endswith("+"):  # not possessive
                if closed is not None and closed.is_open():
                    raise TypeError(
                        f"the pattern {pattern!r} repeats {before!r} without limit and "
                        f"in it {closed.repeated!r}, which can take exponential time: "
                        "limit one of them, such as {0,20}"
                    )
                group.repeated = before + text
            group.repeated_parts.add(len(group.parts) - 1)
            continue
        before, closed = text, None
        if kind == "open":
            groups.append(_Group(token.start(), is_atomic=text == "(?>"))
        elif kind == "close":
            closed = groups.pop()
            before = pattern[closed.start : token.end()]
            groups[-1].is_plain = False
            if not closed.is_atomic:
                groups[-1].repeated = groups[-1].repeated or closed.repeated
        elif kind == "part":
            group.parts.append(text)
        else:
            group.is_plain = False


def _is_disjoint(part: str, others: list[str]) -> bool:
    """Return whether no character matches both one part and any of the others."""
    overlap = re.compile(f"(?={part})(?:{'|'.join(others)})", re.IGNORECASE | re.DOTALL)
    return overlap.search("".join(map(chr, _CHARACTERS))) is None


QUALIFIERS: Final = frozenset({Required, NotRequired})
"""The qualifiers of a TypedDict field, which may surround its hint."""


class Field(NamedTuple):
    """A field of a class: its wire name, its constructor parameter and its hint."""

    name: str
    parameter: str
    hint: Any
    is_needed: bool
    default_keyword: Mapping[str, Any] = MappingProxyType({})
    """Its default as a keyword of the schema, if the default is a plain value."""


def fields_of(kind: Any) -> list[Field] | None:
    """Return the fields of a class; ``None``: not a class with known fields."""
    if isinstance(kind, type) and issubclass(kind, WireType):
        spec = spec_of(kind)
        return [
            *(Field(n, n, Literal[v], True) for n, v in spec.constants.items()),
            *(
                Field(f.wire, f.attribute, f.hint, not f.accepts_missing)
                for f in spec.fields
            ),
        ]
    fields, cls = read_fields(kind), typing.get_origin(kind) or kind
    if issubclass(cls, tuple) and "_fields" in dir(cls):
        parameters = inspect.signature(_tuple_base(cls)).parameters.values()
        fields = [
            (p.name, p.name, attrs.NOTHING if p.default is p.empty else p.default)
            for p in parameters
        ]
    if fields is None:
        return None
    hints, found = type_hints(kind), []
    for name, parameter, default in fields:
        hint = hints.get(name, Any)
        if typing.get_origin(hint) in QUALIFIERS:
            hint = typing.get_args(hint)[0]
        info = getattr(cls, "__pydantic_fields__", {}).get(name)
        value = default
        # Its `Field(...)` in place of a default has constraints, and maybe a default.
        if info is not None and type(default) is type(info):
            hint = Annotated[hint, info]
            value = attrs.NOTHING if info.is_required() else info.default
        is_needed = value is attrs.NOTHING
        found.append(Field(name, parameter, hint, is_needed, _default_keyword(value)))
    return found


def _tuple_base(kind: Any) -> Any:
    """Return the `NamedTuple` itself; a subclass may have another constructor."""
    return next(each for each in kind.__mro__ if "_fields" in vars(each))


def _struct_fields(kind: Any) -> list[Field] | None:
    """Return the fields of a Struct that msgspec refuses, as one of our own types."""
    try:
        _check_supported(kind)
    except (NameError, TypeError):
        return [
            Field(f.encode_name, f.name, f.type, f.required)
            for f in msgspec.structs.fields(kind)
        ]
    return None


def _default_keyword(default: Any) -> Mapping[str, Any]:
    if isinstance(default, enum.Enum) and default is not attrs.NOTHING:
        default = default.value
    is_plain = isinstance(default, (str, int, float, bool, type(None)))
    return {"default": default} if is_plain and is_json(default) else {}


def _class_schema(
    kind: Any, fields: Sequence[Field], schemas: Sequence[dict[str, Any]], config: Any
) -> dict[str, Any]:
    """Return the schema of a class from those of its fields and a Struct's config."""
    is_array, is_closed = config.array_like, config.forbid_unknown_fields
    json_type = "array" if is_array else "object"
    schema: dict[str, Any] = {"title": kind.__name__, "type": json_type}
    text = vars(kind).get("__doc__")
    # Python generates a docstring for a dataclass without one: its signature.
    if text and not text.startswith(f"{kind.__name__}("):
        schema["description"] = inspect.cleandoc(text)
    tags = {} if config.tag is None else {config.tag_field: {"enum": [config.tag]}}
    properties = tags | {
        field.name: {**inner, **field.default_keyword}
        for field, inner in zip(fields, schemas, strict=True)
    }
    required = [*tags, *(field.name for field in fields if field.is_needed)]
    if is_array:
        schema |= {"prefixItems": [*properties.values()], "minItems": len(required)}
        return {**schema, "maxItems": len(properties)} if is_closed else schema
    schema["properties"] = properties
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False} if is_closed else schema


ORDER: Final = "x-mcpwire-order"
"""The keyword for the order of enum values (``None``: no enum), removed at the end."""

TITLES: Final = "x-mcpwire-titles"
"""The keyword for titles of enum values; only forms use it."""

_REFERENCE: Final = "#/$defs/"
_MAX_INLINED: Final = 330
"""Subschemas; a larger definition is not inlined but referenced."""


class Schemas:
    """Generates the schemas of one document."""

    def __init__(self, *, for_input: bool, has_titles: bool = False) -> None:
        self._definitions: dict[str, dict[str, Any]] = {}  # by name, unresolved
        self._names: dict[type[StandIn], str] = {}
        self._referenced: dict[str, dict[str, Any]] = {}
        # A discriminator of OpenAPI refers to definitions that are inlined here.
        self._removed = (ORDER, "discriminator", *(() if has_titles else (TITLES,)))
        self._for_input = for_input

    def of(self, hint: Any) -> dict[str, Any]:
        """Return the schema of a hint, which `translate` returned."""
        return self._resolve(*self.raw([hint]))

    def document(self, hint: Any) -> dict[str, Any]:
        """Return the schema of a hint as a document of its own."""
        schema = self.of(hint)
        if "$ref" in schema:  # inline the root, for readers that ignore `$ref`
            schema = {**self._referenced[_ref_name(schema.pop("$ref"))], **schema}
        return self.finish(schema)

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the document: a schema with the definitions that it references."""
        return {**schema, "$defs": self._referenced} if self._referenced else schema

    def raw(self, hints: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the schemas of hints, with unresolved references."""
        schemas, definitions = msgspec.json.schema_components(
            hints, schema_hook=self._describe, ref_template=_REFERENCE + "{name}"
        )
        return self._add_definitions(list(schemas), definitions)

    def pydantic_schema(self, hint: Any) -> dict[str, Any]:
        """Return the schema that pydantic generates for a hint."""
        schema = adapter_of(hint).json_schema(
            by_alias=True,
            mode="validation" if self._for_input else "serialization",
            ref_template=_REFERENCE + "{model}",
        )
        return self._add_definitions([schema], schema.pop("$defs", {}))[0]

    def _describe(self, kind: Any) -> dict[str, Any]:
        if issubclass(kind, StandIn):
            if kind not in self._names:
                # Named before it is described, because it may be recursive.
                name = self._names[kind] = self._free_name(kind.__name__)
                self._definitions[name] = {}
                self._definitions[name] = kind.describe(self)
            return {"$ref": _REFERENCE + self._names[kind]}
        if is_pydantic(kind):
            return self.pydantic_schema(kind)
        if issubclass(kind, PurePath):
            return {"type": "string", "format": "path"}
        raise TypeError(
            f"{kind!r} has no JSON form; a dataclass, a TypedDict or a pydantic model "
            "has one"
        )

    def _free_name(self, name: str, schema: dict[str, Any] | None = None) -> str:
        """Return a name that no other definition has."""
        candidate, number = name, 2
        while self._definitions.get(candidate, schema) != schema:
            candidate, number = f"{name}_{number}", number + 1
        return candidate

    def _add_definitions(
        self, schemas: list[dict[str, Any]], definitions: Definitions
    ) -> list[dict[str, Any]]:
        """Add definitions, and rename them if another one has the same name."""
        names = {name: self._free_name(name, d) for name, d in definitions.items()}
        references = {_REFERENCE + old: _REFERENCE + new for old, new in names.items()}

        def visit(node: dict[str, Any]) -> dict[str, Any]:
            name = references.get(node.get("$ref", ""))
            return node if name is None else {**node, "$ref": name}

        for name, schema in definitions.items():
            self._definitions[names[name]] = map_schemas(schema, visit)
        return [map_schemas(schema, visit) for schema in schemas]

    def _resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Replace references by definitions, except large and recursive ones."""
        definitions = self._definitions
        retained = _recursive_names(definitions)
        resolved: dict[str, dict[str, Any]] = {}

        def resolve_name(name: str) -> dict[str, Any]:
            if name not in resolved:
                resolved[name] = resolve(definitions[name])
                if sum(1 for _ in walk(resolved[name])) > _MAX_INLINED:
                    retained.add(name)
            return resolved[name]

        def resolve(raw: dict[str, Any]) -> dict[str, Any]:
            source = {k: v for k, v in raw.items() if k not in self._removed}
            result = replace_children(source, resolve)
            name = _ref_name(result.get("$ref"))
            if name in definitions and name not in retained:
                definition = resolve_name(name)
                if name not in retained:
                    del result["$ref"]
                    result = {**definition, **result}
            if ORDER in raw:
                result["enum"] = raw[ORDER]
            return _tidy(result, has_null=not self._for_input)

        result = resolve(schema)
        pending = [node.get("$ref") for node in walk(result)]
        while pending:
            name = _ref_name(pending.pop())
            if name in definitions and name not in self._referenced:
                self._referenced[name] = resolve_name(name)
                pending += [node.get("$ref") for node in walk(self._referenced[name])]
        return result


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in which null is not one of the alternatives."""
    if {"type": "null"} not in schema.get("anyOf", ()):
        return schema
    options = [option for option in schema["anyOf"] if option != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    if len(options) == 1:
        return {**options[0], **rest}
    return {**rest, "anyOf": options}


def _tidy(schema: dict[str, Any], *, has_null: bool) -> dict[str, Any]:
    """Remove an empty list `required`, an enum of ``None``, and repeated titles."""
    for name, empty in (("required", []), ("enum", None)):
        if schema.get(name, name) == empty:
            del schema[name]
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    for name, inner in properties.items():
        dropped = set()
        if inner.get("title") == name.replace("_", " ").title():
            dropped.add("title")
        is_optional = name not in schema.get("required", ())
        if not is_json(inner.get("default")):  # such as infinity
            dropped.add("default")
        elif not has_null and is_optional and inner.get("default", name) is None:
            dropped.add("default")
            inner = without_null(inner)  # noqa: PLW2901 - the same without a part
        properties[name] = {k: v for k, v in inner.items() if k not in dropped}
    return schema


def _recursive_names(definitions: Definitions) -> set[str]:
    """Return the names of the recursive definitions."""
    reached = {
        name: {_ref_name(node.get("$ref")) for node in walk(schema)}
        for name, schema in definitions.items()
    }
    for _ in range(len(reached).bit_length()):  # each doubles the length of the paths
        for names in reached.values():
            names.update(*(reached.get(name, ()) for name in tuple(names)))
    return {name for name, names in reached.items() if name in names}


def _ref_name(reference: object) -> str:
    return reference.removeprefix(_REFERENCE) if isinstance(reference, str) else ""


@attrs.frozen(eq=False)
class StandIns:
    """The stand-ins for the classes and aliases that were translated so far."""

    is_exact: bool
    """Whether objects with unknown members are refused."""

    by_type: dict[Any, Any] = attrs.field(factory=dict)


_UNIONS: Final = frozenset({Union, types.UnionType})


def bare_hint(hint: Any) -> Any:
    """Return a hint without metadata, aliases and qualifiers."""
    inner = _definition(hint)
    while inner is not hint:
        hint, inner = inner, _definition(inner)
    return hint


def _definition(hint: Any) -> Any:
    """Return what a NewType, an alias or an annotated hint stands for, or the hint."""
    origin = typing.get_origin(hint)
    if origin is Annotated or origin in QUALIFIERS:
        return typing.get_args(hint)[0]
    if type(origin or hint).__name__ == "TypeAliasType":  # of a ``type`` statement
        return replace_variables(hint.__value__, hint)
    return getattr(hint, "__supertype__", hint)


def members_of(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the hint itself."""
    hint = bare_hint(hint)
    if typing.get_origin(hint) in _UNIONS:
        return typing.get_args(hint)
    return (hint,)


def translate(hint: Any, *, is_exact: bool = False) -> Any:
    """Return a hint that msgspec supports; `is_exact` refuses unknown members."""
    return _translate(hint, StandIns(is_exact))


def _translate(hint: Any, stand_ins: StandIns) -> Any:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        result = _translate_annotated(hint, stand_ins)
    elif origin in _UNIONS:
        result = _translate_union(typing.get_args(hint), stand_ins)
    elif origin is Literal:
        values = typing.get_args(hint)
        choices = tuple(value for value in values if value is not None)
        kinds = [_keep_order(origin[choices], choices)] if choices else []
        has_null = choices != values
        result = functools.reduce(operator.or_, [*kinds, *[types.NoneType] * has_null])
    elif origin in _CONTAINERS:
        # msgspec knows no `Iterable`.
        container = list if origin is collections.abc.Iterable else origin
        result = container[
            tuple(
                inner if inner is Ellipsis else _translate(inner, stand_ins)
                for inner in typing.get_args(hint)
            )
        ]
    elif isinstance(origin or hint, type):
        result = _translate_class(hint, stand_ins)
    elif (inner := _definition(hint)) is not hint:
        if hint not in stand_ins.by_type:
            stand_ins.by_type[hint] = hint  # for references within an alias itself
            stand_ins.by_type[hint] = _translate(inner, stand_ins)
        result = stand_ins.by_type[hint]
    else:
        result = hint
    return result


_CONTAINERS: Final = frozenset(
    {
        *(list, dict, set, frozenset, tuple, collections.abc.Collection),
        *(collections.abc.Iterable, collections.abc.Sequence, collections.abc.Set),
        *(collections.abc.Mapping, collections.abc.MutableMapping),
        *(collections.abc.MutableSequence, collections.abc.MutableSet),
    }
)


def _keep_order(hint: Any, values: Sequence[Any]) -> Any:
    """Keep the author's order of enum values in the schema."""
    keywords: dict[str, Any] = {ORDER: list(values)}
    if values and all(isinstance(value, str) for value in values):
        keywords["type"] = "string"
    return Annotated[hint, msgspec.Meta(extra_json_schema=keywords)]


# --- metadata


def _translate_annotated(hint: Any, stand_ins: StandIns) -> Any:
    metadata = hint.__metadata__
    # Results are written without pydantic, so they are not read by it either.
    if stand_ins.is_exact and any(map(_needs_pydantic, metadata)):
        items = [_pydantic_field(item) for item in metadata]
        return _pydantic_stand_in(Annotated[(hint.__origin__, *items)])
    attributes = attributes_of(metadata)
    bounds = {name: value for name, value in attributes.items() if name in BOUNDS}
    result = _translate_bounded(hint.__origin__, bounds, stand_ins)
    keywords = _keywords(attributes)
    return Annotated[result, msgspec.Meta(**keywords)] if keywords else result


def _keywords(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that only the schema contains."""
    extra = dict(attributes.get("extra_json_schema", ()))
    if "header" in attributes:
        # 2026-07-28 streamable-http, "Custom Headers from Tool Parameters".
        extra["x-mcp-header"] = attributes["header"]
    if "choices" in attributes:
        extra[TITLES] = dict(attributes["choices"])
    keywords = {name: attributes[name] for name in _ANNOTATIONS if name in attributes}
    if "examples" in keywords:
        keywords["examples"] = [to_json_value(each) for each in keywords["examples"]]
    return {**keywords, "extra_json_schema": extra} if extra else keywords


def _pydantic_field(item: Any) -> Any:
    """Return an annotation as a `Field` of pydantic, if pydantic ignores it."""
    if not isinstance(item, (str, Arg, msgspec.Meta)):
        return item
    attributes = attributes_of([item])
    keywords = _keywords(attributes)
    keywords["json_schema_extra"] = keywords.pop("extra_json_schema", None)
    bounds = {name: attributes[name] for name in BOUNDS if name in attributes}
    pydantic: Any = sys.modules["pydantic"]
    return pydantic.Field(**keywords, **bounds)


_PYDANTIC_OPTIONS: Final = ("discriminator", "strip_whitespace", "to_lower", "to_upper")


def _needs_pydantic(item: Any) -> bool:
    """Return whether only pydantic can apply an annotation, such as a validator."""
    return is_pydantic(item) or any(
        getattr(item, name, None) for name in _PYDANTIC_OPTIONS
    )


def _pydantic_stand_in(hint: Any) -> Any:
    return new_stand_in(
        "Adapted",
        make=functools.partial(validate_pydantic, adapter_of(hint)),
        describe=lambda schemas: schemas.pydantic_schema(hint),
    )


def _translate_bounded(hint: Any, bounds: dict[str, Any], stand_ins: StandIns) -> Any:
    """Translate a hint with bounds; in a union, they are for the matching members."""
    plain = bare_hint(hint)
    if bounds and (inner := _definition(hint)) is not hint:  # has bounds of its own
        return _translate(Annotated[inner, Arg(**bounds)], stand_ins)
    applicable = _bounds_for(plain, bounds)
    if bounds.keys() == applicable.keys() and len(members := members_of(plain)) > 1:
        parts = [Annotated[m, Arg(**_bounds_for(m, bounds))] for m in members]
        return _translate_union(parts, stand_ins)
    return _add_bounds(_translate(hint, stand_ins), bounds)


def _add_bounds(hint: Any, bounds: dict[str, Any]) -> Any:
    """Add bounds to a translated hint."""
    if not bounds:
        return hint
    if "pattern" in bounds and bare_hint(hint) is str:
        bounds = {"max_length": PATTERN_LENGTH, **bounds}
    bounded = Annotated[hint, msgspec.Meta(**bounds)]
    _check_supported(bounded)
    if "pattern" in bounds:
        check_pattern(bounds["pattern"])
    if isinstance(bounds.get("multiple_of"), float):
        return _multiple_stand_in(hint, bounds, bounded)
    return bounded


def _multiple_stand_in(hint: Any, bounds: dict[str, Any], bounded: Any) -> Any:
    """Return a stand-in that divides decimal numbers: as floats 0.3 % 0.1 is not 0."""
    others = {name: bounds[name] for name in bounds if name != "multiple_of"}
    checked, divisor = _add_bounds(hint, others), bounds["multiple_of"]

    def make(value: Any, *, strict: bool) -> Any:
        number = convert(value, checked, strict=strict)
        is_finite = math.isfinite(number)
        if not is_finite or Fraction(str(number)) % Fraction(str(divisor)):
            raise Fault([((), f"Expected `float` that's a multiple of {divisor}")])
        return number

    return new_stand_in(
        "Multiple", make=make, describe=lambda schemas: schemas.raw([bounded])[0]
    )


def _bounds_for(hint: Any, bounds: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds that apply to a hint, or to a member of a union."""
    names: set[str] = set()
    for member in members_of(hint):
        plain = bare_hint(member)
        kind = typing.get_origin(plain) or plain
        if kind in _UNIONS:
            names |= _bounds_for(plain, bounds).keys()
        elif kind in {int, float}:
            names.update(_NUMBERS)
        elif kind is str:
            names.update(_LENGTHS, ["pattern"])
        elif kind is bytes or kind in _CONTAINERS:
            names.update(_LENGTHS)
    return {name: bounds[name] for name in bounds if name in names}


def _check_supported(hint: Any) -> None:
    """Raise msgspec's `TypeError` if it does not support a hint."""
    with contextlib.suppress(msgspec.ValidationError):  # an object fits no hint
        msgspec.convert(object(), hint)


# --- unions


def _translate_union(arguments: Iterable[Any], stand_ins: StandIns) -> Any:
    members = tuple(_translate(argument, stand_ins) for argument in arguments)
    union = functools.reduce(operator.or_, members)
    try:
        _check_supported(union)
    except TypeError:
        return _first_match(members)
    return union


def _first_match(members: tuple[Any, ...]) -> Any:
    """Return a stand-in that converts a value to the first member that it fits."""
    candidates = [each for each in members if each is not type(None)]
    names = " | ".join(dict.fromkeys(map(_hint_name, candidates)))
    # As with msgspec, an integer or a text that fits a member stays what it is.
    ordered = sorted(candidates, key=lambda each: _hint_name(each) == "Multiple")

    def make(value: Any, *, strict: bool) -> Any:
        inner_faults = []
        for member in ordered:
            try:
                return convert(value, member, strict=strict)
            except msgspec.ValidationError as error:
                locations = locations_of(error)
                if not _is_other_type(*locations[0]):
                    inner_faults.append(locations)
        if len(inner_faults) == 1:  # of the only member of the value's JSON type
            raise Fault(inner_faults[0])
        raise Fault([((), f"Expected `{names}`, got `{type(value).__name__}`")])

    stand_in = new_stand_in(
        "OneOf", make=make, describe=lambda schemas: {"anyOf": schemas.raw(candidates)}
    )
    return stand_in if len(candidates) == len(members) else stand_in | None


def _is_other_type(path: Sequence[Any], message: str) -> bool:
    """Return whether an error is about the JSON type of the whole value."""
    return not path and ("`, got `" in message or message.startswith("Input should be"))


def _hint_name(hint: Any) -> str:
    plain = bare_hint(hint)
    kind = typing.get_origin(plain) or plain
    return kind.__name__ if isinstance(kind, type) else str(kind)


# --- classes

# Of arguments; msgspec sets none, because it also accepts times without an offset.
_FORMATS: Final = {dt.datetime: "date-time", dt.time: "time"}


def _translate_class(kind: Any, stand_ins: StandIns) -> Any:
    cls = typing.get_origin(kind) or kind
    if kind is object:
        return Any
    if stand_ins.is_exact and kind in _FORMATS:
        keywords = {"format": _FORMATS[kind]}
        return Annotated[kind, msgspec.Meta(extra_json_schema=keywords)]
    if issubclass(cls, enum.Enum):
        values = [member.value for member in kind]
        if not issubclass(cls, enum.Flag):
            return _keep_order(kind, values)
        # Sums of flags are valid as well.
        flags = {ORDER: None, "type": "integer", "minimum": 0, "examples": values}
        return Annotated[kind, msgspec.Meta(extra_json_schema=flags)]
    fields = fields_of(kind)
    if issubclass(cls, msgspec.Struct):
        fields = _struct_fields(kind)
    # msgspec would treat a pydantic dataclass as one without validation; it also writes
    # it as any other dataclass.
    has_own_schema = is_pydantic(cls) and not hasattr(cls, "model_validate_json")
    if has_own_schema and (stand_ins.is_exact or fields is None):
        return _pydantic_stand_in(kind)
    if kind not in stand_ins.by_type:
        stand_ins.by_type[kind] = kind
        if fields is not None:
            if attrs.has(cls) and not stand_ins.is_exact:
                # msgspec does not write private attributes.
                fields = [f for f in fields if not f.name.startswith("_")]
            _register_class(kind, fields, stand_ins)
    return stand_ins.by_type[kind]


def _register_class(hint: Any, fields: list[Field], stand_ins: StandIns) -> None:
    """Register a stand-in for a class, which converts with a msgspec struct."""
    kind = typing.get_origin(hint) or hint
    # Registered before its fields are translated, because they may contain it.
    stand_in = stand_ins.by_type[hint] = new_stand_in(kind.__name__)
    hints = [_translate(field.hint, stand_ins) for field in fields]
    is_array = issubclass(kind, tuple)
    is_closed = is_array or (stand_ins.is_exact and not issubclass(kind, WireType))
    if (own := getattr(kind, "__struct_config__", None)) is not None:
        is_array, is_closed = own.array_like, own.forbid_unknown_fields
    struct_names = [f"field_{number}" for number in range(len(fields))]
    struct = msgspec.defstruct(
        kind.__name__,
        [
            (field_name, hint) if field.is_needed else (field_name, hint, msgspec.UNSET)
            for field_name, hint, field in zip(struct_names, hints, fields, strict=True)
        ],
        rename=dict(zip(struct_names, (field.name for field in fields), strict=True)),
        kw_only=True,
        tag=getattr(own, "tag", None),
        tag_field=getattr(own, "tag_field", None),
        array_like=is_array,
        forbid_unknown_fields=is_closed,
    )
    parameters = [field.parameter for field in fields]

    def make(value: Any, *, strict: bool) -> Any:
        try:
            converted = convert(value, struct, strict=strict)
        except msgspec.ValidationError as error:
            # msgspec would discard the inner path of its own error.
            raise Fault(locations_of(error)) from error
        if not stand_ins.is_exact:
            return None  # a result: its object exists already
        if issubclass(kind, WireType):
            return decode(kind, value)
        values = zip(parameters, msgspec.structs.astuple(converted), strict=True)
        given = {name: v for name, v in values if v is not msgspec.UNSET}
        try:
            if issubclass(kind, tuple):  # as msgspec, without its own `__new__`
                return tuple.__new__(kind, _tuple_base(kind)(**given))
            return kind(**given)
        except (TypeError, ValueError) as error:
            # Validators of attrs add the attribute and the value to the message.
            raise Fault([((), str((*error.args, "")[0]))]) from error

    stand_in.make = make
    stand_in.describe = lambda schemas: _class_schema(
        kind, fields, schemas.raw(hints), struct.__struct_config__
    )
