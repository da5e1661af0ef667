"""Descriptions of form fields, and parsing of the lines typed for them."""

import pytest

from mcpwire.cli.interactive import Field
from mcpwire.types import ElicitRequestFormParams, decode

EVIL = "a\x1b]0;x\x07\u202eb\nhttps://evil.example"
SAFE = "a\\x1b]0;x\\x07\\u202eb\\nhttps[://]evil.example"


def field(schema, name="f", *, is_required=False):
    form = {"type": "object", "properties": {name: schema}}
    params = decode(ElicitRequestFormParams, {"message": "m", "requestedSchema": form})
    found = params.requested_schema.properties[name]
    return Field(name, found, is_required=is_required)


TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
ENUM = {"type": "string", "enum": ["red", "green", "3"]}
TITLED = {
    "type": "string",
    "oneOf": [{"const": "a", "title": "Apple"}, {"const": "b", "title": "Bee tree"}],
}
LEGACY = {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex"]}
LIST = {"type": "array", "items": {"type": "string", "enum": ["q", "r", "s, t"]}}
TITLED_LIST = {"type": "array", "items": {"anyOf": TITLED["oneOf"]}}
STRANGE = {"type": "vector"}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (TEXT, "text"),
        ({**TEXT, "minLength": 2}, "text, at least 2 characters"),
        ({**TEXT, "maxLength": 9}, "text, at most 9 characters"),
        ({**TEXT, "minLength": 2, "maxLength": 9}, "text, 2 to 9 characters"),
        ({**TEXT, "minLength": 4, "maxLength": 4}, "text, exactly 4 characters"),
        ({**TEXT, "format": "email"}, "an email address"),
        ({**TEXT, "format": "uri"}, "an absolute URI"),
        ({**TEXT, "format": "date"}, "a date such as 2026-07-28"),
        ({**TEXT, "format": "other"}, "text"),
        (INTEGER, "an integer"),
        ({**INTEGER, "minimum": 1, "maximum": 5}, "an integer, 1 to 5"),
        ({**NUMBER, "minimum": 0.5}, "a number, at least 0.5"),
        (BOOLEAN, "yes or no"),
        (ENUM, "the number of one of these"),
        (TITLED, "the number of one of these"),
        (LIST, "any of these, as numbers separated by commas"),
        (
            {**LIST, "minItems": 1, "maxItems": 2},
            "1 to 2 of these, as numbers separated by commas",
        ),
        (STRANGE, "text, or a value as JSON"),
    ],
)
def test_field_kind_describes_the_expected_input(schema, kind):
    assert field(schema).kind == kind


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        (TEXT, "Ada", "Ada"),
        (TEXT, "12", "12"),
        (INTEGER, "12", 12),
        (INTEGER, "-3", -3),
        (NUMBER, "2.5", 2.5),
        (NUMBER, "2", 2),
        *[(BOOLEAN, word, True) for word in ("y", "Yes", "TRUE")],
        *[(BOOLEAN, word, False) for word in ("n", "no", "false")],
        (ENUM, "1", "red"),
        (ENUM, "green", "green"),
        (ENUM, "3", "3"),
        (TITLED, "2", "b"),
        (TITLED, "Bee tree", "b"),
        (LEGACY, "1", "x"),
        (LEGACY, "Ex", "x"),
        (LIST, "1,2", ["q", "r"]),
        (LIST, "2 1", ["r", "q"]),
        (LIST, "q, 3", ["q", "s, t"]),
        (TITLED_LIST, "Apple", ["a"]),
        (STRANGE, '["a"]', ["a"]),
        (STRANGE, "1.5", 1.5),
        (STRANGE, "what", "what"),
    ],
)
def test_typed_line_is_parsed_to_a_value(schema, typed, value):
    found = field(schema).parse(typed)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "typed", "reason"),
    [
        ({**TEXT, "minLength": 3}, "ab", "2 characters, the minimum is 3"),
        ({**TEXT, "format": "email"}, "x", "'x' is not an email address"),
        (INTEGER, "1.5", "must be an integer, got '1.5'"),
        (INTEGER, "", "must be an integer, got ''"),
        ({**INTEGER, "maximum": 5}, "6", "6 is above the maximum 5"),
        (NUMBER, "NaN", "must be a number, got 'NaN'"),
        (BOOLEAN, "maybe", "expected yes or no, got 'maybe'"),
        (ENUM, "4", "expected a number from 1 to 3, got '4'"),
        (ENUM, "0", "expected a number from 1 to 3, got '0'"),
        (ENUM, "\u0663", "expected a number from 1 to 3, got '\u0663'"),
        (ENUM, "9" * 5000, "expected a number from 1 to 3"),
        (TITLED, "Pear", "expected a number from 1 to 2, got 'Pear'"),
        ({**LIST, "minItems": 2}, "1", "1 chosen, the minimum is 2"),
        (STRANGE, "{}", "expected a number"),
        (STRANGE, "[" * 100_000, None),
    ],
)
def test_invalid_line_is_refused_with_the_reason(schema, typed, reason):
    if reason is None:
        assert field(schema).parse(typed) == typed  # the line stays text
        return
    with pytest.raises(ValueError) as caught:
        field(schema).parse(typed)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        (TEXT, "a", "a"),
        (TEXT, "", '""'),
        (TEXT, None, "(omitted)"),
        (TEXT, EVIL, SAFE),
        (INTEGER, 3, "3"),
        (NUMBER, 2.5, "2.5"),
        (BOOLEAN, True, "yes"),
        (BOOLEAN, False, "no"),
        (TITLED, "a", "Apple"),
        (LIST, ["q", "r"], "q, r"),
        (LIST, [], "(none)"),
        (STRANGE, ["u"], "u"),
    ],
)
def test_value_is_formatted_for_reading(schema, value, shown):
    assert field(schema).format(value) == shown


def test_empty_value_depends_on_the_field_type():
    assert field(TEXT).empty_value() == ""
    assert field(LIST).empty_value() == []
    with pytest.raises(ValueError, match="expected a number"):
        field(INTEGER).empty_value()


@pytest.mark.attack("S32")
@pytest.mark.rule("ELIC-15")
def test_field_text_is_escaped_and_contains_no_link():
    schema = {
        "type": "string",
        "title": EVIL,
        "description": EVIL,
        "oneOf": [{"const": EVIL, "title": EVIL}, {"const": EVIL + "2", "title": "t"}],
    }
    one = field(schema, EVIL)
    assert one.title == f"{SAFE} ({SAFE})"
    # Lines of the description stay lines, each marked as the server's.
    assert one.lines(200) == [
        "    | a\\x1b]0;x\\x07\\u202eb",
        "    | https[://]evil.example",
        f"    1  {SAFE}",
        f"    2  t  ({SAFE}2)",
    ]


def test_long_titles_and_descriptions_are_truncated():
    schema = {"type": "string", "title": "t" * 500, "description": "d" * 100_000}
    one = field(schema, "n" * 500)
    assert len(one.title) < 130
    lines = one.lines(80)
    assert len(lines) <= 60
    assert all(len(line) <= 80 for line in lines)
