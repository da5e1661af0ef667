"""Writes tools and prompts as signatures: ``add(a: int, b: int = 0) -> {sum: int}``.

``name?: type`` need not be given; defaults are written as JSON, as one would type them.
Everything here comes from a server and leaves as printable lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.cli.schemas import MAX_DEPTH, SchemaReader, literal, members
from mcpwire.cli.text.escape import one_line, shorten

if TYPE_CHECKING:
    from mcpwire.cli.schemas import Json, Schema
    from mcpwire.types import Prompt, Tool, ToolAnnotations

__all__ = ["badges", "parameters", "prompt_signature", "tool_signature", "type_name"]

NAMES: Final = {
    "array": "list",
    "boolean": "bool",
    "integer": "int",
    "null": "null",
    "number": "float",
    "object": "object",
    "string": "str",
}

MAX_DEFAULT: Final = 40
MAX_CHOICES: Final = 80
MAX_RESULT_MEMBERS: Final = 8


def type_name(schema: Json, reader: SchemaReader, depth: int = MAX_DEPTH) -> str:
    """Return a short name for what a schema allows, such as ``list[int] | null``."""
    schema = reader.resolve(schema)
    listed = reader.choices(schema)
    if listed is not None:
        return shorten(" | ".join(map(literal, listed)), MAX_CHOICES)
    union = members(schema)
    if union and depth:
        names = [type_name(member, reader, depth - 1) for member in union]
    else:
        kinds = reader.kinds(schema)
        names = [_kind_name(kind, schema, reader, depth) for kind in kinds]
        names.sort(key="null".__eq__)
    return " | ".join(dict.fromkeys(names)) or "any"


def _kind_name(kind: str, schema: Schema, reader: SchemaReader, depth: int) -> str:
    if kind == "array" and "items" in schema and depth:
        return f"list[{type_name(schema['items'], reader, depth - 1)}]"
    return NAMES[kind]


def parameters(schema: Json) -> list[str]:
    """Return the parameters of a tool, in its own order."""
    reader = SchemaReader(schema)
    required = reader.required()
    found = []
    for name, member in reader.properties().items():
        kind = type_name(member, reader)
        inner = reader.resolve(member)
        if name in required:
            found.append(f"{name}: {kind}")
        elif "default" in inner:
            default = shorten(literal(inner["default"]), MAX_DEFAULT)
            found.append(f"{name}: {kind} = {default}")
        else:
            found.append(f"{name}?: {kind}")
    return [*found, "..."] if reader.extends() else found


def result_name(schema: Json) -> str:
    """Return what a tool gives back, with the members of an object."""
    reader = SchemaReader(schema)
    named = reader.properties()
    if not named:
        return type_name(schema, reader)
    shown = [
        f"{name}: {type_name(member, reader)}"
        for name, member in list(named.items())[:MAX_RESULT_MEMBERS]
    ]
    if len(named) > MAX_RESULT_MEMBERS:
        shown.append("...")
    return f"{{{', '.join(shown)}}}"


def _layout(name: str, inner: list[str], outcome: str, width: int | None) -> list[str]:
    """Lay a signature out on one line, or on several where it is wider than `width`."""
    shown = [one_line(part) for part in inner]
    start, end = f"{one_line(name)}(", f"){one_line(outcome)}"
    line = f"{start}{', '.join(shown)}{end}"
    if width is None or len(line) <= width or not shown:
        return [line]
    return [start, *(f"    {part}," for part in shown), end]


def tool_signature(tool: Tool, width: int | None = None) -> list[str]:
    """Return the signature of a tool, as lines."""
    outcome = f" -> {result_name(tool.output_schema)}" if tool.output_schema else ""
    return _layout(tool.name, parameters(tool.input_schema), outcome, width)


def prompt_signature(prompt: Prompt, width: int | None = None) -> list[str]:
    """Return the signature of a prompt, as lines; its arguments are all text."""
    inner = [
        argument.name if argument.required else f"{argument.name}?"
        for argument in prompt.arguments or ()
    ]
    return _layout(prompt.name, inner, "", width)


def badges(hints: ToolAnnotations | None) -> list[str]:
    """Return what a server says of a tool's effects, in words; hints, not promises."""
    if hints is None:
        return []
    if hints.read_only_hint:
        found = ["read-only"]
    else:
        found = ["destructive"] if hints.destructive_hint else []
        found += ["idempotent"] if hints.idempotent_hint else []
    return found + (["open-world"] if hints.open_world_hint else [])
