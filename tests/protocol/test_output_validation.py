"""Validation of structured output against a tool's schema, within bounded cost."""

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
def limited_memory():
    """Fail a test that takes much memory: without the bound it would take all of it."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    yield
    after = resource.getrusage(resource.RUSAGE_SELF)
    kib = 1024 if sys.platform == "darwin" else 1
    assert (after.ru_maxrss - before.ru_maxrss) / kib < 300 * 1024


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize("value", [{"rows": []}, {"rows": [{"id": 1}], "unit": "km"}])
def test_valid_value_has_no_problem(value):
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
def test_problem_names_the_path_and_the_rule(value, problem):
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
def test_problem_is_found_under_every_keyword(schema, value, problem):
    assert SchemaValidator(schema).check(value) == f"structuredContent{problem}"


@pytest.mark.rule("SCH-01")
def test_schema_without_a_dialect_is_read_as_2020_12():
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
def test_schema_is_read_in_its_declared_dialect(schema, value):
    assert SchemaValidator(schema).check(value) is not None
    for dialect in ("2020-12", "2019-09", "draft-07", "draft-06", "draft-04"):
        assert dialect in output_validation.__doc__


@pytest.mark.rule("SCH-06", "SCH-07", "TOOL-20")
@pytest.mark.attack("S03")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_remote_references_are_not_fetched(keyword):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        listener.setblocking(False)
        with pytest.raises(RemoteProtocolError, match="refers to nothing within it"):
            SchemaValidator({"properties": {"a": {keyword: f"http://{host}:{port}/"}}})
        data = {"$ref": f"http://{host}:{port}/"}
        validator = SchemaValidator({"enum": [data], "default": data, "$comment": ""})
        assert validator.check(data) is None
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("schema", [{"type": 7}, {"properties": []}, {"minimum": "x"}])
def test_schema_that_breaks_its_meta_schema_is_refused(schema):
    with pytest.raises(RemoteProtocolError, match=r"^the schema cannot be used: "):
        SchemaValidator(schema)


def test_formats_are_not_validated():
    for dialect in ({}, {"$schema": DRAFT_07}):
        assert SchemaValidator({**dialect, "format": "ipv4"}).check("x") is None


def test_missing_package_is_reported_by_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(LocalProtocolError, match=r"pip install jsonschema-rs$"):
        SchemaValidator({})


def test_value_without_a_json_form_is_a_problem():
    validator = SchemaValidator({"type": "string"})
    assert validator.check("\ud800").startswith("structuredContent: cannot be checked")
    assert validator.check(object()).startswith("structuredContent: cannot be checked")
    found = SchemaValidator(ROWS).check({"rows": [{"id": "\ud800"}]})
    assert found.startswith("structuredContent: cannot be checked")


@pytest.mark.rule("SCH-10")
@pytest.mark.attack("S17")
@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "a{1000}{1000}", "(", "x" * 2_049]
)
def test_pattern_that_needs_backtracking_or_much_memory_is_refused(pattern):
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
def test_unsupported_pattern_can_be_skipped(schema, passes, fails):
    validator = SchemaValidator(schema, skip_patterns=True)
    assert len(validator.skipped) == 1
    assert validator.check(passes) is None
    assert fails is None or validator.check(fails) is not None


@pytest.mark.rule("SCH-10")
def test_number_and_size_of_patterns_are_bounded():
    SchemaValidator({"anyOf": [{"pattern": f"^{n}$"} for n in range(200)]})
    with pytest.raises(RemoteProtocolError, match="more than 200 patterns"):
        SchemaValidator({"anyOf": [{"pattern": f"^{n}$"} for n in range(201)]})
    with pytest.raises(RemoteProtocolError, match="patterns need more than"):
        SchemaValidator({"anyOf": [{"pattern": f"^.{{{400 + n}}}"} for n in range(9)]})


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "|".join(rf"\w{{{count}}}x{n}" for count in range(100)),  # too large
        lambda n: "(?i:\\w)" * 200 + str(n),
    ],
)
def test_only_a_few_of_many_costly_patterns_are_compiled(make, monkeypatch):
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
def test_evil_pattern_takes_linear_time(pattern, letter, end):
    texts = SchemaValidator({"pattern": pattern})
    names = SchemaValidator({"patternProperties": {pattern: False}})

    def checked(text):
        found = texts.check(text)
        assert found == f"structuredContent: breaks pattern: {pattern!r}"
        assert names.check({text: 1}) is None

    assert grows_in_proportion(checked, lambda size: letter * size + end, 100_000)


@pytest.mark.rule("SCH-10")
@pytest.mark.usefixtures("limited_memory")
def test_larger_pattern_is_tried_on_less_text():
    text = "ab" * 8_000
    for count, is_checked in ((100, True), (900, True), (999, False)):
        validator = SchemaValidator({"pattern": f"[ab]*a[ab]{{{count}}}c"})
        assert (validator.check(text) != TOO_MUCH) is is_checked


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
@pytest.mark.usefixtures("limited_memory")
def test_value_that_would_take_too_long_is_not_checked(schema, value):
    assert SchemaValidator(schema).check(value) == TOO_MUCH


@pytest.mark.rule("SCH-10")
@pytest.mark.usefixtures("limited_memory")
def test_nested_unevaluated_keywords_count_as_expensive():
    schema = {"properties": {"a": {"type": "integer"}}}
    for _ in range(20):
        schema = {"allOf": [schema], "unevaluatedProperties": {"type": "integer"}}
    assert SchemaValidator(schema).check({"a": 1, "b": 2}) == TOO_MUCH


@pytest.mark.rule("SCH-10")
@pytest.mark.usefixtures("limited_memory")
def test_problem_in_a_large_value_is_reported_without_copies():
    validator = SchemaValidator({"anyOf": [{"type": "string"}] * 1_000})
    assert validator.check([1]) == "structuredContent: breaks anyOf"
    found = validator.check(list(range(100_000)))
    assert found == "structuredContent: does not match its schema"
    validator = SchemaValidator({"items": {"type": "integer"}})
    found = validator.check([*range(1_000_000), "x"])
    assert found == "structuredContent[1000000]: expected type 'integer', got str"
    optional = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    validator = SchemaValidator({"items": {"properties": {"a": optional}}})
    found = validator.check([*({"a": n} for n in range(20_000)), {"a": "x"}])
    assert found == "structuredContent[20000].a: breaks anyOf"
    lists = [{"items": {"type": kind}} for kind in ("string", "null", "array")]
    validator = SchemaValidator({"anyOf": lists})
    assert validator.check([1] * 1_000) == "structuredContent: breaks anyOf"
    found = validator.check([1] * 100_000)
    assert found == "structuredContent: does not match its schema"
    found = SchemaValidator(doubled(16)).check(7)
    assert found == "structuredContent: does not match its schema"
    deep = SchemaValidator({"items": {"$ref": "#"}, "type": "array"})
    value = 7
    for _ in range(200):
        value = [value]
    found = deep.check(value)
    assert found.startswith("structuredContent[0][0]")
    assert len(found) < 300
    names = {"properties": {"n" * 150: {"$ref": "#"}}, "maximum": 1}
    assert SchemaValidator(names).check({"n" * 150: {"n" * 150: 2}}) == (
        f"structuredContent.{'n' * 150}.{'n' * 48}...: breaks maximum: 1"
    )


def test_problem_is_short_and_printable():
    name, text = "n" * 100_000, "\x1b]0;x\x07\n" * 1_000
    schema = {"properties": {name: {"const": text}}, "required": [name]}
    validator = SchemaValidator(schema)
    for value in ({}, {name: text + "x"}):
        found = validator.check(value)
        assert len(found) < 500
        assert found.isprintable()


@pytest.mark.rule("SCH-10")
def test_bound_that_takes_too_long_to_compute_counts_as_infinite(monkeypatch):
    # Each level of the value adds one to the cost, so the bound never settles.
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
def test_combined_depth_of_value_and_schema_is_bounded():
    chain = {"items": {"$ref": "#/items"}}
    for _ in range(30):
        chain = {"allOf": [chain]}
    validator = SchemaValidator({"items": chain})
    value = 1
    for depth in range(200):
        value = [value]
        assert (validator.check(value) == TOO_MUCH) is (depth + 2 > 4_096 // 32)


# --- the bound compared with the validator's own count


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
        # Names count as parts, at the depth of the members they name.
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
def test_work_bound_has_the_expected_value(schema, value, expected):
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
def test_validator_never_exceeds_the_work_bound(schema, value):
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


def test_unconstrained_member_of_a_broad_schema_may_be_deep():
    def checked(schema_and_value):
        validator, value = schema_and_value
        assert validator.check(value) is None

    def make(size):
        broad = {f"p{number}": {"type": "string"} for number in range(20 * size)}
        value = {}
        for _ in range(size):
            value = {"a": value}
        return SchemaValidator({"properties": {**broad, "free": {}}}), {"free": value}

    # If each level of the value met each member, the cost would be quadratic.
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
    tools = KnownTools(lambda *_: None)
    tools.add([tool("plain"), tool("counts", SCHEMA)], tools.tools)
    return tools


def problem(known, name, result):
    return known.problem(known.tools.get(name), result)


def test_schema_of_a_late_list_is_not_used_for_the_newer_tool(known):
    old = known.tools
    known.invalidate("notifications/tools/list_changed", None)
    text = {"type": "object", "properties": {"count": {"type": "string"}}}
    known.add([tool("counts", text)], known.tools)
    known.add([tool("counts", SCHEMA)], old)  # requested before, answered after
    assert known.problem(old["counts"], result({"count": "one"}))
    assert problem(known, "counts", result({"count": "one"})) is None


def test_listed_tool_is_known(known):
    assert known.tools["counts"].output_schema == SCHEMA
    assert "other" not in known.tools


MISSING = "it has no structured content, which its output schema requires"


@pytest.mark.parametrize(
    ("name", "content", "is_error", "expected"),
    [
        ("counts", {"count": 1}, False, None),
        ("counts", {"count": "many"}, False, "count"),
        ("counts", None, False, MISSING),
        ("counts", None, True, None),
        ("plain", {"count": "many"}, False, None),
        ("other", {"count": "many"}, False, None),
    ],
)
def test_structured_content_is_checked(known, name, content, is_error, expected):
    for _ in range(2):  # the validator of a schema is kept
        found = problem(known, name, result(content, is_error=is_error))
        assert found == expected or (content and expected in found)


def test_relisted_tool_replaces_its_schema(known):
    assert problem(known, "counts", result({"count": "many"})) is not None
    known.add([tool("counts", {"type": "object"})], known.tools)
    assert problem(known, "counts", result({"count": "many"})) is None


def test_unusable_schema_raises_an_error(known):
    known.add([tool("odd", {"type": 7})], known.tools)
    with pytest.raises(RemoteProtocolError):
        problem(known, "odd", result({}))


def test_tools_list_changed_clears_the_known_tools(known):
    known.invalidate("notifications/resources/list_changed", None)
    assert "plain" in known.tools
    known.invalidate("notifications/tools/list_changed", None)
    assert not known.tools


def test_skipped_patterns_are_reported_once():
    reports = []
    known = KnownTools(lambda *skipped: reports.append(skipped))
    known.add([tool("odd", {"pattern": "(?=a)b"})], known.tools)
    for _ in range(2):
        assert problem(known, "odd", result({})) is None
    assert reports == [("odd", ("(?=a)b",))]
