"""A group connects its servers in parallel and reports each outcome."""

import asyncio
import logging
from math import nan

import pytest
from clocks import on_a_virtual_clock
from group_servers import ScriptedServer, Unreachable
from loop_polling import until

import mcpwire
from mcpwire.auth.errors import AuthRequired
from mcpwire.group import Group, Member, NotConnected


def connection_counts(*servers):
    return [server.connections for server in servers]


@pytest.mark.system("A01")
async def test_new_group_is_empty_with_default_timeouts():
    made = []

    def make(name, target, **options):
        made.append(options)
        return mcpwire.Client(target, **options)

    group = Group(make_client=make)
    assert (len(group), list(group), group.status(), bool(group)) == (0, [], {}, True)
    assert repr(group) == "<mcpwire.Group empty>"
    await group.connect("a", ScriptedServer())
    await group.connect("b", Member(ScriptedServer(), timeout=1, connect_timeout=2))
    await group.aclose()
    timeouts = [(each["timeout"], each["connect_timeout"]) for each in made]
    assert timeouts == [(30.0, 60.0), (1, 2)]


TIMES = ("timeout", "connect_timeout", "idle", "keepalive", "max_timeout")


@pytest.mark.system("A02")
@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", [0, -1, nan, True, "1"])
def test_invalid_timeout_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Group(**{name: value})
    if name != "idle":
        with pytest.raises(ValueError, match=f"^{name} must be"):
            Member("x", **{name: value})


@pytest.mark.system("A02")
def test_none_and_tiny_timeouts_are_accepted():
    Group({"a": Member("x", timeout=None)}, timeout=0.001, connect_timeout=None)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"on_error": "ignore"}, "on_error"),
        ({"start": "late"}, "start"),
        ({"restart": True}, "restart"),
        ({"sampling": 3}, "sampling"),
        ({"mode": "none"}, "mode"),
        ({"servers": {"": "x"}}, "name"),
        ({"servers": {3: "x"}}, "name"),
        ({"servers": {"a": 3}}, "server 'a': a target is"),
    ],
)
def test_invalid_argument_is_refused_by_name(options, what):
    with pytest.raises(ValueError, match=what):
        Group(**options)


def test_unknown_argument_is_refused():
    Group(allow="a*", trace=print)
    with pytest.raises(TypeError, match="'tiemout'"):
        Group(tiemout=3)


def test_invalid_rules_and_modes_of_a_member_are_refused():
    with pytest.raises(ValueError, match="mode"):
        Member("x", mode="none")
    with pytest.raises(TypeError):
        Member("x", allow=[3])


def test_members_with_equal_fields_are_equal_and_repr_shows_no_secrets():
    url = "https://me:pw@example.com/mcp?key=s3cret"
    assert Member(url, timeout=3) == Member(url, timeout=3) != Member(url)
    text = (
        repr(Member(url))
        + repr(Member("npx -y thing"))
        + repr(Member(ScriptedServer()))
    )
    assert "example.com" in text
    assert "npx -y thing" in text
    assert "s3cret" not in text
    assert "pw" not in text


async def test_group_is_made_from_a_configuration():
    configuration = {
        "mcpServers": {
            "a": {"command": "${PROGRAM}", "timeout": 3, "denied_tools": ["x"]},
            "b": {"command": "b", "disabled": True},
            "c": {"url": "https://example.com/mcp"},
        }
    }
    group = Group.from_config(
        configuration, environment={"PROGRAM": "thing"}, only=["a", "b"], timeout=5
    )
    assert list(group.status()) == ["a"]
    assert group.rules("a").deny == ("x",)
    assert group.rules("nowhere") is None
    with pytest.raises(mcpwire.ConfigError, match="example"):
        Group.from_config(
            configuration, environment={"PROGRAM": "x"}, deny_urls=["example.com"]
        )


def test_package_names_are_imported_lazily():
    from mcpwire import group

    assert dir(group) == sorted(group.__all__)
    for name in group.__all__:
        assert getattr(group, name) is getattr(group, name)
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = group.nothing


@pytest.mark.system("V10")
async def test_on_error_skip_leaves_a_failed_server_out_and_reports_it():
    servers = {"a": ScriptedServer(), "broken": Unreachable(), "c": ScriptedServer()}
    async with Group(servers, on_error="skip") as group:
        assert (list(group), len(group)) == (["a", "c"], 2)
        report = group.report
        assert report.ok == ("a", "c")
        assert list(report.failed) == ["broken"] == list(group.problems)
        assert not report
        assert set(report.seconds) == {"a", "broken", "c"}
        assert "nobody is there" in str(report)
        with pytest.raises(NotConnected, match="nobody is there") as caught:
            group["broken"]
        assert isinstance(caught.value.problem, mcpwire.ConnectError)
        with pytest.raises(NotConnected):
            await group.call_tool("broken", "x")
        assert group.status()["broken"].state == "failed"
        with pytest.raises(mcpwire.ConnectError):
            report.raise_for_errors()


@pytest.mark.system("A18", "R06")
async def test_failure_cancels_connecting_and_closes_connected_servers():
    good, slow = ScriptedServer(), ScriptedServer("", "server/discover", "initialize")
    group = Group({"good": good, "bad": Unreachable(), "slow": slow})
    with pytest.raises(mcpwire.ConnectError, match="nobody is there") as caught:
        async with group:
            raise AssertionError("not reached")
    assert caught.value.__notes__ == ["connecting the server 'bad' of a group"]
    assert len(group) == 0
    assert list(group.report.failed) == ["bad"]
    assert good.channel.lost
    assert slow.channel.lost


async def test_first_failure_in_order_is_raised():
    servers = {
        "a": Unreachable(mcpwire.ConnectError("first", target="a")),
        "b": Unreachable(mcpwire.ConnectError("second", target="b")),
    }
    with pytest.raises(mcpwire.ConnectError, match="first"):
        await Group(servers).connect_all()


async def test_async_on_error_function_skips_or_raises():
    seen = []

    async def decide(name, error):
        await asyncio.sleep(0)  # one loop iteration
        seen.append((name, str(error)))
        if name == "fatal":
            raise LookupError(name)

    async with Group(
        {"x": Unreachable(), "a": ScriptedServer()}, on_error=decide
    ) as group:
        assert list(group) == ["a"]
        with pytest.raises(LookupError):
            await group.connect_all({"b": ScriptedServer(), "fatal": Unreachable()})
        assert list(group) == ["a"]
    assert seen == [("x", "nobody is there"), ("fatal", "nobody is there")]


async def test_on_error_can_be_a_plain_function():
    seen = []
    skip = lambda name, error: seen.append(name)  # noqa: E731 - what users write
    async with Group({"x": Unreachable()}, on_error=skip):
        assert seen == ["x"]


@pytest.mark.system("L-V12", "L-R7")
async def test_concurrency_limits_simultaneous_connects():
    servers = {
        f"s{number}": ScriptedServer("", "server/discover") for number in range(5)
    }
    # Without the probe's own timeout, after which a silent server is connected.
    group = Group(servers, concurrency=2, probe_timeout=None)

    def waiting():
        return sum(bool(server.waiting) for server in servers.values())

    connecting = asyncio.ensure_future(group.connect_all())
    for left in (5, 3, 1):
        await until(lambda: waiting() == min(2, left))  # noqa: B023 - at once
        assert sum(server.connections for server in servers.values()) == 5 - left + min(
            2, left
        )
        for server in servers.values():
            if server.waiting:
                server.release()
    assert (await connecting).ok == tuple(servers)
    await group.aclose()


async def test_connect_all_skips_connected_and_disabled_servers():
    a, off = ScriptedServer(), ScriptedServer()
    async with Group({"a": a, "off": Member(off, enabled=False)}) as group:
        report = await group.connect_all()
        assert (report.ok, bool(report)) == ((), True)
        assert connection_counts(a, off) == [1, 0]
        assert group.status()["off"].state == "idle"
        await group.connect("off")
        assert list(group) == ["a", "off"]


async def test_connect_all_retries_failed_servers():
    server = ScriptedServer()
    server.broken = 2  # both connections that the first handshake opens
    async with Group({"a": server}, on_error="skip") as group:
        while not await group.connect_all():
            assert list(group.problems) == ["a"]
        assert group.problems == {}
        assert (await group.call_tool("a", "x")).text == ""


async def test_auth_required_failure_sets_the_state_needs_auth():
    servers = {"a": Unreachable(AuthRequired("log in first"))}
    async with Group(servers, on_error="skip") as group:
        status = group.status()["a"]
        assert status.state == "needs_auth"
        assert isinstance(status.error, AuthRequired)


@pytest.mark.system("A07")
async def test_connect_failure_is_logged_with_fields_and_without_secrets(caplog):
    url = "http://me:hunter2@127.0.0.1:1/mcp?token=s3cret"
    with caplog.at_level(logging.WARNING, "mcpwire"):
        with pytest.raises(ValueError, match="user name"):
            Group({"a": url})
        async with Group({"a": "http://127.0.0.1:1/mcp?token=s3cret"}, on_error="skip"):
            pass
    records = [each for each in caplog.records if getattr(each, "server", None) == "a"]
    assert [each.levelname for each in records] == ["WARNING"]
    assert records[0].error.startswith("ConnectError: ")
    assert "s3cret" not in caplog.text + str(vars(records[0]))


@pytest.mark.system("A16", "L-A13")
async def test_connected_name_is_replaced_only_with_replace():
    old, new = ScriptedServer("old"), ScriptedServer("new")
    async with Group({"a": old}) as group:
        with pytest.raises(mcpwire.LocalProtocolError, match="connected already"):
            await group.connect("a", new)
        with pytest.raises(mcpwire.LocalProtocolError, match="connected already"):
            await group.connect("a")
        with pytest.raises(mcpwire.LocalProtocolError, match="connected already"):
            await group.connect_all({"b": new, "a": new})
        assert connection_counts(old, new) == [1, 0]
        client = await group.connect("a", new, replace=True)
        assert client is group["a"]
        assert (await group.call_tool("a", "x")).text == "new"
        assert old.channel.lost
        assert (await group.connect("a", replace=True)) is not client
        assert connection_counts(old, new) == [1, 2]


@pytest.mark.system("A16")
async def test_name_can_be_connected_again_after_any_outcome():
    server = ScriptedServer()
    async with Group() as group:
        with pytest.raises(mcpwire.ConnectError):
            await group.connect("a", Unreachable())
        await group.connect("a", server)
        await group.disconnect("a")
        assert "a" not in group
        client = await group.connect("a")
        server.die()
        assert group.status()["a"].state == "lost"
        assert await group.connect("a") is client
        assert group.status()["a"].state == "ready"
        server.die()
        assert await group.connect("a", server) is not client
        assert server.connections == 4


async def test_connecting_an_unknown_name_without_a_target_is_refused():
    async with Group({"known": ScriptedServer()}) as group:
        with pytest.raises(mcpwire.UnknownServer, match="known: 'known'") as caught:
            await group.connect("unknown")
        assert caught.value.server == "unknown"


async def test_connect_options_are_passed_to_the_client():
    server = ScriptedServer("", "tools/call")
    async with Group() as group:
        await group.connect("a", server, timeout=0.01)
        with pytest.raises(mcpwire.RequestTimeout):
            await group.call_tool("a", "x")
        with pytest.raises(ValueError, match="timeout"):
            await group.connect("b", server, timeout=0)


async def test_concurrent_connects_of_one_name_share_the_outcome():
    server = ScriptedServer("", "server/discover")
    group = Group({"a": server})
    connects = [asyncio.ensure_future(group.connect("a")) for _ in range(3)]
    connects.append(asyncio.ensure_future(group.connect_all()))
    await until(lambda: server.waiting)
    with pytest.raises(mcpwire.LocalProtocolError, match="connected already"):
        await group.connect("a", ScriptedServer())
    server.release()
    *clients, report = await asyncio.gather(*connects)
    assert set(clients) == {group["a"]}
    assert report.ok == ("a",)
    assert server.connections == 1
    await group.aclose()


async def test_cancelling_the_last_waiter_closes_the_connection():
    server = ScriptedServer("", "server/discover")
    group = Group()
    first, second = (
        asyncio.ensure_future(group.connect("a", *target)) for target in ((server,), ())
    )
    await until(lambda: server.waiting)
    first.cancel()
    await asyncio.wait([first])
    assert group.status()["a"].state == "connecting"
    second.cancel()
    await asyncio.wait([second])
    assert server.channel.lost
    assert group.status() == {}
    await group.aclose()


async def test_error_after_a_cancelled_waiter_reaches_only_the_others():
    """An error reported to the loop as well would fail this test."""
    server = ScriptedServer("", "server/discover")
    group = Group({"a": server})
    first, second = (asyncio.ensure_future(group.connect("a")) for _ in range(2))
    await until(lambda: server.waiting)
    first.cancel()
    await asyncio.wait([first])
    server.broken = 9
    server.die()
    with pytest.raises(mcpwire.ConnectError):
        await second
    await group.aclose()


@pytest.mark.parametrize("how", ["connect", "connect_all", "enter"])
async def test_cancelling_the_only_waiter_at_any_turn_leaves_no_connection(how):
    """In the last turns the connection exists, but the caller does not have it yet."""
    for turns in range(40):
        server = ScriptedServer()
        group = Group({"a": server})
        work = {
            "connect": lambda: group.connect("b", server),  # noqa: B023 - at once
            "connect_all": group.connect_all,
            "enter": group.__aenter__,
        }[how]()
        task = asyncio.ensure_future(work)
        for _ in range(turns):
            await asyncio.sleep(0)  # one loop iteration
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            assert len(group) == 1
            break
        assert len(group) == 0
        assert list(group.status()) == ["a"]
        assert server.channel is None or server.channel.lost
        assert group._background == set()
    else:
        raise AssertionError("never connected")
    await group.aclose()


async def test_cancelled_connect_all_closes_only_its_own_connections():
    own, shared, slow = (
        ScriptedServer(),
        ScriptedServer(),
        ScriptedServer("", "server/discover"),
    )
    group = Group({"mine": own, "slow": slow})
    await group.connect("shared", shared)
    connecting = asyncio.ensure_future(group.connect_all())
    await until(lambda: "mine" in group and slow.waiting)
    connecting.cancel()
    await asyncio.wait([connecting])
    assert connecting.cancelled()
    assert list(group) == ["shared"]
    assert own.channel.lost
    assert slow.channel.lost
    assert not shared.channel.lost
    assert (await group.call_tool("shared", "x")).text == ""
    await group.aclose()


async def test_cancelled_connect_all_keeps_servers_that_others_connected():
    requested, slow = (
        ScriptedServer("", "server/discover"),
        ScriptedServer("", "server/discover"),
    )
    group = Group({"wanted": requested, "slow": slow})
    connecting = asyncio.ensure_future(group.connect_all())
    await until(lambda: requested.waiting and slow.waiting)
    connect = asyncio.ensure_future(group.connect("wanted"))
    await asyncio.sleep(0)  # one loop iteration
    requested.release()
    await connect
    connecting.cancel()
    await asyncio.wait([connecting])
    assert list(group) == ["wanted"]
    await group.aclose()


@pytest.mark.system("L-A3", "A05")
async def test_other_operations_do_not_wait_for_a_connecting_server():
    slow = ScriptedServer("", "server/discover", "initialize")
    async with Group({"a": ScriptedServer("A")}) as group:
        connecting = asyncio.ensure_future(group.connect("slow", slow))
        await until(lambda: slow.waiting)
        assert (await group.call_tool("a", "x")).text == "A"
        await group.connect("b", ScriptedServer("B"))
        assert (await group.call_tool("b", "x")).text == "B"
        await group.disconnect("b")
        assert not connecting.done()
        slow.release()
        assert await connecting is group["slow"]


@pytest.mark.system("L-A3")
async def test_connecting_does_not_wait_for_running_calls():
    busy = ScriptedServer("", "tools/call")
    async with Group({"busy": busy}) as group:
        call = asyncio.ensure_future(group.call_tool("busy", "x"))
        await until(lambda: busy.waiting)
        await group.connect("a", ScriptedServer())
        await group.disconnect("a")
        busy.release()
        await call


async def test_call_waits_while_its_server_is_connecting():
    slow = ScriptedServer("S", "server/discover")
    group = Group({"slow": slow})
    connecting = asyncio.ensure_future(group.connect_all())
    await until(lambda: slow.waiting)
    call = asyncio.ensure_future(group.call_tool("slow", "x"))
    await asyncio.sleep(0)  # one loop iteration
    slow.release()
    assert (await call).text == "S"
    await connecting
    await group.aclose()


@pytest.mark.system("A04")
async def test_call_timeout_includes_connecting():
    slow = ScriptedServer("S", "server/discover", "initialize")
    group = Group({"slow": slow}, start="lazy")
    with pytest.raises(mcpwire.RequestTimeout, match="being connected") as caught:
        await group.call_tool("slow", "x", timeout=0.02)
    assert caught.value.timeout == 0.02
    await group.aclose()


async def test_use_of_a_group_on_another_loop_is_refused():
    async with Group({"a": ScriptedServer()}) as group:

        async def elsewhere():
            with pytest.raises(mcpwire.LocalProtocolError, match="another event loop"):
                await group.connect_all()

        await asyncio.to_thread(asyncio.run, elsewhere())


def test_error_without_a_running_loop_names_the_sync_group():
    group = Group()
    coroutine = group.connect("a", ScriptedServer())
    with pytest.raises(mcpwire.LocalProtocolError, match=r"mcpwire\.sync\.Group"):
        coroutine.send(None)


def test_closed_group_can_be_used_on_another_loop():
    server = ScriptedServer()
    group = Group({"a": server})

    async def once():
        async with group:
            return (await group.call_tool("a", "x")).text

    assert [asyncio.run(once()) for _ in range(2)] == ["", ""]
    assert server.connections == 2


def test_group_can_be_used_after_its_loop_was_closed():
    server = ScriptedServer()
    group = Group({"a": server})
    asyncio.run(group.connect_all())

    async def again():
        assert (await group.connect_all()).ok == ("a",)
        assert (await group.call_tool("a", "x")).text == ""
        await group.aclose()

    asyncio.run(again())


async def test_make_client_creates_the_client_of_each_server():
    made = {}

    class Own(mcpwire.Client):
        pass

    def make(name, target, **options):
        made[name] = options
        return Own(target, **options)

    servers = {"a": ScriptedServer(), "b": Member(ScriptedServer(), roots=[])}
    async with Group(servers, make_client=make, sampling=str) as group:
        assert type(group["a"]) is Own
    assert made["a"]["sampling"] is str
    assert (made["a"]["roots"], made["b"]["roots"]) == (None, [])


@on_a_virtual_clock
async def test_silent_server_fails_after_the_connect_timeout():
    silent = ScriptedServer("", "server/discover", "initialize")
    async with Group(
        {"silent": silent, "a": ScriptedServer()}, connect_timeout=0.05, on_error="skip"
    ) as group:
        assert list(group) == ["a"]
        assert isinstance(group.problems["silent"], mcpwire.RequestTimeout)
