"""Results of tools as text or plain objects for a model; pure.

There are four forms:

``"text"``
    One text: the non-empty text blocks, joined by newlines. Each other block is one
    line, such as ``[image image/png, 5120 bytes]``, or is left out.
``"auto"``
    The text of a single text block; an empty text without blocks; else the blocks as
    JSON.
``"structured"``
    The structured content if there is any, else as ``"text"``.
``"blocks"``
    The content blocks as plain objects, as on the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.limits import check_choice
from mcpwire.types import (
    UNSET,
    CallToolResult,
    EmbeddedResource,
    TextContent,
    Tool,
    ToolAnnotations,
    encode,
)
from mcpwire.types.content import (
    AudioContent,
    ImageContent,
    ResourceLink,
    TextResourceContents,
)
from mcpwire.wire.json import encode as to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.types import ContentBlock, JsonObject

FlatForm: TypeAlias = Literal["text", "auto", "structured", "blocks"]

FLAT_FORMS: Final[tuple[FlatForm, ...]] = ("text", "auto", "structured", "blocks")


@overload
def flatten(
    result: CallToolResult,
    form: Literal["text", "auto"] = "text",
    *,
    max_bytes: int | None = None,
    marks: bool = True,
) -> str: ...


@overload
def flatten(
    result: CallToolResult,
    form: Literal["blocks"],
    *,
    max_bytes: int | None = None,
    marks: bool = True,
) -> list[JsonObject]: ...


@overload
def flatten(
    result: CallToolResult,
    form: FlatForm,
    *,
    max_bytes: int | None = None,
    marks: bool = True,
) -> Any: ...


def flatten(
    result: CallToolResult,
    form: FlatForm = "text",
    *,
    max_bytes: int | None = None,
    marks: bool = True,
) -> Any:
    """Return a result in one of the forms, a failed one like any other.

    Args:
        result: The result of `call_tool`; call `CallToolResult.raise_for_error` first
            to raise an exception for a failed one.
        form: ``"text"``, ``"auto"``, ``"structured"`` or ``"blocks"``.
        max_bytes: The largest size in UTF-8; more is cut off, with a marker that has
            the number of missing bytes. Larger structured content becomes text.
        marks: Whether a text has lines for blocks that are not text (forms ``"text"``
            and, without structured content, ``"structured"``).

    Raises:
        ValueError: The form is unknown, or `max_bytes` is less than 1.
    """
    check_choice(form, "form", FLAT_FORMS)
    _check_bytes(max_bytes)
    if form == "blocks":
        return _blocks(result if max_bytes is None else trim_result(result, max_bytes))
    if form == "structured" and result.structured_content is not UNSET:
        return _structured(result.structured_content, max_bytes)
    text = _auto(result) if form == "auto" else _text(result, marks=marks)
    return text if max_bytes is None else cut_text(text, max_bytes)


def cut_text(text: str, max_bytes: int) -> str:
    """Return a text cut to a number of bytes in UTF-8, including a marker.

    The marker has the number of missing bytes; it is left out without room for it. No
    character is split.

    Raises:
        ValueError: `max_bytes` is less than 1.
    """
    _check_bytes(max_bytes)
    data = _encode_utf8(text)
    if len(data) <= max_bytes:
        return text
    room = max_bytes - len(_marker(len(data)))
    if room <= 0:
        return _decode_prefix(data, max_bytes)
    prefix = _decode_prefix(data, room)
    return prefix + _marker(len(data) - len(_encode_utf8(prefix)))


def trim_result(result: CallToolResult, max_bytes: int) -> CallToolResult:
    """Return a result with its content cut to a number of bytes.

    Blocks are kept in order while they fit. The first text that does not fit is cut;
    a text block at the end has the number of missing bytes. Structured content is kept
    whole or dropped. A result that fits is returned unchanged.

    Raises:
        ValueError: `max_bytes` is less than 1.
    """
    _check_bytes(max_bytes)
    sizes = [len(_encode_utf8(json_text(encode(block)))) for block in result.content]
    structured = result.structured_content
    own_size = 0 if structured is UNSET else len(_encode_utf8(json_text(structured)))
    if sum(sizes) + own_size <= max_bytes:
        return result
    blocks: list[ContentBlock] = []
    remaining = max_bytes
    missing = 0
    for block, size in zip(result.content, sizes, strict=True):
        if size <= remaining and not missing:
            blocks.append(block)
            remaining -= size
            continue
        if not missing and isinstance(block, TextContent):
            prefix, rest_size = _cut_block(block, size, remaining)
            blocks.append(prefix)
            missing, remaining = rest_size, 0
        else:
            missing += size
    if structured is not UNSET and (missing or own_size > remaining):
        missing += own_size
        structured = UNSET
    if missing:
        blocks.append(
            TextContent(f"[{missing} more bytes of this result were left out]")
        )
    return attrs.evolve(result, content=blocks, structured_content=structured, raw=None)


def json_text(value: Any) -> str:
    """Return a value as JSON, or ``null`` if it is nested too deeply."""
    try:
        return to_json(value).decode()
    except LocalProtocolError:
        return "null"


def describe_block(block: ContentBlock) -> str:
    """Return the line for a block in a text."""
    if isinstance(block, (ImageContent, AudioContent)):
        return f"[{block.type} {block.mime_type}, {_decoded_size(block.data)} bytes]"
    if isinstance(block, ResourceLink):
        suffix = "" if block.mime_type is None else f" ({block.mime_type})"
        return f"[resource {block.uri}{suffix}: {block.title or block.name}]"
    if isinstance(block, EmbeddedResource):
        inner = block.resource
        kind = inner.mime_type or "application/octet-stream"
        if isinstance(inner, TextResourceContents):
            return f"[resource {inner.uri}, {len(_encode_utf8(inner.text))} bytes]"
        return f"[resource {inner.uri} {kind}, {_decoded_size(inner.blob)} bytes]"
    return f"[{block.type} content]"


def _text(result: CallToolResult, *, marks: bool) -> str:
    if not result.content and result.structured_content is not UNSET:
        # A server may send structured content without a text.
        return json_text(result.structured_content)
    return "\n".join(_lines(result.content, marks=marks))


def _lines(content: Iterable[ContentBlock], *, marks: bool) -> Iterable[str]:
    for block in content:
        if isinstance(block, TextContent):
            if block.text:
                yield block.text
        elif marks:
            inner = getattr(block, "resource", None)
            if isinstance(inner, TextResourceContents):
                yield f"[resource {inner.uri}]\n{inner.text}"
            else:
                yield describe_block(block)


def _auto(result: CallToolResult) -> str:
    content = result.content
    if not content:
        return _text(result, marks=False)
    if len(content) == 1 and isinstance(content[0], TextContent):
        return content[0].text
    return json_text(_blocks(result))


def _blocks(result: CallToolResult) -> list[JsonObject]:
    return [encode(block) for block in result.content]


def _structured(value: Any, max_bytes: int | None) -> Any:
    if max_bytes is None:
        return value
    text = json_text(value)
    cut = cut_text(text, max_bytes)
    return value if cut is text else cut


def _cut_block(block: TextContent, size: int, room: int) -> tuple[TextContent, int]:
    """Return the part of a text that fits, and the number of missing bytes."""
    data = _encode_utf8(block.text)
    # Encoded, a text is longer: by its object and by escapes.
    prefix = _decode_prefix(data, max(room - (size - len(data)), 0))
    return attrs.evolve(block, text=prefix), len(data) - len(_encode_utf8(prefix))


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode_prefix(data: bytes, count: int) -> str:
    return data[:count].decode("utf-8", "ignore")


def _marker(missing: int) -> str:
    return f"\n[{missing} more bytes]"


def _decoded_size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def _check_bytes(max_bytes: int | None) -> None:
    if max_bytes is not None and max_bytes < 1:
        raise ValueError(f"max_bytes must be at least 1, got {max_bytes!r}")


@attrs.frozen
class Extra:
    """A tool that sends another request than `tools/call`."""

    capability: str
    """The required capability of the server: resources or prompts."""

    tool: Tool
    operation: str
    """The name of the client's method."""

    result: Callable[[Any], JsonObject]
    """Converts the method's result, or the whole list, to the result of a tool."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The arguments of the method, in order."""
        return tuple(self.tool.input_schema["properties"])


def _make_extra(
    capability: str,
    operation: str,
    result: Callable[[Any], JsonObject],
    description: str,
    **properties: dict[str, Any],
) -> Extra:
    """Return the tool of a client's method; its first argument is required."""
    tool = Tool(
        name=f"mcp_{operation}",
        description=description,
        input_schema={
            "type": "object",
            "properties": properties,
            "required": list(properties)[:1],
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(read_only_hint=True),
    )
    return Extra(capability, tool, operation, result)


def _list_result(key: str) -> Callable[[Any], JsonObject]:
    def result(items: list[JsonObject]) -> JsonObject:
        content = {key: items}
        block = {"type": "text", "text": json_text(content)}
        return {"content": [block], "structuredContent": content}

    return result


def _resource_result(answer: JsonObject) -> JsonObject:
    return {
        "content": [
            {"type": "text", "text": part["text"]}
            if isinstance(part.get("text"), str)
            else {"type": "resource", "resource": part}
            for part in _objects(answer.get("contents"))
        ]
    }


def _prompt_result(answer: JsonObject) -> JsonObject:
    messages = _objects(answer.get("messages"))
    return {
        "content": _objects([message.get("content") for message in messages]),
        "structuredContent": {"messages": messages},
    }


def _objects(value: Any) -> list[JsonObject]:
    """Return the objects of a list in a server's answer."""
    members = value if isinstance(value, list) else []
    return [member for member in members if isinstance(member, dict)]


EXTRAS: Final[Mapping[str, Extra]] = {
    extra.tool.name: extra
    for extra in (
        _make_extra(
            *("resources", "list_resources", _list_result("resources")),
            "List the resources of this server.",
        ),
        _make_extra(
            *("resources", "read_resource", _resource_result),
            "Read one resource of this server.",
            uri={"type": "string", "description": "The resource's URI."},
        ),
        _make_extra(
            *("prompts", "list_prompts", _list_result("prompts")),
            "List the prompts of this server.",
        ),
        _make_extra(
            *("prompts", "get_prompt", _prompt_result),
            "Get one prompt of this server, filled in.",
            name={"type": "string", "description": "The prompt's name."},
            arguments={
                "type": "object",
                "description": "What to fill in; each value is text.",
                "additionalProperties": {"type": "string"},
            },
        ),
    )
}
"""The extra tools by name."""


def extra_capabilities(*, resources: bool, prompts: bool) -> frozenset[str]:
    """Return the capabilities that become tools."""
    flags = {"resources": resources, "prompts": prompts}
    return frozenset(name for name, is_selected in flags.items() if is_selected)


def extra_tools(capabilities: Any, selected: frozenset[str]) -> list[Tool]:
    """Return the extra tools of the wanted kinds for a server's capabilities."""
    return [
        extra.tool
        for extra in EXTRAS.values()
        if extra.capability in selected
        and getattr(capabilities, extra.capability, None) is not None
    ]
