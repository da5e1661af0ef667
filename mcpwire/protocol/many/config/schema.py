"""The JSON Schema of a configuration, made of the table that checks it."""

from __future__ import annotations

from typing import Any, Final

from mcpwire.protocol.many.config.fields import FIELDS

__all__ = ["schema"]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a configuration.

    It says of a document what `load` says of it, but for what needs the variables, the
    files and the layers: those are checked when it is loaded. The names that other
    hosts have for fields are in it; keys that are in neither are not refused.
    """
    entry = _entry()
    named = {**entry, "required": ["name"]}
    servers = {
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/$defs/listed"}},
            {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/server"},
                "propertyNames": {"pattern": r"^\S(.*\S)?$"},
            },
        ]
    }
    keys = ("mcpServers", "mcp_servers", "servers")
    return {
        "$schema": DIALECT,
        "title": "Servers of the Model Context Protocol",
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/$defs/listed"}},
            {
                "type": "object",
                "properties": {key: {"$ref": "#/$defs/servers"} for key in keys},
                "oneOf": [{"required": [key]} for key in keys],
            },
        ],
        "$defs": {"server": entry, "listed": named, "servers": servers},
    }


def _entry() -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, field in FIELDS.items():
        described = {**field.kind.schema, "description": field.meaning}
        for spelled in _spellings(name, field.also):
            properties[spelled] = {"anyOf": [described, {"type": "null"}]}
    return {"type": "object", "properties": properties}


def _spellings(name: str, also: tuple[str, ...]) -> list[str]:
    """Return a field's names, each also as JSON people write them."""
    found = []
    for each in (name, *also):
        first, *rest = each.split("_")
        found += [each, first + "".join(word.title() for word in rest)]
    return list(dict.fromkeys(found))
