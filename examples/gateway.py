"""A gateway in front of two servers, with a deny rule and content for each caller.

This example runs in one process. ``gateway.run(http="127.0.0.1:8000", paths=True,
status="/status")`` serves the gateway over HTTP with a path for each server; ``mcpwire
gateway --config mcp.json --http 127.0.0.1:8000 --watch`` serves those of a file.
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

    # Over HTTP a header field of the calls names the agent.
    delegate.register("ann")
    delegate.notify("ann", {"type": "text", "text": "the build is green"})
    batch = await delegate.read_pending({"X-Agent-Id": "ann"}, None)
    assert batch is not None
    (token,) = tokens_in(f"<system-reminder-{batch.token}>")
    print(f"{len(delegate.confirm(token))} delivered")


asyncio.run(main())
