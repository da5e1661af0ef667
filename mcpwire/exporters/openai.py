"""The two APIs of OpenAI: Chat Completions and Responses.

Both take functions and refuse the same schemas. They differ in the places of the
members, and the Responses API is strict by default.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any, Final

from mcpwire.exporters.neutral import (
    Form,
    Media,
    make_call,
    members_of,
    parts_of,
    text_of,
)
from mcpwire.exporters.schemas import merge_root_alternatives
from mcpwire.protocol.json_schema import (
    branches_of,
    inline_references,
    map_schemas,
    properties_of,
    required_of,
    resolve_pointer,
    walk,
)

if TYPE_CHECKING:
    from mcpwire.exporters.neutral import ModelCall, Outcomes
    from mcpwire.types import JsonObject

_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")

_AUDIO_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def _chat_tool(
    name: str, description: str, schema: JsonObject, *, strict: bool = False
) -> JsonObject:
    """Return a tool of the Chat Completions API."""
    function = _function(name, description, schema, strict=strict)
    if not function["strict"]:
        del function["strict"]  # not strict by default
    return {"type": "function", "function": function}


def _responses_tool(
    name: str, description: str, schema: JsonObject, *, strict: bool = False
) -> JsonObject:
    """Return a tool of the Responses API, which is strict by default."""
    return {"type": "function", **_function(name, description, schema, strict=strict)}


def _function(
    name: str, description: str, schema: JsonObject, *, strict: bool
) -> JsonObject:
    parameters: JsonObject = map_schemas(
        merge_root_alternatives(schema), _remove_unsupported_patterns
    )
    strict_form = strict_schema(parameters) if strict else None
    return {
        "name": name,
        "description": description,
        "parameters": _to_accepted_schema(parameters)
        if strict_form is None
        else strict_form,
        "strict": strict_form is not None,
    }


def _to_accepted_schema(schema: JsonObject) -> JsonObject:
    """Return a schema in the form that non-strict mode accepts."""
    accepted: JsonObject = map_schemas(schema, _add_items)
    # "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not'
    # at the top level", and "object schema missing properties".
    for key in ("enum", "not"):
        accepted.pop(key, None)
    accepted.setdefault("properties", {})
    return accepted


def _remove_unsupported_patterns(schema: JsonObject) -> JsonObject:
    # "regex lookaround is not supported", and "'...' is not a 'regex'" where Python has
    # no such thing.
    changed = dict(schema)
    if "pattern" in changed and not _is_accepted(changed["pattern"]):
        del changed["pattern"]
    patterns = changed.get("patternProperties")
    if isinstance(patterns, dict) and not all(map(_is_accepted, patterns)):
        accepted = {key: value for key, value in patterns.items() if _is_accepted(key)}
        changed["patternProperties"] = accepted
        changed.pop("additionalProperties", None)  # it would refuse the others' members
    return changed


def _is_accepted(pattern: object) -> bool:
    text = str(pattern)
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return _LOOKAROUND.search(text) is None


def _add_items(schema: JsonObject) -> JsonObject:
    # "array schema missing items".
    is_incomplete = "array" in _kinds(schema) and "items" not in schema
    return {**schema, "items": {}} if is_incomplete else schema


# --- strict mode ------------------------------------------------------------------

# "Structured Outputs", supported schemas: each object forbids additional properties and
# requires all its properties, so that an optional one must accept null; the root is an
# object without alternatives; keywords outside a fixed list are refused.

_STRICT_KEYWORDS: Final = frozenset(
    {
        *("title", "description", "type", "enum", "const", "pattern", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minItems", "maxItems"),
    }
)

_STRICT_FORMATS: Final = (
    *("date-time", "time", "date", "duration"),
    *("email", "hostname", "ipv4", "ipv6", "uuid"),
)

_NOT_STRICT: Final = (
    *("allOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"),
    *("patternProperties", "propertyNames", "unevaluatedProperties"),
    *("dependentRequired", "prefixItems", "contains", "unevaluatedItems"),
    "$dynamicRef",
)
"""Keywords that change the meaning and are not supported: the tool is not strict."""

_STRICT_REFERENCE: Final = re.compile(r"#(?:/(?:\$defs|definitions)/[^/]+)?")
"""The references of strict mode: to the root, and to definitions at the root."""

_MAX_STRICT_DEPTH: Final = 10
"""Levels of nesting that strict mode takes."""

_NULL: Final = {"type": "null"}


class _NotStrictError(Exception):
    """Strict mode cannot express the schema."""


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """Return the schema for strict mode, or ``None`` if it cannot be expressed.

    Unsupported bounds, such as `minLength`, are left out: the server checks the
    arguments anyway.
    """
    references = [str(each["$ref"]) for each in walk(schema) if "$ref" in each]
    if not all(
        _STRICT_REFERENCE.fullmatch(each) and resolve_pointer(schema, each) is not None
        for each in references
    ):
        schema = inline_references(schema)
    root = dict(schema)
    root.setdefault("properties", {})
    try:
        strict = _make_strict(root, 0)
        for key in ("$defs", "definitions"):
            if isinstance(schema.get(key), dict):
                inner = schema[key].items()
                strict[key] = {name: _make_strict(each, 1) for name, each in inner}
    except _NotStrictError:
        return None
    return strict


def _make_strict(schema: Any, depth: int) -> JsonObject:
    if not isinstance(schema, dict) or depth > _MAX_STRICT_DEPTH:
        raise _NotStrictError
    if any(key in schema for key in _NOT_STRICT):
        raise _NotStrictError
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # no other keyword is allowed beside it
    converted = {key: value for key, value in schema.items() if key in _STRICT_KEYWORDS}
    if schema.get("format") in _STRICT_FORMATS:
        converted["format"] = schema["format"]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            branches = branches_of(schema, key)
            converted["anyOf"] = [_make_strict(inner, depth + 1) for inner in branches]
    kinds = _kinds(schema)
    if "object" in kinds or "properties" in schema:
        converted.update(_object(schema, depth))
    if "array" in kinds:
        converted["items"] = _make_strict(schema.get("items"), depth + 1)
    if not kinds and not converted.keys() & {"anyOf", "enum", "const", "type"}:
        raise _NotStrictError  # it accepts any value
    return converted


def _kinds(schema: JsonObject) -> list[Any]:
    kind = schema.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def _object(schema: JsonObject, depth: int) -> JsonObject:
    if schema.get("additionalProperties", False) is not False:
        raise _NotStrictError
    if "properties" not in schema and "additionalProperties" not in schema:
        raise _NotStrictError  # an object of any members
    required = required_of(schema)
    members = {}
    for name, inner in properties_of(schema).items():
        member = _make_strict(inner, depth + 1)
        members[name] = member if name in required else _make_nullable(member)
    return {
        "type": schema.get("type", "object"),
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _make_nullable(schema: JsonObject) -> JsonObject:
    if schema.get("type") is None or "const" in schema or "anyOf" in schema:
        return {"anyOf": [schema, _NULL]}
    kinds = _kinds(schema)
    nullable = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "enum" in nullable and None not in (values := branches_of(nullable, "enum")):
        nullable = {**nullable, "enum": [*values, None]}
    return nullable


# --- chat completions -------------------------------------------------------------


def _chat_calls(answer: object) -> list[ModelCall]:
    """Return the calls of a completion, of its message, or of its `tool_calls`."""
    calls = []
    for call in members_of(answer, "choices", "message", "tool_calls"):
        function = call.get("function")
        if isinstance(function, dict):
            calls.append(
                make_call(
                    function.get("name"), function.get("arguments"), call.get("id")
                )
            )
    return calls


def _chat_results(outcomes: Outcomes, *, media: bool) -> list[JsonObject]:
    """Return a tool message for each call, and after them one with media.

    Messages of the role `tool` are text; images, audio and files are in one user
    message after all of them.
    """
    messages: list[JsonObject] = []
    extra: list[JsonObject] = []
    for call, outcome in outcomes:
        parts, _ = parts_of(outcome, lambda part: media and _chat_supports(part))
        messages.append(
            {"role": "tool", "tool_call_id": call.id, "content": text_of(parts)}
        )
        converted = [_chat_part(part) for part in parts if isinstance(part, Media)]
        if converted:
            extra += [
                {"type": "text", "text": f"From the tool {call.called_as}:"},
                *converted,
            ]
    return [*messages, {"role": "user", "content": extra}] if extra else messages


def _chat_supports(part: Media) -> bool:
    return part.is_image or part.is_document or part.mime_type in _AUDIO_FORMATS


def _chat_part(part: Media) -> JsonObject:
    if part.is_image:
        return {"type": "image_url", "image_url": {"url": part.url}}
    if part.mime_type in _AUDIO_FORMATS:
        audio = {"data": part.data, "format": _AUDIO_FORMATS[part.mime_type]}
        return {"type": "input_audio", "input_audio": audio}
    return {"type": "file", "file": {"filename": part.name, "file_data": part.url}}


# --- responses --------------------------------------------------------------------


def _responses_calls(answer: object) -> list[ModelCall]:
    """Return the calls of a response, or of its `output`."""
    return [
        make_call(item.get("name"), item.get("arguments"), item.get("call_id"))
        for item in members_of(answer, "output")
        if item.get("type") == "function_call"
    ]


def _responses_results(outcomes: Outcomes, *, media: bool) -> list[JsonObject]:
    """Return an input item for each call, with a text or a list of parts."""
    items = []
    for call, outcome in outcomes:
        parts, _ = parts_of(
            outcome, lambda part: media and (part.is_image or part.is_document)
        )
        output: Any = text_of(parts)
        if any(isinstance(part, Media) for part in parts):
            output = [_responses_part(part) for part in parts]
        items.append(
            {"type": "function_call_output", "call_id": call.id, "output": output}
        )
    return items


def _responses_part(part: str | Media) -> JsonObject:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if part.is_image:
        return {"type": "input_image", "image_url": part.url}
    return {"type": "input_file", "filename": part.name, "file_data": part.url}


# Chat completions, tools[].function.name: a-z, A-Z, 0-9, underscores and dashes, with a
# maximum length of 64: the defaults of `NameRule`.
CHAT: Final = Form(_chat_tool, _chat_calls, _chat_results, can_be_strict=True)
RESPONSES: Final = Form(
    _responses_tool, _responses_calls, _responses_results, can_be_strict=True
)
