"""How a gateway connects to its servers: in parallel, skipping failures or raising."""

import asyncio
import gc
import weakref

import pytest
from clocks import on_a_virtual_clock
from gateway_servers import ERAS, Counted, client_of, fake, named, through, tool_names
from loop_polling import until

import mcpwire
from mcpwire.errors import InvalidRequest
from mcpwire.gateway import Gateway, Plan, Planned, Static
from mcpwire.gateway import dispatcher as dispatching
from mcpwire.gateway import upstreams as opening
from mcpwire.gateway.upstream import RelayClient
from mcpwire.group.member import Member

both_eras = pytest.mark.parametrize("era", ERAS)

NOT_THERE = "/nowhere/at/all"


@both_eras
@pytest.mark.system("O33", "L-O5", "L-O16")
async def test_unreachable_server_is_skipped_and_the_status_shows_the_error(
    era, caplog
):
    gateway = Gateway({"gone": NOT_THERE, "a": named("a", "x")})
    async with client_of(gateway, era) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
        [status] = gateway.status()["sets"]
        gone, there = status["servers"]
        assert (gone["name"], gone["state"]) == ("gone", "failed")
        assert "command not found" in gone["error"]
        # A client with a session has sessions at the servers that know them.
        assert (there["state"], there["protocolVersion"]) == ("ready", era)
        assert there["serverInfo"]["name"] == "a"
    assert [r.server for r in caplog.records if hasattr(r, "server")] == ["gone"]


@both_eras
@pytest.mark.system("O33", "L-O6", "L-O16")
async def test_on_error_raise_refuses_the_session_at_the_first_failure(era):
    gateway = Gateway(
        {"a": named("a", "x"), "gone": NOT_THERE, "b": hanging()}, on_error="raise"
    )
    with pytest.raises((mcpwire.RPCError, mcpwire.NegotiationError)) as caught:
        async with client_of(gateway, era):
            pass
    text = f"{caught.value} {getattr(caught.value, 'negotiation', '')}"
    assert "'gone' could not be connected to" in text
    assert not gateway.pool.session_sets
    assert len(gateway.pool.shared) == 0


def hanging():
    """Return a server that never agrees."""
    from fakes import SILENCE

    silent = {m: lambda p, s: SILENCE for m in ("initialize", "server/discover")}
    return fake(methods=silent)


@pytest.mark.system("O33")
async def test_servers_are_connected_in_parallel():
    both = asyncio.Barrier(2)

    def meeting(name):
        server = named(name, "x")

        @server.middleware("tools/list")
        async def wait(params, request, call_next):
            await both.wait()
            return await call_next(params, request)

        return server

    async with through({"a": meeting("a"), "b": meeting("b")}) as client:
        assert tool_names(await client.list_tools()) == ["a_x", "b_x"]


async def test_concurrency_limits_simultaneous_connects(monkeypatch):
    connecting, most = 0, []
    connect = RelayClient.connect

    async def counted(self):
        nonlocal connecting
        connecting += 1
        most.append(connecting)
        await connect(self)
        connecting -= 1

    monkeypatch.setattr(RelayClient, "connect", counted)
    servers = {name: named(name, "x") for name in "abcdef"}
    async with through(servers, concurrency=2) as client:
        assert len(await client.list_tools()) == 6
    assert max(most) == 2


@both_eras
@pytest.mark.system("L-O5")
async def test_server_that_starts_late_is_connected_and_clients_are_notified(
    era, monkeypatch
):
    monkeypatch.setattr(opening, "RETRY_S", 0.0)
    late = Counted(named("b", "y"), is_there=False)
    async with through({"a": named("a", "x"), "b": late}, era) as client:
        async with client.listen(tools=True) as events:
            assert tool_names(await client.list_tools()) == ["a_x"]
            late.is_there = True
            await client.list_tools()
            async for _ in events:
                break
        assert tool_names(await client.list_tools()) == ["a_x", "b_y"]
        assert (await client.call_tool("b_y")).text == "b.y()"


@pytest.mark.system("L-O6")
async def test_failed_server_is_not_retried_within_the_retry_interval():
    late = Counted(named("b", "y"), is_there=False)
    async with through({"b": late}) as client:
        for _ in range(3):
            assert await client.list_tools() == []
        with pytest.raises(mcpwire.InvalidParams):
            await client.call_tool("b_y")
    assert late.opened == 1


@on_a_virtual_clock
async def test_new_server_does_not_wait_for_the_retry_of_another(monkeypatch):
    monkeypatch.setattr(opening, "RETRY_S", 0.0)
    late = Counted(hanging(), is_there=False)
    gateway = Gateway({"b": late}, concurrency=1)
    async with client_of(gateway) as client:
        late.is_there = True
        await client.list_tools()
        await until(lambda: late.opened == 2)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await gateway.replace({"b": late, "a": named("a", "x")})
        assert loop.time() - began < 1
        assert tool_names(await client.list_tools()) == ["a_x"]


@both_eras
@on_a_virtual_clock
async def test_only_the_first_session_waits_for_a_server_that_does_not_answer(era):
    server = Counted(hanging())
    loop = asyncio.get_running_loop()
    waits = []
    async with Gateway({"b": server}, connect_timeout=20) as gateway:

        async def first_tools() -> list[str]:
            began = loop.time()
            async with mcpwire.Client(gateway, mode=era) as client:
                names = tool_names(await client.list_tools())
            waits.append(round(loop.time() - began))
            # The next client of a shared set opens a new one.
            await gateway.aclose()
            return names

        assert [await first_tools() for _ in range(3)] == [[], [], []]
        assert waits == [20, 1, 1]
        async with mcpwire.Client(gateway, mode=era) as client:
            async with client.listen(tools=True) as events:
                server.server = named("b", "y")
                await asyncio.sleep(60)
                await client.list_tools()
                async for _ in events:
                    break
            assert tool_names(await client.list_tools()) == ["b_y"]
        await gateway.aclose()
        assert await first_tools() == ["b_y"]


@both_eras
@pytest.mark.parametrize("hangs", [True, False], ids=["silent", "refusing"])
@on_a_virtual_clock
async def test_server_that_answers_again_is_in_the_first_list(era, hangs):
    server = Counted(hanging() if hangs else named("b", "y"), is_there=hangs)
    async with Gateway({"b": server}, connect_timeout=20) as gateway:
        for names in ([], ["b_y"]):
            async with mcpwire.Client(gateway, mode=era) as client:
                assert tool_names(await client.list_tools()) == names
            await gateway.aclose()
            server.server, server.is_there = named("b", "y"), True


@on_a_virtual_clock
async def test_clients_that_give_up_first_do_not_all_wait_for_the_server():
    loop = asyncio.get_running_loop()
    async with Gateway({"b": Counted(hanging())}, connect_timeout=60) as gateway:
        opening = {"mode": "2025-11-25", "connect_timeout": 30}
        with pytest.raises(mcpwire.RequestTimeout):
            await mcpwire.Client(gateway, **opening).connect()
        await asyncio.sleep(5)  # until the gateway has closed the session
        began = loop.time()
        async with mcpwire.Client(gateway, **opening) as client:
            assert loop.time() - began < 2
            assert await client.list_tools() == []


@on_a_virtual_clock
async def test_servers_that_do_not_answer_keep_no_sets(monkeypatch):
    monkeypatch.setattr(opening, "MAX_UNRESPONSIVE", 2)
    # pytest keeps the records of logs, and their errors.
    monkeypatch.setattr(opening.logger, "warning", lambda *_, **__: None)

    class ByClient:
        def plan(self, info, params):
            return Static({"b": Counted(hanging())}).plan()

    async with Gateway(ByClient(), connect_timeout=20) as gateway:
        sets = []
        for _ in range(4):
            async with mcpwire.Client(gateway, mode="2025-11-25"):
                sets += map(weakref.ref, gateway.pool.session_sets)
        gc.collect()
        assert [each() for each in sets] == [None] * 4
        assert len(gateway.unresponsive) == 2


@on_a_virtual_clock
async def test_session_waits_for_a_server_that_refuses_at_once_again():
    server = Counted(hanging())
    async with Gateway({"b": server}, connect_timeout=20) as gateway:
        for server.is_there in (True, False):
            async with mcpwire.Client(gateway, mode="2025-11-25") as client:
                assert await client.list_tools() == []
        assert gateway.unresponsive == {}


async def test_capabilities_an_unreachable_server_may_have_are_declared():
    async with through(
        {"b": Counted(named("b", "y"), is_there=False)}, "2025-11-25"
    ) as client:
        assert client.capabilities.tools.list_changed is True
        assert client.capabilities.prompts is not None
        assert await client.list_prompts() == []
        with pytest.raises(mcpwire.InvalidParams, match="unknown prompt"):
            await client.get_prompt("b_p")


async def test_retries_end_when_the_gateway_is_closed(monkeypatch):
    monkeypatch.setattr(opening, "RETRY_S", 0.0)
    gateway = Gateway({"b": Member(Counted(named("b", "y"), is_there=False))})
    async with client_of(gateway) as client:
        await client.list_tools()
        [upstreams] = gateway.pool.shared
        upstreams.retry()
    upstreams.retry()
    assert upstreams.is_closed
    assert all(task.cancelling() for task in upstreams._retry_tasks)


@pytest.mark.system("O33")
async def test_client_timeout_during_connecting_leaves_no_session_set():
    gateway = Gateway({"a": named("a", "x"), "slow": hanging()})
    client = mcpwire.Client(gateway, mode="2025-11-25", connect_timeout=0.05)
    with pytest.raises(mcpwire.RequestTimeout):
        await client.connect()
    await client.aclose()
    await gateway.aclose()
    assert not gateway.pool.session_sets


@on_a_virtual_clock
async def test_discovery_answers_without_waiting_for_a_slow_server(monkeypatch):
    monkeypatch.setattr(dispatching, "DISCOVER_WAIT_S", 0.05)
    options = {"connect_timeout": 0.3}
    async with through({"slow": hanging(), "a": named("a", "x")}, **options) as client:
        assert client.capabilities.resources.subscribe is True
        assert tool_names(await client.list_tools()) == ["a_x"]


class ChosenServer:
    """A source that plans the servers of each session."""

    def __init__(self, **servers):
        self.servers = servers
        self.planned_params = []

    def plan(self, info, params):
        self.planned_params.append(params)
        if not self.servers:
            raise InvalidRequest("name a server")
        planned = [Planned(name=n, target=t) for n, t in self.servers.items()]
        return Plan(servers=tuple(planned), key=tuple(self.servers))


async def test_plans_without_a_key_share_connections_only_for_equal_servers():
    class Unkeyed:
        server = named("a", "x")

        def plan(self, info, params):
            return Plan(servers=(Planned(name="s", target=self.server),))

    source = Unkeyed()
    async with through(source) as client:
        assert (await client.call_tool("s_x")).text == "a.x()"
        source.server = named("b", "x")  # as for another client
        assert (await client.call_tool("s_x")).text == "b.x()"


async def test_custom_source_receives_the_initialize_params_of_a_session():
    source = ChosenServer(a=named("a", "x"))
    async with through(source, "2025-11-25") as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
        source.servers = {"b": named("b", "x")}
        assert tool_names(await client.list_tools()) == ["a_x"]
    assert [each["protocolVersion"] for each in source.planned_params] == ["2025-11-25"]


async def test_source_is_consulted_for_each_stateless_request():
    source = ChosenServer(a=named("a", "x"))
    async with through(source) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
        source.servers = {"b": named("b", "x")}
        assert tool_names(await client.list_tools()) == ["b_x"]
        source.servers = {}
        with pytest.raises(InvalidRequest, match="name a server"):
            await client.list_tools()
    assert set(source.planned_params) == {None}


async def test_second_server_named_local_is_refused():
    own = named("own", "y")
    with pytest.raises(ValueError, match="two servers are named 'local'"):
        Gateway({"local": named("a", "x")}, local=own)
    gateway = Gateway({"a": named("a", "x")}, local=own)
    with pytest.raises(ValueError, match="two servers are named 'local'"):
        await gateway.replace({"local": named("a", "x")})
    assert [each.name for each in gateway.source.servers] == ["a"]

    class Named:
        def plan(self, info, params):
            return Static({"local": named("a", "x")}).plan()

    with pytest.raises(mcpwire.MCPError, match="two servers are named 'local'"):
        async with mcpwire.Client(Gateway(Named(), local=own), mode="2025-11-25"):
            pass


@pytest.mark.parametrize("turns", [1, 5, 9, 13, 17])
async def test_server_replaced_while_a_session_opens_is_not_connected(turns):
    servers = {name: Counted(named(name, "x")) for name in "abc"}
    async with Gateway(servers, concurrency=1) as gateway:
        client = mcpwire.Client(gateway, mode="2025-11-25")
        connecting = asyncio.create_task(client.connect())
        for _ in range(turns):
            await asyncio.sleep(0)  # one loop iteration
        await gateway.replace({"a": servers["a"]})
        await connecting
        assert tool_names(await client.list_tools()) == ["a_x"]
        assert [each.open for each in servers.values()] == [1, 0, 0]
        await client.aclose()
    assert [each.open for each in servers.values()] == [0, 0, 0]


async def test_closed_gateway_connects_to_no_more_servers():
    servers = {name: Counted(named(name, "x")) for name in "abcd"}
    gateway = Gateway(servers, concurrency=1)
    client = mcpwire.Client(gateway, mode="2025-11-25")
    connecting = asyncio.create_task(client.connect())
    await until(lambda: servers["a"].opened)
    await gateway.aclose()
    with pytest.raises(mcpwire.MCPError, match="were closed as they opened"):
        await connecting
    assert [each.open for each in servers.values()] == [0, 0, 0, 0]
    assert servers["d"].opened == 0
    await client.aclose()


async def test_denied_url_is_refused():
    url = "https://example.com/mcp"
    with pytest.raises(ValueError, match="the URL of the server 'a' is denied"):
        Gateway({"a": url}, deny_urls=["example.com"])
    source = ChosenServer(a=mcpwire.Http(url))
    gateway = Gateway(source, deny_urls=["example.com"])
    with pytest.raises(mcpwire.MCPError, match="is denied"):
        async with client_of(gateway, "2025-11-25"):
            pass


# Replacing servers while the gateway serves...


def test_planned_servers_with_equal_fields_are_equal_and_hash_equal():
    same = [Planned(name="a", target="x", options={"timeout": 1}) for _ in range(2)]
    other = Planned(name="a", target="y")
    assert same[0] == same[1] != other
    assert {*same, other} == {same[0], other}


@both_eras
async def test_replace_keeps_the_connections_of_unchanged_servers(era):
    stays = Counted(named("a", "x"))
    gateway = Gateway({"a": stays, "b": named("b", "x"), "c": Member(named("c", "x"))})
    async with client_of(gateway, era) as client:
        assert tool_names(await client.list_tools()) == ["a_x", "b_x", "c_x"]
        async with client.listen(tools=True) as events:
            changes = await gateway.replace(
                {"c": named("c", "y"), "a": stays, "d": named("d", "x"), "e": NOT_THERE}
            )
            async for _ in events:
                break
        assert (changes.added, changes.removed) == (("d", "e"), ("b",))
        assert changes.changed == ("c",)
        assert tool_names(await client.list_tools()) == ["a_x", "c_y", "d_x"]
        assert (await client.call_tool("d_x")).text == "d.x()"
        with pytest.raises(mcpwire.InvalidParams):
            await client.call_tool("b_x")
        assert stays.opened == 1


async def test_replace_with_the_same_servers_reports_no_changes():
    server = named("a", "x")
    gateway = Gateway({"a": server, "off": Member(server, enabled=False)})
    assert not await gateway.replace({"a": server})
    assert [each.name for each in gateway.source.servers] == ["a"]


async def test_invalid_replacement_is_refused_and_servers_stay():
    gateway = Gateway({"a": named("a", "x")}, deny_urls=["example.com"])
    with pytest.raises(ValueError, match="denied"):
        await gateway.replace({"b": "https://example.com/mcp"})
    with pytest.raises(ValueError, match="server 'b': a target is"):
        await gateway.replace({"b": 5})
    assert [each.name for each in gateway.source.servers] == ["a"]
    with pytest.raises(TypeError, match="same servers for all"):
        await Gateway(ChosenServer()).replace({})


async def test_mount_of_one_server_keeps_its_tool_names_and_follows_replace():
    gateway = Gateway({"a": named("a", "x"), "b": named("b", "x")})

    class One:
        def open_in_memory(self, client, limits):
            return gateway.dispatcher_for("b").open_in_memory(client, limits)

    async with gateway, mcpwire.Client(One()) as client:
        assert tool_names(await client.list_tools()) == ["x"]
        assert (await client.call_tool("x")).text == "b.x()"
        await gateway.replace({"b": named("b", "y")})
        assert tool_names(await client.list_tools()) == ["y"]
        await gateway.replace({"a": named("a", "x")})
        assert await client.list_tools() == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"on_error": "hide"}, "on_error must be 'skip' or 'raise'"),
        ({"share": "all"}, "share must be 'session' or 'identity'"),
        ({"timeout": 0}, "timeout must be"),
        ({"connect_timeout": -1}, "connect_timeout must be"),
        ({"concurrency": 0}, "concurrency must be an integer above 0"),
        ({"max_upstream_sets": True}, "max_upstream_sets must be an integer above 0"),
        ({"idle": float("nan")}, "idle must be"),
        ({"idle": None}, "idle must be a number of seconds"),
        ({"page_size": 0}, "page_size must be"),
        ({"revisions": ["2000-01-01"]}, "2000-01-01"),
        ({"deny_urls": ["://"]}, "deny list"),
        ({"forward_headers": ["Authorization"]}, "uthorization"),
    ],
)
def test_invalid_option_is_named_in_the_error(options, problem):
    with pytest.raises(ValueError, match=problem):
        Gateway({}, **options)


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        ({"": "x"}, "a server needs a name"),
        ({"a": 5}, "server 'a': a target is"),
        ({"a": Member(5)}, "server 'a': a target is"),
    ],
)
def test_invalid_server_is_named_in_the_error(servers, problem):
    with pytest.raises(ValueError, match=problem):
        Gateway(servers)


def test_reprs_are_one_line_without_secrets():
    gateway = Gateway({"a": "https://example.com/?key=secret"}, name="g")
    assert repr(gateway) == "<Gateway 'g', Static(a)>"
    assert "secret" not in repr(gateway.source.plan())
    assert "secret" not in repr(gateway.dispatcher)


@pytest.mark.system("O46")
async def test_status_describes_each_server_with_its_capabilities_and_collisions():
    servers = {"a_b": named("a", "c"), "a": Member(named("b", "b_c"))}
    gateway = Gateway(servers)
    async with client_of(gateway) as client:
        await client.list_tools()
        status = gateway.status()
        assert (status["sessions"], status["shared"]) == (0, 1)
        [only] = status["sets"]
        assert [each["name"] for each in only["servers"]] == ["a_b", "a"]
        assert only["servers"][0]["capabilities"]["tools"] == {"listChanged": True}
        assert "a_b_c" in only["collisions"]["tools"][0]
        [upstreams] = gateway.pool.shared
        assert repr(upstreams) == "<Upstreams a_b, a>"
        assert repr(upstreams.members["a"]) == "<Upstream 'a', ready>"
    assert gateway.status()["sets"] == []
