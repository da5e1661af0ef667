"""Formatting of results, lists and the handshake as text.

The texts of results and prompts are not escaped here; all lines of lists are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from mcpwire import types
from mcpwire.cli.arguments import KINDS, MAX_DEPTH, SchemaReader, json_text
from mcpwire.cli.output import one_line, shorten
from mcpwire.protocol.json_schema import alternatives_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mcpwire.cli.output import Output
    from mcpwire.client import Client


def tool_text(result: types.CallToolResult) -> str:
    """Return the text of a result, or its structured content if it has no content."""
    if not result.content and result.structured_content is not types.UNSET:
        return json.dumps(result.structured_content, indent=2, ensure_ascii=False)
    return "\n".join(block_text(block) for block in result.content)


def prompt_text(result: types.GetPromptResult) -> str:
    """Return the messages of a prompt, each with its role."""
    return "\n".join(
        f"[{message.role}]\n{block_text(message.content)}"
        for message in result.messages
    )


def block_text(block: types.ContentBlock) -> str:
    """Return the text of a text block, or a description of another block."""
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, (types.ImageContent, types.AudioContent)):
        return f"[{block.type}: {block.mime_type}, {_size(block.data)}]"
    if isinstance(block, types.ResourceLink):
        kind = f", {block.mime_type}" if block.mime_type else ""
        return f"[resource link: {block.uri}{kind}]"
    if isinstance(block, types.EmbeddedResource):
        contents = block.resource
        if isinstance(contents, types.TextResourceContents):
            return contents.text
        kind = contents.mime_type or "binary"
        return f"[resource: {contents.uri}, {kind}, {_size(contents.blob)}]"
    return f"[{block.type}: {json.dumps(block.raw, ensure_ascii=False)}]"


def _size(base64: str) -> str:
    """Return the decoded size of a base64 text."""
    return f"{len(base64.rstrip('=')) * 3 // 4:,} bytes"


def info_lines(client: Client, target: str) -> list[str]:
    """Return the lines of ``mcpwire info``."""
    record = client.negotiation
    assert record is not None
    era = record.era.value if record.era is not None else "no"
    server = client.server_info
    name = f"{server.name} {server.version}" if server else "(it gave no name)"
    title = f" ({server.title})" if server and server.title else ""
    capabilities = capability_words(client) or ["(none)"]
    rows = [
        ("server", f"{name}{title}"),
        ("url" if "://" in target.partition(" ")[0] else "command", target),
        ("protocol", f"{client.protocol_version} ({era} era)"),
        ("why", record.reason),
        ("capabilities", ", ".join(capabilities)),
    ]
    lines = [f"{label:<14}{one_line(value)}" for label, value in rows]
    lines.append("negotiation")
    lines += [f"  {one_line(str(step))}" for step in record.steps]
    if client.instructions:
        lines.append("instructions")
        lines += [f"  {one_line(line)}" for line in client.instructions.split("\n")]
    return lines


def capability_words(client: Client) -> list[str]:
    """Return the server's capabilities, each with its enabled settings."""
    assert client.capabilities is not None
    words = []
    declared: dict[str, Any] = types.encode(client.capabilities)
    for name, settings in declared.items():
        enabled = (
            [key for key, value in settings.items() if value is not False]
            if isinstance(settings, dict)
            else []
        )
        words.append(f"{name} ({', '.join(enabled)})" if enabled else name)
    return words


NAME_INDENT = "  "
TEXT_INDENT = "      "
MAX_DESCRIPTION = 120


class Style(NamedTuple):
    """The styles of headings and notes, and the width of a line."""

    bold: Callable[[str], str]
    dim: Callable[[str], str]
    width: int | None

    @classmethod
    def of(cls, output: Output, indent: int = 0) -> Style:
        """Return the style of stdout, for lines with that indentation."""
        width = None if output.width is None else output.width - indent
        return cls(output.bold, output.dim, width)


def first_line(text: str | None) -> str:
    """Return the first non-empty line; a long one is cut after a sentence or word."""
    lines = (line.strip() for line in (text or "").split("\n"))
    line = one_line(next((line for line in lines if line), ""))
    if len(line) <= MAX_DESCRIPTION:
        return line
    head = line[: MAX_DESCRIPTION - len(" ...")]
    sentence = head.rfind(". ") + 1
    return f"{head[: sentence or max(head.rfind(' '), 0)] or head} ..."


Entry: TypeAlias = "tuple[Sequence[str], Iterable[str | None], str | None]"
"""The lines of an item, the details in brackets, and the description."""


def section(
    title: str,
    items: Sequence[Any],
    describe: Callable[[Any, int | None], Entry],
    style: Style,
) -> Iterator[str]:
    """Yield the lines of a list: its heading, and the entry of each item."""
    width = None if style.width is None else style.width - len(NAME_INDENT)
    yield style.bold(f"{title} ({len(items)})")
    for item in items:
        yield from _entry(*describe(item, width), style)


def tool(item: types.Tool, width: int | None) -> Entry:
    """Return the entry of a tool."""
    description = item.description or item.title
    return tool_signature(item, width), badges(item.annotations), description


def resource(item: types.Resource, _: int | None) -> Entry:
    """Return the entry of a resource."""
    size = f"{item.size:,} bytes" if item.size is not None else None
    return [item.uri], (item.mime_type, size), _item_label(item)


def template(item: types.ResourceTemplate, _: int | None) -> Entry:
    """Return the entry of a resource template."""
    return [item.uri_template], (item.mime_type,), _item_label(item)


def prompt(item: types.Prompt, width: int | None) -> Entry:
    """Return the entry of a prompt."""
    return prompt_signature(item, width), (), item.description or item.title


def skill(item: types.Skill, _: int | None) -> Entry:
    """Return the entry of a skill."""
    files = "dynamic" if item.is_dynamic else f"{len(item.resources)} file(s)"
    name, description = one_line(item.name), first_line(item.description)
    return [item.uri], (files,), f"{name}: {description}" if description else name


def _item_label(item: types.Resource | types.ResourceTemplate) -> str:
    name, description = one_line(item.display_name), first_line(item.description)
    return f"{name}: {description}" if description and description != name else name


def _entry(
    lines: Sequence[str],
    details: Iterable[str | None],
    description: str | None,
    style: Style,
) -> list[str]:
    entry = [f"{NAME_INDENT}{one_line(line)}" for line in lines]
    if text := ", ".join(one_line(fact) for fact in details if fact):
        entry[-1] += style.dim(f"  [{text}]")
    summary = first_line(description)
    if not summary:
        return entry
    if style.width is not None and len(summary) + len(TEXT_INDENT) > style.width:
        from textwrap import wrap

        room = max(style.width - len(TEXT_INDENT), 20)
        return entry + [f"{TEXT_INDENT}{line}" for line in wrap(summary, room)]
    return [*entry, f"{TEXT_INDENT}{summary}"]


MAX_DEFAULT: Final = 40
MAX_CHOICES: Final = 80
MAX_RESULT_MEMBERS: Final = 8


def type_name(schema: Any, reader: SchemaReader, depth: int = MAX_DEPTH) -> str:
    """Return a short name of a schema's type, such as ``list[int] | null``."""
    schema = reader.resolve(schema)
    values = reader.choices(schema)
    if values is not None:
        return shorten(" | ".join(map(json_text, values)), MAX_CHOICES)
    union = alternatives_of(schema)
    if union and depth:
        names = [type_name(member, reader, depth - 1) for member in union]
    else:
        kinds = reader.kinds(schema)
        names = [_kind_name(kind, schema, reader, depth) for kind in kinds]
        names.sort(key="null".__eq__)
    return " | ".join(dict.fromkeys(names)) or "any"


def _kind_name(
    kind: str, schema: dict[str, Any], reader: SchemaReader, depth: int
) -> str:
    if kind == "array" and "items" in schema and depth:
        return f"list[{type_name(schema['items'], reader, depth - 1)}]"
    return KINDS[kind].name


def parameters(schema: Any) -> list[str]:
    """Return the parameters of a tool, in the order of its schema."""
    reader = SchemaReader(schema)
    required = frozenset(reader.required())
    texts = []
    for name, member in reader.properties().items():
        kind = type_name(member, reader)
        resolved = reader.resolve(member)
        if name in required:
            texts.append(f"{name}: {kind}")
        elif "default" in resolved:
            default = shorten(json_text(resolved["default"]), MAX_DEFAULT)
            texts.append(f"{name}: {kind} = {default}")
        else:
            texts.append(f"{name}?: {kind}")
    return [*texts, "..."] if reader.allows_additional() else texts


def result_name(schema: Any) -> str:
    """Return a short name of a tool's output schema."""
    reader = SchemaReader(schema)
    properties = reader.properties()
    if not properties:
        return type_name(schema, reader)
    members = [
        f"{name}: {type_name(member, reader)}"
        for name, member in list(properties.items())[:MAX_RESULT_MEMBERS]
    ]
    if len(properties) > MAX_RESULT_MEMBERS:
        members.append("...")
    return f"{{{', '.join(members)}}}"


def _layout(name: str, parts: list[str], result: str, width: int | None) -> list[str]:
    """Return a signature as one line, or as several if it is wider than `width`."""
    escaped = [one_line(part) for part in parts]
    start, end = f"{one_line(name)}(", f"){one_line(result)}"
    line = f"{start}{', '.join(escaped)}{end}"
    if width is None or len(line) <= width or not escaped:
        return [line]
    return [start, *(f"    {part}," for part in escaped), end]


def tool_signature(tool: types.Tool, width: int | None = None) -> list[str]:
    """Return the signature of a tool, as lines."""
    returns = f" -> {result_name(tool.output_schema)}" if tool.output_schema else ""
    return _layout(tool.name, parameters(tool.input_schema), returns, width)


def prompt_signature(prompt: types.Prompt, width: int | None = None) -> list[str]:
    """Return the signature of a prompt, as lines; all its arguments are text."""
    parts = [
        argument.name if argument.required else f"{argument.name}?"
        for argument in prompt.arguments or ()
    ]
    return _layout(prompt.name, parts, "", width)


def badges(hints: types.ToolAnnotations | None) -> list[str]:
    """Return words for the server's hints about a tool's effects."""
    if hints is None:
        return []
    if hints.read_only_hint:
        words = ["read-only"]
    else:
        words = ["destructive"] if hints.destructive_hint else []
        words += ["idempotent"] if hints.idempotent_hint else []
    return words + (["open-world"] if hints.open_world_hint else [])
