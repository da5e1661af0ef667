"""Show the progress of a call, limit its time, and cancel it; the client stays open."""

import asyncio
import contextlib
import sys

import mcpwire

SERVER = mcpwire.Stdio(sys.executable, ["-m", "mcpwire", "demo-server"])


def show(progress: float, total: float | None, message: str | None) -> None:
    """Print the progress of a call; it may be an async function as well."""
    print(f"{progress:g} of {total}: {message}")


async def main() -> None:
    """Call the same slow tool in three ways."""
    async with mcpwire.Client(SERVER) as client:
        result = await client.call_tool(
            "slow", {"steps": 3, "seconds": 0.3}, on_progress=show
        )
        print(result.text)

        try:
            await client.call_tool("slow", {"seconds": 60}, timeout=0.2)
        except mcpwire.RequestTimeout as error:
            print(
                f"{error.method} had {error.timeout} s; the request was cancelled at "
                "the server"
            )

        # Cancelling the task cancels the call.
        call = asyncio.create_task(client.call_tool("slow", {"seconds": 60}))
        await asyncio.sleep(0.1)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        print("cancelled:", call.cancelled())

        result = await client.call_tool("add", {"a": 2, "b": 3})
        print("and still there:", result.structured_content)


asyncio.run(main())
