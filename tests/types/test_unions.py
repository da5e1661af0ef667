"""Unions: how the member is selected, unknown members, and refusals."""

import pytest

from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.types import decode, encode
from mcpwire.types._codec import TaggedUnion, spec_of


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


def call_result(block):
    return types.CallToolResult, {"content": [{"type": "text", "text": ""}, block]}


def contents(**members):
    return types.ReadResourceResult, {"contents": [{"uri": "x", **members}]}


def form(**mode):
    value = {"method": "elicitation/create", "params": FORM | mode}
    return types.ElicitRequest, value


def complete(**ref):
    return types.CompleteRequestParams, {"argument": {"name": "", "value": ""}, **ref}


def message(**content):
    return types.SamplingMessage, {"role": "user", **content}


def accepted(value):
    return types.ElicitResult, {"action": "accept", "content": {"x": value}}


NEITHER = "contents[0]: expected text or blob, got neither"
NO_MODE = "params: expected mode 'form' or 'url', got neither"
REFERENCES = "expected 'ref/prompt' or 'ref/resource'"
ACTIONS = "expected 'accept' or 'decline' or 'cancel'"
RESOURCE = {"type": "resource", "resource": {"uri": "x"}}
ANSWERS = {"name": "a", "inputResponses": {"a b": {"action": "maybe"}}}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (call_result("text"), "content[1]: expected object, got str"),
        (call_result({}), "content[1].type: expected str, got nothing"),
        (call_result({"type": None}), "content[1].type: expected str, got null"),
        (call_result({"type": ["text"]}), "content[1].type: expected str, got array"),
        (
            call_result(RESOURCE),
            "content[1].resource: expected text or blob, got neither",
        ),
        (contents(), NEITHER),
        (contents(text=None), NEITHER),
        (contents(text=5), "contents[0].text: expected str, got int"),
        (contents(blob=5), "contents[0].blob: expected str, got int"),
        *((form(mode=mode), NO_MODE) for mode in ("video", 1, {})),
        (complete(ref={"type": "ref/x"}), f"ref.type: {REFERENCES}, got 'ref/x'"),
        (complete(), f"ref: {REFERENCES}, got nothing"),
        (
            (types.CallToolRequestParams, ANSWERS),
            f"inputResponses[\"a b\"].action: {ACTIONS}, got 'maybe'",
        ),
        (message(), "content: expected object or array, got nothing"),
        (message(content="a"), "content: expected object, got str"),
        (
            message(content=[{"type": "text"}]),
            "content[0].text: expected str, got nothing",
        ),
        (message(content={"type": "text"}), "content.text: expected str, got nothing"),
        (
            (types.EmbeddedResource, {"type": "resource"}),
            "resource: expected object, got nothing",
        ),
        (
            accepted(None),
            "content.x: expected str or number or bool or array, got null",
        ),
        (accepted([1]), "content.x[0]: expected str, got int"),
        (
            (types.TextContent, {"type": "x" * 99, "text": ""}),
            f"type: expected 'text', got '{'x' * 40}…'",
        ),
    ],
)
def test_invalid_value_is_refused_with_its_path(value, problem):
    cls, members = value
    with pytest.raises(InvalidMessage) as caught:
        decode(cls, members)
    assert str(caught.value) == f"{cls.__name__}.{problem}"
