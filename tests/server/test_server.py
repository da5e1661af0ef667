"""`Server`: capabilities, lifespan, state, middleware, methods and extensions."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from weather import weather

from mcpwire import (
    Client,
    Context,
    InternalError,
    InvalidParams,
    MemorySingleUse,
    MethodNotFound,
    Server,
    types,
)
from mcpwire.server.lifespan import Lifespan
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS

ERAS = ["2026-07-28", "2025-11-25"]


async def capabilities(server, mode="2026-07-28"):
    async with Client(server, mode=mode) as client:
        return types.encode(client.capabilities)


@pytest.mark.rule("TOOL-01", "RES-01", "PROMPT-01", "COMP-01", "LOG-01")
@pytest.mark.parametrize("era", ERAS)
async def test_capabilities_match_the_registered_components(server, era):
    assert await capabilities(server, era) == {"logging": {}}
    server.add_tool(lambda: 1, name="tool")
    server.add_resource("test://r", "text")
    server.add_prompt(lambda x: "text", name="prompt")
    declared = await capabilities(server, era)
    assert declared == {
        "logging": {},
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
    }

    @server.completion("prompt", "x")
    def complete(value):
        return [value]

    assert "completions" in await capabilities(server, era)


@pytest.mark.rule("TOOL-02", "RES-02", "PROMPT-02")
async def test_emptied_lists_are_still_answered(server):
    server.add_tool(lambda: 1, name="tool")
    server.add_resource("test://r", "text")
    server.add_prompt(lambda: "text", name="prompt")
    server.tools["tool"].remove()
    server.resources["test://r"].remove()
    server.prompts["prompt"].remove()
    async with Client(server) as client:
        assert await client.list_tools() == []
        assert await client.list_resources() == []
        assert await client.list_resource_templates() == []
        assert await client.list_prompts() == []


async def test_server_info_and_instructions_reach_the_client():
    server = Server(
        "demo",
        "2.0",
        title="Demo",
        description="Shows.",
        website_url="https://example.com/",
        icons=["https://example.com/icon.png"],
        instructions="Be kind.",
        revisions=[LATEST_SESSION],
    )
    async with Client(server) as client:
        info = client.server_info
        assert (info.name, info.version, info.title) == ("demo", "2.0", "Demo")
        assert (info.description, info.website_url) == (
            "Shows.",
            "https://example.com/",
        )
        assert info.icons[0].src == "https://example.com/icon.png"
        assert client.instructions == "Be kind."
        assert client.protocol_version == LATEST_SESSION.name


async def test_server_with_one_revision_negotiates_it():
    for revision in REVISIONS:
        server = Server("one", "1", revisions=[revision])
        server.add_tool(lambda: "x", name="x")
        async with Client(server) as client:
            assert client.protocol_version == revision.name
            assert (await client.call_tool("x")).text == "x"


@pytest.mark.parametrize("era", ERAS)
async def test_lifespan_serves_handlers_until_the_last_client(era):
    events = []

    @asynccontextmanager
    async def lifespan(server):
        events.append(("begin", server.name))
        yield {"pool": 7}
        events.append(("end", server.name))

    server = Server("life", "1", lifespan=lifespan)

    @server.tool
    async def pool(ctx: Context) -> int:
        return ctx.lifespan["pool"]

    async with Client(server, mode=era) as one:
        assert (await one.call_tool("pool")).structured_content == {"result": 7}
        async with Client(server, mode=era) as two:
            assert (await two.call_tool("pool")).structured_content == {"result": 7}
        assert events == [("begin", "life")]
    assert events == [("begin", "life"), ("end", "life")]


@pytest.mark.rule("META-18")
@pytest.mark.parametrize("era", ERAS)
async def test_session_state_persists_only_in_session_mode(server, era):
    @server.tool
    async def count(ctx: Context) -> int:
        ctx.session["n"] = ctx.session.get("n", 0) + 1
        return ctx.session["n"]

    async with Client(server, mode=era) as one, Client(server, mode=era) as two:
        counts = [(await c.call_tool("count")).text for c in (one, one, two)]
    assert counts == (["1", "2", "1"] if era == "2025-11-25" else ["1", "1", "1"])


@pytest.mark.rule("META-18")
async def test_call_continues_only_with_its_request_state(server):
    runs = []

    @server.tool
    async def ask(ctx: Context) -> str:
        run = await ctx.once("run", lambda: runs.append("run") or len(runs))
        return f"{(await ctx.elicit('Sure?', bool, key='sure')).action} {run}"

    params = {"name": "ask", "arguments": {}}
    answered = {**params, "inputResponses": {"sure": {"action": "decline"}}}

    def client():
        return Client(server, elicitation=lambda form: "decline")

    async with client() as one, client() as two:
        states = [
            (await one.request("tools/call", params))["requestState"] for _ in range(2)
        ]
        for number, state in enumerate(states, 1):
            continued = {**answered, "requestState": state}
            for each in (two, one):
                result = await each.request("tools/call", continued)
                assert result["content"][0]["text"] == f"decline {number}"
        for number, each in enumerate((one, two), 3):
            result = await each.request("tools/call", answered)
            assert result["content"][0]["text"] == f"decline {number}"


def meta_keys(value):
    """Return the keys of each `_meta` in a message."""
    if isinstance(value, list):
        return set().union(*map(meta_keys, value))
    if not isinstance(value, dict):
        return set()
    inner = set().union(*map(meta_keys, value.values()))
    return inner | set(value.get("_meta", {}))


@pytest.mark.rule("META-03")
@pytest.mark.parametrize("era", ERAS)
async def test_meta_has_only_protocol_and_user_keys(server, era):
    @server.tool(meta={"com.example/tool": 1})
    async def ask(ctx: Context) -> str:
        ctx.progress(1)
        return (await ctx.elicit("Sure?", bool, key="sure")).action

    server.add_prompt(lambda: "x", name="p")
    server.add_resource("test://r", "x")
    seen = set()

    def trace(event, data):
        if event in {"send", "receive"}:
            seen.update(meta_keys(json.loads(data)))

    options = {"mode": era, "elicitation": lambda form: "decline", "trace": trace}
    async with Client(server, **options) as client:
        await client.list_tools()
        meta = {"com.example/call": 1}
        await client.call_tool("ask", meta=meta, on_progress=lambda *_: None)
        await client.read_text("test://r")
        await client.get_prompt("p")
        async with client.listen(tools=True) as changes:
            server.notify_tools_changed()
            await anext(aiter(changes))
    users = {"com.example/tool", "com.example/call"}
    prefix = "io.modelcontextprotocol/"
    names = (
        "protocolVersion",
        "clientCapabilities",
        "clientInfo",
        "serverInfo",
        "subscriptionId",
    )
    protocols = {prefix + name for name in names} if era == "2026-07-28" else set()
    assert seen == users | protocols | {"progressToken"}


async def test_middleware_wraps_its_methods_first_is_outermost(server):
    seen = []

    @server.middleware
    async def everything(params, request, call_next):
        seen.append(("every", request.method))
        return await call_next(params, request)

    @server.middleware("tools/call")
    async def calls(params, request, call_next):
        seen.append(("call", params["name"]))
        result = await call_next({**params, "name": "real"}, request)
        return {
            **result,
            "content": [*result["content"], {"type": "text", "text": "+"}],
        }

    server.add_tool(lambda: "x", name="real")
    async with Client(server) as client:
        await client.list_tools()
        result = await client.call_tool("alias")
        assert [block.text for block in result.content] == ["x", "+"]
    assert seen == [("every", "tools/list"), ("every", "tools/call"), ("call", "alias")]


async def test_middleware_can_refuse_and_sees_exceptions(server):
    seen = []

    @server.middleware("tools/call")
    async def guard(params, request, call_next):
        if params["name"] == "no":
            raise InvalidParams("not today")
        try:
            return await call_next(params, request)
        except LookupError as error:
            seen.append(str(error))
            raise

    def fails():
        raise LookupError("inside")

    server.add_tool(fails, name="fails")
    async with Client(server) as client:
        with pytest.raises(InvalidParams, match="not today"):
            await client.call_tool("no")
        assert (await client.call_tool("fails")).is_error
    assert seen == ["inside"]


async def test_custom_method_overrides_the_built_in_one(server):
    server.add_tool(lambda: 1, name="tool")

    @server.method("vendor/echo")
    async def echo(params, request):
        return {"got": params["x"], "version": request.revision.name}

    @server.method("tools/list")
    def tools(params, request):
        return {"tools": []}

    @server.method("prompts/list")
    def prompts(params, request):
        return {"prompts": []}

    for era in ERAS:
        async with Client(server, mode=era) as client:
            result = await client.request("vendor/echo", {"x": 1})
            assert (result["got"], result["version"]) == (1, era)
            assert await client.list_tools() == []
            assert await client.list_prompts() == []
            with pytest.raises(MethodNotFound):
                await client.request("vendor/other", {})


class Extension:
    id = "com.example/thing"

    def __init__(self):
        self.server = None
        self.settings = {"level": 2}

    def attach(self, server):
        self.server = server
        server.add_tool(lambda: "x", name="of_the_extension")

    def methods(self):
        return {"example/thing": lambda params, request: {"thing": 1}}


async def test_extension_is_attached_declared_and_answered():
    extension = Extension()
    server = Server("extended", "1", extensions=[extension])
    assert extension.server is server
    with pytest.raises(ValueError, match="already registered"):
        server.extend(Extension())
    declared = await capabilities(server)
    assert declared["extensions"] == {"com.example/thing": {"level": 2}}
    assert "extensions" not in await capabilities(server, "2025-11-25")
    async with Client(server) as client:
        assert (await client.request("example/thing", {}))["thing"] == 1


async def test_run_over_stdio_refuses_http_options():
    with pytest.raises(TypeError, match="'path'"):
        Server("x", "1").run(path="/mcp")


@pytest.mark.parametrize("options", [{}, {"http": ":0"}])
async def test_run_inside_an_event_loop_names_the_alternatives(options):
    with pytest.raises(RuntimeError, match=r"await serve_stdio\(\), or serve asgi"):
        Server("x").run(**options)


async def test_revisions_option_is_kept():
    assert Server("x", "1", revisions=[LATEST]).revisions == (LATEST,)


@pytest.mark.rule("MRTR-10")
async def test_single_use_state_is_refused_the_second_time():
    server = Server("once", "1", single_use=MemorySingleUse())

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Sure?", bool, key="k")).action

    async with Client(server, elicitation=lambda question: {}) as client:
        params = {"name": "ask", "arguments": {}}
        first = await client.request("tools/call", params)
        assert first["resultType"] == "input_required"
        state = {"requestState": first["requestState"]}
        again = {**params, **state, "inputResponses": {"k": {"action": "decline"}}}
        assert (await client.request("tools/call", again))["content"][0]["text"]
        with pytest.raises(InvalidParams, match="used before"):
            await client.request("tools/call", again)


async def lists_of(client):
    """Return the items of each list, and the cursor of its first page."""
    lists, cursors = [], []
    for kind in ("tools", "resources", "resource_templates", "prompts"):
        lists.append(await getattr(client, f"list_{kind}")())
        cursors.append((await getattr(client, f"list_{kind}_page")()).next_cursor)
    return lists, cursors


@pytest.mark.rule("TOOL-03", "RES-02", "PROMPT-02")
async def test_lists_are_the_same_for_every_connection():
    server = Server("listed", "1", page_size=1)
    for name in ("a", "b"):
        server.add_tool(lambda: "x", name=name)
        server.add_resource(f"test://{name}", "x")
        server.add_resource(f"{name}://{{x}}", lambda x: x, name=name)
        server.add_prompt(lambda: "x", name=name)
    async with (
        Client(server, mode="2025-11-25") as session,
        Client(server, sampling=len, roots=[]) as one,
        Client(server) as two,
    ):
        before = await lists_of(one)
        await one.call_tool("a")
        await one.read_text("test://a")
        await one.get_prompt("a")
        await session.subscribe("test://a")
        assert await lists_of(one) == before == await lists_of(two)
        lists, cursors = before
        assert [len(found) for found in lists] == [2] * 4
        # A cursor is not bound to a connection.
        assert (await two.list_tools_page(cursors[0])).tools == lists[0][1:]
        assert (await two.list_resources_page(cursors[1])).resources == lists[1][1:]
        templates = await two.list_resource_templates_page(cursors[2])
        assert templates.resource_templates == lists[2][1:]
        assert (await two.list_prompts_page(cursors[3])).prompts == lists[3][1:]


async def test_tool_with_an_invalid_mcp_header_is_refused(server):
    schema = {"type": "object", "properties": {"a": {"x-mcp-header": "A B"}}}
    with pytest.raises(ValueError, match=r"tool 't': .*x-mcp-header"):
        server.add_tool(lambda a: a, name="t", input_schema=schema)


async def test_mounted_components_work_under_their_prefix():
    main, other = Server("main", "1"), weather()
    main.add_tool(lambda: "own", name="own")
    main.mount(other, prefix="w")
    async with Client(main) as client:
        assert [t.name for t in await client.list_tools()] == ["own", "w_now"]
        assert (await client.call_tool("w_now")).text == "weather"
        for name in ("now", "w_own", "w_"):
            with pytest.raises(InvalidParams):
                await client.call_tool(name)
        assert [p.name for p in await client.list_prompts()] == ["w_ask"]
        prompt = await client.get_prompt("w_ask", {"city": "Bonn"})
        assert prompt.messages[0].content.text == "the weather of Bonn"
        assert await client.read_text("weather://Bonn") == "rain in Bonn"
        assert await client.read_text("weather://help") == "helps"
        completed = await client.complete(types.PromptReference("w_ask"), "city", "Be")
        assert completed.completion.values == ["Bern"]


async def test_changes_of_a_mounted_server_appear_in_the_main_server():
    main, other = Server("main", "1"), weather()
    main.mount(other, prefix="w")
    async with (
        Client(main) as client,
        client.listen(["weather://help"], tools=True) as changes,
    ):
        notifications = aiter(changes)
        other.add_tool(lambda: 1, name="late")
        assert (await anext(notifications)).method == "notifications/tools/list_changed"
        assert [t.name for t in await client.list_tools()] == ["w_now", "w_late"]
        other.tools["late"].disable()
        await anext(notifications)
        assert [t.name for t in await client.list_tools()] == ["w_now"]
        other.notify_resource_updated("weather://help")
        assert (await anext(notifications)).params.uri == "weather://help"


async def test_mounted_server_keeps_its_lifespan_and_visibility():
    events = []

    @asynccontextmanager
    async def lifespan(server):
        events.append(f"begin {server.name}")
        yield server.name
        events.append(f"end {server.name}")

    main = Server("main", "1", lifespan=lifespan, visible=lambda c, t: t.key != "o_no")
    other = Server("other", "1", lifespan=lifespan, visible=lambda c, t: t.key != "hid")

    @other.tool
    async def who(ctx: Context) -> str:
        return ctx.lifespan

    other.add_tool(lambda: 1, name="hid")
    other.add_tool(lambda: 1, name="no")
    main.mount(other, "o")
    async with Client(main) as client:
        assert [t.name for t in await client.list_tools()] == ["o_who"]
        assert (await client.call_tool("o_who")).text == "other"
    assert events == ["begin other", "begin main", "end main", "end other"]


async def test_own_tool_precedes_mounted_and_self_mount_is_refused():
    main, other = Server("main", "1"), Server("other", "1")
    main.add_tool(lambda: "mine", name="tool")
    other.add_tool(lambda: "other", name="tool")
    main.mount(other)
    async with Client(main) as client:
        assert [t.name for t in await client.list_tools()] == ["tool"]
        assert (await client.call_tool("tool")).text == "mine"
    with pytest.raises(ValueError, match="on itself"):
        main.mount(main)
    with pytest.raises(ValueError, match="on itself"):
        other.mount(main)


class Log:
    def __init__(self):
        self.lines = []

    @asynccontextmanager
    async def enter(self):
        self.lines.append(("begin", asyncio.current_task()))
        yield
        self.lines.append(("end", asyncio.current_task()))

    @property
    def words(self):
        return [word for word, _ in self.lines]


def begun_by(enter):
    lifespan = Lifespan()
    lifespan.add(enter)
    return lifespan


async def test_concurrent_starts_enter_once_and_the_last_close_exits():
    log = Log()
    lifespan = begun_by(log.enter)
    await asyncio.gather(*(lifespan.start() for _ in range(3)))
    assert log.words == ["begin"]
    for _ in range(2):
        await lifespan.aclose()
    assert log.words == ["begin"]
    await lifespan.aclose()
    assert log.words == ["begin", "end"]


async def test_lifespan_exits_in_the_task_that_entered_it():
    log = Log()
    lifespan = begun_by(log.enter)
    await asyncio.create_task(lifespan.start())
    await asyncio.create_task(lifespan.aclose())
    (_, first), (_, last) = log.lines
    assert first is last


async def test_empty_lifespan_is_not_needed():
    lifespan = Lifespan()
    await lifespan.start()
    assert not lifespan.is_needed
    await lifespan.aclose()


async def test_failed_start_is_logged_and_the_next_request_starts_again(caplog):
    problems = [LookupError("no database")]

    @asynccontextmanager
    async def lifespan(_):
        if problems:
            raise problems.pop()
        yield "database"

    server = Server("s", lifespan=lifespan)

    @server.tool
    def t(ctx: Context) -> str:
        return ctx.lifespan

    async with Client(server) as client:
        with pytest.raises(InternalError, match="could not start") as caught:
            await client.call_tool("t")
        assert "no database" not in str(caught.value)
        assert (await client.call_tool("t")).text == "database"
    [record] = caplog.records
    assert record.getMessage() == "the server could not start"
    assert "no database" in caplog.text
