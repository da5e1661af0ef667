"""A model's answers to calls, and results back to messages, for each vendor's API."""

import json

import pytest

from mcpwire.exporters import (
    EXPORT_FORMS,
    Export,
    ModelCall,
)
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


def neutral(name, arguments, id_):
    """Return a list of calls."""
    return {"calls": [{"name": name, "arguments": arguments, "id": id_}]}


def anthropic(name, arguments, id_):
    """Return a message."""
    use = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
    text = {"type": "text", "text": "Let me see."}
    return {"role": "assistant", "content": [text, use]}


def openai(name, arguments, id_):
    """Return a chat completion."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [
        {"id": id_, "type": "function", "function": function},
        {"id": "c2", "type": "custom", "custom": {}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"choices": [{"message": message}]}


def responses(name, arguments, id_):
    """Return a response."""
    call = {
        "type": "function_call",
        "call_id": id_,
        "name": name,
        "arguments": json.dumps(arguments),
    }
    return {"output": [{"type": "reasoning", "summary": []}, call]}


def gemini(name, arguments, id_):
    """Return a response with one candidate."""
    call = {"functionCall": {"name": name, "args": arguments, "id": id_}}
    content = {"role": "model", "parts": [{"text": "Let me see."}, call]}
    return {"candidates": [{"content": content}]}


ANSWERS = {
    "neutral": neutral,
    "anthropic": anthropic,
    "openai": openai,
    "openai-responses": responses,
    "gemini": gemini,
}


def answer(form, name, arguments, id_="c1"):
    """Return a response of a model that calls one tool."""
    return ANSWERS[form](name, arguments, id_)


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
def test_a_call_is_found_again_whatever_the_vendor_calls_the_tool(form):
    offered = Export([ADD], form)
    theirs = offered.names.of("calc.add")
    whole = answer(form, theirs, {"a": 1})
    expected = [ModelCall("calc.add", {"a": 1}, "c1", None, theirs)]
    assert offered.calls(whole) == expected
    for inner in INNER[form](whole):
        assert offered.calls(inner) == expected


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_the_models_of_a_vendors_library_are_answers_too(form):
    class Model:
        def __init__(self, value):
            self.value = value

        def model_dump(self):
            return self.value

    offered = Export([ADD], form)
    whole = answer(form, offered.names.of("calc.add"), {"a": 1})
    assert offered.calls(Model(whole)) == offered.calls(whole)
    parts = [Model(part) for part in INNER[form](whole)[-1]]
    assert offered.calls(parts) == offered.calls(whole)


@pytest.mark.parametrize("form", EXPORT_FORMS)
@pytest.mark.parametrize("odd", [None, 5, "text", {}, [], [None, 3], {"choices": []}])
def test_an_answer_without_calls_has_none(form, odd):
    offered = Export([ADD], form)
    assert offered.calls(odd) == []
    assert offered.results([]) == []


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_a_name_that_no_tool_has_stays_as_the_model_said_it(form):
    (call,) = Export([ADD], form).calls(answer(form, "nothing", {}))
    assert call == ModelCall("nothing", {}, "c1", None, "nothing")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"a": ', "the arguments are no JSON"),
        ("[1]", "the arguments must be one JSON object, got list"),
    ],
)
def test_arguments_that_are_none_come_with_what_is_wrong(arguments, problem):
    offered = Export([ADD], "openai")
    said = {
        "tool_calls": [{"id": "c", "function": {"name": "x", "arguments": arguments}}]
    }
    (call,) = offered.calls(said)
    assert call.problem.startswith(problem)
    assert call.arguments == {}
    (message,) = offered.results([(call, call.problem)])
    assert message["content"].startswith(problem)


def test_no_arguments_are_an_empty_object():
    offered = Export([ADD], "openai")
    said = {"tool_calls": [{"function": {"name": 5, "arguments": ""}}]}
    assert offered.calls(said) == [ModelCall("", {}, None, None, "")]
    (call,) = Export([ADD], "gemini").calls([{"function_call": {"name": "x"}}])
    assert call.arguments == {}


@pytest.mark.parametrize("form", ["openai", "openai-responses"])
def test_nulls_that_strict_mode_forces_are_not_given_to_the_tool(form):
    offered = Export([ADD], form, strict=True)
    theirs = offered.names.of("calc.add")
    (call,) = offered.calls(answer(form, theirs, {"a": 1, "b": None}))
    assert call.arguments == {"a": 1}
    (call,) = Export([ADD], form).calls(answer(form, theirs, {"b": None}))
    assert call.arguments == {"b": None}


# --- results ----------------------------------------------------------------------

CALL = ModelCall("calc.add", {}, "c1", None, "calc_add")
FIVE = CallToolResult([TextContent("5")])
FAILED = CallToolResult([TextContent("no")], is_error=True)

PLAIN = {
    "neutral": lambda text, failed: [
        {"id": "c1", "name": "calc_add", "text": text, "is_error": failed}
    ],
    "anthropic": lambda text, failed: [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [{"type": "text", "text": text}],
                    **({"is_error": True} if failed else {}),
                }
            ],
        }
    ],
    "openai": lambda text, _: [{"role": "tool", "tool_call_id": "c1", "content": text}],
    "openai-responses": lambda text, _: [
        {"type": "function_call_output", "call_id": "c1", "output": text}
    ],
    "gemini": lambda text, failed: [
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "calc_add",
                        "id": "c1",
                        "response": {"error" if failed else "output": text},
                    }
                }
            ],
        }
    ],
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
def test_an_outcome_is_told_in_the_vendors_message(form, outcome, text, failed):
    made = Export([], form).results([(CALL, outcome)], media=False)
    assert made == PLAIN[form](text, failed)


def test_neutral_results_have_their_blocks_and_data_beside_the_text():
    result = CallToolResult([TextContent("5")], structured_content={"sum": 5})
    (made,) = Export([], "neutral").results([(CALL, result)])
    assert made["content"] == [{"type": "text", "text": "5"}]
    assert made["structured_content"] == {"sum": 5}
    (made,) = Export([], "neutral").results([(CALL, FIVE)])
    assert "structured_content" not in made


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_all_results_of_a_turn_come_in_the_order_of_the_calls(form):
    calls = [ModelCall("a", {}, f"c{n}", None, "a") for n in range(3)]
    made = json.dumps(Export([], form).results([(call, FIVE) for call in calls]))
    places = [made.index(f'"c{n}"') for n in range(3)]
    assert places == sorted(places)
    one_message = len(Export([], form).results([(call, FIVE) for call in calls])) == 1
    assert one_message == (form in {"anthropic", "gemini"})


@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_blank_result_has_no_text_for_anthropic(blank):
    outcome = CallToolResult([TextContent(blank)])
    (message,) = Export([], "anthropic").results([(CALL, outcome)])
    assert message["content"] == [{"type": "tool_result", "tool_use_id": "c1"}]


@pytest.mark.parametrize("content", [[], [TextContent("\n")]])
def test_a_failure_without_words_has_some_for_anthropic(content):
    outcome = CallToolResult(content, is_error=True)
    (message,) = Export([], "anthropic").results([(CALL, outcome)])
    (block,) = message["content"][0]["content"]
    assert block == {"type": "text", "text": "the tool failed and gave no reason"}


def test_gemini_without_ids_gets_none():
    call = ModelCall("a", {}, None, None, "a")
    (content,) = Export([], "gemini").results([(call, FIVE)])
    assert content["parts"][0]["functionResponse"] == {
        "name": "a",
        "response": {"output": "5"},
    }


# --- what is no text --------------------------------------------------------------

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


def told(form, result=MIXED, **options):
    """Return what a vendor is told of a result."""
    return Export([], form).results([(CALL, result)], **options)


@pytest.mark.system("O88", "L-V10", "L-R10")
@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_nothing_is_lost_whether_the_api_carries_it_or_not(form):
    for media in (True, False):
        made = json.dumps(told(form, media=media))
        for there in ("see", "a note", "note://1", "file:///c"):
            assert there in made
        assert ("AAEC" in made) == media
        if not media:
            assert "[image image/png, 3 bytes]" in made
            assert "[audio audio/wav, 3 bytes]" in made


@pytest.mark.system("O88")
def test_a_link_is_told_as_json():
    assert (
        json.dumps(encode(LINK), separators=(",", ":"))
        in told("openai", CallToolResult([LINK]))[0]["content"]
    )


def test_anthropic_takes_pictures_and_documents_in_the_result():
    (message,) = told("anthropic")
    blocks = message["content"][0]["content"]
    assert blocks[0] == {"type": "text", "text": "see"}
    assert blocks[1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"},
    }
    assert blocks[2]["text"] == "[audio audio/wav, 3 bytes]"
    assert blocks[3]["type"] == "document"
    assert "octet-stream" in blocks[4]["text"]


def test_anthropic_takes_only_text_of_a_failure():
    failed = CallToolResult([TextContent("see"), IMAGE], is_error=True)
    (message,) = told("anthropic", failed)
    assert message["content"][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "text", "text": "[image image/png, 3 bytes]"},
    ]


@pytest.mark.system("O88")
def test_chat_completions_get_what_is_no_text_in_a_message_behind():
    tool, user = told("openai")
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


def test_responses_get_the_parts_in_the_output():
    (item,) = told("openai-responses")
    kinds = [part["type"] for part in item["output"]]
    assert kinds[:4] == ["input_text", "input_image", "input_text", "input_file"]
    assert item["output"][1] == {"type": "input_image", "image_url": URL}
    assert item["output"][3]["filename"] == "b.pdf"


def test_gemini_gets_what_is_no_text_in_a_content_behind():
    responses, beside = told("gemini")
    assert len(responses["parts"]) == 1
    assert [set(part) for part in beside["parts"]] == [
        {"text"},
        {"inlineData"},
        {"inlineData"},
        {"inlineData"},
    ]
    assert beside["parts"][1]["inlineData"] == {"mimeType": "image/png", "data": "AAEC"}


def test_an_embedded_picture_is_a_picture():
    inner = BlobResourceContents("ui://logo", "AAEC", "image/png")
    (message,) = told("anthropic", CallToolResult([EmbeddedResource(inner)]))
    assert message["content"][0]["content"][0]["type"] == "image"
