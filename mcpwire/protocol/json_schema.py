"""JSON Schemas: traversal, references and limits. No schema is ever fetched.

Schemas come from peers, so any part of them may be malformed. `children`,
`map_schemas`, `resolve_pointer` and `resolve_references` are for code that inspects or
transforms schemas: exporters, the command line, authoring. `read_schema` is for
validation: it links all subschemas, and refuses a large schema, an unknown dialect and
external references.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import LocalProtocolError, RemoteProtocolError
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

DIALECTS: Final = {
    "json-schema.org/draft/2020-12/schema": "2020-12",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft-07/schema": "draft-07",
    "json-schema.org/draft-06/schema": "draft-06",
    "json-schema.org/draft-04/schema": "draft-04",
}
"""The values of `$schema` without the scheme (`http` or `https`) and a final ``#``."""

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 100  # JSON levels; the validator supports about 250
MAX_SUBSCHEMAS: Final = 10_000
MAX_CHAIN: Final = 64
"""Subschemas for the same value, each applied by the previous one."""

MAX_URI: Final = 2_048

_MAX_QUOTED: Final = 100  # characters of a peer's text in an error message


_SAME_VALUE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
    | {"dependentSchemas", "dependencies"}
)
_MEMBERS: Final = frozenset(
    {"properties", "patternProperties", "additionalProperties", "propertyNames"}
    | {"prefixItems", "items", "additionalItems", "contains"}
    | {"unevaluatedProperties", "unevaluatedItems"}
)
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_KEYWORDS: Final = _SAME_VALUE | _MEMBERS | _DEFINITIONS
"""The keywords with schemas: a single one, a list, or a map by name (`_MAPS`)."""

_MAPS: Final = _DEFINITIONS | frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies"}
)


def schema_error(problem: str, hint: str | None = None) -> RemoteProtocolError:
    """Return the error for a schema that cannot be used for validation."""
    return RemoteProtocolError(f"the schema cannot be used: {problem}", hint=hint)


def quote(value: object) -> str:
    """Return the beginning of the `repr` of a peer's value."""
    shown = repr(value[: _MAX_QUOTED + 1] if isinstance(value, str) else value)
    return shown if len(shown) <= _MAX_QUOTED else f"{shown[:_MAX_QUOTED]}..."


# --- inspection and transformation


def children(
    schema: Mapping[str, Any],
) -> Iterator[tuple[str, str | int | None, dict[str, Any] | bool]]:
    """Yield the direct subschemas of a schema: keyword, name or index, subschema."""
    for keyword, value in schema.items():
        places: Iterable[tuple[Any, Any]] = ()
        if keyword in _MAPS:
            places = value.items() if isinstance(value, dict) else ()
        elif keyword in _KEYWORDS:
            places = enumerate(value) if isinstance(value, list) else ((None, value),)
        for key, inner in places:
            if isinstance(inner, (dict, bool)):
                yield keyword, key, inner


def walk(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all its subschemas."""
    pending = [schema]
    while pending:
        current = pending.pop()
        yield current
        subschemas = (inner for _, _, inner in children(current))
        pending += [inner for inner in subschemas if isinstance(inner, dict)]


def replace_children(
    schema: Mapping[str, Any], change: Callable[[dict[str, Any]], Any]
) -> dict[str, Any]:
    """Return a copy with the direct subschemas replaced by the results of `change`."""

    def replace(inner: Any) -> Any:
        return change(inner) if isinstance(inner, dict) else inner

    copy = dict(schema)
    for keyword, value in schema.items():
        if keyword not in _KEYWORDS:
            continue
        if isinstance(value, list):
            copy[keyword] = [replace(inner) for inner in value]
        elif keyword not in _MAPS:
            copy[keyword] = replace(value)
        elif isinstance(value, dict):
            copy[keyword] = {name: replace(inner) for name, inner in value.items()}
    return copy


def map_schemas(
    schema: dict[str, Any],
    visit: Callable[[dict[str, Any]], dict[str, Any]],
    depth: int = 0,
) -> dict[str, Any]:
    """Return a copy with all schemas replaced by the results of `visit`, bottom-up.

    Schemas deeper than `MAX_DEPTH` become ``{}``, which allows any value.
    """
    if depth >= MAX_DEPTH:
        return {}
    return visit(
        replace_children(schema, lambda inner: map_schemas(inner, visit, depth + 1))
    )


def properties_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `properties` of an object's schema; ``{}`` if absent or malformed."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def required_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the required members of an object's schema."""
    names = branches_of(schema, "required")
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def branches_of(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the list of a keyword; empty if absent or malformed."""
    branches = schema.get(keyword)
    return branches if isinstance(branches, list) else []


def alternatives_of(schema: Mapping[str, Any]) -> list[Any]:
    """Return the alternatives of `anyOf` or `oneOf`; empty if there are none."""
    return branches_of(schema, "anyOf") or branches_of(schema, "oneOf")


def session_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as revisions up to 2025-11-25 have it.

    Their schema, Tool: the root of an output schema is an object.
    """
    output = tool.get("outputSchema", {"type": "object"})
    if isinstance(output, dict) and output.get("type") == "object":
        return tool
    return {name: value for name, value in tool.items() if name != "outputSchema"}


def resolve_pointer(root: Any, reference: str) -> Any:
    """Return the target of a reference such as ``#/$defs/a``; ``None`` if not found.

    RFC 6901, section 6: a JSON Pointer as the fragment of a URI.
    """
    if reference != "#" and not reference.startswith("#/"):
        return None
    return _follow_pointer(root, _split_pointer(_unquote(reference)))


def _unquote(text: str) -> str:
    from urllib.parse import unquote  # only imported if a schema is checked

    return unquote(text)


def _split_pointer(pointer: str) -> list[str]:
    return [
        step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]
    ]


def _follow_pointer(raw: Any, steps: Iterable[str]) -> Any:
    for step in steps:
        if isinstance(raw, dict):
            raw = raw.get(step)
        elif isinstance(raw, list) and step.isdecimal() and len(step) < 6:
            raw = raw[int(step)] if int(step) < len(raw) else None
        else:
            return None
    return raw


def resolve_references(schema: Any, root: Any) -> dict[str, Any]:
    """Follow references within `root`; return the schema, or ``{}`` if not found."""
    seen: set[str] = set()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        reference = schema["$ref"]
        if reference in seen:
            return {}
        seen.add(reference)
        schema = resolve_pointer(root, reference)
    return schema if isinstance(schema, dict) else {}


MAX_INLINED: Final = 2_000
"""The largest number of subschemas after inlining; others become unrestricted."""


def inline_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with all references replaced; recursive ones become objects."""
    remaining = MAX_INLINED

    def inline(
        inner: dict[str, Any], within: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        nonlocal remaining
        remaining -= 1
        reference = inner.get("$ref")
        if remaining < 0 or depth >= MAX_DEPTH or reference in within:
            return {"type": "object"}
        dropped = _DEFINITIONS | {"$ref"}
        siblings = replace_children(
            {key: value for key, value in inner.items() if key not in dropped},
            lambda each: inline(each, within, depth + 1),
        )
        target = None
        if isinstance(reference, str):
            target = resolve_pointer(schema, reference)
            within = (*within, reference)
        if not isinstance(target, dict):
            return siblings
        return {**inline(target, within, depth + 1), **siblings}

    return inline(schema, (), 0)


def has_lost_targets(schema: dict[str, Any]) -> bool:
    """Return whether a reference in the schema has no target there."""
    references = [each["$ref"] for each in walk(schema) if "$ref" in each]
    return any(
        resolve_pointer(schema, reference) is None
        for reference in references
        if isinstance(reference, str)
    )


# --- linking of subschemas


@attrs.define(eq=False)
class Subschema:
    """A subschema, and the subschemas that it applies."""

    raw: Any

    base: str
    """The base URI of its references."""

    in_place: list[Subschema] = attrs.field(factory=list)
    """The subschemas that it applies to the same value."""

    member_schemas: list[Subschema] = attrs.field(factory=list)
    """The subschemas that it applies to one member each."""

    all_members_schemas: list[Subschema] = attrs.field(factory=list)
    """The subschemas that it applies to any member."""


@attrs.frozen(eq=False)
class SchemaIndex:
    """A schema within the limits, in a known dialect, without external references."""

    root: Subschema

    subschemas: list[Subschema]
    """All subschemas, each one after its `in_place` subschemas."""

    longest_chain: int
    """The length of the longest chain of `in_place` subschemas."""


def read_schema(schema: object) -> SchemaIndex:
    """Link all subschemas of a schema, or raise `RemoteProtocolError`."""
    if not isinstance(schema, dict):
        raise schema_error(f"it is not an object but {quote(schema)}")
    _check_bounds(schema)
    linker = _SchemaLinker(schema)
    subschemas = _sort_inner_first(linker.subschemas)
    return SchemaIndex(linker.root, subschemas, _longest_chain(subschemas))


def _check_bounds(schema: dict[str, Any]) -> None:
    try:
        size = len(encode(schema))
    except LocalProtocolError as error:
        raise schema_error(str(error).removeprefix("cannot send ")) from error
    if size > MAX_BYTES:
        raise schema_error(f"it has {size} bytes, more than {MAX_BYTES}")
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _containers(outer)]
    if level:
        raise schema_error(f"it is nested deeper than {MAX_DEPTH} levels")


def _containers(outer: Any) -> Iterator[Any]:
    members = outer.values() if isinstance(outer, dict) else outer
    return (inner for inner in members if isinstance(inner, (dict, list)))


def _dialect_of(schema: dict[str, Any]) -> str:
    # 2026-07-28 basic/index, "JSON Schema Usage": the default is 2020-12.
    if "$schema" not in schema:
        return "2020-12"
    declared = schema["$schema"]
    if isinstance(declared, str) and len(declared) <= MAX_URI:
        scheme, _, name = declared.removesuffix("#").partition("://")
        if scheme in {"http", "https"} and name in DIALECTS:
            return DIALECTS[name]
    # "Implementation Requirements": unsupported dialects need an explicit error.
    raise schema_error(
        f"its dialect {quote(declared)} is not supported",
        f"supported are {', '.join(DIALECTS.values())}",
    )


class _SchemaLinker:
    """The linked subschemas of a schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._id = "id" if _dialect_of(schema) == "draft-04" else "$id"
        self.subschemas: list[Subschema] = []
        self._by_identity: dict[int, Subschema] = {}
        self._resources: dict[str, Subschema] = {}
        self._anchors: dict[tuple[str, str], Subschema] = {}
        self._dynamic: dict[str, Subschema] = {}
        self._new: list[Subschema] = []
        self.root = self._add(schema, "")
        self._resources.setdefault("", self.root)
        self._add_children()
        # A reference may lead to a schema that is not under a schema keyword, so the
        # list grows during the iteration.
        for subschema in self.subschemas:
            self._add_references(subschema)
            self._add_children()

    def _add(self, raw: Any, base: str) -> Subschema:
        existing = self._by_identity.get(id(raw)) if isinstance(raw, dict) else None
        if existing is not None:
            return existing
        if len(self.subschemas) >= MAX_SUBSCHEMAS:
            raise schema_error(f"it has more than {MAX_SUBSCHEMAS} subschemas")
        subschema = Subschema(raw, base)
        self.subschemas.append(subschema)
        if isinstance(raw, dict):
            self._by_identity[id(raw)] = subschema
            self._identify(subschema)
            self._new.append(subschema)
        return subschema

    def _identify(self, subschema: Subschema) -> None:
        raw = subschema.raw
        _dialect_of(raw)
        identifier = raw.get(self._id)
        if isinstance(identifier, str):
            if identifier.startswith("#"):  # an anchor until draft-07
                self._anchors[subschema.base, identifier[1:]] = subschema
            else:
                subschema.base, _ = _resolve_uri(subschema.base, identifier)
                self._resources[subschema.base] = subschema
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = raw.get(keyword)
            if isinstance(anchor, str):
                self._anchors[subschema.base, anchor] = subschema
        name = _dynamic_name(raw)
        if name is not None:
            self._dynamic_group(name).in_place.append(subschema)

    def _dynamic_group(self, name: str) -> Subschema:
        """Return a subschema that applies all subschemas with a dynamic anchor."""
        if name not in self._dynamic:
            self._dynamic[name] = self._add({}, "")
        return self._dynamic[name]

    def _add_children(self) -> None:
        while self._new:
            outer = self._new.pop()
            for keyword, place, raw in children(outer.raw):
                inner = self._add(raw, outer.base)
                if keyword in _SAME_VALUE:
                    outer.in_place.append(inner)
                elif keyword in _DEFINITIONS:
                    continue
                elif place is None or keyword == "patternProperties":
                    outer.all_members_schemas.append(inner)
                else:
                    outer.member_schemas.append(inner)

    def _add_references(self, subschema: Subschema) -> None:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            raw = subschema.raw
            reference = raw.get(keyword) if isinstance(raw, dict) else None
            if not isinstance(reference, str):
                continue
            target = self._find_target(subschema.base, reference)
            if target is None:
                # "$ref Resolution": neither fetched nor ignored.
                raise schema_error(
                    f"its {keyword} {quote(reference)} refers to nothing within it",
                    "references are followed within the schema only",
                )
            # The target of a dynamic reference depends on the path: any of that name.
            name = None if keyword == "$ref" else _dynamic_name(target.raw)
            subschema.in_place.append(
                target if name is None else self._dynamic_group(name)
            )

    def _find_target(self, base: str, reference: str) -> Subschema | None:
        uri, fragment = _resolve_uri(base, reference)
        resource = self._resources.get(uri)
        if resource is None or not fragment:
            return resource
        fragment = _unquote(fragment)
        if not fragment.startswith("/"):
            return self._anchors.get((uri, fragment))
        raw = _follow_pointer(resource.raw, _split_pointer(fragment))
        return self._add(raw, uri) if isinstance(raw, (dict, bool)) else None


def _dynamic_name(raw: Any) -> str | None:
    name = raw.get("$dynamicAnchor") if isinstance(raw, dict) else None
    if isinstance(name, str):
        return name
    return "" if isinstance(raw, dict) and raw.get("$recursiveAnchor") is True else None


def _resolve_uri(base: str, reference: str) -> tuple[str, str]:
    """Return the URI of a reference, and its fragment."""
    from urllib.parse import urldefrag, urljoin

    if len(reference) > MAX_URI:
        raise schema_error(f"a URI in it is longer than {MAX_URI} characters")
    # `urljoin` does not support URNs, but a fragment needs no joining.
    if reference.startswith("#"):
        return base, reference[1:]
    try:
        uri, fragment = urldefrag(urljoin(base, reference))
    except ValueError as error:
        raise schema_error(f"{quote(reference)} is not a URI") from error
    return uri, fragment


def _sort_inner_first(subschemas: list[Subschema]) -> list[Subschema]:
    """Sort subschemas topologically, each one after its `in_place` subschemas."""
    graph = {subschema: subschema.in_place for subschema in subschemas}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        inner = error.args[1][0]
        raise schema_error(
            "it refers to itself for the same value", f"look at {quote(inner.raw)}"
        ) from error


def _longest_chain(subschemas: list[Subschema]) -> int:
    """Return the length of the longest chain of `in_place` subschemas."""
    chains: dict[Subschema, int] = {}
    for subschema in subschemas:
        inner_chains = (chains[inner] for inner in subschema.in_place)
        chains[subschema] = 1 + max(inner_chains, default=0)
    longest = max(chains.values())
    if longest > MAX_CHAIN:
        raise schema_error(
            f"more than {MAX_CHAIN} of its subschemas apply to one value in a chain"
        )
    return longest
