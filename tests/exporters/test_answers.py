"""Model responses to calls, and results to messages, for each vendor's API."""

import json

import pytest

from mcpwire.exporters import EXPORT_FORMS, Export, ModelCall
from mcpwire.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    encode,
)

ADD = Tool(
    "calc.add",
    {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    },
)


# Each returns a response of a model that calls one tool.


def neutral(name, arguments):
    return {"calls": [{"name": name, "arguments": arguments, "id": "c1"}]}


def anthropic(name, arguments):
    use = {"type": "tool_use", "id": "c1", "name": name, "input": arguments}
    text = {"type": "text", "text": "Let me see."}
    return {"role": "assistant", "content": [text, use]}


def openai(name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [
        {"id": "c1", "type": "function", "function": function},
        {"id": "c2", "type": "custom", "custom": {}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"choices": [{"message": message}]}


def responses(name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"type": "function_call", "call_id": "c1", **function}
    return {"output": [{"type": "reasoning", "summary": []}, call]}


def gemini(name, arguments):
    call = {"functionCall": {"name": name, "args": arguments, "id": "c1"}}
    content = {"role": "model", "parts": [{"text": "Let me see."}, call]}
    return {"candidates": [{"content": content}]}


RESPONSES = {
    "neutral": neutral,
    "anthropic": anthropic,
    "openai": openai,
    "openai-responses": responses,
    "gemini": gemini,
}


INNER = {
    "neutral": lambda whole: [whole["calls"]],
    "anthropic": lambda whole: [whole["content"]],
    "openai": lambda whole: [
        whole["choices"][0]["message"],
        whole["choices"][0]["message"]["tool_calls"],
    ],
    "openai-responses": lambda whole: [whole["output"]],
    "gemini": lambda whole: [
        whole["candidates"][0]["content"],
        whole["candidates"][0]["content"]["parts"],
    ],
}


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_call_by_the_vendor_name_maps_back_to_the_tool(form):
    offered = Export([ADD], form)
    vendor_name = offered.names.of("calc.add")
    whole = RESPONSES[form](vendor_name, {"a": 1})
    expected = [ModelCall("calc.add", {"a": 1}, "c1", None, vendor_name)]
    assert offered.calls(whole) == expected
    for inner in INNER[form](whole):
        assert offered.calls(inner) == expected


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_model_objects_of_a_vendor_library_are_accepted(form):
    class Model:
        def __init__(self, value):
            self.value = value

        def model_dump(self):
            return self.value

    offered = Export([ADD], form)
    whole = RESPONSES[form](offered.names.of("calc.add"), {"a": 1})
    assert offered.calls(Model(whole)) == offered.calls(whole)
    parts = [Model(part) for part in INNER[form](whole)[-1]]
    assert offered.calls(parts) == offered.calls(whole)
    # As in a history: a plain message, with the parts as the library returned them.
    *_, message, plain = (whole, *INNER[form](whole))
    mixed = {key: parts if message[key] is plain else message[key] for key in message}
    assert offered.calls(mixed) == offered.calls(whole)
    for key, value in whole.items():
        outer = {key: list(map(Model, value))} if isinstance(value, list) else whole
        assert offered.calls(outer) == offered.calls(whole)


@pytest.mark.parametrize("form", EXPORT_FORMS)
@pytest.mark.parametrize("odd", [None, 5, "text", {}, [], [None, 3], {"choices": []}])
def test_response_without_calls_gives_no_calls(form, odd):
    offered = Export([ADD], form)
    assert offered.calls(odd) == []
    assert offered.results([]) == []


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_unknown_tool_name_of_a_call_is_kept(form):
    (call,) = Export([ADD], form).calls(RESPONSES[form]("nothing", {}))
    assert call == ModelCall("nothing", {}, "c1", None, "nothing")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"a": ', "the arguments are not JSON"),
        ("[1]", "the arguments must be one JSON object, got list"),
    ],
)
def test_invalid_arguments_are_reported_in_the_call(arguments, problem):
    offered = Export([ADD], "openai")
    message_in = {
        "tool_calls": [{"id": "c", "function": {"name": "x", "arguments": arguments}}]
    }
    (call,) = offered.calls(message_in)
    assert call.problem.startswith(problem)
    assert call.arguments == {}
    (message,) = offered.results([(call, call.problem)])
    assert message["content"].startswith(problem)


def test_missing_arguments_become_an_empty_object():
    offered = Export([ADD], "openai")
    message = {"tool_calls": [{"function": {"name": 5, "arguments": ""}}]}
    assert offered.calls(message) == [ModelCall("", {}, None, None, "")]
    (call,) = Export([ADD], "gemini").calls([{"function_call": {"name": "x"}}])
    assert call.arguments == {}


@pytest.mark.parametrize("form", ["openai", "openai-responses"])
def test_nulls_forced_by_strict_mode_are_removed_from_arguments(form):
    offered = Export([ADD], form, strict=True)
    vendor_name = offered.names.of("calc.add")
    (call,) = offered.calls(RESPONSES[form](vendor_name, {"a": 1, "b": None}))
    assert call.arguments == {"a": 1}
    (call,) = Export([ADD], form).calls(RESPONSES[form](vendor_name, {"b": None}))
    assert call.arguments == {"b": None}


def test_nulls_of_alternatives_at_the_root_are_removed():
    one = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}
    other = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    tool = Tool("calc.add", {"type": "object", "anyOf": [one, other]})
    offered = Export([tool], "openai", strict=True)
    assert offered[0]["function"]["strict"]
    name = offered.names.of("calc.add")
    (call,) = offered.calls(RESPONSES["openai"](name, {"id": 1, "name": None}))
    assert call.arguments == {"id": 1}


# --- results ----------------------------------------------------------------------

CALL = ModelCall("calc.add", {}, "c1", None, "calc_add")
FIVE = CallToolResult([TextContent("5")])
FAILED = CallToolResult([TextContent("no")], is_error=True)


def plain_messages(text, failed):
    """Return the messages of each API for a result that is one text."""
    content = [{"type": "text", "text": text}]
    block = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    output = {"call_id": "c1", "output": text}
    response = {"error" if failed else "output": text}
    part = {"functionResponse": {"name": "calc_add", "id": "c1", "response": response}}
    return {
        "neutral": {"id": "c1", "name": "calc_add", "text": text, "is_error": failed},
        "anthropic": {
            "role": "user",
            "content": [{**block, "is_error": True} if failed else block],
        },
        "openai": {"role": "tool", "tool_call_id": "c1", "content": text},
        "openai-responses": {"type": "function_call_output", **output},
        "gemini": {"role": "user", "parts": [part]},
    }


@pytest.mark.parametrize("form", EXPORT_FORMS)
@pytest.mark.parametrize(
    ("outcome", "text", "failed"),
    [
        (FIVE, "5", False),
        (FAILED, "no", True),
        (CallToolResult(structured_content={"sum": 5}), '{"sum":5}', False),
        (RuntimeError("gone"), "gone", True),
        (RuntimeError(), "RuntimeError", True),
        ("was not allowed", "was not allowed", True),
    ],
    ids=["text", "failure", "data", "error", "silent error", "words"],
)
def test_outcome_becomes_a_message_of_the_vendor(form, outcome, text, failed):
    made = Export([], form).results([(CALL, outcome)], media=False)
    assert made == [plain_messages(text, failed)[form]]


def test_neutral_result_has_content_and_structured_content():
    result = CallToolResult([TextContent("5")], structured_content={"sum": 5})
    (made,) = Export([], "neutral").results([(CALL, result)])
    assert made["content"] == [{"type": "text", "text": "5"}]
    assert made["structured_content"] == {"sum": 5}
    (made,) = Export([], "neutral").results([(CALL, FIVE)])
    assert "structured_content" not in made


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_results_of_a_turn_are_in_the_order_of_the_calls(form):
    calls = [ModelCall("a", {}, f"c{n}", None, "a") for n in range(3)]
    made = json.dumps(Export([], form).results([(call, FIVE) for call in calls]))
    places = [made.index(f'"c{n}"') for n in range(3)]
    assert places == sorted(places)
    one_message = len(Export([], form).results([(call, FIVE) for call in calls])) == 1
    assert one_message == (form in {"anthropic", "gemini"})


@pytest.mark.parametrize("blank", ["", " \n"])
def test_blank_result_has_no_content_for_anthropic(blank):
    outcome = CallToolResult([TextContent(blank)])
    (message,) = Export([], "anthropic").results([(CALL, outcome)])
    assert message["content"] == [{"type": "tool_result", "tool_use_id": "c1"}]


@pytest.mark.parametrize("content", [[], [TextContent("\n")]])
def test_failure_without_text_gets_a_default_text_for_anthropic(content):
    outcome = CallToolResult(content, is_error=True)
    (message,) = Export([], "anthropic").results([(CALL, outcome)])
    (block,) = message["content"][0]["content"]
    assert block == {"type": "text", "text": "the tool failed and gave no reason"}


def test_gemini_response_omits_a_missing_call_id():
    call = ModelCall("a", {}, None, None, "a")
    (content,) = Export([], "gemini").results([(call, FIVE)])
    assert content["parts"][0]["functionResponse"] == {
        "name": "a",
        "response": {"output": "5"},
    }


# --- non-text content -------------------------------------------------------------

IMAGE = ImageContent("AAEC", "image/png")
SOUND = AudioContent("AAEC", "audio/wav")
PDF = EmbeddedResource(
    BlobResourceContents("file:///a/b.pdf", "AAEC", "application/pdf")
)
BLOB = EmbeddedResource(BlobResourceContents("file:///", "AAEC"))
NOTE = EmbeddedResource(TextResourceContents("note://1", "a note"))
LINK = ResourceLink("file:///c", "c")

MIXED = CallToolResult([TextContent("see"), IMAGE, SOUND, PDF, BLOB, NOTE, LINK])

URL = "data:image/png;base64,AAEC"


def exported(form, result=MIXED, **options):
    """Return the messages for a vendor that contain a result."""
    return Export([], form).results([(CALL, result)], **options)


@pytest.mark.system("O88", "L-V10", "L-R10")
@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_all_content_is_exported_or_described(form):
    for media in (True, False):
        made = json.dumps(exported(form, media=media))
        for there in ("see", "a note", "note://1", "file:///c"):
            assert there in made
        assert ("AAEC" in made) == media
        if not media:
            assert "[image image/png, 3 bytes]" in made
            assert "[audio audio/wav, 3 bytes]" in made


@pytest.mark.system("O88")
def test_resource_link_is_exported_as_json():
    assert (
        json.dumps(encode(LINK), separators=(",", ":"))
        in exported("openai", CallToolResult([LINK]))[0]["content"]
    )


def test_anthropic_result_contains_images_and_documents():
    (message,) = exported("anthropic")
    blocks = message["content"][0]["content"]
    assert blocks[0] == {"type": "text", "text": "see"}
    assert blocks[1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"},
    }
    assert blocks[2]["text"] == "[audio audio/wav, 3 bytes]"
    assert blocks[3]["type"] == "document"
    assert "octet-stream" in blocks[4]["text"]


def test_anthropic_failure_contains_only_text():
    failed = CallToolResult([TextContent("see"), IMAGE], is_error=True)
    (message,) = exported("anthropic", failed)
    assert message["content"][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "text", "text": "[image image/png, 3 bytes]"},
    ]


@pytest.mark.system("O88")
def test_chat_completions_get_media_in_a_second_message():
    tool, user = exported("openai")
    assert tool["role"] == "tool"
    assert "[image image/png, see below]" in tool["content"]
    assert user == {
        "role": "user",
        "content": [
            {"type": "text", "text": "From the tool calc_add:"},
            {"type": "image_url", "image_url": {"url": URL}},
            {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "wav"}},
            {
                "type": "file",
                "file": {
                    "filename": "b.pdf",
                    "file_data": "data:application/pdf;base64,AAEC",
                },
            },
        ],
    }


def test_responses_api_gets_media_in_the_output():
    (item,) = exported("openai-responses")
    kinds = [part["type"] for part in item["output"]]
    assert kinds[:4] == ["input_text", "input_image", "input_text", "input_file"]
    assert item["output"][1] == {"type": "input_image", "image_url": URL}
    assert item["output"][3]["filename"] == "b.pdf"


def test_gemini_gets_media_in_a_second_content():
    responses, beside = exported("gemini")
    assert len(responses["parts"]) == 1
    assert [set(part) for part in beside["parts"]] == [
        {"text"},
        {"inlineData"},
        {"inlineData"},
        {"inlineData"},
    ]
    assert beside["parts"][1]["inlineData"] == {"mimeType": "image/png", "data": "AAEC"}


def test_embedded_image_resource_is_exported_as_an_image():
    inner = BlobResourceContents("ui://logo", "AAEC", "image/png")
    (message,) = exported("anthropic", CallToolResult([EmbeddedResource(inner)]))
    assert message["content"][0]["content"][0]["type"] == "image"
