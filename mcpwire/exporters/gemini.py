"""The Gemini API of Google: function declarations, calls and responses.

Its schemas are a subset of OpenAPI 3.0: one type each, no references, no combinations
but `anyOf`. Other keywords that a model can observe are added to the description.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.exporters.neutral import (
    Form,
    Media,
    make_call,
    members_of,
    parts_of,
    text_of,
)
from mcpwire.exporters.schemas import NameRule, merge_root_alternatives
from mcpwire.protocol.json_schema import (
    alternatives_of,
    branches_of,
    inline_references,
    properties_of,
    required_of,
)
from mcpwire.tools.results import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.exporters.neutral import ModelCall, Outcomes
    from mcpwire.types import JsonObject

# Fields of Schema; `format` and `enum` only allow some values.
_SUPPORTED_KEYWORDS: Final = (
    "title",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "pattern",
    "default",
)

_FORMATS: Final = {
    "string": ("date-time", "enum"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}

_DESCRIBED: Final = (
    "const",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "uniqueItems",
)
"""Keywords that it does not support and that a model can observe."""

_ANY_TYPE: Final = tuple({"type": kind} for kind in ("string", "number", "boolean"))


def _tool(name: str, description: str, schema: JsonObject) -> JsonObject:
    """Return a function declaration; without arguments it has no parameters.

    An object without properties is refused ("should be non-empty for OBJECT type").
    """
    declaration: JsonObject = {"name": name, "description": description}
    parameters = _schema(inline_references(schema))
    if parameters.get("properties"):
        declaration["parameters"] = parameters
    return declaration


def _schema(*sources: Any) -> JsonObject:
    """Return the schema of the values that any of the schemas accepts."""
    choices = [choice for source in sources for choice in _choices(source)]
    # "When using any_of, it must be the only field set."
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _choices(source: Any) -> list[JsonObject]:
    """Return the schemas of one type each that accept the values of a schema."""
    if not isinstance(source, dict):
        return list(_ANY_TYPE)
    source = _merge_all_of(source)
    branches = alternatives_of(source)
    if branches and properties_of(source):
        merged = merge_root_alternatives(source)
        source, branches = {**merged, "type": _kinds(source)}, []
    choices = []
    for inner in branches:
        if isinstance(inner, dict) and "type" in source:
            inner = {"type": source["type"], **inner}  # noqa: PLW2901 - its whole form
        choices += _choices(inner)
    if not branches:
        choices = [_single_type(source, kind) for kind in _kinds(source)]
    rest = [choice for choice in choices if choice["type"] != "null"]
    if rest and len(rest) < len(choices):
        rest = [{**choice, "nullable": True} for choice in rest]
    first, *others = rest or choices or _ANY_TYPE
    # Texts are not repeated: they may be long, and the alternatives many.
    first = {**({"title": source["title"]} if "title" in source else {}), **first}
    if description := _description(source):
        own = first.get("description")
        first["description"] = f"{description} {own}" if own else description
    return [first, *others]


def _merge_all_of(source: JsonObject) -> JsonObject:
    """Return a schema merged with its `allOf`; earlier values have priority."""
    parts = branches_of(source, "allOf")
    merged = {key: value for key, value in source.items() if key != "allOf"}
    for part in parts:
        inner = _merge_all_of(part) if isinstance(part, dict) else {}
        properties = {**properties_of(inner), **properties_of(merged)}
        required = [*required_of(merged), *required_of(inner)]
        merged = {**inner, **merged}
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = required
    return merged


def _kinds(source: JsonObject) -> list[str]:
    kind = source.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return list(dict.fromkeys(name for name in kind if isinstance(name, str)))
    if "properties" in source:
        return ["object"]
    if "items" in source:
        return ["array"]
    values = _values(source)
    is_text = values and all(isinstance(value, str) for value in values)
    return ["string"] if is_text else []


def _values(source: JsonObject) -> list[Any]:
    if isinstance(source.get("enum"), list):
        return list(source["enum"])
    return [source["const"]] if "const" in source else []


def _single_type(source: JsonObject, kind: str) -> JsonObject:
    converted: JsonObject = {"type": kind}
    converted.update((key, source[key]) for key in _SUPPORTED_KEYWORDS if key in source)
    if source.get("format") in _FORMATS.get(kind, ()):
        converted["format"] = source["format"]
    # Schema.enum: non-empty strings, and only for the type string.
    texts = [value for value in _values(source) if value and isinstance(value, str)]
    if kind == "string" and texts:
        converted["enum"] = texts
    if kind == "array":
        converted["items"] = _items(source)
    properties = properties_of(source)
    if kind == "object" and properties:
        converted["properties"] = {
            name: _schema(member) for name, member in properties.items()
        }
        # A required name that is not a property is refused.
        required = [name for name in required_of(source) if name in properties]
        if required:
            converted["required"] = required
    return converted


def _items(source: JsonObject) -> JsonObject:
    # Schema.items is required for an array: for a tuple, any of its members.
    return _schema(*(branches_of(source, "prefixItems") or [source.get("items")]))


def _description(source: JsonObject) -> str:
    notes = [f"{key}: {json_text(source[key])}" for key in _DESCRIBED if key in source]
    form = source.get("format")
    if isinstance(form, str) and not any(form in known for known in _FORMATS.values()):
        notes.append(f"format: {form}")
    values = source.get("enum")
    if isinstance(values, list) and not all(isinstance(note, str) for note in values):
        notes.append(f"one of {', '.join(map(json_text, values))}")
    own = source.get("description")
    description = [own] if own and isinstance(own, str) else []
    return " ".join([*description, *(f"({note})" for note in notes)])


def _calls(answer: object) -> list[ModelCall]:
    """Return the calls of a response, of a content, or of its parts.

    Google's Python library writes `function_call` where the API has `functionCall`.
    """
    calls = []
    for part in members_of(answer, "candidates", "content", "parts"):
        call = part.get("functionCall") or part.get("function_call")
        if isinstance(call, dict):
            calls.append(make_call(call.get("name"), call.get("args"), call.get("id")))
    return calls


def _results(outcomes: Outcomes, *, media: bool) -> list[JsonObject]:
    """Return a content with all responses, and after it one with media.

    A content must have one function response for each call.
    """
    responses: list[JsonObject] = []
    media_parts: list[JsonObject] = []
    for call, outcome in outcomes:
        parts, failed = parts_of(
            outcome,
            lambda part: (
                media and (part.kind in {"image", "audio"} or part.is_document)
            ),
        )
        # FunctionResponse.response: "output" for the output, "error" for a failure.
        response: JsonObject = {
            "name": call.called_as,
            "response": {"error" if failed else "output": text_of(parts)},
        }
        if call.id is not None:
            response["id"] = call.id
        responses.append({"functionResponse": response})
        media_parts += _inline_data(call, parts)
    contents = (responses, media_parts)
    return [{"role": "user", "parts": parts} for parts in contents if parts]


def _inline_data(call: ModelCall, parts: Iterable[str | Media]) -> list[JsonObject]:
    media = [
        {"inlineData": {"mimeType": part.mime_type, "data": part.data}}
        for part in parts
        if isinstance(part, Media)
    ]
    return [{"text": f"From the tool {call.called_as}:"}, *media] if media else []


FORM: Final = Form(
    _tool,
    _calls,
    _results,
    # FunctionDeclaration.name: starts with a letter or an underscore; a-z, A-Z, 0-9,
    # underscores, dots and dashes, with a maximum length of 64 (the stricter rules of
    # the Gemini API and Vertex AI).
    names=NameRule("A-Za-z0-9_.-", "A-Za-z_", 64),
    # FunctionDeclaration.parameters: names start with a letter or an underscore, and
    # have only letters, digits and underscores, at most 64.
    arguments=NameRule("A-Za-z0-9_", "A-Za-z_", 64),
)
