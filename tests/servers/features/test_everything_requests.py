"""Requests of the everything server: sampling, elicitation, roots."""

import json
import pathlib

import pytest
from notification_log import MESSAGE, Recorder

import mcpwire
from mcpwire.types import (
    CreateMessageResult,
    ElicitRequestFormParams,
    NumberSchema,
    Root,
    TextContent,
)

pytestmark = pytest.mark.servers

FORM, URL = "trigger-elicitation-request", "trigger-url-elicitation"
SAMPLING, ROOTS = "trigger-sampling-request", "get-roots-list"
CONDITIONAL = {FORM, URL, SAMPLING, ROOTS}
# The server does not exit by itself while it requests the roots.
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
async def test_the_offered_tools_depend_on_the_handlers(real, connect, handlers, tools):
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
async def test_older_revisions_have_the_tools_that_they_support(
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


@pytest.mark.rule("ELIC-01", "ELIC-04")
async def test_a_form_is_filled_in_with_its_defaults(real, connect):
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


@pytest.mark.rule("ELIC-08", "ELIC-20")
async def test_content_that_does_not_fit_the_form_is_not_sent(real, connect, caplog):
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


async def test_a_call_succeeds_after_a_required_url_elicitation(real, connect):
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


async def test_an_elicitation_mode_without_handler_is_refused(real, connect):
    handler = mcpwire.Elicitation(url=raising(AssertionError))
    async with connect(real("everything"), elicitation=handler) as client:
        result = await client.call_tool(FORM)
    assert result.is_error
    assert "-32602" in result.text
    assert "did not declare the elicitation mode 'form'" in result.text


@pytest.mark.rule("ROOT-01", "ROOT-03")
async def test_the_server_gets_the_roots_and_their_changes(real, connect):
    roots = [pathlib.Path("/srv/a b"), Root("file:///srv/c", name="See")]
    recorder = Recorder()
    options = {"roots": roots, "on_notification": recorder}

    def log_message(count):
        return f"Roots updated: {count} root(s) received from client"

    def logged():
        return [message.data for message in recorder.of(MESSAGE)]

    async with connect(real("everything"), **options) as client:
        await recorder.until(lambda: log_message(2) in logged())
        first = await client.call_tool(ROOTS)
        roots.append("file:///srv/d")
        del roots[0]
        roots.append(pathlib.Path("/srv/e"))
        await client.notify_roots_changed()
        await recorder.until(lambda: log_message(3) in logged())
        second = await client.call_tool(ROOTS)
    assert "1. Unnamed Root\n   URI: file:///srv/a%20b" in first.text
    assert "2. See\n   URI: file:///srv/c" in first.text
    assert "(3 total)" in second.text
    assert "3. Unnamed Root\n   URI: file:///srv/e" in second.text
