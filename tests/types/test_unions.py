"""Unions: how the member is selected, unknown members, and refusals."""

from __future__ import annotations

import pytest

from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.types import decode, encode
from mcpwire.types._codec import TaggedUnion, spec_of


def refusal(cls, value):
    with pytest.raises(InvalidMessage) as caught:
        decode(cls, value)
    return caught.value.path, caught.value.expected, caught.value.got


@pytest.mark.pain("P36")
def test_content_block_of_an_unknown_type_survives():
    value = {
        "content": [{"type": "hologram", "beam": [1]}, {"type": "text", "text": ""}]
    }
    result = decode(types.CallToolResult, value)
    assert result.content[0] == types.UnknownContent(
        "hologram", {"type": "hologram", "beam": [1]}
    )
    assert encode(result) == value


def test_unknown_types_are_not_remembered():
    """Our choice: types that a peer invents must not grow a table of ours."""
    (table,) = [
        field.kind.members
        for field in spec_of(types.PromptMessage).fields
        if isinstance(field.kind, TaggedUnion)
    ]
    before = set(table)
    value = {"role": "user", "content": {"type": "invented"}}
    types.decoder(types.PromptMessage)(value)
    assert set(table) == before == {
        "text", "image", "audio", "resource_link", "resource",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("block", "path", "expected", "got"),
    [
        ("text", "content[1]", "object", "str"),
        ({}, "content[1].type", "str", "nothing"),
        ({"type": None}, "content[1].type", "str", "null"),
        ({"type": ["text"]}, "content[1].type", "str", "array"),
        (
            {"type": "resource", "resource": {"uri": "x"}},
            "content[1].resource",
            "text or blob",
            "neither",
        ),
    ],
)
def test_invalid_content_block_is_refused_with_its_path(block, path, expected, got):
    value = {"content": [{"type": "text", "text": ""}, block]}
    found = refusal(types.CallToolResult, value)
    assert found == (f"CallToolResult.{path}", expected, got)


def test_unknown_completion_reference_is_refused():
    value = {"ref": {"type": "ref/x"}, "argument": {"name": "", "value": ""}}
    assert refusal(types.CompleteRequestParams, value) == (
        "CompleteRequestParams.ref.type",
        "'ref/prompt' or 'ref/resource'",
        "'ref/x'",
    )


def test_wrong_constant_is_shortened_in_the_error():
    path, expected, got = refusal(types.TextContent, {"type": "x" * 99, "text": ""})
    assert (path, expected) == ("TextContent.type", "'text'")
    assert got == repr("x" * 40 + "…")


# --- contents of resources


@pytest.mark.rule("RES-12")
@pytest.mark.parametrize(
    ("members", "cls"),
    [
        ({"text": "a"}, types.TextResourceContents),
        ({"blob": "YQ=="}, types.BlobResourceContents),
        ({"text": "", "blob": None}, types.TextResourceContents),
        ({"text": None, "blob": ""}, types.BlobResourceContents),
    ],
)
def test_contents_are_text_or_blob_by_the_present_member(members, cls):
    value = {"contents": [{"uri": "x", **members}]}
    assert type(decode(types.ReadResourceResult, value).contents[0]) is cls


@pytest.mark.parametrize(
    ("members", "path", "expected"),
    [
        ({}, "", "text or blob"),
        ({"text": None}, "", "text or blob"),
        ({"text": 5}, ".text", "str"),
        ({"blob": 5}, ".blob", "str"),
    ],
)
def test_contents_with_neither_member_are_refused(members, path, expected):
    value = {"contents": [{"uri": "x", **members}]}
    found = refusal(types.ReadResourceResult, value)
    assert found[:2] == (f"ReadResourceResult.contents[0]{path}", expected)


# --- elicitation

FORM = {"message": "", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.rule("ELIC-04")
@pytest.mark.parametrize("mode", [{}, {"mode": None}, {"mode": "form"}])
def test_request_without_a_mode_is_a_form(mode):
    value = {"method": "elicitation/create", "params": FORM | mode}
    request = decode(types.ElicitRequest, value)
    assert type(request.params) is types.ElicitRequestFormParams


def test_request_with_url_mode_is_a_url_request():
    params = {"mode": "url", "message": "", "url": "https://example.com/"}
    request = decode(
        types.ElicitRequest, {"method": "elicitation/create", "params": params}
    )
    assert request.params == types.ElicitRequestURLParams("", "https://example.com/")
    assert encode(request)["params"] == params


@pytest.mark.parametrize("mode", ["video", 1, {}])
def test_unknown_mode_is_refused(mode):
    value = {"method": "elicitation/create", "params": FORM | {"mode": mode}}
    assert refusal(types.ElicitRequest, value) == (
        "ElicitRequest.params",
        "mode 'form' or 'url'",
        "neither",
    )


@pytest.mark.rule("ELIC-05")
@pytest.mark.parametrize(
    ("field", "cls"),
    [
        ({"type": "string"}, types.StringSchema),
        ({"type": "string", "pattern": "a+"}, types.StringSchema),
        ({"type": "number"}, types.NumberSchema),
        ({"type": "integer", "minimum": 1}, types.NumberSchema),
        ({"type": "boolean", "default": False}, types.BooleanSchema),
        ({"type": "string", "enum": ["a"]}, types.UntitledSingleSelectEnumSchema),
        (
            {"type": "string", "enum": ["a"], "enumNames": ["A"]},
            types.LegacyTitledEnumSchema,
        ),
        (
            {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            types.TitledSingleSelectEnumSchema,
        ),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
            types.UntitledMultiSelectEnumSchema,
        ),
        (
            {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
            types.TitledMultiSelectEnumSchema,
        ),
        ({"type": "array", "items": {"type": "string"}}, types.UnknownSchema),
        ({"type": "array"}, types.UnknownSchema),
        ({"type": "object", "properties": {}}, types.UnknownSchema),
        ({"type": ["string", "null"]}, types.UnknownSchema),
        ({"anyOf": []}, types.UnknownSchema),
    ],
)
def test_form_fields_are_distinguished_and_unknown_ones_survive(field, cls):
    value = {"type": "object", "properties": {"x": field}}
    form = decode(types.RequestedSchema, value)
    assert type(form.properties["x"]) is cls
    assert encode(form) == value


# --- input requests and responses


@pytest.mark.rule("MRTR-03")
def test_an_unknown_input_request_survives():
    value = {"inputRequests": {"a": {"method": "x/y", "params": {}}}}
    result = decode(types.InputRequiredResult, value)
    assert result.input_requests == {
        "a": types.UnknownInputRequest("x/y", {"method": "x/y", "params": {}})
    }
    assert encode(result) == value


@pytest.mark.rule("MRTR-18")
@pytest.mark.parametrize(
    ("response", "cls"),
    [
        ({"action": "decline"}, types.ElicitResult),
        ({"roots": []}, types.ListRootsResult),
        (
            {"role": "user", "model": "m", "content": {"type": "text", "text": ""}},
            types.CreateMessageResult,
        ),
        ({"later": 1}, types.UnknownInputResponse),
    ],
)
def test_input_responses_are_distinguished_and_unknown_ones_survive(response, cls):
    value = {"name": "a", "inputResponses": {"k": response}}
    params = decode(types.CallToolRequestParams, value)
    assert type(params.input_responses["k"]) is cls
    assert encode(params) == value


def test_invalid_input_response_is_refused_with_its_path():
    value = {"name": "a", "inputResponses": {"a b": {"action": "maybe"}}}
    assert refusal(types.CallToolRequestParams, value) == (
        'CallToolRequestParams.inputResponses["a b"].action',
        "'accept' or 'decline' or 'cancel'",
        "'maybe'",
    )


# --- one or several


@pytest.mark.rule("SAMP-09")
def test_message_holds_one_block_or_several():
    text = {"type": "text", "text": "a"}
    one = decode(types.SamplingMessage, {"role": "user", "content": text})
    several = decode(types.SamplingMessage, {"role": "user", "content": [text, text]})
    assert one.content == types.TextContent("a")
    assert one.blocks == [types.TextContent("a")]
    assert several.blocks is several.content
    assert encode(one)["content"] == text
    assert encode(several)["content"] == [text, text]


@pytest.mark.parametrize(
    ("content", "path", "expected"),
    [
        ("a", "content", "object"),
        ([{"type": "text"}], "content[0].text", "str"),
        ({"type": "text"}, "content.text", "str"),
    ],
)
def test_invalid_block_in_a_message_is_refused(content, path, expected):
    found = refusal(types.SamplingMessage, {"role": "user", "content": content})
    assert found[:2] == (f"SamplingMessage.{path}", expected)


@pytest.mark.parametrize(
    ("cls", "value", "path", "expected"),
    [
        (types.SamplingMessage, {"role": "user"}, "content", "object or array"),
        (
            types.CompleteRequestParams,
            {"argument": {"name": "", "value": ""}},
            "ref",
            "'ref/prompt' or 'ref/resource'",
        ),
        (types.EmbeddedResource, {"type": "resource"}, "resource", "object"),
    ],
)
def test_missing_union_is_refused_with_all_its_alternatives(cls, value, path, expected):
    assert refusal(cls, value) == (f"{cls.__name__}.{path}", expected, "nothing")


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        (None, "ElicitResult.content.x", "str or number or bool or array"),
        ([1], "ElicitResult.content.x[0]", "str"),
    ],
)
def test_form_content_holds_simple_values_and_lists_of_text(value, path, expected):
    found = refusal(types.ElicitResult, {"action": "accept", "content": {"x": value}})
    assert found[:2] == (path, expected)


# --- open and closed sets


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (types.Icon, {"src": "x", "theme": "sepia"}),
        (types.ToolExecution, {"taskSupport": "sometimes"}),
        (types.LoggingMessageNotificationParams, {"level": "whisper", "data": None}),
        (types.ListToolsResult, {"tools": [], "cacheScope": "family"}),
        (types.Annotations, {"audience": ["critic"]}),
        (types.EmptyResult, {"resultType": "later"}),
    ],
)
def test_unknown_names_survive_in_open_sets(cls, value):
    assert encode(decode(cls, value)) == value
