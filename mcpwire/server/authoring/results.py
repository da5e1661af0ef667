"""Results made of what functions return.

::

    str                             text
    None                            nothing
    dict, dataclass, model, ...     its JSON as text, and as structured content
    other data                      its JSON as text
    Image, Audio, File, bytes       their blocks
    content blocks                  as they are
    list with any of these in it    one after another
    CallToolResult                  as it is

Where the hint or `output_schema` says what data a tool returns, there is structured
content for all of it, with the same JSON as text beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.authoring.content import File, Media, base64_of
from mcpwire.server.authoring.hints.foreign import is_record, plain
from mcpwire.server.authoring.returns import WRAPPED, BadResult
from mcpwire.types._base import UNSET, WireType
from mcpwire.versions import LATEST, REVISIONS, Era
from mcpwire.wire.json import encode as to_json

if TYPE_CHECKING:
    from mcpwire.server.authoring.returns import Returns
    from mcpwire.versions import Revision

__all__ = ["prompt_result", "resource_contents", "tool_result"]

_MAR_2025: Final = REVISIONS[1]
_JUN_2025: Final = REVISIONS[2]

# Up to 2025-11-25 structured content is an object (schema, CallToolResult), since then
# any value. By name: comparing revisions takes as long as the rest of a result.
_HAVE_OBJECTS: Final = frozenset(each.name for each in REVISIONS if each >= _JUN_2025)
_HAVE_ANYTHING: Final = frozenset(
    each.name for each in REVISIONS if each.era is Era.STATELESS
)

_JSON: Final = "application/json"
_BYTES: Final = (bytes, bytearray, memoryview)


def tool_result(value: Any, returns: Returns, revision: Revision) -> dict[str, Any]:
    """Make the result of a tool.

    Raises:
        BadResult: The value breaks the tool's output schema.
        TypeError: It has no JSON form.
        LocalProtocolError: So it is with something in it; names its path.
    """
    if returns.schema is None:
        if type(value) is str:
            return {"content": [{"type": "text", "text": value}]}
        return _free(value, returns, revision)
    if isinstance(value, WireType):
        return _ready(value, returns, revision)
    if type(value) is returns.scalar:
        structured, shown = {WRAPPED: value}, value
    else:
        structured = returns.to_structured(value)
        shown = structured[WRAPPED] if returns.is_wrapped else structured
    # 2026-07-28 server/tools, "Structured Content": the JSON SHOULD be there as text,
    # for clients that look at nothing else. A lone text needs no quotes.
    text = shown if type(shown) is str else to_json(shown).decode()
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    names = _HAVE_OBJECTS if type(structured) is dict else _HAVE_ANYTHING
    if revision.name in names:
        result["structuredContent"] = structured
    return result


def _free(value: Any, returns: Returns, revision: Revision) -> dict[str, Any]:
    """Make the result of a tool that says nothing of its data."""
    if isinstance(value, WireType):
        from mcpwire.types import CallToolResult

        if isinstance(value, CallToolResult):
            return _ready(value, returns, revision)
    elif is_record(value) and not isinstance(value, Media):
        data = plain(value)
        text = to_json(data).decode()
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
        if returns.is_structured and revision.name in _HAVE_OBJECTS:
            result["structuredContent"] = data
        return result
    return {"content": _blocks(value, revision)}


def _ready(value: WireType, returns: Returns, revision: Revision) -> dict[str, Any]:
    """Make the raw form of a result that a function made itself.

    Raises:
        BadResult: It is no such result, or without the data that the tool promises.
    """
    from mcpwire.types import CallToolResult, encode

    if not isinstance(value, CallToolResult):
        raise BadResult(
            f"the tool's schema promises data, and it returned {type(value).__name__}"
        )
    structured = value.structured_content
    result: dict[str, Any] = encode(value, revision)
    if type(structured) is not dict and revision.name not in _HAVE_ANYTHING:
        result.pop("structuredContent", None)
    result["content"] = [_at(block, revision) for block in result["content"]]
    if value.is_error:
        return result
    if structured is UNSET:
        if returns.schema is not None:
            raise BadResult("the result lacks the data that the tool's schema promises")
        return result
    returns.check(structured)
    if not result["content"]:
        result["content"] = [{"type": "text", "text": to_json(structured).decode()}]
    return result


# --- blocks


def _blocks(value: Any, revision: Revision) -> list[dict[str, Any]]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)) and any(map(_is_content, value)):
        return [_block(each, revision) for each in value]
    return [_block(value, revision)]


def _is_content(value: Any) -> bool:
    return isinstance(value, (WireType, Media, *_BYTES))


def _block(value: Any, revision: Revision) -> dict[str, Any]:
    """Make one content block."""
    if isinstance(value, str):
        return {"type": "text", "text": str.__str__(value)}
    if isinstance(value, WireType):
        return _at(_typed(value, revision), revision)
    if isinstance(value, _BYTES):
        value = File(bytes(value))
    if isinstance(value, Media):
        return _at(_media_block(value), revision)
    return {"type": "text", "text": to_json(plain(value)).decode()}


def _media_block(value: Media) -> dict[str, Any]:
    block = getattr(value, "block", None)
    if block is None:
        raise TypeError("return an Image, an Audio or a File")
    made: dict[str, Any] = block()
    return made


def _typed(value: WireType, revision: Revision) -> dict[str, Any]:
    """Return the raw form of a content block, or of contents of a resource.

    Raises:
        TypeError: It is neither.
    """
    from mcpwire.types import BlobResourceContents, TextResourceContents, encode

    raw: dict[str, Any] = encode(value, revision)
    if isinstance(value, (TextResourceContents, BlobResourceContents)):
        return {"type": "resource", "resource": raw}
    if "type" not in raw:
        raise TypeError(f"{type(value).__name__} is no content")
    return raw


def _at(block: dict[str, Any], revision: Revision) -> dict[str, Any]:
    """Return a block in a form that a revision knows."""
    if revision.name in _HAVE_OBJECTS:
        return block
    kind = block.get("type")
    if kind == "resource_link":
        return {"type": "text", "text": f"{block['name']}: {block['uri']}"}
    if kind == "audio" and revision < _MAR_2025:
        contents = {"uri": "file:///audio", "mimeType": block["mimeType"]}
        return {"type": "resource", "resource": {**contents, "blob": block["data"]}}
    return block


# --- resources


def resource_contents(
    value: Any, uri: str, mime_type: str | None = None
) -> list[dict[str, Any]]:
    """Make the contents of a resource: of text, bytes, data, or contents themselves.

    Raises:
        TypeError: The value has no such form.
    """
    if isinstance(value, (list, tuple)) and any(map(_is_content, value)):
        return [_contents(each, uri, mime_type) for each in value]
    if isinstance(value, WireType):
        from mcpwire.types import ReadResourceResult

        if isinstance(value, ReadResourceResult):
            return [_contents(each, uri, mime_type) for each in value.contents]
    return [_contents(value, uri, mime_type)]


def _contents(value: Any, uri: str, mime_type: str | None) -> dict[str, Any]:
    if isinstance(value, str):
        return _named(uri, mime_type, "text", str.__str__(value))
    if isinstance(value, _BYTES):
        return _named(uri, mime_type, "blob", base64_of(bytes(value)))
    if isinstance(value, File):
        return value.contents(uri)
    if isinstance(value, Media):
        data = value.read()
        return _named(uri, value.media_type(data), "blob", base64_of(data))
    if isinstance(value, WireType):
        return _typed_contents(value)
    return _named(uri, mime_type or _JSON, "text", to_json(plain(value)).decode())


def _named(uri: str, mime_type: str | None, member: str, body: str) -> dict[str, Any]:
    named = {"uri": uri} if mime_type is None else {"uri": uri, "mimeType": mime_type}
    return {**named, member: body}


def _typed_contents(value: WireType) -> dict[str, Any]:
    from mcpwire.types import EmbeddedResource, encode

    if isinstance(value, EmbeddedResource):
        value = value.resource
    raw: dict[str, Any] = encode(value)
    if "uri" not in raw or not ("text" in raw or "blob" in raw):
        raise TypeError(f"{type(value).__name__} is no contents of a resource")
    return raw


# --- prompts


def prompt_result(
    value: Any, description: str | None = None, revision: Revision = LATEST
) -> dict[str, Any]:
    """Make the result of a prompt: of texts, content, and messages.

    Raises:
        TypeError: The value is none of these.
    """
    from mcpwire.types import GetPromptResult, encode

    if isinstance(value, GetPromptResult):
        result: dict[str, Any] = encode(value, revision)
        messages = result["messages"]
    else:
        several = value if isinstance(value, (list, tuple)) else [value]
        result, messages = {}, [_message(each, revision) for each in several]
    if description is not None:
        result.setdefault("description", description)
    result["messages"] = [
        {**each, "content": _at(each["content"], revision)} for each in messages
    ]
    return result


def _message(value: Any, revision: Revision) -> dict[str, Any]:
    from mcpwire.types import PromptMessage, encode

    if isinstance(value, PromptMessage):
        message: dict[str, Any] = encode(value, revision)
        return message
    if isinstance(value, dict) and value.keys() == {"role", "content"}:
        content = value["content"]
        role = value["role"]
        if role not in {"user", "assistant"}:
            raise TypeError(f"a message's role is user or assistant, not {role!r}")
        is_raw = isinstance(content, dict) and "type" in content
        return {
            "role": role,
            "content": content if is_raw else _block(content, revision),
        }
    return {"role": "user", "content": _block(value, revision)}
