"""Log in to a server with the browser, once: `python log_in.py URL`."""

import asyncio
import sys

import mcpwire


async def main(url: str) -> None:
    server = mcpwire.Http(
        url, auth=mcpwire.OAuth(on_url=lambda url: print("The browser is sent to", url))
    )
    try:
        status = await mcpwire.login(server)
    except mcpwire.AuthError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    if status is None:
        print("It requires no login.")
    else:
        print("Logged in at", status.issuer, "for", status.scopes)
    async with mcpwire.Client(server) as client:
        print([tool.name for tool in await client.list_tools()])


if len(sys.argv) != 2:
    sys.exit("usage: python log_in.py URL")
asyncio.run(main(sys.argv[1]))
