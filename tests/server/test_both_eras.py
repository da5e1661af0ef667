"""The same handler requests input from a session's client and a stateless one."""

import pytest
from input_session import ALL, NoSession, Session, answer_all

from mcpwire.errors import (
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MissingCapability,
    RequestTimeout,
    RPCError,
    ToolError,
    UrlElicitationRequired,
)
from mcpwire.types import SamplingMessage, TextContent, Tool
from mcpwire.versions import REVISIONS

NOV_2024, MAR_2025, JUN_2025, NOV_2025, JUL_2026 = REVISIONS

FORM = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}

ERAS = pytest.mark.parametrize("client", [Session, NoSession])


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
async def test_handler_requests_every_kind_of_input_in_sequence(client):
    peer = client(answer_all)
    assert await peer.call(everything) == [
        "accept",
        {"text": "Who?"},
        {"text": "Who?"},
        True,
        "re: Hello",
        ["file:///work"],
    ]
    assert [method for method, _ in peer.requests] == [
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    ]


@ERAS
async def test_sync_handler_requests_input_from_its_thread(client):
    def handler(ctx):
        name = ctx.sync.elicit("Who?", FORM).content["text"]
        visit = ctx.sync.elicit_url("Pay", "https://example.com/pay")
        text = ctx.sync.sample("Hello", max_tokens=5).text
        return [name, visit.action, text, [root.uri for root in ctx.sync.roots()]]

    assert await client(answer_all).call(handler) == [
        "Who?",
        "accept",
        "re: Hello",
        ["file:///work"],
    ]


@ERAS
@pytest.mark.rule("ELIC-09")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_elicitation_is_returned_as_an_answer(client, action):
    async def handler(ctx):
        form = await ctx.elicit("Who?", FORM)
        visit = await ctx.elicit_url("Pay", "https://example.com/pay")
        shown = [form.action, form.accepted, form.content, form.value]
        return [*shown, visit.action, visit.accepted]

    declined = {"action": action, "content": {"text": "not to be looked at"}}
    assert await client(lambda *_: declined).call(handler) == [
        action,
        False,
        None,
        None,
        action,
        False,
    ]


@ERAS
@pytest.mark.rule("SAMP-11")
async def test_each_sampling_request_has_only_its_own_messages(client):
    async def handler(ctx):
        await ctx.sample("one")
        await ctx.sample([SamplingMessage("assistant", TextContent("x")), "two"])

    peer = client(answer_all)
    await peer.call(handler)
    sent = [
        [message["content"]["text"] for message in params["messages"]]
        for _, params in peer.requests
    ]
    assert sent == [["one"], ["x", "two"]]


# --- requests the client cannot answer

ASKS = {
    "elicitation.form": lambda ctx: ctx.elicit("Who?", FORM),
    "elicitation.url": lambda ctx: ctx.elicit_url("Pay", "https://example.com/pay"),
    "sampling": lambda ctx: ctx.sample("Hello"),
    "sampling.tools": lambda ctx: ctx.sample(
        "Hello", tools=[{"name": "add", "inputSchema": {"type": "object"}}]
    ),
    "roots": lambda ctx: ctx.roots(),
}


def unsupported_request(feature):
    async def handler(ctx):
        assert not ctx.can(feature)
        return await ASKS[feature](ctx)

    return handler


@pytest.mark.rule("META-10", "MRTR-06")
@pytest.mark.case("C07")
@pytest.mark.parametrize(
    ("feature", "capabilities", "required"),
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
async def test_stateless_input_without_the_capability_names_it(
    feature, capabilities, required
):
    peer = NoSession(answer_all, capabilities=capabilities)
    with pytest.raises(MissingCapability) as caught:
        await peer.call(unsupported_request(feature))
    assert caught.value.data == {"requiredCapabilities": required}
    assert peer.requests == []


@pytest.mark.rule("ELIC-02", "SAMP-02")
@pytest.mark.case("C07")
@pytest.mark.parametrize(
    ("feature", "revision", "capabilities"),
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
async def test_session_request_without_the_capability_is_not_sent(
    feature, revision, capabilities
):
    peer = Session(answer_all, revision=revision, capabilities=capabilities)
    with pytest.raises(ToolError, match="which this one does not"):
        await peer.call(unsupported_request(feature))
    with pytest.raises(InternalError, match="which this one does not"):
        await peer.call(unsupported_request(feature), method="prompts/get")
    assert peer.requests == []


@ERAS
async def test_can_is_true_for_declared_capabilities(client):
    async def handler(ctx):
        return [ctx.can(feature) for feature in ASKS]

    assert await client(answer_all).call(handler) == [True] * len(ASKS)


async def test_session_without_a_request_channel_cannot_request_input():
    context = Session(None).context()
    assert not context.can("sampling")
    with pytest.raises(LocalProtocolError):
        await context.sample("Hello")


@pytest.mark.rule("MRTR-02")
async def test_only_calls_prompts_and_resources_can_request_input():
    for method in ("tools/call", "prompts/get", "resources/read"):
        peer = NoSession(answer_all, method=method)
        assert await peer.call(everything)

    async def handler(ctx):
        assert not ctx.can("sampling")
        return await ctx.sample("Hello")

    peer = NoSession(answer_all, method="completion/complete")
    with pytest.raises(LocalProtocolError, match="cannot be asked"):
        await peer.call(handler)


@pytest.mark.parametrize(
    ("feature", "error", "message"),
    [
        ("roots", RPCError("User rejected", code=-1), r"refused .*: User rejected"),
        ("sampling", RPCError("User rejected", code=-1), r"refused .*: User rejected"),
        ("roots", RPCError("", code=-32601), "error -32601"),
    ],
    ids=["roots", "sampling", "without a message"],
)
async def test_client_error_fails_the_tool_with_its_message(feature, error, message):
    def refuse(method, params):
        raise error

    with pytest.raises(ToolError, match=message):
        await Session(refuse).call(requesting(feature))


async def test_client_request_timeout_fails_the_tool():
    def late(method, params):
        raise RequestTimeout(method=method, timeout=1.0, elapsed=1.0)

    with pytest.raises(ToolError, match="did not answer 'roots/list' in time"):
        await Session(late).call(requesting("roots"))


def requesting(feature):
    async def handler(ctx):
        return await ASKS[feature](ctx)

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
@pytest.mark.parametrize(("feature", "answer"), MALFORMED)
async def test_malformed_input_response_is_invalid_params(feature, answer):
    peer = NoSession(lambda *_: answer)
    with pytest.raises(InvalidParams, match=r"params\.inputResponses\["):
        await peer.call(requesting(feature))


@pytest.mark.parametrize(("feature", "answer"), MALFORMED)
async def test_malformed_client_response_in_a_session_fails_the_tool(feature, answer):
    peer = Session(lambda *_: answer)
    with pytest.raises(ToolError, match="is malformed"):
        await peer.call(requesting(feature))


@ERAS
@pytest.mark.rule("MRTR-04")
async def test_duplicate_input_key_in_a_call_is_refused(client):
    async def handler(ctx):
        await ctx.roots(key="same")
        await ctx.elicit("Who?", FORM, key="same")

    with pytest.raises(ValueError, match="needs its own key, got 'same'"):
        await client(answer_all).call(handler)


@ERAS
@pytest.mark.parametrize("key", ["", 7, b"k"])
async def test_input_key_must_be_a_nonempty_string(client, key):
    async def handler(ctx):
        await ctx.roots(key=key)

    with pytest.raises(ValueError, match="key must be a name"):
        await client(answer_all).call(handler)


async def test_task_handler_requests_input_at_the_latest_revision():
    """The tasks extension gives a handler a request that reaches its client."""
    peer = NoSession()

    async def ask(method, params):
        peer.requests.append(method)
        return answer_all(method, params)

    context = peer.context(ask=ask)
    assert (await everything(context))[0] == "accept"
    assert len(peer.requests) == 4


async def test_malformed_sampling_prompt_is_refused_before_sending():
    for prompt in ([], 7, {"role": 1}, {"type": "text"}, [None]):

        async def handler(ctx, prompt=prompt):
            await ctx.sample(prompt)

        peer = NoSession(answer_all)
        with pytest.raises(LocalProtocolError, match="sampling"):
            await peer.call(handler)
        assert peer.requests == []


async def test_sampling_prompt_accepts_strings_blocks_and_messages():
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

    peer = NoSession(answer_all)
    assert await peer.call(handler) == "re: d"
    params = peer.requests[0][1]
    assert [message["role"] for message in params["messages"]] == [
        "user",
        "user",
        "assistant",
        "user",
    ]
    assert params["modelPreferences"] == {"hints": [{"name": "small"}]}
    assert (params["toolChoice"], params["stopSequences"]) == ({"mode": "none"}, ["x"])
    assert params["includeContext"] == "thisServer"


@pytest.mark.rule("ELIC-22")
async def test_elicitation_complete_notifies_the_client():
    sent = []
    peer = Session(answer_all)
    peer.info.send = lambda method, params: sent.append((method, params))
    ids = []

    async def handler(ctx):
        ids.append((await ctx.elicit_url("Pay", "https://example.com")).elicitation_id)
        ctx.elicitation_complete(ids[0])
        ctx.elicitation_complete(None)

    await peer.call(handler)
    assert peer.requests[0][1]["elicitationId"] == ids[0]
    assert sent == [("notifications/elicitation/complete", {"elicitationId": ids[0]})]


async def test_session_without_elicitation_ids_is_not_notified():
    peer = Session(answer_all, revision=JUN_2025)
    peer.info.send = lambda *message: pytest.fail("a notification was sent")
    peer.context().elicitation_complete("made-up")


async def test_stateless_elicitation_has_no_id_or_notification():
    async def handler(ctx):
        answer = await ctx.elicit_url("Pay", "https://example.com")
        ctx.elicitation_complete("made-up")
        return answer.elicitation_id

    peer = NoSession(answer_all)
    assert await peer.call(handler) is None
    assert peer.notifications.all == []


@pytest.mark.rule("ELIC-24")
@pytest.mark.parametrize("from_thread", [False, True])
async def test_require_url_raises_an_error_with_the_url(from_thread):
    async def handler(ctx):
        await ctx.require_url("Connect", "https://example.com/connect")

    def in_thread(ctx):
        ctx.sync.require_url("Connect", "https://example.com/connect")

    peer = Session(answer_all)
    with pytest.raises(UrlElicitationRequired) as caught:
        await peer.call(in_thread if from_thread else handler)
    [elicitation] = caught.value.data["elicitations"]
    assert elicitation.pop("elicitationId")
    assert elicitation == {
        "mode": "url",
        "message": "Connect",
        "url": "https://example.com/connect",
    }
    assert peer.requests == []


@pytest.mark.rule("ELIC-24")
async def test_require_url_elicits_where_the_error_is_undefined():
    async def handler(ctx):
        return (await ctx.require_url("Connect", "https://example.com")).accepted

    assert await NoSession(answer_all).call(handler) is True
    undeclared = Session(answer_all, capabilities={"elicitation": {}})
    with pytest.raises(ToolError, match=r"'elicitation\.url'"):
        await undeclared.call(handler)
