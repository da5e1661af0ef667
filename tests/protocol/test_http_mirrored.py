"""What a request repeats in its head, and which tools are dropped because of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.protocol import http_headers
from mcpwire.protocol.http_headers import (
    MirroredHeaders,
    ParamHeader,
    find_param_headers,
    mirror_params,
)
from mcpwire.protocol.methods import METHODS, Kind
from mcpwire.wire.headers import header_matches, is_token


@pytest.fixture
def dropped():
    """Collect the arguments of `on_dropped`."""
    return []


@pytest.fixture
def mirrored(dropped):
    return MirroredHeaders(lambda name, reason: dropped.append((name, reason)))


def tool(name="query", header="Region", kind="string", **more):
    marked = {"type": kind, "x-mcp-header": header}
    schema = {"type": "object", "properties": {"region": marked, "n": {}}}
    return {"name": name, "inputSchema": schema, **more}


def params(mirrored, name, arguments):
    """Return the fields that repeat arguments of a call."""
    call = {"name": name, "arguments": arguments}
    lines = mirrored.lines("tools/call", call).decode().split("\r\n")[:-1]
    fields = [tuple(line.split(": ", 1)) for line in lines]
    return [field for field in fields if field[0].startswith("mcp-param-")]


PLAIN = {"name": "plain", "inputSchema": {"type": "object"}}


@pytest.mark.system("U26")
@pytest.mark.rule("HDR-01")
@pytest.mark.parametrize(
    "method",
    [*sorted({spec.name for spec in METHODS if spec.kind is not Kind.INPUT}), "x/Own"],
)
def test_every_message_names_its_method(mirrored, method):
    assert mirrored.lines(method, None) == b"mcp-method: %s\r\n" % method.encode()


@pytest.mark.rule("HDR-02", "HDR-03", "HDR-19")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "echo", "uri": "no"}, "echo"),
        ("tools/call", {"name": "two words"}, "two words"),
        ("tools/call", {"name": ""}, ""),
        ("prompts/get", {"name": "greet"}, "greet"),
        ("resources/read", {"uri": "file:///a b", "name": "no"}, "file:///a b"),
        ("tasks/get", {"taskId": "t-1"}, "t-1"),
        ("tasks/update", {"taskId": "t-1"}, "t-1"),
        ("tasks/cancel", {"taskId": "t-1"}, "t-1"),
    ],
)
def test_request_names_its_tool_prompt_resource_or_task(mirrored, method, params, name):
    assert mirrored.lines(method, params) == (
        f"mcp-method: {method}\r\nmcp-name: {name}\r\n".encode()
    )


@pytest.mark.rule("HDR-02")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("completion/complete", {"name": "x", "uri": "y", "taskId": "z"}),
        ("tools/list", {"name": "x"}),
        ("tools/call", {}),
        ("tools/call", None),
        ("tools/call", {"name": 7}),
        ("tools/call", {"name": None}),
        ("subscriptions/listen", {"name": "x"}),
    ],
)
def test_requests_without_a_valid_name_have_no_name_header(mirrored, method, params):
    assert mirrored.lines(method, params) == b"mcp-method: %s\r\n" % method.encode()


@pytest.mark.system("U26")
@pytest.mark.attack("S19")
@pytest.mark.rule("HDR-04")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("größe", "=?base64?Z3LDtsOfZQ==?="),
        ("a\r\nx: 1", "=?base64?YQ0KeDogMQ==?="),
        (" a", "=?base64?IGE=?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
    ],
)
def test_name_that_is_not_plain_ascii_is_encoded(mirrored, name, value):
    lines = mirrored.lines("prompts/get", {"name": name})
    assert lines == b"mcp-method: prompts/get\r\nmcp-name: %s\r\n" % value.encode()


@pytest.mark.attack("S19")
@pytest.mark.parametrize("method", ["x\r\ny: 1", "größe", " x"])
def test_method_invalid_as_a_header_value_is_refused(mirrored, method):
    with pytest.raises(LocalProtocolError, match="visible ASCII"):
        mirrored.lines(method, {})


def test_name_with_a_lone_surrogate_is_refused(mirrored):
    with pytest.raises(LocalProtocolError, match="Unicode"):
        mirrored.lines("tools/call", {"name": "\ud800"})


@pytest.mark.rule("HDR-05", "HDR-14")
def test_annotated_arguments_of_a_listed_tool_are_mirrored(mirrored):
    mirrored.add_tools({"tools": [PLAIN, tool()]})
    call = {"name": "query", "arguments": {"region": "eu", "n": 1}}
    assert params(mirrored, "query", call["arguments"]) == [("mcp-param-region", "eu")]
    assert mirrored.lines("tools/call", call) == (
        b"mcp-method: tools/call\r\nmcp-name: query\r\nmcp-param-region: eu\r\n"
    )
    assert mirrored.lines("tools/call", {"name": "plain", "arguments": {}}) == (
        b"mcp-method: tools/call\r\nmcp-name: plain\r\n"
    )


@pytest.mark.rule("HDR-14", "HDR-15")
@pytest.mark.parametrize("arguments", [{}, {"region": None}, None, [], "x"])
def test_missing_or_null_argument_has_no_header(mirrored, arguments):
    mirrored.add_tools({"tools": [tool()]})
    assert params(mirrored, "query", arguments) == []


@pytest.mark.rule("HDR-30")
@pytest.mark.parametrize("name", ["other", "", 7, None, ["query"]])
def test_arguments_of_an_unlisted_tool_are_not_mirrored(mirrored, name):
    assert params(mirrored, name, {"region": "eu"}) == []
    mirrored.add_tools({"tools": [tool()]})
    assert params(mirrored, name, {"region": "eu"}) == []


def test_only_tool_calls_mirror_arguments(mirrored):
    mirrored.add_tools({"tools": [tool()]})
    params = {"name": "query", "arguments": {"region": "eu"}}
    assert b"mcp-param" not in mirrored.lines("prompts/get", params)


@pytest.mark.attack("S19")
@pytest.mark.rule("HDR-11", "HDR-12")
@pytest.mark.parametrize(
    ("header", "kind"), [("", "string"), ("a b", "string"), ("Region", "number")]
)
def test_only_the_tool_with_an_invalid_annotation_is_dropped(
    mirrored, dropped, header, kind
):
    bad = tool("bad", header, kind)
    result = {"tools": [PLAIN, bad, tool()], "nextCursor": "2", "_meta": {"a": 1}}
    before = str(result)
    assert mirrored.add_tools(result) == {**result, "tools": [PLAIN, tool()]}
    assert str(result) == before
    ((name, reason),) = dropped
    assert name == "bad"
    assert reason.startswith("inputSchema.properties.region.x-mcp-header: expected")
    assert params(mirrored, "bad", {"region": "eu"}) == []
    assert params(mirrored, "query", {"region": "eu"}) != []


@pytest.mark.parametrize(
    "result",
    [
        {"tools": [tool(), PLAIN]},
        {"tools": []},
        {"tools": [None, 7, [], {}, {"name": 7, "inputSchema": tool("", 7)}]},
        {"tools": [{"name": "a"}, {"name": "b", "inputSchema": 7}]},
        {"tools": {"name": "a"}},
        {"tools": None},
        {},
    ],
)
def test_list_without_dropped_tools_is_returned_unchanged(mirrored, dropped, result):
    assert mirrored.add_tools(result) is result
    assert dropped == []


@pytest.mark.rule("HDR-30")
def test_newest_list_replaces_the_annotations(mirrored):
    mirrored.add_tools({"tools": [tool()]})
    mirrored.add_tools({"tools": [tool(header="Zone")]})
    assert params(mirrored, "query", {"region": "eu"}) == [("mcp-param-zone", "eu")]
    mirrored.add_tools({"tools": [{**PLAIN, "name": "query"}]})
    assert params(mirrored, "query", {"region": "eu"}) == []
    mirrored.add_tools({"tools": [tool()]})
    mirrored.add_tools({"tools": [tool(header="a b")]})
    assert params(mirrored, "query", {"region": "eu"}) == []


def test_tool_of_an_earlier_page_stays_known(mirrored):
    mirrored.add_tools({"tools": [tool()], "nextCursor": "2"})
    mirrored.add_tools({"tools": [PLAIN]})
    assert params(mirrored, "query", {"region": "eu"}) != []


@pytest.mark.system("U27")
def test_number_of_remembered_annotations_is_bounded(mirrored, monkeypatch):
    monkeypatch.setattr(http_headers, "_MAX_HEADERS", 10)
    for repetition in range(3):
        for number in range(25):
            mirrored.add_tools({"tools": [tool(f"tool-{number}")]})
            known = [
                n for n in range(25) if params(mirrored, f"tool-{n}", {"region": "eu"})
            ]
            assert len(known) <= 10
            assert number in known
        assert known == list(range(15, 25)), repetition


# Which tool arguments are mirrored into headers, and how...


def schema(**properties):
    return {"type": "object", "properties": properties}


def marked(name, kind="string"):
    return {"type": kind, "x-mcp-header": name}


VALID = {
    "none": (schema(a={"type": "string"}), []),
    "all types": (
        schema(a=marked("A"), b=marked("b-1", "integer"), c=marked("C", "boolean")),
        [("Mcp-Param-A", ("a",)), ("Mcp-Param-b-1", ("b",)), ("Mcp-Param-C", ("c",))],
    ),
    "in the schema's order": (
        schema(b=marked("1"), a=schema(y=marked("2"), x=marked("3")), c=marked("4")),
        [
            ("Mcp-Param-1", ("b",)),
            ("Mcp-Param-2", ("a", "y")),
            ("Mcp-Param-3", ("a", "x")),
            ("Mcp-Param-4", ("c",)),
        ],
    ),
    "nested": (
        schema(city=marked("City"), filter=schema(limit=marked("Limit", "integer"))),
        [("Mcp-Param-City", ("city",)), ("Mcp-Param-Limit", ("filter", "limit"))],
    ),
    "or null": (schema(a=marked("A", ["string", "null"])), [("Mcp-Param-A", ("a",))]),
    "a property with the annotation's name": (
        schema(**{"x-mcp-header": {"type": "number"}}),
        [],
    ),
    "properties with keywords' names": (
        schema(default=marked("A"), enum=marked("B"), items=marked("C")),
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
    "under an unknown keyword": (schema(a={"x-foo": marked("A")}), []),
    "a schema for anything": (schema(a=True), []),
    "no schema": (None, []),
    "a schema that is true": (True, []),
    "malformed properties": ({"properties": [1]}, []),
    "256 of them": (
        schema(**{f"p{n}": marked(f"P{n}") for n in range(256)}),
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
    "empty": (marked(""), TOKEN, ""),
    "space": (marked("a b"), TOKEN, ""),
    "CRLF": (marked("A\r\nEvil: 1"), TOKEN, ""),
    "number": (marked("A", "number"), TYPE, ""),
    "null type": (marked("A", "null"), TYPE, ""),
    "null types": (marked("A", ["null"]), TYPE, ""),
    "some type": (marked("A", ["string", "object"]), TYPE, ""),
    "no such type": (marked("A", ["string", 5]), TYPE, ""),
    "type missing": ({"x-mcp-header": "A"}, TYPE, ""),
    "taken": (marked("TAKEN"), UNIQUE, ""),
    "items": ({"type": "array", "items": marked("A")}, CHAIN, ".items"),
    "anyOf": ({"anyOf": [{}, schema(b=marked("A"))]}, CHAIN, ".anyOf.1.properties.b"),
    "not": ({"not": marked("A")}, CHAIN, ".not"),
    "if": ({"if": schema(b=marked("A"))}, CHAIN, ".if.properties.b"),
    "patternProperties": (
        {"patternProperties": {"^a": marked("A")}},
        CHAIN,
        ".patternProperties.^a",
    ),
    "$defs": ({"$defs": {"d": marked("A")}}, CHAIN, ".$defs.d"),
}


@pytest.mark.rule("HDR-06", "HDR-07", "HDR-08", "HDR-09", "HDR-10")
@pytest.mark.attack("S19")
@pytest.mark.parametrize(("annotated", "expected", "where"), IN_A.values(), ids=IN_A)
def test_invalid_annotation_is_refused_with_its_path(annotated, expected, where):
    with pytest.raises(InvalidMessage) as caught:
        find_param_headers(schema(taken=marked("Taken"), a=annotated))
    assert caught.value.expected == expected
    assert caught.value.path == f"{A}{where}.x-mcp-header"


@pytest.mark.rule("HDR-10")
def test_root_schema_cannot_be_annotated():
    with pytest.raises(InvalidMessage, match=CHAIN):
        find_param_headers(marked("A"))


@pytest.mark.attack("S13", "S14")
def test_hostile_schema_costs_no_more_than_its_size():
    deep = marked("A")
    for _ in range(100):
        deep = schema(**{"n" * 50: deep})
    (header,) = find_param_headers(deep)
    assert len(header.path) == 100
    assert find_param_headers(schema(n=deep)) == ()  # deeper than the search goes
    wide = schema(**{f"p{n}": marked(f"P{n}") for n in range(257)})
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
