"""Two servers as one: a gateway, its policy, and content for each caller.

Here all of it is in one process. To serve the gateway, over HTTP with a path for each
server, it is ``gateway.run(http="127.0.0.1:8000", paths=True, status="/status")``; for
servers of a file, ``mcpwire gateway --config mcp.json --http 127.0.0.1:8000 --watch``.
"""

import asyncio

import mcpwire
from mcpwire.gateway import Gateway, QueueDelegate, tokens_in

clock = mcpwire.Server("clock")
store = mcpwire.Server("store")


@clock.tool
async def now() -> str:
    """Tell the time."""
    return "12:00"


@store.tool
async def put(text: str) -> str:
    """Keep a text."""
    return f"kept {text!r}"


@store.tool
async def wipe() -> str:
    """Forget everything."""
    return "gone"


delegate = QueueDelegate()
gateway = Gateway(
    {"clock": clock, "store": store}, deny=["store/wipe"], delegate=delegate
)


async def main() -> None:
    """Use both servers through the gateway."""
    async with mcpwire.Client(gateway) as client:
        print(", ".join(tool.name for tool in await client.list_tools()))
        print((await client.call_tool("clock_now")).text)
        try:
            await client.call_tool("store_wipe")
        except mcpwire.RPCError as error:
            print(error.message)

    # Over HTTP the agent is named by a header field of its calls.
    delegate.register("ann")
    delegate.notify("ann", {"type": "text", "text": "the build is green"})
    batch = await delegate.read_pending({"X-Agent-Id": "ann"}, None)
    assert batch is not None
    (token,) = tokens_in(f"<system-reminder-{batch.token}>")
    print(f"{len(delegate.confirm(token))} delivered")


asyncio.run(main())
