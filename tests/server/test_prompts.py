"""Prompts: lists with arguments, conversion of texts, refusals with a reason."""

from enum import Enum
from typing import Annotated, Literal

import pytest
from raw_client import Hand
from single_request import code, error, in_session, result

from mcpwire import types
from mcpwire.server.context import Context
from mcpwire.server.server import Server


def text(body, role="user"):
    return {"role": role, "content": {"type": "text", "text": body}}


async def get(server, name, **arguments):
    found = await result(server, "prompts/get", name=name, arguments=arguments)
    return found["messages"]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


async def test_arguments_are_derived_from_the_parameters(server):
    @server.prompt
    def review(
        code: Annotated[str, "What to look at."],
        context: Context,
        style: Literal["short", "long"] = "short",
        count: int = 3,
        *,
        strict: bool = False,
        ratio: float = 0.5,
        colour: Colour = Colour.RED,
        tags: list[str] | None = None,
        note: str | None = None,
    ) -> str:
        """Review code.

        Args:
            count: How many findings.
        """
        return "x"

    assert (await result(server, "prompts/list"))["prompts"] == [
        {
            "name": "review",
            "description": "Review code.",
            "arguments": [
                {"name": "code", "description": "What to look at.", "required": True},
                {"name": "style", "description": "One of: short, long."},
                {"name": "count", "description": "How many findings. An integer."},
                {"name": "strict", "description": "One of: true, false."},
                {"name": "ratio", "description": "A number."},
                {"name": "colour", "description": "One of: red, blue."},
                {
                    "name": "tags",
                    "description": "JSON that fits "
                    '{"type":"array","items":{"type":"string"}}.',
                },
                {"name": "note"},
            ],
        }
    ]


async def test_argument_description_names_the_format(server):
    from datetime import date

    @server.prompt
    def due(day: date, anything) -> str:
        return f"{day:%d.%m.%Y}{anything}"

    [listed] = (await result(server, "prompts/list"))["prompts"]
    assert listed["arguments"] == [
        {"name": "day", "description": "Format: date.", "required": True},
        {"name": "anything", "required": True},
    ]
    assert await get(server, "due", day="2026-07-28", anything="!") == [
        text("28.07.2026!")
    ]


async def test_prompt_list_shows_all_registered_fields(server):
    @server.prompt(
        name="n", title="T", description="D", icons=["https://x.org/i"], meta={"k": 1}
    )
    def function() -> str:
        """Say something else."""
        return "x"

    assert (await result(server, "prompts/list"))["prompts"] == [
        {
            "name": "n",
            "title": "T",
            "description": "D",
            "icons": [{"src": "https://x.org/i"}],
            "_meta": {"k": 1},
        }
    ]
    old = await in_session(server, "2024-11-05", "prompts/list")
    assert old["result"]["prompts"] == [{"name": "n", "description": "D"}]


async def test_texts_are_converted_to_the_parameter_types(server):
    @server.prompt
    def all_of(
        number: int,
        ratio: float,
        colour: Colour,
        tags: list[int],
        *,
        strict: bool,
        word: str = "w",
    ) -> str:
        return f"{number + 1} {ratio / 2} {colour.name} {sum(tags)} {strict} {word}"

    given = {"number": "4", "ratio": "1", "colour": "blue", "tags": "[1, 2]"}
    assert await get(server, "all_of", **given, strict="true") == [
        text("5 0.5 BLUE 3 True w")
    ]


async def test_digits_for_a_str_parameter_stay_a_string(server):
    @server.prompt
    def say(word: str) -> str:
        return repr(word)

    assert await get(server, "say", word="0012") == [text("'0012'")]


def strict_server():
    server = Server("s")

    @server.prompt
    def p(a: int, b: str, c: str = "") -> str:
        return f"{a}{b}{c}"

    return server


@pytest.mark.rule("PROMPT-05", "PROMPT-07")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"a": "1"}, "the argument 'b' is missing"),
        ({}, "the argument 'a' is missing; the argument 'b' is missing"),
        ({"a": "1", "b": "", "x" * 300: ""}, f"unknown argument '{'x' * 100}'"),
        ({"a": 1, "b": ""}, "the argument 'a' must be a string"),
        ({"a": "x", "b": ""}, "a: expected integer"),
    ],
)
async def test_invalid_arguments_are_reported_by_name(arguments, problem):
    found = await error(strict_server(), "prompts/get", name="p", arguments=arguments)
    assert found["code"] == -32602
    assert found["message"].startswith(f"prompt 'p': {problem}")


@pytest.mark.rule("PROMPT-07")
async def test_error_message_for_many_faults_is_bounded():
    unknown = {f"x{n}": "" for n in range(1_000)}
    found = await error(strict_server(), "prompts/get", name="p", arguments=unknown)
    assert len(found["message"]) < 1_000


@pytest.mark.rule("PROMPT-05")
@pytest.mark.parametrize("arguments", [[], "a", 7])
async def test_arguments_must_be_an_object(arguments):
    found = await error(strict_server(), "prompts/get", name="p", arguments=arguments)
    assert (found["code"], found["message"]) == (
        -32602,
        "params.arguments must be an object",
    )


@pytest.mark.rule("PROMPT-05")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("q", "unknown prompt 'q'"),
        ("x" * 300, f"unknown prompt '{'x' * 100}'"),
        (None, "params.name must be a string"),
    ],
)
async def test_an_unknown_prompt_is_refused(name, message):
    server = strict_server()
    for found in (
        await error(server, "prompts/get", name=name),
        (await in_session(server, "2025-11-25", "prompts/get", name=name))["error"],
    ):
        assert (found["code"], found["message"]) == (-32602, message)


async def test_explicit_arguments_need_no_type_hints(server):
    @server.prompt(
        arguments=[
            types.PromptArgument("a", description="A", required=True),
            {"name": "b", "title": "B"},
            "c",
        ]
    )
    def p(arguments, context: Context):
        return repr(arguments)

    [listed] = (await result(server, "prompts/list"))["prompts"]
    assert listed["arguments"] == [
        {"name": "a", "description": "A", "required": True},
        {"name": "b", "title": "B"},
        {"name": "c"},
    ]
    assert await get(server, "p", a="1", c="2") == [text("{'a': '1', 'c': '2'}")]
    assert await code(server, "prompts/get", name="p", arguments={"b": "1"}) == -32602
    assert await code(server, "prompts/get", name="p", arguments={"d": "1"}) == -32602


async def test_function_may_ignore_declared_arguments(server):
    server.add_prompt(lambda: "x", name="p", arguments=["a"])
    assert await get(server, "p", a="1") == [text("x")]


@pytest.mark.rule("PROMPT-03")
@pytest.mark.case("F06")
async def test_replace_and_remove_notify_clients():
    server = strict_server()
    hand = Hand(server.dispatcher, "2025-11-25")
    server.prompts["p"].replace(lambda: "new", title="T")
    assert (await hand.next())["method"] == "notifications/prompts/list_changed"
    assert await get(server, "p") == [text("new")]
    [listed] = (await result(server, "prompts/list"))["prompts"]
    assert listed == {"name": "p", "title": "T"}
    server.prompts["p"].remove()
    assert (await hand.next())["method"] == "notifications/prompts/list_changed"
    assert await code(server, "prompts/get", name="p") == -32602


def test_function_unsuitable_for_a_prompt_is_refused(server):
    with pytest.raises(ValueError, match="a name"):
        server.add_prompt(lambda: "x")
    with pytest.raises(TypeError, match="takes any number of arguments"):
        server.add_prompt(lambda *all_of_them: "x", name="p")
    assert "p" not in server.prompts
