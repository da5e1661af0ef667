"""JSON Schemas before validation: subschemas, references, dialects, bounds."""

import pytest

from mcpwire.errors import RemoteProtocolError
from mcpwire.protocol import json_schema
from mcpwire.protocol.json_schema import (
    branches_of,
    map_schemas,
    properties_of,
    read_schema,
    required_of,
    resolve_pointer,
    resolve_references,
    walk,
)

DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DRAFT_04 = "http://json-schema.org/draft-04/schema#"


def nested(levels):
    schema = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def test_subschemas_are_found_under_every_keyword():
    schema = {
        "allOf": [{}],
        "anyOf": [{}, True],
        "oneOf": [{}],
        "not": {},
        "if": {},
        "then": {},
        "else": {},
        "dependentSchemas": {"a": {}},
        "dependencies": {"a": {}, "b": ["c"]},
        "properties": {"a/b~c d": {}},
        "additionalProperties": False,
        "unevaluatedProperties": {},
        "propertyNames": {},
        "prefixItems": [{}],
        "items": {},
        "additionalItems": {},
        "unevaluatedItems": {},
        "contains": {},
        "$defs": {"a": {}},
        "definitions": {"a": {}},
        "enum": [{"not": {}}],
        "const": {"not": {}},
        "x-unknown": {"not": {}},
    }
    expected = {
        *("", "/allOf/0", "/anyOf/0", "/anyOf/1", "/oneOf/0", "/not", "/if", "/then"),
        *("/else", "/dependentSchemas/a", "/dependencies/a", "/properties/a~1b~0c%20d"),
        *("/additionalProperties", "/unevaluatedProperties", "/propertyNames"),
        *("/prefixItems/0", "/items", "/additionalItems", "/unevaluatedItems"),
        *("/contains", "/$defs/a", "/definitions/a"),
    }
    raws = [resolve_pointer(schema, f"#{pointer}") for pointer in expected]
    found = [subschema.raw for subschema in read_schema(schema).subschemas]
    assert sorted(map(id, found)) == sorted(map(id, raws))


@pytest.mark.parametrize("keyword", ["allOf", "properties", "items", "not", "$defs"])
@pytest.mark.parametrize("value", [None, 7, "x", [7], {"a": 7}])
def test_invalid_subschemas_are_left_to_the_validator(keyword, value):
    assert read_schema({keyword: value}).root.raw == {keyword: value}


@pytest.mark.rule("SCH-06", "SCH-09", "TOOL-20")
@pytest.mark.attack("S03")
@pytest.mark.parametrize(
    "reference",
    [
        *("https://example.com/schema", "http://127.0.0.1:1/schema#/a"),
        *("file:///etc/passwd", "other.json", "urn:example:other"),
        *("https://json-schema.org/draft/2020-12/schema", "#/$defs/missing"),
        *("#/$defs/a/7/x", "#/type/0", "#/x-list/1", "#/x-list/0"),
        *("#/x-list/x", "#missing"),
    ],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_reference_out_of_the_schema_is_refused_by_name(keyword, reference):
    schema = {"type": "object", "x-list": [7], "$defs": {"a": {}}}
    unused = schema["$defs"]["unused"] = {"properties": {"a": {keyword: reference}}}
    with pytest.raises(RemoteProtocolError) as caught:
        read_schema(schema)
    assert f"its {keyword} {reference!r} refers to nothing within it" in str(
        caught.value
    )
    assert "within the schema only" in caught.value.hint
    del unused["properties"]
    read_schema(schema)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, "/%24defs/a"),
        ({"$ref": "#/%24defs/a", "$defs": {"a": {}}}, "/%24defs/a"),
        ({"$ref": "#/x/0/a~1b~0c", "x": [{"a/b~c": {}}]}, "/x/0/a~1b~0c"),
        ({"$ref": "#a", "$defs": {"x": {"$anchor": "a"}}}, "/%24defs/x"),
        (
            {"$id": "urn:x:y", "$ref": "#a", "$defs": {"x": {"$anchor": "a"}}},
            "/%24defs/x",
        ),
        (
            {"$id": "https://h/p/s", "$ref": "t", "$defs": {"x": {"$id": "t"}}},
            "/%24defs/x",
        ),
        (
            {"$id": "https://h/s", "allOf": [{"$id": "t", "$ref": "s#/$defs/x"}]}
            | {"$defs": {"x": {}}},
            None,
        ),
        (
            {"$schema": DRAFT_07, "$ref": "#a", "definitions": {"x": {"$id": "#a"}}},
            "/definitions/x",
        ),
        (
            {
                "$schema": DRAFT_04,
                "id": "http://h/s",
                "$ref": "t",
                "definitions": {"x": {"id": "t"}},
            },
            "/definitions/x",
        ),
        ({"$ref": "#/x", "x": {"$ref": "#/y"}, "y": {}}, "/x"),
    ],
)
def test_reference_within_the_schema_is_followed(schema, pointer):
    root = read_schema(schema).root
    if pointer is not None:
        assert root.in_place[0].raw is resolve_pointer(schema, f"#{pointer}")
        assert len(root.in_place) == 1


def test_schema_reached_only_by_reference_is_searched_for_references():
    with pytest.raises(RemoteProtocolError, match="'https://h/x'"):
        read_schema({"$ref": "#/x", "x": {"items": {"$ref": "https://h/x"}}})


@pytest.mark.rule("SCH-01", "SCH-02")
@pytest.mark.parametrize(
    ("declared", "id_keyword"),
    [
        ({}, "$id"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema"}, "$id"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema#"}, "$id"),
        ({"$schema": DRAFT_2019}, "$id"),
        ({"$schema": DRAFT_07}, "$id"),
        ({"$schema": "https://json-schema.org/draft-07/schema"}, "$id"),
        ({"$schema": "http://json-schema.org/draft-06/schema#"}, "$id"),
        ({"$schema": DRAFT_04}, "id"),
    ],
)
def test_declared_dialect_is_recognised(declared, id_keyword):
    read_schema({**declared, "$ref": "t", "definitions": {"x": {id_keyword: "t"}}})


@pytest.mark.rule("SCH-03")
@pytest.mark.parametrize("place", ["root", "inner"])
@pytest.mark.parametrize(
    "declared",
    [
        "http://json-schema.org/draft-03/schema#",
        "https://json-schema.org/draft/2030-01/schema",
        "ftp://json-schema.org/draft-07/schema",
        "json-schema.org/draft-07/schema",
        "",
        7,
        None,
    ],
)
def test_unsupported_dialect_is_refused_by_name(declared, place):
    schema = {"$schema": declared}
    with pytest.raises(RemoteProtocolError) as caught:
        read_schema(schema if place == "root" else {"$defs": {"a": schema}})
    assert f"its dialect {declared!r} is not supported" in str(caught.value)
    assert "2020-12, 2019-09, draft-07, draft-06, draft-04" in caught.value.hint


@pytest.mark.parametrize("schema", [None, True, 7, "{}", []])
def test_tool_schema_must_be_an_object(schema):
    with pytest.raises(RemoteProtocolError, match="it is not an object"):
        read_schema(schema)


# --- bounds

bounded = pytest.mark.rule("SCH-10")


@bounded
def test_size_of_a_schema_is_bounded():
    read_schema({"description": "x" * (json_schema.MAX_BYTES - 100)})
    with pytest.raises(RemoteProtocolError, match=r"has \d+ bytes, more than 1048576"):
        read_schema({"description": "x" * json_schema.MAX_BYTES})


@bounded
@pytest.mark.attack("S14")
def test_depth_of_a_schema_is_bounded(monkeypatch):
    monkeypatch.setattr(json_schema, "MAX_CHAIN", 1_000)
    read_schema(nested(json_schema.MAX_DEPTH - 1))
    with pytest.raises(RemoteProtocolError, match="deeper than 100 levels"):
        read_schema({"const": nested(json_schema.MAX_DEPTH)})
    with pytest.raises(RemoteProtocolError, match="deeper than 254 levels"):
        read_schema(nested(1_000))


@bounded
def test_number_of_subschemas_is_bounded():
    read_schema({"anyOf": [{"const": n} for n in range(9_999)]})
    with pytest.raises(RemoteProtocolError, match="more than 10000 subschemas"):
        read_schema({"anyOf": [{"const": n} for n in range(10_000)]})


@bounded
def test_chain_of_schemas_applied_to_one_value_is_bounded():
    read_schema(nested(json_schema.MAX_CHAIN - 1))
    with pytest.raises(RemoteProtocolError, match="more than 64 of its subschemas"):
        read_schema(nested(json_schema.MAX_CHAIN))
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    with pytest.raises(RemoteProtocolError, match="more than 64 of its subschemas"):
        read_schema({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}})


@bounded
def test_length_of_uris_is_bounded():
    for schema in ({"$id": "x" * 2_049}, {"$ref": "#" + "x" * 2_049}):
        with pytest.raises(RemoteProtocolError, match="longer than 2048 characters"):
            read_schema(schema)


@pytest.mark.parametrize("key", ["$id", "$ref"])
def test_invalid_uri_is_refused(key):
    with pytest.raises(RemoteProtocolError, match=r"'http://\[' is not a URI"):
        read_schema({"$id": "http://h/", "not": {key: "http://["}})


def test_value_without_a_json_form_is_refused():
    with pytest.raises(
        RemoteProtocolError, match=r"used: \$\.const: nan has no JSON form"
    ):
        read_schema({"const": float("nan")})


@bounded
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"anyOf": [{"$ref": "#"}]}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
        {"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}]},
        {"$schema": DRAFT_2019, "$recursiveAnchor": True, "$recursiveRef": "#"},
    ],
)
def test_schema_that_applies_itself_to_the_same_value_is_refused(schema):
    with pytest.raises(RemoteProtocolError, match="to itself for the same value"):
        read_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"$ref": "#"}},
        {"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}},
        {"$anchor": "a", "items": {"$dynamicRef": "#a"}},
        {"$schema": DRAFT_2019, "$recursiveAnchor": True}
        | {"items": {"$recursiveRef": "#"}},
        {"$schema": DRAFT_2019, "items": {"$recursiveRef": "#"}},
        {"properties": {"a": {"$dynamicRef": "#/$defs/b"}}, "$defs": {"b": True}},
    ],
)
def test_schema_that_applies_itself_to_parts_of_the_value_is_allowed(schema):
    assert read_schema(schema).longest_chain <= 3


@bounded
def test_many_dynamic_references_and_anchors_stay_linear():
    schema = {
        "$defs": {str(n): {"$dynamicAnchor": "a"} for n in range(4_000)},
        "properties": {str(n): {"$dynamicRef": "#a"} for n in range(4_000)},
    }
    index = read_schema(schema)
    assert sum(len(subschema.in_place) for subschema in index.subschemas) == 8_000


def test_error_shows_long_input_shortened():
    with pytest.raises(RemoteProtocolError) as caught:
        read_schema({"$schema": "x" * 100_000})
    assert len(str(caught.value)) < 400


# --- reading and mapping a schema

ROOT = {
    "$defs": {
        "a": {"type": "string"},
        "b": {"$ref": "#/$defs/a"},
        "x/y~z": {"type": "number"},
        "loop": {"$ref": "#/$defs/loop"},
    },
    "anyOf": [{"type": "string"}, {"type": "number"}],
}

REFERENCES = [
    ("#/$defs/a", {"type": "string"}),
    ("#/$defs/b", {"type": "string"}),
    ("#/$defs/x~1y~0z", {"type": "number"}),
    ("#/anyOf/1", {"type": "number"}),
    ("#/anyOf/7", {}),
    ("#/anyOf/x", {}),
    ("#/$defs/loop", {}),
    ("#/$defs/nothing", {}),
    ("#/$defs/a/type/more", {}),
    ("#anchor", {}),
    ("https://example.com/schema", {}),
    ("#", ROOT),
]


@pytest.mark.parametrize(("reference", "target"), REFERENCES)
def test_local_reference_is_resolved(reference, target):
    assert resolve_references({"$ref": reference}, ROOT) == target


def test_map_schemas_visits_inner_schemas_first():
    visited = []

    def visit(schema):
        visited.append(schema.get("title"))
        return {**schema, "seen": True}

    schema = {
        "title": "root",
        "properties": {"a": {"title": "a"}, "b": True},
        "items": {"title": "items"},
        "anyOf": [{"title": "first"}],
        "default": {"title": "no schema"},
    }
    mapped = map_schemas(schema, visit)
    assert visited == ["a", "items", "first", "root"]
    assert mapped["default"] == {"title": "no schema"}
    assert mapped["properties"] == {"a": {"title": "a", "seen": True}, "b": True}


def test_walk_visits_each_schema():
    schema = {"properties": {"a": {"title": "a"}, "b": True}, "items": [{"title": 0}]}
    assert [each.get("title") for each in walk(schema)] == [None, 0, "a"]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 7},
        {"allOf": [7, True]},
        {"dependencies": {"a": ["b"]}},
        {"x": {}},
    ],
)
def test_map_and_walk_skip_values_other_than_schemas(schema):
    assert map_schemas(schema, lambda each: each) == schema
    assert list(walk(schema)) == [schema]


def test_map_schemas_cuts_below_the_maximum_depth():
    mapped = map_schemas(nested(json_schema.MAX_DEPTH + 50), lambda each: each)
    assert mapped == nested(json_schema.MAX_DEPTH)


@pytest.mark.parametrize("bad", [None, 7, "x", {}])
def test_malformed_keyword_values_count_as_empty(bad):
    assert properties_of({"properties": bad or 7}) == {}
    assert required_of({"required": bad}) == branches_of({"anyOf": bad}, "anyOf") == []
    assert required_of({"required": ["b", 1, "a", "b"]}) == ["b", "a"]
