"""Tools in the form of each vendor's API."""

import json

import attrs
import pytest

from mcpwire.exporters import EXPORT_FORMS, Export
from mcpwire.types import Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "where": {"$ref": "#/$defs/point"},
        "tags": {"type": "array"},
        "when": {"type": "string", "format": "date-time"},
    },
    "required": ["where"],
    "additionalProperties": False,
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
}

POINT = Tool("map.draw", SCHEMA, description="Draw a point.")
BARE = Tool("ping", {"type": "object"})


def only(form, tool=POINT, **options):
    (made,) = Export([tool], form, **options)
    return made


@pytest.mark.system("V15", "A72", "L-V10")
def test_neutral_keeps_the_whole_schema():
    assert only("neutral") == {
        "name": "map.draw",
        "description": "Draw a point.",
        "input_schema": SCHEMA,
    }
    assert only("neutral", BARE) == {
        "name": "ping",
        "description": "",
        "input_schema": {"type": "object"},
    }


SCHEMA_OF = {
    "neutral": lambda made: made["input_schema"],
    "anthropic": lambda made: made["input_schema"],
    "openai": lambda made: made["function"]["parameters"],
    "openai-responses": lambda made: made["parameters"],
    "gemini": lambda made: made["parameters"],
}


@pytest.mark.system("V15")
def test_each_form_has_the_name_the_description_and_the_schema():
    properties = {"where": {"type": "string", "description": "A place."}}
    schema = {"type": "object", "properties": properties, "required": ["where"]}
    tool = Tool("draw", schema, description="Draw a point.")
    assert set(SCHEMA_OF) == set(EXPORT_FORMS)
    for form, schema_of in SCHEMA_OF.items():
        made = only(form, tool)
        assert schema_of(made) == schema, form
        about = made.get("function", made)
        assert (about["name"], about["description"]) == ("draw", "Draw a point.")
        assert made.get("type", "function") == "function"


@pytest.mark.system("L-V10")
def test_anthropic_keeps_every_keyword_of_the_schema():
    made = only("anthropic")
    assert set(made) == {"name", "description", "input_schema"}
    assert made["input_schema"] == SCHEMA
    assert made["name"].startswith("map_draw_")


def test_openai_schema_gets_required_items_and_properties():
    made = only("openai")
    assert made["type"] == "function"
    assert "strict" not in made["function"]
    parameters = made["function"]["parameters"]
    assert parameters["properties"]["tags"] == {"type": "array", "items": {}}
    assert parameters["$defs"] == SCHEMA["$defs"]
    bare = only("openai", BARE)["function"]["parameters"]
    assert bare == {"type": "object", "properties": {}}
    odd = Tool("odd", {"enum": [{}], "not": {}, "items": {"type": ["array", "null"]}})
    assert only("openai", odd)["function"]["parameters"] == {
        "type": "object",
        "properties": {},
        "items": {"type": ["array", "null"], "items": {}},
    }


def test_responses_api_tool_is_marked_not_strict():
    made = only("openai-responses")
    assert (made["type"], made["strict"]) == ("function", False)
    assert made["parameters"]["required"] == ["where"]


def test_openai_tool_is_strict_if_requested_and_possible():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = Tool("a", schema)
    function = only("openai", tool, strict=True)["function"]
    assert function["strict"] is True
    assert function["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert only("openai-responses", tool, strict=True)["strict"] is True
    # Its array has no schema for items.
    assert only("openai-responses", strict=True)["strict"] is False
    assert "strict" not in only("openai", strict=True)["function"]


@pytest.mark.parametrize("form", ["neutral", "anthropic", "gemini"])
def test_strict_is_refused_for_forms_without_strict_mode(form):
    with pytest.raises(ValueError, match="strict"):
        Export([POINT], form, strict=True)


def test_gemini_schema_has_inlined_references():
    made = only("gemini")
    assert made["name"] == "map.draw"
    anything = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}
    assert made["parameters"] == {
        "type": "object",
        "properties": {
            "where": {"type": "object", "properties": {"x": {"type": "number"}}},
            "tags": {"type": "array", "items": anything},
            "when": {"type": "string", "format": "date-time"},
        },
        "required": ["where"],
    }
    assert only("gemini", BARE) == {"name": "ping", "description": ""}


TEXT = {"type": "string"}
NUMBER = {"type": "number"}
ANY_TYPE = {"anyOf": [TEXT, NUMBER, {"type": "boolean"}]}
OR_NULL = {"nullable": True}


def whole(properties, *required):
    """Return an object's schema."""
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


GEMINI = [
    ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
    ({"type": "null"}, {"type": "null"}),
    ({"type": ["string", "integer"]}, {"anyOf": [TEXT, {"type": "integer"}]}),
    (
        {"type": ["string", "integer", "null"]},
        {"anyOf": [{**TEXT, **OR_NULL}, {"type": "integer", **OR_NULL}]},
    ),
    (
        {
            "anyOf": [
                {**TEXT, "description": "e"},
                {"anyOf": [whole({"a": TEXT}), {"type": "null"}]},
            ],
            "title": "T",
            "description": "d",
        },
        {
            "anyOf": [
                {**TEXT, "title": "T", "description": "d e"},
                {**whole({"a": TEXT}), **OR_NULL},
            ]
        },
    ),
    (
        {
            **whole({"a": TEXT, "b": TEXT}),
            "type": ["object", "null"],
            "anyOf": [{"required": ["a"]}, {"title": "b"}],
        },
        {**whole({"a": TEXT, "b": TEXT}), **OR_NULL},
    ),
    (
        {
            "type": ["string", "null"],
            "oneOf": [{"format": "date-time"}, {"pattern": "^2"}],
        },
        {
            "anyOf": [
                {**TEXT, **OR_NULL, "format": "date-time"},
                {**TEXT, **OR_NULL, "pattern": "^2"},
            ]
        },
    ),
    ({"type": ["null"]}, {"type": "null"}),
    (
        {"oneOf": [TEXT, {"type": "null"}], "title": "T"},
        {**TEXT, "nullable": True, "title": "T"},
    ),
    ({"anyOf": [{"type": "null"}]}, {"type": "null"}),
    ({"anyOf": [TEXT, {"type": "boolean"}]}, {"anyOf": [TEXT, {"type": "boolean"}]}),
    ({"enum": ["a", "", "b"]}, {**TEXT, "enum": ["a", "b"]}),
    ({"const": "a"}, {**TEXT, "enum": ["a"], "description": '(const: "a")'}),
    (
        {"type": "integer", "enum": [1, 2], "description": "how many"},
        {"type": "integer", "description": "how many (one of 1, 2)"},
    ),
    ({**TEXT, "format": "email"}, {**TEXT, "description": "(format: email)"}),
    ({"type": "integer", "format": "int32"}, {"type": "integer", "format": "int32"}),
    (
        {**NUMBER, "minimum": 0, "exclusiveMaximum": 5, "multipleOf": 2},
        {
            **NUMBER,
            "minimum": 0,
            "description": "(exclusiveMaximum: 5) (multipleOf: 2)",
        },
    ),
    (whole({"a": TEXT}, "a", "b"), whole({"a": TEXT}, "a")),
    (whole({}, "b"), {"type": "object"}),
    ({"properties": {"a": TEXT}}, whole({"a": TEXT})),
    ({"items": TEXT}, {"type": "array", "items": TEXT}),
    (
        {"type": "array", "prefixItems": [TEXT, NUMBER]},
        {"type": "array", "items": {"anyOf": [TEXT, NUMBER]}},
    ),
    (
        {
            "allOf": [
                whole({"a": TEXT}, "a"),
                {"properties": {"b": TEXT}, "required": ["b"]},
                True,
            ],
            "description": "both",
        },
        {**whole({"b": TEXT, "a": TEXT}, "a", "b"), "description": "both"},
    ),
    ({"type": 5}, ANY_TYPE),
    (True, ANY_TYPE),
]


@pytest.mark.parametrize(("schema", "made"), GEMINI)
def test_gemini_schema_uses_only_supported_keywords(schema, made):
    tool = Tool("t", {"type": "object", "properties": {"x": schema}})
    assert only("gemini", tool)["parameters"]["properties"]["x"] == made


@pytest.mark.parametrize("form", ["anthropic", "gemini"])
def test_disallowed_argument_names_are_rewritten_and_mapped_back(form):
    schema = {
        "type": "object",
        "properties": {"$filter": {"type": "string"}, "top": {"type": "integer"}},
        "required": ["$filter", "nothing"],
    }
    made = Export([Tool("query", schema)], form)
    (tool,) = made
    offered = tool["input_schema" if form == "anthropic" else "parameters"]
    first, second = offered["properties"]
    assert first.startswith("_filter_")
    assert second == "top"
    assert offered["required"] == [first]
    call_members = {"name": "query", "input": {first: "x", "top": 1, "more": 2}}
    response = {
        "anthropic": {"content": [{"type": "tool_use", **call_members}]},
        "gemini": [{"functionCall": {**call_members, "args": call_members["input"]}}],
    }[form]
    (call,) = made.calls(response)
    assert call.arguments == {"$filter": "x", "top": 1, "more": 2}


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_description_is_truncated_only_with_max_description(form):
    tool = Tool("t", {"type": "object"}, description="long " * 500)
    assert tool.description in json.dumps(only(form, tool))
    cut = json.dumps(only(form, tool, max_description=1024))
    assert "more bytes]" in cut
    assert len(cut) < 1300


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_export_does_not_change_the_tools(form):
    before = json.dumps(attrs.asdict(POINT))
    Export([POINT], form)
    assert json.dumps(attrs.asdict(POINT)) == before


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="form must be 'neutral', 'anthropic'"):
        Export([POINT], "morse")
