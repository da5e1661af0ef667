"""Reads JSON Schemas as far as a command line needs: types, enums, references.

Schemas come from servers, so nothing in them is taken for granted: no reference is
followed but to a place in the same schema, and reading one takes a bounded number of
steps, however its parts refer to each other.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mcpwire.protocol.json_schema import (
    branches_of,
    pointed,
    properties_of,
    required_of,
)

__all__ = ["KINDS", "Json", "Schema", "SchemaReader", "literal", "members"]

Json = Any
Schema = dict[str, Any]

KINDS: Final = ("null", "boolean", "integer", "number", "array", "object", "string")
"""The types of JSON Schema, in the order in which a typed text is tried as each."""

MAX_STEPS: Final = 5_000
"""Parts of one schema that are looked at; beyond them everything is "any"."""

MAX_HOPS: Final = 16
"""References to references that are followed; real schemas have one or two."""

MAX_DEPTH: Final = 4
"""Unions within unions that are looked into."""

OPENING: Final = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "$dynamicRef")
"""Keywords by which an object may have members beside its `properties`."""


class SchemaReader:
    """Answers questions about one schema and its parts."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self._steps = 0

    def resolve(self, schema: Json) -> Schema:
        """Return the schema behind references; ``{}`` for what is none.

        An `allOf` of one is the same as that one, so it is unwrapped too.
        """
        for _ in range(MAX_HOPS):
            self._steps += 1
            if self._steps > MAX_STEPS or not isinstance(schema, dict):
                return {}
            wrapped = branches_of(schema, "allOf")
            if isinstance(schema.get("$ref"), str):
                target, keyword = pointed(self.root, schema["$ref"]), "$ref"
            elif len(wrapped) == 1:
                target, keyword = wrapped[0], "allOf"
            else:
                return schema
            beside = {key: value for key, value in schema.items() if key != keyword}
            schema = {**target, **beside} if isinstance(target, dict) else beside
        return {}

    def kinds(self, schema: Json, depth: int = MAX_DEPTH) -> list[str]:
        """Return the JSON types a schema allows, in the order of `KINDS`.

        Empty where it does not say.
        """
        schema = self.resolve(schema)
        said = schema.get("type")
        if isinstance(said, str):
            said = [said]
        if isinstance(said, list):
            return [kind for kind in KINDS if kind in said]
        found: list[str] = []
        for member in members(schema) if depth else ():
            inner = self.kinds(member, depth - 1)
            if not inner:
                return []  # this alternative allows anything
            found += inner
        return [kind for kind in KINDS if kind in found]

    def choices(self, schema: Json, depth: int = MAX_DEPTH) -> list[Json] | None:
        """Return the only values a schema allows; None where it does not list them."""
        schema = self.resolve(schema)
        if "const" in schema:
            return [schema["const"]]
        if listed := branches_of(schema, "enum"):
            return listed
        if schema.get("type") == "null":
            return [None]
        found: list[Json] = []
        for member in members(schema) if depth else ():
            inner = self.choices(member, depth - 1)
            if inner is None:
                return None
            found += inner
        return found or None

    def properties(self) -> dict[str, Json]:
        """Return the properties of the object, also those that its parts name."""
        found: dict[str, Json] = {}
        pending: list[tuple[Json, int]] = [(self.root, 0)]
        for schema, depth in pending:
            part = self.resolve(schema)
            found = {**properties_of(part), **found}
            inner = members(part) + branches_of(part, "allOf")
            if depth < MAX_DEPTH and len(pending) < MAX_STEPS:
                pending += [(schema, depth + 1) for schema in inner]
        return found

    def required(self) -> list[str]:
        """Return the names that the object must have."""
        return required_of(self.resolve(self.root))

    def is_open(self) -> bool:
        """Tell whether the object may have members that nothing names.

        JSON Schema says yes unless told otherwise; authors that name some mean only
        those.
        """
        part = self.resolve(self.root)
        if "properties" not in part or self.extends():
            return True
        return any(keyword in part for keyword in OPENING)

    def extends(self) -> bool:
        """Tell whether the object says that it takes any further members."""
        more = self.resolve(self.root).get("additionalProperties", False)
        return more is not False


def members(schema: Schema) -> list[Json]:
    """Return the alternatives of a union, or nothing where it is none."""
    return branches_of(schema, "anyOf") or branches_of(schema, "oneOf")


def literal(value: Json) -> str:
    """Return a JSON value as one would type it."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "..."
