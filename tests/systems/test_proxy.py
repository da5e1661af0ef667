"""Features of objectiveai-mcp-proxy, provided by the gateway in both eras."""

import asyncio
import json

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer, text

import mcpwire
from mcpwire.gateway import Gateway
from mcpwire.gateway.splicing import PendingBatch
from mcpwire.transports.custom import Reverse

BOUND_S = 20
SESSION, STATELESS = "2025-11-25", "2026-07-28"
MODES = pytest.mark.parametrize("mode", [SESSION, STATELESS])
UPSTREAMS = pytest.mark.parametrize("upstream", [SESSION, STATELESS])
CHANGED = "notifications/tools/list_changed"
CANCELLED = "notifications/cancelled"


def serving(version, names=("b", "a"), uris=(), **methods):
    """Return a server with these tools and resources, read anew for each list."""

    def answer(**members):
        hints = {"ttlMs": 0, "cacheScope": "private"}
        stateless = {"resultType": "complete", **hints}
        return {**(stateless if version == STATELESS else {}), **members}

    def read(params, _):
        contents = {"uri": params["uri"], "text": f"{uris[0]} has it"}
        return answer(contents=[contents])

    schema = {"type": "object"}
    return FakeServer(
        {
            "tools/list": lambda *_: answer(
                tools=[{"name": name, "inputSchema": schema} for name in names]
            ),
            "tools/call": lambda p, _: answer(**text(p["name"])),
            "resources/list": lambda *_: answer(
                resources=[{"uri": uri, "name": uri} for uri in uris]
            ),
            "resources/templates/list": lambda *_: answer(resourceTemplates=[]),
            "resources/read": read,
            **methods,
        },
        version=version,
        capabilities={"tools": {"listChanged": True}, "resources": {}},
    )


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what it waits for is another end of the wire
        await asyncio.sleep(0)  # one loop iteration


@MODES
@UPSTREAMS
@pytest.mark.system("O40", "O41", "O42", "O43", "O48", "L-O9")
async def test_gateway_merges_tools_and_resources_of_two_servers(mode, upstream):
    servers = {
        "s-two": serving(upstream, uris=("x:2", "x:both")),
        "one": serving(STATELESS, uris=("x:1", "x:both")),
    }
    gateway = Gateway(servers)
    async with mcpwire.Client(gateway, mode=mode) as client:
        assert client.capabilities.tools is not None
        assert client.capabilities.resources is not None
        names = [tool.name for tool in await client.list_tools()]
        assert names == ["one_a", "one_b", "s-two_a", "s-two_b"]
        assert (await client.call_tool("s-two_a")).text == "a"
        assert servers["s-two"].requests("tools/call")[0]["name"] == "a"
        assert servers["one"].requests("tools/call") == []
        uris = [resource.uri for resource in await client.list_resources()]
        assert {"x:1", "x:2", "x:both"} < set(uris)
        assert len(uris) == 4
        assert uris == sorted(uris)
        texts = [await client.read_text(uri) for uri in uris]
        assert sorted(texts) == ["x:1 has it"] * 2 + ["x:2 has it"] * 2
        assert await client.read_text("x:both") == "x:2 has it"  # the first in order
        for unknown in ("one_c", "a", "nobody_a"):
            with pytest.raises(mcpwire.InvalidParams, match="unknown tool"):
                await client.call_tool(unknown)
        kind = mcpwire.ResourceNotFound if mode == SESSION else mcpwire.InvalidParams
        with pytest.raises(kind, match="x:none"):
            await client.read_text("x:none")
    await gateway.aclose()


@pytest.mark.system("O33", "O34", "O46", "L-O5", "L-O16")
@on_a_virtual_clock
async def test_failed_server_is_skipped_or_fails_the_session():
    def refuse(*_):
        return mcpwire.RPCError("not today", code=-32600)

    broken = FakeServer({"initialize": refuse})
    listless = serving(SESSION, **{"tools/list": refuse})
    servers = {"broken": broken, "listless": listless, "good": serving(SESSION)}
    started = asyncio.get_running_loop().time()
    gateway = Gateway(servers)
    async with asyncio.timeout(BOUND_S), mcpwire.Client(gateway, mode=SESSION) as c:
        assert [tool.name for tool in await c.list_tools()] == ["good_a", "good_b"]
        [shared] = gateway.status()["sets"]
        states = {server["name"]: server for server in shared["servers"]}
        assert states["good"]["state"] == "ready"
        assert states["broken"]["state"] == "failed"
        assert "not today" in str(states["broken"])
        assert "not today" in str(states["listless"])
    await gateway.aclose()
    strict = Gateway(servers, on_error="raise")
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(mcpwire.MCPError) as caught:
            await mcpwire.Client(strict, mode=SESSION).connect()
        assert "'broken'" in str(caught.value)
        await strict.aclose()
    assert asyncio.get_running_loop().time() == started  # no timeout passed


def subscribable(names):
    """Return factories of a server with list changes in both eras, and of a change."""
    listening = []

    def listen(_, server):
        id = server.current["id"]
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        listening.append(meta)
        server.notify(
            "notifications/subscriptions/acknowledged",
            notifications={"toolsListChanged": True},
            _meta=meta,
        )
        return SILENCE

    def change(server):
        params = {"_meta": listening[-1]} if server.version == STATELESS else {}
        server.notify(CHANGED, **params)

    def make(version):
        return serving(version, names, **{"subscriptions/listen": listen})

    return make, change


@MODES
@UPSTREAMS
@pytest.mark.system("O70", "O71", "L-O2")
async def test_list_changed_invalidates_the_cached_list(mode, upstream):
    names, received = ["one"], []
    make, change = subscribable(names)
    server = make(upstream)
    gateway = Gateway({"u": server})

    async with mcpwire.Client(
        gateway, mode=mode, on_notification=lambda n: received.append(n.method)
    ) as client:
        for _ in range(3):
            assert [tool.name for tool in await client.list_tools()] == ["u_one"]
        assert len(server.requests("tools/list")) == 1
        names.append("two")
        change(server)
        await until(lambda: received)
        listed = [tool.name for tool in await client.list_tools()]
        assert listed == ["u_one", "u_two"]
        assert received == [CHANGED]
        assert len(server.requests("tools/list")) == 2
    await gateway.aclose()


@MODES
@UPSTREAMS
@pytest.mark.system("O60", "O62", "L-O4")
async def test_cancelled_call_is_cancelled_upstream(mode, upstream):
    server = serving(upstream, **{"tools/call": lambda *_: SILENCE})
    gateway = Gateway({"u": server})

    def cancelled():
        return [m for m in server.received if m["method"] == CANCELLED]

    async with mcpwire.Client(gateway, mode=mode) as client:
        call = await client.start_call("u_a")
        await until(lambda: server.requests("tools/call"))
        id = server.current["id"]
        call.cancel("enough")
        with pytest.raises(mcpwire.CallCancelled):
            await call
        await until(cancelled)
        assert [m["params"]["requestId"] for m in cancelled()] == [id]
        assert [tool.name for tool in await client.list_tools()] == ["u_a", "u_b"]
    await gateway.aclose()


class Pending:
    """A delegate with a batch for each of the first calls."""

    def __init__(self, *batches):
        self.batches = list(batches)
        self.reads = 0

    async def read_pending(self, headers, session_id):
        self.reads += 1
        batch = self.batches.pop(0) if self.batches else None
        if isinstance(batch, Exception):
            raise batch
        return batch


TOKEN = "0b0f8f1c-6a5b-4c1e-9d55-0a3a2f6d7e11"
ROWS = [[text("first")["content"][0]], [text("second")["content"][0]]]


@MODES
@pytest.mark.system("O01", "O02", "O03", "O04", "O05")
async def test_delegate_is_read_once_per_successful_call(mode):
    delegate = Pending(
        PendingBatch(TOKEN, ROWS), None, PendingBatch(TOKEN, [[]]), OSError("gone")
    )
    server = serving(SESSION)
    gateway = Gateway({"u": server}, delegate=delegate)
    async with mcpwire.Client(gateway, mode=mode) as client:
        with pytest.raises(mcpwire.InvalidParams):
            await client.call_tool("u_none")
        assert delegate.reads == 0
        contents = [(await client.call_tool("u_a")).content for _ in range(4)]
        assert delegate.reads == 4
    texts = [[block.text for block in content] for content in contents]
    opening, *rows, closing, own = texts[0]
    assert (rows, own) == (["first", "second"], "a")
    assert TOKEN in opening
    assert closing
    assert texts[1:] == [["a"]] * 3
    await gateway.aclose()
    bare = Gateway({"u": server})
    async with mcpwire.Client(bare, mode=mode) as client:
        assert [block.text for block in (await client.call_tool("u_a")).content] == [
            "a"
        ]
    await bare.aclose()


class Laptop(FakeServer):
    """A server that dials out to its client, one message at a time."""

    def __init__(self, plain):
        super().__init__(plain.methods, version=plain.version)
        self.members = plain.members
        self.outgoing = asyncio.Queue()

    def send(self, message):
        self.outgoing.put_nowait(message)

    async def handle(self, message):
        self.receive(json.dumps(message).encode())

    async def dial(self, reverse):
        self.outgoing = asyncio.Queue()
        await reverse.accept_messages(self.handle, self.outgoing.get, form="dict")


@MODES
@UPSTREAMS
@pytest.mark.system("O35", "O95")
async def test_dialing_server_works_as_an_upstream(mode, upstream):
    laptop, reverse = Laptop(serving(upstream)), Reverse(name="laptop")
    gateway = Gateway({"here": serving(SESSION), "laptop": reverse})
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(laptop.dial(reverse))
        async with mcpwire.Client(gateway, mode=mode) as client:
            names = [tool.name for tool in await client.list_tools()]
            assert names == ["here_a", "here_b", "laptop_a", "laptop_b"]
            calls = (client.call_tool(name) for name in names)
            assert [result.text for result in await asyncio.gather(*calls)] == [
                *("a", "b", "a", "b")
            ]
            laptop.methods["tools/call"] = lambda *_: SILENCE
            running = asyncio.ensure_future(client.call_tool("laptop_a"))
            await until(lambda: len(laptop.requests("tools/call")) == 3)
            laptop.outgoing.put_nowait(None)  # the server disconnects
            with pytest.raises(mcpwire.RPCError):
                await running
            assert (await client.call_tool("here_a")).text == "a"
            laptop.methods["tools/call"] = serving(upstream).methods["tools/call"]
            tasks.create_task(laptop.dial(reverse))
            assert (await client.call_tool("laptop_b")).text == "b"
        await gateway.aclose()
        laptop.outgoing.put_nowait(None)
