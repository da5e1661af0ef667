"""Explicit input schemas are enforced (without jsonschema-rs: test_arguments)."""

import re

import pytest

from mcpwire.server.authoring.signature import (
    BadArguments,
    ExplicitParameters,
    read_signature,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Rome", "Oslo"]},
        "days": {"type": "integer", "default": 3, "minimum": 1},
        "free": True,
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture
def parameters():
    return ExplicitParameters(SCHEMA, "arguments")


def test_arguments_are_one_dict_with_defaults(parameters):
    made = parameters.convert({"city": "Rome", "free": [1.0]})
    assert made == {"arguments": {"city": "Rome", "days": 3, "free": [1.0]}}


def test_a_whole_number_is_an_integer(parameters):
    days = parameters.convert({"city": "Rome", "days": 2.0})["arguments"]["days"]
    assert (days, type(days)) == (2, int)


def test_sent_arguments_are_not_modified(parameters):
    sent = {"city": "Rome"}
    parameters.convert(sent)
    assert sent == {"city": "Rome"}


@pytest.mark.parametrize(
    "sent",
    [
        None,
        {},
        [],
        {"city": 7},
        {"city": "Paris"},
        {"city": "Rome", "days": 0},
        {"city": "Rome", "days": 1.5},
        {"city": "Rome", "zz": 1},
        {"city": "Rome", "days": "3"},
    ],
)
@pytest.mark.rule("TOOL-18")
def test_arguments_violating_the_schema_are_refused(parameters, sent):
    with pytest.raises(BadArguments) as caught:
        parameters.convert(sent)
    assert "structuredContent" not in str(caught.value)
    assert re.search(r"arguments?|city|days", str(caught.value))


def test_error_names_the_location():
    with pytest.raises(BadArguments, match=r"^arguments\.days: breaks minimum: 1$"):
        ExplicitParameters(SCHEMA, None).convert({"city": "Rome", "days": 0})


def test_all_schema_keywords_are_enforced():
    schema = {
        "type": "object",
        "anyOf": [{"required": ["phone"]}, {"required": ["email"]}],
        "properties": {"near": {"$ref": "#/$defs/place"}},
        "$defs": {"place": {"type": "object", "required": ["x"]}},
    }
    parameters = ExplicitParameters(schema, "a")
    assert parameters.convert({"phone": "1"}) == {"a": {"phone": "1"}}
    for wrong in ({}, {"phone": "1", "near": {}}):
        with pytest.raises(BadArguments):
            parameters.convert(wrong)


@pytest.mark.attack("S14")
def test_value_too_costly_to_validate_is_refused():
    doubling = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"type": "array", "items": doubling}},
    }
    sent = inner = []
    for _ in range(40):
        inner.append(inner := [])
    with pytest.raises(BadArguments, match="too large, or nested too deeply"):
        ExplicitParameters(schema, "a").convert({"a": sent})


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, '"type": "object"'),
        ({"type": "array"}, '"type": "object"'),
        ({"type": ["object"]}, '"type": "object"'),
        (True, '"type": "object"'),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, "cannot be used"),
        ({"type": "object", "$schema": "https://else/where"}, "dialect"),
        (
            {"type": "object", "$ref": "https://else.where/schema"},
            "refers to nothing within it",
        ),
        (
            {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}},
            "'(?=a)b' is not supported: patterns take linear time",
        ),
    ],
)
@pytest.mark.rule("TOOL-06", "SCH-05")
def test_invalid_input_schema_is_refused_at_registration(schema, reason):
    def function(arguments): ...

    with pytest.raises(ValueError, match="input_schema") as caught:
        read_signature(function, input_schema=schema)
    assert reason in str(caught.value)
    assert "function (" in str(caught.value)


def test_schema_is_copied():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    parameters = ExplicitParameters(schema, None)
    schema["properties"]["a"]["type"] = "string"
    assert parameters.convert({"a": 1}) == {}


def test_names_come_from_the_schema():
    parameters = ExplicitParameters(SCHEMA, None)
    assert parameters.names == ("city", "days", "free")
    assert parameters.required == {"city"}


def test_strings_are_not_converted():
    parameters = ExplicitParameters(SCHEMA, "a")
    made = parameters.convert_strings({"city": "Oslo"})
    assert made == {"a": {"city": "Oslo", "days": 3}}
