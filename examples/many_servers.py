"""Connect several servers, one of them broken, and call them by name."""

import asyncio
import logging
import sys

import mcpwire

logging.getLogger("mcpwire").setLevel(logging.ERROR)  # failures are printed below

DEMO = mcpwire.Stdio(sys.executable, ["-m", "mcpwire", "demo-server"])

notes = mcpwire.Server("notes")


@notes.tool
def today() -> str:
    """Say what is to be done today."""
    return "buy milk"


async def main() -> None:
    """Connect the servers, call them by name, and list their tools as one set."""
    servers = {"demo": DEMO, "notes": notes, "broken": "/no/such/program"}
    async with mcpwire.Group(servers, on_error="skip", timeout=10) as group:
        print("connected:", ", ".join(group))
        for name, error in group.problems.items():
            print(f"not connected: {name} ({type(error).__name__})")

        sums = [group.call_tool("demo", "add", {"a": n, "b": n}) for n in range(3)]
        results = await asyncio.gather(*sums, group.call_tool("notes", "today"))
        print([result.structured_content for result in results])

        tools = await group.tools(deny="demo/*")
        print("tools:", ", ".join(tools.names))

        await group.disconnect("demo")
        for status in group.status().values():
            print(f"{status.server}: {status.state}")


asyncio.run(main())
