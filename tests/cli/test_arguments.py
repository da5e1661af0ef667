"""Words become arguments by a schema; reading of schemas, odd input included."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proportion import grows_in_proportion
from schema_values import JSON

from mcpwire.cli.arguments import (
    KINDS,
    MAX_STEPS,
    Argument,
    ParsedWords,
    SchemaReader,
    bind_prompt,
    bind_tool,
    coerce,
    json_text,
    parse_words,
    raw_arguments,
)
from mcpwire.cli.failures import UsageError
from mcpwire.types import Prompt, PromptArgument, Tool

FILES = {"text": "from a file", "data.json": '{"a": [1]}', "bad.json": "{", "at": "@x"}


@pytest.fixture(autouse=True)
def folder(tmp_path_factory, monkeypatch):
    """Run in a folder with the files."""
    folder = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)


def parse(*words):
    return parse_words(words)


@pytest.mark.parametrize(
    ("word", "argument"),
    [
        ("a=1", Argument("a", "1", is_json=False)),
        ("a=", Argument("a", "", is_json=False)),
        ("a=b=c", Argument("a", "b=c", is_json=False)),
        ("a:=1", Argument("a", 1, is_json=True)),
        ("a:=null", Argument("a", None, is_json=True)),
        ('a:={"b": "="}', Argument("a", {"b": "="}, is_json=True)),
        ("xml:lang=en", Argument("xml:lang", "en", is_json=False)),
        ("xml:lang:=2", Argument("xml:lang", 2, is_json=True)),
        ("a=@text", Argument("a", "from a file", is_json=False)),
        ("a:=@data.json", Argument("a", {"a": [1]}, is_json=True)),
        ("a=@at", Argument("a", "@x", is_json=False)),
        ('a:="@text"', Argument("a", "@text", is_json=True)),
    ],
)
def test_word_is_parsed_to_an_argument(word, argument):
    assert parse(word) == ParsedWords({}, (argument,))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a"], "'a' is not an argument: write key=value, key:=json, or - to read"),
        (["=1"], "'=1' is not an argument"),
        (["a=1", "http://h/m?x=1"], "'http://h/m?x=1' is not an argument: put"),
        ([":=1"], "':=1' is not an argument"),
        (["a=1", "a:=1"], "argument 'a' is given twice"),
        (["a:=x"], "argument 'a' is not JSON: 'x': Expecting value"),
        (["a:=NaN"], "argument 'a' is not JSON: 'NaN': NaN is not JSON"),
        (["a:=" + "[" * 100_000], "argument 'a' is not JSON"),
        (["a:=@bad.json"], "argument 'a' is not JSON: '{'"),
        (
            ["a=@no"],
            (
                "argument 'a': cannot read 'no': no such file or directory (for the "
                "text itself: a:='\"@no\"')"
            ),
        ),
    ],
)
def test_invalid_word_error_shows_the_syntax(words, sentence):
    with pytest.raises(UsageError) as caught:
        parse(*words)
    assert str(caught.value).startswith(sentence)


def test_dash_reads_an_object_from_stdin_and_words_extend_it(stdin):
    stdin('{"a": 1, "b": 1}')
    given = parse("-", "b=2")
    assert given == ParsedWords({"a": 1, "b": 1}, (Argument("b", "2", is_json=False),))
    assert raw_arguments(given) == {"a": 1, "b": "2"}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", {"type": "integer"}, 5),
        ("-5", {"type": "integer"}, -5),
        ("5", {"type": "number"}, 5),
        ("5.50", {"type": "number"}, 5.5),
        ("1e3", {"type": "number"}, 1000.0),
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("null", {"type": ["string", "null"]}, None),
        ("null", {"type": "string"}, "null"),
        ("5", {"type": "string"}, "5"),
        ("5", {"type": ["string", "integer"]}, 5),
        ("x", {"type": ["string", "integer"]}, "x"),
        ("", {"type": "string"}, ""),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("[1]", {"anyOf": [{"type": "string"}, {"type": "array"}]}, [1]),
        ("b", {"enum": ["a", "b"]}, "b"),
        ("2", {"enum": ["a", 2]}, 2),
        ("null", {"enum": ["a", None]}, None),
        ("true", {"const": True}, True),
        ("5", {}, "5"),
        ("5", None, "5"),
        ("5", True, "5"),
        ("5", {"$ref": "#/$defs/count"}, 5),
    ],
)
def test_text_is_coerced_to_the_schema_type(text, schema, value):
    found = coerce(
        text, schema, SchemaReader({"$defs": {"count": {"type": "integer"}}})
    )
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "schema", "sentence"),
    [
        ("x", {"type": "integer"}, "must be an integer, got 'x'"),
        ("5.0", {"type": "integer"}, "must be an integer, got '5.0'"),
        ("05", {"type": "integer"}, "must be an integer, got '05'"),
        ("\u0665", {"type": "integer"}, "must be an integer, got '\u0665'"),
        ("1" * 5000, {"type": "integer"}, f"must be an integer, got '{'1' * 37}...'"),
        ("nan", {"type": "number"}, "must be a number, got 'nan'"),
        ("1e999", {"type": "number"}, "must be a number, got '1e999'"),
        ("yes", {"type": "boolean"}, "must be true or false, got 'yes'"),
        ("a,b", {"type": "array"}, "must be a JSON array, got 'a,b'"),
        ("{}", {"type": "array"}, "must be a JSON array, got '{}'"),
        ("[]", {"type": "object"}, "must be a JSON object, got '[]'"),
        (
            "[" * 100_000,
            {"type": "array"},
            f"must be a JSON array, got '{'[' * 37}...'",
        ),
        ("x", {"type": ["integer", "null"]}, "must be null or an integer, got 'x'"),
        ("x", {"type": "null"}, "must be null, got 'x'"),
        (
            "rde",
            {"enum": ["red", "green"]},
            """must be "red" or "green", got 'rde'; did you mean 'red'?""",
        ),
        ("x", {"enum": ["\x1b[31m"]}, """must be "\\u001b[31m", got 'x'"""),
    ],
)
def test_text_of_the_wrong_type_is_refused(text, schema, sentence):
    with pytest.raises(ValueError) as caught:
        coerce(text, schema, SchemaReader({}))
    assert str(caught.value) == sentence


@given(st.text())
def test_text_for_a_string_is_unchanged(text):
    assert coerce(text, {"type": "string"}, SchemaReader({})) == text


@given(st.floats() | st.integers())
def test_coerced_number_is_finite_and_exact(number):
    try:
        found = coerce(str(number), {"type": "number"}, SchemaReader({}))
    except ValueError:
        assert not math.isfinite(number)
    else:
        assert found == number


ADD = Tool(
    "add",
    {
        "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}},
        "required": ["first"],
    },
)


def test_the_arguments_of_a_tool_are_bound_by_its_schema(stdin):
    stdin('{"second": "as it is"}')
    given = parse("-", "first=1")
    assert bind_tool(ADD, given) == {"second": "as it is", "first": 1}
    assert bind_tool(ADD, parse("first:=null")) == {"first": None}


NONE = Tool("add", {"properties": {}})
TWO = Tool("add", {"required": ["a", "b"]})


@pytest.mark.parametrize(
    ("tool", "words", "sentence", "suggestions"),
    [
        (
            *(ADD, ["first=1", "secnd=2"]),
            "tool 'add' has no argument 'secnd'; did you mean 'second'?",
            ("second",),
        ),
        (
            *(ADD, ["first=1", "other=2"]),
            "tool 'add' has no argument 'other'; it takes first, second",
            (),
        ),
        (NONE, ["a=1"], "tool 'add' has no argument 'a'; it takes no arguments", ()),
        (ADD, ["second=1"], "tool 'add' needs the argument 'first'", ()),
        (TWO, [], "tool 'add' needs the arguments 'a', 'b'", ()),
        (
            *(ADD, ["first=x"]),
            "argument 'first' of tool 'add' must be an integer, got 'x'",
            (),
        ),
    ],
)
def test_unknown_missing_or_invalid_argument_is_refused(
    tool, words, sentence, suggestions
):
    with pytest.raises(UsageError) as caught:
        bind_tool(tool, parse(*words))
    assert str(caught.value) == sentence
    assert caught.value.suggestions == suggestions


def test_schema_without_properties_accepts_any_argument():
    assert bind_tool(Tool("x", {"type": "object"}), parse("a=1")) == {"a": "1"}


@pytest.mark.attack("S32")
def test_server_names_are_escaped_in_error_messages():
    tool = Tool("x", {"properties": {"\x1b[31m": {}}})
    with pytest.raises(UsageError) as caught:
        bind_tool(tool, parse("a=1"))
    assert str(caught.value).isprintable()


ASK = Prompt(
    "ask", arguments=[PromptArgument("city", required=True), PromptArgument("x")]
)


def test_prompt_arguments_are_strings():
    assert bind_prompt(ASK, parse("city=5")) == {"city": "5"}
    assert bind_prompt(Prompt("ask"), parse()) == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "prompt 'ask' needs the argument 'city'"),
        (["cty=x"], "prompt 'ask' has no argument 'cty'; did you mean 'city'?"),
        (["city:=5"], "argument 'city' of prompt 'ask' must be a string, got 5"),
    ],
)
def test_invalid_prompt_argument_is_refused(words, sentence):
    with pytest.raises(UsageError) as caught:
        bind_prompt(ASK, parse(*words))
    assert str(caught.value) == sentence


# Reading of schemas for display...

ROOT = {
    "$defs": {
        "name": {"type": "string"},
        "again": {"$ref": "#/$defs/name"},
        "a/b~c": {"type": "integer"},
        "loop": {"$ref": "#/$defs/loop"},
        "": {"type": "null"},
    }
}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "integer"}, ["integer"]),
        ({"type": ["string", "null"]}, ["null", "string"]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["null", "string"]),
        (
            {"oneOf": [{"type": "array"}, {"anyOf": [{"type": "number"}]}]},
            ["number", "array"],
        ),
        ({"anyOf": [{"type": "string"}, {}]}, []),
        ({"$ref": "#/$defs/name"}, ["string"]),
        ({"$ref": "#/$defs/again", "description": "x"}, ["string"]),
        ({"$ref": "#/$defs/a~1b~0c"}, ["integer"]),
        ({"allOf": [{"type": "boolean"}]}, ["boolean"]),
        ({"$ref": "#/$defs/loop"}, []),
        ({"$ref": "#/$defs/none"}, []),
        ({"$ref": "https://example.com/schema.json"}, []),
        ({"$ref": "#"}, []),
        ({"$ref": "#/$defs/"}, ["null"]),
        ({"$ref": 7, "type": "string"}, ["string"]),
        ({"type": 7}, []),
        ({"type": "money"}, []),
        ({"anyOf": []}, []),
        ({"anyOf": 3}, []),
        (True, []),
        (None, []),
        ([], []),
    ],
)
def test_kinds_of_a_schema(schema, kinds):
    assert SchemaReader(ROOT).kinds(schema) == kinds


@pytest.mark.parametrize(
    ("schema", "choices"),
    [
        ({"enum": ["a", 1, None]}, ["a", 1, None]),
        ({"const": False}, [False]),
        ({"anyOf": [{"const": "a"}, {"enum": ["b", "c"]}]}, ["a", "b", "c"]),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, ["a", None]),
        ({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}, None),
        ({"type": "string"}, None),
        ({"enum": []}, None),
        ({"enum": "ab"}, None),
        ({}, None),
    ],
)
def test_choices_of_a_schema(schema, choices):
    assert SchemaReader(ROOT).choices(schema) == choices


def test_properties_include_those_of_subschemas():
    schema = {
        "properties": {"a": 1},
        "allOf": [{"properties": {"b": 2}}, {"$ref": "#/$defs/c"}],
        "anyOf": [{"properties": {"d": 4, "a": 0}}],
        "$defs": {"c": {"properties": {"c": 3}}},
    }
    assert SchemaReader(schema).properties() == {"a": 1, "d": 4, "b": 2, "c": 3}
    assert list(SchemaReader(schema).properties()) == ["a", "d", "b", "c"]


@pytest.mark.parametrize(
    ("schema", "names"),
    [({"$ref": "#/$defs/x", "$defs": {"x": {"required": ["b"]}}}, ["b"]), (True, [])],
)
def test_required_names_of_a_schema(schema, names):
    assert SchemaReader(schema).required() == names


@pytest.mark.parametrize(
    ("schema", "is_open"),
    [
        ({"properties": {}}, False),
        ({"properties": {"a": {}}, "additionalProperties": False}, False),
        ({"properties": {"a": {}}, "additionalProperties": True}, True),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, True),
        ({"properties": {"a": {}}, "patternProperties": {}}, True),
        ({"properties": {"a": {}}, "anyOf": [{}]}, True),
        ({"type": "object"}, True),
        ({}, True),
    ],
)
def test_schema_is_open_if_other_members_are_allowed(schema, is_open):
    assert SchemaReader(schema).is_open() is is_open


@given(JSON)
def test_reader_accepts_any_json_as_a_schema(schema):
    reader = SchemaReader(schema)
    assert set(reader.kinds(schema)) <= set(KINDS)
    assert isinstance(reader.choices(schema), list | None)
    assert isinstance(reader.properties(), dict)
    assert isinstance(reader.required(), list)
    assert isinstance(reader.is_open(), bool)


def test_recursive_schema_is_read_in_bounded_time(monkeypatch):
    steps = []
    resolve = SchemaReader.resolve

    def counted(self, schema):
        steps.append(1)
        return resolve(self, schema)

    monkeypatch.setattr(SchemaReader, "resolve", counted)
    schema = {"anyOf": [{"$ref": "#"}] * 300, "properties": {"a": {"$ref": "#"}}}
    reader = SchemaReader(schema)
    reader.kinds(schema)
    reader.choices(schema)
    reader.properties()
    assert len(steps) < 4 * MAX_STEPS  # instead of 300 ** MAX_DEPTH


@pytest.mark.parametrize("keyword", ["properties", "$defs"])
@pytest.mark.parametrize("reference", [{"$ref": "#/x"}, {"$ref": "#/x", "title": ""}])
def test_subschema_that_many_references_share_is_read_once(keyword, reference):
    def make(size):
        members = {f"member {number}": True for number in range(30 * size)}
        shared = {"properties": members} if keyword == "properties" else members
        return {"x": shared, "anyOf": [reference] * size}

    def read(schema):
        SchemaReader(schema).properties()

    assert grows_in_proportion(read, make, 2_000)  # MAX_STEPS allows more


def test_too_deep_value_is_written_as_dots():
    value = []
    for _ in range(100_000):
        value = [value]
    assert json_text(value) == "..."
    while value:  # taken apart here: its deallocation would recurse
        (value,) = value
