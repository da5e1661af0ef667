"""What each operation of a client sends and returns; each function is one case.

They are written with `await` for both clients; `run.do` records the outcome.
"""

import asyncio
import sys

import mcpwire
from mcpwire import types
from record.runner import case

SKILLS = ["io.modelcontextprotocol/skills"]
TASKS = ["io.modelcontextprotocol/tasks"]
PROMPT = types.PromptReference("greet")
TEMPLATE = types.ResourceTemplateReference("memo://{id}")
AGAIN = mcpwire.Recovery(backoff_initial=0.001, backoff_max=0.002, attempts=3)
CHANGED = "tools/list_changed"


# Opening and closing...


@case()
async def what_was_agreed(run):
    client = run.client
    run.see([client.protocol_version, client.instructions, client.is_connected])
    run.see(client.server_info)
    run.see(client.capabilities)
    run.see([client.negotiation.era, client.negotiation.reason])
    run.see(client.session_id)


@case(only="", mode="auto")
async def negotiated(run):
    run.see([run.client.protocol_version, run.client.negotiation.reason])
    await run.do(run.client.call_tool("echo"))


@case(only="session", mode="prefer-session")
async def sessions_preferred(run):
    run.see(run.client.protocol_version)


@case(only="stateless", mode="prefer-session")
async def sessions_preferred_in_vain(run):
    run.see(run.client.protocol_version)


@case(mode="2024-11-05", connects=False, peer={"version": "2024-11-05"})
async def an_old_revision(run):
    await run.do(run.client.connect())
    await run.do(run.client.call_tool("echo"))


@case(connects=False, peer={"version": "1999-01-01"})
async def an_unknown_revision(run):
    await run.do(run.client.connect())


@case(only="stateless", connects=False, mode="session")
async def a_session_in_vain(run):
    await run.do(run.client.connect())


@case(only="session", connects=False, mode="stateless")
async def a_stateless_server_in_vain(run):
    await run.do(run.client.connect())


@case(connects=False)
async def opened_and_closed_twice(run):
    client = run.client
    run.see(client.is_connected)
    await run.do(client.ping())
    for _ in range(2):
        await run.do(client.connect())
        await run.do(client.connect())
        run.see(client.is_connected)
        await run.do(client.aclose())
        await run.do(client.aclose())
        run.see([client.is_connected, client.lost])
    await run.do(client.call_tool("echo"))
    run.see(client.stats.connections)


@case(connects=False)
async def a_block(run):
    async with run.client as client:
        run.see(client.is_connected)
    run.see(run.client.is_connected)


@case(
    client_info=types.Implementation("me", "2", title="Me"),
    experimental={"com.example/undo": {"depth": 3}},
    extensions={"com.example/x": {"a": 1}},
    sampling=lambda run: mcpwire.Sampling(run.see, tools=True),
    elicitation=lambda run: mcpwire.Elicitation(form=run.see, url=run.see),
    roots=lambda run: ["/srv"],
)
async def everything_declared(run):
    await run.do(run.client.call_tool("echo"))


@case(only="stdio", connects=False)
async def no_such_command(run):
    await run.do(run.make("/no/such/command").connect())
    target = mcpwire.Stdio(
        sys.executable, ["-c", "import sys; print('no'); sys.exit('sorry')"]
    )
    await run.do(run.make(target).connect())


@case(only="http", connects=False)
async def nobody_there(run):
    await run.do(run.make("http://127.0.0.1:1/mcp").connect())


@case(only="http", connects=False)
async def a_path_that_is_refused(run):
    run.see(type(run.target).__name__)
    for url in ("ftp://127.0.0.1/", "http://me@127.0.0.1/", "http://127.0.0.1/#a"):
        try:
            run.make(url)
        except ValueError as error:
            run.see(error)


# Calls of tools...


@case()
async def calls(run):
    call = run.client.call_tool
    await run.do(call("echo", {"text": "hi", "n": [1, 2.5, None, {"é": True}]}))
    await run.do(call("echo"))
    await run.do(call("blocks"))
    await run.do(call("echo", {}, meta={"com.example/a": 1}))
    await run.do(call("sum"))


@case()
async def calls_that_fail(run):
    call = run.client.call_tool
    await run.do(call("fail"))
    await run.do(call("fail", check=True))
    await run.do(call("nothing"))
    await run.do(call("echo", [1]))
    await run.do(call(7))
    await run.do(call("echo", {"x": object()}))
    await run.do(call("echo", timeout=-1))
    await run.do(call("echo", {}, headers={"X-Tenant": "blue"}))


@case()
async def errors_of_each_code(run):
    for code in (-32700, -32600, -32601, -32602, -32603, -32002, -32000, -1, 7):
        error = [code, f"as {code}", {"why": code}]
        await run.do(run.client.call_tool("error", {"error": error}))
    for code in (-32020, -32021, -32022, -32042):
        error = [code, f"as {code}"]
        await run.do(run.client.call_tool("error", {"error": error}))


@case()
async def results_that_are_malformed(run):
    for result in (
        None,
        7,
        {},
        {"content": 7},
        {"content": [{"type": "text"}]},
        {"content": [], "isError": "no"},
    ):
        await run.do(run.client.call_tool("give", {"result": result}))


@case()
async def bytes_that_are_no_answer(run):
    for raw in (
        "no JSON\n",
        '{"jsonrpc": "1.0"}\n',
        '{"jsonrpc":"2.0","id":99,"result":{}}\n',
    ):
        await run.do(run.client.call_tool("raw", {"raw": raw}, timeout=0.3))


@case()
async def validated(run):
    call = run.client.call_tool
    for validate in ("off", "warn", "error"):
        await run.do(call("sum", validate=validate))
        await run.do(call("sum", {"give": {"sum": "five"}}, validate=validate))
    await run.do(call("sum", {"give": None}, validate="error"))
    await run.do(call("sum", validate="perhaps"))


@case()
async def progress(run):
    steps = []
    await run.do(run.client.call_tool("progress"))
    await run.do(
        run.client.call_tool("progress", on_progress=lambda *step: steps.append(step))
    )
    run.see(steps)


@case(reset_timeout_on_progress=True)
async def given_up_in_time(run):
    await run.do(run.client.call_tool("slow", timeout=0.3))
    await run.do(run.client.call_tool("gone"))


async def begin_slowly(run):
    """Start a call, and wait until the server has it."""
    call = await run.client.start_call(
        "slow", on_progress=lambda *_: run.receive("begun")
    )
    await run.take()
    return call


@case()
async def started_calls(run):
    client = run.client
    call = await client.start_call("echo", {"a": 1})
    run.see(call.request_id)
    await run.do(call)
    await run.do(call)
    run.see(call.done)
    await run.do(await client.start_call("fail", check=True))
    await run.do(await client.start_call("nothing"))
    call = await begin_slowly(run)
    call.cancel("no longer needed")
    await run.do(call)
    await run.do(client.call_tool("gone"))


@case()
async def cancelled_by_id(run):
    client = run.client
    call = await begin_slowly(run)
    client.cancel(None)
    client.cancel(99)
    client.cancel(call.request_id, "by its id")
    await run.do(call)
    await run.do(client.call_tool("gone"))


@case(only="asyncio")
async def a_task_that_is_cancelled(run):
    begun = asyncio.Event()
    call = run.client.call_tool("slow", on_progress=lambda *_: begun.set())
    waiting = asyncio.create_task(call)
    await begun.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    run.see(waiting.cancelled())
    await run.do(run.client.call_tool("gone"))


@case()
async def closed_with_a_call_under_way(run):
    call = await begin_slowly(run)
    await run.client.aclose()
    await run.do(call)


# Lists...


@case()
async def lists(run):
    client = run.client
    await run.do(client.list_tools())
    await run.do(client.list_resources())
    await run.do(client.list_resource_templates())
    await run.do(client.list_prompts())


@case()
async def pages(run):
    client = run.client
    await run.do(client.list_tools_page())
    await run.do(client.list_tools_page("3"))
    await run.do(client.list_tools_page("no cursor"))
    await run.do(client.list_resources_page("2"))
    await run.do(client.list_resource_templates_page())
    await run.do(client.list_prompts_page())
    await run.do(client.list_prompts_page(7))


@case()
async def iterators(run):
    client = run.client
    for each in (
        client.iter_tools,
        client.iter_resources,
        client.iter_resource_templates,
        client.iter_prompts,
    ):
        await run.all(each(meta={"com.example/a": 1}))


@case(peer={"loops": True}, limits=mcpwire.Limits(pages=4))
async def a_list_without_end(run):
    await run.do(run.client.list_tools())
    await run.all(run.client.iter_resources())


@case(peer={"capabilities": {}})
async def nothing_offered(run):
    client = run.client
    for verb in (
        client.list_tools,
        client.list_prompts,
        client.list_resources,
        client.list_resource_templates,
        client.list_skills,
    ):
        await run.do(verb())
    await run.do(client.call_tool("echo"))
    await run.do(client.read_resource("memo://a"))
    await run.do(client.get_prompt("greet"))
    await run.do(client.complete(PROMPT, "who"))
    await run.do(client.set_log_level("info"))
    await run.do(client.subscribe("memo://a"))
    await run.do(client.request("tools/list"))


# Resources, prompts, completion...


@case()
async def reads(run):
    client = run.client
    for uri in ("memo://a", "memo://b", "memo://c", "memo://d"):
        await run.do(client.read_resource(uri))
        await run.do(client.read_text(uri))
        await run.do(client.read_bytes(uri))
    await run.do(client.read_resource(None))


@case()
async def prompts(run):
    client = run.client
    await run.do(client.get_prompt("greet", {"who": "Ada"}))
    await run.do(client.get_prompt("greet"))
    await run.do(client.get_prompt("greet", {"who": 7}))
    await run.do(client.complete(PROMPT, "who", "A"))
    await run.do(client.complete(TEMPLATE, "id", context={"other": "x"}))


@case()
async def links(run):
    content = [
        {"type": "resource_link", "uri": uri, "name": "x"}
        for uri in ("memo://a", "memo://zz")
    ]
    result = await run.client.call_tool("give", {"result": {"content": content}})
    await run.do(run.verbs.resolve_links(run.client, result))


@case(only="stateless", cache=True, peer={"ttl": 600_000})
async def cached(run):
    for _ in range(2):
        run.see(len(await run.client.list_tools()))
        run.see(await run.client.read_text("memo://a"))


# Operations without a result...


@case()
async def pings(run):
    seconds = await run.client.ping()
    run.see(type(seconds).__name__)
    await run.do(run.client.discover())
    await run.do(run.client.notify_roots_changed())


@case(roots=lambda run: ["/srv"])
async def roots_that_change(run):
    await run.do(run.client.notify_roots_changed())
    await run.do(run.client.call_tool("echo"))


@case()
async def raw_requests(run):
    client = run.client
    await run.do(client.request("vendor/echo", {"a": [1, {"b": None}]}))
    await run.do(client.request("vendor/echo"))
    await run.do(client.request("vendor/nothing"))
    await run.do(client.request("tools/list", {"cursor": "3"}))
    await run.do(client.request("initialize", {}))
    await run.do(client.notify("notifications/vendor", {"a": 1}))
    await run.do(client.notify("notifications/vendor"))
    await run.do(client.request("vendor/echo", {"last": True}))


@case()
async def log_levels(run):
    await run.do(run.client.set_log_level("warning"))
    await run.do(run.client.set_log_level("loud"))
    await run.do(run.client.call_tool("echo"))


# Notifications of the server...


@case(on_notification=lambda run: run.receive, background=True, gets=True)
async def heard_by_a_function(run):
    await run.do(run.client.call_tool("announce", {"say": [[CHANGED, {}]]}))
    await run.take()


@case(gets=True)
async def heard_by_a_stream(run):
    async with run.client.events() as events:
        say = [[CHANGED, {}], ["prompts/list_changed", {}]]
        await run.do(run.client.call_tool("announce", {"say": say}))
        await run.do(events.next(timeout=30))
        await run.do(events.next(timeout=30))
        await run.do(events.next(timeout=0.01))
    await run.do(events.next(timeout=30))
    run.see([events.is_closed, events.dropped])


@case(only="session stdio")
async def logged_within_a_call(run):
    async with run.client.events() as events:
        await run.do(run.client.call_tool("log"))
        await run.do(events.next(timeout=30))


@case(only="stateless")
async def logged_within_a_stateless_call(run):
    await run.client.set_log_level("info")
    async with run.client.events() as events:
        await run.do(run.client.call_tool("log"))
        await run.do(events.next(timeout=30))


@case(gets=True)
async def subscribed(run):
    client, uri = run.client, "memo://a"
    async with client.events() as events:
        await run.do(client.subscribe(uri))
        run.see(list(client.subscribed))
        await client.call_tool(
            "announce", {"say": [["resources/updated", {"uri": uri}]]}
        )
        await run.do(events.next(timeout=30))
        await run.do(client.unsubscribe(uri))
        await run.do(client.unsubscribe(uri))
        run.see(list(client.subscribed))


@case(gets=True)
async def listened(run):
    client, uri = run.client, "memo://a"
    async with client.listen([uri], tools=True) as changes:
        run.see(changes.acknowledged)
        run.see(changes.refused)
        say = [[CHANGED, {}], ["resources/updated", {"uri": uri}]]
        await client.call_tool("announce", {"say": say})
        await run.do(changes.next(timeout=30))
        await run.do(changes.next(timeout=30))
    await run.do(changes.next(timeout=30))


@case(gets=True)
async def watched(run):
    client, uri = run.client, "memo://a"
    async with client.watch(uri) as states:
        async for state in states:
            run.see(state)
            if len(run.got) == 2:
                break
            await client.call_tool(
                "announce", {"say": [["resources/updated", {"uri": uri}]]}
            )
    async with client.watch("memo://zz") as states:
        await run.all(states)


# Requests of the server...


def model(run):
    def answer(params):
        run.see(params)
        text = types.TextContent("Ho.")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    return answer


def form(run):
    def fill_in(params):
        run.see(params)
        return {"name": "Ada"}

    return fill_in


def decline(run):
    return mcpwire.Elicitation(
        form=lambda _: types.ElicitResult("decline"),
        url=lambda params: run.see(params) or types.ElicitResult("accept"),
    )


def refuse(run):
    def refusing(_):
        raise mcpwire.RPCError("not now", code=-1, data={"why": 1})

    return refusing


def broken(run):
    def breaking(_):
        raise KeyError("secret")

    return breaking


def ask_arguments(*names):
    return {"ask": list(names)}


@case(sampling=model, elicitation=form, roots=lambda run: ["/srv", "file:///a%20b"])
async def asked(run):
    for name in ("sample", "form", "roots"):
        await run.do(run.client.call_tool("ask", ask_arguments(name)))
    await run.do(run.client.call_tool("ask", ask_arguments("sample", "roots")))


@case(elicitation=decline)
async def declined(run):
    await run.do(run.client.call_tool("ask", ask_arguments("form")))
    await run.do(run.client.call_tool("ask", ask_arguments("url")))


@case(sampling=refuse)
async def refused(run):
    await run.do(run.client.call_tool("ask", ask_arguments("sample")))


@case(sampling=broken)
async def broken_handler(run):
    await run.do(run.client.call_tool("ask", ask_arguments("sample")))


@case(elicitation=lambda run: lambda _: {"name": 7})
async def an_answer_that_does_not_fit(run):
    await run.do(run.client.call_tool("ask", ask_arguments("form")))


@case()
async def asked_without_a_handler(run):
    for name in ("sample", "form", "url", "roots", "unknown"):
        await run.do(run.client.call_tool("ask", ask_arguments(name)))


@case(only="session")
async def pinged(run):
    await run.do(run.client.call_tool("ask", ask_arguments("ping")))


@case()
async def handlers_replaced(run):
    run.client.set_handlers(sampling=model(run), roots=["/new"])
    await run.do(run.client.call_tool("ask", ask_arguments("sample")))
    run.client.set_handlers(sampling=None)
    await run.do(run.client.call_tool("ask", ask_arguments("sample")))
    await run.do(run.client.call_tool("ask", ask_arguments("roots")))


@case(limits=mcpwire.Limits(questions=2), roots=lambda run: ["/srv"])
async def asked_too_much(run):
    await run.do(run.client.call_tool("ask", ask_arguments("roots", "roots", "roots")))
    await run.do(run.client.call_tool("ask", ask_arguments("roots")))


@case(
    only="stateless", roots=lambda run: ["/srv"], limits=mcpwire.Limits(input_rounds=2)
)
async def rounds_without_end(run):
    result = {"resultType": "input_required", "requestState": "again"}
    await run.do(run.client.call_tool("give", {"result": result}))


# Tasks and skills...


@case(extensions=TASKS)
async def tasks(run):
    client, verbs = run.client, run.verbs
    name = "task" if run.era == "stateless" else "echo"
    task = await run.do(verbs.start_task(client, name, {"a": 1}, ttl=60))
    await run.do(verbs.get_task(client, "t-1"))
    await run.do(verbs.wait_for_task(client, task, timeout=30))
    await run.do(verbs.wait_for_task(client, "t-1", check=True, timeout=30))
    answers = {"q1": types.ElicitResult("accept", content={"name": "Ada"})}
    await run.do(verbs.update_task(client, "t-1", answers))
    await run.do(verbs.cancel_task(client, "t-1"))
    await run.do(verbs.list_tasks(client))
    await run.do(verbs.get_task(client, "t-2"))


@case(only="stateless", extensions=TASKS, elicitation=form, peer={"asks": True})
async def a_call_that_becomes_a_task(run):
    await run.do(run.client.call_tool("task", timeout=30))


@case()
async def no_tasks(run):
    await run.do(run.verbs.update_task(run.client, "t-1", {}))
    await run.do(run.client.call_tool("task"))


@case(extensions=SKILLS)
async def skills(run):
    client = run.client
    await run.do(client.list_skills())
    await run.do(client.list_skills_page())
    await run.all(client.iter_skills())
    await run.do(client.get_skill("skill://tea/SKILL.md"))
    await run.do(client.get_skill("skill://tea/NO.md"))
    await run.do(client.read_directory("skill://tea"))
    await run.do(client.load_skill("skill://nothing/SKILL.md"))
    if run.era == "stateless":
        loaded = await client.load_skill("skill://tea/SKILL.md")
        run.see([loaded.name, loaded.description, loaded.uri, list(loaded.files)])
        await run.do(loaded.read_text("a.md"))
        await run.do(loaded.read_file("skill://tea/a.md"))
        await run.do(loaded.read_text("b.md"))


# Lost connections...


@case(only="stdio", recovery=AGAIN)
async def a_server_that_exits(run):
    client = run.client
    await client.set_log_level("error")
    await run.do(client.call_tool("die"))
    await run.do(client.call_tool("echo"))
    run.see(client.stats.connections)


@case(only="stdio", recovery=mcpwire.Recovery(restart=False))
async def a_server_that_is_not_started_again(run):
    await run.do(run.client.call_tool("die"))
    await run.do(run.client.call_tool("echo"))
    run.see(run.client.lost)


@case(only="http", recovery=AGAIN)
async def an_answer_that_is_cut_off(run):
    await run.do(run.client.call_tool("die"))
    await run.do(run.client.call_tool("die", {"times": 3}, idempotent=True))


@case(only="http", recovery=AGAIN)
async def statuses(run):
    for status in (400, 401, 403, 404, 405, 418, 500, 503):
        given = {"status": status, "body": f"as {status}", "times": 99}
        await run.do(run.client.call_tool("status", given))


@case(only="http", recovery=AGAIN)
async def tried_again(run):
    given = {"status": 429, "fields": {"Retry-After": "0"}}
    await run.do(run.client.call_tool("status", given))


@case(only="http")
async def bodies_that_are_no_answer(run):
    bodies = (
        (200, "text/html", "<p>"),
        (200, "application/json", "{}"),
        (202, "application/json", ""),
        (
            400,
            "application/json",
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}',
        ),
    )
    for status, kind, body in bodies:
        given = {
            "status": status,
            "body": body,
            "fields": {"Content-Type": kind},
            "times": 99,
        }
        await run.do(run.client.call_tool("status", given))


@case(only="http session", recovery=AGAIN)
async def a_session_that_is_forgotten(run):
    await run.do(run.client.set_log_level("info"))
    await run.do(run.client.call_tool("forget"))
    await run.do(run.client.call_tool("echo"))
    run.see(run.client.session_id)


@case(only="stdio session", recovery=AGAIN)
async def what_is_told_again(run):
    for uri in ("memo://b", "memo://a"):
        await run.client.subscribe(uri)
    await run.client.set_log_level("info")
    await run.do(run.client.call_tool("die"))
    await run.do(run.client.call_tool("echo"))


@case(only="http session", recovery=mcpwire.Recovery(reinitialize=False))
async def a_session_that_is_not_opened_again(run):
    await run.do(run.client.call_tool("forget"))
    await run.do(run.client.call_tool("echo"))


@case(
    only="http", http={"headers": {"X-Tenant": "blue", "Authorization": "Bearer abc"}}
)
async def header_fields(run):
    await run.do(run.client.call_tool("echo", headers={"X-Tenant": "red"}))
    await run.do(run.client.call_tool("echo", headers={"Mcp-Session-Id": "mine"}))
    await run.do(run.client.list_tools())
    await run.do(run.client.call_tool("mirrored", {"region": "eu west é"}))
    await run.do(run.client.read_text("memo://a"))
    await run.do(run.client.get_prompt("greet", {"who": "Ada"}))


@case(only="http session", gets=True, peer={"no_get": True})
async def no_stream_of_its_own(run):
    async with run.client.events():
        await run.do(run.client.call_tool("echo"))


# HTTP+SSE, in short...


@case(only="http sse", mode="auto")
async def over_http_and_sse(run):
    run.see([run.client.protocol_version, run.client.negotiation.reason])
    await run.do(run.client.call_tool("echo", {"a": 1}))
    await run.do(run.client.call_tool("nothing"))
    steps = []
    await run.do(
        run.client.call_tool("progress", on_progress=lambda *s: steps.append(s))
    )
    run.see(steps)
    await run.do(run.client.list_tools())
    await run.do(run.client.call_tool("slow", timeout=0.3))


@case(only="http sse", roots=lambda run: ["/srv"])
async def asked_over_http_and_sse(run):
    await run.do(run.client.call_tool("ask", ask_arguments("roots", "ping")))
    async with run.client.events() as events:
        await run.client.call_tool("announce", {"say": [[CHANGED, {}]]})
        await run.do(events.next(timeout=30))


# Traced...


@case(connects=False)
async def traced(run):
    events = []

    def trace(event, data):
        if event in {"open", "send", "receive", "agree", "lost", "close"}:
            events.append([event, data if type(data) is bytes else str(data)])

    async with run.make(run.target, trace=trace) as client:
        await client.list_prompts()
    run.see([event for event, _ in events])


# In memory, in short...


@case(only="memory", sampling=model, elicitation=form, roots=lambda run: ["/srv"])
async def in_memory(run):
    client = run.client
    run.see([client.protocol_version, client.session_id])
    steps = []
    await run.do(client.call_tool("add", {"a": 2, "b": 3}))
    await run.do(client.call_tool("add", {"a": "two"}))
    for how in ("tool", "rpc", "other"):
        await run.do(client.call_tool("fail", {"how": how}))
    await run.do(client.call_tool("nothing"))
    await run.do(client.call_tool("work", on_progress=lambda *s: steps.append(s)))
    run.see(steps)
    await run.do(client.call_tool("ask", {"what": ["sample", "roots"]}))
    await run.do(client.call_tool("slow", timeout=0.3))
    await run.do(client.read_text("config://app"))
    await run.do(client.read_text("memo://z"))
    await run.do(client.get_prompt("review", {"code": "pass"}))
    run.see([tool.name for tool in await client.list_tools()])


@case(only="memory", raise_exceptions=True)
async def raised_in_memory(run):
    await run.do(run.client.call_tool("fail", {"how": "other"}))
