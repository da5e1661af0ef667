"""Ids and states that the gateway gives to one user are invalid for another."""

import secrets
from typing import Any

import pytest
from fakes import FakeServer
from world import META, STATELESS_META, GatewayClient, World, a_world, message_of, users

import mcpwire
from mcpwire.gateway import Gateway

pytestmark = pytest.mark.attack("X01")

TASKS = "io.modelcontextprotocol/tasks"
LISTEN = "subscriptions/listen"
ERAS = ("2025-11-25", "2026-07-28")
TASK = {
    "taskId": "1",
    "status": "working",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
}
TIMES = {"2025-11-25": {"ttl": None}, "2026-07-28": {"ttlMs": None}}
TOOLS = [{"name": "t", "inputSchema": {"type": "object"}}]


def server(version: str, methods: dict[str, Any]) -> FakeServer:
    """Return a server with tasks for all its connections."""
    can = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    tasks = {"extensions": {TASKS: {}}} if version == "2026-07-28" else {"tasks": can}
    lists = {"tools": TOOLS, "resultType": "complete", "ttlMs": 0}
    lists["cacheScope"] = "private"
    return FakeServer(
        {"tools/list": lambda *_: lists, **methods},
        version=version,
        capabilities={"tools": {}, **tasks},
    )


def tasks_of(revision: str) -> dict[str, Any]:
    """Return the methods of a server with one task."""
    task = {**TASK, **TIMES[revision]}
    if revision == "2026-07-28":
        done = {**task, "resultType": "complete"}
        return {
            "tools/call": lambda *_: {**task, "resultType": "task"},
            "tasks/get": lambda *_: done,
            "tasks/cancel": lambda *_: done,
            "tasks/update": lambda *_: {"resultType": "complete"},
        }
    return {
        "tools/call": lambda *_: {"task": task},
        "tasks/get": lambda *_: task,
        "tasks/cancel": lambda *_: {**task, "status": "cancelled"},
        "tasks/result": lambda *_: {"content": []},
        "tasks/list": lambda *_: {"tasks": [task]},
    }


def gateway_for(up: Any, **options: Any) -> Gateway:
    return Gateway({"up": up}, auth=users(), **options)


class User:
    """A client with a token that sends requests of one revision."""

    def __init__(self, client: GatewayClient, name: str, revision: str) -> None:
        self.client = client
        self.fields = {"authorization": f"Bearer {name}-token"}
        self.revision = revision
        self.session: str | None = None

    async def opened(self) -> "User":
        if self.revision != "2026-07-28":
            response = await self.client.initialize(**self.fields)
            self.session = response.headers["mcp-session-id"]
        return self

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        if self.revision == "2026-07-28":
            can = {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}
            params["_meta"] = {**STATELESS_META, f"{META}clientCapabilities": can}
            response = await self.client.post_stateless(method, params, **self.fields)
        else:
            response = await self.client.post(
                method, params, self.session, **self.fields
            )
        found = message_of(response)
        found.pop("id", None)
        return dict(found)

    async def start(self) -> str:
        task = {} if self.session is None else {"task": {}}
        result = (await self.ask("tools/call", name="up_t", arguments={}, **task))[
            "result"
        ]
        return str(result.get("task", result)["taskId"])


async def ann_and_bob(
    world: World, gateway: Gateway, revision: str
) -> tuple[User, User]:
    client = await world.client_for(gateway)
    return (
        await User(client, "ann", revision).opened(),
        await User(client, "bob", revision).opened(),
    )


@pytest.mark.parametrize("share", ["session", "identity"])
@pytest.mark.parametrize("revision", ERAS)
async def test_task_is_accessible_only_to_its_owner(revision, share):
    async with a_world() as world:
        up = server(revision, tasks_of(revision))
        ann, bob = await ann_and_bob(world, gateway_for(up, share=share), revision)
        task, other = await ann.start(), await bob.start()
        last = "tasks/update" if revision == "2026-07-28" else "tasks/result"
        last_params: dict[str, Any] = (
            {"inputResponses": {}} if last == "tasks/update" else {}
        )
        for method in ("tasks/get", "tasks/cancel", last):
            params = last_params if method == last else {}
            unknown = await bob.ask(method, taskId="nobody's", **params)
            assert unknown["error"]["code"] == -32602
            for id in (task, "1", f"up/{task}", other.replace("1", "2", 1)):
                assert await bob.ask(method, taskId=id, **params) == unknown
            assert not up.requests(method)
            assert "result" in await ann.ask(method, taskId=task, **params)
            assert "result" in await bob.ask(method, taskId=other, **params)
            assert [each["taskId"] for each in up.requests(method)] == ["1", "1"]


async def test_tasks_of_other_users_are_not_listed():
    async with a_world() as world:
        up = server("2025-11-25", tasks_of("2025-11-25"))
        ann, bob = await ann_and_bob(world, gateway_for(up), "2025-11-25")
        task = await ann.start()
        assert (await bob.ask("tasks/list"))["result"] == {"tasks": []}
        (listed,) = (await ann.ask("tasks/list"))["result"]["tasks"]
        assert listed["taskId"] == task


async def test_task_status_subscription_is_accepted_only_from_its_owner():
    async with a_world() as world:
        methods = tasks_of("2026-07-28")
        methods["subscriptions/listen"] = lambda params, made: made.listen(params, made)
        up = server("2026-07-28", methods)
        http_client = await world.client_for(gateway_for(up))
        task = await User(http_client, "ann", "2026-07-28").start()
        for name, acknowledged in (("bob", set()), ("ann", {task})):
            target = mcpwire.Http(
                "https://gateway.example/mcp",
                http_client=http_client.http,
                headers={"Authorization": f"Bearer {name}-token"},
            )
            async with (
                mcpwire.Client(target, mode="2026-07-28", extensions=[TASKS]) as client,
                client.listen(tools=True, task_ids=[task]) as changes,
            ):
                assert changes.acknowledged.task_ids == acknowledged
        requested = [
            each["notifications"].get("taskIds") for each in up.requests(LISTEN)
        ]
        assert [each for each in requested if each] == [["1"]]


@pytest.mark.parametrize("revision", ERAS)
async def test_suspended_call_is_resumed_only_by_its_owner(revision):
    async with a_world() as world:
        up = mcpwire.Server("up", revisions=[revision])
        answered: list[Any] = []

        @up.tool
        async def t(ctx: mcpwire.Context) -> str:
            answer = await ctx.elicit("who?", {"type": "object", "properties": {}})
            answered.append(answer.content)
            return "done"

        ann, bob = await ann_and_bob(world, gateway_for(up), "2026-07-28")
        call: dict[str, Any] = {"name": "up_t", "arguments": {}}
        suspended = {
            user: (await user.ask("tools/call", **call))["result"]
            for user in (ann, bob)
        }
        (elicitation,) = suspended[ann]["inputRequests"]
        accepted = {"action": "accept", "content": {}}
        answers = {"inputResponses": {elicitation: accepted}}
        unknown = await bob.ask(
            "tools/call", **call, **answers, requestState="nobody's"
        )
        assert unknown["error"]["code"] == -32602
        state = suspended[ann]["requestState"]
        assert (
            await bob.ask("tools/call", **call, **answers, requestState=state)
            == unknown
        )
        assert not answered
        for user in (ann, bob):
            state = suspended[user]["requestState"]
            found = await user.ask("tools/call", **call, **answers, requestState=state)
            assert found["result"]["content"][0]["text"] == "done"


async def test_process_with_the_same_keys_accepts_task_ids():
    async with a_world() as world:
        up = server("2026-07-28", tasks_of("2026-07-28"))
        old, new = secrets.token_bytes(32), secrets.token_bytes(32)
        before, _ = await ann_and_bob(
            world, gateway_for(up, state_keys=[old]), "2026-07-28"
        )
        after, bob = await ann_and_bob(
            world, gateway_for(up, state_keys=[new, old]), "2026-07-28"
        )
        task = await before.start()
        assert "result" in await after.ask("tasks/get", taskId=task)
        assert (await bob.ask("tasks/get", taskId=task))["error"]["code"] == -32602
