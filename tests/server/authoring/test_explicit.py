"""Explicit input schemas are enforced, in part also without jsonschema-rs."""

import sys

import pytest

from mcpwire.server.authoring.signature import (
    BadArguments,
    ExplicitParameters,
    read_signature,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer", "default": 3, "minimum": 0, "maximum": 9},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "items": {"type": "array"},
        "more": {"type": "object"},
        "nothing": {"type": "null"},
        "anything": True,
    },
    "required": ["text"],
    "additionalProperties": False,
}


@pytest.fixture(params=[True, False], ids=["jsonschema-rs", "without it"])
def has_package(request, monkeypatch):
    if not request.param:
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    return request.param


def convert(schema, given):
    return ExplicitParameters(schema, "a").convert(given)["a"]


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({}, {"count": 3}),
        ({"count": 9}, {"count": 9}),
        ({"count": 4.0}, {"count": 4}),
        ({"ratio": 1}, {"count": 3, "ratio": 1}),
        ({"ratio": -0.5}, {"count": 3, "ratio": -0.5}),
        ({"flag": False, "items": []}, {"count": 3, "flag": False, "items": []}),
        ({"more": {}, "nothing": None}, {"count": 3, "more": {}, "nothing": None}),
        ({"anything": [None]}, {"count": 3, "anything": [None]}),
    ],
)
def test_valid_arguments_pass_with_defaults_filled_in(has_package, given, filled):
    checked = convert(SCHEMA, {"text": "", **given})
    assert checked == {"text": "", **filled}
    assert type(checked["count"]) is int


@pytest.mark.rule("TOOL-18")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "arguments: expected object, got array"),
        ({}, "text is missing"),
        (None, "text is missing"),
        ({"text": 7}, "text: expected string, got number 7"),
        ({"text": "", "count": True}, "count: expected integer, got true"),
        ({"text": "", "count": 1.5}, "count: expected integer, got number 1.5"),
        ({"text": "", "ratio": "1"}, "ratio: expected number, got string '1'"),
        ({"text": "", "ratio": False}, "ratio: expected number, got false"),
        ({"text": "", "flag": 1}, "flag: expected boolean"),
        ({"text": "", "items": {}}, "items: expected array, got object"),
        ({"text": "", "more": []}, "more: expected object, got array"),
        ({"text": "", "nothing": 0}, "nothing: expected null"),
        ({"text": "", "count": -1}, "count: expected number >= 0"),
        ({"text": "", "count": 10}, "count: expected number <= 9"),
        ({"text": "", "other": 1}, "unknown argument 'other'"),
        ({"count": "x"}, "text is missing; count: expected integer, got string 'x'"),
        ({"text": "", "x" * 10_000: 1}, f"unknown argument '{'x' * 100}…'"),
    ],
)
def test_invalid_argument_is_reported_with_its_reason(has_package, given, reason):
    with pytest.raises(BadArguments) as caught:
        convert(SCHEMA, given)
    assert str(caught.value).startswith("arguments" if has_package else reason)


@pytest.mark.parametrize(
    ("rule", "fits", "breaks", "reason"),
    [
        ({"type": ["string", "null"]}, [None, "x"], [1], "expected string or null"),
        ({"enum": ["x", 1]}, ["x", 1, 1.0], [True, "y"], "expected one of 'x', 1"),
        ({"const": False}, [False], [0, None], "expected one of False"),
        ({"minimum": 3}, [3, "a", None, True], [2], "expected number >= 3"),
        ({"type": "unheard-of"}, [1, "x", None], [], ""),
        (True, [1, "x", None], [], ""),
    ],
)
def test_keyword_refuses_only_bad_values_without_jsonschema_rs(
    rule, fits, breaks, reason, monkeypatch
):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    schema = {"type": "object", "properties": {"a": rule}}
    for value in fits:
        assert convert(schema, {"a": value, "b": 1}) == {"a": value, "b": 1}
    for value in breaks:
        with pytest.raises(BadArguments, match=f"a: {reason}"):
            convert(schema, {"a": value})


def test_sent_arguments_are_not_modified():
    sent = {"text": ""}
    assert convert(SCHEMA, sent) == {"text": "", "count": 3}
    assert sent == {"text": ""}


def test_error_names_the_location():
    with pytest.raises(BadArguments, match=r"^arguments\.count: breaks minimum: 0$"):
        ExplicitParameters(SCHEMA, None).convert({"text": "", "count": -1})


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
    assert parameters.names == tuple(SCHEMA["properties"])
    assert parameters.required == {"text"}


def test_strings_are_not_converted():
    parameters = ExplicitParameters(SCHEMA, "a")
    made = parameters.convert_strings({"text": "3"})
    assert made == {"a": {"text": "3", "count": 3}}
