"""The same handler asks a session's client, and one that calls again with answers."""

import pytest
from asking_rig import ALL, Alone, Session, person

from mcpwire.errors import (
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MissingCapability,
    RequestTimeout,
    RPCError,
    ToolError,
)
from mcpwire.types import SamplingMessage, TextContent, Tool
from mcpwire.versions import REVISIONS

NOV_2024, MAR_2025, JUN_2025, NOV_2025, JUL_2026 = REVISIONS

FORM = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}

ERAS = pytest.mark.parametrize("client", [Session, Alone])


async def everything(ctx):
    answer = await ctx.elicit("Who?", FORM)
    visit = await ctx.elicit_url("Pay", "https://example.com/pay")
    model = await ctx.sample("Hello")
    roots = await ctx.roots()
    return [
        answer.action,
        answer.content,
        answer.value,
        visit.accepted,
        model.text,
        [root.uri for root in roots],
    ]


@ERAS
@pytest.mark.rule("MRTR-01", "MRTR-03", "MRTR-05")
async def test_a_handler_asks_for_everything_one_after_the_other(client):
    peer = client(person)
    assert await peer.call(everything) == [
        "accept",
        {"text": "Who?"},
        {"text": "Who?"},
        True,
        "re: Hello",
        ["file:///work"],
    ]
    assert [method for method, _ in peer.asked] == [
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    ]


@ERAS
async def test_a_plain_function_asks_from_its_thread(client):
    def handler(ctx):
        name = ctx.sync.elicit("Who?", FORM).content["text"]
        visit = ctx.sync.elicit_url("Pay", "https://example.com/pay")
        text = ctx.sync.sample("Hello", max_tokens=5).text
        return [name, visit.action, text, [root.uri for root in ctx.sync.roots()]]

    assert await client(person).call(handler) == [
        "Who?",
        "accept",
        "re: Hello",
        ["file:///work"],
    ]


@ERAS
@pytest.mark.rule("ELIC-09")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_who_does_not_agree_is_an_answer(client, action):
    async def handler(ctx):
        form = await ctx.elicit("Who?", FORM)
        visit = await ctx.elicit_url("Pay", "https://example.com/pay")
        shown = [form.action, form.accepted, form.content, form.value]
        return [*shown, visit.action, visit.accepted]

    said = {"action": action, "content": {"text": "not to be looked at"}}
    assert await client(lambda *_: said).call(handler) == [
        action,
        False,
        None,
        None,
        action,
        False,
    ]


@ERAS
@pytest.mark.rule("SAMP-11")
async def test_a_conversation_holds_its_own_messages_only(client):
    async def handler(ctx):
        await ctx.sample("one")
        await ctx.sample([SamplingMessage("assistant", TextContent("x")), "two"])

    peer = client(person)
    await peer.call(handler)
    sent = [
        [message["content"]["text"] for message in params["messages"]]
        for _, params in peer.asked
    ]
    assert sent == [["one"], ["x", "two"]]


# --- what a client cannot be asked

ASKS = {
    "elicitation.form": lambda ctx: ctx.elicit("Who?", FORM),
    "elicitation.url": lambda ctx: ctx.elicit_url("Pay", "https://example.com/pay"),
    "sampling": lambda ctx: ctx.sample("Hello"),
    "sampling.tools": lambda ctx: ctx.sample(
        "Hello", tools=[{"name": "add", "inputSchema": {"type": "object"}}]
    ),
    "roots": lambda ctx: ctx.roots(),
}


def handler_of(what):
    async def handler(ctx):
        assert not ctx.can(what)
        return await ASKS[what](ctx)

    return handler


@pytest.mark.rule("META-10", "MRTR-06")
@pytest.mark.case("C07")
@pytest.mark.parametrize(
    ("what", "capabilities", "required"),
    [
        ("elicitation.form", {}, {"elicitation": {"form": {}}}),
        (
            "elicitation.form",
            {"elicitation": {"url": {}}},
            {"elicitation": {"form": {}}},
        ),
        ("elicitation.url", {"elicitation": {}}, {"elicitation": {"url": {}}}),
        ("sampling", {"elicitation": {}}, {"sampling": {}}),
        ("sampling.tools", {"sampling": {}}, {"sampling": {"tools": {}}}),
        ("roots", {"sampling": {}}, {"roots": {}}),
    ],
)
async def test_what_was_not_declared_with_the_request_is_refused_by_its_name(
    what, capabilities, required
):
    peer = Alone(person, capabilities=capabilities)
    with pytest.raises(MissingCapability) as caught:
        await peer.call(handler_of(what))
    assert caught.value.data == {"requiredCapabilities": required}
    assert peer.asked == []


@pytest.mark.rule("ELIC-02", "SAMP-02")
@pytest.mark.case("C07")
@pytest.mark.parametrize(
    ("what", "revision", "capabilities"),
    [
        ("elicitation.form", NOV_2025, {}),
        ("elicitation.form", MAR_2025, ALL),
        ("elicitation.url", NOV_2025, {"elicitation": {}}),
        ("elicitation.url", JUN_2025, ALL),
        ("sampling", NOV_2024, {}),
        ("sampling.tools", NOV_2025, {"sampling": {}}),
        ("sampling.tools", JUN_2025, ALL),
        ("roots", NOV_2025, {}),
    ],
)
async def test_what_a_session_did_not_declare_is_never_sent(
    what, revision, capabilities
):
    peer = Session(person, revision=revision, capabilities=capabilities)
    with pytest.raises(ToolError, match="which this one does not"):
        await peer.call(handler_of(what))
    with pytest.raises(InternalError, match="which this one does not"):
        await peer.call(handler_of(what), method="prompts/get")
    assert peer.asked == []


@ERAS
async def test_what_the_client_declared_can_be_asked(client):
    async def handler(ctx):
        return [ctx.can(what) for what in ASKS]

    assert await client(person).call(handler) == [True] * len(ASKS)


async def test_where_no_question_reaches_the_client_nothing_can_be_asked():
    context = Session(None).context()
    assert not context.can("sampling")
    with pytest.raises(LocalProtocolError):
        await context.sample("Hello")


@pytest.mark.rule("MRTR-02")
async def test_only_calls_prompts_and_resources_may_ask_with_their_result():
    for method in ("tools/call", "prompts/get", "resources/read"):
        peer = Alone(person, method=method)
        assert await peer.call(everything)

    async def handler(ctx):
        assert not ctx.can("sampling")
        return await ctx.sample("Hello")

    peer = Alone(person, method="completion/complete")
    with pytest.raises(LocalProtocolError, match="cannot be asked"):
        await peer.call(handler)


# --- what a session's client may answer instead


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        ("roots", RPCError("User rejected", code=-1), r"refused .*: User rejected"),
        ("sampling", RPCError("User rejected", code=-1), r"refused .*: User rejected"),
        ("roots", RPCError("", code=-32601), "error -32601"),
    ],
    ids=["roots", "sampling", "without words"],
)
async def test_a_client_that_refuses_makes_the_tool_fail_with_its_words(
    what, error, said
):
    def refuse(method, params):
        raise error

    with pytest.raises(ToolError, match=said):
        await Session(refuse).call(asking_for(what))


async def test_a_client_that_does_not_answer_in_time_makes_the_tool_fail():
    def late(method, params):
        raise RequestTimeout(method=method, timeout=1.0, elapsed=1.0)

    with pytest.raises(ToolError, match="did not answer 'roots/list' in time"):
        await Session(late).call(asking_for("roots"))


def asking_for(what):
    async def handler(ctx):
        return await ASKS[what](ctx)

    return handler


MALFORMED = [
    ("elicitation.form", {"action": "maybe"}),
    ("elicitation.form", {"action": "accept"}),
    ("elicitation.form", {"action": "accept", "content": {"text": 7}}),
    ("elicitation.form", {"action": "accept", "content": {"other": "x"}}),
    ("elicitation.url", {"roots": []}),
    ("elicitation.url", {"action": "maybe"}),
    ("elicitation.url", {"action": None}),
    ("elicitation.url", {"action": "accept", "content": "x"}),
    ("sampling", {"action": "accept"}),
    ("roots", {"roots": [{"uri": "https://example.com"}]}),
]


@pytest.mark.rule("MRTR-17", "ELIC-20")
@pytest.mark.parametrize(("what", "answer"), MALFORMED)
async def test_a_malformed_answer_is_an_error_of_the_request_that_brought_it(
    what, answer
):
    peer = Alone(lambda *_: answer)
    with pytest.raises(InvalidParams, match=r"params\.inputResponses\["):
        await peer.call(asking_for(what))


@pytest.mark.parametrize(("what", "answer"), MALFORMED)
async def test_a_malformed_answer_in_a_session_makes_the_tool_fail(what, answer):
    peer = Session(lambda *_: answer)
    with pytest.raises(ToolError, match="is malformed"):
        await peer.call(asking_for(what))


# --- keys


@ERAS
@pytest.mark.rule("MRTR-04")
async def test_each_question_of_a_call_needs_its_own_key(client):
    async def handler(ctx):
        await ctx.roots(key="same")
        await ctx.elicit("Who?", FORM, key="same")

    with pytest.raises(ValueError, match="needs its own key, got 'same'"):
        await client(person).call(handler)


@ERAS
@pytest.mark.parametrize("key", ["", 7, b"k"])
async def test_a_key_is_a_name(client, key):
    async def handler(ctx):
        await ctx.roots(key=key)

    with pytest.raises(ValueError, match="key must be a name"):
        await client(person).call(handler)


# --- tasks


async def test_a_task_asks_in_between_at_any_revision():
    """The tasks extension gives a handler a request that reaches its client."""
    peer = Alone()

    async def ask(method, params):
        peer.asked.append(method)
        return person(method, params)

    context = peer.context(ask=ask)
    assert (await everything(context))[0] == "accept"
    assert len(peer.asked) == 4


async def test_conversations_that_are_none_are_refused_before_anybody_is_asked():
    for prompt in ([], 7, {"role": 1}, {"type": "text"}, [None]):

        async def handler(ctx, prompt=prompt):
            await ctx.sample(prompt)

        peer = Alone(person)
        with pytest.raises(LocalProtocolError, match="sampling"):
            await peer.call(handler)
        assert peer.asked == []


async def test_a_prompt_may_be_given_in_any_form():
    async def handler(ctx):
        block = {"type": "text", "text": "d"}
        prompt = ["a", TextContent("b"), {"role": "assistant", "content": block}, block]
        answer = await ctx.sample(
            prompt,
            model_preferences={"hints": [{"name": "small"}]},
            tool_choice={"mode": "none"},
            tools=[Tool("add", {"type": "object"})],
            stop_sequences=("x",),
            include_context="thisServer",
        )
        return answer.text

    peer = Alone(person)
    assert await peer.call(handler) == "re: d"
    params = peer.asked[0][1]
    assert [message["role"] for message in params["messages"]] == [
        "user",
        "user",
        "assistant",
        "user",
    ]
    assert params["modelPreferences"] == {"hints": [{"name": "small"}]}
    assert (params["toolChoice"], params["stopSequences"]) == ({"mode": "none"}, ["x"])
    assert params["includeContext"] == "thisServer"
