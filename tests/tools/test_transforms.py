"""Tools with other names, words and arguments than their servers gave them."""

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
def test_a_caller_sees_the_outside_and_every_other_keyword_stays():
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
def test_a_server_gets_the_inside(arguments, sent):
    assert WHOLE.server_arguments(arguments) == sent


@pytest.mark.parametrize("name", ["limit", "token", "path"])
def test_what_is_not_offered_is_refused(name):
    with pytest.raises(LocalProtocolError, match=f"takes no argument {name!r}"):
        WHOLE.server_arguments({name: "x"})


@pytest.mark.parametrize("order", [["key", "cwd"], ["cwd", "key"]])
def test_an_argument_under_another_ones_name_covers_that_one(order):
    kinds = {"key": {"type": "integer"}, "cwd": {"type": "string"}}
    schema = {"properties": {name: kinds[name] for name in order}, "required": order}
    covering = ToolTransform(rename={"cwd": "key"})
    assert covering.caller_schema(schema) == {
        "properties": {"cwd": {"type": "integer"}},
        "required": ["cwd"],
    }
    assert covering.server_arguments({"cwd": 5}) == {"key": 5}


def test_two_names_may_change_places():
    swap = ToolTransform(rename={"a": "b", "b": "a"})
    assert swap.server_arguments({"a": 1, "b": 2}) == {"b": 1, "a": 2}
    assert swap.caller_schema(
        {"properties": {"a": {}, "b": True}, "required": ["a"]}
    ) == {
        "properties": {"b": {}, "a": True},
        "required": ["b"],
    }


def test_without_changes_to_the_arguments_all_stays_itself():
    words = ToolTransform(name="x", description="y", title="z")
    arguments = {"a": 1}
    assert words.server_arguments(arguments) is arguments
    assert words.caller_schema(SCHEMA) is SCHEMA
    assert ToolTransform(hide="x").server_arguments(None) is None
    assert ToolTransform(hide="x").server_arguments({}) == {}


@pytest.mark.parametrize("schema", [{"anyOf": []}, {"properties": 1, "required": "x"}])
def test_a_schema_of_any_other_shape_stays_as_it_is(schema):
    assert WHOLE.caller_schema(schema) == schema


def test_a_default_of_a_property_that_is_no_object_is_sent_all_the_same():
    one = ToolTransform(defaults={"limit": 3})
    assert one.caller_schema(SCHEMA)["properties"]["limit"] is True
    assert one.server_arguments(None) == {"limit": 3}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hide": "a", "fixed": {"a": 1}}, "'a' is both hidden and fixed"),
        ({"rename": {"x": "a", "y": "a"}}, "'a' is the inside of two names"),
        ({"hide": "a", "rename": {"x": "a"}}, "'a' is not offered and yet renamed"),
        ({"fixed": {"a": 1}, "rename": {"x": "a"}}, "not offered and yet renamed"),
        ({"fixed": {"a": 1}, "defaults": {"a": 1}}, "not offered and yet a default"),
        ({"hide": "a", "defaults": {"a": 1}}, "not offered and yet a default"),
    ],
)
def test_changes_that_contradict_each_other_are_refused(changes, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        ToolTransform(**changes)


# --- arguments -------------------------------------------------------------------


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
def test_arguments_that_are_no_object_are_refused_by_their_kind(arguments, kind):
    with pytest.raises(LocalProtocolError, match=f"object or null, got {kind}"):
        check_arguments(arguments)


def test_arguments_are_an_object_or_null():
    given = {"a": 1}
    assert check_arguments(None) is None
    assert check_arguments(given) == given
    assert check_arguments(given) is not given
    assert check_arguments(MappingProxyType(given)) == given
    with pytest.raises(LocalProtocolError, match="must have string keys, got 1"):
        check_arguments({1: 2})


@pytest.mark.system("V16")
def test_arguments_of_some_names_are_left_out():
    names = ("cwd", "_session")
    assert remove_arguments({"cwd": "/", "a": 1, "_session": {}}, names) == {"a": 1}
    assert remove_arguments({"cwd": "/"}, names) == {}
    assert remove_arguments(None, names) is None
    arguments = {"a": 1}
    assert remove_arguments(arguments, ()) is arguments


@pytest.mark.system("A72")
@pytest.mark.parametrize("schema", [None, {}, []])
def test_a_tool_without_a_schema_takes_an_object(schema):
    assert object_schema(schema) == {"type": "object", "properties": {}}
    assert object_schema(SCHEMA) is SCHEMA


# One line about a call for whoever is to confirm it...


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
def test_the_most_telling_text_is_shown_on_one_line(arguments, line):
    assert preview(arguments) == line
