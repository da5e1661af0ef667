"""The everything server asks its client: sampling, elicitation, roots."""

from __future__ import annotations

import json
import pathlib

import anyio
import pytest
from hearing import MESSAGE, Heard

import mcpwire
from mcpwire.types import (
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ImageContent,
    NumberSchema,
    Root,
    SamplingMessage,
    TextContent,
)

pytestmark = pytest.mark.servers

FORM, URL = "trigger-elicitation-request", "trigger-url-elicitation"
SAMPLING, ROOTS = "trigger-sampling-request", "get-roots-list"
CONDITIONAL = {FORM, URL, SAMPLING, ROOTS}
# Asking for the roots it does not leave by itself.
QUICK = mcpwire.Limits(close_grace=0.2)
PAGE = "https://example.org/consent?id=1"
DEFAULTS = {
    "firstLine": "It was a dark and stormy night.",
    "integer": 42,
    "number": 3.14,
    "untitledSingleSelectEnum": "Monica",
    "untitledMultipleSelectEnum": ["Guitar"],
    "titledSingleSelectEnum": "hero-1",
    "titledMultipleSelectEnum": ["fish-1"],
    "legacyTitledEnum": "pet-1",
}


def answer(text="from our model"):
    return CreateMessageResult("assistant", TextContent(text), "our-model", "endTurn")


def raising(error):
    def handler(_):
        raise error

    return handler


def json_after(marker, text):
    return json.loads(text.partition(marker)[2])


@pytest.mark.parametrize(
    ("handlers", "tools"),
    [
        ({}, set()),
        ({"sampling": raising(ValueError)}, {SAMPLING}),
        ({"elicitation": raising(ValueError)}, {FORM}),
        ({"elicitation": mcpwire.Elicitation(url=raising(ValueError))}, {FORM, URL}),
        ({"roots": []}, {ROOTS}),
    ],
)
async def test_what_the_server_offers_follows_from_the_handlers_given(
    real, connect, handlers, tools
):
    async with connect(real("everything"), limits=QUICK, **handlers) as client:
        offered = {tool.name for tool in await client.list_tools()}
    assert offered & CONDITIONAL == tools


@pytest.mark.parametrize(
    ("revision", "tools"),
    [
        ("2024-11-05", {SAMPLING, ROOTS}),
        ("2025-03-26", {SAMPLING, ROOTS}),
        ("2025-06-18", {SAMPLING, ROOTS, FORM}),
        ("2025-11-25", CONDITIONAL),
    ],
)
async def test_an_older_revision_is_offered_and_asked_what_it_knows(
    real, connect, revision, tools
):
    handlers = {
        "sampling": lambda _: answer(),
        "elicitation": mcpwire.Elicitation(
            lambda _: {"name": "Ada", "number": 1}, lambda _: "accept"
        ),
        "roots": ["file:///srv/a"],
    }
    arguments = {SAMPLING: {"prompt": "Why?"}, URL: {"url": PAGE}}
    async with connect(real("everything"), mode=revision, **handlers) as client:
        offered = {tool.name for tool in await client.list_tools()}
        assert offered & CONDITIONAL == tools
        for tool in sorted(tools):
            result = await client.call_tool(tool, arguments.get(tool))
            assert not result.is_error, result.text


@pytest.mark.rule("SAMP-01", "SAMP-09")
async def test_the_server_samples_through_our_handler(real, connect):
    asked = []

    def sample(request):
        asked.append(request)
        if request.max_tokens == 5:
            picture = ImageContent("iVBORw==", "image/png")
            return CreateMessageResult("assistant", picture, "our-model")
        return answer()

    async with connect(real("everything"), sampling=sample) as client:
        plain = await client.call_tool(SAMPLING, {"prompt": "Why?", "maxTokens": 17})
        picture = await client.call_tool(SAMPLING, {"prompt": "Draw", "maxTokens": 5})
    (request, _) = asked
    text = f"Resource {SAMPLING} context: Why?"
    assert request.messages == [SamplingMessage("user", TextContent(text))]
    assert (request.max_tokens, request.temperature) == (17, 0.7)
    assert request.system_prompt == "You are a helpful test server."
    assert request.tools is None
    assert json_after("result: \n", plain.text) == {
        "role": "assistant",
        "content": {"type": "text", "text": "from our model"},
        "model": "our-model",
        "stopReason": "endTurn",
    }
    assert json_after("result: \n", picture.text)["content"] == {
        "type": "image",
        "data": "iVBORw==",
        "mimeType": "image/png",
    }


@pytest.mark.fault("F18")
async def test_many_samplings_at_once_each_get_their_own_answer(real, connect):
    texts = {}

    def sample(request):
        return answer(request.messages[0].content.text)

    async with connect(real("everything"), sampling=sample) as client:

        async def call(number):
            result = await client.call_tool(SAMPLING, {"prompt": f"<{number}>"})
            texts[number] = json_after("result: \n", result.text)["content"]["text"]

        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(call, number)
    assert texts == {n: f"Resource {SAMPLING} context: <{n}>" for n in range(40)}


@pytest.mark.rule("ELIC-01", "ELIC-04")
async def test_the_server_shows_a_form_and_gets_it_with_its_defaults(real, connect):
    forms = []

    def fill(form):
        forms.append(form)
        return {"name": "Ada", "check": True, "integer": 7, "number": 8}

    async with connect(real("everything"), elicitation=fill) as client:
        result = await client.call_tool(FORM)
    (form,) = forms
    assert type(form) is ElicitRequestFormParams
    assert form.message == "Please provide inputs for the following fields:"
    fields = form.requested_schema.properties
    assert form.requested_schema.required == ["name"]
    assert len(fields) == 13
    number = NumberSchema(
        "integer",
        title="Integer",
        description=fields["integer"].description,
        minimum=1,
        maximum=100,
        default=42,
    )
    assert fields["integer"] == number
    assert fields["birthdate"].format == "date"
    assert fields["titledSingleSelectEnum"].one_of[1].title == "Green Lantern"
    assert fields["untitledMultipleSelectEnum"].items.enum[:2] == ["Guitar", "Piano"]
    assert fields["titledMultipleSelectEnum"].items.any_of[2].const == "fish-3"
    assert fields["legacyTitledEnum"].enum_names[1] == "Dogs"
    assert json_after("Raw result: ", result.text) == {
        "action": "accept",
        "content": {
            **DEFAULTS,
            "name": "Ada",
            "check": True,
            "integer": 7,
            "number": 8,
        },
    }
    assert "- Favorite Integer: 7" in result.text


@pytest.mark.rule("ELIC-06")
async def test_a_form_accepted_as_it_stands_is_sent_with_all_its_defaults(
    real, connect
):
    handler = {"elicitation": lambda _: {"name": "Ada"}}
    async with connect(real("everything"), **handler) as client:
        result = await client.call_tool(FORM)
    content = json_after("Raw result: ", result.text)["content"]
    assert content == {**DEFAULTS, "name": "Ada"}


@pytest.mark.rule("ELIC-08")
async def test_the_user_may_decline_or_dismiss_a_form(real, connect):
    answers = iter(["decline", ElicitResult("cancel")])
    handler = {"elicitation": lambda _: next(answers)}
    async with connect(real("everything"), **handler) as client:
        declined = await client.call_tool(FORM)
        dismissed = await client.call_tool(FORM)
    assert "User declined" in declined.text
    assert json_after("Raw result: ", declined.text) == {"action": "decline"}
    assert "User cancelled" in dismissed.text
    assert json_after("Raw result: ", dismissed.text) == {"action": "cancel"}


@pytest.mark.rule("ELIC-08", "ELIC-20")
async def test_an_answer_that_does_not_fit_the_form_is_not_sent(real, connect, caplog):
    unfit = [
        {},
        {"name": "Ada", "integer": 101},
        {"name": "Ada", "untitledSingleSelectEnum": "Gunther"},
        {"name": "Ada", "email": "no address"},
        {"name": "Ada", "unknown": 1},
        7,
    ]
    answers = iter(unfit)
    handler = {"elicitation": lambda _: next(answers)}
    async with connect(real("everything"), **handler) as client:
        for _ in unfit:
            result = await client.call_tool(FORM)
            assert result.is_error
            assert "-32603" in result.text
        assert await client.ping() > 0
    assert caplog.text.count("LocalProtocolError: elicitation") == len(unfit)


async def test_the_server_sends_the_user_to_a_url(real, connect):
    actions, asked = ["accept", "decline", "cancel"], []

    def offer(request):
        asked.append(request)
        return actions[len(asked) - 1]

    handler = mcpwire.Elicitation(url=offer)
    async with connect(real("everything"), elicitation=handler) as client:
        arguments = {"url": PAGE, "message": "Look.", "elicitationId": "e-1"}
        results = [await client.call_tool(URL, arguments) for _ in actions]
    assert asked == [ElicitRequestURLParams("Look.", PAGE, "e-1")] * len(actions)
    for action, result in zip(actions, results, strict=True):
        assert json_after("Raw result: ", result.text) == {"action": action}


async def test_a_tool_that_needs_a_url_visited_first_says_so_and_then_works(
    real, connect
):
    handler = mcpwire.Elicitation(url=lambda _: "accept")
    async with connect(real("everything"), elicitation=handler) as client:
        arguments = {"url": PAGE, "errorPath": True}
        with pytest.raises(mcpwire.UrlElicitationRequired) as required:
            await client.call_tool(URL, arguments)
        (first,) = required.value.data["elicitations"]
        again = await client.call_tool(URL, arguments)
    assert first["url"] == "https://modelcontextprotocol.io"
    assert first["elicitationId"]
    assert json_after("Raw result: ", again.text) == {"action": "accept"}


async def test_a_url_that_is_not_safe_never_reaches_the_handler(real, connect):
    handler = mcpwire.Elicitation(url=raising(AssertionError))
    async with connect(real("everything"), elicitation=handler) as client:
        for url in ("http://example.org/a", "https://ada:secret@example.org/"):
            result = await client.call_tool(URL, {"url": url})
            assert result.is_error
            assert "-32602" in result.text
            assert "secret" not in result.text


async def test_a_mode_without_handler_is_refused_though_the_server_asks(real, connect):
    handler = mcpwire.Elicitation(url=raising(AssertionError))
    async with connect(real("everything"), elicitation=handler) as client:
        result = await client.call_tool(FORM)
    assert result.is_error
    assert "-32602" in result.text
    assert "did not declare the elicitation mode 'form'" in result.text


@pytest.mark.rule("ROOT-01", "ROOT-03")
async def test_the_server_learns_our_roots_and_that_they_changed(real, connect):
    roots = [pathlib.Path("/srv/a b"), Root("file:///srv/c", name="See")]
    heard = Heard()
    options = {"roots": roots, "on_notification": heard}

    def told(count):
        return f"Roots updated: {count} root(s) received from client"

    def logged():
        return [message.data for message in heard.of(MESSAGE)]

    async with connect(real("everything"), **options) as client:
        await heard.until(lambda: told(2) in logged())
        first = await client.call_tool(ROOTS)
        roots.append("file:///srv/d")
        del roots[0]
        roots.append(pathlib.Path("/srv/e"))
        await client.notify_roots_changed()
        await heard.until(lambda: told(3) in logged())
        second = await client.call_tool(ROOTS)
    assert "1. Unnamed Root\n   URI: file:///srv/a%20b" in first.text
    assert "2. See\n   URI: file:///srv/c" in first.text
    assert "(3 total)" in second.text
    assert "3. Unnamed Root\n   URI: file:///srv/e" in second.text


async def test_a_handler_refuses_by_raising_and_keeps_its_secrets(
    real, connect, caplog
):
    refusal = mcpwire.RPCError("the user said no", code=-1)
    for error, code, text in (
        (refusal, "-1", "the user said no"),
        (ValueError("a secret"), "-32603", "the handler failed"),
    ):
        handlers = {"sampling": raising(error), "elicitation": raising(error)}
        async with connect(real("everything"), **handlers) as client:
            for tool, arguments in ((SAMPLING, {"prompt": "x"}), (FORM, {})):
                result = await client.call_tool(tool, arguments)
                assert result.is_error
                assert f"{code}: {text}" in result.text
                assert "secret" not in result.text
            assert await client.ping() > 0
    assert "ValueError: a secret" in caplog.text
