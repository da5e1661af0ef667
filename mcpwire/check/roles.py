"""Which tools may be called, and which plays which role.

Roles are `echo` (gives a text back), `slow` (takes a while), `big` (a large result),
`notify` (progress or log messages while it runs), `ask` (asks the client), `change`
(changes what is listed; another call changes it back) and `task` (goes on as a task).
`--map` names them; else a tool plays a role by its name and schema.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from mcpwire.protocol.json_schema import properties_of, required_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ROLES", "arguments_for", "callable_tools", "find_roles", "is_named_like"]

ROLES: Final = ("echo", "slow", "big", "notify", "ask", "change", "task")

LONGEST: Final = 100_000  # characters of an argument that a schema can ask for

_WORDS: Final = {
    "echo": ("echo",),
    "slow": ("slow", "sleep", "wait", "delay", "long_running", "longrunning"),
    "big": ("big", "large", "huge"),
    "notify": ("notify", "progress", "longrunning", "long_running"),
    "ask": ("ask", "elicit", "sampl"),
    "change": ("change", "toggle", "trigger_tool", "trigger_prompt"),
    "task": ("task", "later", "background"),
}


def callable_tools(
    tools: Iterable[dict[str, Any]], allowed: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Return the tools that say they only read, and those with allowed names."""
    patterns = tuple(allowed)
    return [
        tool
        for tool in tools
        if isinstance(tool.get("name"), str)
        and (
            _only_reads(tool)
            or any(fnmatchcase(tool["name"], pattern) for pattern in patterns)
        )
    ]


def _only_reads(tool: Mapping[str, Any]) -> bool:
    annotations = tool.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


def find_roles(
    tools: Iterable[dict[str, Any]],
    safe: Iterable[dict[str, Any]],
    mapping: Mapping[str, str],
) -> dict[str, dict[str, Any]]:
    """Return role -> tool.

    A tool that the user maps may be called whatever it says of itself.

    Raises:
        ValueError: A role is unknown, or a tool is not there.
    """
    by_name = {tool.get("name"): tool for tool in tools}
    found: dict[str, dict[str, Any]] = {}
    for role, name in mapping.items():
        if role not in ROLES:
            raise ValueError(f"--map takes {', '.join(ROLES)}, got {role!r}")
        if name not in by_name:
            known = ", ".join(sorted(map(str, by_name))) or "none"
            raise ValueError(f"--map {role}={name}: no such tool; there are: {known}")
        found[role] = by_name[name]
    for role in ROLES:
        for tool in safe:
            if role not in found and _plays(tool, role):
                found[role] = tool
    return found


def is_named_like(tool: Mapping[str, Any], role: str) -> bool:
    """Tell whether a tool's name speaks of a role."""
    name = str(tool.get("name", "")).lower().replace("-", "_")
    # "task" asks for nothing.
    return any(re.search(rf"(?<!t){word}", name) for word in _WORDS[role])


def _plays(tool: Mapping[str, Any], role: str) -> bool:
    if not is_named_like(tool, role):
        return False
    if role != "echo":
        return arguments_for(tool) is not None
    return _text_argument(tool) is not None


def _text_argument(tool: Mapping[str, Any]) -> str | None:
    """Return the one argument of a tool that takes just a text."""
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return None
    names = required_of(schema) or list(properties_of(schema))
    if len(names) != 1:
        return None
    property_ = properties_of(schema).get(names[0])
    if not isinstance(property_, dict) or "enum" in property_:
        return None
    return names[0] if property_.get("type") == "string" else None


def arguments_for(
    tool: Mapping[str, Any], text: str = "mcpwire"
) -> dict[str, Any] | None:
    """Return arguments that a tool's schema accepts; ``None``: none are known."""
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return {}
    found: dict[str, Any] = {}
    properties = properties_of(schema)
    for name in required_of(schema):
        try:
            value = _example(properties.get(name), text)
        except (OverflowError, TypeError, ValueError):  # a schema that is none
            value = None
        if value is None:
            return None
        found[name] = value
    return found


def call_of(
    tool: Mapping[str, Any], arguments: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the params of a call of a tool, by default with arguments that fit."""
    given = arguments_for(tool) or {} if arguments is None else arguments
    return {"name": tool["name"], "arguments": given}


def _example(schema: Any, text: str) -> Any:
    """Return a value of a plain schema; ``None``: the schema is not plain."""
    if not isinstance(schema, dict):
        return None
    for value in (schema.get("const"), schema.get("default"), *schema.get("enum", ())):
        if value is not None:
            return value
    if schema.keys() & {"pattern", "format", "minItems", "maximum"}:
        return None
    if schema.get("minLength", 0) > LONGEST:
        return None
    padded = text.ljust(schema.get("minLength", 0), "x")
    found = {
        "string": padded[: schema.get("maxLength", len(padded))],
        "integer": max(1, schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)),
        "boolean": False,
        "array": [],
        "object": None if schema.get("required") else {},
    }
    found["number"] = found["integer"]
    kind = schema.get("type")
    return found.get(kind) if isinstance(kind, str) else None
