"""Sessions that are gone on with: in memory, or from what their ids hold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from clocks import on_a_virtual_clock
from world import SESSIONS, A, B, a_world, chosen, fields_of

from mcpwire.gateway import Gateway, HandleIds, SealedIds
from mcpwire.server.auth import ResourceServer, StaticTokens

KEY, OTHER = b"k" * 32, b"x" * 32
BOTH = ["a-example_fail", "a-example_whoami", "b-example_fail", "b-example_whoami"]


def sealed(key: bytes = KEY, **options: Any) -> SealedIds:
    return SealedIds([key], **options)


@pytest.mark.system("O23")
async def test_initialize_with_a_live_id_is_the_same_session() -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.source(), sessions=sealed()))
        first = await outside.initialize(**chosen(A, B))
        session = first.headers["mcp-session-id"]
        before = len(world.a.seen)
        again = await outside.initialize(session, **chosen(B))
        assert again.json()["result"] == first.json()["result"]
        assert "mcp-session-id" not in again.headers
        assert await outside.tools(session) == BOTH
        assert set(world.a.verbs()[before:]) == {"POST"}  # it was not let go of
        assert len(outside.gateway.session_sets) == 1


@pytest.mark.system("O24", "L-O13")
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_after_a_restart_the_session_comes_from_its_id(method: str) -> None:
    async with a_world() as world:
        before = await world.outside(Gateway(world.source(), sessions=sealed()))
        session = await before.opened(**chosen(B, A, a={"Authorization": "Bearer a"}))
        names = await before.tools(session)
        await before.http.aclose()
        seen = len(world.a.seen)
        after = await world.outside(Gateway(world.source(), sessions=sealed()))
        if method == "initialize":
            again = await after.initialize(session, **chosen(B))
            assert again.json()["result"]["protocolVersion"] == "2025-11-25"
            assert "tools" in again.json()["result"]["capabilities"]
        assert await after.tools(session) == names == BOTH
        assert set(world.a.all("authorization")[seen:]) == {"Bearer a"}


@pytest.mark.system("O24")
async def test_servers_of_the_configuration_are_not_in_the_id() -> None:
    async with a_world() as world:
        before = await world.outside(Gateway(world.static(), sessions=sealed()))
        session = await before.opened()
        await before.http.aclose()
        servers = {"b": world.static()["b"]}
        after = await world.outside(Gateway(servers, sessions=sealed()))
        assert await after.tools(session) == ["b_fail", "b_whoami"]


@pytest.mark.system("O24")
async def test_a_server_that_cannot_be_reached_again_is_an_internal_error() -> None:
    async with a_world() as world:
        before = await world.outside(Gateway(world.source(), sessions=sealed()))
        session = await before.opened(**chosen(A))
        await before.http.aclose()
        world.a.may_answer = lambda: False
        options: Any = {"sessions": sealed(), "on_error": "raise"}
        after = await world.outside(Gateway(world.source(), **options))
        error = (await after.initialize(session)).json()["error"]
        assert error["code"] == -32603
        assert "'a-example'" in error["message"]
        world.a.may_answer = lambda: True
        assert await after.tools(session) == BOTH[:2]


@pytest.mark.system("O25", "O53")
@pytest.mark.parametrize("id", ["garbage", "tampered", "other-key", "too-old"])
async def test_an_id_that_nobody_can_open_is_unknown(id: str) -> None:
    async with a_world() as world:
        now = 1_000.0
        make = sealed(
            OTHER if id == "other-key" else KEY, lifetime=5, clock=lambda: now
        )
        before = await world.outside(Gateway(world.source(), sessions=make))
        session = await before.opened(**chosen(A))
        now += 10 if id == "too-old" else 1
        session = {"garbage": "garbage", "tampered": session[:-1]}.get(id, session)
        options: Any = {"lifetime": 5, "clock": lambda: now}
        after = Gateway(world.source(), sessions=sealed(**options))
        outside = await world.outside(after)
        assert (await outside.initialize(session)).status_code == 404
        assert await outside.status(session) == 404
        assert await outside.delete(session) == 404
        refusing = Gateway(world.source(), sessions=sealed(undecodable=401, **options))
        outside = await world.outside(refusing)
        assert (await outside.initialize(session)).status_code == 401


@pytest.mark.system("O26")
async def test_without_an_id_a_session_is_always_a_new_one() -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.source(), sessions=sealed()))
        ids = {await outside.opened(**chosen(A)) for _ in range(2)}
        assert len(ids) == 2
        assert len(outside.gateway.session_sets) == 2


@pytest.mark.system("O29")
async def test_of_two_that_initialize_with_one_id_the_second_waits() -> None:
    async with a_world() as world:
        before = await world.outside(Gateway(world.source(), sessions=sealed()))
        session = await before.opened(**chosen(A))
        await before.http.aclose()
        seen = len(world.a.seen)
        after = await world.outside(Gateway(world.source(), sessions=sealed()))
        answers = await asyncio.gather(*(after.initialize(session) for _ in range(4)))
        assert [answer.status_code for answer in answers] == [200] * 4
        assert len(after.gateway.session_sets) == 1
        once = world.a.verbs()[seen:]
        assert len(once) <= 6  # no four handshakes


@pytest.mark.system("L-O7")
@pytest.mark.parametrize("ids", [HandleIds(), sealed()])
@on_a_virtual_clock
async def test_a_session_that_was_idle_is_let_go_of_and_gone_on_with(ids: Any) -> None:
    async with a_world() as world:
        gateway = Gateway(world.source(), sessions=ids)
        closed = asyncio.Event()
        close = gateway.close_in_background

        def closing(upstreams: Any) -> Any:
            closed.set()
            return close(upstreams)

        gateway.close_in_background = closing  # type: ignore[method-assign] # to hear of it
        outside = await world.outside(gateway, session_idle=0.02)
        session = await outside.opened(**chosen(A))
        async with asyncio.timeout(30):
            await closed.wait()
        assert gateway.session_sets == set()
        assert await outside.tools(session) == BOTH[:2]


@pytest.mark.system("L-O7")
async def test_there_are_no_more_sessions_than_allowed() -> None:
    async with a_world() as world:
        gateway = Gateway(world.source(), sessions=sealed())
        outside = await world.outside(gateway, max_sessions=2)
        sessions = [await outside.opened(**chosen(A)) for _ in range(3)]
        assert len(gateway.session_sets) <= 2
        # The longest idle went, and comes back when it is asked for.
        assert await outside.tools(sessions[0]) == BOTH[:2]


@pytest.mark.attack("S01")
async def test_an_id_is_good_for_nobody_but_whose_it_is() -> None:
    def auth() -> ResourceServer:
        tokens = StaticTokens({"ann-token": "ann", "bob-token": "bob"})
        return ResourceServer(
            "https://gateway.example/mcp",
            authorization_servers=["https://login.example"],
            verifiers=[tokens],
        )

    def gateway() -> Gateway:
        return Gateway(world.source(), sessions=sealed(), auth=auth())

    ann = {"authorization": "Bearer ann-token"}
    bob = {"authorization": "Bearer bob-token"}
    async with a_world() as world:
        before = await world.outside(gateway())
        answer = await before.initialize(**ann, **chosen(A))
        session = answer.headers["mcp-session-id"]
        after = await world.outside(gateway())
        for outside in (before, after):
            assert (await outside.initialize(session, **bob)).status_code == 404
            assert (await outside.initialize(session)).status_code == 401
            assert (await outside.initialize(session, **ann)).status_code == 200


@pytest.mark.system("O24")
@pytest.mark.parametrize("share", ["session", "identity"])
async def test_what_changes_is_told_to_a_session_that_was_gone_on_with(
    share: Any,
) -> None:
    async with a_world(**SESSIONS) as world:
        options: Any = {"share": share}
        before = await world.outside(
            Gateway(world.source(), sessions=sealed(), **options)
        )
        session = await before.opened(**chosen(A))
        await before.http.aclose()
        after = await world.outside(
            Gateway(world.source(), sessions=sealed(), **options)
        )
        assert await after.tools(session) == BOTH[:2]
        heard = after.http.stream("GET", "/mcp", headers=fields_of(session))
        async with heard as stream:

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
async def test_delete_ends_the_session_at_all_servers_and_for_good(ids: Any) -> None:
    async with a_world(**SESSIONS) as world:
        outside = await world.outside(Gateway(world.source(), sessions=ids()))
        session = await outside.opened(**chosen(A, B))
        assert await outside.delete(session) == 204
        assert "DELETE" in world.a.verbs()
        assert "DELETE" in world.b.verbs()
        assert await outside.status(session) == 404
        assert (await outside.initialize(session)).status_code == 404
        assert await outside.delete(session) == 404


@pytest.mark.system("O57")
async def test_delete_ends_the_session_whatever_a_server_says_to_its_own() -> None:
    async with a_world(**SESSIONS) as world:
        outside = await world.outside(Gateway(world.source(), sessions=sealed()))
        session = await outside.opened(**chosen(A, B))
        world.a.may_answer = lambda: world.a.seen[-1].verb != "DELETE"
        assert await outside.delete(session) == 204
        for behind in (world.a, world.b):
            assert behind.verbs().count("DELETE") == 1
        assert await outside.status(session) == 404


@pytest.mark.system("O57")
async def test_delete_of_a_session_of_another_process_ends_what_it_left() -> None:
    async with a_world(**SESSIONS) as world:
        before = await world.outside(Gateway(world.source(), sessions=sealed()))
        session = await before.opened(**chosen(A, B, a={"Authorization": "Bearer a"}))
        ids = {*world.a.all("mcp-session-id")} - {None}
        after = await world.outside(Gateway(world.source(), sessions=sealed()))
        assert await after.delete(session) == 204
        (seen,) = [each for each in world.a.seen if each.verb == "DELETE"]
        assert seen.headers["mcp-session-id"] in ids
        assert seen.headers["authorization"] == "Bearer a"
        assert "DELETE" in world.b.verbs()
        assert await after.delete(session) == 404
        assert (await after.initialize(session)).status_code == 404


@pytest.mark.system("O29", "L-O10")
async def test_what_is_dropped_ends_and_never_comes_back() -> None:
    async with a_world() as world:
        gateway = Gateway(world.source(), sessions=sealed())
        outside = await world.outside(gateway)
        session = await outside.opened(**chosen(A))
        assert gateway.drop(session)
        assert not gateway.drop(session)
        assert not gateway.drop("unknown")
        assert await outside.status(session) == 404
        assert (await outside.initialize(session)).status_code == 404
        assert gateway.session_sets == set()


@pytest.mark.system("O29")
async def test_what_is_dropped_while_it_is_being_resumed_is_not_left_open() -> None:
    async with a_world() as world:
        before = await world.outside(Gateway(world.source(), sessions=sealed()))
        session = await before.opened(**chosen(A))
        await before.http.aclose()
        gateway = Gateway(world.source(), sessions=sealed())
        after = await world.outside(gateway)

        def drop() -> bool:
            gateway.drop(session)
            return True

        world.a.may_answer = drop
        assert (await after.initialize(session)).status_code == 404
        world.a.may_answer = lambda: True
        assert gateway.session_sets == set()
        assert (await after.initialize(session)).status_code == 404


async def test_the_session_of_one_path_is_none_of_another() -> None:
    async with a_world() as world:
        gateway = Gateway(world.static(), sessions=sealed())
        outside = await world.outside(gateway, paths=True)
        session = await outside.opened(path="/mcp/a")
        assert await outside.tools(session, path="/mcp/a") == ["fail", "whoami"]
        assert (await outside.initialize(session)).status_code == 404
        assert (await outside.initialize(session, path="/mcp/b")).status_code == 404


async def test_a_choice_that_is_not_allowed_any_more_is_refused() -> None:
    async with a_world() as world:
        before = await world.outside(Gateway(world.source(), sessions=sealed()))
        session = await before.opened(**chosen(A))
        denying = world.source(deny_urls=["a.example"])
        after = await world.outside(Gateway(denying, sessions=sealed()))
        error = (await after.initialize(session)).json()["error"]
        assert (error["code"], "deny-list" in error["message"]) == (-32600, True)
        static = await world.outside(Gateway(world.static(), sessions=sealed()))
        error = (await static.initialize(session)).json()["error"]
        assert "does not let clients choose" in error["message"]


async def test_a_session_whose_id_would_be_too_long_is_refused() -> None:
    async with a_world() as world:
        gateway = Gateway(world.source(), sessions=sealed(max_length=400))
        outside = await world.outside(gateway)
        fields = chosen(A, a={"X-Long": "x" * 400})
        error = (await outside.initialize(**fields)).json()["error"]
        assert error["code"] == -32600
        assert gateway.session_sets == set()
