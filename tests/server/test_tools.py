"""`Server`: functions become tools, and stay functions."""

import asyncio
import logging
import threading

import pytest

from mcpwire import Client, Context, Depends, InvalidParams, Server, ToolError

ERAS = ["2026-07-28", "2025-11-25"]


def new(**options):
    return Server("s", "1", **options)


def text(result):
    return [block.text for block in result.content], result.is_error


async def test_a_decorated_function_stays_the_function(server):
    @server.tool
    def bare(a: int) -> int:
        """Bare."""
        return a + 1

    @server.tool(name="other", title="Other")
    async def with_options(a: int) -> int:
        return a + 2

    assert (bare(1), await with_options(1)) == (2, 3)
    async with Client(server) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert {"bare", "other"} == set(tools)
        assert tools["bare"].description == "Bare."
        assert tools["other"].title == "Other"
        assert (await client.call_tool("bare", {"a": 1})).structured_content == {
            "result": 2
        }


@pytest.mark.rule("TOOL-04")
async def test_tools_are_listed_in_the_order_in_which_they_came(server):
    names = ["zeta", "alpha", "mid", "beta"]
    for name in names:
        server.add_tool(lambda: None, name=name)
    async with Client(server) as client:
        for _ in range(3):
            assert [tool.name for tool in await client.list_tools()] == names


@pytest.mark.rule("TOOL-08")
@pytest.mark.parametrize("name", ["", "with space", "ä", "a/b", "x" * 129])
async def test_a_name_that_is_none_is_refused_when_it_is_registered(server, name):
    with pytest.raises(ValueError, match=r"must be 1 to 128|name="):
        server.add_tool(lambda: None, name=name)


async def test_what_has_no_name_must_be_given_one():
    with pytest.raises(ValueError, match="name="):
        new().add_tool(lambda: None)


@pytest.mark.parametrize(
    ("policy", "answer"), [("replace", "second"), ("ignore", "first")]
)
async def test_a_second_tool_of_the_same_name_is_what_the_server_says(policy, answer):
    server = new(on_duplicate=policy)
    server.add_tool(lambda: "first", name="it")
    server.add_tool(lambda: "second", name="it")
    async with Client(server) as client:
        assert text(await client.call_tool("it"))[0] == [answer]


async def test_by_default_a_second_tool_of_the_same_name_is_an_error(server):
    server.add_tool(lambda: 1, name="it")
    with pytest.raises(ValueError, match="'it' already"):
        server.add_tool(lambda: 2, name="it")
    with pytest.raises(ValueError, match="on_duplicate"):
        new(on_duplicate="both")


@pytest.mark.rule("TOOL-15", "TOOL-16")
@pytest.mark.case("F09")
@pytest.mark.parametrize("era", [*ERAS, "2025-06-18"])
async def test_wrong_arguments_are_told_as_the_revision_has_it(server, era):
    @server.tool
    def add(a: int, b: int = 0) -> int:
        return a + b

    async with Client(server, mode=era) as client:
        with pytest.raises(InvalidParams, match="no tool 'sub'"):
            await client.call_tool("sub", {})
        if era == "2025-06-18":
            with pytest.raises(InvalidParams, match="a: expected integer"):
                await client.call_tool("add", {"a": "x"})
        else:
            result = await client.call_tool("add", {"a": "x", "c": 1})
            (said,), is_error = text(result)
            assert is_error
            assert "a: expected integer, got string 'x'" in said
            assert "c" in said
        assert text(await client.call_tool("add", {"a": 1})) == (["1"], False)


@pytest.mark.case("F09")
async def test_a_call_without_arguments_is_one_with_none(server):
    server.add_tool(lambda: "done", name="it")
    async with Client(server) as client:
        result = await client.request("tools/call", {"name": "it"})
        assert result["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.case("D19")
@pytest.mark.parametrize("era", ERAS)
async def test_what_a_tool_raises_stays_inside_but_for_a_tool_error(
    server, era, caplog
):
    @server.tool
    def secret() -> str:
        raise LookupError("the password is hunter2")

    @server.tool
    async def leaves() -> str:
        raise SystemExit(3)

    @server.tool
    def leaves_a_thread() -> str:
        raise SystemExit(3)

    @server.tool
    async def says() -> str:
        raise ToolError("no such city")

    @server.tool
    async def grouped() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(says())
        return "never"

    @server.tool
    async def unserialisable() -> object:
        return object()

    async with Client(server, mode=era) as client:
        with caplog.at_level(logging.CRITICAL, "mcpwire"):
            for name in ("secret", "leaves", "leaves_a_thread", "unserialisable"):
                said, is_error = text(await client.call_tool(name))
                assert (said, is_error) == (["the tool failed"], True)
        for name in ("says", "grouped"):
            assert text(await client.call_tool(name)) == (["no such city"], True)


async def test_plain_functions_run_in_threads_and_need_not(server):
    threads = {}

    @server.tool
    def in_a_thread():
        threads["plain"] = threading.current_thread()

    @server.tool(thread=False)
    def on_the_loop():
        threads["inline"] = threading.current_thread()

    async with Client(server) as client:
        await client.call_tool("in_a_thread")
        await client.call_tool("on_the_loop")
    assert threads["plain"] is not threading.current_thread()
    assert threads["inline"] is threading.current_thread()
    with pytest.raises(ValueError, match="thread=True"):

        @server.tool(thread=True)
        async def never(): ...


@pytest.mark.case("F18")
async def test_a_slow_plain_tool_keeps_nobody_waiting(server):
    release = threading.Event()

    @server.tool
    def slow() -> str:
        assert release.wait(30)
        return "slow"

    async with Client(server, mode="2025-11-25") as client:
        call = asyncio.ensure_future(client.call_tool("slow"))
        assert await client.ping() < 10
        assert not call.done()
        release.set()
        assert text(await call)[0] == ["slow"]


@pytest.mark.case("F18")
async def test_no_more_calls_of_a_tool_run_than_it_allows(server):
    running, most = 0, 0

    @server.tool(concurrency=2)
    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1

    async with Client(server) as client:
        await asyncio.gather(*(client.call_tool("busy") for _ in range(8)))
    assert most == 2
    with pytest.raises(ValueError, match="concurrency"):
        server.add_tool(lambda: 1, name="none", concurrency=0)


async def test_a_tool_that_takes_too_long_fails_and_is_stopped():
    stopped = asyncio.Event()
    server = new(tool_timeout=30)

    @server.tool(timeout=0.01)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @server.tool
    async def own() -> None:
        raise TimeoutError("of its own")

    async with Client(server) as client:
        said, is_error = text(await client.call_tool("slow"))
        assert (said, is_error) == (["it took longer than 0.01 seconds"], True)
        assert stopped.is_set()
        assert text(await client.call_tool("own")) == (["the tool failed"], True)
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            server.add_tool(lambda: 1, name="never", timeout=timeout)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.rule("TOOL-05")
async def test_a_handle_removes_hides_and_replaces_and_clients_hear_of_it(server, era):
    server.add_tool(lambda: "one", name="one")
    server.add_tool(lambda: "two", name="two", title="Two")
    async with (
        Client(server, mode=era) as client,
        client.listen(tools=True) as changes,
    ):

        async def next_names():
            await anext(aiter(changes))
            return [tool.name for tool in await client.list_tools()]

        server.tools["one"].disable()
        assert await next_names() == ["two"]
        with pytest.raises(InvalidParams):
            await client.call_tool("one")
        server.tools["one"].enable()
        assert await next_names() == ["one", "two"]
        handle = server.tools["two"]
        handle.replace(lambda: "another")
        assert await next_names() == ["one", "two"]
        assert handle.component.definition["title"] == "Two"
        assert text(await client.call_tool("two"))[0] == ["another"]
        handle.remove()
        assert await next_names() == ["one"]
    with pytest.raises(KeyError, match="'two'"):
        handle.remove()
    with pytest.raises(KeyError, match="'two'"):
        _ = server.tools["two"]


async def test_many_changes_in_one_turn_are_told_once(server):
    told = []
    async with Client(server, mode="2025-11-25", on_notification=told.append) as client:
        await client.ping()
        for number in range(50):
            server.add_tool(lambda: 1, name=f"t{number}")
        await client.ping()
        # The first one declared the kind; a session keeps what it was told.
        assert [one.method for one in told] == ["notifications/tools/list_changed"]


async def test_what_is_visible_is_the_same_for_the_list_and_for_calls():
    def visible(ctx: Context, component):
        return "admin" not in component.tags or ctx.client_info["name"] == "admin"

    server = new(visible=visible)
    server.add_tool(lambda: "public", name="public")
    server.add_tool(lambda: "secret", name="secret", tags={"admin"})
    server.add_tool(lambda: "no", name="never", visible=lambda ctx, component: False)
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["public"]
        for name in ("secret", "never"):
            with pytest.raises(InvalidParams, match="no tool"):
                await client.call_tool(name)


async def test_bound_methods_and_partials_are_tools():
    import functools

    class Counter:
        def __init__(self):
            self.count = 0

        async def up(self, by: int = 1) -> int:
            """Count."""
            self.count += by
            return self.count

    server = new()
    counter = Counter()
    server.add_tool(counter.up)
    server.add_tool(functools.partial(counter.up, by=10), name="ten")
    async with Client(server) as client:
        await client.call_tool("up", {"by": 2})
        await client.call_tool("ten")
    assert counter.count == 12


async def test_a_tool_with_a_schema_of_its_own_takes_its_arguments_as_a_dict(server):
    schema = {
        "type": "object",
        "properties": {"a-b": {"type": "integer"}},
        "required": ["a-b"],
    }

    @server.tool(input_schema=schema, output_schema={"type": "object"})
    async def raw(arguments: dict, ctx: Context):
        return {"got": arguments, "method": ctx.method}

    async with Client(server) as client:
        (tool,) = await client.list_tools()
        assert tool.input_schema == schema
        result = await client.call_tool("raw", {"a-b": 3})
        assert result.structured_content == {"got": {"a-b": 3}, "method": "tools/call"}
        assert (await client.call_tool("raw", {})).is_error


@pytest.mark.rule("TOOL-15")
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.unchecked_wire("what a client must not send")
async def test_arguments_that_are_no_object_are_a_fault_of_the_request(
    server, revision
):
    @server.tool
    def add(a: int = 1) -> int:
        return a

    mode = "stateless" if revision == ERAS[0] else "session"
    async with Client(server, mode=mode) as client:
        for arguments in (["a"], "a", 7):
            params = {"name": "add", "arguments": arguments}
            with pytest.raises(InvalidParams, match="arguments: expected object"):
                await client.request("tools/call", params)


async def test_dependencies_are_made_once_for_a_request_and_end_with_it():
    made, ended = [], []

    async def connection():
        made.append("connection")
        yield "db"
        ended.append("connection")

    def user(ctx: Context, db: str = Depends(connection)):
        return f"{ctx.method} {db}"

    def cleaned():
        made.append("cleaned")
        yield 7
        ended.append("cleaned")

    async def number():
        return 5

    server = new()

    @server.tool
    async def use(
        a: int,
        who: str = Depends(user),
        db: str = Depends(connection),
        n: int = Depends(number),
        c: int = Depends(cleaned),
    ) -> str:
        assert ended == []
        return f"{a} {who} {db} {n} {c}"

    async with Client(server) as client:
        (tool,) = await client.list_tools()
        assert list(tool.input_schema["properties"]) == ["a"]
        result = await client.call_tool("use", {"a": 1})
        assert text(result)[0] == ["1 tools/call db db 5 7"]
    assert made == ["connection", "cleaned"]
    assert ended == ["cleaned", "connection"]


async def test_a_dependency_that_nothing_fills_is_refused_when_it_is_registered():
    def needs(something):
        return something

    def circle(one=None):
        return one

    circle.__defaults__ = (Depends(circle),)
    server = new()
    with pytest.raises(TypeError, match="'something' of a dependency"):

        @server.tool
        async def one(a: int = Depends(needs)): ...

    with pytest.raises(TypeError, match="needs itself"):

        @server.tool
        async def two(a: int = Depends(circle)): ...

    with pytest.raises(TypeError, match="needs a function"):
        Depends("text")


async def test_a_tool_calls_others_and_reads_resources_of_its_server(server):
    @server.tool
    def low(a: int) -> int:
        if a > 5:
            raise ToolError("too high")
        return a * 2

    @server.resource("test://text")
    def resource() -> str:
        return "content"

    @server.tool
    async def high(a: int, ctx: Context) -> str:
        called = await ctx.call_tool("low", {"a": a})
        read = await ctx.read_resource("test://text")
        return f"{called.text} {called.is_error} {read.contents[0].text}"

    async with Client(server) as client:
        assert text(await client.call_tool("high", {"a": 2}))[0] == ["4 False content"]
        said = text(await client.call_tool("high", {"a": 9}))[0]
        assert said == ["too high True content"]


async def test_the_handle_and_the_table_show_what_they_are(server):
    server.add_tool(lambda: 1, name="one")
    assert repr(server) == "<Server 's' 1>"
    assert repr(server.tools) == "<1 tools: one>"
    assert repr(server.tools["one"]) == "<Handle of <Tool 'one'>>"
    assert (list(server.tools), "one" in server.tools) == (["one"], True)


async def test_options_that_are_wrong_are_refused(server):
    with pytest.raises(TypeError, match="name="):
        server.tool("named")
    with pytest.raises(
        ValueError, match="task must be 'forbidden', 'optional' or 'required'"
    ):
        server.add_tool(lambda: 1, name="x", task="always")
    with pytest.raises(ValueError, match="ask_timeout"):
        new(ask_timeout=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scope": ["mail"]}, "has no option 'scope'; did you mean 'scopes'?"),
        ({"visibel": bool}, "has no option 'visibel'; did you mean 'visible'?"),
        ({"zzz": 1}, "has no option 'zzz'$"),
        ({"scopes": "mail"}, "scopes takes a list, got 'mail'"),
        ({"tags": "admin"}, "tags takes a list, got 'admin'"),
        ({"icons": "https://x.example/a.png"}, "icons takes a list"),
        ({"description": 3}, "description must be a text, got 3"),
        ({"name": 3}, "name must be a text, got 3"),
        ({"visible": True}, "visible must be a function, got True"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(server, options, said):
    options = {"name": "x", **options}
    with pytest.raises(TypeError, match=said):
        server.tool(**options)(lambda: 1)
    with pytest.raises(TypeError, match=said):
        server.resource("x://1", **options)(lambda: "1")
    with pytest.raises(TypeError, match=said):
        server.prompt(**options)(lambda: "1")
    assert len(server.tools) + len(server.resources) + len(server.prompts) == 0


def test_replacing_takes_the_options_of_registering(server):
    server.add_tool(lambda: 1, name="x", description=None)
    with pytest.raises(TypeError, match="a tool has no option 'scope'"):
        server.tools["x"].replace(lambda: 2, scope=["a"])
    with pytest.raises(TypeError, match="name the prompt by name=, got 'named'"):
        server.prompt("named")
