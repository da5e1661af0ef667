"""What a gateway lists: everything of everybody, and never what has changed since."""

import asyncio

import pytest
from fakes import SILENCE
from gated import ERAS, TOOL, client_of, fake, named, through, tool_names

import mcpwire
from mcpwire.errors import InternalError
from mcpwire.gateway import Gateway, Static, catalog, merging
from mcpwire.group.member import Member
from mcpwire.tools.names import NamePolicy

both_eras = pytest.mark.parametrize("era", ERAS)


@both_eras
@pytest.mark.system("O40", "O42")
async def test_tools_of_all_servers_are_listed_under_their_names_in_order(era):
    servers = {"b": named("b", "x", "a"), "a": named("a", "x")}
    async with through(servers, era) as client:
        assert tool_names(await client.list_tools()) == ["a_x", "b_a", "b_x"]


@pytest.mark.system("O42")
async def test_tools_can_be_named_after_what_servers_say_of_themselves():
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
async def test_resources_templates_and_prompts_are_listed_too(era):
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
async def test_a_gateway_before_nothing_is_a_server_with_nothing(era):
    async with through({}, era) as client:
        assert client.capabilities.tools is None
        for method in ("tools/list", "prompts/list", "resources/list"):
            raw = await client.request(method)
            assert raw[method.partition("/")[0]] == []


@pytest.mark.system("O86")
async def test_a_server_is_not_asked_for_what_it_did_not_declare():
    server = fake("x", capabilities={"tools": {}})
    async with through({"a": server}) as client:
        assert (await client.request("resources/list"))["resources"] == []
        assert (await client.request("resources/templates/list"))[
            "resourceTemplates"
        ] == []
        with pytest.raises(mcpwire.RPCError):
            await client.request("resources/read", {"uri": "x:1"})
    assert not [m for m in server.received if "resources" in m["method"]]


async def test_a_list_that_is_too_long_is_left_out(monkeypatch, caplog):
    monkeypatch.setattr(catalog, "MAX_LIST_BYTES", 2_000)
    pages = []

    def endless(params, server):
        pages.append(params)
        tool = {**TOOL, "name": f"t{len(pages)}", "description": "x" * 500}
        return {"tools": [tool], "nextCursor": str(len(pages))}

    servers = {
        "a": named("a", "x"),
        "long": fake(methods={"tools/list": endless}),
    }
    gateway = Gateway(servers)
    async with client_of(gateway, "2025-11-25") as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
    assert len(pages) == 4
    assert "more than 2000 bytes" in caplog.text


@pytest.mark.system("L-O11")
async def test_all_pages_of_a_server_are_fetched_and_the_gateway_makes_its_own():
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
        with pytest.raises(mcpwire.InvalidParams, match="no cursor"):
            await client.list_tools_page("1")
    assert len([m for m in server.received if m["method"] == "tools/list"]) == 7


async def test_a_list_is_marked_once_for_all_of_its_pages(monkeypatch):
    marked = []

    def list_digest(texts):
        marked.append(list(texts))
        return original(marked[-1])

    original = merging.list_digest
    monkeypatch.setattr(merging, "list_digest", list_digest)
    async with through({"s": named("s", *"abcdef")}, page_size=1) as client:
        assert len(await client.list_tools()) == 6
        assert len(marked) == 1
        assert len(marked[0]) == 6


@pytest.mark.system("L-O11")
async def test_a_cursor_is_refused_once_the_list_has_changed():
    server = named("s", *"abcd")
    async with through({"s": server}, "2025-11-25", page_size=2) as client:
        changed = asyncio.Event()
        async with client.listen(tools=True) as events:
            page = await client.list_tools_page()
            server.tools["a"].remove()
            async for _ in events:
                changed.set()
                break
        with pytest.raises(mcpwire.InvalidParams, match="has changed since"):
            await client.list_tools_page(page.next_cursor)


async def test_a_server_whose_list_never_ends_is_left_out():
    endless = fake(
        methods={"tools/list": lambda p, s: {"tools": [], "nextCursor": "again"}}
    )
    async with through({"a": named("a", "x"), "b": endless}) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]


@pytest.mark.system("L-O5", "O34")
async def test_a_server_that_fails_is_left_out_until_it_works_again(
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
async def test_a_list_that_failed_is_not_fetched_again_with_each_request():
    bad = fake(methods={"tools/list": lambda p, s: mcpwire.InternalError("no")})
    async with through({"b": bad}) as client:
        for _ in range(3):
            assert await client.list_tools() == []
    assert len([m for m in bad.received if m["method"] == "tools/list"]) == 1


async def test_a_server_that_never_answers_a_list_does_not_keep_the_others(caplog):
    silent = Member(fake(methods={"tools/list": lambda p, s: SILENCE}), timeout=0.05)
    async with through({"a": named("a", "x"), "b": silent}) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
    [record] = [r for r in caplog.records if "left out" in r.message]
    assert "tools/list: no answer within 0.05 s" in record.message


async def test_nobody_waits_again_for_a_list_that_took_too_long(monkeypatch):
    monkeypatch.setattr(catalog, "LIST_RETRY_S", 0.0)
    asked = asyncio.Event()
    server = fake(methods={"tools/list": lambda p, s: SILENCE})
    servers = {"a": named("a", "x"), "b": Member(server, timeout=0.05)}
    heard = asyncio.Event()
    async with mcpwire.Client(
        Gateway(servers), on_notification=lambda _: heard.set()
    ) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]

        def hold(_, server):
            asked.set()
            return SILENCE

        server.methods["tools/list"] = hold
        assert tool_names(await client.list_tools()) == ["a_x"]
        await asked.wait()
        server.send({"jsonrpc": "2.0", "id": server.current["id"], "result": LISTING})
        await heard.wait()
        assert tool_names(await client.list_tools()) == ["a_x", "b_y"]


async def test_clients_hear_of_a_slow_list_that_failed_otherwise_meanwhile(monkeypatch):
    monkeypatch.setattr(catalog, "LIST_RETRY_S", 0.0)
    server = fake(methods={"tools/list": lambda p, s: SILENCE})
    servers = {"a": named("a", "x"), "b": Member(server, timeout=0.05)}
    heard = asyncio.Event()
    gateway = Gateway(servers)
    async with client_of(gateway, on_notification=lambda _: heard.set()) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
        server.methods["tools/list"] = lambda p, s: mcpwire.InternalError("no")
        while "no answer" in _problem(gateway):
            assert tool_names(await client.list_tools()) == ["a_x"]
        server.methods["tools/list"] = lambda p, s: LISTING
        assert tool_names(await client.list_tools()) == ["a_x", "b_y"]
        await heard.wait()


def _problem(gateway):
    return gateway.status()["sets"][0]["servers"][1]["problems"]["tools/list"]


# Freshness...


@both_eras
@pytest.mark.system("O70")
async def test_whoever_lists_after_a_change_was_told_gets_the_new_list(era):
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
async def test_a_change_of_resources_is_one_of_their_templates_too(era):
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


async def _nothing() -> str:
    return ""


async def _one(name: str) -> str:
    return name


@pytest.mark.system("O71")
async def test_a_list_is_kept_and_fetched_once_whoever_asks():
    server = fake("x")
    async with through({"a": server}) as client:
        await asyncio.gather(*(client.list_tools() for _ in range(5)))
        await client.list_tools()
        await client.call_tool("a_x")
    assert len([m for m in server.received if m["method"] == "tools/list"]) == 1


class Slow:
    """A server's list that waits for the test."""

    def __init__(self):
        self.asked = 0
        self.names = ["old"]
        self.may_answer = asyncio.Event()
        self.was_asked = asyncio.Event()
        self.server = mcpwire.Server("slow")
        self.server.method("tools/list")(self.list)
        self.server.method("tools/call")(lambda params, request: {"content": []})

    async def list(self, params, request):
        self.asked += 1
        names = list(self.names)
        self.was_asked.set()
        await self.may_answer.wait()
        return {"tools": [{**TOOL, "name": name} for name in names]}


@pytest.mark.system("O70")
async def test_a_change_during_a_fetch_causes_another_one():
    slow = Slow()
    gateway = Gateway({"s": slow.server})
    async with mcpwire.Client(gateway) as client:
        first = asyncio.create_task(client.list_tools())
        await slow.was_asked.wait()
        slow.names = ["new"]
        [upstreams] = gateway.pool.shared
        upstreams.catalog.mark_stale("tools", "s")
        second = asyncio.create_task(client.list_tools())
        await asyncio.sleep(0)  # a turn of the loop
        slow.may_answer.set()
        assert tool_names(await first) in (["s_old"], ["s_new"])
        assert tool_names(await second) == ["s_new"]
        assert slow.asked == 2


async def test_a_reader_that_leaves_takes_the_list_from_nobody():
    slow = Slow()
    async with through({"s": slow.server}) as client:
        first = asyncio.create_task(client.list_tools())
        await slow.was_asked.wait()
        second = asyncio.create_task(client.list_tools())
        await asyncio.sleep(0)  # a turn of the loop
        first.cancel()
        slow.may_answer.set()
        assert tool_names(await second) == ["s_old"]
        assert slow.asked == 1


async def test_calls_of_known_tools_go_on_while_a_list_is_fetched_anew():
    slow = Slow()
    slow.may_answer.set()
    gateway = Gateway({"s": slow.server})
    async with mcpwire.Client(gateway) as client:
        await client.list_tools()
        slow.may_answer.clear()
        [upstreams] = gateway.pool.shared
        upstreams.catalog.mark_stale("tools", "s")
        assert (await client.call_tool("s_old")).content == []
        assert slow.asked == 1


async def test_only_the_server_that_changed_is_asked_again():
    first, second = fake("x"), fake("y")
    gateway = Gateway({"a": first, "b": second})
    async with mcpwire.Client(gateway) as client:
        await client.list_tools()
        [upstreams] = gateway.pool.shared
        upstreams.catalog.mark_stale("tools", "a")
        upstreams.catalog.mark_stale("prompts", "a")
        assert tool_names(await client.list_tools()) == ["a_x", "b_y"]
    counts = [
        len([m for m in each.received if m["method"] == "tools/list"])
        for each in (first, second)
    ]
    assert counts == [2, 1]


# What is hidden, and what collides...


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"allow": ["a_*"]}, ["a_x", "a_y"]),
        ({"deny": ["*/x"]}, ["a_y"]),
        ({"allow": ["?_x"], "deny": ["b_*"]}, ["a_x"]),
    ],
)
@pytest.mark.system("O45")
async def test_what_is_not_allowed_is_hidden_and_refused(options, left):
    servers = {"a": named("a", "x", "y"), "b": named("b", "x")}
    async with through(servers, **options) as client:
        assert tool_names(await client.list_tools()) == left
        for name in {"a_x", "a_y", "b_x"} - set(left):
            with pytest.raises(mcpwire.InvalidParams, match="unknown tool"):
                await client.call_tool(name)
        for name in left:
            assert (await client.call_tool(name)).text


async def test_a_servers_own_rules_hold_for_its_tools_alone():
    servers = {"a": Member(named("a", "x", "y"), deny="x"), "b": named("b", "x")}
    async with through(servers) as client:
        assert tool_names(await client.list_tools()) == ["a_y", "b_x"]


async def test_a_collision_that_is_an_error_is_answered_as_one():
    policy = NamePolicy("{server}_{tool}", on_collision="raise")
    servers = {"a_b": named("1", "c"), "a": named("2", "b_c")}
    async with through(servers, names=policy) as client:
        with pytest.raises(InternalError, match="a_b_c"):
            await client.list_tools()


# What servers say of themselves...


@both_eras
@pytest.mark.system("O48")
async def test_capabilities_are_those_of_the_servers_together(era):
    with_prompt = mcpwire.Server("p")
    with_prompt.add_prompt(_nothing, name="p")
    servers = {"a": named("a", "x"), "b": with_prompt}
    async with through(servers, era) as client:
        assert client.capabilities.tools.list_changed is True
        assert client.capabilities.prompts.list_changed is True
        assert client.capabilities.resources is None
        assert client.server_info.name == "mcpwire-gateway"


@both_eras
async def test_instructions_are_the_servers_own_or_the_gateways(era):
    one_server, other = (
        mcpwire.Server("a", instructions="A."),
        mcpwire.Server("b", instructions="B."),
    )
    async with through({"a": one_server}, era) as client:
        assert client.instructions == "A."
    async with through({"a": one_server, "b": other}, era) as client:
        assert client.instructions == "# a\n\nA.\n\n# b\n\nB."
    async with through({"a": one_server}, era, instructions="G.") as client:
        assert client.instructions == "G."


async def test_a_source_may_be_given_as_such():
    async with through(Static({"a": named("a", "x")})) as client:
        assert tool_names(await client.list_tools()) == ["a_x"]
