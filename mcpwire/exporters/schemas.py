"""JSON Schemas made simpler, where a vendor refuses what the standard has; pure.

Schemas come from servers: they may be deep, refer to themselves, or grow without end
when references are put in place. Everything here is bounded in depth and in size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.types import JsonObject

__all__ = [
    "DEEPEST",
    "Inliner",
    "accepts_null",
    "branches_of",
    "plain_root",
    "properties_of",
    "required_of",
    "resolved",
    "walked",
    "without_nulls",
]

Schema: TypeAlias = "JsonObject | bool"

DEEPEST: Final = 64
"""Levels that are looked at; what lies deeper may be anything."""

LARGEST: Final = 2_000
"""Schemas that may come of following references; what is beyond may be anything."""

_MAPS: Final = (
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
)
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_COMBINED: Final = ("allOf", "anyOf", "oneOf")


def properties_of(schema: JsonObject) -> JsonObject:
    """Return the members that an object's schema names."""
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def required_of(schema: JsonObject) -> list[str]:
    """Return the members that an object's schema requires."""
    found = schema.get("required")
    names = found if isinstance(found, list) else []
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def branches_of(schema: JsonObject, key: str) -> list[Any]:
    """Return the schemas under a keyword that holds a list of them."""
    found = schema.get(key)
    return found if isinstance(found, list) else []


def walked(
    schema: Any, visit: Callable[[JsonObject], JsonObject], depth: int = 0
) -> Any:
    """Return a copy in which each schema was visited, the inner ones first."""
    if not isinstance(schema, dict):
        return schema
    if depth >= DEEPEST:
        return {}
    copy = dict(schema)
    for key in _SINGLE:
        if isinstance(copy.get(key), dict):
            copy[key] = walked(copy[key], visit, depth + 1)
    for key in _LISTS:
        if isinstance(copy.get(key), list):
            copy[key] = [walked(inner, visit, depth + 1) for inner in copy[key]]
    for key in _MAPS:
        if isinstance(copy.get(key), dict):
            copy[key] = {
                name: walked(inner, visit, depth + 1)
                for name, inner in copy[key].items()
            }
    return visit(copy)


def resolved(schema: Any, root: JsonObject) -> JsonObject:
    """Return what a schema is, following references within the same document."""
    seen: set[str] = set()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        reference = schema["$ref"]
        if reference in seen:
            return {}
        seen.add(reference)
        schema = _pointed(reference, root)
    return schema if isinstance(schema, dict) else {}


def _pointed(reference: str, root: JsonObject) -> Any:
    # RFC 6901, section 6: a JSON Pointer as the fragment of a URI. What stands in
    # another document is not fetched, and anchors are not looked for.
    if reference != "#" and not reference.startswith("#/"):
        return None
    found: Any = root
    for part in reference.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict):
            found = found.get(key)
        else:
            return None
    return found


class Inliner:
    """Replaces references by what they refer to, for readers that know no `$ref`."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = LARGEST

    def inlined(self) -> JsonObject:
        """Return the schema without references; what refers to itself is an object."""
        whole: JsonObject = self._inline(self._root, (), 0)
        return {
            key: value
            for key, value in whole.items()
            if key not in {"$defs", "definitions"}
        }

    def _inline(self, schema: Any, within: tuple[str, ...], depth: int) -> Any:
        self._left -= 1
        if isinstance(schema, list):
            return [self._inline(inner, within, depth + 1) for inner in schema]
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref")
        if self._left < 0 or depth >= DEEPEST or reference in within:
            return {"type": "object"}
        beside = {
            key: value
            for key, value in schema.items()
            if key not in {"$ref", "$defs", "definitions"}
        }
        if isinstance(reference, str):
            target = _pointed(reference, self._root)
            inner = self._inline(target, (*within, reference), depth + 1)
            return {**(inner if isinstance(inner, dict) else {}), **beside}
        return {
            key: self._inside(key, value, within, depth)
            for key, value in beside.items()
        }

    def _inside(self, key: str, value: Any, within: tuple[str, ...], depth: int) -> Any:
        if key in _SINGLE or key in _LISTS:
            return self._inline(value, within, depth + 1)
        if key in _MAPS and isinstance(value, dict):
            return {
                name: self._inline(inner, within, depth + 1)
                for name, inner in value.items()
            }
        return value


def plain_root(schema: JsonObject) -> JsonObject:
    """Return an object's schema without alternatives at its root.

    Anthropic and OpenAI refuse `allOf`, `anyOf` and `oneOf` there. All properties of
    all alternatives are allowed; required is what each alternative requires.
    """
    if not any(key in schema for key in (*_COMBINED, "$ref")):
        return (
            schema if schema.get("type") == "object" else {**schema, "type": "object"}
        )
    properties, required = _Union(schema).of(schema, 0)
    dropped = {*_COMBINED, "$ref", "properties", "required", "additionalProperties"}
    rest = {key: value for key, value in schema.items() if key not in dropped}
    plain = {**rest, "type": "object", "properties": properties}
    return {**plain, "required": required} if required else plain


class _Union:
    """What a schema and its branches name, and what all of them require."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = LARGEST

    def of(self, schema: JsonObject, depth: int) -> tuple[JsonObject, list[str]]:
        self._left -= 1
        if depth >= DEEPEST or self._left < 0:
            return {}, []
        properties = dict(properties_of(schema))
        required = required_of(schema)
        all_of = branches_of(schema, "allOf")
        for branch in [schema, *all_of] if "$ref" in schema else all_of:
            inner, names = self.of(resolved(branch, self._root), depth + 1)
            properties = {**inner, **properties}
            required += names
        for key in ("anyOf", "oneOf"):
            each = [
                self.of(resolved(branch, self._root), depth + 1)
                for branch in branches_of(schema, key)
            ]
            for inner, _ in each:
                properties = {**inner, **properties}
            for name in each[0][1] if each else ():
                if all(name in names for _, names in each):
                    required.append(name)
        return properties, list(dict.fromkeys(required))


def accepts_null(schema: Any, root: JsonObject) -> bool:
    """Tell whether ``null`` may be a value; where that is hard to tell, it may."""
    if not isinstance(schema, dict):
        return schema is not False
    schema = resolved(schema, root)
    if "enum" in schema:
        return None in branches_of(schema, "enum")
    if "const" in schema:
        return schema["const"] is None
    kind = schema.get("type")
    return "null" in kind if isinstance(kind, (str, list)) else True


def without_nulls(value: Any, schema: Any, root: JsonObject, depth: int = 0) -> Any:
    """Return arguments without the nulls that stand for "not given".

    In OpenAI's strict mode a model has to give every argument, and gives ``null`` for
    those it would leave out. Where the tool's own schema has no place for ``null`` and
    does not require the member, that is what was meant.
    """
    schema = resolved(schema, root)
    if depth >= DEEPEST:
        return value
    if isinstance(value, list):
        inner = schema.get("items")
        return [without_nulls(member, inner, root, depth + 1) for member in value]
    if not isinstance(value, dict):
        return value
    properties = properties_of(schema)
    required = required_of(schema)
    return {
        name: without_nulls(member, properties.get(name), root, depth + 1)
        for name, member in value.items()
        if not (
            member is None
            and name in properties
            and name not in required
            and not accepts_null(properties[name], root)
        )
    }
