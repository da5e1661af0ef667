"""Simpler JSON Schemas for vendors that refuse parts of the standard; pure.

Schemas of servers may be deep, refer to themselves, or grow without bound when
references are replaced. All functions here are bounded in depth and in size.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.protocol.json_schema import (
    MAX_DEPTH,
    branches_of,
    mapped,
    pointed,
    properties_of,
    rebuilt,
    required_of,
    resolved,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.types import JsonObject

LARGEST: Final = 2_000
"""The largest number of subschemas after references; others become unrestricted."""

_COMBINED: Final = ("allOf", "anyOf", "oneOf")

_IN_TUPLE: Final = re.compile(r"/items/(?=\d+(?:/|$))")

_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class Inliner:
    """Replaces references by their targets, for vendors without `$ref`."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = LARGEST

    def inlined(self) -> JsonObject:
        """Return the schema without references; recursive ones become objects."""
        return self._inline(self._root, (), 0)

    def _inline(
        self, schema: JsonObject, within: tuple[str, ...], depth: int
    ) -> JsonObject:
        self._left -= 1
        reference = schema.get("$ref")
        if self._left < 0 or depth >= MAX_DEPTH or reference in within:
            return {"type": "object"}
        dropped = {"$ref", "$defs", "definitions"}
        beside = {key: value for key, value in schema.items() if key not in dropped}
        if isinstance(reference, str):
            target = pointed(self._root, reference)
            if not isinstance(target, dict):
                return beside
            return {**self._inline(target, (*within, reference), depth + 1), **beside}
        return rebuilt(beside, lambda inner: self._inline(inner, within, depth + 1))


def plain_root(schema: JsonObject) -> JsonObject:
    """Return an object's schema of 2020-12 without alternatives at its root.

    Anthropic and OpenAI refuse `allOf`, `anyOf` and `oneOf` there. The result allows
    the properties of all alternatives and requires those that each one requires.
    """
    schema = mapped(schema, _of_2020_12)
    if not any(key in schema for key in (*_COMBINED, "$ref")):
        return (
            schema if schema.get("type") == "object" else {**schema, "type": "object"}
        )
    properties, required = _Union(schema).of(schema, 0)
    dropped = {*_COMBINED, "$ref", "properties", "required", "additionalProperties"}
    rest = {key: value for key, value in schema.items() if key not in dropped}
    plain = {**rest, "type": "object", "properties": properties}
    return {**plain, "required": required} if required else plain


def _of_2020_12(schema: JsonObject) -> JsonObject:
    """Return a schema without what older drafts write otherwise, and without nulls.

    "JSON schema is invalid. It must match JSON Schema draft 2020-12" (Anthropic),
    "[...] is not of type 'object', 'boolean'" (OpenAI).
    """
    made = {
        key: value
        for key, value in schema.items()
        if value is not None or key in {"const", "default"}
    }
    if isinstance(made.get("$ref"), str):
        made["$ref"] = _IN_TUPLE.sub("/prefixItems/", made["$ref"])
    if isinstance(made.get("items"), list):  # a tuple, until 2019-09
        members = made.pop("items")
        made["items"] = made.pop("additionalItems", {})
        made |= {"prefixItems": members} if members else {}
    for exclusive, bound in _BOUNDS:  # a flag, in draft 4
        if isinstance(made.get(exclusive), bool) and made.pop(exclusive):
            made |= {exclusive: made.pop(bound)} if bound in made else {}
    if not isinstance(made.get("required", []), list):  # of the member, in draft 3
        del made["required"]
    return made


class _Union:
    """The properties of a schema and its branches, and those that all require."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = LARGEST

    def of(self, schema: JsonObject, depth: int) -> tuple[JsonObject, list[str]]:
        self._left -= 1
        if depth >= MAX_DEPTH or self._left < 0:
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
    """Return whether a schema accepts ``null``; true in doubt."""
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
    """Return arguments without nulls in place of omitted arguments.

    In OpenAI's strict mode a model must pass all arguments, and passes ``null`` for an
    omitted one. A ``null`` is dropped if the tool's own schema does not accept it and
    does not require the member.
    """
    schema = resolved(schema, root)
    if depth >= MAX_DEPTH:
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


_HASH: Final = 8
"""Characters of the hash that makes a name unique."""


@attrs.frozen
class NameRule:
    """The names that a vendor accepts."""

    charset: str = "A-Za-z0-9_-"
    """The inside of a regular expression's brackets."""

    first: str = "A-Za-z0-9_-"
    """The same for the first character."""

    longest: int = 64


class VendorNames:
    """A two-way map of original names and a vendor's names.

    An accepted name stays. Any other is rewritten and gets a hash of itself at its end,
    so that it does not depend on the other names.
    """

    def __init__(self, names: Iterable[str], rule: NameRule) -> None:
        found = list(dict.fromkeys(names))
        self._ours = {name: name for name in found if _spelled(name, rule) == name}
        for name in found:
            theirs, salt = _spelled(name, rule), 0
            while self._ours.get(theirs, name) != name:  # similar on purpose
                salt += 1
                theirs = _spelled(name, rule, salt)
            self._ours[theirs] = name
        self._theirs = {name: theirs for theirs, name in self._ours.items()}

    def of(self, name: str) -> str:
        """Return the vendor's name for an original name."""
        return self._theirs[name]

    def find(self, theirs: str) -> str | None:
        """Return the original name for a vendor's name, or ``None``."""
        return self._ours.get(theirs)


def renamed_members(
    schema: JsonObject, rule: NameRule
) -> tuple[JsonObject, VendorNames | None]:
    """Return an object's schema with renamed members, and the map of the names.

    The map is ``None`` if all names are accepted, which is nearly always so.
    """
    properties = properties_of(schema)
    names = VendorNames(properties, rule)
    if all(names.of(name) == name for name in properties):
        return schema, None
    renamed = {
        **schema,
        "properties": {names.of(name): one for name, one in properties.items()},
        "required": [
            names.of(name) for name in required_of(schema) if name in properties
        ],
    }
    return renamed, names


def _spelled(name: str, rule: NameRule, salt: int = 0) -> str:
    taken = re.sub(f"[^{rule.charset}]", "_", name)
    if not re.match(f"[{rule.first}]", taken):
        taken = f"_{taken}"
    if taken == name and len(name) <= rule.longest and not salt:
        return name
    source = f"{name}\n{salt}" if salt else name
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{taken[: rule.longest - _HASH - 1]}_{digest[:_HASH]}"
