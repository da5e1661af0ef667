"""mcpwire server to attack; OPTIONS in the environment is JSON with its limits."""

import asyncio
import json
import os
import time

import attrs

import mcpwire
from mcpwire.limits import Limits
from mcpwire.server.server import SERVER_LIMITS

options = json.loads(os.environ.get("OPTIONS", "{}"))
port = os.environ["PORT"]
limit_names = {field.name for field in attrs.fields(Limits)}
limits = attrs.evolve(
    SERVER_LIMITS,
    **{name: value for name, value in options["limits"].items() if name in limit_names},
)
auth = None
if "introspection" in options:
    issuer = options["introspection"]
    auth = mcpwire.ResourceServer(
        f"http://127.0.0.1:{port}/mcp",
        authorization_servers=[issuer],
        verifiers=[
            mcpwire.IntrospectionVerifier(
                mcpwire.Http(f"{issuer}/introspect", allow_insecure=True),
                issuer=issuer,
                bearer="ours",
            )
        ],
        allow_insecure=True,
    )

server = mcpwire.Server(
    "attacked",
    "1",
    limits=limits,
    auth=auth,
    thread_limit=options.get("threads", 64),
    extensions=[mcpwire.Tasks(per_principal=options.get("tasks", 100))],
)


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
def plain(text: str) -> str:
    """Return the text, from a thread."""
    return text


@server.tool
def block(seconds: float) -> str:
    """Block a thread for a time."""
    time.sleep(seconds)
    return "done"


@server.tool
async def big(size: int) -> str:
    """Return a text of this size."""
    return "x" * size


@server.tool
async def flow(number: int, size: int, ctx: mcpwire.Context) -> str:
    """Send many messages before the result."""
    for _ in range(number):
        ctx.info("x" * size)
        await asyncio.sleep(0)
    return "done"


@server.tool
async def ask(ctx: mcpwire.Context) -> str:
    """Elicit a name from the client, and wait for it."""
    answer = await ctx.elicit("Your name?", str)
    return str(answer.value)


@server.tool(task="optional")
async def work(seconds: float) -> str:
    """Wait for a time, as a task if the client supports tasks."""
    await asyncio.sleep(seconds)
    return "done"


if __name__ == "__main__":
    server.run(
        quiet=True,
        http=f"127.0.0.1:{port}",
        announce=lambda _: None,
        session_idle=options["idle"],
        max_sessions=options.get("sessions", 10_000),
        drain_timeout=options["drain"],
    )
