"""What a request repeats in its head, and which tools are dropped because of it."""

import pytest

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol import http_headers
from mcpwire.protocol.http_headers import MirroredHeaders
from mcpwire.protocol.methods import METHODS, Kind


@pytest.fixture
def dropped():
    """Collect the arguments of `on_dropped`."""
    return []


@pytest.fixture
def mirrored(dropped):
    """Give a mirror that knows no tool."""
    return MirroredHeaders(lambda name, reason: dropped.append((name, reason)))


def tool(name="query", header="Region", kind="string", **more):
    """Return a tool with one annotated argument."""
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
