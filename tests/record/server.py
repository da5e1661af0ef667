"""A server with every feature, for the raw clients of the record."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import mcpwire
from mcpwire import Arg, Audio, Context, Depends, File, Image, types

SKILL = "---\nname: tea\ndescription: Makes tea\n---\nBoil water.\n"
PNG = b"\x89PNG\r\n\x1a\n..."

server = mcpwire.Server(
    "record",
    "1.2",
    title="The record",
    description="Has each feature.",
    website_url="https://example.com/",
    instructions="Be kind.",
    page_size=9,
    visible=lambda ctx, component: "hidden" not in component.tags,
    extensions=[
        mcpwire.Tasks(poll_interval=0.01, ttl=600),
        mcpwire.Skills({"tea": {"SKILL.md": SKILL, "a.md": "Wait.\n"}}),
    ],
)
given_up: list[str] = []
changed = asyncio.Condition()


@dataclass
class Weather:
    city: str
    degrees: float


@server.tool(title="Add", annotations={"readOnlyHint": True}, meta={"com.example/a": 1})
def add(a: int, b: Annotated[int, Arg("The other", ge=0)] = 1) -> int:
    """Add two numbers.

    Args:
        a: The one.
    """
    return a + b


@server.tool
async def weather(
    city: Annotated[str, Arg(header="City")], kind: Literal["now", "soon"] = "now"
) -> Weather:
    return Weather(city, 21.5)


@server.tool
def blocks() -> list:
    link = types.ResourceLink("memo://a", "a")
    file = File(b"\x00\x01", uri="file:///a.bin")
    return ["text", Image(PNG), Audio(b"RIFF", mime_type="audio/wav"), file, link]


@server.tool(structured=False)
def plain(value: str) -> str:
    return value


@server.tool(output_schema={"type": "object", "required": ["size"]})
async def unfit() -> dict:
    return {"length": 1}


@server.tool
async def fail(how: str) -> str:
    if how == "tool":
        raise mcpwire.ToolError("no more than 100")
    if how == "rpc":
        raise mcpwire.RPCError("not now", code=-31999, data={"why": [1]})
    raise KeyError("secret")


@server.tool(timeout=0.2)
async def late() -> None:
    await asyncio.sleep(3600)  # until it is cancelled


@server.tool
async def work(ctx: Context) -> str:
    for step in (1, 2):
        ctx.progress(step, 2, f"step {step}")
        await asyncio.sleep(0)  # an iteration of the loop
    ctx.debug("quiet")
    await ctx.info({"done": True})
    return f"{ctx.method} at {ctx.protocol_version}"


@server.tool
async def slow(ctx: Context) -> None:
    try:
        ctx.progress(1)
        await asyncio.sleep(3600)  # until it is cancelled
    finally:
        given_up.append("slow")
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, notify_changed())


async def notify_changed() -> None:
    async with changed:
        changed.notify_all()


@server.tool
async def gone(ctx: Context) -> str:
    ctx.progress(1)  # so that the response is always a stream
    async with changed:
        await changed.wait_for(lambda: given_up)
    return given_up.pop()


@server.tool
async def ask(what: list[str], ctx: Context) -> str:
    for each in what:
        if each == "form":
            answer = await ctx.elicit("Which weather?", Weather)
            answer_text = [answer.action, answer.content]
        elif each == "value":
            answer_text = (await ctx.elicit("How many?", int, key="count")).value
        elif each == "url":
            answer_text = (
                await ctx.elicit_url("Pay", "https://example.com/pay")
            ).action
        elif each == "require":
            answer_text = (
                await ctx.require_url("Pay", "https://example.com/pay")
            ).action
        elif each == "sample":
            answer_text = (await ctx.sample("Hi?", max_tokens=5, temperature=0.5)).text
        elif each == "roots":
            answer_text = [root.uri for root in await ctx.roots()]
        else:
            answer_text = [
                ctx.can(name) for name in ("sampling", "elicitation.url", "roots")
            ]
        await ctx.once(each, lambda: 1)
    return str(answer_text)


def client_name(ctx: Context) -> str:
    return (ctx.client_info or {}).get("name", "nobody")


@server.tool
async def visit(ctx: Context, who: str = Depends(client_name)) -> str:
    ctx.session["visits"] = ctx.session.get("visits", 0) + 1
    return f"visit {ctx.session['visits']} of {who}"


@server.tool
async def change(what: str) -> None:
    if what == "resource":
        server.notify_resource_updated("memo://a")
    for each in ("tools", "prompts", "resources"):
        if what == each:
            getattr(server, f"notify_{each}_changed")()


@server.tool
async def toggle(*, on: bool) -> None:
    handle = server.tools["plain"]
    handle.enable() if on else handle.disable()


@server.tool(task="optional")
async def job(pages: int, ctx: Context) -> str:
    if pages == 0:
        return str((await ctx.elicit("How many?", int)).value)
    return f"printed {pages}"


@server.tool(task="required")
async def only_task() -> str:
    return "as a task"


@server.tool(tags=["hidden"])
def secret() -> str:
    return "not for you"


@server.resource("config://app", mime_type="application/json", title="Config", ttl_ms=5)
def config() -> dict:
    return {"debug": False}


@server.resource("users://{id}/{kind}")
async def profile(id: int, kind: Literal["long", "short"]) -> str:
    return f"user {id}, {kind}"


@server.resource("broken://a")
def broken() -> str:
    raise KeyError("secret")


server.add_resource("memo://a", "Hello.", title="A greeting", size=6)
server.add_resource("memo://b", b"\x00\x01", mime_type="application/x-b")


@server.prompt(title="Review")
def review(code: str, style: Literal["short", "long"] = "short") -> list:
    "Have code reviewed."
    answer_text = types.PromptMessage("assistant", types.TextContent("Gladly."))
    return [f"Review this, {style}: {code}", answer_text]


@server.completion("review", "code")
async def codes(typed: str, arguments: dict[str, str]) -> list[str]:
    return [each for each in ("pass", "print", "raise") if each.startswith(typed)]


@server.method("vendor/echo")
def echo(params, request):
    return {"echo": params.get("value")}


if __name__ == "__main__":
    if sys.argv[1] == "http":
        server.run(http="127.0.0.1:0", stream_after=3, heartbeat=600, session_idle=600)
    else:
        server.run()
