"""Conversion of return values to results, and output schemas of return hints.

::

    str                             text
    None                            nothing
    dict, dataclass, model, ...     its JSON as text, and as structured content; so are
                                    wire types other than content
    other data                      its JSON as text
    Image, Audio, File, bytes       their blocks
    content blocks                  unchanged
    list that contains content      one block per item
    CallToolResult                  unchanged

If the return hint or `output_schema` describes the data of a tool, all its results have
structured content, and the same JSON as text. Data other than an object is wrapped in
one: up to 2025-11-25 structured content is an object.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from base64 import b64encode
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.server.authoring.conversion import (
    contains_pydantic,
    convert,
    is_record,
    read_whole,
    to_json_value,
    validator_of,
)
from mcpwire.server.authoring.schemas import Schemas, bare_hint, members_of, translate
from mcpwire.server.request import UnsendableResult
from mcpwire.types import encode
from mcpwire.types._base import UNSET, WireType
from mcpwire.types.content import (
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    TextResourceContents,
)
from mcpwire.versions import LATEST, REVISIONS, Era, Revision
from mcpwire.wire.json import encode as encode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.protocol.output_validation import SchemaValidator

_DEFAULT_TYPE: Final = "application/octet-stream"

# Magic numbers of common formats.
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"%PDF-", "application/pdf"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

# `mimetypes` depends on the system; these types are the same everywhere.
_BY_SUFFIX: Final = {
    ".flac": "audio/flac",
    ".json": "application/json",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}

_TEXT_TYPES: Final = frozenset(
    {
        "application/javascript",
        "application/json",
        "application/toml",
        "application/xml",
        "application/yaml",
        "image/svg+xml",
    }
)


def is_text(mime_type: str) -> bool:
    """Return whether a media type is text."""
    bare = mime_type.partition(";")[0].strip().lower()
    return bare.startswith("text/") or bare in _TEXT_TYPES or bare.endswith("+json")


@attrs.frozen
class Media:
    """The bytes of a media object, given or read from a path when they are needed."""

    expected: ClassVar[str] = ""
    """The prefix of the media types of this class."""

    data: bytes | None = attrs.field(default=None, repr=False)
    path: Path | None = attrs.field(
        default=None, kw_only=True, converter=attrs.converters.optional(Path)
    )
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    """If not given, it is guessed from the name of the file, or from the bytes."""

    def __attrs_post_init__(self) -> None:
        if (self.data is None) == (self.path is None):
            raise ValueError(f"{type(self).__name__} needs either data or a path")
        if self.data is not None and not isinstance(
            self.data, (bytes, bytearray, memoryview)
        ):
            raise TypeError(
                f"{type(self).__name__} needs bytes, got {type(self.data).__name__}"
            )

    def read(self) -> bytes:
        """Return the bytes.

        Raises:
            OSError: The file cannot be read.
        """
        if self.path is not None:
            return self.path.read_bytes()
        assert self.data is not None
        return bytes(self.data)

    def media_type(self, data: bytes) -> str:
        """Return the media type: given, else by the file's name, else by its bytes.

        Raises:
            ValueError: The media type does not belong to this class.
        """
        mime_type = self.mime_type or self._guess(data)
        if not mime_type.startswith(self.expected):
            raise ValueError(
                f"{type(self).__name__} needs a media type {self.expected}*, got "
                f"{mime_type!r}: give mime_type="
            )
        return mime_type

    def block(self) -> dict[str, Any]:
        """Return the content block."""
        if not self.expected:
            raise TypeError("return an Image, an Audio or a File")
        data = self.read()
        mime_type = self.media_type(data)
        kind = self.expected.rstrip("/")
        return {"type": kind, "data": base64_of(data), "mimeType": mime_type}

    def _guess(self, data: bytes) -> str:
        import mimetypes  # slow to import, and rarely needed

        by_name = None
        if self.path is not None:
            suffix = self.path.suffix.lower()
            by_name = _BY_SUFFIX.get(suffix) or mimetypes.guess_type(self.path.name)[0]
        return by_name or _by_magic(data) or _DEFAULT_TYPE


def _by_magic(data: bytes) -> str | None:
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    return next((kind for start, kind in _MAGIC if data.startswith(start)), None)


def base64_of(data: bytes) -> str:
    """Return bytes as Base64 text."""
    return b64encode(data).decode("ascii")


@attrs.frozen
class Image(Media):
    """An image: ``Image(data)`` or ``Image(path="plot.png")``."""

    expected: ClassVar[str] = "image/"


@attrs.frozen
class Audio(Media):
    """An audio clip: ``Audio(data)`` or ``Audio(path="hello.wav")``."""

    expected: ClassVar[str] = "audio/"


@attrs.frozen
class File(Media):
    """Any file, as an embedded resource: text if its media type is text."""

    uri: str | None = attrs.field(default=None, kw_only=True)
    """The URI of the resource; by default made of the file's name."""

    def contents(self, uri: str | None = None) -> dict[str, Any]:
        """Return the file as the contents of a resource."""
        data = self.read()
        mime_type = self.media_type(data)
        own_uri = self.uri or uri
        if not own_uri:
            # Only the name: clients must not learn the server's folders.
            name = "data" if self.path is None else self.path.name
            own_uri = f"file:///{quote(name, errors='surrogateescape')}"
        if is_text(mime_type):
            try:
                text = data.decode()
            except UnicodeDecodeError:
                pass  # not UTF-8 in spite of its media type: send the bytes
            else:
                return {"uri": own_uri, "mimeType": mime_type, "text": text}
        return {"uri": own_uri, "mimeType": mime_type, "blob": base64_of(data)}

    def block(self) -> dict[str, Any]:
        """Return the content block."""
        return {"type": "resource", "resource": self.contents()}


def to_json(value: Any) -> bytes:
    """Return a part of a result as JSON. Raises `UnsendableResult`."""
    try:
        return encode_json(value)
    except LocalProtocolError as error:
        reason = str(error).removeprefix("cannot send ")
        raise UnsendableResult(f"the result cannot be sent: {reason}") from error


RESULT_MEMBER: Final = "result"

_SCALARS: Final = (bool, float, int, str)

_SEQUENCES: Final = frozenset(
    {list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable}
)
_AWAITABLES: Final = frozenset(
    {collections.abc.Awaitable, collections.abc.Coroutine, types.CoroutineType}
)


_OPEN_TYPES: Final = (Any, object, bytes, bytearray, typing.NoReturn, typing.Never)


class BadResult(ValueError):
    """A function returned a value that contradicts its hint or schema."""


@attrs.define(eq=False)
class Returns:
    """The declared return value of a function."""

    schema: dict[str, Any] | None = None
    hint: Any = attrs.field(default=None, kw_only=True)
    scalar: type | None = attrs.field(default=None, kw_only=True)
    validator: SchemaValidator | None = attrs.field(default=None, kw_only=True)
    is_wrapped: bool = attrs.field(default=False, kw_only=True)
    is_structured: bool = attrs.field(default=True, kw_only=True)

    def to_structured(self, value: Any) -> Any:
        """Return the structured content. Raises `BadResult`."""
        data = to_json_value(value)
        if self.hint is not None:
            self._check_hint(value, data)
        structured = {RESULT_MEMBER: data} if self.is_wrapped else data
        self.check(structured)
        return structured

    def _check_hint(self, value: Any, data: Any) -> None:
        try:
            read_whole(partial(convert, hint=self.hint), data)
        except (ValueError, RecursionError) as error:
            # Pydantic writes other members than it reads: aliases, computed fields.
            if contains_pydantic(value):
                if self.validator is None and self.schema is not None:
                    self.validator = validator_of(self.schema, "output_schema")
                return
            raise BadResult(f"the result does not fit its hint: {error}") from error

    def check(self, structured: Any) -> None:
        """Check structured content against an explicit schema. Raises `BadResult`."""
        # 2025-11-25 server/tools, "Output Schema": results MUST conform to it.
        fault = None if self.validator is None else self.validator.check(structured)
        if fault is not None:
            raise BadResult(f"the result breaks its output schema: {fault}")


def read_returns(
    hint: Any,
    *,
    output_schema: Mapping[str, Any] | None = None,
    structured: bool | None = None,
    validate: bool = True,
) -> Returns:
    """Read the declared return value of a function."""
    if structured is False:
        if output_schema is not None:
            raise ValueError("output_schema= and structured=False exclude each other")
        return Returns(is_structured=False)
    if output_schema is not None:
        if not isinstance(output_schema, dict):
            raise ValueError(
                f"output_schema: expected an object, got {output_schema!r}"
            )
        schema = deepcopy(output_schema)
        validator = validator_of(schema, "output_schema")
        return Returns(schema, validator=validator if validate else None)
    if typing.get_origin(hint) in _AWAITABLES:
        hint = typing.get_args(hint)[-1]
    derived = None if _is_open_hint(hint) else _derive_returns(hint, validate=validate)
    if derived is None and structured:
        raise TypeError(
            "structured=True needs an output_schema=, or a hint of the data that is "
            "returned"
        )
    return derived or Returns()


def _is_open_hint(hint: Any) -> bool:
    """Return whether a hint names content, or no specific data."""
    for member in members_of(hint):
        plain = bare_hint(member)
        origin, arguments = typing.get_origin(plain) or plain, typing.get_args(plain)
        if origin in _SEQUENCES:
            inner = [each for each in arguments if each is not Ellipsis] or [Any]
            if any(_is_open_hint(each) for each in inner):
                return True
        if any(plain is each for each in _OPEN_TYPES):
            return True
        if isinstance(plain, type) and issubclass(plain, (WireType, Media)):
            return True
    return bare_hint(hint) is None or bare_hint(hint) is type(None)


def _derive_returns(hint: Any, *, validate: bool) -> Returns:
    translated = translate(hint)
    schema = Schemas(for_input=False).document(translated)
    is_object = schema.get("type") == "object"
    if not is_object:
        definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
        properties = {RESULT_MEMBER: schema}
        root = {"type": "object", "properties": properties, "required": [RESULT_MEMBER]}
        schema = root | definitions
    return Returns(
        schema,
        hint=translated if validate else None,
        scalar=hint if any(hint is scalar for scalar in _SCALARS) else None,
        is_wrapped=not is_object,
    )


_MAR_2025: Final = REVISIONS[1]
_JUN_2025: Final = REVISIONS[2]

# Up to 2025-11-25 structured content is an object (schema, CallToolResult), since then
# any value. By name: comparing revisions takes as long as the rest of a result.
_OBJECT_REVISIONS: Final = frozenset(
    each.name for each in REVISIONS if each >= _JUN_2025
)
_ANY_VALUE_REVISIONS: Final = frozenset(
    each.name for each in REVISIONS if each.era is Era.STATELESS
)
_REVISIONS: Final = {True: _OBJECT_REVISIONS, False: _ANY_VALUE_REVISIONS}
"""The revisions that allow structured content, by whether it is an object."""

_JSON: Final = "application/json"
_BYTES: Final = (bytes, bytearray, memoryview)
_CONTENTS: Final = (TextResourceContents, BlobResourceContents)
_CONTENT: Final = (*typing.get_args(ContentBlock), *_CONTENTS, Media, *_BYTES)


def tool_result(value: Any, returns: Returns, revision: Revision) -> dict[str, Any]:
    """Return the result of a tool call."""
    has_schema = returns.schema is not None
    if not has_schema and type(value) is str:
        if not value.isascii():
            to_json(value)
        return {"content": [{"type": "text", "text": value}]}
    if type(value) is returns.scalar:
        structured, data = {RESULT_MEMBER: value}, value
    elif not has_schema and (isinstance(value, _CONTENT) or not is_record(value)):
        content = _blocks(value, revision)
        to_json(content)
        return {"content": content}
    elif isinstance(value, WireType) and _is_result(value):
        return _encode_result(value, returns, revision)
    else:
        structured = returns.to_structured(value)
        data = structured[RESULT_MEMBER] if returns.is_wrapped else structured
    # 2026-07-28 server/tools, "Structured Content": the JSON SHOULD also be in a text,
    # for clients that ignore structured content. A single text is sent unquoted.
    text = data
    if type(text) is not str or not has_schema:
        text = to_json(text).decode()
    elif not text.isascii():
        to_json(text)
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    # The JSON of some models, such as a pydantic `RootModel`, is no object.
    if returns.is_structured and revision.name in _REVISIONS[type(structured) is dict]:
        result["structuredContent"] = structured
    return result


def _is_result(value: WireType) -> bool:
    """Return whether a value is a result or content, and not the data of a tool."""
    from mcpwire.types import CallToolResult

    return isinstance(value, (CallToolResult, *_CONTENT))


def _encode_result(
    value: WireType, returns: Returns, revision: Revision
) -> dict[str, Any]:
    """Return the wire form of a result that the function built itself."""
    from mcpwire.types import CallToolResult

    if not isinstance(value, CallToolResult):
        raise BadResult(
            f"the tool's schema requires structured data, got {type(value).__name__}"
        )
    structured = value.structured_content
    result: dict[str, Any] = encode(value, revision)
    to_json(result)
    if not isinstance(structured, dict) and revision.name not in _ANY_VALUE_REVISIONS:
        result.pop("structuredContent", None)
    result["content"] = [adapt_block(block, revision) for block in result["content"]]
    if value.is_error:
        return result
    if structured is UNSET:
        if returns.schema is not None:
            raise BadResult(
                "the result lacks the structured data that the tool's schema requires"
            )
        return result
    returns.check(structured)
    if not result["content"]:
        result["content"] = [{"type": "text", "text": to_json(structured).decode()}]
    return result


# --- blocks


def _blocks(value: Any, revision: Revision) -> list[dict[str, Any]]:
    if value is None:
        return []
    items = value if _holds_content(value) else [value]
    return [_block(item, revision) for item in items]


def _holds_content(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(
        isinstance(item, _CONTENT) for item in value
    )


def _block(value: Any, revision: Revision) -> dict[str, Any]:
    if isinstance(value, str):
        return {"type": "text", "text": str.__str__(value)}
    if isinstance(value, _BYTES):
        value = File(bytes(value))
    if isinstance(value, Media):
        block = value.block()
    elif not isinstance(value, WireType):
        return {"type": "text", "text": to_json(to_json_value(value)).decode()}
    else:
        block = encode(value, revision)
        if isinstance(value, _CONTENTS):
            block = {"type": "resource", "resource": block}
        elif "type" not in block:
            raise TypeError(f"{type(value).__name__} is not content")
    return adapt_block(block, revision)


def adapt_block(block: dict[str, Any], revision: Revision) -> dict[str, Any]:
    """Return a block in a form that a revision supports."""
    if revision.name in _OBJECT_REVISIONS:
        return block
    kind = block.get("type")
    if kind == "resource_link":
        return {"type": "text", "text": f"{block.get('name')}: {block.get('uri')}"}
    if kind == "audio" and revision < _MAR_2025:
        contents = {"uri": "file:///audio", "mimeType": block.get("mimeType")}
        return {"type": "resource", "resource": {**contents, "blob": block.get("data")}}
    return block


# --- resources


def resource_contents(
    value: Any, uri: str, mime_type: str | None = None
) -> list[dict[str, Any]]:
    """Return the contents of a resource, each with a media type."""
    items: Iterable[Any] = value if _holds_content(value) else [value]
    if isinstance(value, WireType):
        from mcpwire.types import ReadResourceResult

        if isinstance(value, ReadResourceResult):
            items = value.contents
    contents = [_contents(item, uri, mime_type) for item in items]
    for item in contents:
        item.setdefault("mimeType", "text/plain" if "text" in item else _DEFAULT_TYPE)
    to_json(contents)
    return contents


def _contents(value: Any, uri: str, mime_type: str | None) -> dict[str, Any]:
    if isinstance(value, str):
        return _item(uri, mime_type, "text", str.__str__(value))
    if isinstance(value, _BYTES):
        return _item(uri, mime_type, "blob", base64_of(bytes(value)))
    if isinstance(value, File):
        return value.contents(uri)
    if isinstance(value, Media):
        data = value.read()
        return _item(uri, value.media_type(data), "blob", base64_of(data))
    if isinstance(value, WireType):
        resource = value.resource if isinstance(value, EmbeddedResource) else value
        raw: dict[str, Any] = encode(resource)
        if "uri" not in raw or not ("text" in raw or "blob" in raw):
            raise TypeError(
                f"{type(resource).__name__} is not the contents of a resource"
            )
        return raw
    return _item(
        uri, mime_type or _JSON, "text", to_json(to_json_value(value)).decode()
    )


def _item(uri: str, mime_type: str | None, member: str, body: str) -> dict[str, Any]:
    item = {"uri": uri} if mime_type is None else {"uri": uri, "mimeType": mime_type}
    return {**item, member: body}


# --- prompts


def prompt_result(
    value: Any, description: str | None = None, revision: Revision = LATEST
) -> dict[str, Any]:
    """Return the result of a prompt, from texts, content and messages."""
    from mcpwire.types import GetPromptResult

    if isinstance(value, GetPromptResult):
        result: dict[str, Any] = encode(value, revision)
        messages = result["messages"]
    else:
        items = value if isinstance(value, (list, tuple)) else [value]
        result, messages = {}, [_message(message, revision) for message in items]
    if description is not None:
        result.setdefault("description", description)
    result["messages"] = [
        {**message, "content": adapt_block(message["content"], revision)}
        for message in messages
    ]
    to_json(result)
    return result


def _message(value: Any, revision: Revision) -> dict[str, Any]:
    from mcpwire.types import PromptMessage

    if isinstance(value, PromptMessage):
        message: dict[str, Any] = encode(value, revision)
        return message
    if isinstance(value, dict) and value.keys() == {"role", "content"}:
        role, content = value["role"], value["content"]
        if role not in {"user", "assistant"}:
            raise TypeError(f"a message's role is user or assistant, not {role!r}")
        if not (isinstance(content, dict) and "type" in content):
            content = _block(content, revision)
        return {"role": role, "content": content}
    return {"role": "user", "content": _block(value, revision)}
