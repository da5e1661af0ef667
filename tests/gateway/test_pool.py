"""Which clients share connections, and how long the connections are kept."""

import asyncio
from types import SimpleNamespace

import attrs
import httpx
import pytest
from clocks import on_a_virtual_clock
from gateway_servers import TIMEOUT_S, Counted, client_of, fake, named, tool_names
from loop_polling import until
from world import INITIALIZE

import mcpwire
from mcpwire.gateway import Gateway
from mcpwire.gateway.upstreams import UpstreamPool, UpstreamsBusy
from mcpwire.server.auth import Principal
from mcpwire.server.request import IN_MEMORY
from mcpwire.testing import AsgiTransport


def counted(*tools):
    return Counted(named("a", *(tools or ("x",))))


async def test_stateless_requests_share_connections_and_sessions_do_not():
    server = counted()
    async with Gateway({"a": server}) as gateway:
        for _ in range(2):
            async with mcpwire.Client(gateway, mode="2026-07-28") as client:
                await client.call_tool("a_x")
        assert (server.opened, server.open) == (1, 1)
        async with (
            mcpwire.Client(gateway, mode="2025-11-25") as one,
            mcpwire.Client(gateway, mode="2025-11-25") as other,
        ):
            await one.call_tool("a_x")
            await other.call_tool("a_x")
            assert server.open == 3
            assert (gateway.status()["sessions"], gateway.status()["shared"]) == (2, 1)
        assert (server.opened, server.open) == (3, 1)
    assert server.open == 0


async def test_sessions_of_one_identity_and_version_can_share_connections():
    server = counted()
    gateway = Gateway({"a": server}, share="identity")
    async with gateway:
        async with (
            mcpwire.Client(gateway, mode="2025-11-25") as one,
            mcpwire.Client(gateway, mode="2025-11-25") as other,
            mcpwire.Client(gateway, mode="2025-06-18") as older,
        ):
            for client in (one, other, older):
                assert (await client.call_tool("a_x")).text == "a.x()"
            assert server.opened == 2
            assert all(each.is_busy for each in gateway.pool.shared)
        assert not any(each.is_busy for each in gateway.pool.shared)
        assert server.open == 2
    assert server.open == 0


@pytest.mark.parametrize(
    ("version", "sets"), [("2026-07-28", 1), ("2025-11-25", 2), (None, 2)]
)
async def test_capabilities_split_sets_if_a_server_learns_them_only_at_initialize(
    version, sets
):
    servers = {"a": named("a", "x")}
    if version is None:
        servers["gone"] = "/nowhere/at/all"
    else:
        servers["b"] = mcpwire.Server("b", revisions=[version])
    async with (
        Gateway(servers) as gateway,
        mcpwire.Client(gateway, mode="2026-07-28") as one,
        mcpwire.Client(gateway, mode="2026-07-28", roots=[]) as rooted,
    ):
        for client in (one, rooted, one, rooted):
            assert (await client.call_tool("a_x")).text == "a.x()"
        assert len(gateway.pool.shared) == sets


FACTS = attrs.evolve(
    IN_MEMORY, transport="http", headers={"x-tenant": "1", "traceparent": "2"}
)


@pytest.mark.parametrize(
    ("other", "capabilities", "is_same"),
    [
        (FACTS, {}, True),
        (attrs.evolve(FACTS, headers={**FACTS.headers, "accept": "x"}), {}, True),
        (attrs.evolve(FACTS, headers={**FACTS.headers, "traceparent": "9"}), {}, True),
        (attrs.evolve(FACTS, headers={"x-tenant": "2"}), {}, False),
        (attrs.evolve(FACTS, headers={}), {}, False),
        (attrs.evolve(FACTS, principal=Principal(subject="me")), {}, False),
        (FACTS, {"sampling": {}}, None),
    ],
)
def test_identity_is_principal_and_headers_and_its_key_adds_capabilities(
    other, capabilities, is_same
):
    gateway = Gateway({}, forward_headers=["X-Tenant", "traceparent"])
    dispatcher = gateway.dispatcher
    one = dispatcher.make_requester(FACTS, {})
    requester = dispatcher.make_requester(other, capabilities)
    if is_same is None:
        assert requester.identity == one.identity
        assert requester.extended_key() != one.extended_key()
    else:
        assert (requester.identity == one.identity) is is_same
        assert (requester.extended_key() == one.extended_key()) is is_same


def test_each_mount_path_has_its_own_identity():
    gateway = Gateway({"a": named("a", "x"), "b": named("b", "x")})
    identities = {
        gateway.dispatcher_for(name).make_requester(FACTS, {}).identity
        for name in (None, "a", "b")
    }
    assert len(identities) == 3


async def test_concurrent_calls_open_a_set_once():
    server = counted()
    gateway = Gateway({"a": server})
    async with client_of(gateway, "2026-07-28") as client:
        await asyncio.gather(*(client.call_tool("a_x") for _ in range(5)))
    assert server.opened == 1


class Held:
    """A stand-in for `Upstreams` that opens when `may_open` is set."""

    downstream = SimpleNamespace(session=None)
    is_open = is_closed = False
    may_end = True
    sessions = frozenset()

    def __init__(self, *, problem=None, is_ready=True):
        self.used_at = 0.0
        self.users = 0
        self.problem = problem
        self.may_open = asyncio.Event()
        if is_ready:
            self.may_open.set()

    @property
    def is_busy(self):
        return self.users > 0

    async def open(self):
        await self.may_open.wait()
        if self.problem is not None:
            raise self.problem

    async def aclose(self):
        pass


def pool(maximum=2, idle=60.0):
    closed = []

    class Observed(UpstreamPool):
        def close(self, upstreams):
            closed.append(upstreams)
            return super().close(upstreams)

    return Observed(maximum=maximum, idle=idle), closed


async def test_failed_opening_is_retried_by_the_next_caller():
    kept, _ = pool()
    problem = mcpwire.InternalError("no")
    with pytest.raises(mcpwire.InternalError):
        await kept.open_shared("a", "me", lambda: Held(problem=problem))
    assert len(kept.shared) == 0
    good = Held()
    assert await kept.open_shared("a", "me", lambda: good) is good
    assert kept.find("a") is good
    assert kept.find("b") is None
    await kept.aclose()


async def test_cancelled_waiter_leaves_the_set_to_the_others():
    kept, closed = pool()
    slow = Held(is_ready=False)
    first = asyncio.create_task(kept.open_shared("a", "me", lambda: slow))
    second = asyncio.create_task(kept.open_shared("a", "me", Held))
    await asyncio.sleep(0)  # one loop iteration
    assert kept.find("a") is None
    first.cancel()
    slow.may_open.set()
    assert await second is slow
    assert first.cancelled()
    assert closed == []
    await kept.aclose()
    assert closed == [slow]


@pytest.mark.system("L-O7")
async def test_pool_over_its_maximum_closes_the_least_recently_used_set():
    kept, closed = pool(maximum=2)
    one, two, three, four = Held(), Held(), Held(), Held()
    await kept.open_shared("1", "me", lambda: one)
    await kept.open_shared("2", "me", lambda: two)
    assert kept.find("1") is one
    kept.mark_idle(one)
    await kept.open_shared("3", "me", lambda: three)
    assert closed == [two]
    one.users += 1
    await kept.open_shared("4", "me", lambda: four)
    assert closed == [two, three]
    assert kept.shared == [one, four]
    await kept.aclose()


async def test_pool_full_of_busy_sets_keeps_them_and_refuses_another():
    kept, closed = pool(maximum=2)
    busy, opening = Held(), Held(is_ready=False)
    await kept.open_shared("1", "me", lambda: busy)
    busy.users += 1
    waiting = asyncio.create_task(kept.open_shared("2", "me", lambda: opening))
    await asyncio.sleep(0)  # one loop iteration
    made = []
    for _ in range(3):
        with pytest.raises(mcpwire.InternalError, match="too many"):
            await kept.open_shared("3", "me", lambda: made.append("another"))
    assert (closed, made) == ([], [])
    opening.may_open.set()
    assert await waiting is opening
    third = Held()
    assert await kept.open_shared("3", "me", lambda: third) is third
    assert closed == [opening]
    await kept.aclose()


async def test_newly_opened_set_is_not_closed_before_its_first_use():
    kept, closed = pool(maximum=1)
    first = Held()
    waiting = asyncio.create_task(kept.open_shared("1", "me", lambda: first))
    await until(lambda: first.is_open)
    with pytest.raises(UpstreamsBusy, match="too many"):
        await kept.open_shared("2", "me", Held)
    assert await waiting is first
    assert closed == []
    assert len(kept) == 1
    await kept.aclose()


@pytest.mark.system("L-O7")
@on_a_virtual_clock
async def test_idle_set_is_closed_and_busy_set_stays_open():
    kept, closed = pool(idle=0.05)
    idle, busy = Held(), Held()
    await kept.open_shared("idle", "me", lambda: idle)
    await kept.open_shared("busy", "me", lambda: busy)
    busy.users += 1
    async with asyncio.timeout(TIMEOUT_S):
        await until(lambda: closed, 0.005)
    assert closed == [idle]
    assert kept.find("busy") is busy
    busy.users -= 1
    kept.mark_idle(busy)
    async with asyncio.timeout(TIMEOUT_S):
        await until(lambda: not len(kept.shared), 0.005)
    assert closed == [idle, busy]
    assert kept._timer is None


@on_a_virtual_clock
async def test_closed_idle_set_is_opened_again_by_the_next_call():
    server = counted()
    gateway = Gateway({"a": server}, idle=0.02)
    async with client_of(gateway, "2026-07-28") as client:
        await client.call_tool("a_x")
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: not server.open, 0.005)
        await client.call_tool("a_x")
        assert server.opened == 2


@on_a_virtual_clock
async def test_running_call_keeps_its_connections_beyond_the_idle_time():
    may_end = asyncio.Event()
    slow = mcpwire.Server("s")

    @slow.tool
    async def wait() -> str:
        await may_end.wait()
        return "done"

    server = Counted(slow)
    gateway = Gateway({"s": server}, idle=0.01, max_upstream_sets=1)
    async with client_of(gateway, "2026-07-28") as client:
        call = asyncio.create_task(client.call_tool("s_wait"))
        async with mcpwire.Client(gateway, mode="2026-07-28", roots=[]) as other:
            assert tool_names(await other.list_tools()) == ["s_wait"]
            await asyncio.sleep(0.05)  # several times the idle time
            assert server.open >= 1
            may_end.set()
            assert (await call).text == "done"


@pytest.mark.system("L-O7")
async def test_session_beyond_max_upstream_sets_is_refused():
    gateway = Gateway({"a": named("a", "x")}, max_upstream_sets=1)
    async with mcpwire.Client(gateway, mode="2025-11-25") as client:
        second = mcpwire.Client(gateway, mode="2025-11-25")
        with pytest.raises(mcpwire.MCPError, match="too many connections"):
            await second.connect()
        assert (await client.call_tool("a_x")).text == "a.x()"
    async with client_of(gateway, "2025-11-25") as client:
        assert (await client.call_tool("a_x")).text == "a.x()"


@pytest.mark.system("O73")
async def test_ending_a_session_closes_its_connections():
    server = counted()
    async with Gateway({"a": server}) as gateway:
        async with mcpwire.Client(gateway, mode="2025-11-25"):
            assert (server.open, len(gateway.pool.session_sets)) == (1, 1)
        assert (server.open, len(gateway.pool.session_sets)) == (0, 0)
        assert not gateway.dispatcher._upstreams_by_session
        assert not gateway.dispatcher._closing


async def test_closing_the_gateway_closes_session_connections_and_is_idempotent():
    server = counted()
    gateway = Gateway({"a": server})
    client = mcpwire.Client(gateway, mode="2025-11-25")
    await client.connect()
    await gateway.aclose()
    assert server.open == 0
    await gateway.aclose()
    await client.aclose()
    async with mcpwire.Client(gateway) as again:
        assert (await again.call_tool("a_x")).text == "a.x()"
    assert server.open == 0


async def test_closed_gateway_leaves_no_timer_for_sets_that_sessions_shared():
    loop = asyncio.get_running_loop()
    timers, call_later = [], loop.call_later
    loop.call_later = lambda delay, *args, **options: (
        timers.append((delay, call_later(delay, *args, **options))) or timers[-1][1]
    )
    gateway = Gateway({"a": counted()}, share="identity", idle=1_234.0)
    transport = AsgiTransport(gateway.asgi())
    async with httpx.AsyncClient(transport=transport) as http_client:
        target = mcpwire.Http("http://localhost/mcp", http_client=http_client)
        async with mcpwire.Client(target, mode="2025-11-25") as client:
            await client.list_tools()
            await gateway.aclose()
            is_cancelled = [each.cancelled() for delay, each in timers if delay > 1_000]
    assert is_cancelled
    assert all(is_cancelled)


async def test_error_closing_one_server_does_not_keep_the_others_open(caplog):
    server = counted()
    gateway = Gateway({"a": server, "b": fake("x")})
    client = mcpwire.Client(gateway, mode="2025-11-25")
    await client.connect()
    [upstreams] = gateway.pool.session_sets

    async def fails():
        raise OSError("stuck")

    member = upstreams.members["b"]
    close, member.client.aclose = member.client.aclose, fails
    await client.aclose()
    await close()
    assert server.open == 0
    assert "stuck" in caplog.text


async def test_initialize_of_an_open_session_returns_its_first_result():
    gateway = Gateway({"a": named("a", "x")})
    async with gateway:
        dispatcher = gateway.dispatcher
        session, result = await dispatcher.open_session(INITIALIZE, None)
        assert dispatcher.initialize(INITIALIZE, session) == (session, result)
        (upstreams,) = gateway.pool.session_sets
        assert list(upstreams.members) == ["a"]
        dispatcher.on_notification(session, "notifications/initialized", {})
        dispatcher.on_notification(session, "notifications/roots/list_changed", {})
        dispatcher.on_notification(session, "notifications/other", {})
        dispatcher.discard_session(session)
        dispatcher.discard_session(session)
        dispatcher.on_notification(session, "notifications/roots/list_changed", {})
        await dispatcher.wait_session_closed(session)
        await dispatcher.wait_session_closed(session)
        assert not gateway.pool.session_sets
        stranger, _ = dispatcher.initialize(INITIALIZE, None)
        dispatcher.discard_session(stranger)
        with pytest.raises(mcpwire.InvalidRequest):
            await dispatcher.open_session(INITIALIZE, stranger)
