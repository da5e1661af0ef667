"""Requests of a server on the official Python SDK, in both eras.

In a session it sends requests, at 2026-07-28 its results require input. The state of
such a round is sealed and bound to the params of the request, so each successful call
shows that the client returned it unchanged, with unchanged params.
"""

import pathlib

import anyio
import pytest
from notification_log import TIMEOUT_S, Recorder

import mcpwire
from mcpwire.types import (
    BooleanSchema,
    CreateMessageResult,
    ElicitResult,
    ModelHint,
    ModelPreferences,
    NumberSchema,
    Root,
    StringSchema,
    TextContent,
    ToolUseContent,
    UntitledSingleSelectEnumSchema,
)

pytestmark = pytest.mark.servers

PAGE = "https://example.org/sign-in"
COMPLETE = "notifications/elicitation/complete"

in_a_session = pytest.mark.parametrize("mode", ["session"])
stateless = pytest.mark.parametrize("mode", ["stateless"])


def answer(text="old pond"):
    return CreateMessageResult("assistant", TextContent(text), "our-model", "endTurn")


def raising(error):
    def handler(*_):
        raise error

    return handler


@pytest.mark.rule("SAMP-01", "SAMP-09")
async def test_a_sampling_request_has_all_parameters(sdk, mode):
    requests = []

    def sample(request):
        requests.append(request)
        if request.tools:
            use = ToolUseContent("use-1", request.tools[0].name, {"word": "pond"})
            return CreateMessageResult("assistant", [use], "our-model", "toolUse")
        return answer()

    async with sdk(sampling=mcpwire.Sampling(sample, tools=True)) as client:
        plain = await client.call_tool("haiku", {"topic": "ponds"}, check=True)
        tooled = await client.call_tool("research", {"topic": "ponds"}, check=True)
    first, second = requests
    assert first.messages[0].content == TextContent("A haiku on ponds")
    assert (first.max_tokens, first.temperature) == (64, 0.5)
    assert (first.system_prompt, first.stop_sequences) == ("Be brief.", ["END"])
    assert first.metadata == {"trace": 7}
    preferences = ModelPreferences(hints=[ModelHint("small")], speed_priority=0.9)
    assert first.model_preferences == preferences
    assert second.tools[0].input_schema["properties"].keys() == {"word"}
    assert second.tool_choice.mode == "required"
    assert plain.structured_content == {
        "role": "assistant",
        "content": {"type": "text", "text": "old pond"},
        "model": "our-model",
        "stopReason": "endTurn",
    }
    (use,) = tooled.structured_content["content"]
    assert (use["type"], use["name"], use["input"]) == (
        "tool_use",
        "lookup",
        {"word": "pond"},
    )
    assert tooled.structured_content["stopReason"] == "toolUse"


@pytest.mark.fault("F18")
@pytest.mark.rule("MRTR-15")
async def test_concurrent_sampling_calls_get_their_own_answers(sdk):
    texts = {}
    options = {"sampling": lambda request: answer(request.messages[0].content.text)}
    async with sdk(**options) as client:

        async def call(number):
            result = await client.call_tool("haiku", {"topic": f"<{number}>"})
            texts[number] = result.structured_content["content"]["text"]

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(call, number)
    assert texts == {number: f"A haiku on <{number}>" for number in range(20)}


@pytest.mark.rule("ELIC-01", "ELIC-06", "ELIC-08")
async def test_a_form_elicitation_has_all_fields(sdk):
    forms, results = [], []
    returned = [
        {"name": "Ada"},
        ElicitResult("accept", {"name": "Bo", "size": "large", "hot": False}),
        "decline",
        ElicitResult("cancel"),
    ]
    answers = iter(returned)

    def fill(form):
        forms.append(form)
        return next(answers)

    async with sdk(elicitation=fill) as client:
        for _ in returned:
            result = await client.call_tool("order", check=True)
            results.append(result.structured_content)
    form = forms[0]
    assert form.message == "What shall it be?"
    assert form.requested_schema.required == ["name"]
    assert form.requested_schema.properties == {
        "name": StringSchema("Name", "Who it is for", min_length=2),
        "size": UntitledSingleSelectEnumSchema(
            ["small", "medium", "large"], title="Size", default="medium"
        ),
        "pieces": NumberSchema("integer", "Pieces", minimum=1, maximum=9, default=3),
        "hot": BooleanSchema("Hot", default=True),
        "note": StringSchema("Note"),
    }
    plain = {"name": "Ada", "size": "medium", "pieces": 3, "hot": True, "note": None}
    assert results == [
        plain,
        {**plain, "name": "Bo", "size": "large", "hot": False},
        {"action": "decline"},
        {"action": "cancel"},
    ]


@pytest.mark.rule("MRTR-12", "MRTR-13", "MRTR-16")
async def test_a_tool_may_elicit_several_times_in_one_call(sdk):
    messages = []

    def fill(form):
        messages.append(form.message)
        is_order = "name" in form.requested_schema.properties
        return {"name": "Ada", "pieces": 9} if is_order else {"sure": True}

    options = {
        "elicitation": fill,
        "sampling": lambda _: answer(),
        "roots": ["file:///srv/a", "file:///srv/b"],
    }
    async with sdk(**options) as client:
        careful = await client.call_tool("order_carefully", check=True)
        arguments = {"topic": "everything"}
        combined = await client.call_tool("everything", arguments, check=True)
    assert messages == ["What shall it be?", "9 for Ada?", "What shall it be?"]
    assert careful.text == "medium for Ada: True"
    assert combined.text == "old pond, Ada, 2"


@pytest.mark.rule("ROOT-01", "ROOT-02")
async def test_roots_are_sent_in_both_eras(sdk):
    roots = [pathlib.Path("/srv/a b"), Root("file:///srv/c", name="See")]
    async with sdk(roots=roots) as client:
        first = await client.call_tool("folders", check=True)
        roots.pop()
        await client.notify_roots_changed()
        second = await client.call_tool("folders", check=True)
    assert first.structured_content["result"] == [
        "None=file:///srv/a%20b",
        "See=file:///srv/c",
    ]
    assert second.structured_content["result"] == ["None=file:///srv/a%20b"]


async def test_a_url_elicitation_reaches_the_handler(sdk, mode):
    offered, recorder = [], Recorder()
    answers = iter(["accept", "decline"])

    def offer(request):
        offered.append(request)
        return next(answers)

    options = {
        "elicitation": mcpwire.Elicitation(url=offer),
        "on_notification": recorder,
    }
    async with sdk(**options) as client:
        accepted = await client.call_tool("sign_in", {"url": PAGE}, check=True)
        declined = await client.call_tool("sign_in", {"url": PAGE}, check=True)
    assert (accepted.text, declined.text) == ("accept", "decline")
    assert {(request.url, request.message) for request in offered} == {
        (PAGE, "Please sign in.")
    }
    ids = [request.elicitation_id for request in offered]
    # 2026-07-28 has no ids and no completion notification.
    assert [id is None for id in ids] == [mode == "stateless"] * 2
    completed = [params.elicitation_id for params in recorder.of(COMPLETE)]
    assert completed == ([ids[0]] if mode == "session" else [])


@stateless
async def test_prompts_and_resources_may_require_input(sdk):
    messages = []

    def fill(form):
        messages.append(form.message)
        return {"name": "Ada"} if len(messages) == 1 else {}

    async with sdk(elicitation=fill) as client:
        prompt = await client.get_prompt("letter", {"to": "Bo"})
        text = await client.read_text("vault://seven")
    assert prompt.messages[0].text == "Dear Bo, yours, Ada"
    assert text == "seven for Anonymous"
    assert messages == ["Your name, for prompts/get?", "Your name, for resources/read?"]


# --- refusals


async def test_a_client_without_handlers_gets_no_requests(sdk, mode):
    async with sdk() as client:
        for tool, arguments, needed in (
            ("haiku", {"topic": "x"}, {"sampling": {}}),
            ("order", {}, {"elicitation": {"form": {}}}),
            ("folders", {}, {"roots": {}}),
        ):
            with pytest.raises(mcpwire.MissingCapability) as missing:
                await client.call_tool(tool, arguments)
            assert missing.value.data == {"requiredCapabilities": needed}
        # This tool elicits without a capability check.
        error_types = {
            "session": mcpwire.MethodNotFound,
            "stateless": mcpwire.RemoteProtocolError,
        }
        with pytest.raises(error_types[mode], match="elicitation/create"):
            await client.call_tool("sign_in", {"url": PAGE})
        assert await client.ping() > 0


async def test_an_unsafe_elicitation_url_reaches_no_handler(sdk, mode):
    url = "http://ada:secret@example.org/"
    handler = mcpwire.Elicitation(url=raising(AssertionError))
    refusals = {
        "session": mcpwire.InvalidParams,
        "stateless": mcpwire.RemoteProtocolError,
    }
    async with sdk(elicitation=handler) as client:
        with pytest.raises(refusals[mode], match="url") as refused:
            await client.call_tool("sign_in", {"url": url})
        assert "secret" not in str(refused.value)
        assert await client.ping() > 0


REFUSED = mcpwire.RPCError("the user said no", code=-1, data={"asked": 1})


@in_a_session
async def test_a_session_server_gets_the_error_of_a_handler(sdk):
    """The SDK forwards the error response of its request as the error of the call."""
    errors = iter([REFUSED, ValueError("a secret")])

    def fail(_):
        raise next(errors)

    async with sdk(sampling=fail) as client:
        with pytest.raises(mcpwire.RPCError) as refused:
            await client.call_tool("haiku", {"topic": "x"})
        with pytest.raises(mcpwire.InternalError, match="the handler failed") as failed:
            await client.call_tool("haiku", {"topic": "x"})
        assert await client.ping() > 0
    assert (refused.value.code, refused.value.message) == (-1, "the user said no")
    assert refused.value.data == {"asked": 1}
    assert "secret" not in str(failed.value)


@pytest.mark.rule("SAMP-08")
@stateless
async def test_a_handler_error_ends_a_stateless_call(sdk):
    """Input responses have no errors: the call ends in the client."""
    errors = iter([REFUSED, ValueError("of our own"), None])

    def fail(_):
        error = next(errors)
        if error is not None:
            raise error
        return 7

    async with sdk(sampling=fail) as client:
        with pytest.raises(mcpwire.CallCancelled, match="the user said no") as refused:
            await client.call_tool("haiku", {"topic": "x"})
        with pytest.raises(ValueError, match="of our own"):
            await client.call_tool("haiku", {"topic": "x"})
        with pytest.raises(mcpwire.LocalProtocolError, match="sampling answer"):
            await client.call_tool("haiku", {"topic": "x"})
        assert await client.ping() > 0
    assert refused.value.__cause__ is REFUSED


# --- a handler that runs while its call ends


async def test_a_handler_is_cancelled_with_its_call(sdk):
    """Only async handlers: a thread cannot be stopped from outside."""
    begun, stopped = anyio.Event(), anyio.Event()

    async def think(_):
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async with sdk(sampling=think) as client:
        call = await client.start_call("haiku", {"topic": "x"})
        with anyio.fail_after(TIMEOUT_S):
            await begun.wait()
            call.cancel("enough")
            with pytest.raises(mcpwire.CallCancelled, match="enough"):
                await call
            await stopped.wait()
        assert await client.ping() > 0
