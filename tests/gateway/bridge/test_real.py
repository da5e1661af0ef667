"""Relaying over HTTP and pipes: streams identify the call of a server's request."""

import asyncio
import sys
from contextlib import asynccontextmanager

import httpx
import pytest
from bridged import ERA_PAIRS, Downstream, Upstream, wait
from world import HEADERS, INITIALIZE, message_of

import mcpwire
from mcpwire.gateway import Gateway
from mcpwire.testing import AsgiTransport

URL = "https://gateway.example/mcp"
BEHIND = "https://up.example/mcp"


@asynccontextmanager
async def over_http(up, **options):
    """Serve an upstream and a gateway over HTTP; yield a target factory."""
    inner = up.server.asgi(allowed_hosts=["up.example"])
    async with httpx.AsyncClient(transport=AsgiTransport(inner)) as inside:
        target = mcpwire.Http(BEHIND, http_client=inside)
        async with Gateway({"up": target}, **options) as gateway:
            outer = gateway.asgi(allowed_hosts=["gateway.example"])
            async with httpx.AsyncClient(transport=AsgiTransport(outer)) as outside:
                yield lambda: mcpwire.Http(URL, http_client=outside)


@pytest.mark.system("A50", "A51", "A52", "L-O1")
@ERA_PAIRS
async def test_all_features_are_relayed_over_http_in_both_eras(down, up):
    upstream, side = Upstream(up), Downstream()
    async with over_http(upstream) as target:
        options = side.options()
        async with mcpwire.Client(target(), mode=down, **options) as client:
            assert (await client.call_tool("up_echo", {"text": "x"})).text == "x"
            progress = []
            await client.call_tool(
                "up_steps", on_progress=lambda *a: progress.append(a)
            )
            assert [each[0] for each in progress] == [1, 2.5, 3]
            assert (await client.call_tool("up_twice")).text == "first second"
            assert (await client.call_tool("up_model")).text == "from the model"
            assert (await client.call_tool("up_visit")).text == "accept"
            assert (await client.call_tool("up_roots")).text == "file:///home"
            await client.set_log_level("warning")
            await client.call_tool("up_talk")
            await side.wait_for(1)
            assert side.notifications.pop().params.data == {"loud": True}
            await client.subscribe("memo://1")
            upstream.server.notify_resource_updated("memo://1")
            await side.wait_for(1)
            assert side.notifications.pop().params.uri == "memo://1"
            call = asyncio.create_task(client.call_tool("up_slow"))
            await wait(upstream.began)
            call.cancel()
            await wait(upstream.cancelled)


async def test_server_request_over_http_reaches_the_client_of_its_call():
    """Clients of the same capabilities share the server's one session."""
    upstream = Upstream("2025-11-25")
    async with over_http(upstream) as target:

        async def ask(name):
            options = {"elicitation": lambda _: {"name": name}}
            async with mcpwire.Client(target(), mode="2026-07-28", **options) as client:
                calls = [client.call_tool("up_form") for _ in range(4)]
                return {result.text for result in await asyncio.gather(*calls)}

        results = await asyncio.gather(*map(ask, ("ann", "bob", "cid")))
    assert results == [{"accept ann"}, {"accept bob"}, {"accept cid"}]


async def test_log_message_over_http_reaches_the_request_it_belongs_to():
    upstream = Upstream("2025-11-25")
    async with over_http(upstream) as target:

        async def listen(level):
            side = Downstream()
            async with mcpwire.Client(
                target(), mode="2026-07-28", on_notification=side.on_notification
            ) as client:
                await client.set_log_level(level)
                calls = [client.call_tool("up_talk") for _ in range(3)]
                await asyncio.gather(*calls)
                return sorted(each.params.level for each in side.notifications)

        found = await asyncio.gather(*map(listen, ("debug", "warning", "alert")))
    assert found == [["debug"] * 3 + ["warning"] * 3, ["warning"] * 3, []]


@pytest.mark.system("O60", "O62")
async def test_post_of_a_cancelled_request_ends_with_an_error():
    upstream = Upstream("2025-11-25")
    gateway = Gateway({"up": upstream.server})
    app = gateway.asgi(allowed_hosts=["gateway.example"])
    async with httpx.AsyncClient(transport=AsgiTransport(app), headers=HEADERS) as http:

        async def post(method, params, **members):
            message = {"jsonrpc": "2.0", "method": method, "params": params, **members}
            return await http.post(URL, json=message)

        opened = await post("initialize", INITIALIZE, id=1)
        http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        await post("notifications/initialized", {})
        call = asyncio.create_task(post("tools/call", {"name": "up_slow"}, id="x"))
        await wait(upstream.began)
        await post("notifications/cancelled", {"requestId": "x"})
        response = await call
        await upstream.cancelled.wait()
        message = message_of(response)
        assert message["id"] == "x"
        assert message["error"]["code"] == -32800
        (upstreams,) = gateway.pool.session_sets
        assert not upstreams.members["up"].in_flight.calls
    await gateway.aclose()


@pytest.mark.system("O61")
async def test_client_disconnect_over_http_cancels_the_servers_handler():
    upstream = Upstream("2026-07-28")
    async with over_http(upstream) as target:
        async with mcpwire.Client(target(), mode="2026-07-28") as client:
            call = asyncio.create_task(client.call_tool("up_slow"))
            await wait(upstream.began)
        with pytest.raises(mcpwire.ConnectionClosed):
            await call
        await wait(upstream.cancelled)


async def test_gateway_relays_to_a_child_process_server():
    child = mcpwire.Stdio(sys.executable, ["-m", "mcpwire.server.demo"])
    async with (
        Gateway({"demo": child}) as gateway,
        mcpwire.Client(gateway, mode="2026-07-28") as new,
        mcpwire.Client(gateway, mode="2025-06-18") as old,
    ):
        for client in (new, old):
            progress = []
            result = await client.call_tool(
                "demo_slow",
                {"seconds": 0.05},
                on_progress=lambda *step, progress=progress: progress.append(step),
            )
            assert not result.is_error
            assert progress
