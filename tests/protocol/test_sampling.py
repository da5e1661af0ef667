"""Sampling: the conversation a server sends, the answer a handler gives."""

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


def ask(params=None, revision=JUL_2026, *, messages=(), tools=True):
    features = ClientFeatures(sampling=Sampling(handler, tools=tools))
    params = {"messages": list(messages), "maxTokens": 5, **(params or {})}
    return features.prepare("sampling/createMessage", params, revision)


def refusal(*args, **options):
    with pytest.raises(InvalidParams) as caught:
        ask(*args, **options)
    assert caught.value.code == -32602
    assert caught.value.method == "sampling/createMessage"
    return caught.value.message


def answer(content, **more):
    return CreateMessageResult("assistant", content, "model", **more)


# What is asked


@each_revision
def test_the_handler_gets_the_typed_request(revision):
    message = {"role": "user", "content": TEXT}
    question = ask({"systemPrompt": "be brief"}, revision, messages=[message])
    assert question.handler is handler
    assert question.params.messages[0].content == TextContent("hi")
    assert question.params.system_prompt == "be brief"
    assert question.params.max_tokens == 5


@pytest.mark.rule("SAMP-03")
@each_revision
@pytest.mark.parametrize(
    "asked",
    [
        {"tools": [TOOL]},
        {"tools": []},
        {"toolChoice": {"mode": "auto"}},
        {"tools": [TOOL], "toolChoice": {}},
    ],
)
def test_tools_that_were_not_declared_are_refused(asked, revision):
    message = refusal(asked, revision, tools=False)
    assert "did not declare sampling.tools" in message
    assert next(iter(asked)) in message


@pytest.mark.rule("SAMP-03")
@before_tools
def test_tools_are_refused_before_they_could_be_declared(revision):
    assert "CreateMessageRequestParams.tools" in refusal({"tools": [TOOL]}, revision)


@pytest.mark.system("L-A6")
@with_tools
@pytest.mark.parametrize("asked", [{"tools": [TOOL]}, {"toolChoice": {"mode": "none"}}])
def test_tools_that_were_declared_reach_the_handler(asked, revision):
    argument = ask(asked, revision).params
    assert (argument.tools is None) == ("tools" not in asked)


@with_tools
def test_absent_tools_spelled_as_null_are_no_tools(revision):
    assert ask({"tools": None, "toolChoice": None}, revision, tools=False)


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
    # The same id again, once its first use has its result.
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
    assert len(ask(None, revision, messages=messages).params.messages) == len(messages)


@pytest.mark.rule("SAMP-05", "SAMP-06", "SAMP-07")
@with_tools
@pytest.mark.parametrize(("rule", "messages", "index", "text"), UNBALANCED)
def test_an_unbalanced_conversation_is_refused(rule, messages, index, text, revision):
    message = refusal(None, revision, messages=messages)
    assert message.startswith(f"CreateMessageRequestParams.messages[{index}]: ")
    assert text in message


def test_a_long_id_is_not_repeated_in_full():
    assert len(refusal(messages=[assistant(use("x" * 10**6))])) < 200


IDS = st.lists(st.sampled_from("abcd"), max_size=4, unique=True)


@given(IDS, IDS)
def test_a_conversation_is_balanced_exactly_when_uses_and_results_agree(uses, results):
    messages = [assistant(*map(use, uses)), user(*map(result, results))]
    if sorted(uses) == sorted(results):
        assert ask(messages=messages)
    else:
        assert refusal(messages=messages)


def test_the_meta_of_tool_blocks_reaches_the_handler():
    """2025-11-25 schema, ToolUseContent: clients SHOULD preserve it."""
    messages = [
        assistant(use("a", _meta={"cache": 1})),
        user(result("a", _meta={"cache": 2})),
    ]
    first, second = ask(messages=messages).params.messages
    assert first.blocks[0].meta == {"cache": 1}
    assert second.blocks[0].meta == {"cache": 2}


@pytest.mark.rule("SAMP-07")
def test_a_rejection_is_what_the_handler_raises():
    """The shells answer with an RPCError that a handler raises."""

    def reject(_):
        raise RPCError("the user rejected it", code=USER_REJECTED)

    features = ClientFeatures(sampling=reject)
    params = {"messages": [], "maxTokens": 5}
    question = features.prepare("sampling/createMessage", params, NOV_2025)
    with pytest.raises(RPCError) as caught:
        question.handler(question.params)
    assert caught.value.code == -1


# What is answered

BLOCKS = {
    "text": TextContent("hi"),
    "image": ImageContent("aGk=", "image/png"),
    "audio": AudioContent("aGk=", "audio/wav"),
    "tool_use": ToolUseContent("a", "add", {}),
}
SINCE = {"text": 0, "image": 0, "audio": 1, "tool_use": 3}


@each_revision
@pytest.mark.parametrize("kind", BLOCKS)
def test_an_answer_holds_what_its_revision_knows(kind, revision, spec_dir):
    is_known = REVISIONS.index(revision) >= SINCE[kind]
    tools = {"tools": [TOOL]} if revision >= NOV_2025 else {}
    question = ask(tools, revision)
    given = answer(BLOCKS[kind], stop_reason="endTurn", meta={"k": 1})
    if not is_known:
        with pytest.raises(LocalProtocolError, match=f"{kind!r} exists since"):
            question.finish(given)
        return
    raw = question.finish(given)
    assert raw["content"]["type"] == kind
    assert raw["stopReason"] == "endTurn"
    schema = wirecheck.load(spec_dir)[revision.name]
    assert list(schema.problems("CreateMessageResult", raw)) == []
    assert decode(CreateMessageResult, raw) == given


@pytest.mark.rule("SAMP-10")
@before_tools
@pytest.mark.parametrize("make", [list, tuple])
def test_a_single_block_in_a_list_is_unwrapped(make, revision):
    given = answer(make([TextContent("hi")]))
    raw = ask(None, revision).finish(given)
    assert raw == {"role": "assistant", "model": "model", "content": TEXT}
    assert given.content == make([TextContent("hi")])


@pytest.mark.rule("SAMP-10")
@before_tools
@pytest.mark.parametrize("count", [0, 2])
def test_several_blocks_are_refused_before_there_could_be_several(count, revision):
    with pytest.raises(LocalProtocolError, match=r"content must be one block at 202\d"):
        ask(None, revision).finish(answer([TextContent("hi")] * count))


@with_tools
@pytest.mark.parametrize("make", [list, tuple])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_several_blocks_are_sent_as_they_are(count, make, revision, spec_dir):
    raw = ask(None, revision).finish(answer(make([TextContent("hi")] * count)))
    assert raw["content"] == [TEXT] * count
    schema = wirecheck.load(spec_dir)[revision.name]
    assert list(schema.problems("CreateMessageResult", raw)) == []


@with_tools
@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({}, "offers no tools"),
        ({"tools": []}, "offers no tools"),
        ({"tools": [TOOL], "toolChoice": {"mode": "none"}}, "chose 'none'"),
    ],
)
@pytest.mark.parametrize("make", [list, lambda blocks: blocks[0]])
def test_a_tool_use_that_nobody_asked_for_is_refused(asked, reason, make, revision):
    given = answer(make([ToolUseContent("a", "add", {})]))
    with pytest.raises(LocalProtocolError, match=f"^sampling answer: .*{reason}"):
        ask(asked, revision).finish(given)


@with_tools
@pytest.mark.parametrize("choice", [{}, {"mode": "auto"}, {"mode": "required"}])
def test_a_tool_use_that_the_server_asked_for_is_sent(choice, revision):
    question = ask({"tools": [TOOL], "toolChoice": choice}, revision)
    given = answer([ToolUseContent("a", "add", {}, meta={"k": 1})])
    assert question.finish(given)["content"] == [use("a", _meta={"k": 1})]


@each_revision
@pytest.mark.parametrize(
    "content",
    [
        ToolResultContent("a"),
        UnknownContent("x", {"type": "x"}),
        UnknownContent("x", {}),
    ],
)
def test_content_that_no_model_answers_with_is_refused(content, revision):
    with pytest.raises(LocalProtocolError, match=r"^sampling answer: "):
        ask(None, revision).finish(answer(content))


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
def test_what_is_no_answer_is_refused_with_its_path(value, text, revision):
    with pytest.raises(LocalProtocolError) as caught:
        ask(None, revision).finish(value)
    assert text in str(caught.value)


@pytest.mark.parametrize("value", [None, "fn", 3])
def test_sampling_needs_a_function(value):
    with pytest.raises(ValueError, match=r"^sampling: handler must be a function"):
        Sampling(value)
