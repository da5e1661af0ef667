"""A server with every feature, of mcpwire's public names: the cases' own subject.

Without arguments it serves stdio; ``--http PORT`` serves HTTP.
"""

from __future__ import annotations

import argparse
import asyncio

import mcpwire
from mcpwire import Context

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
