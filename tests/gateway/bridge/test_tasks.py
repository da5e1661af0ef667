"""Calls that become tasks, in both eras, between ends of the same era."""

import asyncio

import pytest
from bridged import ERAS, TASKS, TOOLS, AskingServer, Downstream, joined
from fakes import SILENCE, FakeServer

import mcpwire
from mcpwire import Context
from mcpwire.gateway import Gateway
from mcpwire.versions import LATEST_SESSION

RELATED = "io.modelcontextprotocol/related-task"

TASK = {
    "taskId": "1",
    "status": "working",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttl": None,
}

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def server(revision, release):
    made = mcpwire.Server(
        "up", revisions=[revision], extensions=[mcpwire.Tasks(poll_interval=0.01)]
    )

    @made.tool(task="required")
    async def work(ctx: Context) -> str:
        await release.wait()
        return "worked"

    @made.tool(task="required")
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("who?", FORM)
        return answer.content["name"]

    @made.tool
    def plain() -> str:
        return "plain"

    return made


class Two:
    """Two servers with tasks behind a gateway, and a client of the same era."""

    def __init__(self, revision, **options):
        self.release = asyncio.Event()
        self.gateway = Gateway(
            {name: server(revision, self.release) for name in ("a", "b")}
        )
        self.client = mcpwire.Client(
            self.gateway, mode=revision, extensions=[TASKS], **options
        )

    async def __aenter__(self):
        await self.gateway.__aenter__()
        await self.client.connect()
        return self

    async def __aexit__(self, *_):
        self.release.set()
        await self.client.aclose()
        await self.gateway.__aexit__(None, None, None)


@pytest.mark.system("L-A11", "L-O1")
@pytest.mark.parametrize("revision", ERAS)
async def test_task_requests_reach_the_server_that_runs_the_task(revision):
    async with Two(revision) as two:
        client = two.client
        tasks = [await mcpwire.start_task(client, f"{each}_work") for each in "ab"]
        for task in tasks:
            seen = await mcpwire.get_task(client, task.task_id)
            assert seen.status == "working"
        two.release.set()
        for task in tasks:
            result = await mcpwire.wait_for_task(client, task.task_id, timeout=30)
            assert result.text == "worked"
        assert (await client.call_tool("a_plain")).text == "plain"


@pytest.mark.parametrize("revision", ERAS)
async def test_task_is_cancelled_on_the_server_that_runs_it(revision):
    async with Two(revision) as two:
        client = two.client
        kept = await mcpwire.start_task(client, "a_work")
        gone = await mcpwire.start_task(client, "b_work")
        await mcpwire.cancel_task(client, gone.task_id)
        while (await mcpwire.get_task(client, gone.task_id)).status == "working":
            pass
        assert (await mcpwire.get_task(client, gone.task_id)).status == "cancelled"
        assert (await mcpwire.get_task(client, kept.task_id)).status == "working"
        with pytest.raises(mcpwire.RPCError) as unknown:
            await mcpwire.get_task(client, "nobody's")
        assert unknown.value.code == -32602


@pytest.mark.parametrize("revision", ERAS)
async def test_request_of_a_task_reaches_the_client_that_owns_it(revision):
    side = Downstream()
    async with Two(revision, elicitation=side.form) as two:
        task = await mcpwire.start_task(two.client, "b_ask")
        result = await mcpwire.wait_for_task(two.client, task.task_id, timeout=30)
        assert result.text == "who"


async def test_task_status_reaches_its_subscriber():
    async with Two("2026-07-28") as two:
        task = await mcpwire.start_task(two.client, "b_work")
        listening = two.client.listen(task_ids=[task.task_id, "nobody's"])
        async with listening as changes:
            assert changes.acknowledged.task_ids == {task.task_id}
            two.release.set()
            async for change in changes:
                if change.params.status == "completed":
                    break
        assert change.params.task_id == task.task_id
        relay = next(iter(two.gateway.pool.shared)).members["b"]
        for _ in range(5):
            await two.client.discover()
        assert not relay.task_listeners


async def test_task_capability_of_another_revision_is_not_declared():
    release = asyncio.Event()
    for inner, outer in ((*ERAS,), (*reversed(ERAS),), ("2025-11-25", "2025-06-18")):
        async with (
            Gateway({"a": server(inner, release)}) as gateway,
            mcpwire.Client(gateway, mode=outer, extensions=[TASKS]) as client,
        ):
            assert client.capabilities.tasks is None
            assert not client.capabilities.extensions
            with pytest.raises(mcpwire.RPCError) as refused:
                await client.request("tasks/get", {"taskId": "x"})
            assert refused.value.code in {-32601, -32602}


async def test_session_tasks_are_mapped_and_their_status_is_notified():
    task = TASK
    can = {"tools": {}, "tasks": {"list": {}, "requests": {"tools": {"call": {}}}}}
    servers = {
        name: FakeServer(
            {
                "tools/list": lambda *_: {"tools": TOOLS},
                "tools/call": lambda *_: {"task": task},
                "tasks/get": lambda *_: task,
                "tasks/result": lambda *_: {"content": []},
                "tasks/list": lambda params, _: {
                    "tasks": [task],
                    **({} if "cursor" in params else {"nextCursor": "n"}),
                },
            },
            capabilities=can,
        )
        for name in "ab"
    }
    async with joined(Gateway(servers)) as client:
        ids = []
        for name in "ab":
            params = {"name": f"{name}_t", "task": {"ttl": 5}}
            response = await client.ask("tools/call", params)
            ids.append(response["result"]["task"]["taskId"])
        assert [id.partition(".")[0] for id in ids] == ["1", "1"]  # both call it "1"
        of_a, of_b = ids
        assert of_a != of_b
        assert servers["a"].requests("tools/call")[0]["task"] == {"ttl": 5}
        seen = await client.ask("tasks/get", {"taskId": of_b})
        assert seen["result"]["taskId"] == of_b
        assert servers["b"].requests("tasks/get") == [{"taskId": "1"}]
        listed = await client.ask("tasks/list")
        found = [each["taskId"] for each in listed["result"]["tasks"]]
        assert found == [of_a, of_a, of_b, of_b]
        refused = await client.ask("tasks/list", {"cursor": "x"})
        assert refused["error"]["code"] == -32602
        # The status of another client's task is not sent to it.
        servers["b"].notify("notifications/tasks/status", **task | {"taskId": "2"})
        servers["b"].notify("notifications/tasks/status", **task)
        status = await client.wait_for("notifications/tasks/status")
        assert status["params"] == {**task, "taskId": of_b}


async def test_related_task_metadata_has_the_id_that_its_receiver_knows():
    # 2025-11-25 basic/utilities/tasks, "Associating Task-Related Messages".
    tasks = {"requests": {"tools": {"call": {}}}}
    up = AskingServer()
    up.members["capabilities"] = {"tools": {}, "logging": {}, "tasks": tasks}
    up.methods["tools/call"] = lambda *_: {"task": TASK}

    def meta_of(id):
        return {"_meta": {RELATED: {"taskId": id}}}

    def show(_, server):
        form = {"message": "who?", "requestedSchema": FORM, **meta_of("1")}
        server.begin(server.current["id"], [["elicitation/create", form]], None)
        log = {"level": "error", "data": "x"}
        server.notify("notifications/message", **log, **meta_of("1"))
        server.notify("notifications/message", **log, **meta_of("another's"))
        return SILENCE

    up.methods["tasks/result"] = show
    async with joined(Gateway({"up": up}), elicitation={}) as client:
        called = await client.ask("tools/call", {"name": "up_t", "task": {}})
        id = called["result"]["task"]["taskId"]
        reading = client.request("tasks/result", {"taskId": id})
        elicitation = await client.wait_for("elicitation/create")
        assert elicitation["params"]["_meta"][RELATED] == {"taskId": id}
        for name in (id, "another's"):
            log_message = await client.wait_for("notifications/message")
            assert log_message["params"]["_meta"][RELATED] == {"taskId": name}
        client.send(id=elicitation["id"], result={"action": "decline", **meta_of(id)})
        await client.response(reading)
    (answer,) = up.answers.values()
    assert answer["result"] == {"action": "decline", **meta_of("1")}


async def test_progress_of_a_task_is_relayed_while_it_runs():
    # 2025-11-25 basic/utilities/tasks, "Task Progress Notifications".
    tasks = {"requests": {"tools": {"call": {}}}}
    up = AskingServer()
    up.members["capabilities"] = {"tools": {}, "tasks": tasks}

    def progress(call, value):
        token = call["_meta"]["progressToken"]
        up.notify("notifications/progress", progressToken=token, progress=value)

    def begin(call, server):
        server.send(
            {"jsonrpc": "2.0", "id": server.current["id"], "result": {"task": TASK}}
        )
        progress(call, 1)  # with the response
        return SILENCE

    up.methods["tools/call"] = begin
    async with joined(Gateway({"up": up})) as client:
        tokens = ("p", 1)
        call = {"name": "up_t", "task": {}}
        for token in tokens:
            assert "result" in await client.ask("tools/call", call, progressToken=token)
            first = await client.wait_for("notifications/progress")
            assert first["params"] == {"progressToken": token, "progress": 1}
        sent = up.requests("tools/call")
        for each in sent:
            progress(each, 1)  # the same again
            progress(each, 2)
        for token in tokens:
            later = await client.wait_for("notifications/progress")
            assert later["params"] == {"progressToken": token, "progress": 2}
        # On another connection the same tokens belong to other calls.
        await up.channel.aclose()
        up.methods["tools/call"] = lambda *_: {"content": []}
        assert "result" in await client.ask("tools/call", {"name": "up_t"})
        for each in sent:
            progress(each, 3)
        await client.ask("ping")
        assert not any("progress" in line.get("method", "") for line in client.lines)


@pytest.mark.system("L-O4")
@pytest.mark.parametrize(("share", "lists"), [("session", True), ("identity", False)])
async def test_tasks_are_listed_only_to_sessions_with_their_own_connections(
    share, lists
):
    task = {**TASK, "taskId": "of-one-of-them"}
    can = {"list": {}, "requests": {"tools": {"call": {}}}}
    methods = {
        "tasks/list": lambda *_: {"tasks": [task, {**task, "taskId": "other"}, 5]},
        "tools/list": lambda *_: {"tools": TOOLS},
        "tools/call": lambda *_: {"task": task},
    }
    up = FakeServer(
        methods, version="2025-11-25", capabilities={"tools": {}, "tasks": can}
    )
    gateway = Gateway({"up": up}, share=share)
    async with joined(gateway) as client:
        call = {"name": "up_t", "task": {}}
        made = (await client.ask("tools/call", call))["result"]["task"]
        response = await client.ask("tasks/list")
        assert response.get("result") == ({"tasks": [made]} if lists else None)
        assert lists or response["error"]["code"] == -32601
        for upstreams in (*gateway.pool.session_sets, *gateway.pool.shared):
            assert ("list" in upstreams.capabilities(LATEST_SESSION)["tasks"]) is lists
