"""A server with every feature, of mcpwire's public names: the cases' own subject.

Without arguments it serves stdio; ``--http PORT`` serves HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Annotated

import mcpwire
from mcpwire import Arg, Context

server = mcpwire.Server("mcpwire-subject", "1.0", page_size=4)

READS = {"annotations": {"readOnlyHint": True}}


@server.tool(**READS)
def echo(message: str) -> str:
    """Give a text back."""
    return message


@server.tool(**READS)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(**READS)
async def slow(seconds: float = 0.05) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool(**READS)
def big(characters: int = 200_000) -> str:
    """Return a long text."""
    return "x" * characters


@server.tool(**READS)
async def notify(context: Context, steps: int = 3) -> str:
    """Report progress and write to the log."""
    for step in range(steps):
        context.progress(step + 1, steps)
        context.info(f"step {step + 1}")
    return "done"


@server.tool(**READS)
def forecast(
    city: Annotated[str, Arg(header="City")],
    days: Annotated[int, Arg(header="Days")] = 1,
    exact: Annotated[bool, Arg(header="Exact")] = False,  # noqa: FBT002 - a tool's
) -> str:
    """Repeat arguments that HTTP repeats in header fields."""
    return f"{city} {days} {exact}"


@server.tool(**READS)
async def poll(context: Context) -> str:
    """End the stream before the answer, so that clients come back for it."""
    context.close_stream(retry=0.05)
    await asyncio.sleep(0.1)
    return "done"


@server.resource("subject://text", mime_type="text/plain")
def text() -> str:
    """A text."""
    return "a text"


@server.resource("subject://item/{name}")
def item(name: str) -> str:
    """One of many."""
    return f"item {name}"


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--http", type=int, metavar="PORT")
    options = parser.parse_args()
    server.run(http=None if options.http is None else f"127.0.0.1:{options.http}")


if __name__ == "__main__":
    main()
