"""The vendor-neutral form; calls and outcomes for all forms."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import attrs

from mcpwire.exporters.schemas import NameRule
from mcpwire.tools.results import describe_block, json_text
from mcpwire.types import UNSET, encode
from mcpwire.types.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from mcpwire.types.tools import CallToolResult
from mcpwire.wire.json import JSONDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcpwire.types import JsonObject
    from mcpwire.types.content import ContentBlock


class Exportable(Protocol):
    """The attributes of a tool that are exported; a `ToolView` has them."""

    @property
    def name(self) -> str:
        """The name of the tool."""

    @property
    def description(self) -> str | None:
        """The description for the model."""

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of its arguments."""


@attrs.frozen
class ModelCall:
    """A call that a model requests."""

    name: str
    """The original name of the tool; of an unknown tool the model's name."""

    arguments: dict[str, Any]
    id: str | None = None
    """The id that the result must repeat, if the API has ids."""

    problem: str | None = None
    """The error in the arguments, as a result for the model; the tool is not called."""

    called_as: str = ""
    """The name in the model's answer."""


Outcome: TypeAlias = CallToolResult | Exception | str
"""The outcome of a call: its result, an exception or an error text."""

Outcomes: TypeAlias = "Iterable[tuple[ModelCall, Outcome]]"


_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


@attrs.frozen
class Media:
    """A part of a result that is not text."""

    kind: str
    """``"image"``, ``"audio"`` or ``"file"``."""

    mime_type: str
    data: str
    """In Base64."""

    name: str = ""

    @property
    def url(self) -> str:
        """The media as a `data:` URL."""
        return f"data:{self.mime_type};base64,{self.data}"

    @property
    def is_image(self) -> bool:
        """Whether it is an image that Anthropic and OpenAI accept."""
        return self.mime_type in _IMAGES

    @property
    def is_document(self) -> bool:
        """Whether it is a PDF document."""
        return self.mime_type == "application/pdf"


@attrs.frozen
class Form:
    """The format of tools, calls and results of one API."""

    tool: Callable[..., JsonObject]
    """Makes a tool of name, description and schema; with `can_be_strict`, `strict`."""

    calls: Callable[[object], list[ModelCall]]
    results: Callable[..., list[JsonObject]]
    names: NameRule = attrs.field(factory=NameRule)
    """The rule for names of tools."""

    arguments: NameRule | None = None
    """The rule for names of arguments; ``None``: no rule."""

    can_be_strict: bool = False


def make_call(raw_name: object, arguments: object, raw_id: object = None) -> ModelCall:
    """Return a call from the members of a model's answer, also of wrong types."""
    name = raw_name if isinstance(raw_name, str) else ""
    call_id = raw_id if isinstance(raw_id, str) else None
    problem = None
    if isinstance(arguments, str):
        try:
            arguments = loads(arguments or "{}")
        except JSONDecodeError as error:
            arguments, problem = {}, f"the arguments are not JSON: {error}"
    if not isinstance(arguments, (dict, NoneType)):
        kind = type(arguments).__name__
        arguments, problem = {}, f"the arguments must be one JSON object, got {kind}"
    return ModelCall(name, arguments or {}, call_id, problem, name)


def _to_plain_object(part: Any) -> Any:
    """Return a part of an answer; a model of a vendor's library is converted."""
    dump = getattr(part, "model_dump", None)
    return part if dump is None else dump()


def members_of(answer: object, *path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list in an answer.

    The answer is the list itself, or an object with the rest of the path; of lists on
    the way (alternative answers) the first member is used.
    """
    for depth, key in enumerate(path):
        answer = _to_plain_object(answer)
        if isinstance(answer, dict) and key not in answer:
            continue  # the caller passed an inner part
        if isinstance(answer, list):
            if not depth or not answer:
                break
            answer = _to_plain_object(answer[0])
        answer = answer.get(key) if isinstance(answer, dict) else None
    if isinstance(answer, list):
        members = map(_to_plain_object, answer)
        yield from (member for member in members if isinstance(member, dict))


def parts_of(
    outcome: Outcome, is_supported: Callable[[Media], bool]
) -> tuple[list[str | Media], bool]:
    """Return the parts of an outcome, and whether it is a failure.

    Media that the API does not accept become text.
    """
    if not isinstance(outcome, CallToolResult):
        return [str(outcome) or type(outcome).__name__], True
    if not outcome.content and outcome.structured_content is not UNSET:
        return [json_text(outcome.structured_content)], outcome.is_error
    parts = [_part(block, is_supported) for block in outcome.content]
    return [part for part in parts if part], outcome.is_error


def text_of(parts: Iterable[str | Media]) -> str:
    """Return the text of an outcome, with a line for each other part."""
    return "\n".join(
        part if isinstance(part, str) else f"[{part.kind} {part.mime_type}, see below]"
        for part in parts
    )


def _part(block: ContentBlock, is_supported: Callable[[Media], bool]) -> str | Media:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, EmbeddedResource) and isinstance(
        block.resource, TextResourceContents
    ):
        return f"[resource {block.resource.uri}]\n{block.resource.text}"
    media = _media(block)
    if media is None:
        return json_text(encode(block))
    return media if is_supported(media) else describe_block(block)


def _media(block: ContentBlock) -> Media | None:
    if isinstance(block, (ImageContent, AudioContent)):
        return Media(block.type, block.mime_type, block.data)
    if not isinstance(block, EmbeddedResource):
        return None
    inner: Any = block.resource
    mime_type = inner.mime_type or "application/octet-stream"
    kind = mime_type.partition("/")[0]
    name = inner.uri.rstrip("/").rpartition("/")[2] or "resource"
    return Media(
        kind if kind in {"image", "audio"} else "file", mime_type, inner.blob, name
    )


def make_tool(name: str, description: str, schema: JsonObject) -> JsonObject:
    """Return a tool with its whole schema."""
    return {"name": name, "description": description, "input_schema": schema}


def _calls(answer: object) -> list[ModelCall]:
    """Return the calls of a list of ``{"name", "arguments", "id"}``."""
    return [
        make_call(call.get("name"), call.get("arguments"), call.get("id"))
        for call in members_of(answer, "calls")
    ]


def _results(outcomes: Outcomes, *, media: bool) -> list[JsonObject]:
    """Return an object for each outcome: text, blocks, and whether it failed."""
    return [_result(call, outcome, media=media) for call, outcome in outcomes]


def _result(call: ModelCall, outcome: Outcome, *, media: bool) -> JsonObject:
    parts, failed = parts_of(outcome, lambda _: False)
    result: JsonObject = {
        "id": call.id,
        "name": call.called_as,
        "text": text_of(parts),
        "is_error": failed,
    }
    if media and isinstance(outcome, CallToolResult):
        result["content"] = [encode(block) for block in outcome.content]
        if outcome.structured_content is not UNSET:
            result["structured_content"] = outcome.structured_content
    return result


FORM: Final = Form(
    make_tool,
    _calls,
    _results,
    names=NameRule(r"\s\S", r"\s\S", 1_000_000),  # all names are allowed
)
