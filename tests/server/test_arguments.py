"""Validation of arguments without jsonschema-rs."""

import sys

import pytest

from mcpwire.server.authoring.signature import BadArguments, ExplicitParameters

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
        "anything": {},
    },
    "required": ["text"],
    "additionalProperties": False,
}


@pytest.fixture
def convert(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    return lambda schema, given: ExplicitParameters(schema, "a").convert(given)["a"]


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
def test_valid_arguments_pass_with_defaults_filled_in(convert, given, filled):
    checked = convert(SCHEMA, {"text": "", **given})
    assert checked == {"text": "", **filled}
    assert type(checked["count"]) is int


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
def test_invalid_argument_is_reported_with_its_reason(convert, given, reason):
    with pytest.raises(BadArguments) as caught:
        convert(SCHEMA, given)
    assert str(caught.value).startswith(reason)


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
def test_schema_keyword_refuses_only_bad_values(convert, rule, fits, breaks, reason):
    schema = {"type": "object", "properties": {"a": rule}}
    for value in fits:
        assert convert(schema, {"a": value, "b": 1}) == {"a": value, "b": 1}
    for value in breaks:
        with pytest.raises(BadArguments, match=f"a: {reason}"):
            convert(schema, {"a": value})
