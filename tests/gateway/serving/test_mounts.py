"""A gateway over HTTP: one path or several, how the servers are, who may ask."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from world import HEADERS, OUTSIDE, SESSIONS, A, B, a_world, chosen, message_of

from mcpwire import Client, Context, Http
from mcpwire.gateway import Gateway, SealedIds
from mcpwire.gateway.serving import Mounts
from mcpwire.server.auth import ResourceServer, StaticTokens
from mcpwire.testing import AsgiTransport

# Paths...


@pytest.mark.system("O45")
@pytest.mark.parametrize("root_path", ["", "/under"])
async def test_each_server_has_a_path_with_its_own_names(root_path: str) -> None:
    async with a_world() as world:
        gateway = Gateway(world.static())
        outside = await world.outside(gateway, paths=True, root_path=root_path)
        for path, names in {
            "/mcp": ["a_fail", "a_whoami", "b_fail", "b_whoami"],
            "/mcp/a": ["fail", "whoami"],
            "/mcp/b/": ["fail", "whoami"],
        }.items():
            session = await outside.opened(path=root_path + path)
            assert await outside.tools(session, path=root_path + path) == names
        session = await outside.opened(path=f"{root_path}/mcp/b")
        answer = await outside.call(session, "whoami", path=f"{root_path}/mcp/b")
        assert answer["result"]["content"][0]["text"] == "b"
        for path in ("/mcp/c", "/mcp/a/b", "/a"):
            answer = await outside.initialize(path=root_path + path)
            assert answer.status_code == 404


async def test_what_is_denied_is_denied_at_each_path() -> None:
    async with a_world() as world:
        gateway = Gateway(world.static(), deny=["a_whoami", "b/fail"])
        outside = await world.outside(gateway, paths=True)
        for path, names in {
            "/mcp": ["a_fail", "b_whoami"],
            "/mcp/a": ["fail"],
            "/mcp/b": ["whoami"],
        }.items():
            session = await outside.opened(path=path)
            assert await outside.tools(session, path=path) == names
        session = await outside.opened(path="/mcp/a")
        answer = await outside.call(session, "whoami", path="/mcp/a")
        assert answer["error"]["code"] == -32602


@pytest.mark.system("L-O7")
async def test_sessions_that_nobody_uses_keep_nobody_out() -> None:
    async with a_world() as world:
        gateway = Gateway(world.static(), max_upstream_sets=2)
        outside = await world.outside(gateway, paths=True)
        first = await outside.opened(path="/mcp/a")
        second = await outside.opened()
        assert (await outside.post("ping", {}, first, path="/mcp/a")).status_code == 200
        for _ in range(3):
            newest = await outside.opened()
            assert len(gateway.session_sets) == 2
        # Whose it was opens it again by coming back.
        for session in (second, newest):
            assert "a_whoami" in await outside.tools(session)
            assert len(gateway.session_sets) == 2


async def test_without_paths_there_is_one() -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.static()))
        assert (await outside.initialize(path="/mcp/a")).status_code == 404
        assert (await outside.http.get("/status")).status_code == 404


async def test_paths_come_and_go_with_their_servers() -> None:
    async with a_world() as world:
        servers = world.static()
        gateway = Gateway({"a": servers["a"]})
        outside = await world.outside(gateway, paths=True)
        assert (await outside.initialize(path="/mcp/b")).status_code == 404
        await gateway.replace({"b": servers["b"]})
        assert (await outside.initialize(path="/mcp/b")).status_code == 200
        assert (await outside.initialize(path="/mcp/a")).status_code == 404


@pytest.mark.system("O45")
async def test_each_server_that_a_client_chose_has_a_path_with_its_own_names() -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.source()), paths=True)
        fields = chosen(A, B)
        session = await outside.opened(path="/mcp/b-example", **fields)
        names = ["fail", "whoami"]
        assert await outside.tools(session, path="/mcp/b-example") == names
        answer = await outside.call(session, "whoami", path="/mcp/b-example/")
        assert answer["result"]["content"][0]["text"] == "b"
        refused = await outside.initialize(path="/mcp/c-example", **fields)
        assert "no server that was chosen is called 'c-example'" in refused.text
        assert (await outside.initialize(path="/mcp/b/c", **fields)).status_code == 404
        whole = await outside.opened(**fields)
        assert len(await outside.tools(whole)) == 4


@pytest.mark.system("O45")
async def test_a_session_at_a_path_of_a_chosen_server_is_resumed_with_its_names() -> (
    None
):
    async with a_world() as world:
        sessions = SealedIds([b"k" * 32])
        path, fields = "/mcp/b-example", chosen(A, B)
        first = await world.outside(
            Gateway(world.source(), sessions=sessions), paths=True
        )
        session = await first.opened(path=path, **fields)
        second = await world.outside(
            Gateway(world.source(), sessions=SealedIds([b"k" * 32])), paths=True
        )
        assert await second.tools(session, path=path) == ["fail", "whoami"]
        answer = await second.post("tools/list", {}, session)
        assert answer.status_code == 404  # it is none of all servers


# How the servers are...


async def test_the_status_names_no_servers_that_somebody_chose() -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.source()), status="/status")
        await outside.opened(**chosen(A))
        shown = await outside.http.get("/status")
        assert shown.json()["sessions"] == 1
        assert "example" not in shown.text


@pytest.mark.system("O46")
async def test_the_status_says_how_the_servers_are_and_no_secrets() -> None:
    async with a_world() as world:
        servers = world.static()
        servers["bad"] = Http(
            "https://user.example/mcp?key=secret", http_client=world.inside
        )
        gateway = Gateway(servers)
        outside = await world.outside(gateway, status="/status")
        session = await outside.opened()
        await outside.call(session, "a_whoami")
        answer = await outside.http.get("/status")
        assert answer.status_code == 200
        assert "secret" not in answer.text
        assert session not in answer.text
        (found,) = answer.json()["sets"]
        states = {each["name"]: each["state"] for each in found["servers"]}
        assert states == {"a": "ready", "b": "ready", "bad": "failed"}
        assert (await outside.http.head("/status")).status_code == 200
        assert (await outside.http.post("/status")).status_code == 405


@pytest.mark.system("L-O8")
async def test_the_status_is_for_whom_may_ask() -> None:
    async with a_world() as world:
        tokens = StaticTokens({"good": "ann"})
        auth = ResourceServer(
            "https://gateway.example/mcp",
            authorization_servers=["https://login.example"],
            verifiers=[tokens],
        )
        gateway = Gateway(world.static(), auth=auth)
        outside = await world.outside(gateway, status="/status", paths=True)
        get = outside.http.get
        assert (await get("/status")).status_code == 401
        good = {"authorization": "Bearer good"}
        assert (await get("/status", headers=good)).status_code == 200
        evil = {"origin": "https://evil.example", **good}
        assert (await get("/status", headers=evil)).status_code == 403
        for path in ("/mcp", "/mcp/a"):
            assert (await outside.initialize(path=path)).status_code == 401
            answer = await outside.initialize(path=path, **good)
            assert answer.status_code == 200


@pytest.mark.system("L-O8")
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": "gateway.example"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/a"])
async def test_hosts_and_origins_are_checked_at_each_path(
    path: str, fields: dict[str, str], status: int
) -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.static()), paths=True)
        answer = await outside.initialize(path=path, **fields)
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"status": "status"}, ValueError),
        ({"path": "mcp"}, ValueError),
        ({"nonsense": 1}, TypeError),
    ],
)
def test_what_is_no_option_is_said_at_once(options: Any, error: Any) -> None:
    with pytest.raises(error):
        Gateway({}).asgi(**options)


def test_it_shows_in_one_line() -> None:
    assert repr(Gateway({}).asgi()) == (
        "<Mounts of <Gateway 'mcpwire-gateway', Static()> at /mcp>"
    )


# What the gateway has of a server over HTTP...


@pytest.mark.system("O50", "O51", "O54")
@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        ("[", {}, 400, -32700),
        ("{}", {"accept": "application/json"}, 406, -32600),
        ("{}", {"accept": "text/html"}, 406, -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"x"}', {}, 400, -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"initialize"}', {}, 200, -32602),
    ],
)
async def test_what_is_wrong_on_the_wire_is_an_error(
    content: str, headers: Any, status: int, code: int
) -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.static()))
        fields = {**HEADERS, **headers}
        answer = await outside.http.post("/mcp", content=content, headers=fields)
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == code


@pytest.mark.system("O50")
@pytest.mark.parametrize(
    "accept",
    ["*/*", "Application/JSON;q=1, TEXT/event-stream", "application/*, text/*"],
)
async def test_all_ways_to_accept_both_are_understood(accept: str) -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.static()))
        assert (await outside.initialize(accept=accept)).status_code == 200


@pytest.mark.system("O52", "O55")
async def test_methods_answer_as_those_of_a_server_do() -> None:
    async with a_world() as world:
        outside = await world.outside(Gateway(world.static()))
        session = await outside.opened()

        async def code(method: str, params: Any = None) -> Any:
            answer = await outside.post(method, params, session)
            return message_of(answer).get("error", {}).get("code")

        assert await code("ping") is None
        assert await code("nonsense") == -32601
        assert await code("tools/call", {"name": 1}) == -32602
        assert await code("tools/call", {"name": "c_whoami"}) == -32602
        assert await code("resources/read", {}) in {-32601, -32602}


@pytest.mark.system("O56", "L-O3")
async def test_events_that_a_client_missed_are_sent_again() -> None:
    async with a_world(**SESSIONS) as world:
        go_on = asyncio.Event()

        @world.a.server.tool
        async def work(ctx: Context) -> str:
            ctx.progress(1, 2)
            await go_on.wait()
            ctx.progress(2, 2)
            return "done"

        outside = await world.outside(Gateway(world.static()))
        session = await outside.opened()
        fields = {**HEADERS, "mcp-session-id": session}
        call = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "a_work", "_meta": {"progressToken": "t"}},
        }
        request = outside.http.stream("POST", "/mcp", json=call, headers=fields)
        async with request as answer:
            seen = ""
            async for piece in answer.aiter_text():
                seen += piece
                if "progressToken" in seen:
                    break
        last = [line for line in seen.split("\n") if line.startswith("id: ")][-1]
        go_on.set()
        fields |= {"last-event-id": last.removeprefix("id: ")}
        again = await outside.http.get("/mcp", headers=fields)
        events = [
            json.loads(line.removeprefix("data: "))
            for line in again.text.split("\n")
            if line.startswith("data: {")
        ]
        assert [each.get("method", each.get("id")) for each in events] == [
            "notifications/progress",
            7,
        ]
        assert events[1]["result"]["content"][0]["text"] == "done"


@pytest.mark.system("O56")
async def test_what_a_server_tells_of_its_lists_reaches_the_stream_of_the_client() -> (
    None
):
    async with a_world(**SESSIONS) as world:
        gateway = Gateway(world.static())
        app = gateway.asgi(allowed_hosts=["gateway.example"])
        http = httpx.AsyncClient(transport=AsgiTransport(app), base_url=OUTSIDE)
        heard = asyncio.Event()

        def listen(notification: Any) -> None:
            if notification.method == "notifications/tools/list_changed":
                heard.set()

        async with http:
            target = Http(f"{OUTSIDE}/mcp", http_client=http)
            async with Client(target, mode="2025-11-25", on_notification=listen) as c:
                await c.list_tools()

                @world.a.server.tool
                async def later() -> str:
                    return "new"

                await heard.wait()
                assert "a_later" in [tool.name for tool in await c.list_tools()]


@pytest.mark.system("L-O12")
async def test_the_log_of_requests_has_no_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    async with a_world() as world:
        outside = await world.outside(Gateway(world.source()))
        fields = chosen(A, B, a={"Authorization": "Bearer hidden-token"})
        session = await outside.opened(**fields)
        await outside.call(session, "a-example_whoami")
        await outside.delete(session)
    assert "POST" in caplog.text
    assert "hidden-token" not in caplog.text
    assert session not in caplog.text


# Its life...


async def test_it_can_be_started_drained_and_closed_by_hand() -> None:
    async with a_world() as world:
        gateway = Gateway(world.static())
        app = gateway.asgi(paths=True, allowed_hosts=["*"])
        assert isinstance(app, Mounts)
        transport = AsgiTransport(app, lifespan=False)
        await app.start()
        async with httpx.AsyncClient(transport=transport, base_url=OUTSIDE) as http:
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            }
            for path in ("/mcp", "/mcp/a"):
                answer = await http.post(path, json=body, headers=HEADERS)
                assert answer.status_code == 200
            assert len(gateway.session_sets) == 2
            await app.drain(0)
            answer = await http.post("/mcp/a", json=body, headers=HEADERS)
            assert answer.status_code == 503
            await app.aclose()
            assert gateway.session_sets == set()
