"""Prompts: listed with their arguments, made of texts, refused with a reason."""

from enum import Enum
from typing import Annotated, Literal

import pytest
from by_hand import CLIENT_KEY, Hand, modern
from single import answer, code, error, in_session, over_http, result, sees

import mcpwire
from mcpwire import types
from mcpwire.server.auth.resource_server import ScopeRequired
from mcpwire.server.authoring.results import Audio, File, Image
from mcpwire.server.context import Context
from mcpwire.server.server import Server

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x00\x00\x00\x00WAVE"


def text(body, role="user"):
    return {"role": role, "content": {"type": "text", "text": body}}


async def get(server, name, **arguments):
    """Return the messages of a prompt."""
    found = await result(server, "prompts/get", name=name, arguments=arguments)
    return found["messages"]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


# What is listed...


async def test_arguments_are_derived_from_the_parameters():
    server = Server("s")

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


async def test_a_format_is_told():
    from datetime import date

    server = Server("s")

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


async def test_the_list_shows_all_that_was_said():
    server = Server("s")

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


@pytest.mark.rule("PROMPT-02", "CACHE-12", "CACHE-13", "PAGE-06")
@pytest.mark.case("F05")
async def test_prompts_come_in_pages():
    server = Server("s", page_size=2)
    for name in "abc":
        server.add_prompt(lambda: "x", name=name)
    first = await result(server, "prompts/list")
    second = await result(server, "prompts/list", cursor=first["nextCursor"])
    assert [p["name"] for p in first["prompts"] + second["prompts"]] == ["a", "b", "c"]
    assert first["cacheScope"] == second["cacheScope"] == "public"
    assert await code(server, "prompts/list", cursor="made up") == -32602


# What they give...


async def test_texts_become_what_the_parameters_ask_for():
    server = Server("s")

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


async def test_a_text_of_digits_stays_a_text():
    server = Server("s")

    @server.prompt
    def say(word: str) -> str:
        return repr(word)

    assert await get(server, "say", word="0012") == [text("'0012'")]


VALUES = {
    "a text": ("x", [text("x")]),
    "texts": (["x", "y"], [text("x"), text("y")]),
    "a message": (
        types.PromptMessage("assistant", types.TextContent("x")),
        [text("x", "assistant")],
    ),
    "messages as dicts": (
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
        [text("x"), text("y", "assistant")],
    ),
    "a picture": (
        Image(PNG),
        [
            {
                "role": "user",
                "content": {
                    "type": "image",
                    "data": "iVBORw0KGgo=",
                    "mimeType": "image/png",
                },
            }
        ],
    ),
    "a sound": (
        Audio(WAV),
        [
            {
                "role": "user",
                "content": {
                    "type": "audio",
                    "data": "UklGRgAAAABXQVZF",
                    "mimeType": "audio/wav",
                },
            }
        ],
    ),
    "a resource": (
        File(b"# x", mime_type="text/markdown", uri="a://b"),
        [
            {
                "role": "user",
                "content": {
                    "type": "resource",
                    "resource": {
                        "uri": "a://b",
                        "mimeType": "text/markdown",
                        "text": "# x",
                    },
                },
            }
        ],
    ),
}


@pytest.mark.rule("PROMPT-04")
@pytest.mark.parametrize("case", VALUES)
async def test_any_value_becomes_messages(case):
    value, messages = VALUES[case]
    server = Server("s")
    server.add_prompt(lambda: value, name="p", description="D")
    found = await result(server, "prompts/get", name="p")
    assert found == {"description": "D", "messages": messages}


async def test_a_question_of_a_prompt_makes_a_round():
    server = Server("s")

    @server.prompt
    async def ask(context: Context) -> str:
        answered = await context.elicit("Who?", {"type": "object", "properties": {}})
        return answered.action

    declined = types.ElicitResult("decline")
    async with mcpwire.Client(server, elicitation=lambda _: declined) as client:
        found = await client.get_prompt("ask")
    assert found.messages[0].content.text == "decline"


# What is refused...


def strict_server():
    server = Server("s")

    @server.prompt
    def p(a: int, b: str, c: str = "") -> str:
        return f"{a}{b}{c}"

    return server


WRONG = {
    "one that is missing": ({"a": "1"}, "the argument 'b' is missing"),
    "all that are missing": (
        {},
        "the argument 'a' is missing; the argument 'b' is missing",
    ),
    "one that is not known": (
        {"a": "1", "b": "", "x" * 300: ""},
        f"there is no argument '{'x' * 100}'",
    ),
    "no text": ({"a": 1, "b": ""}, "the argument 'a' must be a string"),
    "another type": ({"a": "x", "b": ""}, "a: expected integer"),
}


@pytest.mark.rule("PROMPT-05", "PROMPT-07")
@pytest.mark.parametrize("case", WRONG)
async def test_wrong_arguments_are_named(case):
    arguments, problem = WRONG[case]
    found = await error(strict_server(), "prompts/get", name="p", arguments=arguments)
    assert found["code"] == -32602
    assert found["message"].startswith(f"prompt 'p': {problem}")


@pytest.mark.rule("PROMPT-07")
async def test_a_thousand_faults_are_not_all_named():
    many = {f"x{n}": "" for n in range(1_000)}
    found = await error(strict_server(), "prompts/get", name="p", arguments=many)
    assert len(found["message"]) < 1_000


@pytest.mark.rule("PROMPT-05")
@pytest.mark.parametrize("arguments", [[], "a", 7])
async def test_arguments_are_an_object(arguments):
    found = await error(strict_server(), "prompts/get", name="p", arguments=arguments)
    assert (found["code"], found["message"]) == (
        -32602,
        "params.arguments must be an object",
    )


@pytest.mark.rule("PROMPT-05")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("q", "there is no prompt 'q'"),
        ("x" * 300, f"there is no prompt '{'x' * 100}'"),
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


@pytest.mark.rule("PROMPT-05")
async def test_what_a_function_raises_stays_with_us():
    server = Server("s")

    @server.prompt
    def fail() -> str:
        raise KeyError("the password")

    found = await error(server, "prompts/get", name="fail")
    assert (found["code"], found["message"]) == (-32603, "the handler failed")


@pytest.mark.rule("PROMPT-02")
async def test_what_somebody_does_not_see_is_not_there():
    server = Server("s")
    server.add_prompt(lambda: "x", name="p", visible=sees("Ada"))
    hand = Hand(server.dispatcher)
    for name, count in (("Ada", 1), ("Bob", 0)):
        meta = {CLIENT_KEY: {"name": name, "version": "1"}}
        listed, got = await hand.ask(
            modern(1, "prompts/list", {}, **meta),
            modern(2, "prompts/get", {"name": "p"}, **meta),
        )
        assert len(listed["result"]["prompts"]) == count
        assert listed["result"]["cacheScope"] == "private"
        assert ("result" in got) == bool(count)


async def test_scopes_are_needed_over_http():
    server = Server("s")
    server.add_prompt(lambda: "x", name="p", scopes=["use"])
    with pytest.raises(ScopeRequired):
        await over_http(server, "prompts/get", name="p", scopes=["other"])
    assert await over_http(server, "prompts/get", name="p", scopes=["use"])
    assert await get(server, "p") == [text("x")]


# Explicit arguments, handles, mounting...


async def test_arguments_may_be_named_without_hints():
    server = Server("s")

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


async def test_a_function_may_leave_its_arguments_out():
    server = Server("s")
    server.add_prompt(lambda: "x", name="p", arguments=["a"])
    assert await get(server, "p", a="1") == [text("x")]


@pytest.mark.rule("PROMPT-03")
@pytest.mark.case("F06")
async def test_handles_change_what_is_there_and_clients_are_told():
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


async def test_a_mounted_servers_prompts_have_its_prefix():
    inner, outer = Server("inner"), Server("outer")

    @inner.prompt
    def p(a: Literal["x", "y"]) -> str:
        return a

    outer.mount(inner, prefix="in")
    assert await get(outer, "in_p", a="x") == [text("x")]
    assert [p["name"] for p in (await result(outer, "prompts/list"))["prompts"]] == [
        "in_p"
    ]


@pytest.mark.rule("PROMPT-01")
async def test_the_capability_is_there_once_there_is_a_prompt():
    server = Server("s")
    before = await answer(server, "prompts/list")
    assert before["error"]["code"] == -32601
    server.add_prompt(lambda: "x", name="p")
    described = await result(server, "server/discover")
    assert described["capabilities"]["prompts"] == {"listChanged": True}


def test_a_function_that_cannot_be_a_prompt_is_refused():
    server = Server("s")
    with pytest.raises(ValueError, match="a name"):
        server.add_prompt(lambda: "x")
    with pytest.raises(TypeError, match="takes any number of arguments"):
        server.add_prompt(lambda *all_of_them: "x", name="p")
    assert "p" not in server.prompts
