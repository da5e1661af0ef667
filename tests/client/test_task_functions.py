"""The task functions in both eras: start, get, update, cancel, wait."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer
from task_server import DONE, FORM, TaskServer, client

import mcpwire
from mcpwire import types
from mcpwire.protocol.methods import TASKS
from mcpwire.testing.asgi import AsgiTransport

NEW, OLD = "2026-07-28", "2025-11-25"
ID = "t-1"


class Demo:
    """A server with tools of each kind, and events of their execution."""

    def __init__(self):
        self.release = asyncio.Event()
        self.ended = asyncio.Event()
        tasks = mcpwire.Tasks(poll_interval=0.01)
        self.server = server = mcpwire.Server("demo", extensions=[tasks])

        @server.tool
        async def quick() -> str:
            return "quick"

        @server.tool(task="optional")
        async def slow(name: str) -> str:
            try:
                await self.release.wait()
            finally:
                self.ended.set()
            return f"hello {name}"

        @server.tool(task="required")
        async def order(ctx: mcpwire.Context) -> str:
            answer = await ctx.elicit("What may we bring you?", str)
            return f"one {answer.value}, please"

        @server.tool(task="required")
        async def broken() -> str:
            raise mcpwire.ToolError("out of paper")

        @server.tool(task="required")
        async def refusing() -> str:
            raise mcpwire.InvalidParams("no such printer")


def fill_in(_):
    return {"value": "tea"}


@asynccontextmanager
async def connected(place, version, **options):
    demo = Demo()
    options = {"extensions": [TASKS], "mode": version, **options}
    if place == "memory":
        async with mcpwire.Client(demo.server, **options) as c:
            yield demo, c
        return
    transport = AsgiTransport(demo.server.asgi())
    async with httpx.AsyncClient(transport=transport) as http_client:
        target = mcpwire.Http("http://localhost/mcp", http_client=http_client)
        async with mcpwire.Client(target, **options) as c:
            yield demo, c


everywhere = pytest.mark.parametrize("place", ["memory", "http"])
in_both_eras = pytest.mark.parametrize("version", [NEW, OLD])


async def status(c, task):
    return (await mcpwire.get_task(c, task.task_id)).status


# Both eras


@pytest.mark.system("L-U12")
@pytest.mark.rule("TX-11", "T11-05", "T11-08", "T11-09")
@everywhere
@in_both_eras
async def test_a_task_can_be_started_polled_and_awaited(place, version):
    async with connected(place, version) as (demo, c):
        task = await mcpwire.start_task(c, "slow", {"name": "Ada"})
        assert type(task) is types.CreatedTask
        assert (task.status, task.poll_interval_ms) == ("working", 10)
        assert await status(c, task) == "working"
        demo.release.set()
        result = await mcpwire.wait_for_task(c, task)
        assert result.text == "hello Ada"
        assert await status(c, task) == "completed"
        # The result is kept, and can be awaited by the id.
        assert (await mcpwire.wait_for_task(c, task.task_id)).text == "hello Ada"


@pytest.mark.rule("T11-02")
@in_both_eras
async def test_start_task_returns_the_result_of_a_non_task_tool(version):
    async with connected("memory", version) as (_, c):
        result = await mcpwire.start_task(c, "quick")
        assert type(result) is types.CallToolResult
        assert result.text == "quick"


@pytest.mark.rule("TX-13", "T11-08", "T11-03")
@everywhere
@in_both_eras
async def test_wait_for_task_answers_the_input_requests(place, version):
    async with connected(place, version, elicitation=fill_in) as (_, c):
        task = await mcpwire.start_task(c, "order")
        assert (await mcpwire.wait_for_task(c, task)).text == "one tea, please"


@in_both_eras
async def test_wait_for_task_returns_a_result_with_is_error(version):
    async with connected("memory", version) as (_, c):
        task = await mcpwire.start_task(c, "broken")
        result = await mcpwire.wait_for_task(c, task)
        assert (result.is_error, result.text) == (True, "out of paper")
        with pytest.raises(mcpwire.ToolError, match="out of paper"):
            await mcpwire.wait_for_task(c, task, check=True)


@pytest.mark.rule("T11-09")
@in_both_eras
async def test_wait_for_task_raises_the_error_of_the_task(version):
    async with connected("memory", version) as (_, c):
        task = await mcpwire.start_task(c, "refusing")
        with pytest.raises(mcpwire.InvalidParams, match="no such printer"):
            await mcpwire.wait_for_task(c, task)


@in_both_eras
async def test_cancelling_a_task_ends_wait_for_task(version):
    async with connected("memory", version) as (demo, c):
        task = await mcpwire.start_task(c, "slow", {"name": "Ada"})
        waiting = asyncio.ensure_future(mcpwire.wait_for_task(c, task))
        await mcpwire.cancel_task(c, task.task_id)
        with pytest.raises(mcpwire.CallCancelled, match="the client cancelled"):
            await waiting
        await demo.ended.wait()
        assert await status(c, task) == "cancelled"


@in_both_eras
async def test_cancelling_wait_for_task_does_not_cancel_the_task(version):
    async with connected("memory", version) as (demo, c):
        task = await mcpwire.start_task(c, "slow", {"name": "Ada"})
        with pytest.raises(mcpwire.RequestTimeout):
            await mcpwire.wait_for_task(c, task, timeout=0.03)
        waiting = asyncio.ensure_future(mcpwire.wait_for_task(c, task))
        await asyncio.sleep(0)  # one loop iteration
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await status(c, task) == "working"
        demo.release.set()
        assert (await mcpwire.wait_for_task(c, task)).text == "hello Ada"


@in_both_eras
async def test_an_unknown_task_id_raises_invalid_params(version):
    async with connected("memory", version) as (_, c):
        for function in (mcpwire.get_task, mcpwire.cancel_task, mcpwire.wait_for_task):
            with pytest.raises(mcpwire.InvalidParams):
                await function(c, "nobody's")


@pytest.mark.rule("TX-11")
async def test_another_client_can_wait_for_a_task_by_id():
    async with (
        connected("memory", NEW, elicitation=fill_in) as (demo, c),
        client(demo.server, elicitation=fill_in) as other,
    ):
        await other.call_tool("quick")  # it keeps the server running
        task = await mcpwire.start_task(c, "order")
        await c.aclose()
        with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
            await mcpwire.get_task(c, task.task_id)
        result = await mcpwire.wait_for_task(other, task.task_id)
    assert result.text == "one tea, please"


# The extension only


@pytest.mark.rule("TX-16")
@everywhere
@on_a_virtual_clock
async def test_cancelling_a_call_stops_the_tool_of_its_task(place):
    async with connected(place, NEW) as (demo, c):
        call = await c.start_call("slow", {"name": "Ada"})
        await asyncio.sleep(0.03)  # by then it is polled
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            await call
        await demo.ended.wait()


@everywhere
async def test_a_call_returns_its_task_result_on_any_transport(place):
    async with connected(place, NEW, elicitation=fill_in) as (_, c):
        assert (await c.call_tool("order")).text == "one tea, please"
        assert (await c.call_tool("quick")).text == "quick"


@pytest.mark.rule("TX-12")
@pytest.mark.parametrize(
    "answer",
    [
        types.ElicitResult("accept", {"value": "coffee"}),
        {"action": "accept", "content": {"value": "coffee"}},
    ],
)
async def test_update_task_answers_an_input_request(answer):
    async with connected("memory", NEW, elicitation=fill_in) as (_, c):
        task = await mcpwire.start_task(c, "order")
        while (found := await mcpwire.get_task(c, task.task_id)).status == "working":
            pass  # each poll lets the tool continue
        ((key, question),) = found.input_requests.items()
        assert question.params.message == "What may we bring you?"
        await mcpwire.update_task(c, task.task_id, {key: answer})
        assert (await mcpwire.wait_for_task(c, task)).text == "one coffee, please"


async def test_task_functions_need_the_extension():
    async with connected("memory", NEW, extensions=None) as (_, c):
        result = await mcpwire.start_task(c, "quick")
        assert result.text == "quick"
        for function in (mcpwire.get_task, mcpwire.cancel_task, mcpwire.wait_for_task):
            with pytest.raises(mcpwire.LocalProtocolError, match="made without"):
                await function(c, ID)
        with pytest.raises(mcpwire.LocalProtocolError, match="made without"):
            await mcpwire.update_task(c, ID, {})


async def test_list_tasks_is_refused_with_the_extension():
    async with connected("memory", NEW) as (_, c):
        with pytest.raises(
            mcpwire.LocalProtocolError, match="2026-07-28 has no tasks/list"
        ):
            await mcpwire.list_tasks(c)


async def test_start_task_answers_input_rounds_before_the_task():
    rounds = {"resultType": "input_required", "inputRequests": {"a": FORM}}
    server = TaskServer(DONE)
    server.methods["tools/call"] = lambda params, _: (
        server.begun if "inputResponses" in params else rounds
    )
    async with client(server, elicitation=lambda _: {"name": "Ada"}) as c:
        task = await mcpwire.start_task(c, "train")

    assert task.task_id == ID
    assert server.params_of("tasks/get") == []


# 2025-11-25 only

IN_SESSION = {
    "taskId": ID,
    "status": "working",
    "createdAt": "2025-12-01T10:00:00Z",
    "lastUpdatedAt": "2025-12-01T10:00:00Z",
    "ttl": None,
    "pollInterval": 10,
}
TAKES_TASKS = {"cancel": {}, "list": {}, "requests": {"tools": {"call": {}}}}


def old_server(support="optional", *, capabilities=TAKES_TASKS, answer=None):
    """Return a server of 2025-11-25 with one tool."""
    tool = {"name": "train", "inputSchema": {"type": "object"}}
    if support is not None:
        tool["execution"] = {"taskSupport": support}
    methods = {
        "tools/list": lambda *_: {"tools": [tool]},
        "tools/call": lambda *_: answer or {"task": IN_SESSION},
        "tasks/list": lambda params, _: (
            {"tasks": [{**IN_SESSION, "taskId": "t-2"}]}
            if "cursor" in params
            else {"tasks": [IN_SESSION], "nextCursor": "2"}
        ),
    }
    declared = {"tools": {}, **({"tasks": capabilities} if capabilities else {})}
    return FakeServer(methods, version=OLD, capabilities=declared)


@pytest.mark.rule("T11-02", "T11-03")
@pytest.mark.parametrize(
    ("support", "ttl", "asked"),
    [
        ("optional", None, {"task": {}}),
        ("required", 1.5, {"task": {"ttl": 1_500}}),
        ("forbidden", 1.5, {}),
        (None, None, {}),
    ],
)
async def test_start_task_follows_the_task_support_of_the_tool(support, ttl, asked):
    answer = None if asked else {"content": []}
    server = old_server(support, answer=answer)
    async with mcpwire.Client(server) as c:
        await mcpwire.start_task(c, "train", {"epochs": 1}, ttl=ttl)
        await mcpwire.start_task(c, "train", {"epochs": 1}, ttl=ttl)

    call = {"name": "train", "arguments": {"epochs": 1}, **asked}
    assert server.requests("tools/call") == [call, call]
    assert len([m for m in server.received if m["method"] == "tools/list"]) == 1


@pytest.mark.rule("T11-02")
@pytest.mark.parametrize("capabilities", [None, {}, {"requests": {"tools": {}}}])
async def test_start_task_requests_no_task_without_the_capability(capabilities):
    answer = {"content": []}
    server = old_server("required", capabilities=capabilities, answer=answer)
    async with mcpwire.Client(server) as c:
        assert (await mcpwire.start_task(c, "train")).content == []

    assert server.requests("tools/call") == [{"name": "train"}]
    assert "tools/list" not in {m["method"] for m in server.received}


@pytest.mark.rule("T11-02")
async def test_start_task_requests_no_task_for_an_unlisted_tool():
    server = old_server(answer={"content": []})
    async with mcpwire.Client(server) as c:
        await mcpwire.start_task(c, "hidden")

    assert server.requests("tools/call") == [{"name": "hidden"}]


@pytest.mark.rule("T11-12")
async def test_all_pages_of_tasks_are_listed():
    async with mcpwire.Client(old_server()) as c:
        found = await mcpwire.list_tasks(c)

    assert [task.task_id for task in found] == ["t-1", "t-2"]


async def test_functions_of_the_other_revision_are_refused():
    async with connected("memory", OLD) as (_, c):
        with pytest.raises(mcpwire.LocalProtocolError, match="tasks/update needs"):
            await mcpwire.update_task(c, ID, {})
        with pytest.raises(mcpwire.LocalProtocolError, match=r"tasks\.list"):
            await mcpwire.list_tasks(c)


@pytest.mark.parametrize("ttl", [0, -1.0, float("nan")])
async def test_an_invalid_ttl_is_refused(ttl):
    async with connected("memory", OLD) as (_, c):
        with pytest.raises(ValueError, match="ttl"):
            await mcpwire.start_task(c, "slow", ttl=ttl)


async def test_start_task_needs_a_connection():
    c = client(TaskServer(SILENCE))
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await mcpwire.start_task(c, "train")
