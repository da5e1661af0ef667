"""Resumed sessions: from memory, or from the content of their ids."""

import asyncio
from typing import Any

import pytest
from clocks import on_a_virtual_clock
from world import (
    ANN,
    BOB,
    SESSIONS,
    A,
    B,
    GatewayClient,
    World,
    a_world,
    chosen,
    fields_of,
    users,
)

from mcpwire.gateway import Gateway, HandleIds, SealedIds

KEY, OTHER = b"k" * 32, b"x" * 32
BOTH = ["a-example_fail", "a-example_whoami", "b-example_fail", "b-example_whoami"]


def sealed(key: bytes = KEY, **options: Any) -> SealedIds:
    return SealedIds([key], **options)


async def process(world: World, source: Any = None, **options: Any) -> GatewayClient:
    """Return the client of a new gateway, as in a new process with the same key."""
    options = {"sessions": sealed(), **options}
    return await world.client_for(Gateway(source or world.source(), **options))


async def left_session(world: World, *urls: str, source: Any = None) -> str:
    """Open a session in a process that ends; return its id."""
    before = await process(world, source)
    session = await before.opened(**chosen(*urls))
    await before.http.aclose()
    return session


@pytest.mark.system("O23")
async def test_initialize_with_a_live_id_returns_the_same_session():
    async with a_world() as world:
        client = await process(world)
        first = await client.initialize(**chosen(A, B))
        session = first.headers["mcp-session-id"]
        before = len(world.a.seen)
        again = await client.initialize(session, **chosen(B))
        assert again.json()["result"] == first.json()["result"]
        assert "mcp-session-id" not in again.headers
        assert await client.tools(session) == BOTH
        assert set(world.a.verbs()[before:]) == {"POST"}  # it was not closed
        assert len(client.gateway.pool.session_sets) == 1


@pytest.mark.system("O24", "L-O13")
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_session_is_restored_from_its_id_after_a_restart(method):
    async with a_world() as world:
        before = await process(world)
        session = await before.opened(**chosen(B, A, a={"Authorization": "Bearer a"}))
        names = await before.tools(session)
        await before.http.aclose()
        seen = len(world.a.seen)
        after = await process(world)
        if method == "initialize":
            again = await after.initialize(session, **chosen(B))
            assert again.json()["result"]["protocolVersion"] == "2025-11-25"
            assert "tools" in again.json()["result"]["capabilities"]
        assert await after.tools(session) == names == BOTH
        assert set(world.a.all("authorization")[seen:]) == {"Bearer a"}


@pytest.mark.system("O24")
async def test_configured_servers_are_not_stored_in_the_id():
    async with a_world() as world:
        session = await left_session(world, source=world.static())
        servers = {"b": world.static()["b"]}
        after = await process(world, servers)
        assert await after.tools(session) == ["b_fail", "b_whoami"]


@pytest.mark.system("O24")
async def test_unreachable_server_on_resumption_is_an_internal_error():
    async with a_world() as world:
        session = await left_session(world, A)
        world.a.may_answer = lambda: False
        after = await process(world, on_error="raise")
        error = (await after.initialize(session)).json()["error"]
        assert error["code"] == -32603
        assert "'a-example'" in error["message"]
        world.a.may_answer = lambda: True
        assert await after.tools(session) == BOTH[:2]


@pytest.mark.system("O25", "O53")
@pytest.mark.parametrize("id", ["garbage", "tampered", "other-key", "too-old"])
async def test_undecodable_id_is_answered_404_or_the_configured_status(id):
    async with a_world() as world:
        now = 1_000.0
        make = sealed(
            OTHER if id == "other-key" else KEY, lifetime=5, clock=lambda: now
        )
        before = await process(world, sessions=make)
        session = await before.opened(**chosen(A))
        now += 10 if id == "too-old" else 1
        session = {"garbage": "garbage", "tampered": session[:-1]}.get(id, session)
        options: Any = {"lifetime": 5, "clock": lambda: now}
        client = await process(world, sessions=sealed(**options))
        assert (await client.initialize(session)).status_code == 404
        assert await client.status(session) == 404
        assert await client.delete(session) == 404
        client = await process(world, sessions=sealed(undecodable=401, **options))
        assert (await client.initialize(session)).status_code == 401


@pytest.mark.system("O26")
async def test_initialize_without_an_id_opens_a_new_session():
    async with a_world() as world:
        client = await process(world)
        ids = {await client.opened(**chosen(A)) for _ in range(2)}
        assert len(ids) == 2
        assert len(client.gateway.pool.session_sets) == 2


@pytest.mark.system("O29")
async def test_concurrent_initialize_with_one_id_resumes_once():
    async with a_world() as world:
        session = await left_session(world, A)
        seen = len(world.a.seen)
        after = await process(world)
        responses = await asyncio.gather(*(after.initialize(session) for _ in range(4)))
        assert [response.status_code for response in responses] == [200] * 4
        assert len(after.gateway.pool.session_sets) == 1
        verbs = world.a.verbs()[seen:]
        assert len(verbs) <= 6  # not four handshakes


@pytest.mark.system("L-O7")
@pytest.mark.parametrize("ids", [HandleIds(), sealed()])
@on_a_virtual_clock
async def test_idle_session_is_closed_and_resumed_by_the_next_request(ids):
    async with a_world() as world:
        gateway = Gateway(world.source(), sessions=ids)
        closed = asyncio.Event()
        close = gateway.pool.close

        def closing(upstreams: Any) -> Any:
            closed.set()
            return close(upstreams)

        gateway.pool.close = closing  # type: ignore[method-assign] # to observe it
        client = await world.client_for(gateway, session_idle=0.02)
        session = await client.opened(**chosen(A))
        async with asyncio.timeout(30):
            await closed.wait()
        assert gateway.pool.session_sets == set()
        assert await client.tools(session) == BOTH[:2]


@pytest.mark.system("L-O7")
async def test_max_sessions_evicts_the_longest_idle_session():
    async with a_world() as world:
        gateway = Gateway(world.source(), sessions=sealed())
        client = await world.client_for(gateway, max_sessions=2)
        sessions = [await client.opened(**chosen(A)) for _ in range(3)]
        assert len(gateway.pool.session_sets) <= 2
        # The longest idle session was evicted; its next request resumes it.
        assert await client.tools(sessions[0]) == BOTH[:2]


@pytest.mark.attack("S01")
async def test_session_id_is_valid_only_for_its_owner():
    async with a_world() as world:
        before = await process(world, auth=users())
        response = await before.initialize(**ANN, **chosen(A))
        session = response.headers["mcp-session-id"]
        after = await process(world, auth=users())
        for client in (before, after):
            assert (await client.initialize(session, **BOB)).status_code == 404
            assert (await client.initialize(session)).status_code == 401
            assert (await client.initialize(session, **ANN)).status_code == 200


@pytest.mark.system("O24")
@pytest.mark.parametrize("share", ["session", "identity"])
async def test_list_changed_reaches_the_stream_of_a_resumed_session(share):
    async with a_world(**SESSIONS) as world:
        session = await left_session(world, A)
        after = await process(world, share=share)
        assert await after.tools(session) == BOTH[:2]
        listening = after.http.stream("GET", "/mcp", headers=fields_of(session))
        async with listening as stream:

            @world.a.server.tool
            async def later() -> str:
                return "new"

            async for line in stream.aiter_lines():
                if "notifications/tools/list_changed" in line:
                    break
        assert "a-example_later" in await after.tools(session)


# Ended for good...


@pytest.mark.system("O57")
@pytest.mark.parametrize("ids", [HandleIds, sealed])
async def test_delete_ends_the_session_on_all_servers_permanently(ids):
    async with a_world(**SESSIONS) as world:
        client = await process(world, sessions=ids())
        session = await client.opened(**chosen(A, B))
        assert await client.delete(session) == 204
        assert "DELETE" in world.a.verbs()
        assert "DELETE" in world.b.verbs()
        assert await client.status(session) == 404
        assert (await client.initialize(session)).status_code == 404
        assert await client.delete(session) == 404


@pytest.mark.system("O57")
async def test_delete_ends_the_session_although_a_server_refuses_its_delete():
    async with a_world(**SESSIONS) as world:
        client = await process(world)
        session = await client.opened(**chosen(A, B))
        world.a.may_answer = lambda: world.a.seen[-1].verb != "DELETE"
        assert await client.delete(session) == 204
        for upstream in (world.a, world.b):
            assert upstream.verbs().count("DELETE") == 1
        assert await client.status(session) == 404


@pytest.mark.system("O57")
async def test_delete_ends_the_server_sessions_left_by_another_process():
    async with a_world(**SESSIONS) as world:
        before = await process(world)
        session = await before.opened(**chosen(A, B, a={"Authorization": "Bearer a"}))
        ids = {*world.a.all("mcp-session-id")} - {None}
        after = await process(world)
        assert await after.delete(session) == 204
        (seen,) = [each for each in world.a.seen if each.verb == "DELETE"]
        assert seen.headers["mcp-session-id"] in ids
        assert seen.headers["authorization"] == "Bearer a"
        assert "DELETE" in world.b.verbs()
        assert await after.delete(session) == 404
        assert (await after.initialize(session)).status_code == 404


@pytest.mark.system("O29", "L-O10")
async def test_dropped_session_cannot_be_resumed():
    async with a_world() as world:
        client = await process(world)
        gateway = client.gateway
        session = await client.opened(**chosen(A))
        assert gateway.drop(session)
        assert not gateway.drop(session)
        assert not gateway.drop("unknown")
        assert await client.status(session) == 404
        assert (await client.initialize(session)).status_code == 404
        assert gateway.pool.session_sets == set()


@pytest.mark.system("O29")
async def test_session_dropped_during_resumption_is_closed():
    async with a_world() as world:
        session = await left_session(world, A)
        after = await process(world)
        gateway = after.gateway

        def drop() -> bool:
            gateway.drop(session)
            return True

        world.a.may_answer = drop
        assert (await after.initialize(session)).status_code == 404
        world.a.may_answer = lambda: True
        assert gateway.pool.session_sets == set()
        assert (await after.initialize(session)).status_code == 404


async def test_resumption_refuses_servers_that_are_no_longer_allowed():
    async with a_world() as world:
        session = await left_session(world, A)
        after = await process(world, world.source(deny_urls=["a.example"]))
        error = (await after.initialize(session)).json()["error"]
        assert (error["code"], "deny-list" in error["message"]) == (-32600, True)
        static = await process(world, world.static())
        error = (await static.initialize(session)).json()["error"]
        assert "no longer lets clients choose" in error["message"]


async def test_session_with_a_too_long_id_is_refused():
    async with a_world() as world:
        client = await process(world, sessions=sealed(max_length=400))
        fields = chosen(A, a={"X-Long": "x" * 400})
        error = (await client.initialize(**fields)).json()["error"]
        assert error["code"] == -32600
        assert client.gateway.pool.session_sets == set()
