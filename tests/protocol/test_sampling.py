"""Sampling: the conversation of a server, and the answer of a handler."""

import pytest
import wirecheck
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InvalidParams, LocalProtocolError, RPCError
from mcpwire.protocol.client_features import USER_REJECTED, ClientFeatures, Sampling
from mcpwire.types import (
    AudioContent,
    CreateMessageResult,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
    decode,
)
from mcpwire.versions import REVISIONS

NOV_2024, MAR_2025, JUN_2025, NOV_2025, JUL_2026 = REVISIONS

each_revision = pytest.mark.parametrize("revision", REVISIONS, ids=str)
before_tools = pytest.mark.parametrize("revision", REVISIONS[:3], ids=str)
with_tools = pytest.mark.parametrize("revision", REVISIONS[3:], ids=str)

TOOL = {"name": "add", "inputSchema": {"type": "object"}}
TEXT = {"type": "text", "text": "hi"}


def use(id, **more):
    return {"type": "tool_use", "id": id, "name": "add", "input": {}, **more}


def result(id, **more):
    return {"type": "tool_result", "toolUseId": id, "content": [], **more}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def handler(_):
    return None


def prepare(params=None, revision=JUL_2026, *, messages=(), tools=True):
    features = ClientFeatures(sampling=Sampling(handler, tools=tools))
    params = {"messages": list(messages), "maxTokens": 5, **(params or {})}
    return features.prepare("sampling/createMessage", params, revision)


def refusal(*args, **options):
    with pytest.raises(InvalidParams) as caught:
        prepare(*args, **options)
    assert caught.value.code == -32602
    assert caught.value.method == "sampling/createMessage"
    return caught.value.message


def answer(content, **more):
    return CreateMessageResult("assistant", content, "model", **more)


@each_revision
def test_handler_receives_the_typed_request(revision):
    message = {"role": "user", "content": TEXT}
    question = prepare({"systemPrompt": "be brief"}, revision, messages=[message])
    assert question.handler is handler
    assert question.params.messages[0].content == TextContent("hi")
    assert question.params.system_prompt == "be brief"
    assert question.params.max_tokens == 5


@pytest.mark.rule("SAMP-03")
@each_revision
@pytest.mark.parametrize(
    "extra",
    [
        {"tools": [TOOL]},
        {"tools": []},
        {"toolChoice": {"mode": "auto"}},
        {"tools": [TOOL], "toolChoice": {}},
    ],
)
def test_undeclared_tools_are_refused(extra, revision):
    message = refusal(extra, revision, tools=False)
    assert "did not declare sampling.tools" in message
    assert next(iter(extra)) in message


@pytest.mark.rule("SAMP-03")
@before_tools
def test_tools_are_refused_before_2025_11_25(revision):
    assert "CreateMessageRequestParams.tools" in refusal({"tools": [TOOL]}, revision)


@pytest.mark.system("L-A6")
@with_tools
@pytest.mark.parametrize("extra", [{"tools": [TOOL]}, {"toolChoice": {"mode": "none"}}])
def test_declared_tools_reach_the_handler(extra, revision):
    argument = prepare(extra, revision).params
    assert (argument.tools is None) == ("tools" not in extra)


@with_tools
def test_null_tools_count_as_absent(revision):
    assert prepare({"tools": None, "toolChoice": None}, revision, tools=False)


# The balance of tool uses and results

BALANCED = [
    [],
    [user()],
    [user(TEXT), assistant(TEXT)],
    [assistant(use("a")), user(result("a"))],
    [assistant(TEXT, use("a"), use("b")), user(result("b"), result("a")), user(TEXT)],
    [
        {"role": "assistant", "content": use("a")},
        {"role": "user", "content": result("a")},
    ],
    # The same id again, after its first use has its result.
    [assistant(use("a")), user(result("a")), assistant(use("a")), user(result("a"))],
]

UNBALANCED = [
    ("SAMP-05", [assistant(use("a")), user(result("a"), TEXT)], 1, "nothing else"),
    ("SAMP-05", [assistant(use("a")), user(TEXT, result("a"))], 1, "nothing else"),
    ("SAMP-06", [assistant(use("a"))], 0, "'a' has no result"),
    ("SAMP-06", [assistant(use("a")), user(TEXT)], 1, "'a' before it has no result"),
    ("SAMP-06", [assistant(use("a")), assistant(TEXT)], 1, "'a' before it has no"),
    (
        "SAMP-06",
        [assistant(use("a")), assistant(TEXT), user(result("a"))],
        1,
        "'a' before it has no result",
    ),
    ("SAMP-06", [assistant(use("a"), use("b")), user(result("a"))], 1, "'b' before"),
    (
        "SAMP-06",
        [assistant(use("a"), use("b")), user(result("a")), user(result("b"))],
        1,
        "'b' before it has no result",
    ),
    ("SAMP-06", [assistant(use("a")), user(result("b"))], 1, "'a' before"),
    ("SAMP-06", [user(result("a"))], 0, "'a' answers no tool use"),
    (
        "SAMP-06",
        [assistant(use("a")), user(result("a"), result("a"))],
        1,
        "'a' answers no tool use",
    ),
    (
        "SAMP-06",
        [assistant(use("a")), user(result("a")), user(result("a"))],
        2,
        "'a' answers no tool use",
    ),
    ("SAMP-06", [assistant(use("a")), assistant(result("a"))], 1, "of the user"),
    ("SAMP-06", [user(use("a")), user(result("a"))], 0, "of the assistant"),
]


@with_tools
@pytest.mark.parametrize("messages", BALANCED)
def test_a_balanced_conversation_reaches_the_handler(messages, revision):
    assert len(prepare(None, revision, messages=messages).params.messages) == len(
        messages
    )


@pytest.mark.rule("SAMP-05", "SAMP-06", "SAMP-07")
@with_tools
@pytest.mark.parametrize(("rule", "messages", "index", "text"), UNBALANCED)
def test_an_unbalanced_conversation_is_refused(rule, messages, index, text, revision):
    message = refusal(None, revision, messages=messages)
    assert message.startswith(f"CreateMessageRequestParams.messages[{index}]: ")
    assert text in message


def test_long_id_is_shortened_in_the_error():
    assert len(refusal(messages=[assistant(use("x" * 10**6))])) < 200


IDS = st.lists(st.sampled_from("abcd"), max_size=4, unique=True)


@given(IDS, IDS)
def test_conversation_is_balanced_if_uses_and_results_match(uses, results):
    messages = [assistant(*map(use, uses)), user(*map(result, results))]
    if sorted(uses) == sorted(results):
        assert prepare(messages=messages)
    else:
        assert refusal(messages=messages)


def test_meta_of_tool_blocks_reaches_the_handler():
    """2025-11-25 schema, ToolUseContent: clients SHOULD preserve it."""
    messages = [
        assistant(use("a", _meta={"cache": 1})),
        user(result("a", _meta={"cache": 2})),
    ]
    first, second = prepare(messages=messages).params.messages
    assert first.blocks[0].meta == {"cache": 1}
    assert second.blocks[0].meta == {"cache": 2}


@pytest.mark.rule("SAMP-07")
def test_rejection_error_of_the_handler_is_raised():
    """The client answers with the RPCError that a handler raises."""

    def reject(_):
        raise RPCError("the user rejected it", code=USER_REJECTED)

    features = ClientFeatures(sampling=reject)
    params = {"messages": [], "maxTokens": 5}
    question = features.prepare("sampling/createMessage", params, NOV_2025)
    with pytest.raises(RPCError) as caught:
        question.handler(question.params)
    assert caught.value.code == -1


BLOCKS = {
    "text": TextContent("hi"),
    "image": ImageContent("aGk=", "image/png"),
    "audio": AudioContent("aGk=", "audio/wav"),
    "tool_use": ToolUseContent("a", "add", {}),
}
SINCE = {"text": 0, "image": 0, "audio": 1, "tool_use": 3}


@each_revision
@pytest.mark.parametrize("kind", BLOCKS)
def test_answer_content_must_exist_in_the_revision(kind, revision, spec_dir):
    is_known = REVISIONS.index(revision) >= SINCE[kind]
    tools = {"tools": [TOOL]} if revision >= NOV_2025 else {}
    question = prepare(tools, revision)
    value = answer(BLOCKS[kind], stop_reason="endTurn", meta={"k": 1})
    if not is_known:
        with pytest.raises(LocalProtocolError, match=f"{kind!r} exists since"):
            question.finish(value)
        return
    raw = question.finish(value)
    assert raw["content"]["type"] == kind
    assert raw["stopReason"] == "endTurn"
    schema = wirecheck.load(spec_dir)[revision.name]
    assert list(schema.problems("CreateMessageResult", raw)) == []
    assert decode(CreateMessageResult, raw) == value


@pytest.mark.rule("SAMP-10")
@before_tools
@pytest.mark.parametrize("make", [list, tuple])
def test_a_single_block_in_a_list_is_unwrapped(make, revision):
    value = answer(make([TextContent("hi")]))
    raw = prepare(None, revision).finish(value)
    assert raw == {"role": "assistant", "model": "model", "content": TEXT}
    assert value.content == make([TextContent("hi")])


@pytest.mark.rule("SAMP-10")
@before_tools
@pytest.mark.parametrize("count", [0, 2])
def test_several_blocks_are_refused_before_2025_11_25(count, revision):
    with pytest.raises(LocalProtocolError, match=r"content must be one block at 202\d"):
        prepare(None, revision).finish(answer([TextContent("hi")] * count))


@with_tools
@pytest.mark.parametrize("make", [list, tuple])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_several_blocks_are_sent_unchanged(count, make, revision, spec_dir):
    raw = prepare(None, revision).finish(answer(make([TextContent("hi")] * count)))
    assert raw["content"] == [TEXT] * count
    schema = wirecheck.load(spec_dir)[revision.name]
    assert list(schema.problems("CreateMessageResult", raw)) == []


@with_tools
@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({}, "offers no tools"),
        ({"tools": []}, "offers no tools"),
        ({"tools": [TOOL], "toolChoice": {"mode": "none"}}, "chose 'none'"),
    ],
)
@pytest.mark.parametrize("make", [list, lambda blocks: blocks[0]])
def test_unrequested_tool_use_is_refused(extra, reason, make, revision):
    value = answer(make([ToolUseContent("a", "add", {})]))
    with pytest.raises(LocalProtocolError, match=f"^sampling answer: .*{reason}"):
        prepare(extra, revision).finish(value)


@with_tools
@pytest.mark.parametrize("choice", [{}, {"mode": "auto"}, {"mode": "required"}])
def test_requested_tool_use_is_sent(choice, revision):
    question = prepare({"tools": [TOOL], "toolChoice": choice}, revision)
    value = answer([ToolUseContent("a", "add", {}, meta={"k": 1})])
    assert question.finish(value)["content"] == [use("a", _meta={"k": 1})]


@each_revision
@pytest.mark.parametrize(
    "content",
    [
        ToolResultContent("a"),
        UnknownContent("x", {"type": "x"}),
        UnknownContent("x", {}),
    ],
)
def test_invalid_answer_content_is_refused(content, revision):
    with pytest.raises(LocalProtocolError, match=r"^sampling answer: "):
        prepare(None, revision).finish(answer(content))


@each_revision
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "sampling answer: expected CreateMessageResult, got NoneType"),
        ("hi", "sampling answer: expected CreateMessageResult, got str"),
        ({"role": "user"}, "sampling answer: expected CreateMessageResult, got dict"),
        (answer(None), "CreateMessageResult.content: expected TextContent or"),
        (answer(ResourceLink("a:b", "c")), "expected TextContent or"),
        (answer(TextContent(3)), "content.text: expected str, got int"),
        (
            CreateMessageResult("system", TextContent("hi"), "m"),
            "CreateMessageResult.role: expected 'user' or 'assistant', got 'system'",
        ),
        (
            CreateMessageResult("user", TextContent("hi"), None),
            "CreateMessageResult.model: expected str, got null",
        ),
    ],
)
def test_invalid_answer_is_refused_with_its_path(value, text, revision):
    with pytest.raises(LocalProtocolError) as caught:
        prepare(None, revision).finish(value)
    assert text in str(caught.value)


@pytest.mark.parametrize("value", [None, "fn", 3])
def test_sampling_handler_must_be_a_function(value):
    with pytest.raises(ValueError, match=r"^sampling: handler must be a function"):
        Sampling(value)
