"""The features of both servers on Python frameworks, so that one test covers both."""

import sys

import anyio
from mcp_types import Completion, PromptReference

LANGUAGES = ["python", "perl", "prolog", "rust"]
CITIES = ["Paris", "Parma", "Oslo"]
ABOUT = {"version": "1.2.3", "instructions": "For mcpwire's tests."}
abandoned: list[str] = []


def echo(message: str) -> str:
    """Answer with the message."""
    return message


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


async def hang(name: str) -> str:
    """Never answer; record the cancelled calls."""
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        abandoned.append(name)
        raise
    return name


def cancelled() -> list[str]:
    """Name the calls of `hang` that were cancelled."""
    return abandoned


def crash() -> str:
    """Fail in a way nobody foresaw."""
    message = "a secret of the server"
    raise RuntimeError(message)


def complain(message: str) -> str:
    """Write to standard error, and to what passes for standard output."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
    sys.stdout.write(message + "\n")
    sys.stdout.flush()
    return "said"


def hello() -> str:
    """Greet."""
    return "hello \u2028 world"


def some_bytes() -> bytes:
    """All bytes there are."""
    return bytes(range(256))


def greeting(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


def review(code: str, language: str = "python") -> str:
    """Ask for a review."""
    return f"Review this {language}: {code}"


async def complete(ref, argument, context=None):
    """Complete the prompt's language and the template's name."""
    del context
    known = LANGUAGES if isinstance(ref, PromptReference) else CITIES
    values = [value for value in known if value.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


def offer(server, context, error):
    """Offer it; with the framework's context, and its error for the model."""

    async def slow(steps: int, ctx: context) -> str:
        """Report progress once a step."""
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps, f"step {step}")
        return f"{steps} steps"

    def fail(reason: str) -> str:
        """Fail in a way the model may read."""
        raise error(reason)

    for tool in (echo, add, slow, hang, cancelled, fail, crash, complain):
        server.tool()(tool)
    text = {"mime_type": "text/plain"}
    octets = {"mime_type": "application/octet-stream"}
    server.resource("note://hello", name="hello", **text)(hello)
    server.resource("note://bytes", name="bytes", **octets)(some_bytes)
    server.resource("greeting://{name}", name="greeting", **text)(greeting)
    server.prompt()(review)
