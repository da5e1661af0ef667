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
    MAX_INLINED,
    alternatives_of,
    branches_of,
    has_lost_targets,
    inline_references,
    map_schemas,
    properties_of,
    required_of,
    resolve_references,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.types import JsonObject

MAX_ALTERNATIVES: Final = 100
"""Above this number, alternatives of alternatives are not examined."""

_COMBINATORS: Final = ("allOf", "anyOf", "oneOf")

_EXAMINED: Final = ("type", "enum", "const", "properties", "required", "items")

_TUPLE_ITEMS: Final = re.compile(r"/items/(?=\d+(?:/|$))")

_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def merge_root_alternatives(schema: JsonObject) -> JsonObject:
    """Return an object's schema of 2020-12 without alternatives at its root.

    Anthropic and OpenAI refuse `allOf`, `anyOf` and `oneOf` there. The result allows
    the properties of all alternatives and requires those that each one requires.
    """
    schema = map_schemas(schema, _upgrade_draft)
    if not any(key in schema for key in (*_COMBINATORS, "$ref")):
        return (
            schema if schema.get("type") == "object" else {**schema, "type": "object"}
        )
    properties, required = _Union(schema).of(schema, 0)
    dropped = {*_COMBINATORS, "$ref", "properties", "required", "additionalProperties"}
    rest = {key: value for key, value in schema.items() if key not in dropped}
    merged = {**rest, "type": "object", "properties": properties}
    merged |= {"required": required} if required else {}
    if has_lost_targets(merged):  # they were in an alternative
        return merge_root_alternatives(inline_references(schema))
    return merged


def _upgrade_draft(schema: JsonObject) -> JsonObject:
    """Return a schema without what older drafts write otherwise, and without nulls.

    "JSON schema is invalid. It must match JSON Schema draft 2020-12" (Anthropic),
    "[...] is not of type 'object', 'boolean'" (OpenAI).
    """
    upgraded = {
        key: value
        for key, value in schema.items()
        if value is not None or key in {"const", "default"}
    }
    if isinstance(upgraded.get("$ref"), str):
        upgraded["$ref"] = _TUPLE_ITEMS.sub("/prefixItems/", upgraded["$ref"])
    if isinstance(upgraded.get("items"), list):  # a tuple, until 2019-09
        members = upgraded.pop("items")
        upgraded["items"] = upgraded.pop("additionalItems", {})
        upgraded |= {"prefixItems": members} if members else {}
    for exclusive, bound in _BOUNDS:  # a flag, in draft 4
        if isinstance(upgraded.get(exclusive), bool) and upgraded.pop(exclusive):
            upgraded |= {exclusive: upgraded.pop(bound)} if bound in upgraded else {}
    if not isinstance(upgraded.get("required", []), list):  # of the member, in draft 3
        del upgraded["required"]
    return upgraded


class _Union:
    """The properties of a schema and its branches, and those that all require."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._remaining = MAX_INLINED

    def of(self, schema: JsonObject, depth: int) -> tuple[JsonObject, list[str]]:
        self._remaining -= 1
        if depth >= MAX_DEPTH or self._remaining < 0:
            return {}, []
        properties = dict(properties_of(schema))
        required = required_of(schema)
        all_of = branches_of(schema, "allOf")
        for branch in [schema, *all_of] if "$ref" in schema else all_of:
            inner, names = self.of(resolve_references(branch, self._root), depth + 1)
            properties = {**inner, **properties}
            required += names
        for key in ("anyOf", "oneOf"):
            alternatives = [
                self.of(resolve_references(branch, self._root), depth + 1)
                for branch in branches_of(schema, key)
            ]
            for inner, _ in alternatives:
                properties = {**inner, **properties}
            for name in alternatives[0][1] if alternatives else ():
                if all(name in names for _, names in alternatives):
                    required.append(name)
        return properties, list(dict.fromkeys(required))


def accepts_null(schema: Any, root: JsonObject) -> bool:
    """Return whether a schema accepts ``null``; true in doubt."""
    return any(map(_allows_null, _alternatives(schema, root)))


def _alternatives(schema: Any, root: JsonObject) -> list[Any]:
    """Return the alternatives of a schema, or itself, without references."""
    alternatives: list[Any] = []
    pending = [schema]
    for each in pending:  # it grows meanwhile
        inner = resolve_references(each, root) if isinstance(each, dict) else each
        branches = alternatives_of(inner) if isinstance(inner, dict) else []
        if not branches or len(pending) > MAX_ALTERNATIVES:
            alternatives.append(inner)
            continue
        shared = {key: inner[key] for key in _EXAMINED if key in inner}
        pending += (
            {**shared, **branch} if type(branch) is dict else branch
            for branch in branches
        )
    return alternatives


def _allows_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return schema is not False
    if "enum" in schema:
        return None in branches_of(schema, "enum")
    if "const" in schema:
        return schema["const"] is None
    kind = schema.get("type")
    return "null" in kind if isinstance(kind, (str, list)) else True


def remove_nulls(value: Any, schema: Any, root: JsonObject, depth: int = 0) -> Any:
    """Return arguments without nulls in place of omitted arguments.

    In OpenAI's strict mode a model must pass all arguments, and passes ``null`` for an
    omitted one. A ``null`` is dropped if the tool's own schema does not accept it and
    does not require the member.
    """
    if depth >= MAX_DEPTH:
        return value
    schema = _alternative_of(value, schema, root)
    if isinstance(value, list):
        inner = schema.get("items")
        return [remove_nulls(member, inner, root, depth + 1) for member in value]
    if not isinstance(value, dict):
        return value
    properties = properties_of(schema)
    required = required_of(schema)
    return {
        name: remove_nulls(member, properties.get(name), root, depth + 1)
        for name, member in value.items()
        if not (
            member is None
            and name in properties
            and name not in required
            and not accepts_null(properties[name], root)
        )
    }


def _alternative_of(value: Any, schema: Any, root: JsonObject) -> JsonObject:
    """Return the only alternative that a value may have, or else the schema."""
    matching = [
        alternative
        for alternative in _alternatives(schema, root)
        if isinstance(alternative, dict)
        and (
            _has_members(alternative, value)
            if isinstance(value, dict)
            else "items" in alternative
        )
    ]
    return matching[0] if len(matching) == 1 else resolve_references(schema, root)


def _has_members(schema: JsonObject, value: JsonObject) -> bool:
    """Return whether an object has the members of a schema, and its constants.

    In strict mode an object has all members.
    """
    properties = properties_of(schema)
    return properties.keys() == value.keys() and all(
        value[name] in (None, member.get("const", value[name]))
        for name, member in properties.items()
        if isinstance(member, dict)
    )


_HASH_LENGTH: Final = 8
"""Characters of the hash that makes a name unique."""


@attrs.frozen
class NameRule:
    """The names that a vendor accepts."""

    charset: str = "A-Za-z0-9_-"
    """The inside of a regular expression's brackets."""

    first: str = "A-Za-z0-9_-"
    """The same for the first character."""

    max_length: int = 64


class VendorNames:
    """A two-way map of original names and a vendor's names.

    An accepted name stays. Any other is rewritten and gets a hash of itself at its end,
    so that it does not depend on the other names.
    """

    def __init__(self, names: Iterable[str], rule: NameRule) -> None:
        unique = list(dict.fromkeys(names))
        self._originals = {
            name: name for name in unique if _vendor_name(name, rule) == name
        }
        for name in unique:
            vendor_name, salt = _vendor_name(name, rule), 0
            while self._originals.get(vendor_name, name) != name:  # similar on purpose
                salt += 1
                vendor_name = _vendor_name(name, rule, salt)
            self._originals[vendor_name] = name
        self._vendor_names = {value: key for key, value in self._originals.items()}

    def of(self, name: str) -> str:
        """Return the vendor's name for an original name."""
        return self._vendor_names[name]

    def find(self, vendor_name: str) -> str | None:
        """Return the original name for a vendor's name, or ``None``."""
        return self._originals.get(vendor_name)


def rename_members(
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
        "properties": {names.of(name): member for name, member in properties.items()},
        "required": [
            names.of(name) for name in required_of(schema) if name in properties
        ],
    }
    if has_lost_targets(renamed):  # they were members with these names
        return rename_members(inline_references(schema), rule)
    return renamed, names


def _vendor_name(name: str, rule: NameRule, salt: int = 0) -> str:
    cleaned = re.sub(f"[^{rule.charset}]", "_", name)
    if not re.match(f"[{rule.first}]", cleaned):
        cleaned = f"_{cleaned}"
    if cleaned == name and len(name) <= rule.max_length and not salt:
        return name
    source = f"{name}\n{salt}" if salt else name
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{cleaned[: rule.max_length - _HASH_LENGTH - 1]}_{digest[:_HASH_LENGTH]}"
