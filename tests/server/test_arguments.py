"""Arguments against a flat schema: what passes, and what is said of the rest."""

import pytest

from mcpwire import ToolError
from mcpwire.server.authoring.signature import check_arguments

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
def test_what_fits_passes_with_the_defaults_filled_in(given, filled):
    checked = check_arguments(SCHEMA, {"text": "", **given})
    assert checked == {"text": "", **filled}
    assert type(checked["count"]) is int


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "arguments must be an object, got array"),
        ("x", "arguments must be an object, got string"),
        ({}, "argument 'text' is missing"),
        (None, "argument 'text' is missing"),
        ({"text": 7}, "argument 'text' must be of type string, got integer"),
        ({"text": None}, "argument 'text' must be of type string, got null"),
        (
            {"text": "", "count": True},
            "argument 'count' must be of type integer, got boolean",
        ),
        (
            {"text": "", "count": 1.5},
            "argument 'count' must be of type integer, got number",
        ),
        (
            {"text": "", "ratio": "1"},
            "argument 'ratio' must be of type number, got string",
        ),
        (
            {"text": "", "ratio": False},
            "argument 'ratio' must be of type number, got boolean",
        ),
        ({"text": "", "flag": 1}, "argument 'flag' must be of type boolean"),
        ({"text": "", "items": {}}, "argument 'items' must be of type array"),
        ({"text": "", "more": []}, "argument 'more' must be of type object"),
        ({"text": "", "nothing": 0}, "argument 'nothing' must be of type null"),
        ({"text": "", "count": -1}, "argument 'count' must be at least 0"),
        ({"text": "", "count": 10}, "argument 'count' must be at most 9"),
        ({"text": "", "other": 1}, "argument 'other' is unknown"),
        (
            {"count": "x", "other": 1},
            "argument 'text' is missing; argument 'count' must be of type integer, got",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_reason(given, why):
    with pytest.raises(ToolError) as caught:
        check_arguments(SCHEMA, given)
    assert str(caught.value).startswith(why)


def test_unknown_arguments_pass_where_the_schema_does_not_refuse_them():
    assert check_arguments({"type": "object"}, {"a": 1}) == {"a": 1}


def test_a_long_name_is_not_repeated_whole():
    with pytest.raises(ToolError) as caught:
        check_arguments(SCHEMA, {"text": "", "x" * 10_000: 1})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("rule", "fits", "breaks", "why"),
    [
        (
            {"type": ["string", "null"]},
            [None, "x"],
            [1],
            "argument 'a' must be of type string or null, got integer",
        ),
        ({"enum": ["x", 1]}, ["x", 1, 1.0], [True, "y"], "must be one of ['x', 1]"),
        ({"const": False}, [False], [0, None], "argument 'a' must be one of [False]"),
        ({"minimum": 3}, [3, "a", None, True], [2], "argument 'a' must be at least 3"),
        ({"type": "unheard-of"}, [1, "x", None], [], ""),
        (True, [1, "x", None], [], ""),
    ],
)
def test_a_rule_says_what_it_says_and_no_more(rule, fits, breaks, why):
    schema = {"type": "object", "properties": {"a": rule}}
    for value in fits:
        assert check_arguments(schema, {"a": value}) == {"a": value}
    for value in breaks:
        with pytest.raises(ToolError) as caught:
            check_arguments(schema, {"a": value})
        assert why in str(caught.value)
