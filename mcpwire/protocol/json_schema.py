"""A schema that a peer sent, read into a graph of its subschemas.

Nothing here validates. It finds out, before any validator sees the schema, whether it
is within bounds, in a dialect that is supported, and complete: every reference leads to
a place in the schema itself. Nothing is ever fetched.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote, urldefrag, urljoin

import attrs

from mcpwire.errors import LocalProtocolError, RemoteProtocolError
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["DIALECTS", "Place", "SchemaIndex", "Subschema", "read_schema", "unusable"]

DIALECTS: Final = {
    "json-schema.org/draft/2020-12/schema": "2020-12",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft-07/schema": "draft-07",
    "json-schema.org/draft-06/schema": "draft-06",
    "json-schema.org/draft-04/schema": "draft-04",
}
"""What `$schema` may say, without the scheme (`http` or `https`) and a final ``#``."""

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 100  # JSON levels; the validator itself reads some 250
MAX_SUBSCHEMAS: Final = 10_000
MAX_CHAIN: Final = 64
"""Subschemas for one and the same value, each within or behind the one before."""

MAX_URI: Final = 2_048

_QUOTED: Final = 100  # characters of the peer's that an error message repeats

Place: TypeAlias = "tuple[str, str | int | None]"
"""Members of a value: the kind, and which one; ``None``: those not named."""

PROPERTY: Final = "property"
ITEM: Final = "item"
NAME: Final = "name"  # the names of an object's members, as strings


def unusable(problem: str, hint: str | None = None) -> RemoteProtocolError:
    """Build the error for a schema that nothing can be validated against."""
    return RemoteProtocolError(f"the schema cannot be used: {problem}", hint=hint)


def quoted(value: object) -> str:
    """Return the beginning of something a peer wrote, as Python writes it."""
    shown = repr(value[: _QUOTED + 1] if isinstance(value, str) else value)
    return shown if len(shown) <= _QUOTED else f"{shown[:_QUOTED]}..."


@attrs.define(eq=False)
class Subschema:
    """One schema within a schema, and those that it applies."""

    raw: Any

    base: str
    """The URI that its references are relative to."""

    outer: Subschema | None = None
    """The one it stands in."""

    path: tuple[str | int, ...] = ()
    """Where in that."""

    in_place: list[Subschema] = attrs.field(factory=list)
    """Those it applies to the same value."""

    members: list[tuple[Place, Subschema]] = attrs.field(factory=list)
    """Those it applies to one member, or to those that it does not name."""

    all_members: list[tuple[str, Subschema]] = attrs.field(factory=list)
    """Those it applies to all members of a kind, named or not."""

    target: Subschema | None = None
    """What its `$ref` means."""

    @property
    def pointer(self) -> str:
        """Where it stands in the whole, as the fragment of a URI.

        Made on demand: the names on the way may be long, and many stand below them.
        """
        steps: list[str | int] = []
        inner = self
        while inner.outer is not None:
            steps[:0] = inner.path
            inner = inner.outer
        return "".join(f"/{quote(_escaped(step), safe='~')}" for step in steps)


def _escaped(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


class _To(Enum):
    """What a keyword applies its schemas to."""

    SAME_VALUE = 1
    NAMED_MEMBERS = 2
    OTHER_MEMBERS = 3
    ALL_MEMBERS = 4
    NOTHING = 5


_ONE: Final = (dict, bool)

# Keyword, what holds its schemas, what they apply to, which kind of members.
_APPLICATORS: Final[tuple[tuple[str, type | tuple[type, ...], _To, str], ...]] = (
    *((keyword, list, _To.SAME_VALUE, "") for keyword in ("allOf", "anyOf", "oneOf")),
    *((keyword, _ONE, _To.SAME_VALUE, "") for keyword in ("not", "if", "then", "else")),
    ("dependentSchemas", dict, _To.SAME_VALUE, ""),
    ("dependencies", dict, _To.SAME_VALUE, ""),
    ("properties", dict, _To.NAMED_MEMBERS, PROPERTY),
    ("patternProperties", dict, _To.ALL_MEMBERS, PROPERTY),
    ("additionalProperties", _ONE, _To.OTHER_MEMBERS, PROPERTY),
    ("unevaluatedProperties", _ONE, _To.OTHER_MEMBERS, PROPERTY),
    ("propertyNames", _ONE, _To.OTHER_MEMBERS, NAME),
    ("prefixItems", list, _To.NAMED_MEMBERS, ITEM),
    ("items", list, _To.NAMED_MEMBERS, ITEM),
    ("items", _ONE, _To.OTHER_MEMBERS, ITEM),
    ("additionalItems", _ONE, _To.OTHER_MEMBERS, ITEM),
    ("unevaluatedItems", _ONE, _To.OTHER_MEMBERS, ITEM),
    ("contains", _ONE, _To.ALL_MEMBERS, ITEM),
    ("$defs", dict, _To.NOTHING, ""),
    ("definitions", dict, _To.NOTHING, ""),
)


@attrs.frozen(eq=False)
class SchemaIndex:
    """A schema that is within bounds, supported and complete."""

    dialect: str
    root: Subschema

    found: list[Subschema]
    """All of them, each after those that it applies to the same value."""

    chain: int
    """How many of them apply to one value, each because of the one before."""


def read_schema(schema: object) -> SchemaIndex:
    """Find all subschemas.

    Raises:
        RemoteProtocolError: The schema cannot be used; says why.
    """
    if not isinstance(schema, dict):
        raise unusable(f"it is no object but {quoted(schema)}")
    _check_bounds(schema)
    dialect = _dialect_of(schema)
    linked = _Linked(schema, dialect)
    chains = _chains(linked.found)
    return SchemaIndex(dialect, linked.root, list(chains), max(chains.values()))


def _check_bounds(schema: dict[str, Any]) -> None:
    try:
        size = len(encode(schema))
    except LocalProtocolError as error:
        raise unusable(str(error).removeprefix("cannot send ")) from error
    if size > MAX_BYTES:
        raise unusable(f"it has {size} bytes, more than {MAX_BYTES}")
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _containers(outer)]
    if level:
        raise unusable(f"it is nested deeper than {MAX_DEPTH} levels")


def _containers(outer: Any) -> Iterator[Any]:
    members = outer.values() if isinstance(outer, dict) else outer
    return (inner for inner in members if isinstance(inner, (dict, list)))


def _dialect_of(schema: dict[str, Any]) -> str:
    # 2026-07-28 basic/index, "JSON Schema Usage": without `$schema` it is 2020-12.
    if "$schema" not in schema:
        return "2020-12"
    declared = schema["$schema"]
    if isinstance(declared, str) and len(declared) <= MAX_URI:
        scheme, _, name = declared.removesuffix("#").partition("://")
        if scheme in {"http", "https"} and name in DIALECTS:
            return DIALECTS[name]
    # "Implementation Requirements": an explicit error that says so.
    raise unusable(
        f"its dialect {quoted(declared)} is not supported",
        f"supported are {', '.join(DIALECTS.values())}",
    )


class _Linked:
    """All subschemas of a schema, linked with each other."""

    def __init__(self, schema: dict[str, Any], dialect: str) -> None:
        self._dialect = dialect
        self.found: list[Subschema] = []
        self._by_identity: dict[int, Subschema] = {}
        self._resources: dict[str, Subschema] = {}
        self._anchors: dict[tuple[str, str], Subschema] = {}
        self._dynamic: dict[str, list[Subschema]] = {}
        self._recursive: dict[Subschema, None] = {}
        self._dynamic_references: list[tuple[Subschema, Subschema]] = []
        self._new: list[Subschema] = []
        self.root = self._add(schema, "", None)
        self._resources.setdefault("", self.root)
        self._link()

    def _link(self) -> None:
        referring: list[Subschema] = []
        # A reference may lead to where no keyword looks for a schema, so what is
        # found there is searched in its turn.
        while self._new or referring:
            if self._new:
                subschema = self._new.pop()
                self._descend(subschema)
                referring.append(subschema)
            else:
                self._refer(referring.pop())
        self._refer_dynamically()

    def _add(
        self, raw: Any, base: str, outer: Subschema | None, *path: str | int
    ) -> Subschema:
        known = self._by_identity.get(id(raw)) if isinstance(raw, dict) else None
        if known is not None:
            return known
        if len(self.found) >= MAX_SUBSCHEMAS:
            raise unusable(f"it has more than {MAX_SUBSCHEMAS} subschemas")
        subschema = Subschema(raw, base, outer, path)
        self.found.append(subschema)
        if isinstance(raw, dict):
            self._by_identity[id(raw)] = subschema
            self._identify(subschema)
            self._new.append(subschema)
        return subschema

    def _identify(self, subschema: Subschema) -> None:
        raw = subschema.raw
        _dialect_of(raw)
        identifier = raw.get("id" if self._dialect == "draft-04" else "$id")
        if isinstance(identifier, str):
            if identifier.startswith("#"):  # up to draft-07, an anchor
                self._anchors[subschema.base, identifier[1:]] = subschema
            else:
                subschema.base, _ = _resolved(subschema.base, identifier)
                self._resources[subschema.base] = subschema
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = raw.get(keyword)
            if isinstance(anchor, str):
                self._anchors[subschema.base, anchor] = subschema
        if isinstance(anchor, str):
            self._dynamic.setdefault(anchor, []).append(subschema)
        if raw.get("$recursiveAnchor") is True:
            self._recursive[subschema] = None

    # --- what stands inside

    def _descend(self, outer: Subschema) -> None:
        for keyword, shape, to, kind in _APPLICATORS:
            for path, raw in _places(keyword, outer.raw.get(keyword), shape):
                inner = self._add(raw, outer.base, outer, *path)
                if to is _To.SAME_VALUE:
                    outer.in_place.append(inner)
                elif to is _To.ALL_MEMBERS:
                    outer.all_members.append((kind, inner))
                    if kind is PROPERTY:  # each name meets each pattern
                        met = self._add({"pattern": path[1]}, outer.base, outer)
                        outer.all_members.append((NAME, met))
                elif to is not _To.NOTHING:
                    place = path[1] if to is _To.NAMED_MEMBERS else None
                    outer.members.append(((kind, place), inner))

    # --- what is referred to

    def _refer(self, subschema: Subschema) -> None:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = subschema.raw.get(keyword)
            if not isinstance(reference, str):
                continue
            target = self._target(subschema.base, reference)
            if target is None:
                # "$ref Resolution": not fetched, and refused and not passed over.
                raise unusable(
                    f"its {keyword} {quoted(reference)} leads out of it",
                    "references are followed within the schema only",
                )
            if keyword == "$ref":
                subschema.target = target
                subschema.in_place.append(target)
            else:
                self._dynamic_references.append((subschema, target))

    def _target(self, base: str, reference: str) -> Subschema | None:
        uri, fragment = _resolved(base, reference)
        resource = self._resources.get(uri)
        if resource is None or not fragment:
            return resource
        fragment = unquote(fragment)
        if not fragment.startswith("/"):
            return self._anchors.get((uri, fragment))
        raw, path = resource.raw, fragment[1:].split("/")
        for step in path:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(raw, dict):
                raw = raw.get(name)
            elif isinstance(raw, list) and name.isdecimal() and len(name) < 6:
                raw = raw[int(name)] if int(name) < len(raw) else None
            else:
                return None
        if not isinstance(raw, (dict, bool)):
            return None
        steps = (step.replace("~1", "/").replace("~0", "~") for step in path)
        return self._add(raw, uri, resource, *steps)

    def _refer_dynamically(self) -> None:
        """Link to all that a reference may mean, depending on how one came there."""
        groups: dict[str, Subschema] = {}
        for subschema, target in self._dynamic_references:
            raw = target.raw if isinstance(target.raw, dict) else {}
            name = raw.get("$dynamicAnchor")
            meant = target
            if isinstance(name, str):
                meant = self._group(groups, f"#{name}", self._dynamic[name])
            elif target in self._recursive:
                meant = self._group(groups, "", self._recursive)
            subschema.in_place.append(meant)

    def _group(
        self, groups: dict[str, Subschema], name: str, members: Iterable[Subschema]
    ) -> Subschema:
        """Return one that stands for all of them: many may refer to many."""
        if name not in groups:
            groups[name] = self._add({}, "", None)
            groups[name].in_place += members
        return groups[name]


def _places(
    keyword: str, held: Any, shape: object
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield path and text of each schema that a keyword holds in this shape."""
    pairs: Iterable[tuple[tuple[Any, ...], Any]] = ()
    if shape is _ONE:
        pairs = (((keyword,), held),)
    elif shape is dict and isinstance(held, dict):
        pairs = (((keyword, place), raw) for place, raw in held.items())
    elif shape is list and isinstance(held, list):
        pairs = (((keyword, place), raw) for place, raw in enumerate(held))
    return ((path, raw) for path, raw in pairs if isinstance(raw, _ONE))


def _resolved(base: str, reference: str) -> tuple[str, str]:
    """Return the URI that a reference means, and its fragment."""
    if len(reference) > MAX_URI:
        raise unusable(f"a URI in it is longer than {MAX_URI} characters")
    # `urljoin` knows no URN, whose references to itself have a fragment only.
    if reference.startswith("#"):
        return base, reference[1:]
    try:
        uri, fragment = urldefrag(urljoin(base, reference))
    except ValueError as error:
        raise unusable(f"{quoted(reference)} is no URI") from error
    return uri, fragment


def _chains(found: list[Subschema]) -> dict[Subschema, int]:
    """Return how many subschemas each one brings to the same value behind one another.

    The innermost come first.
    """
    chains: dict[Subschema, int] = {}
    for start in found:
        entered = {start: iter(start.in_place)} if start not in chains else {}
        while entered:
            subschema, inners = next(reversed(entered.items()))
            inner = next((inner for inner in inners if inner not in chains), None)
            if inner is None:
                behind = (chains[inner] for inner in subschema.in_place)
                chains[subschema] = 1 + max(behind, default=0)
                del entered[subschema]
            elif inner in entered:
                raise unusable(
                    "it refers to itself without going into the value",
                    f"look at #{inner.pointer[:_QUOTED]}",
                )
            else:
                entered[inner] = iter(inner.in_place)
    if max(chains.values()) > MAX_CHAIN:
        raise unusable(
            f"more than {MAX_CHAIN} of its subschemas lie behind one another for one "
            "value"
        )
    return chains
