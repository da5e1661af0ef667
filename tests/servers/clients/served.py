"""The server that clients of others are tried on: `served.py`, or `served.py PORT`.

Written with nothing but the public names of mcpwire, as its users write servers.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any, Literal

from mcpwire import Context, Server, ToolError
from mcpwire.server.extensions.skills import Skills

NOTE = "note://today"
SKILL = """---
name: polite-greeting
description: How to greet people. For the beginning of each letter.
---
Say hello first.
"""

server = Server(
    "served",
    "1.2.3",
    instructions="Add, ask and listen.",
    extensions=[Skills({"polite-greeting": {"SKILL.md": SKILL}})],
)


@dataclass
class Person:
    name: str
    age: int = 42


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def thread(word: str) -> str:
    """Work in a thread."""
    return word[::-1]


@server.tool
async def person() -> Person:
    """Return an object."""
    return Person("Ada", 36)


@server.tool
async def fail() -> str:
    """Fail."""
    raise ToolError("no luck")


@server.tool
async def count(to: int, context: Context) -> str:
    """Tell of each step, and of the last one in the log."""
    for step in range(1, to + 1):
        context.progress(step, to, f"step {step}")
        # Steps that come at once may be told as one; and the TypeScript SDK passes over
        # what it reads together with the result.
        await asyncio.sleep(0.03)
    context.warning("counted")
    return f"counted to {to}"


@server.tool
async def ask_person(context: Context) -> str:
    """Have the user fill in a form."""
    answer = await context.elicit("Who are you?", Person)
    if not answer.accepted:
        return answer.action
    return f"{answer.value.name}, {answer.value.age}"


@server.tool
async def ask_model(question: str, context: Context) -> str:
    """Have the model answer, twice."""
    first = await context.sample(question, max_tokens=50)
    second = await context.sample(f"{first.text}?", max_tokens=50)
    return f"{first.text} {second.text}"


@server.tool
async def ask_roots(context: Context) -> str:
    """Have the client name its folders."""
    return " ".join(root.uri for root in await context.roots())


@server.tool
async def change(context: Context) -> str:
    """Change the note, and say that there are other tools now."""
    server.notify_resource_updated(NOTE)
    server.notify_tools_changed()
    return "changed"


@server.resource(NOTE, name="today", mime_type="text/plain")
async def today() -> str:
    """What there is to do."""
    return "write tests"


@server.resource("greet://{name}", name="greeting")
async def greeting(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@server.prompt
async def review(code: str, style: Literal["short", "long"] = "short") -> str:
    """Have code reviewed."""
    return f"Write a {style} review of {code}"


def main() -> None:
    where: dict[str, Any] = {}
    if sys.argv[1:]:
        where["http"] = f"127.0.0.1:{sys.argv[1]}"
    server.run(**where)


if __name__ == "__main__":
    main()
