"""Requests of a server to a client, in each revision, and the answers it accepts."""

import pytest

from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.protocol.input_requests import (
    capability_object,
    create_message,
    elicit_form,
    elicit_url,
    is_supported,
    list_roots,
)
from mcpwire.types import (
    AudioContent,
    CreateMessageRequestParams,
    ImageContent,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from mcpwire.versions import REVISIONS

NOV_2024, MAR_2025, JUN_2025, NOV_2025, JUL_2026 = REVISIONS

TEXT = TextContent("hi")
TOOL = Tool("add", {"type": "object"})


def conversation(*messages, **more):
    return CreateMessageRequestParams(list(messages), 10, **more)


def user(content):
    return SamplingMessage("user", content)


@pytest.mark.rule("MRTR-06", "ELIC-02", "SAMP-02")
@pytest.mark.case("C07")
@pytest.mark.parametrize(
    ("capability", "revision", "capabilities", "possible"),
    [
        ("sampling", NOV_2024, {"sampling": {}}, True),
        ("sampling", JUL_2026, {"sampling": {}}, True),
        ("sampling", JUL_2026, {}, False),
        ("sampling", JUL_2026, {"sampling": None}, False),
        ("sampling", JUL_2026, None, False),
        ("sampling.tools", JUL_2026, {"sampling": {}}, False),
        ("sampling.tools", JUL_2026, {"sampling": {"tools": {}}}, True),
        ("sampling.tools", NOV_2025, {"sampling": {"tools": {}}}, True),
        ("sampling.tools", JUN_2025, {"sampling": {"tools": {}}}, False),
        ("elicitation", MAR_2025, {"elicitation": {}}, False),
        ("elicitation.form", MAR_2025, {"elicitation": {}}, False),
        ("elicitation.form", JUN_2025, {"elicitation": {}}, True),
        ("elicitation.form", JUN_2025, {"elicitation": {"x": 1}}, True),
        ("elicitation.form", JUN_2025, {}, False),
        ("elicitation.form", NOV_2025, {"elicitation": {}}, True),
        ("elicitation.form", NOV_2025, {"elicitation": {"url": {}}}, False),
        ("elicitation.form", JUL_2026, {"elicitation": {"form": {}}}, True),
        ("elicitation.url", JUN_2025, {"elicitation": {"url": {}}}, False),
        ("elicitation.url", NOV_2025, {"elicitation": {}}, False),
        ("elicitation.url", NOV_2025, {"elicitation": {"url": {}}}, True),
        ("elicitation.url", JUL_2026, {"elicitation": {"form": {}}}, False),
        ("elicitation", JUL_2026, {"elicitation": {"url": {}}}, True),
        ("roots", NOV_2024, {"roots": {}}, True),
        ("roots", JUL_2026, {}, False),
        ("experimental.x", JUL_2026, {"experimental": {"x": {}}}, True),
    ],
)
def test_request_is_supported_if_declared_and_in_the_revision(
    capability, revision, capabilities, possible
):
    assert is_supported(capability, revision, capabilities) is possible


def test_capability_path_becomes_a_nested_object():
    assert capability_object("sampling") == {"sampling": {}}
    assert capability_object("elicitation.url") == {"elicitation": {"url": {}}}


@pytest.mark.rule("ELIC-03")
def test_form_has_a_message_and_no_mode():
    schema = {"type": "object", "properties": {}}
    question = elicit_form("Who?", schema)
    assert question.params == {"message": "Who?", "requestedSchema": schema}
    assert (question.method, question.capability) == (
        "elicitation/create",
        "elicitation.form",
    )


@pytest.mark.rule("ELIC-07")
@pytest.mark.parametrize(
    ("revision", "more"), [(NOV_2025, {"elicitationId": "id-1"}), (JUL_2026, {})]
)
def test_url_request_has_an_elicitation_id_only_at_2025_11_25(revision, more):
    question = elicit_url(
        "Pay", "https://example.com/pay?x=1", revision, elicitation_id="id-1"
    )
    assert question.params == {
        "mode": "url",
        "message": "Pay",
        "url": "https://example.com/pay?x=1",
        **more,
    }
    assert question.capability == "elicitation.url"


@pytest.mark.rule("ELIC-07")
@pytest.mark.parametrize(
    "url",
    ["", "pay", "ftp://example.com", "https://user:pw@example.com", "https://a b.com"],
)
def test_unsafe_url_is_not_sent(url):
    with pytest.raises(LocalProtocolError, match="elicitation url"):
        elicit_url("Pay", url, JUL_2026, elicitation_id="id-1")


@pytest.mark.rule("MRTR-17")
@pytest.mark.parametrize(
    "answer",
    [{}, {"action": "maybe"}, {"action": "accept", "content": {"a": {"b": 1}}}],
)
def test_invalid_elicitation_answer_is_refused(answer):
    with pytest.raises(InvalidMessage):
        elicit_form("Who?", {}).decode(answer)


def test_elicitation_answer_is_decoded():
    answer = elicit_form("Who?", {}).decode(
        {"action": "accept", "content": {"name": "Ada"}}
    )
    assert (answer.action, answer.content) == ("accept", {"name": "Ada"})


def test_roots_are_requested_without_params_and_decoded():
    question = list_roots()
    assert (question.method, question.params) == ("roots/list", {})
    [root] = question.decode({"roots": [{"uri": "file:///w"}]})
    assert root.uri == "file:///w"


@pytest.mark.rule("MRTR-17")
@pytest.mark.parametrize(
    "answer", [{}, {"roots": {}}, {"roots": [{}]}, {"roots": [{"uri": "https://x"}]}]
)
def test_invalid_roots_answer_is_refused(answer):
    with pytest.raises(InvalidMessage):
        list_roots().decode(answer)


def test_conversation_is_sent_unchanged():
    question = create_message(
        conversation(user(TEXT), system_prompt="Be kind", temperature=0.5), JUL_2026, {}
    )
    assert question.params == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "maxTokens": 10,
        "systemPrompt": "Be kind",
        "temperature": 0.5,
    }
    assert (question.method, question.capability) == (
        "sampling/createMessage",
        "sampling",
    )


@pytest.mark.rule("SAMP-02")
@pytest.mark.parametrize("more", [{"tools": [TOOL]}, {"tool_choice": ToolChoice()}])
def test_tools_require_the_sampling_tools_capability(more):
    question = create_message(conversation(user(TEXT), **more), JUL_2026, {})
    assert question.capability == "sampling.tools"


@pytest.mark.rule("SAMP-04")
@pytest.mark.parametrize(
    ("revision", "capabilities", "sent"),
    [
        (JUN_2025, {"sampling": {}}, "thisServer"),
        (NOV_2025, {"sampling": {}}, None),
        (JUL_2026, {"sampling": {}}, None),
        (JUL_2026, {"sampling": {"context": {}}}, "thisServer"),
    ],
)
def test_context_is_requested_only_where_it_was_declared(revision, capabilities, sent):
    request_params = conversation(user(TEXT), include_context="thisServer")
    params = create_message(request_params, revision, capabilities).params
    assert params.get("includeContext") == sent


@pytest.mark.parametrize(
    ("revision", "content"),
    [
        (NOV_2025, [{"type": "text", "text": "hi"}]),
        (JUN_2025, {"type": "text", "text": "hi"}),
    ],
)
def test_single_block_list_is_unwrapped_for_older_revisions(revision, content):
    params = create_message(conversation(user([TEXT])), revision, {}).params
    assert params["messages"][0]["content"] == content


@pytest.mark.parametrize(
    ("revision", "content"),
    [
        (JUN_2025, [TEXT, TEXT]),
        (JUN_2025, []),
        (NOV_2024, AudioContent("eA==", "audio/wav")),
        (JUN_2025, ToolUseContent("1", "add", {})),
        (JUL_2026, UnknownContent("hologram", {"type": "hologram"})),
    ],
)
def test_content_unknown_to_the_revision_is_not_sent(revision, content):
    with pytest.raises(LocalProtocolError, match="sampling"):
        create_message(conversation(user(content)), revision, {})


@pytest.mark.parametrize(
    ("revision", "content"),
    [
        (NOV_2024, ImageContent("eA==", "image/png")),
        (MAR_2025, AudioContent("eA==", "audio/wav")),
    ],
)
def test_content_known_to_the_revision_is_sent(revision, content):
    question = create_message(conversation(user(content)), revision, {})
    assert question.params["messages"][0]["content"]["data"] == "eA=="


@pytest.mark.rule("SAMP-05", "SAMP-06")
@pytest.mark.parametrize(
    "messages",
    [
        [user([ToolResultContent("1"), TEXT])],
        [SamplingMessage("assistant", ToolUseContent("1", "add", {})), user(TEXT)],
        [user(TEXT), SamplingMessage("assistant", ToolUseContent("1", "add", {}))],
    ],
)
def test_tool_uses_without_results_are_not_sent(messages):
    with pytest.raises(LocalProtocolError, match="messages"):
        create_message(conversation(*messages, tools=[TOOL]), JUL_2026, {})


def test_sampling_answer_is_decoded():
    answer = create_message(conversation(user(TEXT)), JUL_2026, {}).decode(
        {"role": "assistant", "content": {"type": "text", "text": "ho"}, "model": "m"}
    )
    assert (answer.text, answer.model) == ("ho", "m")


@pytest.mark.rule("MRTR-17")
@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"role": "assistant", "content": {"type": "text", "text": "x"}},
        {"role": "assistant", "content": {"type": "hologram"}, "model": "m"},
        {
            "role": "assistant",
            "content": {"type": "tool_use", "id": "1", "name": "rm", "input": {}},
            "model": "m",
        },
    ],
)
def test_invalid_sampling_answer_is_refused(answer):
    question = create_message(conversation(user(TEXT)), JUL_2026, {})
    with pytest.raises((InvalidMessage, LocalProtocolError)):
        question.decode(answer)
