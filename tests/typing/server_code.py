"""What authors of servers write; mypy checks it with the package, nothing runs it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, assert_type

import attrs

import mcpwire
from mcpwire import Arg, Context, Depends, Elicited, types


@attrs.frozen
class Order:
    """A form, an argument and a result."""

    drink: str
    cups: int = 1


@asynccontextmanager
async def lifespan(server: mcpwire.Server) -> AsyncGenerator[dict[str, int]]:
    yield {server.name: 1}


def is_shown(ctx: Context, component: object) -> bool:
    return ctx.principal is not None and component is not None


server = mcpwire.Server(
    "demo",
    "1.0",
    title="A demonstration",
    icons=["https://example.com/icon.png"],
    lifespan=lifespan,
    visible=is_shown,
    auth=mcpwire.ResourceServer(
        "https://example.com/mcp", verifiers=[mcpwire.StaticTokens({"token": "ada"})]
    ),
    extensions=[mcpwire.Tasks(), mcpwire.Skills("skills/")],
)


async def user(ctx: Context) -> str:
    return str(ctx.lifespan)


@server.tool
def bare(a: int, b: Annotated[int, Arg("The second", ge=0)] = 0) -> int:
    return a + b


@server.tool(title="Named", annotations={"readOnlyHint": True}, task="optional")
async def named(order: Order, who: str = Depends(user)) -> Order:
    assert who
    return order


async def registered() -> None:
    assert_type(bare(1, b=2), int)
    assert_type(await named(Order("tea")), Order)
    handle = server.add_tool(bare, name="other", timeout=5)
    handle.disable()
    server.tools["bare"].replace(bare, title="Anew")


@server.resource("greet://{name}", mime_type="text/plain", cache_scope="public")
def greet(name: str) -> str:
    return name


@server.prompt
def bare_prompt(code: str) -> str:
    return code


@server.prompt(name="list", arguments=[types.PromptArgument("code")])
def named_prompt(arguments: dict[str, str]) -> list[types.PromptMessage]:
    return [types.PromptMessage("user", types.TextContent(arguments["code"]))]


@server.completion("bare_prompt", "code")
async def codes(typed: str) -> list[str]:
    return [typed]


async def kept() -> None:
    assert_type(greet("Ada"), str)
    assert_type(bare_prompt("x"), str)
    assert_type(named_prompt({}), list[types.PromptMessage])
    assert_type(await codes("x"), list[str])


@server.method("vendor/thing")
def thing(params: dict[str, Any], request: object) -> dict[str, Any]:
    return {**params, "request": str(request)}


@server.middleware
async def around(
    params: dict[str, Any], request: object, call_next: Callable[..., Any]
) -> dict[str, Any]:
    result: dict[str, Any] = await call_next(params, request)
    return result


@server.middleware("tools/call")
async def around_calls(
    params: dict[str, Any], request: object, call_next: Callable[..., Any]
) -> dict[str, Any]:
    return await around(params, request, call_next)


async def asked(ctx: Context) -> None:
    assert_type(await ctx.elicit("?", Order), Elicited[Order])
    assert_type((await ctx.elicit("?", Order)).value, Order | None)
    assert_type(
        await ctx.elicit("?", {"type": "object", "properties": {}}),
        Elicited[dict[str, Any]],
    )
    assert_type(await ctx.elicit_url("?", "https://example.com/"), Elicited[None])
    assert_type(await ctx.sample("hi", max_tokens=5), types.CreateMessageResult)
    assert_type(await ctx.roots(), list[types.Root])
    assert_type(await ctx.read_resource("greet://Ada"), types.ReadResourceResult)
    assert_type(await ctx.call_tool("bare", {"a": 1}), types.CallToolResult)
    assert_type(ctx.sync.elicit("?", Order).accepted, bool)
    assert_type(mcpwire.current_context(), Context)


async def answered(ctx: Context) -> str:
    """As docs/server.md asks for an order."""
    answer = await ctx.elicit("What may we bring you?", Order)
    if answer.value is None:
        return "nothing, then"
    return f"{answer.value.cups} x {answer.value.drink}"


async def told(ctx: Context) -> None:
    ctx.info("plain")
    await ctx.info({"or": "awaited"})
    await ctx.report_progress(1, 2, "half")


def pictures() -> list[mcpwire.Image | mcpwire.Audio | mcpwire.File]:
    return [
        mcpwire.Image(b""),
        mcpwire.Audio(path="hello.wav"),
        mcpwire.File(b"", uri="file:///a", mime_type="text/plain"),
    ]


def served() -> None:
    server.mount(mcpwire.Server("other"), prefix="other")
    server.add_file("docs:///a", "a.md")
    server.notify_resource_updated("docs:///a")
    app = server.asgi(allowed_hosts=["example.com"], stateless=True)
    assert callable(app)
    mcpwire.Client(server)
    mcpwire.sync.Client(server)
    server.run(http="127.0.0.1:0", path="/")
