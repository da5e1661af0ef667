"""Use the server in `server.py`, in a child process."""

import asyncio
import sys
from pathlib import Path

import mcpwire
from mcpwire import types

SERVER = mcpwire.Stdio(sys.executable, [str(Path(__file__).with_name("server.py"))])


def agree(form: types.ElicitRequestFormParams) -> dict[str, bool]:
    """Answer the form of the server."""
    print("asked:", form.message)
    return {"value": True}


async def main() -> None:
    async with mcpwire.Client(SERVER, elicitation=agree) as client:
        found = await client.call_tool("find", {"words": "water"})
        print(found.structured_content)

        note = {"title": "tea", "text": "Boil water, wait four minutes."}
        print((await client.call_tool("write", {"note": note})).text)
        print(await client.read_text("note://tea"))

        template = types.ResourceTemplateReference("note://{title}")
        answer = await client.complete(template, "title", "t")
        print(answer.completion.values)

        wrong = await client.call_tool("find", {"words": 7, "limit": 0})
        print(wrong.text)


asyncio.run(main())
