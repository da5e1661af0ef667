"""What a gateway lists: the items of all servers, fetched again after a change."""

import asyncio
from types import SimpleNamespace

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE
from gateway_servers import ERAS, TOOL, client_of, fake, named, through, tool_names

import mcpwire
from mcpwire.errors import InternalError
from mcpwire.gateway import Gateway, Static, catalog
from mcpwire.group.member import Member
from mcpwire.tools.names import NamePolicy

both_eras = pytest.mark.parametrize("era", ERAS)


def fetches(server):
    """Return how often a fake server was asked for its tools."""
    return [message["method"] for message in server.received].count("tools/list")


@both_eras
@pytest.mark.system("O40", "O42")
async def test_tools_of_all_servers_are_listed_with_prefixes_in_order(era):
    servers = {"b": named("b", "x", "a"), "a": named("a", "x")}
    async with through(servers, era) as client:
        assert tool_names(await client.list_tools()) == ["a_x", "b_a", "b_x"]


@pytest.mark.system("O42")
async def test_tool_prefixes_can_come_from_server_info():
    servers = {"b": named("my_time", "x"), "a": mcpwire.Server("two", "1.5")}
    servers["a"].add_tool(_one, name="t")
    servers["c"] = mcpwire.Server("two", "2")
    servers["c"].add_tool(_one, name="t")
    async with through(servers, server_names="theirs") as client:
        names = tool_names(await client.list_tools())
        assert names == ["my-time_x", "two-1-5_t", "two-2_t"]
        assert (await client.call_tool("my-time_x")).text == "my_time.x()"
    with pytest.raises(ValueError, match="server_names must be 'ours' or 'theirs'"):
        Gateway({}, server_names="mine")


@both_eras
@pytest.mark.system("O41", "L-O1")
async def test_resources_templates_and_prompts_of_all_servers_are_listed(era):
    first, second = mcpwire.Server("1"), mcpwire.Server("2")
    first.add_resource("x:2", "two")
    second.add_resource("x:1", "one")
    second.resource("t:{name}")(_one)
    first.add_prompt(_nothing, name="p")
    async with through({"f": first, "s": second}, era) as client:
        assert [r.uri for r in await client.list_resources()] == ["x:1", "x:2"]
        [template] = await client.list_resource_templates()
        assert template.uri_template == "t:{name}"
        assert [p.name for p in await client.list_prompts()] == ["f_p"]


@both_eras
@pytest.mark.system("O30", "O86")
async def test_gateway_without_servers_lists_no_items(era):
    async with through({}, era) as client:
        assert client.capabilities.tools is None
        for method in ("tools/list", "prompts/list", "resources/list"):
            raw = await client.request(method)
            assert raw[method.partition("/")[0]] == []


@pytest.mark.system("O86")
async def test_no_request_is_sent_for_an_undeclared_capability():
    server = fake("x", capabilities={"tools": {}})
    async with through({"a": server}) as client:
        assert (await client.request("resources/list"))["resources"] == []
        assert (await client.request("resources/templates/list"))[
            "resourceTemplates"
        ] == []
        with pytest.raises(mcpwire.RPCError):
            await client.request("resources/read", {"uri": "x:1"})
    assert not [m for m in server.received if "resources" in m["method"]]


async def test_list_over_the_byte_limit_is_left_out(monkeypatch, caplog):
    monkeypatch.setattr(catalog, "MAX_LIST_BYTES", 2_000)
    pages = []

    def endless(params, server):
        pages.append(params)
        tool = {**TOOL, "name": f"t{len(pages)}", "description": "x" * 500}
        return {"tools": [tool], "nextCursor": str(len(pages))}

    servers = {"a": named("a", "x"), "long": fake(methods={"tools/list": endless})}
    gateway = Gateway(servers)
    async with client_of(gateway, "2025-11-25") as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
    assert len(pages) == 4
    assert "more than 2000 bytes" in caplog.text


@pytest.mark.system("L-O11")
async def test_gateway_fetches_all_pages_and_paginates_on_its_own():
    def page(params, server):
        at = int(params.get("cursor", "0"))
        found = {"tools": [{**TOOL, "name": f"t{at}"}]}
        return found if at == 6 else {**found, "nextCursor": str(at + 1)}

    server = fake(methods={"tools/list": page})
    async with through({"a": server}, page_size=3) as client:
        first = await client.list_tools_page()
        assert tool_names(first.tools) == ["a_t0", "a_t1", "a_t2"]
        second = await client.list_tools_page(first.next_cursor)
        again = await client.list_tools_page(first.next_cursor)
        assert second.tools == again.tools
        assert len(await client.list_tools()) == 7
        with pytest.raises(mcpwire.InvalidParams, match=r"params\.cursor"):
            await client.list_tools_page("1")
    assert fetches(server) == 7


@pytest.mark.system("L-O11")
async def test_cursor_stays_valid_after_the_list_has_changed():
    server = named("s", *"abcd")
    async with through({"s": server}, "2025-11-25", page_size=2) as client:
        async with client.listen(tools=True) as events:
            page = await client.list_tools_page()
            server.tools["a"].remove()
            async for _ in events:
                break
        page = await client.list_tools_page(page.next_cursor)
        assert tool_names(page.tools) == ["s_c", "s_d"]


async def test_server_that_repeats_a_cursor_is_left_out():
    endless = fake(
        methods={"tools/list": lambda p, s: {"tools": [], "nextCursor": "again"}}
    )
    async with through({"a": named("a", "x"), "b": endless}) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]


@pytest.mark.system("L-O5", "O34")
async def test_failing_server_is_left_out_of_lists_until_it_recovers(
    caplog, monkeypatch
):
    monkeypatch.setattr(catalog, "LIST_RETRY_S", 0.0)
    problems = [mcpwire.RPCError("no list", code=-32603)]
    answers = {"tools/list": lambda p, s: problems[0] if problems else LISTING}
    gateway = Gateway({"a": named("a", "x"), "b": fake(methods=answers)})
    async with mcpwire.Client(gateway) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
        [record] = [r for r in caplog.records if "left out" in r.message]
        assert record.server == "b"
        [status] = gateway.status()["sets"]
        assert "no list" in status["servers"][1]["problems"]["tools/list"]
        assert (await client.call_tool("a_x")).text == "a.x()"
        problems.clear()
        assert tool_names(await client.list_tools()) == ["a_x", "b_y"]
        [status] = gateway.status()["sets"]
        assert "problems" not in status["servers"][1]


LISTING = {"tools": [{**TOOL, "name": "y"}]}


@pytest.mark.system("L-O6", "L-O16")
async def test_failed_list_is_not_fetched_again_with_each_request():
    bad = fake(methods={"tools/list": lambda p, s: mcpwire.InternalError("no")})
    async with through({"b": bad}) as client:
        for _ in range(3):
            assert await client.list_tools() == []
    assert fetches(bad) == 1


@on_a_virtual_clock
@pytest.mark.parametrize("is_new", [False, True], ids=["same set", "new set"])
async def test_list_that_timed_out_is_fetched_again_in_the_background(
    monkeypatch, is_new
):
    monkeypatch.setattr(catalog, "LIST_RETRY_S", 0.0)
    requested = asyncio.Event()
    server = fake(methods={"tools/list": lambda p, s: SILENCE})
    servers = {"a": named("a", "x"), "b": Member(server, timeout=5)}
    notified = asyncio.Event()
    gateway = Gateway(servers)
    async with client_of(gateway, on_notification=lambda _: notified.set()) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
        if is_new:
            await client.aclose()
            await gateway.aclose()
            await client.connect()

        def hold(_, server):
            requested.set()
            return SILENCE

        server.methods["tools/list"] = hold
        assert tool_names(await client.list_tools()) == ["a_x"]
        await requested.wait()
        server.send({"jsonrpc": "2.0", "id": server.current["id"], "result": LISTING})
        await notified.wait()
        assert tool_names(await client.list_tools()) == ["a_x", "b_y"]


async def test_clients_are_notified_when_a_slow_then_failed_list_recovers(monkeypatch):
    monkeypatch.setattr(catalog, "LIST_RETRY_S", 0.0)
    server = fake(methods={"tools/list": lambda p, s: SILENCE})
    servers = {"a": named("a", "x"), "b": Member(server, timeout=0.05)}
    notified = asyncio.Event()
    gateway = Gateway(servers)
    async with client_of(gateway, on_notification=lambda _: notified.set()) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
        server.methods["tools/list"] = lambda p, s: mcpwire.InternalError("no")
        while "no answer" in _problem(gateway):
            assert tool_names(await client.list_tools()) == ["a_x"]
        server.methods["tools/list"] = lambda p, s: LISTING
        assert tool_names(await client.list_tools()) == ["a_x", "b_y"]
        await notified.wait()


def _problem(gateway):
    return gateway.status()["sets"][0]["servers"][1]["problems"]["tools/list"]


@both_eras
@on_a_virtual_clock
@pytest.mark.parametrize("patience", [60, 5], ids=["patient", "impatient"])
async def test_only_the_first_session_waits_for_a_list_that_does_not_come(
    era, patience, caplog
):
    server = fake(methods={"tools/list": lambda p, s: SILENCE})
    loop = asyncio.get_running_loop()
    async with Gateway({"a": named("a", "x"), "b": server}, timeout=20) as gateway:

        async def listed(*, after):
            began = loop.time()
            async with mcpwire.Client(gateway, mode=era, timeout=patience) as client:
                try:
                    return tool_names(await client.list_tools())
                except mcpwire.RequestTimeout:
                    return None
                finally:
                    assert round(loop.time() - began) == after
                    await gateway.aclose()

        expected = ["a_x"] if patience > 20 else None
        assert await listed(after=min(patience, 20)) == expected
        for _ in range(2):
            assert await listed(after=1) == ["a_x"]
        assert ("no answer within 20 s" in caplog.text) is (patience > 20)
        server.methods["tools/list"] = lambda p, s: LISTING
        assert await listed(after=0) == ["a_x", "b_y"]


@both_eras
@pytest.mark.system("O70")
async def test_list_after_a_list_changed_notification_is_the_new_list(era):
    server = named("s", "a")
    async with through({"s": server}, era) as client:
        assert tool_names(await client.list_tools()) == ["s_a"]
        async with client.listen(tools=True) as events:
            for number in range(3):
                name = f"n{number}"
                server.add_tool(_nothing, name=name)
                async for _ in events:
                    break
                assert f"s_{name}" in tool_names(await client.list_tools())


@both_eras
async def test_resources_list_changed_refreshes_templates_too(era):
    server = mcpwire.Server("s")
    server.resource("t:{name}")(_one)
    async with through({"s": server}, era) as client:
        listed = await client.list_resource_templates()
        assert [each.uri_template for each in listed] == ["t:{name}"]
        async with client.listen(resources=True) as events:
            server.resource("u:{name}")(_one)
            async for _ in events:
                break
            listed = await client.list_resource_templates()
        assert [each.uri_template for each in listed] == ["t:{name}", "u:{name}"]


def public(**members):
    """Return a stateless server; all clients may cache its list and resource."""
    page = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **members}
    contents = [{"uri": "x:1", "text": ""}]
    methods = {
        "tools/list": lambda *_: {"tools": [], **page},
        "resources/list": lambda *_: {"resources": [], **page},
        "resources/templates/list": lambda *_: {"resourceTemplates": [], **page},
        "resources/read": lambda *_: {"contents": contents, **page},
    }
    capabilities = {"tools": {}, "resources": {}}
    return fake(methods=methods, version="2026-07-28", capabilities=capabilities)


@pytest.mark.rule("CACHE-13")
@pytest.mark.parametrize("scope", ["public", "private"])
async def test_results_are_private_if_the_servers_are_selected_by_the_client(scope):
    source = Static({"a": public()})
    if scope == "private":
        source = SimpleNamespace(plan=source.plan)
    async with through(source) as client:
        assert (await client.list_tools_page()).cache_scope == scope
        assert (await client.read_resource("x:1")).cache_scope == scope


@on_a_virtual_clock
@pytest.mark.rule("CACHE-06")
async def test_list_of_a_server_that_reports_no_changes_is_kept_for_its_lifetime():
    server, slow = public(ttlMs=6_000), public(ttlMs=6_000)
    answer = slow.methods["tools/list"]

    def late(*_):
        message = {"jsonrpc": "2.0", "id": slow.current["id"], "result": answer()}
        asyncio.get_running_loop().call_later(2, slow.send, message)
        return SILENCE

    slow.methods |= {"tools/list": late, "subscriptions/listen": lambda *_: SILENCE}
    slow.members["capabilities"] = {"tools": {"listChanged": True}}
    async with through({"a": server, "b": slow}) as client:
        for pause, count, ttl_ms in ((0, 1, 4_000), (4, 2, 6_000), (3, 2, 3_000)):
            await asyncio.sleep(pause)  # of the virtual clock
            assert (await client.list_tools_page()).ttl_ms == ttl_ms
            assert fetches(server) == count


async def test_pages_of_one_listing_are_of_the_same_fetch():
    server = public()
    tools = [{**TOOL, "name": name} for name in "abc"]
    page = server.methods["tools/list"]()
    server.methods["tools/list"] = lambda *_: {**page, "tools": tools}
    async with through({"a": server}, page_size=1) as client:
        for count in (1, 2):
            assert tool_names(await client.list_tools()) == ["a_a", "a_b", "a_c"]
            assert fetches(server) == count


async def _nothing() -> str:
    return ""


async def _one(name: str) -> str:
    return name


@pytest.mark.system("O71")
async def test_concurrent_and_later_requests_share_one_fetched_list():
    server = fake("x")
    async with through({"a": server}) as client:
        await asyncio.gather(*(client.list_tools() for _ in range(5)))
        await client.list_tools()
        await client.call_tool("a_x")
    assert fetches(server) == 1


class Slow:
    """A server whose tools/list waits until `may_answer` is set."""

    def __init__(self):
        self.list_requests = 0
        self.names = ["old"]
        self.may_answer = asyncio.Event()
        self.list_requested = asyncio.Event()
        self.server = mcpwire.Server("slow")
        self.server.method("tools/list")(self.list)
        self.server.method("tools/call")(lambda params, request: {"content": []})

    async def list(self, params, request):
        self.list_requests += 1
        names = list(self.names)
        self.list_requested.set()
        await self.may_answer.wait()
        return {"tools": [{**TOOL, "name": name} for name in names]}


@pytest.mark.system("O70")
async def test_change_during_a_fetch_causes_another_fetch():
    slow = Slow()
    gateway = Gateway({"s": slow.server})
    async with mcpwire.Client(gateway) as client:
        first = asyncio.create_task(client.list_tools())
        await slow.list_requested.wait()
        slow.names = ["new"]
        [upstreams] = gateway.pool.shared
        upstreams.members["s"].mark_stale("tools")
        second = asyncio.create_task(client.list_tools())
        await asyncio.sleep(0)  # one loop iteration
        slow.may_answer.set()
        assert tool_names(await first) in (["s_old"], ["s_new"])
        assert tool_names(await second) == ["s_new"]
        assert slow.list_requests == 2


async def test_cancelled_list_request_does_not_cancel_the_shared_fetch():
    slow = Slow()
    async with through({"s": slow.server}) as client:
        first = asyncio.create_task(client.list_tools())
        await slow.list_requested.wait()
        second = asyncio.create_task(client.list_tools())
        await asyncio.sleep(0)  # one loop iteration
        first.cancel()
        slow.may_answer.set()
        assert tool_names(await second) == ["s_old"]
        assert slow.list_requests == 1


@pytest.mark.parametrize("steps", range(8))
async def test_server_removed_while_its_list_is_being_fetched_is_left_out(steps):
    kept = named("a", "x")
    gateway = Gateway({"a": kept, "b": named("b", "y")})
    async with client_of(gateway, "2025-11-25") as client:
        listing = asyncio.ensure_future(client.list_tools())
        for _ in range(steps):
            await asyncio.sleep(0)  # to each point of the fetch
        await gateway.replace({"a": kept})
        assert "a_x" in tool_names(await listing)
        assert tool_names(await client.list_tools()) == ["a_x"]


async def test_call_of_a_known_tool_does_not_fetch_a_stale_list():
    slow = Slow()
    slow.may_answer.set()
    gateway = Gateway({"s": slow.server})
    async with mcpwire.Client(gateway) as client:
        await client.list_tools()
        slow.may_answer.clear()
        [upstreams] = gateway.pool.shared
        upstreams.members["s"].mark_stale("tools")
        assert (await client.call_tool("s_old")).content == []
        assert slow.list_requests == 1


async def test_only_the_changed_server_is_listed_again():
    first, second = fake("x"), fake("y")
    gateway = Gateway({"a": first, "b": second})
    async with mcpwire.Client(gateway) as client:
        await client.list_tools()
        [upstreams] = gateway.pool.shared
        upstreams.members["a"].mark_stale("tools")
        upstreams.members["a"].mark_stale("prompts")
        assert tool_names(await client.list_tools()) == ["a_x", "b_y"]
    counts = [fetches(each) for each in (first, second)]
    assert counts == [2, 1]


# Hidden tools and name collisions...


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"allow": ["a_*"]}, ["a_x", "a_y"]),
        ({"deny": ["*/x"]}, ["a_y"]),
        ({"allow": ["?_x"], "deny": ["b_*"]}, ["a_x"]),
    ],
)
@pytest.mark.system("O45")
async def test_tool_outside_allow_and_deny_rules_is_hidden_and_refused(options, left):
    servers = {"a": named("a", "x", "y"), "b": named("b", "x")}
    async with through(servers, **options) as client:
        assert tool_names(await client.list_tools()) == left
        for name in {"a_x", "a_y", "b_x"} - set(left):
            with pytest.raises(mcpwire.InvalidParams, match="unknown tool"):
                await client.call_tool(name)
        for name in left:
            assert (await client.call_tool(name)).text


async def test_deny_rule_of_a_member_applies_to_its_tools_only():
    servers = {"a": Member(named("a", "x", "y"), deny="x"), "b": named("b", "x")}
    async with through(servers) as client:
        assert tool_names(await client.list_tools()) == ["a_y", "b_x"]


async def test_collision_with_on_collision_raise_is_an_error_response():
    policy = NamePolicy("{server}_{tool}", on_collision="raise")
    servers = {"a_b": named("1", "c"), "a": named("2", "b_c")}
    async with through(servers, names=policy) as client:
        with pytest.raises(InternalError, match="a_b_c"):
            await client.list_tools()


@both_eras
async def test_instructions_come_from_the_servers_or_the_gateway_option(era):
    texts = {"a": "A.", "b": "B.", "none": None, "empty": ""}
    servers = {
        name: mcpwire.Server(name, instructions=text) for name, text in texts.items()
    }
    for names, options, said in [
        ("", {}, None),
        ("none empty", {}, None),
        ("a none", {}, "A."),
        ("a b", {}, "# a\n\nA.\n\n# b\n\nB."),
        ("a", {"instructions": "G."}, "G."),
    ]:
        chosen = {name: servers[name] for name in names.split()}
        async with through(chosen, era, **options) as client:
            assert client.instructions == said
