"""Header fields that are forwarded by name from each request to the servers."""

import asyncio
from functools import partial
from typing import Any

import pytest
from gateway_servers import Counted, named
from world import SESSIONS, A, B, a_world, chosen

from mcpwire.gateway import Gateway, SealedIds
from mcpwire.group import Member

KEY = b"k" * 32
NAMES = ["X-Run", "X-Agent", "traceparent"]


@pytest.mark.system("O27", "O90")
@pytest.mark.parametrize("options", [{}, SESSIONS], ids=["stateless", "sessions"])
async def test_forwarded_headers_are_replaced_as_a_whole_by_each_request(options):
    async with a_world(**options) as world:
        gateway = Gateway(world.source(), forward_headers=NAMES)
        client = await world.client_for(gateway)
        session = await client.opened(x_run="1", x_agent="ann", **chosen(A))
        assert set(world.a.all("x-run")) == {"1"}  # the first connect, too
        assert set(world.a.all("x-agent")) == {"ann"}
        connected = len(world.a.seen)
        await client.call(session, "a-example_whoami", x_run="2")
        await client.call(session, "a-example_whoami")
        later = world.a.seen[connected:]
        assert later[-2].headers["x-run"] == "2"
        assert "x-agent" not in later[-2].headers
        assert "x-run" not in later[-1].headers
        assert len(gateway.pool.session_sets) == 1


@pytest.mark.system("O27")
@pytest.mark.parametrize(
    ("method", "params"), [("tools/list", {}), ("logging/setLevel", {"level": "error"})]
)
async def test_gateways_own_upstream_requests_carry_the_clients_headers(method, params):
    async with a_world(**SESSIONS) as world:
        gateway = Gateway({"a": world.static()["a"]}, forward_headers=NAMES)
        client = await world.client_for(gateway)
        session = await client.opened(x_run="1", x_agent="ann")
        world.a.seen.clear()
        await client.post(method, params, session, x_run="2")
        assert set(world.a.all("x-run")) == {"2"}
        assert set(world.a.all("x-agent")) == {None}


@pytest.mark.system("O27")
async def test_headers_of_one_client_do_not_affect_clients_sharing_connections():
    async with a_world(**SESSIONS) as world:
        servers = {"a": world.static()["a"]}
        gateway = Gateway(servers, forward_headers=NAMES, share="identity")
        client = await world.client_for(gateway)
        one, other = [await client.opened(x_run="same") for _ in range(2)]
        await client.call(one, "a_whoami", x_run="another")
        assert world.a.all("x-run")[-1] == "another"
        (upstreams,) = gateway.pool.shared
        assert upstreams.headers == {"x-run": "same"}
        await client.call(other, "a_whoami", x_run="same")
        assert world.a.all("x-run")[-1] == "same"


async def test_different_forwarded_headers_open_separate_connections():
    async with a_world(**SESSIONS) as world:
        process = Counted(named("b", "y"))
        servers = {"a": world.static()["a"], "b": process}
        gateway = Gateway(servers, forward_headers=NAMES)
        client = await world.client_for(gateway)
        for run in "12":
            world.a.seen.clear()
            await client.opened(x_run=run)
            assert set(world.a.all("x-run")) == {run}
        assert process.opened == 2
        for _ in range(2):
            world.a.seen.clear()
            await client.opened(traceparent=f"00-{'1' * 32}-{'2' * 16}-01")
        assert (world.a.seen, process.opened) == ([], 3)


@pytest.mark.system("O27")
async def test_x_mcp_headers_cannot_override_forwarded_headers():
    async with a_world() as world:
        gateway = Gateway(world.source(), forward_headers=NAMES)
        client = await world.client_for(gateway)
        fields = chosen(A, a={"X-Run": "stolen", "X-Own": "1"})
        session = await client.opened(x_run="1", **fields)
        await client.call(session, "a-example_whoami")
        assert set(world.a.all("x-run")) == {"1", None}
        assert set(world.a.all("x-own")) == {"1"}


@pytest.mark.system("O27")
async def test_forwarded_headers_are_not_stored_in_session_ids():
    async with a_world() as world:
        options: Any = {"forward_headers": NAMES}
        ids = SealedIds([KEY])
        before = await world.client_for(
            Gateway(world.source(), sessions=ids, **options)
        )
        session = await before.opened(x_run="first", **chosen(A))
        kept = ids.read(session)
        assert kept is not None
        assert kept.servers is not None
        assert "first" not in str([each.headers for each in kept.servers])
        seen = len(world.a.seen)
        after = await world.client_for(
            Gateway(world.source(), sessions=SealedIds([KEY]), **options)
        )
        await after.initialize(session, x_run="second")
        assert set(world.a.all("x-run")[seen:]) == {"second"}


async def test_only_named_headers_are_forwarded():
    async with a_world() as world:
        gateway = Gateway(world.static(), forward_headers=["X-Run"])
        client = await world.client_for(gateway)
        secrets = {"authorization": "Bearer x", "cookie": "a=b", "x-other": "1"}
        session = await client.opened(x_run="1", **secrets)
        await client.call(session, "a_whoami", x_run="1", **secrets)
        for upstream in (world.a, world.b):
            assert set(upstream.all("x-run")) == {"1"}
            for name in secrets:
                assert set(upstream.all(name)) == {None}


@pytest.mark.system("O27")
async def test_concurrent_calls_forward_their_own_headers():
    async with a_world() as world:
        # In the stateless era the method is in a header field.
        servers = {
            name: Member(target, mode="stateless")
            for name, target in world.static().items()
        }
        gateway = Gateway(servers, forward_headers=["X-Run"])
        client = await world.client_for(gateway)
        session = await client.opened()
        connected = len(world.a.seen)
        await asyncio.gather(
            *(client.call(session, "a_whoami", x_run=str(n)) for n in range(20))
        )
        calls = [
            each.headers
            for each in world.a.seen[connected:]
            if each.headers.get("mcp-method") == "tools/call"
        ]
        assert sorted(int(each["x-run"]) for each in calls) == list(range(20))


async def test_traceparent_does_not_open_separate_connections():
    async with a_world() as world:
        gateway = Gateway(world.static(), forward_headers=NAMES)
        client = await world.client_for(gateway)
        call = partial(
            client.post_stateless, "tools/call", {"name": "a_whoami", "arguments": {}}
        )
        traces = [f"00-{n:032x}-{n:016x}-01" for n in range(1, 4)]
        for trace in traces:
            assert (await call(traceparent=trace)).status_code == 200
        assert len(gateway.pool.shared) == 1
        assert set(traces) <= set(world.a.all("traceparent"))
        for run in ("1", "2"):
            await call(x_run=run)
        assert len(gateway.pool.shared) == 3


async def test_header_value_that_cannot_be_forwarded_is_refused_by_name():
    async with a_world() as world:
        gateway = Gateway(world.static(), forward_headers=["X-Run"])
        client = await world.client_for(gateway)
        error = (await client.initialize(x_run="\xe9")).json()["error"]
        assert error["code"] == -32600
        assert "'x-run'" in error["message"]


@pytest.mark.system("O44")
async def test_traceparent_in_meta_reaches_the_server():
    trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    async with a_world() as world:
        seen = []

        @world.b.server.middleware
        async def look(params: Any, request: Any, on: Any) -> Any:
            seen.append(request.meta.get("traceparent"))
            return await on(params, request)

        client = await world.client_for(Gateway(world.source()))
        session = await client.opened(**chosen(B))
        params = {"name": "b-example_whoami", "_meta": {"traceparent": trace}}
        await client.post("tools/call", params, session)
        assert seen[-1] == trace
