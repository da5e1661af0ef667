"""Tools with names, descriptions and arguments that differ from their servers'."""

import re
from types import MappingProxyType

import pytest

from mcpwire.errors import LocalProtocolError
from mcpwire.tools.transforms import (
    ToolTransform,
    check_arguments,
    object_schema,
    preview,
    remove_arguments,
)

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "mode": {"$ref": "#/$defs/mode"},
        "limit": True,
        "token": {"type": "string"},
    },
    "required": ["path", "mode", "token"],
    "additionalProperties": False,
    "$defs": {"mode": {"enum": ["r", "w"]}},
}

WHOLE = ToolTransform(
    hide=["limit"],
    fixed={"token": "t0"},
    rename={"file": "path"},
    defaults={"mode": "r"},
)


@pytest.mark.system("L-V10")
def test_caller_schema_is_transformed_and_keeps_other_keywords():
    before = repr(SCHEMA)
    assert WHOLE.caller_schema(SCHEMA) == {
        **SCHEMA,
        "properties": {
            "file": {"type": "string"},
            "mode": {"$ref": "#/$defs/mode", "default": "r"},
        },
        "required": ["file"],
    }
    assert repr(SCHEMA) == before


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"file": "a"}, {"mode": "r", "path": "a", "token": "t0"}),
        ({"file": "a", "mode": "w"}, {"mode": "w", "path": "a", "token": "t0"}),
        ({"more": 1}, {"mode": "r", "more": 1, "token": "t0"}),
        ({}, {"mode": "r", "token": "t0"}),
        (None, {"mode": "r", "token": "t0"}),
    ],
)
def test_server_arguments_are_restored(arguments, sent):
    assert WHOLE.server_arguments(arguments) == sent


@pytest.mark.parametrize("name", ["limit", "token", "path"])
def test_hidden_or_fixed_argument_is_refused(name):
    with pytest.raises(LocalProtocolError, match=f"takes no argument {name!r}"):
        WHOLE.server_arguments({name: "x"})


@pytest.mark.parametrize("order", [["key", "cwd"], ["cwd", "key"]])
def test_renamed_argument_replaces_one_of_that_name(order):
    kinds = {"key": {"type": "integer"}, "cwd": {"type": "string"}}
    schema = {"properties": {name: kinds[name] for name in order}, "required": order}
    covering = ToolTransform(rename={"cwd": "key"})
    assert covering.caller_schema(schema) == {
        "properties": {"cwd": {"type": "integer"}},
        "required": ["cwd"],
    }
    assert covering.server_arguments({"cwd": 5}) == {"key": 5}


@pytest.mark.parametrize(
    "changes",
    [
        {"hide": ["start"]},
        {"rename": {"s": "start"}},
        {"rename": {"start": "other", "other": "start"}},
        {"defaults": {"start": {"x": 1}}},
    ],
)
def test_reference_to_a_changed_argument_keeps_its_target(changes):
    point = {"type": "object", "properties": {"x": {"type": "number"}}}
    properties = {"start": point, "other": {}, "end": {"$ref": "#/properties/start"}}
    changed = ToolTransform(**changes).caller_schema({"properties": properties})
    assert changed["properties"]["end"] == point


def test_two_argument_names_may_be_swapped():
    swap = ToolTransform(rename={"a": "b", "b": "a"})
    assert swap.server_arguments({"a": 1, "b": 2}) == {"b": 1, "a": 2}
    assert swap.caller_schema(
        {"properties": {"a": {}, "b": True}, "required": ["a"]}
    ) == {"properties": {"b": {}, "a": True}, "required": ["b"]}


def test_unchanged_arguments_and_schema_are_the_same_objects():
    words = ToolTransform(name="x", description="y", title="z")
    arguments = {"a": 1}
    assert words.server_arguments(arguments) is arguments
    assert words.caller_schema(SCHEMA) is SCHEMA
    assert ToolTransform(hide="x").server_arguments(None) is None
    assert ToolTransform(hide="x").server_arguments({}) == {}


@pytest.mark.parametrize("schema", [{"anyOf": []}, {"properties": 1, "required": "x"}])
def test_schema_without_properties_is_unchanged(schema):
    assert WHOLE.caller_schema(schema) == schema


def test_default_of_a_boolean_schema_property_is_sent():
    one = ToolTransform(defaults={"limit": 3})
    assert one.caller_schema(SCHEMA)["properties"]["limit"] is True
    assert one.server_arguments(None) == {"limit": 3}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hide": "a", "fixed": {"a": 1}}, "'a' is both hidden and fixed"),
        ({"rename": {"x": "a", "y": "a"}}, "'a' is the inside of two names"),
        (
            {"hide": "a", "rename": {"x": "a"}},
            "'a' is not offered, so it cannot be renamed",
        ),
        ({"fixed": {"a": 1}, "rename": {"x": "a"}}, "so it cannot be renamed"),
        ({"fixed": {"a": 1}, "defaults": {"a": 1}}, "so it cannot have a default"),
        ({"hide": "a", "defaults": {"a": 1}}, "so it cannot have a default"),
    ],
)
def test_contradicting_changes_are_refused(changes, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        ToolTransform(**changes)


@pytest.mark.system("A21", "R03")
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ([1], "an array"),
        ((1,), "an array"),
        ("x", "a string"),
        (True, "a boolean"),
        (1, "a number"),
        (0.5, "a number"),
        (b"x", "bytes"),
    ],
)
def test_arguments_of_another_type_are_refused_by_type(arguments, kind):
    with pytest.raises(LocalProtocolError, match=f"object or null, got {kind}"):
        check_arguments(arguments)


def test_arguments_must_be_an_object_or_null():
    given = {"a": 1}
    assert check_arguments(None) is None
    assert check_arguments(given) == given
    assert check_arguments(given) is not given
    assert check_arguments(MappingProxyType(given)) == given
    with pytest.raises(LocalProtocolError, match="must have string keys, got 1"):
        check_arguments({1: 2})


@pytest.mark.system("V16")
def test_remove_arguments_drops_the_given_names():
    names = ("cwd", "_session")
    assert remove_arguments({"cwd": "/", "a": 1, "_session": {}}, names) == {"a": 1}
    assert remove_arguments({"cwd": "/"}, names) == {}
    assert remove_arguments(None, names) is None
    arguments = {"a": 1}
    assert remove_arguments(arguments, ()) is arguments


@pytest.mark.system("A72")
@pytest.mark.parametrize("schema", [None, {}, []])
def test_missing_schema_becomes_an_object_schema(schema):
    assert object_schema(schema) == {"type": "object", "properties": {}}
    assert object_schema(SCHEMA) is SCHEMA


# The one-line preview of a call for its confirmation...


@pytest.mark.system("V40")
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, ""),
        ({"count": 3}, ""),
        ({"b": "second", "a": "x"}, "second"),
        ({"other": "x", "input": "i"}, "i"),
        ({"input": "i", "command": "c"}, "c"),
        ({"command": "c", "id": "7"}, "7"),
        ({"id": "7", "name": "n"}, "n"),
        ({"name": "n", "url": "u"}, "u"),
        ({"url": "u", "sql": "s"}, "s"),
        ({"sql": "s", "query": "q"}, "q"),
        ({"query": "q", "path": "p"}, "p"),
        ({"path": 7, "query": "q"}, "q"),
        ({"path": "", "x": "y"}, "y"),
        ({"path": "a\nb\t\x1b[31m  c"}, "a b [31m c"),
        ({"path": "x" * 80}, "x" * 80),
        ({"path": "x" * 81}, "x" * 77 + "..."),
        ({"path": "x" * 1_000_000}, "x" * 77 + "..."),
        ({"path": "a" + " " * 400 + "b"}, "a..."),
    ],
)
def test_preview_shows_the_most_relevant_text_on_one_line(arguments, line):
    assert preview(arguments) == line
