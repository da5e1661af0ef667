"""`Server`: functions become tools, and stay functions."""

import asyncio
import contextlib
import functools
import logging
import queue
import threading

import pytest

from mcpwire import (
    Client,
    Context,
    Depends,
    InvalidParams,
    Server,
    ToolError,
    current_context,
)

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
async def test_tools_are_listed_in_registration_order(server):
    names = ["zeta", "alpha", "mid", "beta"]
    for name in names:
        server.add_tool(lambda: None, name=name)
    async with Client(server) as client:
        for _ in range(3):
            assert [tool.name for tool in await client.list_tools()] == names


@pytest.mark.rule("TOOL-08")
@pytest.mark.parametrize("name", [None, "", "with space", "ä", "a/b", "x" * 129])
async def test_invalid_tool_name_is_refused_at_registration(server, name):
    with pytest.raises(ValueError, match=r"must be 1 to 128|name="):
        server.add_tool(lambda: None, name=name)


@pytest.mark.parametrize(
    ("policy", "answer"), [("replace", "second"), ("ignore", "first")]
)
async def test_on_duplicate_replaces_or_ignores_the_second_tool(policy, answer):
    server = new(on_duplicate=policy)
    server.add_tool(lambda: "first", name="it")
    server.add_tool(lambda: "second", name="it")
    async with Client(server) as client:
        assert text(await client.call_tool("it"))[0] == [answer]


async def test_duplicate_tool_name_is_an_error_by_default(server):
    server.add_tool(lambda: 1, name="it")
    with pytest.raises(ValueError, match="'it' is already"):
        server.add_tool(lambda: 2, name="it")
    with pytest.raises(ValueError, match="on_duplicate"):
        new(on_duplicate="both")


@pytest.mark.rule("TOOL-15", "TOOL-16")
@pytest.mark.case("F09")
@pytest.mark.parametrize("era", [*ERAS, "2025-06-18"])
async def test_invalid_arguments_are_reported_per_revision(server, era):
    @server.tool
    def add(a: int, b: int = 0) -> int:
        return a + b

    async with Client(server, mode=era) as client:
        with pytest.raises(InvalidParams, match="unknown tool 'sub'"):
            await client.call_tool("sub", {})
        if era == "2025-06-18":
            with pytest.raises(InvalidParams, match="a: expected integer"):
                await client.call_tool("add", {"a": "x"})
        else:
            result = await client.call_tool("add", {"a": "x", "c": 1})
            (message,), is_error = text(result)
            assert is_error
            assert "a: expected integer, got string 'x'" in message
            assert "c" in message
        assert text(await client.call_tool("add", {"a": 1})) == (["1"], False)


@pytest.mark.case("F09")
async def test_call_without_arguments_uses_empty_arguments(server):
    server.add_tool(lambda: "done", name="it")
    async with Client(server) as client:
        result = await client.request("tools/call", {"name": "it"})
        assert result["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.case("D19")
@pytest.mark.parametrize("era", ERAS)
async def test_only_tool_error_messages_reach_the_client(server, era, caplog):
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
                message, is_error = text(await client.call_tool(name))
                assert (message, is_error) == (["the tool failed"], True)
        for name in ("says", "grouped"):
            assert text(await client.call_tool(name)) == (["no such city"], True)


async def test_sync_tools_run_in_threads_unless_disabled(server):
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


@pytest.mark.parametrize("thread", [None, False])
async def test_coroutine_that_a_plain_function_returns_is_awaited(server, thread):
    def plain(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @plain
    async def rate() -> int:
        return 3

    @server.tool(thread=thread)
    @plain
    async def double(number: int, ctx: Context, by: int = Depends(rate)) -> int:
        assert current_context() is ctx
        return number * by

    async with Client(server) as client:
        result = await client.call_tool("double", {"number": 2})
    assert result.structured_content == {"result": 6}


@pytest.mark.case("F18")
async def test_slow_sync_tool_does_not_block_other_requests(server):
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
async def test_concurrency_option_limits_parallel_calls(server):
    running, max_running = 0, 0

    @server.tool(concurrency=2)
    async def busy() -> None:
        nonlocal running, max_running
        running += 1
        max_running = max(max_running, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1

    async with Client(server) as client:
        await asyncio.gather(*(client.call_tool("busy") for _ in range(8)))
    assert max_running == 2
    with pytest.raises(ValueError, match="concurrency"):
        server.add_tool(lambda: 1, name="none", concurrency=0)


async def test_tool_beyond_its_timeout_is_cancelled_and_fails():
    stopped, release = asyncio.Event(), asyncio.Event()
    server = new(tool_timeout=0.01)

    @server.tool
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @server.tool(timeout=30)
    async def slower() -> str:
        await release.wait()
        return "done"

    @server.tool
    async def own() -> None:
        raise TimeoutError("of its own")

    async with Client(server) as client:
        other = asyncio.create_task(client.call_tool("slower"))
        message, is_error = text(await client.call_tool("slow"))
        assert (message, is_error) == (["it took longer than 0.01 seconds"], True)
        assert stopped.is_set()
        release.set()
        assert text(await other) == (["done"], False)
        assert text(await client.call_tool("own")) == (["the tool failed"], True)
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            server.add_tool(lambda: 1, name="never", timeout=timeout)


async def test_thread_of_a_tool_beyond_its_timeout_sees_the_cancellation(server):
    started, released, seen = threading.Event(), threading.Event(), queue.SimpleQueue()

    @server.tool(timeout=0.01)
    def slow(ctx: Context) -> None:
        started.set()
        assert released.wait(30)
        try:
            ctx.raise_if_cancelled()
        finally:
            seen.put(ctx.is_cancelled)

    @server.tool
    async def outer(ctx: Context) -> str:
        result = await ctx.call_tool("slow")
        return f"{result.text}, {ctx.is_cancelled}"

    async with Client(server) as client:
        while not started.is_set():  # the thread may begin too late
            outcome = text(await client.call_tool("outer"))
        released.set()
        assert outcome == (["it took longer than 0.01 seconds, False"], False)
        assert await asyncio.to_thread(seen.get)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.rule("TOOL-05")
async def test_handle_changes_notify_clients(server, era):
    server.add_tool(lambda: "one", name="one")
    server.add_tool(lambda: "two", name="two", title="Two")
    async with Client(server, mode=era) as client, client.listen(tools=True) as changes:

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


async def test_all_handles_of_a_component_change_the_registered_one(server):
    first = server.add_tool(lambda: "one", name="one")
    second = server.tools["one"]
    first.disable()
    second.replace(lambda: "two", title="Two")
    async with Client(server) as client:
        assert await client.list_tools() == []
        first.enable()
        assert text(await client.call_tool("one"))[0] == ["two"]
        assert first.component is second.component
        first.disable()
        with pytest.raises(InvalidParams):
            await client.call_tool("one")
        first.replace(lambda: "three")
        second.enable()
        (tool,) = await client.list_tools()
    assert tool.title == "Two"
    first.remove()
    with pytest.raises(KeyError, match="'one'"):
        second.disable()


async def test_changes_in_one_loop_iteration_are_notified_once(server):
    notifications = []
    async with Client(
        server, mode="2025-11-25", on_notification=notifications.append
    ) as client:
        await client.ping()
        for number in range(50):
            server.add_tool(lambda: 1, name=f"t{number}")
        await client.ping()
        # The first tool declared the capability; a session keeps its capabilities.
        assert [one.method for one in notifications] == [
            "notifications/tools/list_changed"
        ]


async def test_visibility_applies_to_lists_and_calls():
    def visible(ctx: Context, component):
        return "admin" not in component.tags or ctx.client_info["name"] == "admin"

    server = new(visible=visible)
    server.add_tool(lambda: "public", name="public")
    server.add_tool(lambda: "secret", name="secret", tags={"admin"})
    server.add_tool(lambda: "no", name="never", visible=lambda ctx, component: False)
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["public"]
        for name in ("secret", "never"):
            with pytest.raises(InvalidParams, match="unknown tool"):
                await client.call_tool(name)


async def awaited(ctx, component):
    """A predicate that would always be true."""


class Awaited:
    __call__ = awaited


@pytest.mark.parametrize("visible", [awaited, Awaited()])
def test_visible_must_be_a_plain_function(visible, server):
    for register in (Server, functools.partial(server.add_resource, "a:b")):
        with pytest.raises(TypeError, match="visible must be a plain function, got"):
            register("text", visible=visible)


async def test_bound_methods_and_partials_are_tools(server):
    import functools

    class Counter:
        def __init__(self):
            self.count = 0

        async def up(self, by: int = 1) -> int:
            """Count."""
            self.count += by
            return self.count

    counter = Counter()
    server.add_tool(counter.up)
    server.add_tool(functools.partial(counter.up, by=10), name="ten")
    async with Client(server) as client:
        await client.call_tool("up", {"by": 2})
        await client.call_tool("ten")
    assert counter.count == 12


async def test_tool_with_explicit_schema_takes_a_dict(server):
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
async def test_arguments_that_are_not_an_object_are_invalid_params(server, revision):
    @server.tool
    def add(a: int = 1) -> int:
        return a

    mode = "stateless" if revision == ERAS[0] else "session"
    async with Client(server, mode=mode) as client:
        for arguments in (["a"], "a", 7):
            params = {"name": "add", "arguments": arguments}
            with pytest.raises(InvalidParams, match="arguments: expected object"):
                await client.request("tools/call", params)


@pytest.mark.parametrize(
    ("later", "plain"),
    [(lambda f: f,) * 2, (contextlib.asynccontextmanager, contextlib.contextmanager)],
)
async def test_dependencies_are_created_once_per_request(server, later, plain):
    made, ended = [], []

    @later
    async def connection():
        made.append("connection")
        yield "db"
        ended.append("connection")

    def user(ctx: Context, db: str = Depends(connection)):
        return f"{ctx.method} {db}"

    @plain
    def cleaned():
        made.append("cleaned")
        yield 7
        ended.append("cleaned")

    async def number():
        return 5

    @server.tool
    async def use(
        a: int,
        caller: str = Depends(user),
        db: str = Depends(connection),
        n: int = Depends(number),
        c: int = Depends(cleaned),
    ) -> str:
        assert ended == []
        return f"{a} {caller} {db} {n} {c}"

    async with Client(server) as client:
        (tool,) = await client.list_tools()
        assert list(tool.input_schema["properties"]) == ["a"]
        result = await client.call_tool("use", {"a": 1})
        assert text(result)[0] == ["1 tools/call db db 5 7"]
    assert made == ["connection", "cleaned"]
    assert ended == ["cleaned", "connection"]


async def test_unresolvable_dependency_is_refused_at_registration(server):
    def needs(something):
        return something

    def circle(one=None):
        return one

    circle.__defaults__ = (Depends(circle),)
    with pytest.raises(TypeError, match="'something' of a dependency"):

        @server.tool
        async def one(a: int = Depends(needs)): ...

    with pytest.raises(TypeError, match="depends on itself"):

        @server.tool
        async def two(a: int = Depends(circle)): ...

    with pytest.raises(TypeError, match="needs a function"):
        Depends("text")


async def test_tool_calls_tools_and_reads_resources(server):
    @server.tool
    def low(a: int = 1) -> int:
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
        plain = await ctx.call_tool("low")
        return f"{called.text} {called.is_error} {read.contents[0].text} {plain.text}"

    @server.tool
    def in_thread(a: int, ctx: Context) -> str:
        called = ctx.sync.call_tool("low", {"a": a})
        read = ctx.sync.read_resource("test://text")
        plain = ctx.sync.call_tool("low")
        return f"{called.text} {called.is_error} {read.contents[0].text} {plain.text}"

    async with Client(server) as client:
        for name in ("high", "in_thread"):
            message = text(await client.call_tool(name, {"a": 2}))[0]
            assert message == ["4 False content 2"]
            message = text(await client.call_tool(name, {"a": 9}))[0]
            assert message == ["too high True content 2"]


async def test_repr_of_server_tools_and_handle(server):
    server.add_tool(lambda: 1, name="one")
    assert repr(server) == "<Server 's' 1>"
    assert repr(server.tools) == "<1 tools: one>"
    assert repr(server.tools["one"]) == "<Handle of 'one'>"
    assert (list(server.tools), "one" in server.tools) == (["one"], True)


async def test_invalid_tool_and_server_options_are_refused(server):
    with pytest.raises(TypeError, match="name="):
        server.tool("named")
    with pytest.raises(
        ValueError, match="task must be 'forbidden', 'optional' or 'required'"
    ):
        server.add_tool(lambda: 1, name="x", task="always")
    with pytest.raises(ValueError, match="ask_timeout"):
        new(ask_timeout=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scope": ["mail"]}, "has no option 'scope'; did you mean 'scopes'?"),
        ({"visibel": bool}, "has no option 'visibel'; did you mean 'visible'?"),
        ({"zzz": 1}, "has no option 'zzz'$"),
        ({"scopes": "mail"}, "scopes takes a list, got 'mail'"),
        ({"tags": "admin"}, "tags takes a list, got 'admin'"),
        ({"icons": "https://x.example/a.png"}, "icons takes a list"),
        ({"description": 3}, "description must be a text, got 3"),
        ({"name": 3}, "name must be a text, got 3"),
        ({"visible": True}, "visible must be a plain function, got True"),
        ({"meta": {"a": {1}}}, "cannot be listed: _meta.a: a value of type set has no"),
    ],
)
def test_unknown_or_mistyped_option_is_refused(server, options, message):
    options = {"name": "x", **options}
    with pytest.raises(TypeError, match=message):
        server.tool(**options)(lambda: 1)
    with pytest.raises(TypeError, match=message):
        server.resource("x://1", **options)(lambda: "1")
    with pytest.raises(TypeError, match=message):
        server.prompt(**options)(lambda: "1")
    assert len(server.tools) + len(server.resources) + len(server.prompts) == 0


def test_replace_validates_options_like_registration(server):
    server.add_tool(lambda: 1, name="x", description=None)
    with pytest.raises(TypeError, match="a tool has no option 'scope'"):
        server.tools["x"].replace(lambda: 2, scope=["a"])
    with pytest.raises(TypeError, match="name the prompt by name=, got 'named'"):
        server.prompt("named")
