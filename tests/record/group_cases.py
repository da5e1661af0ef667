"""What a group and its tool set send and return, with both clients."""

from typing import Any

import mcpwire
import mcpwire.sync
from record import runner
from record.runner import Run, case


def group(run: Run, servers: Any = None, **options: Any) -> Any:
    servers = {"one": run.target} if servers is None else servers
    mode = run.options["mode"]
    members = {
        name: mcpwire.Member(target, mode=mode) for name, target in servers.items()
    }
    if run.is_blocking:
        return runner.Blocking(mcpwire.sync.Group(members, **options))
    return mcpwire.Group(members, **options)


@case(connects=False)
async def group_verbs(run):
    ref = mcpwire.types.PromptReference("greet")
    async with group(run) as servers:
        run.see(sorted(servers.report.ok))
        await run.do(servers.call_tool("one", "echo", {"a": 1}))
        await run.do(servers.call_tool("one", "fail", check=True))
        await run.do(servers.call_tool("two", "echo"))
        await run.do(servers.list_tools("one"))
        await run.do(servers.list_resources("one"))
        await run.do(servers.list_resource_templates("one"))
        await run.do(servers.list_prompts("one"))
        await run.do(servers.read_resource("one", "memo://a"))
        await run.do(servers.get_prompt("one", "greet", {"who": "Ada"}))
        await run.do(servers.complete("one", ref, "who", "A"))
        await run.do(servers.set_log_level("one", "error"))
        run.see(run.bare(servers.instructions()))
        run.see(run.bare(servers.server_info("one")))
        status = run.bare(servers.status())["one"]
        run.see([status.state, status.calls])


@case(connects=False)
async def group_connecting(run):
    servers = group(
        run, {"one": run.target, "bad": "/no/such/command"}, on_error="skip"
    )
    async with servers:
        run.see([sorted(servers.report.ok), bool(servers.report)])
        run.see(dict(servers.problems))
        await run.do(servers.call_tool("bad", "echo"))
        await run.do(servers.connect("one", run.target))
        await run.do(servers.disconnect("one"))
        await run.do(servers.call_tool("one", "echo"))
    await run.do(group(run, {"bad": "/no/such/command"}).connect_all())


@case(connects=False)
async def group_tools(run):
    async with group(run) as servers:
        tools = await servers.tools(
            allow=["one/echo", "one/sum", "one/slow"],
            deny="one/slow",
            confirm="one/sum",
        )
        await run.do(tools.refresh())
        run.see(list(tools.names))
        await run.do(tools.call("mcp__one__echo", {"a": 1}))
        await run.do(tools.call("mcp__one__sum"))
        await run.do(tools.call("mcp__one__sum", confirmed=True))
        await run.do(tools.call("mcp__one__slow"))
        await run.do(tools.call("nothing"))
        for form in ("openai", "anthropic", "gemini", "neutral"):
            run.see([form, run.bare(tools.export(form))])
