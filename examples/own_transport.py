"""Custom transports: messages over queues, and a server that connects to its client."""

import asyncio

import mcpwire
from mcpwire.transports import Messages, Reverse

server = mcpwire.Server("kitchen", "1.0")


@server.tool
def boil(minutes: int) -> str:
    """Boil an egg."""
    return f"boiled for {minutes} minutes"


async def over_queues() -> None:
    """Send each message as a dict over queues."""
    there, back = asyncio.Queue(), asyncio.Queue()
    serving = asyncio.create_task(
        server.serve_messages(back.put, there.get, form="dict")
    )
    target = Messages(there.put, back.get, close=lambda: there.put(None), form="dict")
    async with mcpwire.Client(target) as client:
        print("queues:", (await client.call_tool("boil", {"minutes": 4})).text)
    await serving


async def dialling_in() -> None:
    """Accept a connection from the server."""
    reverse = Reverse(name="kitchen", timeout=10)
    async with (
        reverse,
        await asyncio.start_server(reverse.accept, "127.0.0.1", 0) as listener,
    ):
        port = listener.sockets[0].getsockname()[1]
        connection = await asyncio.open_connection("127.0.0.1", port)
        serving = asyncio.create_task(server.serve_stream(*connection))
        async with mcpwire.Client(reverse) as client:
            print("reverse:", (await client.call_tool("boil", {"minutes": 6})).text)
        await serving


async def main() -> None:
    """Use the same server over both transports."""
    await over_queues()
    await dialling_in()


asyncio.run(main())
