"""A server with a bit of everything, a client that hears everything, a gateway."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import mcpwire
from mcpwire import Context, types
from mcpwire.gateway import Gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}


class Upstream:
    """A server of one revision, and what its tools went through."""

    def __init__(self, revision: str, **options: Any) -> None:
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.release = asyncio.Event()
        self.server = mcpwire.Server("up", "1.0", revisions=[revision], **options)
        register(self)


def register(up: Upstream) -> None:
    """Give a server its tools, resources and prompts."""
    server = up.server

    @server.tool
    def echo(text: str) -> str:
        return text

    @server.tool
    def fail() -> str:
        raise mcpwire.ToolError("no luck")

    @server.tool
    async def steps(ctx: Context) -> str:
        for step in (1, 2.5, 3):
            ctx.progress(step, 3, f"step {step}")
        return "done"

    @server.tool
    async def talk(ctx: Context) -> str:
        ctx.log("debug", "quiet", "up")
        ctx.log("warning", {"loud": True}, "up")
        return "said"

    @server.tool
    async def slow() -> str:
        up.began.set()
        try:
            await up.release.wait()
        except asyncio.CancelledError:
            up.cancelled.set()
            raise
        return "slept"

    @server.tool
    async def model(ctx: Context) -> str:
        return (await ctx.sample("hello", max_tokens=7)).content.text

    @server.tool
    async def form(ctx: Context) -> str:
        answer = await ctx.elicit("who?", SCHEMA)
        return f"{answer.action} {(answer.content or {}).get('name')}"

    @server.tool
    async def visit(ctx: Context) -> str:
        answer = await ctx.elicit_url("sign in", "https://example.com/a")
        return answer.action

    @server.tool
    async def twice(ctx: Context) -> str:
        first = await ctx.elicit("first?", SCHEMA, key="first")
        second = await ctx.elicit("second?", SCHEMA, key="second")
        return f"{first.content['name']} {second.content['name']}"

    @server.tool
    async def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.roots())

    @server.resource("memo://1")
    def memo() -> str:
        return "a memo"

    @server.prompt
    def greet(name: str) -> str:
        return f"hello {name}"

    @server.completion("greet", "name")
    def names(typed: str) -> list[str]:
        return [name for name in ("ann", "anton", "bob") if name.startswith(typed)]


class Downstream:
    """What a client was asked and told."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.told: list[Any] = []
        self.heard = asyncio.Event()

    async def sample(self, params: Any) -> Any:
        self.asked.append(params)
        return types.CreateMessageResult(
            "assistant", types.TextContent("from the model"), "some-model"
        )

    async def form(self, params: Any) -> Any:
        self.asked.append(params)
        return {"name": params.message[:-1]}

    async def visit(self, params: Any) -> str:
        self.asked.append(params)
        return "accept"

    def hear(self, notification: Any) -> None:
        self.told.append(notification)
        self.heard.set()

    async def hears(self, count: int) -> None:
        """Wait until so many notifications came."""
        async with asyncio.timeout(5):
            while len(self.told) < count:
                self.heard.clear()
                await self.heard.wait()

    def options(self) -> dict[str, Any]:
        """Return a client's options for all that it can be asked."""
        return {
            "sampling": self.sample,
            "elicitation": mcpwire.Elicitation(form=self.form, url=self.visit),
            "roots": ["file:///home"],
            "on_notification": self.hear,
        }


@asynccontextmanager
async def bridged(
    server: Any, downstream: str, **options: Any
) -> AsyncIterator[mcpwire.Client]:
    """Connect a client of one revision to a server through a gateway."""
    async with (
        Gateway({"up": server}) as gateway,
        mcpwire.Client(gateway, mode=downstream, **options) as client,
    ):
        yield client


def wait(event: asyncio.Event) -> Any:
    """Wait for something that is sure to come."""
    return asyncio.wait_for(event.wait(), 5)
