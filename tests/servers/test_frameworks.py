"""Servers on the official Python SDK and on FastMCP: every feature, in both eras."""

import os
import signal

import anyio
import pytest

import mcpwire
from mcpwire.types import PromptReference, ResourceTemplateReference

pytestmark = pytest.mark.servers

FRAMEWORKS = ["sdk", "fastmcp"]
ERAS = {"stateless": "2026-07-28", "session": "2025-11-25"}
TOOLS = {"echo", "add", "slow", "hang", "cancelled", "fail", "crash", "complain"}

both = pytest.mark.parametrize(
    ("name", "mode"), [(name, mode) for name in FRAMEWORKS for mode in ERAS]
)


@both
async def test_all_features_are_listed(warm, connect, name, mode):
    async with connect(warm(name), mode=mode) as client:
        assert client.protocol_version == ERAS[mode]
        assert client.server_info.name == f"foreign-{name}"
        assert client.server_info.version == "1.2.3"
        assert client.instructions == "For mcpwire's tests."
        assert client.capabilities.completions is not None
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools.keys() == TOOLS
        assert tools["add"].input_schema["required"] == ["a"]
        assert tools["add"].output_schema["properties"].keys() == {"result"}
        resources = {r.name: r for r in await client.list_resources()}
        assert resources["hello"].uri == "note://hello"
        assert resources["bytes"].mime_type == "application/octet-stream"
        (template,) = await client.list_resource_templates()
        assert template.uri_template == "greeting://{name}"
        (prompt,) = await client.list_prompts()
        assert [(a.name, a.required) for a in prompt.arguments] == [
            ("code", True),
            ("language", False),
        ]
        assert 0 < await client.ping() < 10


@both
async def test_tools_answer_and_fail(warm, connect, name, mode):
    async with connect(warm(name), mode=mode) as client:
        echo = await client.call_tool("echo", {"message": "a\u2028b"})
        assert (echo.text, echo.is_error) == ("a\u2028b", False)
        add = await client.call_tool("add", {"a": 2, "b": 40})
        assert add.structured_content == {"result": 42}
        assert (await client.call_tool("complain", {"message": "x\n{}"})).text == "said"
        failed = await client.call_tool("fail", {"reason": "too late"})
        assert failed.is_error
        assert failed.text.endswith("too late")
        with pytest.raises(mcpwire.ToolError, match="crash"):
            await client.call_tool("crash", check=True)
        assert (await client.call_tool("nope")).is_error
        wrong = await client.call_tool("add", {"a": "x"})
        assert wrong.is_error
        assert "valid integer" in wrong.text


@both
async def test_resources_prompts_and_completions_answer(warm, connect, name, mode):
    async with connect(warm(name), mode=mode) as client:
        assert await client.read_text("note://hello") == "hello \u2028 world"
        assert await client.read_bytes("note://bytes") == bytes(range(256))
        assert await client.read_text("greeting://Bo") == "Hello, Bo!"
        with pytest.raises(mcpwire.RPCError) as missing:
            await client.read_resource("note://nope")
        assert missing.value.code in {-32602, -32002}
        prompt = await client.get_prompt("review", {"code": "x = 1"})
        assert prompt.messages[0].content.text == "Review this python: x = 1"
        with pytest.raises(mcpwire.RPCError) as unknown:
            await client.get_prompt("nope")
        assert unknown.value.method == "prompts/get"
        languages = await client.complete(PromptReference("review"), "language", "p")
        assert languages.completion.values == ["python", "perl", "prolog"]
        template = ResourceTemplateReference("greeting://{name}")
        cities = (await client.complete(template, "name", "Pa")).completion
        assert (cities.values, cities.total) == (["Paris", "Parma"], 2)


@both
async def test_progress_comes_in_order_and_belongs_to_its_call(
    warm, connect, name, mode
):
    notes = {3: [], 5: []}

    async with connect(warm(name), mode=mode) as client:

        async def run(steps):
            result = await client.call_tool(
                "slow",
                {"steps": steps},
                on_progress=lambda *note: notes[steps].append(note),
            )
            assert result.text == f"{steps} steps"

        async with anyio.create_task_group() as group:
            for steps in notes:
                group.start_soon(run, steps)
    for steps, seen in notes.items():
        assert seen == [(n, steps, f"step {n}") for n in range(1, steps + 1)]


async def saw_cancelled(client, name):
    for _ in range(200):
        names = (await client.call_tool("cancelled")).structured_content["result"]
        if name in names:
            return True
    return False


async def late(client, seconds):
    with pytest.raises(mcpwire.RequestTimeout) as caught:
        await client.call_tool("hang", {"name": "late"}, timeout=seconds)
    assert caught.value.method == "tools/call"


async def unwanted(client, seconds):
    with anyio.move_on_after(seconds) as scope:
        await client.call_tool("hang", {"name": "unwanted"})
    assert scope.cancelled_caught


@pytest.mark.pain("P09")
@pytest.mark.rule("LIFE-14")
@both
async def test_timeout_and_task_cancellation_reach_the_server(
    warm, connect, name, mode
):
    async with connect(warm(name), mode=mode) as client:
        for give_up in (late, unwanted):
            # On a busy machine the call may not have begun before the first timeout.
            for seconds in (0.5, 2, 8):
                await give_up(client, seconds)
                if await saw_cancelled(client, give_up.__name__):
                    break
            else:
                pytest.fail(f"the server never saw {give_up.__name__!r} cancelled")


@pytest.mark.parametrize(
    ("name", "revision"),
    [
        ("sdk", "2024-11-05"),
        ("sdk", "2025-03-26"),
        ("sdk", "2025-06-18"),
        ("fastmcp", "2024-11-05"),
    ],
)
async def test_older_revisions_work_too(warm, connect, name, revision):
    async with connect(warm(name), mode=revision) as client:
        assert client.protocol_version == revision
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.text == "3"


@pytest.mark.parametrize("name", FRAMEWORKS)
async def test_concurrent_calls_get_their_own_results(warm, connect, name):
    answers = {}

    async with connect(warm(name)) as client:

        async def call(number):
            result = await client.call_tool("add", {"a": number, "b": 1})
            answers[number] = result.text

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(call, number)
    assert answers == {number: str(number + 1) for number in range(50)}


@pytest.mark.pain("P02", "P03")
@pytest.mark.fault("F04")
@pytest.mark.parametrize("name", FRAMEWORKS)
async def test_calls_fail_with_the_reason_when_the_server_is_killed(
    real, connect, name
):
    errors = []

    async with connect(real(name)) as client:

        async def call_hang():
            with pytest.raises(mcpwire.ConnectionClosed) as lost:
                await client.call_tool("hang", {"name": "x"})
            errors.append(lost.value)

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(call_hang)
            await client.call_tool("complain", {"message": "last words"})
            for process in connect.processes():
                os.kill(process, signal.SIGKILL)
    assert len(errors) == 100
    assert {error.exit_code for error in errors} == {-signal.SIGKILL}
    assert all(error.sent for error in errors)
    assert "last words" in errors[0].stderr_tail
