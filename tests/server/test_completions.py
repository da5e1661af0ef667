"""Completion by functions and choices: at most a hundred values, no guesses."""

import enum
import threading
from typing import Literal

import pytest
from single_request import code, error, in_session, result

from mcpwire import types
from mcpwire.server.authoring.injection import Depends
from mcpwire.server.context import Context
from mcpwire.server.server import Server

TEMPLATE = "item://{shelf}/{id}"


class Colour(enum.Enum):
    RED = "red"
    ROSE = "Rose"
    BLUE = "blue"


def new():
    """Return a server whose prompt and template have choices and other arguments."""
    server = Server("s")

    @server.prompt
    def paint(
        colour: Colour,
        kind: Literal["wall", "window", 7],
        name: str,
        *,
        wet: bool = False,
    ) -> str:
        return "x"

    @server.resource(TEMPLATE)
    def item(shelf: Literal["low", "high"], id: str) -> str:
        return "x"

    return server


def prompt(name="paint"):
    return {"type": "ref/prompt", "name": name}


def template(uri=TEMPLATE):
    return {"type": "ref/resource", "uri": uri}


async def complete(server, ref, name, value, **context):
    params = {"ref": ref, "argument": {"name": name, "value": value}}
    if context:
        params["context"] = {"arguments": context}
    return (await result(server, "completion/complete", **params))["completion"]


async def values(server, ref, name, value, **context):
    return (await complete(server, ref, name, value, **context))["values"]


@pytest.mark.parametrize(
    ("ref", "name", "typed", "found"),
    [
        (prompt(), "colour", "", ["red", "Rose", "blue"]),
        (prompt(), "colour", "r", ["red", "Rose"]),
        (prompt(), "colour", "RO", ["Rose"]),
        (prompt(), "colour", "x", []),
        (prompt(), "kind", "w", ["wall", "window"]),
        (prompt(), "kind", "7", ["7"]),
        (prompt(), "wet", "t", ["true"]),
        (prompt(), "name", "a", []),
        (template(), "shelf", "h", ["high"]),
        (template("item://low/1"), "shelf", "l", ["low"]),
    ],
)
async def test_enum_literal_and_bool_choices_complete(ref, name, typed, found):
    assert await complete(new(), ref, name, typed) == {
        "values": found,
        "total": len(found),
        "hasMore": False,
    }


@pytest.mark.case("F08")
async def test_completion_function_receives_the_other_arguments():
    server = new()

    @server.completion("paint", "name")
    async def names(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{arguments.get('colour', 'no')} {value}{n}" for n in range(2)]

    assert await values(server, prompt(), "name", "a") == ["no a0", "no a1"]
    found = await values(server, prompt(), "name", "a", colour="red")
    assert found == ["red a0", "red a1"]


async def test_function_precedes_choices_and_may_precede_its_prompt(server):
    @server.completion(TEMPLATE, "shelf")
    @server.completion("paint", "colour")
    def other(typed):
        return (typed.upper(), "z")

    @server.prompt
    def paint(colour: Colour) -> str:
        return "x"

    @server.resource(TEMPLATE)
    def item(shelf: Literal["low"], id: str) -> str:
        return "x"

    assert await values(server, prompt(), "colour", "r") == ["R", "z"]
    assert await values(server, template(), "shelf", "l") == ["L", "z"]


async def test_completion_function_takes_context_and_dependencies():
    server = new()

    def before():
        return "from "

    @server.completion("paint", "name")
    def names(value: str, context: Context, prefix: str = Depends(before)) -> list[str]:
        return [f"{prefix}{context.client_info['name']}"]

    assert await values(server, prompt(), "name", "") == ["from hand"]


async def test_sync_completion_function_runs_in_a_thread():
    server, threads = new(), []

    @server.completion("paint", "name")
    def names(value: str) -> None:
        threads.append(threading.current_thread())

    assert await values(server, prompt(), "name", "") == []
    assert threads[0] is not threading.current_thread()


class Order(enum.StrEnum):
    ASCENDING = "asc"
    DESCENDING = "desc"


MANY = [str(n) for n in range(250)]


@pytest.mark.rule("COMP-02")
@pytest.mark.case("F08")
@pytest.mark.parametrize(
    ("given", "completion"),
    [
        (MANY, {"values": MANY[:100], "total": 250, "hasMore": True}),
        (MANY[:100], {"values": MANY[:100], "total": 100, "hasMore": False}),
        ((n for n in "ab"), {"values": ["a", "b"], "total": 2, "hasMore": False}),
        (list(Order), {"values": ["asc", "desc"], "total": 2, "hasMore": False}),
        (types.Completion(["a"]), {"values": ["a"]}),
        (
            types.Completion(["a"], total=9, has_more=True),
            {"values": ["a"], "total": 9, "hasMore": True},
        ),
        (types.Completion(MANY), {"values": MANY[:100], "total": 250, "hasMore": True}),
        (
            types.Completion(MANY, total=999),
            {"values": MANY[:100], "total": 999, "hasMore": True},
        ),
    ],
    ids=["many", "enough", "iterated", "members", "one", "counted", "too many", "more"],
)
async def test_at_most_a_hundred_values_are_sent(given, completion):
    server = new()
    server.completion("paint", "name")(lambda value: given)
    assert await complete(server, prompt(), "name", "") == completion


@pytest.mark.rule("COMP-03")
@pytest.mark.parametrize("given", ["text", [1], 7])
async def test_invalid_completion_result_is_an_internal_error(given):
    server = new()
    server.completion("paint", "name")(lambda value: given)
    params = {"ref": prompt(), "argument": {"name": "name", "value": ""}}
    assert await code(server, "completion/complete", **params) == -32603


ARGUMENT = {"name": "name", "value": ""}


@pytest.mark.rule("COMP-03", "COMP-06")
@pytest.mark.case("F08")
@pytest.mark.parametrize(
    ("member", "value", "problem"),
    [
        ("ref", prompt("q"), "unknown prompt 'q'"),
        ("ref", template("x://y"), "unknown template 'x://y'"),
        ("ref", {"type": "ref/tool"}, "params.ref.type must be"),
        ("ref", "paint", "params.ref must be an object"),
        ("ref", {"type": "ref/prompt"}, "params.ref.name must"),
        ("ref", {"type": "ref/resource"}, "params.ref.uri must"),
        (
            "argument",
            {"name": "x" * 300, "value": ""},
            f"'paint' has no argument '{'x' * 100}'",
        ),
        ("argument", None, "params.argument must be an object"),
        ("argument", {"value": ""}, "params.argument.name must be a string"),
        ("argument", {"name": "name", "value": 7}, "params.argument.value must be a"),
        ("context", 7, "params.context.arguments must be"),
        ("context", {"arguments": []}, "params.context.arguments must be"),
        ("context", {"arguments": {"a": 1}}, "params.context.arguments must be"),
    ],
)
async def test_invalid_completion_request_is_refused_with_a_reason(
    member, value, problem
):
    params = {"ref": prompt(), "argument": ARGUMENT, member: value}
    found = await error(new(), "completion/complete", **params)
    assert found["code"] == -32602
    assert found["message"].startswith(problem)


@pytest.mark.parametrize("context", [None, {}, {"arguments": {}}, {"arguments": None}])
async def test_completion_context_is_optional(context):
    params = {"ref": prompt(), "argument": ARGUMENT, "context": context}
    assert await result(new(), "completion/complete", **params)


async def test_completion_works_in_sessions_of_old_revisions():
    params = {"ref": prompt(), "argument": {"name": "colour", "value": "b"}}
    for version in ("2024-11-05", "2025-06-18"):
        found = await in_session(new(), version, "completion/complete", **params)
        assert found["result"]["completion"]["values"] == ["blue"]


# The capability is declared only if an argument can be completed...


def plain(server):
    server.add_prompt(lambda a: "x", name="p")
    server.add_resource("a://{x}", lambda x: "x", name="t")


@pytest.mark.rule("COMP-01", "COMP-03")
async def test_no_completion_capability_without_completable_arguments(server):
    plain(server)
    described = await result(server, "server/discover")
    assert "completions" not in described["capabilities"]
    params = {"ref": prompt("p"), "argument": {"name": "a", "value": ""}}
    assert await code(server, "completion/complete", **params) == -32601


def by_function(server):
    server.completion("p", "a")(lambda value: [])


def by_choice_of_a_prompt(server):
    @server.prompt
    def paint(colour: Colour) -> str:
        return "x"


def by_choice_of_a_template(server):
    @server.resource("b://{x}")
    def read(x: Literal["a"]) -> str:
        return "x"


@pytest.mark.rule("COMP-01")
@pytest.mark.parametrize(
    "add", [by_function, by_choice_of_a_prompt, by_choice_of_a_template]
)
async def test_completion_capability_is_declared_when_supported(server, add):
    plain(server)
    add(server)
    described = await result(server, "server/discover")
    assert described["capabilities"]["completions"] == {}


async def test_mounted_arguments_complete_under_the_prefix():
    inner, outer = new(), Server("outer")

    @inner.completion("paint", "name")
    def names(value: str, context: Context) -> list[str]:
        return [context.server.name]

    outer.mount(inner, prefix="in")
    assert await values(outer, prompt("in_paint"), "name", "") == ["s"]
    assert await values(outer, prompt("in_paint"), "colour", "b") == ["blue"]
    assert await values(outer, template(), "shelf", "l") == ["low"]


async def test_replaced_components_keep_their_completions():
    server = new()
    server.completion("paint", "name")(lambda value: ["kept"])
    server.completion(TEMPLATE, "id")(lambda value: ["kept"])

    def item(shelf: str, id: str) -> str:
        return "y"

    server.prompts["paint"].replace(lambda name: "y")
    server.resources[TEMPLATE].replace(item)
    assert await values(server, prompt(), "name", "") == ["kept"]
    assert await values(server, template(), "id", "") == ["kept"]


# Registering...


@pytest.mark.parametrize("reference", ["paint", TEMPLATE])
def test_unknown_or_duplicate_completion_argument_is_refused(reference):
    server = new()
    with pytest.raises(ValueError, match="has no argument 'x'"):
        server.completion(reference, "x")(lambda value: [])
    name = "name" if reference == "paint" else "id"
    server.completion(reference, name)(lambda value: [])
    with pytest.raises(ValueError, match="is completed already"):
        server.completion(reference, name)(lambda value: [])


def nothing():
    return []


@pytest.mark.parametrize("function", [nothing, lambda a, b, c: []])
def test_completion_function_must_take_one_or_two_arguments(function):
    with pytest.raises(TypeError, match="must take the typed text"):
        new().completion("paint", "name")(function)
