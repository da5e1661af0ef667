"""Writes what came of a call, a prompt or a handshake, for people.

Text is passed on as it came; whoever prints it knows whether it must be escaped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcpwire.cli.text.escape import one_line

if TYPE_CHECKING:
    from mcpwire.client import Client
    from mcpwire.types import CallToolResult, ContentBlock, GetPromptResult

__all__ = ["block_text", "capability_words", "info_lines", "prompt_text", "tool_text"]


def tool_text(result: CallToolResult) -> str:
    """Return the text of a result; its data where it has no content."""
    from mcpwire.types import UNSET

    if not result.content and result.structured_content is not UNSET:
        return json.dumps(result.structured_content, indent=2, ensure_ascii=False)
    return "\n".join(block_text(block) for block in result.content)


def prompt_text(result: GetPromptResult) -> str:
    """Return the messages of a prompt, each with who says it."""
    return "\n".join(
        f"[{message.role}]\n{block_text(message.content)}"
        for message in result.messages
    )


def block_text(block: ContentBlock) -> str:
    """Return a text block's text, and of any other what it is."""
    from mcpwire import types

    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, (types.ImageContent, types.AudioContent)):
        return f"[{block.type}: {block.mime_type}, {_size(block.data)}]"
    if isinstance(block, types.ResourceLink):
        kind = f", {block.mime_type}" if block.mime_type else ""
        return f"[resource link: {block.uri}{kind}]"
    if isinstance(block, types.EmbeddedResource):
        inner = block.resource
        if isinstance(inner, types.TextResourceContents):
            return inner.text
        kind = inner.mime_type or "binary"
        return f"[resource: {inner.uri}, {kind}, {_size(inner.blob)}]"
    return f"[{block.type}: {json.dumps(block.raw, ensure_ascii=False)}]"


def _size(base64: str) -> str:
    """Say how many bytes a Base64 text stands for."""
    return f"{len(base64.rstrip('=')) * 3 // 4:,} bytes"


def info_lines(client: Client, target: str) -> list[str]:
    """Write what was agreed on, and what the server says of itself."""
    record = client.negotiation
    assert record is not None
    era = record.era.value if record.era is not None else "no"
    server = client.server_info
    name = f"{server.name} {server.version}" if server else "(it gave no name)"
    title = f" ({server.title})" if server and server.title else ""
    offers = capability_words(client) or ["(none)"]
    facts = [
        ("server", f"{name}{title}"),
        ("url" if "://" in target.partition(" ")[0] else "command", target),
        ("protocol", f"{client.protocol_version} ({era} era)"),
        ("why", record.reason),
        ("capabilities", ", ".join(offers)),
    ]
    lines = [f"{label:<14}{one_line(value)}" for label, value in facts]
    lines.append("negotiation")
    lines += [f"  {one_line(str(step))}" for step in record.steps]
    if client.instructions:
        lines.append("instructions")
        lines += [f"  {one_line(line)}" for line in client.instructions.split("\n")]
    return lines


def capability_words(client: Client) -> list[str]:
    """Return what the server declared, with the switches that are on."""
    from mcpwire.types import encode

    assert client.capabilities is not None
    words = []
    declared: dict[str, Any] = encode(client.capabilities)
    for name, settings in declared.items():
        on = (
            [key for key, value in settings.items() if value is not False]
            if isinstance(settings, dict)
            else []
        )
        words.append(f"{name} ({', '.join(on)})" if on else name)
    return words
