"""What is found in a schema before any validator sees it, and what is refused."""

import pytest

from mcpwire.errors import RemoteProtocolError
from mcpwire.protocol import json_schema as schema_index
from mcpwire.protocol.json_schema import read_schema

DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DRAFT_04 = "http://json-schema.org/draft-04/schema#"


def nested(levels):
    schema = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def pointers(schema):
    return {subschema.pointer for subschema in read_schema(schema).found}


def test_subschemas_are_found_behind_every_keyword_that_has_some():
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
    assert pointers(schema) == {
        "",
        "/allOf/0",
        "/anyOf/0",
        "/anyOf/1",
        "/oneOf/0",
        "/not",
        "/if",
        "/then",
        "/else",
        "/dependentSchemas/a",
        "/dependencies/a",
        "/properties/a~1b~0c%20d",
        "/additionalProperties",
        "/unevaluatedProperties",
        "/propertyNames",
        "/prefixItems/0",
        "/items",
        "/additionalItems",
        "/unevaluatedItems",
        "/contains",
        "/$defs/a".replace("$", "%24"),
        "/definitions/a",
    }


def test_a_pattern_for_names_is_a_subschema_of_the_names():
    (kind, inner), (names, met) = read_schema(
        {"patternProperties": {"^a": {"type": "null"}}}
    ).root.all_members
    assert (kind, inner.raw) == ("property", {"type": "null"})
    assert (names, met.raw) == ("name", {"pattern": "^a"})


@pytest.mark.parametrize("keyword", ["allOf", "properties", "items", "not", "$defs"])
@pytest.mark.parametrize("held", [None, 7, "x", [7], {"a": 7}])
def test_what_is_no_schema_is_left_to_the_validator(keyword, held):
    assert read_schema({keyword: held}).root.raw == {keyword: held}


@pytest.mark.rule("SCH-06", "SCH-09", "TOOL-20")
@pytest.mark.attack("S03")
@pytest.mark.parametrize(
    "reference",
    [
        "https://example.com/schema",
        "http://127.0.0.1:1/schema#/a",
        "file:///etc/passwd",
        "other.json",
        "urn:example:other",
        "https://json-schema.org/draft/2020-12/schema",
        "#/$defs/missing",
        "#/$defs/a/7/x",
        "#/type/0",
        "#/x-list/1",
        "#/x-list/0",
        "#/x-list/x",
        "#missing",
    ],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_reference_out_of_the_schema_is_refused_and_named(keyword, reference):
    schema = {"type": "object", "x-list": [7], "$defs": {"a": {}}}
    unused = schema["$defs"]["unused"] = {"properties": {"a": {keyword: reference}}}
    with pytest.raises(RemoteProtocolError) as caught:
        read_schema(schema)
    assert f"its {keyword} {reference!r} leads out of it" in str(caught.value)
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
            {
                "$schema": DRAFT_07,
                "$ref": "#a",
                "definitions": {"x": {"$id": "#a"}},
            },
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
def test_a_reference_within_the_schema_is_followed(schema, pointer):
    root = read_schema(schema).root
    if pointer is not None:
        assert root.target.pointer == pointer
        assert root.in_place == [root.target]


def test_what_only_a_reference_leads_to_is_searched_for_references_too():
    with pytest.raises(RemoteProtocolError, match="'https://h/x'"):
        read_schema({"$ref": "#/x", "x": {"items": {"$ref": "https://h/x"}}})


@pytest.mark.rule("SCH-01")
def test_without_a_word_the_dialect_is_2020_12():
    assert read_schema({}).dialect == "2020-12"


@pytest.mark.rule("SCH-02")
@pytest.mark.parametrize(
    ("declared", "dialect"),
    [
        ("https://json-schema.org/draft/2020-12/schema", "2020-12"),
        ("https://json-schema.org/draft/2020-12/schema#", "2020-12"),
        (DRAFT_2019, "2019-09"),
        (DRAFT_07, "draft-07"),
        ("https://json-schema.org/draft-07/schema", "draft-07"),
        ("http://json-schema.org/draft-06/schema#", "draft-06"),
        (DRAFT_04, "draft-04"),
    ],
)
def test_a_declared_dialect_is_recognised(declared, dialect):
    assert read_schema({"$schema": declared}).dialect == dialect


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
def test_an_unsupported_dialect_is_an_error_that_names_it(declared, place):
    schema = {"$schema": declared}
    with pytest.raises(RemoteProtocolError) as caught:
        read_schema(schema if place == "root" else {"$defs": {"a": schema}})
    assert f"its dialect {declared!r} is not supported" in str(caught.value)
    assert "2020-12, 2019-09, draft-07, draft-06, draft-04" in caught.value.hint


@pytest.mark.parametrize("schema", [None, True, 7, "{}", []])
def test_what_is_no_object_is_no_schema_of_a_tool(schema):
    with pytest.raises(RemoteProtocolError, match="it is no object"):
        read_schema(schema)


# --- bounds

at_most = pytest.mark.rule("SCH-10")


@at_most
def test_the_size_of_a_schema_is_bounded():
    read_schema({"description": "x" * (schema_index.MAX_BYTES - 100)})
    with pytest.raises(RemoteProtocolError, match=r"has \d+ bytes, more than 1048576"):
        read_schema({"description": "x" * schema_index.MAX_BYTES})


@at_most
@pytest.mark.attack("S14")
def test_the_depth_of_a_schema_is_bounded(monkeypatch):
    monkeypatch.setattr(schema_index, "MAX_CHAIN", 1_000)
    read_schema(nested(schema_index.MAX_DEPTH - 1))
    with pytest.raises(RemoteProtocolError, match="deeper than 100 levels"):
        read_schema({"const": nested(schema_index.MAX_DEPTH)})
    with pytest.raises(RemoteProtocolError, match="deeper than 254 levels"):
        read_schema(nested(1_000))


@at_most
def test_the_number_of_subschemas_is_bounded():
    read_schema({"anyOf": [{"const": n} for n in range(9_999)]})
    with pytest.raises(RemoteProtocolError, match="more than 10000 subschemas"):
        read_schema({"anyOf": [{"const": n} for n in range(10_000)]})


@at_most
def test_how_many_apply_to_one_value_behind_one_another_is_bounded():
    read_schema(nested(schema_index.MAX_CHAIN - 1))
    with pytest.raises(RemoteProtocolError, match="more than 64 of its subschemas"):
        read_schema(nested(schema_index.MAX_CHAIN))
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    with pytest.raises(RemoteProtocolError, match="more than 64 of its subschemas"):
        read_schema({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}})


@at_most
def test_the_length_of_uris_is_bounded():
    for schema in ({"$id": "x" * 2_049}, {"$ref": "#" + "x" * 2_049}):
        with pytest.raises(RemoteProtocolError, match="longer than 2048 characters"):
            read_schema(schema)


@pytest.mark.parametrize("key", ["$id", "$ref"])
def test_what_is_no_uri_is_refused(key):
    with pytest.raises(RemoteProtocolError, match=r"'http://\[' is no URI"):
        read_schema({"$id": "http://h/", "not": {key: "http://["}})


def test_what_has_no_json_form_is_refused():
    with pytest.raises(
        RemoteProtocolError, match=r"used: \$\.const: nan has no JSON form"
    ):
        read_schema({"const": float("nan")})


@at_most
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
def test_a_schema_that_applies_itself_to_the_same_value_is_refused(schema):
    with pytest.raises(RemoteProtocolError, match="refers to itself without going in"):
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
def test_a_schema_that_applies_itself_to_parts_of_the_value_is_none_of_these(schema):
    assert read_schema(schema).chain <= 3


@at_most
def test_many_dynamic_references_to_many_anchors_stay_linear():
    schema = {
        "$defs": {str(n): {"$dynamicAnchor": "a"} for n in range(4_000)},
        "properties": {str(n): {"$dynamicRef": "#a"} for n in range(4_000)},
    }
    index = read_schema(schema)
    assert sum(len(subschema.in_place) for subschema in index.found) == 8_000


def test_of_what_a_peer_wrote_an_error_repeats_little():
    with pytest.raises(RemoteProtocolError) as caught:
        read_schema({"$schema": "x" * 100_000})
    assert len(str(caught.value)) < 400
