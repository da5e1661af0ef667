"""Tools and prompts displayed as signatures."""

import pytest
from hypothesis import given
from schema_values import JSON

from mcpwire.cli.arguments import SchemaReader
from mcpwire.cli.render import (
    MAX_DESCRIPTION,
    badges,
    first_line,
    parameters,
    prompt_signature,
    tool_signature,
    type_name,
)
from mcpwire.types import Prompt, PromptArgument, Tool, ToolAnnotations

INT = {"type": "integer"}
DEEP = {"type": "array", "items": {"$ref": "#/$defs/deep"}}
ROOT = {"$defs": {"deep": DEEP, "user": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "null"),
        ({"type": "object"}, "object"),
        ({"type": "array"}, "list"),
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"type": "array", "items": {}}, "list[any]"),
        ({"type": ["null", "string"]}, "str | null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "int | null"),
        ({"oneOf": [{"type": "integer"}, {"type": "integer"}]}, "int"),
        ({"enum": ["a", "b", 3, None]}, '"a" | "b" | 3 | null'),
        ({"const": True}, "true"),
        ({"$ref": "#/$defs/user"}, "object"),
        (DEEP, "list[list[list[list[list]]]]"),
        ({}, "any"),
        (True, "any"),
        ({"enum": ["x" * 60, "z" * 30]}, f'"{"x" * 60}" | "zzzzzzzzzzz...'),
    ],
)
def test_schema_has_a_short_type_name(schema, name):
    assert type_name(schema, SchemaReader(ROOT)) == name


def tool(schema, name="do", **more):
    return Tool(name, schema, **more)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"properties": {"a": INT, "b": {**INT, "default": 0}}, "required": ["a"]},
            "do(a: int, b: int = 0)",
        ),
        ({"properties": {"a": {"type": "string"}}}, "do(a?: str)"),
        ({"properties": {"a": {"default": None}}}, "do(a: any = null)"),
        ({"properties": {"a": {"default": "é\n"}}}, 'do(a: any = "é\\n")'),
        ({"properties": {"a": {"default": "x" * 99}}}, f'do(a: any = "{"x" * 36}...)'),
        ({"properties": {}}, "do()"),
        ({"properties": {}, "additionalProperties": True}, "do(...)"),
        ({}, "do()"),
    ],
)
def test_tool_signature_has_its_parameters(schema, expected):
    assert tool_signature(tool(schema)) == [expected]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"sum": {"type": "integer"}}}, "do() -> {sum: int}"),
        ({"type": "array", "items": {"type": "string"}}, "do() -> list[str]"),
        (
            {"properties": dict.fromkeys("abcdefghij", True)},
            f"do() -> {{{', '.join(f'{name}: any' for name in 'abcdefgh')}, ...}}",
        ),
    ],
)
def test_tool_signature_has_its_output_type(schema, expected):
    assert tool_signature(tool({}, output_schema=schema)) == [expected]


def test_wide_signature_has_one_line_per_parameter():
    schema = {"properties": {"first": {"type": "string"}, "second": {"type": "string"}}}
    assert tool_signature(tool(schema), 20) == [
        "do(",
        "    first?: str,",
        "    second?: str,",
        ")",
    ]
    assert tool_signature(tool({"properties": {}}, name="x" * 30), 20) == [
        f"{'x' * 30}()"
    ]


@pytest.mark.attack("S32")
def test_signature_is_escaped_for_the_terminal():
    evil = "\x1b]0;x\x07\n"
    schema = {"properties": {evil: {"enum": [evil], "default": evil}}}
    lines = tool_signature(
        tool(schema, name=evil, output_schema={"properties": {evil: {}}}), 10
    )
    assert all(line.isprintable() for line in lines)
    prompt = Prompt(evil, arguments=[PromptArgument(evil)])
    assert all(line.isprintable() for line in prompt_signature(prompt))


def test_prompt_signature_has_its_arguments():
    arguments = [PromptArgument("city", required=True), PromptArgument("state")]
    assert prompt_signature(Prompt("ask", arguments=arguments)) == ["ask(city, state?)"]
    assert prompt_signature(Prompt("ask")) == ["ask()"]


@pytest.mark.parametrize(
    ("hints", "words"),
    [
        (None, []),
        (ToolAnnotations(), []),
        (ToolAnnotations(read_only_hint=True, idempotent_hint=True), ["read-only"]),
        (ToolAnnotations(read_only_hint=True, destructive_hint=True), ["read-only"]),
        (ToolAnnotations(destructive_hint=True), ["destructive"]),
        (ToolAnnotations(destructive_hint=False), []),
        (
            ToolAnnotations(
                destructive_hint=True, idempotent_hint=True, open_world_hint=True
            ),
            ["destructive", "idempotent", "open-world"],
        ),
    ],
)
def test_tool_annotations_become_badges(hints, words):
    assert badges(hints) == words


def test_each_parameter_is_compared_with_few_required_names():
    compared = []

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(other)
            return str.__eq__(self, other)

    names = [f"argument {number}" for number in range(500)]
    schema = {"properties": dict.fromkeys(names, True), "required": [*map(Name, names)]}
    assert parameters(schema) == [f"{name}: any" for name in names]
    assert len(compared) < 4 * len(names)


@given(JSON)
def test_any_json_has_parameters_and_a_type_name(schema):
    assert all(isinstance(part, str) for part in parameters(schema))
    assert type_name(schema, SchemaReader(schema))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, ""),
        ("", ""),
        (" \n\t\n", ""),
        ("Do it.", "Do it."),
        ("\n  Do it.\nMore.", "Do it."),
        ("x" * 120, "x" * 120),
        (f"Do it. {'Then that. ' * 20}", f"Do it. {'Then that. ' * 8}Then that. ..."),
        ("word " * 50, f"{'word ' * 22}word ..."),
        ("x" * 121, f"{'x' * 116} ..."),
        ("a\x1b\rb", "a\\x1b\\rb"),
    ],
)
def test_first_line_of_a_description_is_shortened(text, line):
    assert first_line(text) == line
    assert len(line) <= MAX_DESCRIPTION
