"""A gateway over HTTP: one path or several, the status page and access to it."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from world import (
    ANN,
    HEADERS,
    INITIALIZE,
    OUTSIDE,
    SESSIONS,
    STATELESS_META,
    A,
    B,
    a_world,
    chosen,
    fields_of,
    message_of,
    users,
)

from mcpwire import Client, Context, Http
from mcpwire.gateway import Gateway, Plan, SealedIds, Static
from mcpwire.gateway.serving import Mounts
from mcpwire.testing import AsgiTransport
from mcpwire.testing.asgi import Lifespan
from mcpwire.wire import jsonrpc


@pytest.mark.system("O45")
@pytest.mark.parametrize("root_path", ["", "/under"])
async def test_each_server_has_a_path_with_unprefixed_tool_names(root_path):
    async with a_world() as world:
        gateway = Gateway(world.static())
        client = await world.client_for(gateway, paths=True, root_path=root_path)
        for path, names in {
            "/mcp": ["a_fail", "a_whoami", "b_fail", "b_whoami"],
            "/mcp/a": ["fail", "whoami"],
            "/mcp/b/": ["fail", "whoami"],
        }.items():
            session = await client.opened(path=root_path + path)
            assert await client.tools(session, path=root_path + path) == names
        session = await client.opened(path=f"{root_path}/mcp/b")
        response = await client.call(session, "whoami", path=f"{root_path}/mcp/b")
        assert response["result"]["content"][0]["text"] == "b"
        for path in ("/mcp/c", "/mcp/a/b", "/a"):
            response = await client.initialize(path=root_path + path)
            assert response.status_code == 404


async def test_deny_rules_apply_at_each_path():
    async with a_world() as world:
        gateway = Gateway(world.static(), deny=["a_whoami", "b/fail"])
        client = await world.client_for(gateway, paths=True)
        for path, names in {
            "/mcp": ["a_fail", "b_whoami"],
            "/mcp/a": ["fail"],
            "/mcp/b": ["whoami"],
        }.items():
            session = await client.opened(path=path)
            assert await client.tools(session, path=path) == names
        session = await client.opened(path="/mcp/a")
        response = await client.call(session, "whoami", path="/mcp/a")
        assert response["error"]["code"] == -32602


@pytest.mark.system("L-O7")
async def test_idle_sessions_do_not_block_new_sessions():
    async with a_world() as world:
        gateway = Gateway(world.static(), max_upstream_sets=2)
        client = await world.client_for(gateway, paths=True)
        first = await client.opened(path="/mcp/a")
        second = await client.opened()
        assert (await client.post("ping", {}, first, path="/mcp/a")).status_code == 200
        for _ in range(3):
            newest = await client.opened()
            assert len(gateway.pool.session_sets) == 2
        # A session whose set was evicted reconnects with its next request.
        for session in (second, newest):
            assert "a_whoami" in await client.tools(session)
            assert len(gateway.pool.session_sets) == 2


async def test_without_paths_there_is_only_the_mcp_path():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.static()))
        assert (await client.initialize(path="/mcp/a")).status_code == 404
        assert (await client.http.get("/status")).status_code == 404


async def test_paths_are_added_and_removed_by_replace():
    async with a_world() as world:
        servers = world.static()
        gateway = Gateway({"a": servers["a"]})
        client = await world.client_for(gateway, paths=True)
        assert (await client.initialize(path="/mcp/b")).status_code == 404
        await gateway.replace({"b": servers["b"]})
        assert (await client.initialize(path="/mcp/b")).status_code == 200
        assert (await client.initialize(path="/mcp/a")).status_code == 404


@pytest.mark.system("O45")
async def test_each_chosen_server_has_a_path_with_unprefixed_tool_names():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source()), paths=True)
        fields = chosen(A, B)
        session = await client.opened(path="/mcp/b-example", **fields)
        names = ["fail", "whoami"]
        assert await client.tools(session, path="/mcp/b-example") == names
        response = await client.call(session, "whoami", path="/mcp/b-example/")
        assert response["result"]["content"][0]["text"] == "b"
        refused = await client.initialize(path="/mcp/c-example", **fields)
        assert "no server that was chosen is called 'c-example'" in refused.text
        assert (await client.initialize(path="/mcp/b/c", **fields)).status_code == 404
        whole = await client.opened(**fields)
        assert len(await client.tools(whole)) == 4


@pytest.mark.system("O45")
async def test_session_at_the_path_of_a_chosen_server_is_resumed():
    async with a_world() as world:
        sessions = SealedIds([b"k" * 32])
        path, fields = "/mcp/b-example", chosen(A, B)
        first = await world.client_for(
            Gateway(world.source(), sessions=sessions), paths=True
        )
        session = await first.opened(path=path, **fields)
        second = await world.client_for(
            Gateway(world.source(), sessions=SealedIds([b"k" * 32])), paths=True
        )
        assert await second.tools(session, path=path) == ["fail", "whoami"]
        response = await second.post("tools/list", {}, session)
        assert response.status_code == 404  # the session belongs to the other path


class ByTenant:
    """A source that chooses the servers itself, for every client the same."""

    def __init__(self, servers: dict[str, Any]) -> None:
        self._plan = Static(servers).plan()

    def plan(self, info: Any, params: Any) -> Plan:
        return self._plan


@pytest.mark.system("O45")
@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("source", ["static", "headers", "custom"])
async def test_session_is_unknown_at_every_path_but_its_own(source, is_resumed):
    async with a_world() as world:
        fields = chosen(A, B) if source == "headers" else {}
        one, two = ("a-example", "b-example") if fields else ("a", "b")

        async def start() -> Any:
            servers: Any = {
                "static": world.static,
                "headers": world.source,
                "custom": lambda: ByTenant(world.static()),
            }[source]()
            sessions = SealedIds([b"k" * 32])
            gateway = Gateway(servers, sessions=sessions)
            return await world.client_for(gateway, paths=True)

        client = await start()
        session = await client.opened(path=f"/mcp/{two}", **fields)
        whole = await client.opened(**fields)
        if is_resumed:
            client = await start()
        elsewhere = f"/mcp/{one}"
        for id, path in (session, elsewhere), (session, "/mcp"), (whole, elsewhere):
            for method in ("initialize", "tools/list"):
                response = await client.post(method, INITIALIZE, id, path=path)
                assert response.status_code == 404
            response = await client.http.get(path, headers=fields_of(id))
            assert response.status_code == 404
            assert await client.delete(id, path=path) == 404
        response = await client.call(session, "whoami", path=f"/mcp/{two}/")
        assert response["result"]["content"][0]["text"] == "b"
        assert len(await client.tools(whole)) == 4


async def test_status_shows_no_servers_chosen_by_clients():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source()), status="/status")
        await client.opened(**chosen(A))
        response = await client.http.get("/status")
        assert response.json()["sessions"] == 1
        assert "example" not in response.text


@pytest.mark.system("O46")
async def test_status_shows_server_states_without_secrets():
    async with a_world() as world:
        servers = world.static()
        servers["bad"] = Http(
            "https://user.example/mcp?key=secret", http_client=world.upstream_http
        )
        gateway = Gateway(servers)
        client = await world.client_for(gateway, status="/status")
        session = await client.opened()
        await client.call(session, "a_whoami")
        response = await client.http.get("/status")
        assert response.status_code == 200
        assert "secret" not in response.text
        assert session not in response.text
        (found,) = response.json()["sets"]
        states = {each["name"]: each["state"] for each in found["servers"]}
        assert states == {"a": "ready", "b": "ready", "bad": "failed"}
        assert (await client.http.head("/status")).status_code == 200
        assert (await client.http.post("/status")).status_code == 405


@pytest.mark.system("L-O8")
async def test_status_requires_authorization_and_an_allowed_origin():
    async with a_world() as world:
        gateway = Gateway(world.static(), auth=users())
        client = await world.client_for(gateway, status="/status", paths=True)
        get = client.http.get
        assert (await get("/status")).status_code == 401
        assert (await get("/status", headers=ANN)).status_code == 200
        evil = {"origin": "https://evil.example", **ANN}
        assert (await get("/status", headers=evil)).status_code == 403
        for path in ("/mcp", "/mcp/a"):
            assert (await client.initialize(path=path)).status_code == 401
            response = await client.initialize(path=path, **ANN)
            assert response.status_code == 200


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
async def test_hosts_and_origins_are_checked_at_each_path(path, fields, status):
    async with a_world() as world:
        client = await world.client_for(Gateway(world.static()), paths=True)
        response = await client.initialize(path=path, **fields)
        assert response.status_code == status


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"status": "status"}, ValueError),
        ({"path": "mcp"}, ValueError),
        ({"nonsense": 1}, TypeError),
    ],
)
def test_invalid_option_is_refused_by_asgi(options, error):
    with pytest.raises(error):
        Gateway({}).asgi(**options)


def test_repr_is_one_line():
    assert repr(Gateway({}).asgi()) == (
        "<Mounts of <Gateway 'mcpwire-gateway', Static()> at /mcp>"
    )


# What the gateway has in common with a server over HTTP...


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
async def test_invalid_http_request_is_answered_with_an_error(
    content, headers, status, code
):
    async with a_world() as world:
        client = await world.client_for(Gateway(world.static()))
        fields = {**HEADERS, **headers}
        response = await client.http.post("/mcp", content=content, headers=fields)
        assert response.status_code == status
        assert response.json()["error"]["code"] == code


@pytest.mark.system("O50")
@pytest.mark.parametrize(
    "accept",
    ["*/*", "Application/JSON;q=1, TEXT/event-stream", "application/*, text/*"],
)
async def test_accept_header_wildcards_case_and_parameters_are_understood(accept):
    async with a_world() as world:
        client = await world.client_for(Gateway(world.static()))
        assert (await client.initialize(accept=accept)).status_code == 200


@pytest.mark.system("O52", "O55")
async def test_error_codes_match_those_of_a_server():
    async with a_world() as world:
        client = await world.client_for(Gateway(world.static()))
        session = await client.opened()

        async def code(method: str, params: Any = None) -> Any:
            response = await client.post(method, params, session)
            return message_of(response).get("error", {}).get("code")

        assert await code("ping") is None
        assert await code("nonsense") == -32601
        assert await code("tools/call", {"name": 1}) == -32602
        assert await code("tools/call", {"name": "c_whoami"}) == -32602
        assert await code("resources/read", {}) in {-32601, -32602}


@pytest.mark.system("O56", "L-O3")
async def test_missed_events_are_replayed_after_last_event_id():
    async with a_world(**SESSIONS) as world:
        go_on = asyncio.Event()

        @world.a.server.tool
        async def work(ctx: Context) -> str:
            ctx.progress(1, 2)
            await go_on.wait()
            ctx.progress(2, 2)
            return "done"

        client = await world.client_for(Gateway(world.static()))
        session = await client.opened()
        fields = {**HEADERS, "mcp-session-id": session}
        params = {"name": "a_work", "_meta": {"progressToken": "t"}}
        call = jsonrpc.request(7, "tools/call", params)
        request = client.http.stream("POST", "/mcp", json=call, headers=fields)
        async with request as response:
            received = ""
            async for chunk in response.aiter_text():
                received += chunk
                if "progressToken" in received:
                    break
        last = [line for line in received.split("\n") if line.startswith("id: ")][-1]
        go_on.set()
        fields |= {"last-event-id": last.removeprefix("id: ")}
        replayed = await client.http.get("/mcp", headers=fields)
        events = [
            json.loads(line.removeprefix("data: "))
            for line in replayed.text.split("\n")
            if line.startswith("data: {")
        ]
        assert [each.get("method", each.get("id")) for each in events] == [
            "notifications/progress",
            7,
        ]
        assert events[1]["result"]["content"][0]["text"] == "done"


@pytest.mark.system("O56")
async def test_list_changed_of_a_server_reaches_the_clients_stream():
    async with a_world(**SESSIONS) as world:
        gateway = Gateway(world.static())
        app = gateway.asgi(allowed_hosts=["gateway.example"])
        http = httpx.AsyncClient(transport=AsgiTransport(app), base_url=OUTSIDE)
        notified = asyncio.Event()

        def listen(notification: Any) -> None:
            if notification.method == "notifications/tools/list_changed":
                notified.set()

        async with http:
            target = Http(f"{OUTSIDE}/mcp", http_client=http)
            async with Client(target, mode="2025-11-25", on_notification=listen) as c:
                await c.list_tools()

                @world.a.server.tool
                async def later() -> str:
                    return "new"

                await notified.wait()
                assert "a_later" in [tool.name for tool in await c.list_tools()]


@pytest.mark.system("L-O12")
async def test_request_log_has_no_secrets(caplog):
    caplog.set_level("DEBUG")
    async with a_world() as world:
        client = await world.client_for(Gateway(world.source()))
        fields = chosen(A, B, a={"Authorization": "Bearer hidden-token"})
        session = await client.opened(**fields)
        await client.call(session, "a-example_whoami")
        await client.delete(session)
    assert "POST" in caplog.text
    assert "hidden-token" not in caplog.text
    assert session not in caplog.text


async def test_app_can_be_started_drained_and_closed_without_lifespan():
    async with a_world() as world:
        gateway = Gateway(world.static())
        app = gateway.asgi(paths=True, allowed_hosts=["*"])
        assert isinstance(app, Mounts)
        transport = AsgiTransport(app, lifespan=False)
        await app.start()
        async with httpx.AsyncClient(transport=transport, base_url=OUTSIDE) as http:
            body = jsonrpc.request(1, "initialize", INITIALIZE)
            for path in ("/mcp", "/mcp/a"):
                response = await http.post(path, json=body, headers=HEADERS)
                assert response.status_code == 200
            assert len(gateway.pool.session_sets) == 2
            body["method"] = "subscriptions/listen"
            body["params"] = {"notifications": {}, "_meta": STATELESS_META}
            head = {**HEADERS, "mcp-protocol-version": "2026-07-28"}
            head["mcp-method"] = "subscriptions/listen"
            async with http.stream("POST", "/mcp/a", json=body, headers=head) as r:
                lines = (line async for line in r.aiter_lines() if "data:" in line)
                await anext(lines)  # the acknowledgement
                await app.drain(0)
                assert '"result":{"resultType":"complete"' in await anext(lines)
            for path in ("/mcp/a", "/mcp/b"):  # b was not used before
                response = await http.post(path, json=body, headers=head)
                assert response.status_code == 503
            await app.aclose()
            assert gateway.pool.session_sets == set()
            lifespan = Lifespan(app)
            await lifespan.start()
            assert (await http.get("/mcp/a")).status_code != 503
            await lifespan.stop()
