"""Structured output against the schema of its tool: right, and never at any price."""

import contextlib
import resource
import socket
import sys

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proportion import grows_in_proportion

from mcpwire.errors import LocalProtocolError, RemoteProtocolError
from mcpwire.protocol import json_schema, output_validation
from mcpwire.protocol.output_validation import KnownTools, SchemaValidator
from mcpwire.types import CallToolResult, Tool

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
ROWS = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "unit": {"enum": ["m", "km"]},
    },
    "required": ["rows"],
    "additionalProperties": False,
    "$defs": {
        "row": {
            "type": "object",
            "properties": {"id": {"type": "integer", "maximum": 10}},
            "required": ["id"],
        }
    },
}
TOO_MUCH = (
    "structuredContent: too large, or nested too deeply, to be checked against the "
    "schema"
)


MIN = ": breaks minimum: 3"


@pytest.fixture
def frugal():
    """Fail a test that takes much memory; what it bounds would else take it all."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    yield
    after = resource.getrusage(resource.RUSAGE_SELF)
    kib = 1024 if sys.platform == "darwin" else 1
    assert (after.ru_maxrss - before.ru_maxrss) / kib < 300 * 1024


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize("value", [{"rows": []}, {"rows": [{"id": 1}], "unit": "km"}])
def test_what_conforms_has_no_problem(value):
    assert SchemaValidator(ROWS).check(value) is None


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (7, ": expected type 'object', got int"),
        ({}, ": lacks 'rows'"),
        ({"rows": [{"id": 1}, {"id": 11}]}, ".rows[1].id: breaks maximum: 10"),
        ({"rows": [{"id": "1"}]}, ".rows[0].id: expected type 'integer', got str"),
        ({"rows": [{"id": 1}, {}]}, ".rows[1]: lacks 'id'"),
        ({"rows": [], "unit": "mi"}, ".unit: breaks enum: ['m', 'km']"),
        ({"rows": [], "x\n y": 1}, r"['x\n y']: is not allowed"),
    ],
)
def test_a_problem_names_the_place_and_the_rule(value, problem):
    assert SchemaValidator(ROWS).check(value) == f"structuredContent{problem}"


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, ": breaks anyOf"),
        ({"not": {}, "if": True}, 1, ": breaks not"),
        ({"allOf": [{}, {"minimum": 3}]}, 1, MIN),
        ({"unevaluatedItems": {"minimum": 3}}, [1], ": breaks unevaluatedItems: ['1']"),
        pytest.param(
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "maximum": 1,
                "exclusiveMaximum": True,
            },
            1,
            ": breaks exclusiveMaximum: 1",
            marks=pytest.mark.rule("SCH-04"),
        ),
        ({"prefixItems": [{}], "items": False}, [1, 2], "[1]: is not allowed"),
        (
            {"additionalProperties": False, "patternProperties": {"^b": {}}},
            {"a": 1},
            ".a: is not allowed",
        ),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            ": breaks propertyNames: 'ab'",
        ),
        ({"additionalProperties": False}, {"a": 1}, ": no members are allowed"),
        ({"contains": {"const": 1}}, [2], ": breaks contains"),
        (
            {"$schema": DRAFT_07, "items": [{}], "additionalItems": False},
            [1, 2],
            "[1]: is not allowed",
        ),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ": lacks 'b'"),
        (
            {"properties": {"a": False, "b": True}},
            {"a": 1, "b": 2},
            ".a: is not allowed",
        ),
        (
            {"$schema": DRAFT_2019, "$recursiveAnchor": True, "type": "array"}
            | {"items": {"$recursiveRef": "#"}},
            [[[1]]],
            "[0][0][0]: expected type 'array', got int",
        ),
    ],
)
def test_every_way_into_a_schema_leads_to_a_problem(schema, value, problem):
    assert SchemaValidator(schema).check(value) == f"structuredContent{problem}"


@pytest.mark.rule("SCH-01")
def test_without_a_word_a_schema_is_read_as_2020_12():
    validator = SchemaValidator({"prefixItems": [{"type": "string"}]})
    assert validator.check([1]) is not None


@pytest.mark.rule("SCH-02", "SCH-04")
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$schema": DRAFT_07, "items": [{"type": "string"}]}, [1]),
        ({"$schema": DRAFT_07, "dependencies": {"a": ["b"]}}, {"a": 1}),
        ({"$schema": DRAFT_2019, "dependentRequired": {"a": ["b"]}}, {"a": 1}),
        ({"$schema": "http://json-schema.org/draft-06/schema#", "const": 1}, 2),
    ],
)
def test_a_schema_is_read_in_its_declared_dialect(schema, value):
    assert SchemaValidator(schema).check(value) is not None
    for dialect in ("2020-12", "2019-09", "draft-07", "draft-06", "draft-04"):
        assert dialect in output_validation.__doc__


@pytest.mark.rule("SCH-06", "SCH-07", "TOOL-20")
@pytest.mark.attack("S03")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_nothing_is_fetched(keyword):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        listener.setblocking(False)
        with pytest.raises(RemoteProtocolError, match="leads out of it"):
            SchemaValidator({"properties": {"a": {keyword: f"http://{host}:{port}/"}}})
        data = {"$ref": f"http://{host}:{port}/"}
        validator = SchemaValidator({"enum": [data], "default": data, "$comment": ""})
        assert validator.check(data) is None
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("schema", [{"type": 7}, {"properties": []}, {"minimum": "x"}])
def test_a_schema_against_its_own_rules_is_refused(schema):
    with pytest.raises(RemoteProtocolError, match=r"^the schema cannot be used: "):
        SchemaValidator(schema)


def test_formats_are_annotations():
    for dialect in ({}, {"$schema": DRAFT_07}):
        assert SchemaValidator({**dialect, "format": "ipv4"}).check("x") is None


def test_a_missing_extra_is_one_sentence_that_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(LocalProtocolError, match=r"pip install jsonschema-rs$"):
        SchemaValidator({})


def test_a_value_that_is_no_json_is_a_problem_and_no_crash():
    validator = SchemaValidator({"type": "string"})
    assert validator.check("\ud800").startswith("structuredContent: cannot be checked")
    assert validator.check(object()).startswith("structuredContent: cannot be checked")
    told = SchemaValidator(ROWS).check({"rows": [{"id": "\ud800"}]})
    assert told.startswith("structuredContent: cannot be checked")


# --- patterns


@pytest.mark.rule("SCH-10")
@pytest.mark.attack("S17")
@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)b",
        "(?<!a)b",
        r"(a)\1",
        "a{1000}{1000}",
        "(",
        "x" * 2_049,
    ],
)
def test_a_pattern_that_needs_more_than_linear_time_or_little_memory_is_refused(
    pattern,
):
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
        with pytest.raises(RemoteProtocolError) as caught:
            SchemaValidator({"not": schema})
        assert f"pattern {pattern[:90]!r}"[:-1] in str(caught.value)
        assert "is not supported: patterns take linear time" in str(caught.value)


@pytest.mark.rule("SCH-10")
@pytest.mark.parametrize(
    ("schema", "passes", "fails"),
    [
        ({"type": "string", "pattern": "(?=a)b"}, "x", 1),
        (
            {
                "patternProperties": {"(?=a)b": {"type": "null"}, "^n": {"minimum": 3}},
                "additionalProperties": False,
                "properties": {"a": {"pattern": "^a"}},
            },
            {"other": 1, "n": 3, "a": "a"},
            {"n": 1},
        ),
        (
            {"oneOf": [{"pattern": "(?!a)b"}, {"type": "string", "minLength": 2}]},
            "abc",
            None,
        ),
        (
            {"not": {"pattern": "(?!a)b"}, "if": {}, "then": False, "minLength": 2},
            "abc",
            "a",
        ),
    ],
)
def test_a_foreign_pattern_that_is_not_supported_can_be_skipped(schema, passes, fails):
    validator = SchemaValidator(schema, skip_patterns=True)
    assert len(validator.skipped) == 1
    assert validator.check(passes) is None
    assert fails is None or validator.check(fails) is not None


@pytest.mark.rule("SCH-10")
def test_the_number_and_the_size_of_patterns_are_bounded():
    SchemaValidator({"anyOf": [{"pattern": f"^{n}$"} for n in range(200)]})
    with pytest.raises(RemoteProtocolError, match="more than 200 patterns"):
        SchemaValidator({"anyOf": [{"pattern": f"^{n}$"} for n in range(201)]})
    with pytest.raises(RemoteProtocolError, match="patterns need more than"):
        SchemaValidator({"anyOf": [{"pattern": f"^.{{{400 + n}}}"} for n in range(9)]})


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "|".join(rf"\w{{{many}}}x{n}" for many in range(100)),  # too large
        lambda n: "(?i:\\w)" * 200 + str(n),
    ],
)
def test_few_of_many_costly_patterns_are_compiled(make, monkeypatch):
    compiled = set()

    def compile_(schema, **options):
        compiled.add(str(schema.get("pattern")))
        return compiler(schema, **options)

    compiler = jsonschema_rs.Draft202012Validator
    monkeypatch.setattr(jsonschema_rs, "Draft202012Validator", compile_)
    schema = {"anyOf": [{"pattern": make(n)} for n in range(200)]}
    with contextlib.suppress(RemoteProtocolError):
        SchemaValidator(schema, skip_patterns=True)
    assert 0 < len(compiled - {"None"}) <= 10


@pytest.mark.rule("SCH-10")
@pytest.mark.attack("S17")
@pytest.mark.parametrize(
    ("pattern", "letter", "end"),
    [
        *(("^(a+)+$", "a", "!"), ("(x+x+)+y", "x", "")),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a", ""),
        (r"(.*)*,(.*)*,(.*)*;", ",", ""),
    ],
)
def test_an_evil_pattern_takes_linear_time(pattern, letter, end):
    texts = SchemaValidator({"pattern": pattern})
    names = SchemaValidator({"patternProperties": {pattern: False}})

    def checked(text):
        told = texts.check(text)
        assert told == f"structuredContent: breaks pattern: {pattern!r}"
        assert names.check({text: 1}) is None

    assert grows_in_proportion(checked, lambda size: letter * size + end, 100_000)


@pytest.mark.rule("SCH-10")
@pytest.mark.usefixtures("frugal")
def test_the_larger_a_pattern_the_less_text_it_is_tried_on():
    text = "ab" * 8_000
    for count, is_checked in ((100, True), (900, True), (999, False)):
        validator = SchemaValidator({"pattern": f"[ab]*a[ab]{{{count}}}c"})
        assert (validator.check(text) != TOO_MUCH) is is_checked


# --- too much work


def doubled(levels):
    """Return a schema whose cost for one value doubles with each level."""
    schemas = {"d0": {"type": "string"}}
    for level in range(levels):
        inner = {"$ref": f"#/$defs/d{level}"}
        schemas[f"d{level + 1}"] = {"anyOf": [inner, inner.copy()]}
    return {"$ref": f"#/$defs/d{levels}", "$defs": schemas}


@pytest.mark.rule("SCH-10")
@pytest.mark.attack("S14")
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubled(30), 7),
        (
            {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}, "not": {}}]},
            [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],
        ),
        (
            {"$dynamicAnchor": "a", "items": {"anyOf": [{"$dynamicRef": "#a"}] * 3}},
            [[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]],
        ),
        ({"items": {"enum": [{"a": n} for n in range(3_000)]}}, [{"a": 1}] * 3_000),
        ({"items": {"anyOf": [{"const": n} for n in range(2_000)]}}, [-1] * 10_000),
        ({"type": "integer"}, [0] * 2_000_001),
    ],
)
@pytest.mark.usefixtures("frugal")
def test_a_value_that_would_take_too_long_is_reported_and_not_checked(schema, value):
    assert SchemaValidator(schema).check(value) == TOO_MUCH


@pytest.mark.rule("SCH-10")
@pytest.mark.usefixtures("frugal")
def test_unevaluated_within_unevaluated_is_known_to_be_expensive():
    schema = {"properties": {"a": {"type": "integer"}}}
    for _ in range(20):
        schema = {"allOf": [schema], "unevaluatedProperties": {"type": "integer"}}
    assert SchemaValidator(schema).check({"a": 1, "b": 2}) == TOO_MUCH


@pytest.mark.rule("SCH-10")
@pytest.mark.usefixtures("frugal")
def test_a_fault_in_a_large_value_costs_no_copies_of_it():
    validator = SchemaValidator({"anyOf": [{"type": "string"}] * 1_000})
    assert validator.check([1]) == "structuredContent: breaks anyOf"
    told = validator.check(list(range(100_000)))
    assert told == "structuredContent: breaks its schema somewhere"
    validator = SchemaValidator({"items": {"type": "integer"}})
    told = validator.check([*range(1_000_000), "x"])
    assert told == "structuredContent[1000000]: expected type 'integer', got str"
    optional = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    validator = SchemaValidator({"items": {"properties": {"a": optional}}})
    told = validator.check([*({"a": n} for n in range(20_000)), {"a": "x"}])
    assert told == "structuredContent[20000].a: breaks anyOf"
    lists = [{"items": {"type": kind}} for kind in ("string", "null", "array")]
    validator = SchemaValidator({"anyOf": lists})
    assert validator.check([1] * 1_000) == "structuredContent: breaks anyOf"
    told = validator.check([1] * 100_000)
    assert told == "structuredContent: breaks its schema somewhere"
    told = SchemaValidator(doubled(16)).check(7)
    assert told == "structuredContent: breaks its schema somewhere"
    deep = SchemaValidator({"items": {"$ref": "#"}, "type": "array"})
    value = 7
    for _ in range(200):
        value = [value]
    told = deep.check(value)
    assert told.startswith("structuredContent[0][0]")
    assert len(told) < 300
    names = {"properties": {"n" * 150: {"$ref": "#"}}, "maximum": 1}
    assert SchemaValidator(names).check({"n" * 150: {"n" * 150: 2}}) == (
        f"structuredContent.{'n' * 150}.{'n' * 48}...: breaks maximum: 1"
    )


def test_a_problem_is_short_whatever_is_in_value_and_schema():
    name, text = "n" * 100_000, "\x1b]0;x\x07\n" * 1_000
    schema = {"properties": {name: {"const": text}}, "required": [name]}
    validator = SchemaValidator(schema)
    for value in ({}, {name: text + "x"}):
        told = validator.check(value)
        assert len(told) < 500
        assert told.isprintable()


@pytest.mark.rule("SCH-10")
def test_a_bound_that_takes_too_long_to_find_counts_as_endless(monkeypatch):
    # From one level of the value to the next it costs one more, so it never settles.
    schema = {
        "items": {"$ref": "#/$defs/a"},
        "$defs": {
            "a": {"allOf": [{"items": {"$ref": "#/$defs/a"}}, {"$ref": "#/$defs/b"}]},
            "b": {"items": {"$ref": "#/$defs/b"}},
        },
    }
    validator = SchemaValidator(schema)
    value = 1
    for _ in range(60):
        value = [value]
    assert validator.check(value) is None
    monkeypatch.setattr(output_validation, "MAX_BOUND_STEPS", 50)
    validator = SchemaValidator(schema)
    assert validator.check(value) == TOO_MUCH
    assert validator.check([[1]]) is None


@pytest.mark.rule("SCH-10")
def test_the_depth_of_value_and_schema_together_is_bounded():
    chain = {"items": {"$ref": "#/items"}}
    for _ in range(30):
        chain = {"allOf": [chain]}
    validator = SchemaValidator({"items": chain})
    value = 1
    for depth in range(200):
        value = [value]
        assert (validator.check(value) == TOO_MUCH) is (depth + 2 > 4_096 // 32)


# --- the bound against the validator itself, which is asked to count


def bound(schema, value):
    index = json_schema.read_schema(schema)
    amounts = output_validation._measure(value)
    return output_validation._WorkBound(index, {"^a": 8 * 1024}).work(amounts)


@pytest.mark.rule("SCH-10")
@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"allOf": [{}, {}]}, 1, 3),
        ({"items": {}}, [1, 2, 3], 1 + 3),
        # Names count as parts as deep as the members they name.
        ({"properties": {"a": {}, "b": {}}}, {"a": 1, "b": 2}, 1 + 4),
        ({"properties": {"a": {}}, "additionalProperties": {}}, {"a": 1}, 1 + 4),
        ({"allOf": [{"items": {}}, {"items": {}}]}, [1], 3 + 2),
        ({"unevaluatedProperties": {}, "properties": {"a": {}}}, {"a": 1}, 3 + 2 * 6),
        ({"pattern": "^a"}, "abcd", 1 + 4 * 10),
        ({"patternProperties": {"^a": {}}}, {"abcd": 1}, 1 + 2 + 4 * 10),
        ({"items": {"$ref": "#"}}, [[[1]]], 1 + 3 * 2),
        ({"enum": [1, 2, 3]}, 1, 1 + 1),
        ({"const": list(range(10))}, 1, 1 + 5),
        ({"multipleOf": 0.5}, 1, 1 + 200),
    ],
)
def test_the_bound_counts(schema, value, expected):
    assert bound(schema, value) == expected


LEAVES = st.sampled_from([{}, {"type": "string"}, {"minimum": 1}, True, False])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"allOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda a: {"not": a}, inner),
        st.builds(
            lambda a, b: {"properties": {"a": a}, "additionalProperties": b},
            inner,
            inner,
        ),
        st.builds(lambda a, b: {"prefixItems": [a], "items": b}, inner, inner),
        st.builds(lambda a, b: {"if": a, "then": b}, inner, inner),
    ),
    max_leaves=12,
)
VALUES = st.recursive(
    st.sampled_from([0, 2, "x", None]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_the_validator_never_does_more_than_the_bound(schema, value):
    count = 0

    class Counter:
        def __init__(self, *_):
            pass

        def validate(self, _):
            nonlocal count
            count += 1

    marked = json_schema.map_schemas(schema, lambda inner: {**inner, "x-count": 1})
    jsonschema_rs.Draft202012Validator(marked, keywords={"x-count": Counter}).is_valid(
        value
    )
    assert count <= bound(schema, value)


def test_a_free_member_of_a_broad_schema_may_be_deep():
    def checked(schema_and_value):
        validator, value = schema_and_value
        assert validator.check(value) is None

    def make(size):
        broad = {f"p{number}": {"type": "string"} for number in range(20 * size)}
        value = {}
        for _ in range(size):
            value = {"a": value}
        return SchemaValidator({"properties": {**broad, "free": {}}}), {"free": value}

    # Where each level of the value met each member, it were the square.
    assert grows_in_proportion(checked, make, 240)


SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
}


def tool(name, schema=None):
    given = {} if schema is None else {"output_schema": schema}
    return Tool(name=name, input_schema={"type": "object"}, **given)


def result(content=None, **options):
    given = {} if content is None else {"structured_content": content}
    return CallToolResult(content=[], **given, **options)


@pytest.fixture
def known():
    made = KnownTools(lambda *_: None)
    made.add([tool("plain"), tool("counts", SCHEMA)])
    return made


def test_a_tool_is_known_from_the_list_that_told_of_it(known):
    assert known.get("counts").output_schema == SCHEMA
    assert known.get("other") is None


def test_a_result_that_keeps_its_promise_has_no_problem(known):
    for number in range(2):
        assert known.problem("counts", result({"count": number})) is None


def test_a_result_that_breaks_its_promise_is_told(known):
    assert "count" in known.problem("counts", result({"count": "many"}))


def test_a_result_without_what_the_schema_demands_is_told(known):
    assert known.problem("counts", result()) == (
        "it has no structured content, which its output schema demands"
    )


@pytest.mark.parametrize("name", ["plain", "other"])
def test_who_promised_nothing_breaks_nothing(known, name):
    assert known.problem(name, result({"count": "many"})) is None


def test_a_failure_is_bound_by_no_schema(known):
    assert known.problem("counts", result(is_error=True)) is None


def test_a_tool_that_is_listed_again_promises_what_it_says_now(known):
    assert known.problem("counts", result({"count": "many"})) is not None
    known.add([tool("counts", {"type": "object"})])
    assert known.problem("counts", result({"count": "many"})) is None


def test_a_schema_that_cannot_be_used_says_why(known):
    known.add([tool("odd", {"type": 7})])
    with pytest.raises(RemoteProtocolError):
        known.problem("odd", result({}))


def test_when_the_tools_changed_nothing_is_known_any_more(known):
    known.invalidate("notifications/resources/list_changed", None)
    assert known.get("plain") is not None
    known.invalidate("notifications/tools/list_changed", None)
    assert known.get("plain") is known.get("counts") is None


def test_a_schema_with_patterns_that_are_skipped_says_so_once():
    told = []
    known = KnownTools(lambda *skipped: told.append(skipped))
    known.add([tool("odd", {"pattern": "(?=a)b"})])
    for _ in range(2):
        assert known.problem("odd", result({})) is None
    assert told == [("odd", ("(?=a)b",))]
