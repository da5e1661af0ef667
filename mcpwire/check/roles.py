"""Selection of the tools that the check may call, and of their roles.

Roles are `echo` (returns a text), `slow` (takes a while), `big` (a large result),
`notify` (progress or log messages during the call), `ask` (sends requests to the
client), `change` (changes a list; the next call reverts it) and `task` (runs as a
task). `--map` assigns tools to roles; otherwise a tool's name and schema decide.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from mcpwire.protocol.json_schema import properties_of, required_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROLES: Final = ("echo", "slow", "big", "notify", "ask", "change", "task")

MAX_ARGUMENT_LENGTH: Final = 100_000  # characters; no longer argument is generated

_ROLE_WORDS: Final = {
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
    """Return the read-only tools (by annotation) and those with allowed names."""
    patterns = tuple(allowed)
    return [
        tool
        for tool in tools
        if isinstance(tool.get("name"), str)
        and (
            _is_read_only(tool)
            or any(fnmatchcase(tool["name"], pattern) for pattern in patterns)
        )
    ]


def _is_read_only(tool: Mapping[str, Any]) -> bool:
    annotations = tool.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


def find_roles(
    tools: Iterable[dict[str, Any]],
    safe: Iterable[dict[str, Any]],
    mapping: Mapping[str, str],
) -> dict[str, dict[str, Any]]:
    """Return a mapping of roles to tools.

    A tool that the user maps may be called whatever its annotations are.

    Raises:
        ValueError: A role is unknown, or the server has no such tool.
    """
    by_name = {tool.get("name"): tool for tool in tools}
    roles: dict[str, dict[str, Any]] = {}
    for role, name in mapping.items():
        if role not in ROLES:
            raise ValueError(f"--map takes {', '.join(ROLES)}, got {role!r}")
        if name not in by_name:
            known = ", ".join(sorted(map(str, by_name))) or "none"
            raise ValueError(f"--map {role}={name}: no such tool; known tools: {known}")
        roles[role] = by_name[name]
    for role in ROLES:
        for tool in safe:
            if role not in roles and _fits_role(tool, role):
                roles[role] = tool
    return roles


def is_named_like(tool: Mapping[str, Any], role: str) -> bool:
    """Return whether a tool's name suggests a role."""
    name = str(tool.get("name", "")).lower().replace("-", "_")
    # Do not match "ask" within "task".
    return any(re.search(rf"(?<!t){word}", name) for word in _ROLE_WORDS[role])


def _fits_role(tool: Mapping[str, Any], role: str) -> bool:
    if not is_named_like(tool, role):
        return False
    if role != "echo":
        return arguments_for(tool) is not None
    return _text_argument(tool) is not None


def _text_argument(tool: Mapping[str, Any]) -> str | None:
    """Return the single string argument of a tool; ``None``: it has other arguments."""
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
    """Return arguments that a tool's schema accepts; ``None``: none could be made."""
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return {}
    arguments: dict[str, Any] = {}
    properties = properties_of(schema)
    for name in required_of(schema):
        try:
            value = _example(properties.get(name), text)
        except (OverflowError, TypeError, ValueError):  # not a valid schema
            value = None
        if value is None:
            return None
        arguments[name] = value
    return arguments


def call_params(
    tool: Mapping[str, Any], arguments: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the params of a call of a tool, by default with generated arguments."""
    given = arguments_for(tool) or {} if arguments is None else arguments
    return {"name": tool["name"], "arguments": given}


def _example(schema: Any, text: str) -> Any:
    """Return a value for a simple schema; ``None``: the schema is not simple."""
    if not isinstance(schema, dict):
        return None
    for value in (schema.get("const"), schema.get("default"), *schema.get("enum", ())):
        if value is not None:
            return value
    if schema.keys() & {"pattern", "format", "minItems", "maximum"}:
        return None
    if schema.get("minLength", 0) > MAX_ARGUMENT_LENGTH:
        return None
    padded = text.ljust(schema.get("minLength", 0), "x")
    examples = {
        "string": padded[: schema.get("maxLength", len(padded))],
        "integer": max(1, schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)),
        "boolean": False,
        "array": [],
        "object": None if schema.get("required") else {},
    }
    examples["number"] = examples["integer"]
    kind = schema.get("type")
    return examples.get(kind) if isinstance(kind, str) else None
