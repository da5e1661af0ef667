"""The codec: members, absence, leniency, refusals by path, compiled functions."""

import gc
import sys

import attrs
import pytest
from wirevalues import PLAIN

from mcpwire import types
from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.types import UNSET, decode, decoder, encode, encoder
from mcpwire.types._codec import DEFAULTED_FIELDS, OMITTABLE_FIELDS, read_class, spec_of
from mcpwire.versions import find_revision

TEXT = {"type": "text", "text": "hi"}


class Shouted(types.TextContent):
    """A subclass of a user."""


TASK = {"taskId": "t", "status": "working", "createdAt": "", "lastUpdatedAt": ""}


def test_class_whose_hints_attrs_has_resolved_is_read_as_before():
    def kinds():
        return [field.kind for field in read_class(types.Icon).fields]

    before = kinds()
    attrs.resolve_types(types.Icon)  # as cattrs does
    assert kinds() == before


def test_error_names_path_expected_and_got():
    with pytest.raises(InvalidMessage) as caught:
        decode(types.CallToolResult, {"content": [{"type": "text", "text": 5}]})
    error = caught.value
    assert str(error) == "CallToolResult.content[0].text: expected str, got int"
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_paths_quote_names_that_are_not_identifiers():
    value = {"type": "object", "properties": {}, "$schema": 1}
    with pytest.raises(
        InvalidMessage, match=r"^RequestedSchema\.\$schema: expected str"
    ):
        decode(types.RequestedSchema, value)
    with pytest.raises(InvalidMessage) as caught:
        decode(types.ClientCapabilities, {"extensions": {"a/b": 1}})
    assert caught.value.path == 'ClientCapabilities.extensions["a/b"]'


@pytest.mark.rule("RPC-33")
@pytest.mark.pain("P36")
def test_unknown_members_are_kept_in_extra_and_encoded_again():
    value = {"content": [TEXT | {"x": 1}], "later": {"a": 1}}
    result = decode(types.CallToolResult, value)
    assert result.extra == {"later": {"a": 1}}
    assert result.content[0].extra == {"x": 1}
    assert encode(result) == value


def test_field_wins_over_an_extra_member_of_its_name():
    text = types.TextContent("field", extra={"text": "extra", "x": 1})
    assert encode(text) == {"type": "text", "text": "field", "x": 1}


def test_raw_is_the_decoded_object_itself_on_results_only():
    value = {"content": [TEXT]}
    result = decode(types.CallToolResult, value)
    assert result.raw is value
    assert not hasattr(result.content[0], "raw")
    assert types.CallToolResult().raw is None


def test_raw_is_neither_in_the_repr_nor_compared():
    result = decode(types.CallToolResult, {"content": [TEXT]})
    constructed = types.CallToolResult([types.TextContent("hi")])
    assert result == constructed
    assert "raw" not in repr(result)


def test_discriminator_is_a_class_attribute_and_no_argument():
    assert types.TextContent.type == "text"
    assert types.TextContent("a").type == "text"
    with pytest.raises(TypeError):
        types.TextContent("a", type="text")


def test_values_are_compared_by_content_and_unhashable():
    assert types.TextContent("a") == types.TextContent("a")
    assert types.TextContent("a") != types.TextContent("b")
    assert types.SubscribeRequestParams("x") != types.UnsubscribeRequestParams("x")
    assert types.TextContent("a") != "a"
    with pytest.raises(TypeError):
        hash(types.TextContent("a"))


def test_base_class_fields_follow_the_own_fields():
    """Our choice: constructors, `repr` and encoding have the same order."""
    names = [field.name for field in attrs.fields(types.ListToolsResult)]
    assert names == [
        *("tools", "next_cursor", "ttl_ms", "cache_scope"),
        *("result_type", "meta", "extra", "raw"),
    ]
    annotations = types.Annotations(priority=1)
    assert types.TextContent("a", annotations, {"m": 1}, {"x": 2}) == types.TextContent(
        "a", annotations=annotations, meta={"m": 1}, extra={"x": 2}
    )
    tool = types.Tool("a", annotations=types.ToolAnnotations(title="A"), icons=[])
    assert list(encode(tool)) == ["name", "inputSchema", "annotations", "icons"]


@pytest.mark.rule("TOOL-13")
@pytest.mark.parametrize("value", [None, 0, "", [], False, {}])
def test_structured_content_distinguishes_null_from_absence(value):
    """Required by the specification: since 2026-07-28 any JSON value is a result."""
    decoded = decode(types.CallToolResult, {"content": [], "structuredContent": value})
    assert decoded.structured_content == value
    assert decoded.structured_content is not UNSET
    assert encode(decoded) == {"content": [], "structuredContent": value}
    assert decode(types.CallToolResult, {}).structured_content is UNSET


def test_unset_is_falsy_and_has_a_repr():
    assert not UNSET
    assert repr(UNSET) == "UNSET"


def test_required_field_of_any_json_may_be_null():
    params = decode(
        types.LoggingMessageNotificationParams, {"level": "info", "data": None}
    )
    assert params.data is None
    assert encode(params) == {"level": "info", "data": None}
    with pytest.raises(InvalidMessage) as caught:
        decode(types.LoggingMessageNotificationParams, {"level": "info"})
    assert (caught.value.path, caught.value.got) == (
        "LoggingMessageNotificationParams.data",
        "nothing",
    )


@pytest.mark.rule("T11-07")
def test_task_without_expiry_has_a_null_ttl():
    task = decode(types.Task, TASK | {"ttl": None})
    assert task.ttl is None
    assert encode(task) == TASK | {"ttl": None}
    with pytest.raises(InvalidMessage):
        decode(types.Task, TASK)
    with pytest.raises(InvalidMessage):
        decode(types.Task, TASK | {"ttl": "7"})


@pytest.mark.parametrize("token", [0, "", 7, "7"])
def test_tokens_keep_their_type_and_may_be_falsy(token):
    params = decode(
        types.ProgressNotificationParams, {"progressToken": token, "progress": 0}
    )
    assert params.progress_token == token
    assert type(params.progress_token) is type(token)


@pytest.mark.rule("RPC-17")
def test_result_without_a_type_is_complete():
    assert decode(types.CallToolResult, {}).result_type == "complete"
    assert decode(types.InputRequiredResult, {}).result_type == "input_required"


def test_members_absent_in_the_input_are_not_encoded():
    """Our choice: a session-era result stays one when it is forwarded."""
    value = {"content": []}
    result = decode(types.CallToolResult, value)
    assert encode(result) == value
    result.is_error = True
    assert encode(result) == value | {"isError": True}
    explicit = {"content": [], "isError": False, "resultType": "complete"}
    assert encode(decode(types.CallToolResult, explicit)) == explicit


def test_constructed_result_encodes_its_defaults():
    assert encode(types.CallToolResult()) == {
        "content": [],
        "isError": False,
        "resultType": "complete",
    }


@pytest.mark.rule("RPC-16", "CACHE-01")
def test_constructed_result_has_what_2026_07_28_requires():
    result = types.ListToolsResult([], ttl_ms=0, cache_scope="private")
    assert encoder(types.ListToolsResult)(result) == {
        "tools": [],
        "ttlMs": 0,
        "cacheScope": "private",
        "resultType": "complete",
    }


def test_fields_unknown_to_a_revision_are_not_encoded():
    tool = types.Tool("a", {"type": "object"}, title="A")
    result = types.ListToolsResult([tool], ttl_ms=0, cache_scope="private")
    assert encode(result, find_revision("2025-03-26")) == {
        "tools": [{"name": "a", "inputSchema": {"type": "object"}}]
    }


def test_integral_float_is_decoded_as_an_integer():
    """Our choice (the table): JSON Schema counts 5.0 as an integer."""
    resource = decode(types.Resource, {"uri": "x", "name": "x", "size": 5.0})
    assert resource.size == 5
    assert type(resource.size) is int


@pytest.mark.parametrize("size", [5.5, "5", True, float("inf"), float("nan")])
def test_other_numbers_are_refused_as_integers(size):
    with pytest.raises(InvalidMessage) as caught:
        decode(types.Resource, {"uri": "x", "name": "x", "size": size})
    assert caught.value.expected == "int"


@pytest.mark.parametrize("progress", [0, 1, 0.5, 10**30])
def test_number_keeps_its_type(progress):
    params = decode(
        types.ProgressNotificationParams, {"progressToken": 1, "progress": progress}
    )
    assert params.progress == progress
    assert type(params.progress) is type(progress)


# --- compiled once, on first use


def calls_of(function, value):
    function(value)  # compile first
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    gc.disable()  # finalizers would be counted too
    sys.setprofile(profile)
    try:
        function(value)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def test_decoding_a_list_is_linear():
    tool = {"name": "a", "inputSchema": {"type": "object"}, "description": "d"}
    small, large = (
        calls_of(decoder(types.ListToolsResult), {"tools": [tool] * count})
        for count in (10, 10_000)
    )
    assert large - small == 10_000 - 10


def test_leaves_and_open_objects_are_shared_with_the_json():
    schema, meta = {"type": "object"}, {"a": 1}
    tool = decode(types.Tool, {"name": "a", "inputSchema": schema, "_meta": meta})
    assert tool.input_schema is schema
    assert tool.meta is meta
    assert encode(tool)["inputSchema"] is schema


@pytest.mark.rule("SCH-11")
def test_schemas_keep_every_keyword():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"a": {"$anchor": "x"}},
        "if": {},
        "then": {},
        "anyOf": [{}, True],
    }
    value = {"name": "a", "inputSchema": schema, "outputSchema": {"type": "array"}}
    assert encode(decode(types.Tool, value)) == value


@pytest.mark.parametrize(
    "cls",
    [
        types.CallToolResult,
        types.EmbeddedResource,
        types.ElicitRequest,
        types.ProgressNotificationParams,
        types.SamplingMessage,
    ],
)
def test_class_specification_is_the_same_when_read_again(cls):
    # The first result is cached, and any other test may have made it.
    assert [field.wire for field in read_class(cls).fields] == [
        field.wire for field in spec_of(cls).fields
    ]


SERVER = {"protocolVersion": "2025-11-25"}


@pytest.mark.pain("P36")
@pytest.mark.parametrize("content", [{}, {"content": None}])
@pytest.mark.parametrize("rest", [{}, {"structuredContent": {"a": 1}}])
def test_result_without_content_has_an_empty_list(content, rest):
    result = decode(types.CallToolResult, content | rest)
    assert result.content == []
    assert result.text == ""


@pytest.mark.fault("F49")
@pytest.mark.parametrize("null", [{}, {"serverInfo": None, "capabilities": None}])
def test_server_info_and_capabilities_may_be_absent(null):
    result = decode(types.InitializeResult, SERVER | null)
    assert result.server_info is None
    assert result.capabilities == types.ServerCapabilities()


def test_tolerated_fields_exist():
    names = {field.name for cls in PLAIN for field in spec_of(cls).fields}
    assert names >= DEFAULTED_FIELDS | OMITTABLE_FIELDS


@pytest.mark.system("A72")
@pytest.mark.parametrize("input_schema", [{}, {"inputSchema": None}])
def test_tool_without_an_input_schema_accepts_an_object(input_schema):
    listed = decode(types.ListToolsResult, {"tools": [{"name": "a"} | input_schema]})
    [tool] = listed.tools
    assert tool.input_schema == {"type": "object"}
    assert types.encode(tool) == {"name": "a", "inputSchema": {"type": "object"}}


LISTED = {"name": "a", "inputSchema": {"type": "object"}}
HINTS = {"title": "A", "readOnlyHint": True}
LOST_HINTS = {
    "one of them": (
        {**HINTS, "destructiveHint": "yes"},
        HINTS,
        ["ToolAnnotations.destructiveHint"],
    ),
    "two of them": (
        {"title": 5, "idempotentHint": 0},
        {},
        ["ToolAnnotations.title", "ToolAnnotations.idempotentHint"],
    ),
    "all of them": ("yes", None, ["Tool.annotations"]),
    "with an unknown member": (
        {"x": 1, "openWorldHint": []},
        {"x": 1},
        ["ToolAnnotations.openWorldHint"],
    ),
}


@pytest.mark.parametrize(("sent", "valid", "lost"), LOST_HINTS.values(), ids=LOST_HINTS)
def test_malformed_tool_annotations_are_dropped(sent, valid, lost):
    page = {"tools": [LISTED, LISTED | {"annotations": sent}], "x": 1}
    names = []
    decoded = decode(types.ListToolsResult, page, names)
    tool = LISTED if valid is None else LISTED | {"annotations": valid}
    assert decoded == decode(types.ListToolsResult, {"tools": [LISTED, tool], "x": 1})
    assert decoded.raw is page
    assert names == lost


@pytest.mark.parametrize(
    ("page", "path"),
    [
        ({"tools": [LISTED | {"annotations": "x"}, {}]}, ".tools[1].name"),
        ({"tools": [LISTED | {"annotations": "x"}, 5]}, ".tools[1]"),
        ({"tools": [LISTED | {"inputSchema": "x"}]}, ".tools[0].inputSchema"),
        ({"tools": 5}, ".tools"),
        ([], ""),
    ],
)
def test_other_faults_are_refused_with_their_path(page, path):
    with pytest.raises(InvalidMessage) as caught:
        decode(types.ListToolsResult, page, [])
    assert caught.value.path == f"ListToolsResult{path}"
    with pytest.raises(InvalidMessage):
        decode(types.ListToolsResult, page)


# A value of ours that cannot be encoded is a local error with its path...


@pytest.mark.parametrize(
    ("value", "path", "got"),
    [
        (types.CallToolResult([TEXT]), "CallToolResult.content[0]", "dict"),
        (types.CallToolResult(None), "CallToolResult.content", "NoneType"),
        (types.ListToolsResult(5), "ListToolsResult.tools", "int"),
        (
            types.ListToolsResult([types.TextContent("")]),
            "ListToolsResult.tools[0]",
            "TextContent",
        ),
        (
            types.CallToolResult([Shouted("a", annotations={"priority": 1})]),
            "CallToolResult.content[0].annotations",
            "dict",
        ),
        (
            types.InputRequiredResult(input_requests=[1]),
            "InputRequiredResult.input_requests",
            "list",
        ),
        (
            types.InputRequiredResult({"k": types.TextContent("a")}),
            "InputRequiredResult.input_requests.k",
            "TextContent",
        ),
        (
            types.ReadResourceResult([types.TextContent("")]),
            "ReadResourceResult.contents[0]",
            "TextContent",
        ),
        (
            types.SamplingMessage("user", [{"type": "text"}]),
            "SamplingMessage.content[0]",
            "dict",
        ),
        (types.SamplingMessage("user", "hi"), "SamplingMessage.content", "str"),
        (
            types.CallToolRequestParams(
                "a", None, {"k": types.ElicitResult("cancel")}, task={"ttl": 1}
            ),
            "CallToolRequestParams.task",
            "dict",
        ),
        (types.TextContent("a", extra=5), "TextContent.extra", "int"),
        ({"type": "text"}, "dict", "dict"),
    ],
)
def test_field_of_the_wrong_type_is_a_local_error_with_its_path(value, path, got):
    with pytest.raises(LocalProtocolError) as caught:
        encode(value)
    assert str(caught.value).startswith(f"{path}: expected ")
    assert str(caught.value).endswith(f", got {got}")
    assert caught.value.__cause__ is not None


def test_error_without_a_faulty_field_is_raised_unchanged():
    class Strange(str):
        __slots__ = ()

        def __ne__(self, other):
            raise KeyError("mine")

    result = types.CallToolResult([types.TextContent("a")], result_type=Strange("x"))
    with pytest.raises(KeyError, match="mine") as caught:
        encode(result)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "content", [(types.TextContent("hi"),), [Shouted("hi")]], ids=["tuple", "subclass"]
)
def test_tuples_and_instances_of_subclasses_are_encoded(content):
    result = types.CallToolResult(content, is_error=True)
    assert encode(result)["content"] == [TEXT]
    assert encode(types.SamplingMessage("user", content))["content"] == [TEXT]
