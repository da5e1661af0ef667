"""The server under attack: one of every feature, without failures of its own."""

import asyncio
from typing import Literal

from mcpwire import Context, Server
from mcpwire.server.context import current_context
from mcpwire.server.extensions.tasks import Tasks


def build(**options):
    """Return a new server with every kind of feature a client can use."""
    server = Server("victim", "1", state_keys=(b"k" * 32,), **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def tell(text: str, ctx: Context) -> str:
        ctx.progress(1, 2, "half")
        ctx.info(text)
        await asyncio.sleep(0)
        return text

    @server.tool
    def threaded(text: str, times: int = 1) -> dict[str, str]:
        return {"text": text * min(times, 3), "method": current_context().method}

    @server.tool
    async def ask(ctx: Context) -> str:
        # In a session the fuzzer never answers requests.
        if ctx.protocol_version != "2026-07-28":
            return "not here"
        answer = await ctx.elicit("name?", {"type": "object", "properties": {}})
        return answer.action

    _add_others(server)
    return server


def with_tasks():
    server = build(extensions=(Tasks(max_tasks=50),))

    @server.tool(task="optional")
    async def works(text: str) -> str:
        return text

    return server


def _add_others(server):
    @server.resource("note://one", mime_type="text/plain")
    def note() -> str:
        return "one"

    @server.resource("greet://{name}/{+rest}")
    def greet(name: str, rest: str) -> str:
        return f"hello {name} {rest}"

    @server.prompt
    def talk(style: Literal["short", "long"] = "short") -> str:
        return style

    @server.completion("talk", "style")
    def styles(value: str) -> list[str]:
        return [each for each in ("short", "long") if each.startswith(value)]


if __name__ == "__main__":
    with_tasks().run()
