"""Which tool arguments are mirrored into headers, and how."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.protocol.http_headers import ParamHeader, find_param_headers, mirror_params
from mcpwire.wire.headers import header_matches, is_token


def schema(**properties):
    return {"type": "object", "properties": properties}


def mirrored(name, kind="string"):
    return {"type": kind, "x-mcp-header": name}


VALID = {
    "none": (schema(a={"type": "string"}), []),
    "all types": (
        schema(
            a=mirrored("A"), b=mirrored("b-1", "integer"), c=mirrored("C", "boolean")
        ),
        [("Mcp-Param-A", ("a",)), ("Mcp-Param-b-1", ("b",)), ("Mcp-Param-C", ("c",))],
    ),
    "in the schema's order": (
        schema(
            b=mirrored("1"), a=schema(y=mirrored("2"), x=mirrored("3")), c=mirrored("4")
        ),
        [
            ("Mcp-Param-1", ("b",)),
            ("Mcp-Param-2", ("a", "y")),
            ("Mcp-Param-3", ("a", "x")),
            ("Mcp-Param-4", ("c",)),
        ],
    ),
    "nested": (
        schema(
            city=mirrored("City"), filter=schema(limit=mirrored("Limit", "integer"))
        ),
        [("Mcp-Param-City", ("city",)), ("Mcp-Param-Limit", ("filter", "limit"))],
    ),
    "or null": (schema(a=mirrored("A", ["string", "null"])), [("Mcp-Param-A", ("a",))]),
    "a property with the annotation's name": (
        schema(**{"x-mcp-header": {"type": "number"}}),
        [],
    ),
    "properties with keywords' names": (
        schema(default=mirrored("A"), enum=mirrored("B"), items=mirrored("C")),
        [
            ("Mcp-Param-A", ("default",)),
            ("Mcp-Param-B", ("enum",)),
            ("Mcp-Param-C", ("items",)),
        ],
    ),
    "as data": (
        schema(
            a={"default": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": ""}]},
            b={"const": {"x-mcp-header": ""}, "examples": [{"x-mcp-header": ""}]},
        ),
        [],
    ),
    "under an unknown keyword": (schema(a={"x-foo": mirrored("A")}), []),
    "a schema for anything": (schema(a=True), []),
    "no schema": (None, []),
    "a schema that is true": (True, []),
    "malformed properties": ({"properties": [1]}, []),
    "256 of them": (
        schema(**{f"p{n}": mirrored(f"P{n}") for n in range(256)}),
        [(f"Mcp-Param-P{n}", (f"p{n}",)) for n in range(256)],
    ),
}


@pytest.mark.rule("HDR-09", "HDR-10")
@pytest.mark.parametrize(("input_schema", "found"), VALID.values(), ids=VALID)
def test_annotated_arguments_are_found_with_their_paths(input_schema, found):
    assert [(h.name, h.path) for h in find_param_headers(input_schema)] == found


TOKEN, TYPE = "RFC 9110 token", "type string, integer or boolean"
CHAIN, UNIQUE = "no annotation outside a chain of properties", "unique name"
A = "inputSchema.properties.a"
IN_A = {
    "empty": (mirrored(""), TOKEN, ""),
    "space": (mirrored("a b"), TOKEN, ""),
    "CRLF": (mirrored("A\r\nEvil: 1"), TOKEN, ""),
    "number": (mirrored("A", "number"), TYPE, ""),
    "null type": (mirrored("A", "null"), TYPE, ""),
    "null types": (mirrored("A", ["null"]), TYPE, ""),
    "some type": (mirrored("A", ["string", "object"]), TYPE, ""),
    "no such type": (mirrored("A", ["string", 5]), TYPE, ""),
    "type missing": ({"x-mcp-header": "A"}, TYPE, ""),
    "taken": (mirrored("TAKEN"), UNIQUE, ""),
    "items": ({"type": "array", "items": mirrored("A")}, CHAIN, ".items"),
    "anyOf": ({"anyOf": [{}, schema(b=mirrored("A"))]}, CHAIN, ".anyOf.1.properties.b"),
    "not": ({"not": mirrored("A")}, CHAIN, ".not"),
    "if": ({"if": schema(b=mirrored("A"))}, CHAIN, ".if.properties.b"),
    "patternProperties": (
        {"patternProperties": {"^a": mirrored("A")}},
        CHAIN,
        ".patternProperties.^a",
    ),
    "$defs": ({"$defs": {"d": mirrored("A")}}, CHAIN, ".$defs.d"),
}


@pytest.mark.rule("HDR-06", "HDR-07", "HDR-08", "HDR-09", "HDR-10")
@pytest.mark.attack("S19")
@pytest.mark.parametrize(("annotated", "expected", "where"), IN_A.values(), ids=IN_A)
def test_invalid_annotation_is_refused_with_its_path(annotated, expected, where):
    with pytest.raises(InvalidMessage) as caught:
        find_param_headers(schema(taken=mirrored("Taken"), a=annotated))
    assert caught.value.expected == expected
    assert caught.value.path == f"{A}{where}.x-mcp-header"


@pytest.mark.rule("HDR-10")
def test_root_schema_cannot_be_annotated():
    with pytest.raises(InvalidMessage, match=CHAIN):
        find_param_headers(mirrored("A"))


@pytest.mark.attack("S13", "S14")
def test_hostile_schema_costs_no_more_than_its_size():
    deep = mirrored("A")
    for _ in range(100):
        deep = schema(**{"n" * 50: deep})
    (header,) = find_param_headers(deep)
    assert len(header.path) == 100
    assert find_param_headers(schema(n=deep)) == ()  # deeper than the search goes
    wide = schema(**{f"p{n}": mirrored(f"P{n}") for n in range(257)})
    with pytest.raises(InvalidMessage, match="at most 256"):
        find_param_headers(wide)
    with pytest.raises(InvalidMessage) as caught:
        find_param_headers({"items": deep["properties"]["n" * 50]})
    assert len(str(caught.value)) < 600


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "x-mcp-header", "type", "items", "a"])
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=15,
)


@pytest.mark.attack("S12")
@given(JSON)
def test_any_json_schema_gives_headers_or_is_refused(value):
    try:
        found = find_param_headers(value)
    except InvalidMessage:
        return
    assert all(is_token(header.name) for header in found)


def headers_for(**paths):
    return [ParamHeader(f"Mcp-Param-{name}", path) for name, path in paths.items()]


MIRRORED = {
    "string": ("us-west1", "us-west1"),
    "empty": ("", ""),
    "to be encoded": ("Zürich", "=?base64?WsO8cmljaA==?="),
    "integer": (-7, "-7"),
    "zero": (0, "0"),
    "true": (True, "true"),
    "false": (False, "false"),
    "an integer as JSON Schema has them": (42.0, "42"),
    "the largest integer": (2**53 - 1, "9007199254740991"),
    "the smallest integer": (-(2**53) + 1, "-9007199254740991"),
}


@pytest.mark.rule("HDR-09", "HDR-16", "HDR-17", "HDR-19")
@pytest.mark.parametrize(("value", "header"), MIRRORED.values(), ids=MIRRORED)
def test_argument_is_mirrored_as_its_text(value, header):
    assert mirror_params(headers_for(A=("a",)), {"a": value}) == [
        ("Mcp-Param-A", header)
    ]
    assert header_matches(header, value)


@pytest.mark.rule("HDR-09")
@pytest.mark.parametrize(
    "value", [2**53, -(2**53), 1.5, 1e300, float("inf"), float("nan"), [], {}, b""]
)
def test_argument_without_a_header_form_is_refused_by_name(value):
    with pytest.raises(
        LocalProtocolError, match=r"argument f\.a is mirrored into Mcp-P"
    ):
        mirror_params(headers_for(A=("f", "a")), {"f": {"a": value}})


@pytest.mark.rule("HDR-14", "HDR-15")
def test_value_is_read_at_its_exact_path_and_omitted_if_absent():
    found = headers_for(
        A=("a",), B=("f", "b"), C=("f", "c"), D=("s", "d"), E=("e", "e")
    )
    arguments = {"a": None, "b": 1, "f": {"c": 2}, "s": "text", "E": 1}
    assert mirror_params(found, arguments) == [("Mcp-Param-C", "2")]


@pytest.mark.rule("HDR-16", "HDR-20")
@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
)
def test_mirrored_header_matches_the_argument_in_the_body(value):
    ((name, header),) = mirror_params(headers_for(A=("a",)), {"a": value})
    assert header_matches(header, value, header=name)
