"""Schemas and names as a vendor allows them: references, roots, nulls, strict mode."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traced_memory import traced_memory

from mcpwire.exporters import EXPORT_FORMS, Export, anthropic, gemini, neutral, openai
from mcpwire.exporters.openai import strict_schema
from mcpwire.exporters.schemas import (
    NameRule,
    VendorNames,
    accepts_null,
    merge_root_alternatives,
    remove_nulls,
)
from mcpwire.protocol.json_schema import (
    MAX_INLINED,
    inline_references,
    resolve_references,
)
from mcpwire.types import Tool

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def whole(properties, *required):
    """Return an object's schema as authors usually write it."""
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def count(schema):
    """Return the number of objects in a schema."""
    if isinstance(schema, list):
        return sum(map(count, schema))
    return 1 + sum(map(count, schema.values())) if isinstance(schema, dict) else 0


ROOT = {"$defs": {"a": TEXT}, "anyOf": [TEXT, NUMBER]}


def test_references_are_replaced_by_their_targets():
    schema = {
        "type": "object",
        "properties": {
            "one": {"$ref": "#/$defs/point", "description": "the first"},
            "many": {"type": "array", "items": {"$ref": "#/$defs/point"}},
            "either": {"anyOf": [{"$ref": "#/$defs/point"}, True]},
            "more": {"$ref": "#/$defs/point", "items": {"$ref": "#/$defs/point"}},
        },
        "$defs": {"point": {"type": "object", "properties": {"x": NUMBER}}},
    }
    point = {"type": "object", "properties": {"x": NUMBER}}
    assert inline_references(schema) == {
        "type": "object",
        "properties": {
            "one": {**point, "description": "the first"},
            "many": {"type": "array", "items": point},
            "either": {"anyOf": [point, True]},
            "more": {**point, "items": point},
        },
    }


def test_recursive_reference_becomes_a_plain_object():
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}}}
    schema = {"properties": {"root": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    assert inline_references(schema) == {
        "properties": {
            "root": {"type": "object", "properties": {"child": {"type": "object"}}}
        }
    }


def test_dangling_reference_allows_any_value():
    schema = {"properties": {"x": {"$ref": "#/$defs/gone", "description": "lost"}}}
    assert inline_references(schema) == {"properties": {"x": {"description": "lost"}}}


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_exponential_references_stay_bounded(form):
    levels = {
        f"d{n}": {
            "type": "object",
            "properties": {
                "left": {"$ref": f"#/$defs/d{n + 1}"},
                "right": {"$ref": f"#/$defs/d{n + 1}"},
            },
            "allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}],
        }
        for n in range(40)
    }
    schema = {"anyOf": [{"$ref": "#/$defs/d0"}], "$defs": levels}
    made = Export([Tool("bomb", schema)], form)
    assert count(list(made)) < 10 * MAX_INLINED


@pytest.mark.parametrize("form", EXPORT_FORMS)
@pytest.mark.parametrize("keyword", ["items", "not", "allOf"])
def test_tool_with_a_deeply_nested_schema_is_exported(form, keyword):
    deep = {"type": "object"}
    for _ in range(300):
        deep = {"type": "array", keyword: [deep] if keyword == "allOf" else deep}
    tool = Tool("deep", {"type": "object", "properties": {"x": deep}})
    assert len(Export([tool], form)) == 1


BRANCHES = [
    {"properties": {"a": TEXT}, "required": ["a"]},
    {"properties": {"a": TEXT, "b": NUMBER}, "required": ["a", "b"]},
]

ROOTS = [
    (whole({"a": TEXT}), whole({"a": TEXT})),
    ({}, {"type": "object"}),
    (
        {"anyOf": BRANCHES, "additionalProperties": False, "title": "T"},
        {**whole({"a": TEXT, "b": NUMBER}, "a"), "title": "T"},
    ),
    ({"oneOf": BRANCHES, "required": ["c"]}, whole({"a": TEXT, "b": NUMBER}, "c", "a")),
    (
        {"allOf": BRANCHES, "properties": {"a": NUMBER}},
        whole({"a": NUMBER, "b": NUMBER}, "a", "b"),
    ),
    (
        {**whole({"a": TEXT}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        whole({"a": TEXT}),
    ),
    (
        {"$ref": "#/$defs/x", "$defs": {"x": BRANCHES[0]}},
        {**whole({"a": TEXT}, "a"), "$defs": {"x": BRANCHES[0]}},
    ),
    ({"anyOf": []}, whole({})),
    ({"allOf": "nonsense"}, whole({})),
]


@pytest.mark.parametrize(("schema", "plain"), ROOTS)
def test_root_alternatives_are_merged_into_one_object(schema, plain):
    assert merge_root_alternatives(schema) == plain


POINT = whole({"x": TEXT})
RENAMED = whole({"$a": POINT, "end": {"$ref": "#/properties/$a"}})
MERGED = {"anyOf": [whole({"a": POINT, "end": {"$ref": "#/anyOf/0/properties/a"}})]}


@pytest.mark.parametrize("form", ["anthropic", "openai", "gemini"])
@pytest.mark.parametrize("schema", [RENAMED, MERGED], ids=["renamed", "merged"])
def test_reference_to_a_moved_schema_keeps_its_target(schema, form):
    (tool,) = Export([Tool("t", schema)], form)
    made = tool.get("function", tool)
    made = made.get("input_schema") or made["parameters"]
    assert resolve_references(made["properties"]["end"], made) == POINT


@pytest.mark.parametrize(
    ("schema", "accepts"),
    [
        (TEXT, False),
        ({"type": ["string", "null"]}, True),
        ({"type": "null"}, True),
        ({"enum": ["a", None]}, True),
        ({"enum": ["a"]}, False),
        ({"enum": "nonsense"}, False),
        ({"const": None}, True),
        ({"const": 1}, False),
        ({}, True),
        ({"anyOf": [TEXT, {"anyOf": [NUMBER]}]}, False),
        ({"anyOf": [TEXT, {"type": "null"}]}, True),
        ({"oneOf": [TEXT, {"$ref": "#/$defs/a"}, False]}, False),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {}]}, False),
        ({"anyOf": [TEXT, {}]}, True),
        ({"anyOf": [TEXT] * 1_000 + [{"type": "null"}]}, True),
        ({"$ref": "#/$defs/a"}, False),
        (True, True),
        (False, False),
    ],
)
def test_accepts_null_follows_the_schema(schema, accepts):
    assert accepts_null(schema, ROOT) == accepts


def test_nulls_of_optional_members_are_removed():
    inner = {"type": "object", "properties": {"n": NUMBER}}
    schema = {
        "properties": {
            "optional": TEXT,
            "required": TEXT,
            "nullable": {"type": ["string", "null"]},
            "inner": inner,
            "list": {"type": "array", "items": inner},
        },
        "required": ["required"],
    }
    given_ = {
        "optional": None,
        "required": None,
        "nullable": None,
        "inner": {"n": None, "other": None},
        "list": [{"n": None}, {"n": 1}, 3],
    }
    assert remove_nulls(given_, schema, schema) == {
        "required": None,
        "nullable": None,
        "inner": {"other": None},
        "list": [{}, {"n": 1}, 3],
    }


def test_nulls_of_optional_members_of_alternatives_are_removed():
    point = {"type": "object", "properties": {"x": NUMBER, "y": NUMBER}}
    schema = {
        "$defs": {"point": {**point, "required": ["x"]}},
        "properties": {
            "either": {"anyOf": [TEXT, NUMBER]},
            "point": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
            "points": {
                "oneOf": [TEXT, {"type": "array", "items": {"$ref": "#/$defs/point"}}]
            },
            "nullable": {"anyOf": [TEXT, {"type": "null"}]},
        },
    }
    given_ = {
        "either": None,
        "point": {"x": None, "y": None},
        "points": [{"x": 1, "y": None}],
        "nullable": None,
    }
    assert remove_nulls(given_, schema, schema) == {
        "point": {"x": None},
        "points": [{"x": 1}],
        "nullable": None,
    }


def test_null_stays_if_several_alternatives_have_its_member():
    def kind(value, **x):
        members = {"kind": {"const": value}, "x": x}
        return {"type": "object", "properties": members, "required": ["kind"]}

    required = kind("b", type=["integer", "null"])
    alternatives = [kind("a", **NUMBER), required, kind("c", **NUMBER)]
    schema = {"properties": {"a": {"anyOf": alternatives}}}
    for name, expected in (("b", {"x": None}), ("c", {})):
        value = {"a": {"kind": name, "x": None}}
        assert remove_nulls(value, schema, schema) == {"a": {"kind": name, **expected}}


@pytest.mark.parametrize(
    "branch", [{"$ref": "#/properties/a"}, {}], ids=["endless", ""]
)
def test_alternatives_are_bounded(branch):
    keywords = dict.fromkeys(map(str, range(6_000)))
    schema = {"properties": {"a": {"anyOf": [branch] * 6_000, **keywords}}}
    value = {"a": {"b": [{"c": None}]}}
    with traced_memory() as memory:
        assert remove_nulls(value, schema, schema) == value
    assert memory.peak < 30_000_000


def test_deeply_nested_arguments_are_unchanged():
    schema = {"type": "array", "items": {"$ref": "#"}}
    value = None
    for _ in range(200):
        value = [value]
    assert remove_nulls(value, schema, schema) == value


KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "items",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
        "format",
        "$ref",
        "$defs",
        "additionalProperties",
        "prefixItems",
        "not",
        "description",
        "title",
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from(
            ["object", "array", "string", "null", "#", "#/$defs/a", "date-time", ""]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYWORDS | st.sampled_from("ab"), inner, max_size=4),
    ),
    max_leaves=20,
)


@given(st.dictionaries(KEYWORDS, VALUES, max_size=6), st.sampled_from(EXPORT_FORMS))
def test_tool_with_any_schema_can_be_exported(schema, form):
    tool = Tool("odd", schema, description="d")
    assert len(Export([tool], form)) == 1
    if form.startswith("openai"):
        strict = Export([tool], form, strict=True)
        assert len(strict) == 1
        assert isinstance(
            strict.calls(
                {
                    "output": [
                        {
                            "type": "function_call",
                            "name": "odd",
                            "arguments": '{"a":null,"b":[null]}',
                        }
                    ]
                }
            ),
            list,
        )


# --- older drafts and keywords that a vendor cannot read --------------------------

OLDER = [
    (
        {"type": "array", "items": [TEXT, NUMBER], "additionalItems": False},
        {"type": "array", "prefixItems": [TEXT, NUMBER], "items": False},
    ),
    (
        {"type": "array", "items": [TEXT]},
        {"type": "array", "prefixItems": [TEXT], "items": {}},
    ),
    ({"type": "array", "items": []}, {"type": "array", "items": {}}),
    (
        {**NUMBER, "minimum": 0, "exclusiveMinimum": True},
        {**NUMBER, "exclusiveMinimum": 0},
    ),
    ({**NUMBER, "maximum": 5, "exclusiveMaximum": False}, {**NUMBER, "maximum": 5}),
    ({**NUMBER, "exclusiveMaximum": True}, NUMBER),
    ({**NUMBER, "exclusiveMinimum": 0}, {**NUMBER, "exclusiveMinimum": 0}),
    ({**TEXT, "required": True}, TEXT),
    (
        {**TEXT, "enum": None, "default": None, "const": None},
        {**TEXT, "default": None, "const": None},
    ),
]


@pytest.mark.parametrize(("older", "made"), OLDER)
def test_older_draft_keywords_are_converted_to_2020_12(older, made):
    schema = {"type": "object", "properties": {"x": older}, "required": None}
    tool = Tool("t", schema)
    (anthropic,) = Export([tool], "anthropic")
    (openai,) = Export([tool], "openai-responses")
    (neutral,) = Export([tool], "neutral")
    assert anthropic["input_schema"]["properties"] == {"x": made}
    assert openai["parameters"] == {"type": "object", "properties": {"x": made}}
    assert neutral["input_schema"] == schema


def test_gemini_gets_older_tuple_items_as_any_of():
    pair = {"type": "array", "items": [TEXT, NUMBER]}
    (made,) = Export(
        [Tool("t", {"type": "object", "properties": {"x": pair}})], "gemini"
    )
    assert made["parameters"]["properties"]["x"]["items"] == {"anyOf": [TEXT, NUMBER]}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "pattern",
    [
        "^(?!\\.)a",
        "(?=a)",
        "(?<=a)b",
        "(?<!a)b",
        "^\\p{L}+$",
        "(?<year>a)",
        "\\u{1F600}",
        "^[\\w-.]+@x$",
        "a{99999999999}",
    ],
)
def test_unsupported_pattern_is_removed_for_openai(pattern, strict):
    schema = {
        "type": "object",
        "properties": {
            "pattern": {**TEXT, "pattern": pattern},
            "kept": {**TEXT, "pattern": "^(?:a|[^b])\\d+\\.[[]\\\\p$"},
        },
        "required": ["pattern", "kept"],
    }
    (made,) = Export([Tool("t", schema)], "openai-responses", strict=strict)
    assert made["strict"] is strict
    properties = made["parameters"]["properties"]
    assert properties == {**schema["properties"], "pattern": TEXT}


def test_unsupported_pattern_property_is_removed_for_openai():
    patterns = {"^(?!_)": TEXT, "^a": NUMBER}
    schema = {"type": "object", "properties": {}, "patternProperties": patterns}
    closed = {**schema, "additionalProperties": False}
    (made,) = Export([Tool("t", closed)], "openai-responses")
    assert made["parameters"] == {**schema, "patternProperties": {"^a": NUMBER}}


def test_reference_into_an_older_tuple_is_rewritten():
    pair = {"type": "array", "items": [TEXT, NUMBER]}
    same = {"$ref": "#/properties/x/items/0"}
    schema = {"type": "object", "properties": {"x": pair, "y": same}}
    (made,) = Export([Tool("t", schema)], "anthropic")
    found = made["input_schema"]["properties"]["y"]
    assert found == {"$ref": "#/properties/x/prefixItems/0"}


OPTIONAL = {"type": ["string", "null"]}


def closed(properties):
    """Return an object's schema in the form that strict mode requires."""
    required = list(properties)
    schema = {"type": "object", "properties": properties, "required": required}
    return {**schema, "additionalProperties": False}


INTEGER = {"type": "integer"}
NULL = {"type": "null"}
DATE = {**TEXT, "format": "date", "pattern": "^2"}
LIST = {"type": "array", "items": TEXT, "minItems": 1}
NULLABLE_ENUM = {"type": ["string", "null"], "enum": ["x", None]}

REQUIRED_MEMBERS = [
    (TEXT, TEXT),
    ({"oneOf": [TEXT, INTEGER]}, {"anyOf": [TEXT, INTEGER]}),
    ({**TEXT, "minLength": 1, "default": "x", "format": "uri"}, TEXT),
    (DATE, DATE),
    (LIST, LIST),
    ({"type": "object", "additionalProperties": False}, closed({})),
    ({"properties": {}}, closed({})),
]

OPTIONAL_MEMBERS = [
    (TEXT, OPTIONAL),
    (OPTIONAL, OPTIONAL),
    (
        {"type": ["string", "integer"], "enum": ["x", 1]},
        {"type": ["string", "integer", "null"], "enum": ["x", 1, None]},
    ),
    (NULLABLE_ENUM, NULLABLE_ENUM),
    ({"enum": ["x"]}, {"anyOf": [{"enum": ["x"]}, NULL]}),
    ({"const": 1, **INTEGER}, {"anyOf": [{"const": 1, **INTEGER}, NULL]}),
]


@pytest.mark.parametrize(("member", "strict"), REQUIRED_MEMBERS)
def test_required_member_is_strict(member, strict):
    assert strict_schema(whole({"a": member}, "a")) == closed({"a": strict})


@pytest.mark.parametrize(("member", "strict"), OPTIONAL_MEMBERS)
def test_optional_member_accepts_null_in_strict_mode(member, strict):
    assert strict_schema(whole({"a": member})) == closed({"a": strict})


def test_strict_object_is_closed_and_so_are_its_definitions():
    assert strict_schema({"type": "object"}) == closed({})
    member = {"$ref": "#/$defs/p", "description": "x"}
    definitions = {"$defs": {"p": whole({"x": TEXT}, "x")}}
    assert strict_schema({**whole({"a": member}, "a"), **definitions}) == {
        **closed({"a": {"$ref": "#/$defs/p"}}),
        "$defs": {"p": closed({"x": TEXT})},
    }


def test_reference_to_a_member_is_replaced_for_strict_mode():
    members = {"a": whole({"x": TEXT}, "x"), "b": {"$ref": "#/properties/a"}}
    inner = closed({"x": TEXT})
    assert strict_schema(whole(members, "a", "b")) == closed({"a": inner, "b": inner})


@pytest.mark.parametrize(
    "inner",
    [
        {},
        True,
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "patternProperties": {"^x": TEXT}},
        {"type": "array"},
        {"type": "array", "prefixItems": [TEXT]},
        {"allOf": [TEXT]},
        {"not": TEXT},
        {"if": TEXT, "then": TEXT},
        {"anyOf": [TEXT, {}]},
        {"$ref": "#/$defs/absent"},
        {"$ref": "#/properties/a"},
        {"$ref": 1},
    ],
)
def test_schema_that_strict_mode_cannot_express_gives_none(inner):
    assert strict_schema(whole({"a": inner})) is None


def test_definitions_must_be_strict_too():
    schema = {**whole({"a": {"$ref": "#/definitions/x"}}), "definitions": {"x": {}}}
    assert strict_schema(schema) is None


def test_schema_nested_over_ten_levels_is_not_strict():
    inner = TEXT
    for _ in range(9):
        inner = whole({"a": inner}, "a")
    assert strict_schema(whole({"a": inner}, "a")) is not None
    assert strict_schema(whole({"a": whole({"a": inner}, "a")}, "a")) is None


# --- names as a vendor allows them ------------------------------------------------

RULES = [anthropic.FORM.names, openai.CHAT.names, gemini.FORM.names, neutral.FORM.names]


def test_allowed_name_is_kept():
    names = VendorNames(["mcp__time__now", "a-b"], anthropic.FORM.names)
    assert names.of("a-b") == "a-b"
    assert names.find("mcp__time__now") == "mcp__time__now"
    assert names.find("nothing") is None


@pytest.mark.parametrize(
    ("name", "rule", "begins"),
    [
        ("files.read", openai.CHAT.names, "files_read_"),
        ("1st", gemini.FORM.names, "_1st_"),
        ("grüße", anthropic.FORM.names, "gr__e_"),
        ("x" * 65, anthropic.FORM.names, "x" * 55 + "_"),
    ],
)
def test_disallowed_name_is_rewritten_and_maps_back(name, rule, begins):
    names = VendorNames([name], rule)
    vendor_name = names.of(name)
    assert vendor_name.startswith(begins)
    assert len(vendor_name) <= rule.max_length
    assert names.find(vendor_name) == name
    assert VendorNames(["other", name], rule).of(name) == vendor_name


def test_tool_named_like_a_rewritten_name_does_not_shadow_the_other():
    rewritten = VendorNames(["a.b"], openai.CHAT.names).of("a.b")
    names = VendorNames(["a.b", rewritten], openai.CHAT.names)
    assert names.of(rewritten) == rewritten
    assert names.of("a.b") != rewritten
    assert names.find(names.of("a.b")) == "a.b"


def test_neutral_form_keeps_every_name():
    names = VendorNames(["grüße an.alle\n", "x" * 500], neutral.FORM.names)
    assert names.of("grüße an.alle\n") == "grüße an.alle\n"


@given(
    st.lists(st.text(alphabet="ab1._- ü", min_size=1, max_size=70), max_size=8),
    st.sampled_from([*RULES, NameRule("a-z", "a-z", 12)]),
)
def test_vendor_names_are_allowed_unique_and_reversible(names, rule):
    made = VendorNames(names, rule)
    vendor_names = [made.of(name) for name in dict.fromkeys(names)]
    assert len(set(vendor_names)) == len(vendor_names)
    for name in names:
        assert made.find(made.of(name)) == name
        assert len(made.of(name)) <= rule.max_length
        if rule is not neutral.FORM.names and rule.max_length == 64:
            assert re.fullmatch(rf"[{rule.first}][{rule.charset}]*", made.of(name))
