"""Tasks on a complete server: what it declares, refuses and accepts."""

import asyncio
from contextlib import asynccontextmanager
from typing import Annotated

import pytest
from raw_client import Hand, modern, notice, request
from task_driver import ACCEPT, ID, MAX_WAIT_S, RELATED, soon

from mcpwire.errors import ToolError
from mcpwire.server.auth import ResourceServer, StaticTokens
from mcpwire.server.authoring.injection import Depends
from mcpwire.server.context import Context
from mcpwire.server.extensions.tasks import Tasks
from mcpwire.server.server import Server

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def declared(id, method, params=None, **capabilities):
    """Return a request of a client that declares the extension."""
    declared = {"elicitation": {}, "extensions": {ID: {}}, **capabilities}
    return modern(id, method, params, **{CAPABILITIES: declared})


async def ask_name(context: Context) -> str:
    return (await context.elicit("Who?", FORM)).content["name"]


def make(**options):
    """Return a server with tools of every kind."""
    server = Server("demo", "1.0", extensions=[Tasks(**options)])

    @server.tool(task="optional")
    async def slow(name: str) -> str:
        await asyncio.sleep(0)  # one turn of the loop: the result is not immediate
        return f"hello {name}"

    @server.tool
    async def quick() -> str:
        return "hello"

    @server.tool(task="required")
    async def failing() -> str:
        raise ToolError("it broke")

    @server.tool(task="optional")
    async def confirm(context: Context) -> str:
        answer = await context.elicit("Who?", FORM, key="who")
        return f"hello {answer.content['name']}"

    @server.tool(task="optional")
    async def composed(name: Annotated[str, Depends(ask_name)]) -> str:
        return f"hello {name}"

    return server


@asynccontextmanager
async def hand(version=None, **options):
    made = Hand(make(**options).dispatcher, version)
    try:
        yield made
    finally:
        await made.connection.aclose()


async def call(client, name, arguments=None, *, id=1, **params):
    params = {"name": name, "arguments": arguments or {}, **params}
    (answer,) = await client.ask(declared(id, "tools/call", params))
    return answer["result"]


async def until(client, task_id, *statuses):
    """Poll a task, as clients do, until it has one of these statuses."""
    async with asyncio.timeout(MAX_WAIT_S):
        while True:
            message = declared(9, "tasks/get", {"taskId": task_id})
            ((answer),) = await client.ask(message)
            if answer["result"]["status"] in statuses:
                return answer["result"]


def text(result):
    return result["content"][0]["text"]


@pytest.mark.rule("TX-01", "TX-21", "TX-22")
async def test_tasks_are_declared_in_the_form_of_each_revision():
    async with hand() as client:
        (answer,) = await client.ask(modern(1, "server/discover"))
        capabilities = answer["result"]["capabilities"]
        assert capabilities["extensions"] == {ID: {}}
        assert "tasks" not in capabilities
    dispatcher = make().dispatcher
    for version in ("2025-11-25", "2025-06-18"):
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {}}
        _, result = dispatcher.initialize(params, None)
        assert "extensions" not in result["capabilities"]
        assert ("tasks" in result["capabilities"]) is (version == "2025-11-25")


@pytest.mark.rule("TX-05", "TX-09")
async def test_call_continues_as_a_task():
    async with hand() as client:
        created = await call(client, "slow", {"name": "Alice"})
        assert (created["resultType"], created["status"]) == ("task", "working")
        task = await until(client, created["taskId"], "completed")
        assert task["resultType"] == "complete"
        assert text(task["result"]) == "hello Alice"
        assert RELATED not in task["result"].get("_meta", {})


@pytest.mark.rule("TX-02", "TX-21")
async def test_client_without_the_extension_gets_plain_results():
    async with hand() as client:
        params = {"name": "slow", "arguments": {"name": "A"}, "task": {"ttl": 5}}
        (plain,) = await client.ask(modern(1, "tools/call", params))
        legacy_call = modern(2, "tools/call", params, **{CAPABILITIES: {"tasks": {}}})
        (old,) = await client.ask(legacy_call)
        for answer in (plain, old):
            assert answer["result"]["resultType"] == "complete"
            assert text(answer["result"]) == "hello A"
        assert text(await call(client, "quick", task={"ttl": 5})) == "hello"


@pytest.mark.rule("TX-04", "TX-10")
async def test_tool_that_needs_a_task_refuses_clients_without_the_extension():
    async with hand() as client:
        (refused,) = await client.ask(modern(1, "tools/call", {"name": "failing"}))
        assert refused["error"]["code"] == -32021
        assert refused["error"]["data"] == {
            "requiredCapabilities": {"extensions": {ID: {}}}
        }
        created = await call(client, "failing")
        task = await until(client, created["taskId"], "completed")
        assert (task["result"]["isError"], text(task["result"])) == (True, "it broke")


@pytest.mark.rule("TX-18")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_client_without_the_extension_cannot_use_its_methods(method):
    async with hand() as client:
        params = {"taskId": "x", "inputResponses": {}}
        (answer,) = await client.ask(modern(1, method, params))
        assert answer["error"]["code"] == -32021


@pytest.mark.rule("TX-21")
@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_methods_of_the_old_dialect_are_unknown(method):
    async with hand() as client:
        (answer,) = await client.ask(declared(1, method, {"taskId": "x"}))
        assert answer["error"]["code"] == -32601


@pytest.mark.rule("TX-05", "TX-09", "TX-14", "TX-15")
async def test_task_sends_an_input_request_and_gets_its_response():
    async with hand() as client:
        created = await call(client, "confirm")
        assert not {"inputRequests", "requestState"} & set(created)
        task = await until(client, created["taskId"], "input_required")
        assert list(task["inputRequests"]) == ["who"]
        input_request = task["inputRequests"]["who"]
        assert input_request["method"] == "elicitation/create"
        assert input_request["params"]["message"] == "Who?"
        params = {"taskId": created["taskId"], "inputResponses": {"who": ACCEPT}}
        (answer,) = await client.ask(declared(3, "tasks/update", params))
        assert answer["result"].keys() == {"resultType", "_meta"}
        assert answer["result"]["resultType"] == "complete"
        task = await until(client, created["taskId"], "completed")
        assert text(task["result"]) == "hello Alice"


@pytest.mark.rule("TX-07")
async def test_input_requests_of_dependencies_precede_the_task():
    async with hand() as client:
        first = await call(client, "composed")
        assert first["resultType"] == "input_required"
        assert "taskId" not in first
        ((key, _),) = first["inputRequests"].items()
        created = await call(
            client,
            "composed",
            id=2,
            inputResponses={key: ACCEPT},
            requestState=first["requestState"],
        )
        assert created["resultType"] == "task"
        assert not {"inputRequests", "requestState"} & set(created)
        task = await until(client, created["taskId"], "completed")
        assert text(task["result"]) == "hello Alice"


@pytest.mark.rule("TX-20", "TX-19")
async def test_subscriber_gets_notifications_about_a_task():
    async with hand() as client:
        created = await call(client, "confirm")
        task_id = created["taskId"]
        await until(client, task_id, "input_required")
        filter = {"taskIds": [task_id, "nobody's"]}
        client.send(declared("s", "subscriptions/listen", {"notifications": filter}))
        acknowledged = await client.next()
        assert acknowledged["params"]["notifications"] == {"taskIds": [task_id]}
        client.send(declared(4, "tasks/cancel", {"taskId": task_id}))
        lines = [await client.next(), await client.next()]
        (notification,) = [line for line in lines if "method" in line]
        assert notification["method"] == "notifications/tasks"
        assert notification["params"]["_meta"] == {SUBSCRIPTION: "s"}
        assert (notification["params"]["taskId"], notification["params"]["status"]) == (
            task_id,
            "cancelled",
        )
        client.send(notice("notifications/cancelled", requestId="s"))


@pytest.mark.rule("TX-16", "CAN-09")
async def test_cancelling_a_call_does_not_cancel_its_task():
    async with hand() as client:
        created = await call(client, "confirm", id=7)
        client.send(notice("notifications/cancelled", requestId=7))
        await until(client, created["taskId"], "input_required")
    async with hand("2025-11-25") as client:
        params = {"name": "slow", "arguments": {"name": "Alice"}, "task": {}}
        await client.ask(request(7, "tools/call", params))
        client.send(notice("notifications/cancelled", requestId=7))
        assert (await client.next())["params"]["status"] == "completed"


# 2025-11-25...


@pytest.mark.rule("T11-01", "T11-03", "T11-05", "T11-09")
@pytest.mark.case("F14")
@pytest.mark.unchecked_wire("the check expects no task where a call has its result")
async def test_session_supports_the_tasks_of_2025_11_25():
    async with hand("2025-11-25") as client:
        (listed,) = await client.ask(request(1, "tools/list"))
        support = {
            tool["name"]: tool.get("execution", {}).get("taskSupport")
            for tool in listed["result"]["tools"]
        }
        assert (support["slow"], support["failing"]) == ("optional", "required")
        params = {"name": "slow", "arguments": {"name": "Alice"}}
        (plain,) = await client.ask(request(2, "tools/call", params))
        assert text(plain["result"]) == "hello Alice"
        (answer,) = await client.ask(
            request(3, "tools/call", {**params, "task": {"ttl": 60_000}})
        )
        task = answer["result"]["task"]
        assert (task["status"], task["ttl"]) == ("working", 60_000)
        client.send(request(4, "tasks/result", {"taskId": task["taskId"]}))
        lines = [await client.next(), await client.next()]
        (answer,) = [line for line in lines if "id" in line]
        assert text(answer["result"]) == "hello Alice"
        assert answer["result"]["_meta"][RELATED] == {"taskId": task["taskId"]}
        (refused,) = await client.ask(request(5, "tools/call", {"name": "failing"}))
        assert refused["error"]["code"] == -32601
        (refused,) = await client.ask(request(6, "tasks/list"))
        assert refused["error"]["code"] == -32601


@pytest.mark.rule("T11-04", "TX-22")
async def test_sessions_of_earlier_revisions_ignore_tasks():
    async with hand("2025-06-18") as client:
        params = {"name": "slow", "arguments": {"name": "A"}, "task": {}}
        (answer,) = await client.ask(request(1, "tools/call", params))
        assert text(answer["result"]) == "hello A"
        (answer,) = await client.ask(request(2, "tasks/get", {"taskId": "x"}))
        assert answer["error"]["code"] == -32601


async def test_tasks_end_before_the_lifespan_of_the_server():
    ended = []

    @asynccontextmanager
    async def lifespan(_):
        yield "database"
        ended.append("lifespan")

    server = Server("demo", "1.0", lifespan=lifespan, extensions=[Tasks()])
    entered = asyncio.Event()

    @server.tool(task="optional")
    async def slow(context: Context) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(f"task with {context.lifespan}")

    client = Hand(server.dispatcher)
    await call(client, "slow")
    await soon(entered)
    await client.connection.aclose()
    assert ended == ["task with database", "lifespan"]


def test_tasks_instance_belongs_to_one_server():
    tasks = Tasks()
    server = Server("one", "1", extensions=[tasks])
    assert server.lifespan.is_needed
    with pytest.raises(ValueError, match="belong to another server"):
        Server("two", "1", extensions=[tasks])


@pytest.mark.parametrize(
    ("version", "names"),
    [("2026-07-28", "cancel get update"), ("2025-11-25", "cancel get list result")],
)
async def test_server_has_the_task_methods_of_its_revision(version, names):
    verifiers = [StaticTokens({"a-token": "ann"})]
    auth = ResourceServer("https://x.example/mcp", verifiers=verifiers)
    server = Server("x", revisions=[version], auth=auth, extensions=[Tasks()])
    is_old = version == "2025-11-25"
    hand = Hand(server.dispatcher, version if is_old else None)
    found = []
    for name in ("cancel", "get", "list", "result", "update"):
        make_request = request if is_old else declared
        [answer] = await hand.ask(make_request(name, f"tasks/{name}", {}))
        reason = answer["error"]["message"]
        if "is not a method" not in reason:
            found.append(name)
            assert name == "list" or reason == "params.taskId must be a string"
    await hand.connection.aclose()
    assert found == names.split()
