"""A small server with one component of each kind, for trying out a client.

``mcpwire demo-server`` and ``python -m mcpwire.server.demo`` run it on stdin and
stdout; `demo_dispatcher` serves a client in the same process.

Three of its tools send a request to the client before they answer: a form for its user,
a URL to visit, a request to its model. Clients that do not support it do not see the
tool.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict

from mcpwire._package import __version__
from mcpwire.protocol.input_requests import is_supported
from mcpwire.server.authoring.schemas import Arg
from mcpwire.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.components import Component
    from mcpwire.server.context import Context
    from mcpwire.server.dispatcher import CallNext, Dispatcher, Json
    from mcpwire.server.request import RequestContext

__all__ = ["demo_dispatcher", "demo_server", "main"]

INSTRUCTIONS: Final = (
    "A demonstration: echo repeats, add sums, slow reports progress while it runs."
)

MAX_INT: Final = 2**53 - 1
"""The largest integer that all JSON parsers preserve; sums of two fit 64 bit."""

READ_ONLY: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}

NAMES: Final = ("Ada", "Alan", "Barbara", "Edsger", "Grace", "Tim")
"""The values of the completion."""

TTL_MS: Final = 3_600_000
"""The cache hint: the components never change."""

KEY: Final = "answer"
"""The key of each tool's question."""

NEEDED_CAPABILITY: Final = {
    "order": "elicitation.form",
    "pay": "elicitation.url",
    "haiku": "sampling",
}
"""The capability that a client must declare to see a tool."""

DRINKS: Final = {"coffee": "Coffee", "tea": "Tea", "water": "Water, still"}
PAGE: Final = "https://example.com/mcpwire-demo?order=1"

ORDER: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "drink": {
            "type": "string",
            "title": "Drink",
            "oneOf": [{"const": key, "title": DRINKS[key]} for key in DRINKS],
        },
        "cups": {
            "type": "integer",
            "title": "Cups",
            "minimum": 1,
            "maximum": 5,
            "default": 1,
        },
        "sugar": {"type": "boolean", "title": "Sugar", "default": False},
        "note": {
            "type": "string",
            "title": "Note",
            "description": "Anything else we should know.",
            "maxLength": 60,
        },
    },
    "required": ["drink", "cups"],
}


class Sum(TypedDict):
    """A sum."""

    sum: int


async def echo(message: Annotated[str, Arg("What to return.")]) -> str:
    """Return the message."""
    return message


async def add(
    a: Annotated[int, Arg("The first addend.", ge=-MAX_INT, le=MAX_INT)],
    b: Annotated[int, Arg("The second addend.", ge=-MAX_INT, le=MAX_INT)] = 0,
) -> Sum:
    """Add two integers."""
    return {"sum": a + b}


async def slow(
    ctx: Context,
    steps: Annotated[int, Arg("How many.", ge=1, le=1_000)] = 5,
    seconds: Annotated[float, Arg("How long all of them take.", ge=0, le=3_600)] = 1.0,
) -> str:
    """Take some time in steps and report progress after each."""
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds / steps)
        ctx.log("debug", f"step {step} is done", "slow")
        ctx.progress(step, steps, f"step {step} of {steps}")
    return f"{steps} steps in {seconds:g} seconds"


async def order(ctx: Context) -> str:
    """Ask for an order, by a form."""
    answer = await ctx.elicit("What may we bring you?", ORDER, key=KEY)
    if answer.value is None:
        return f"no order: {answer.action}"
    sugar = "with sugar" if answer.value.get("sugar") else "without sugar"
    note = answer.value.get("note")
    text = f"{answer.value['cups']} x {answer.value['drink']}, {sugar}"
    return f"{text} ({note})" if note else text


async def pay(ctx: Context) -> str:
    """Ask to visit a page."""
    answer = await ctx.elicit_url("Please pay for your order.", PAGE, key=KEY)
    return "agreed to pay" if answer.accepted else f"no payment: {answer.action}"


async def haiku(ctx: Context, topic: Annotated[str, Arg("What it is about.")]) -> str:
    """Ask the client's model for a haiku."""
    question = f"Write a haiku about {topic}."
    answer = await ctx.sample(question, max_tokens=100, key=KEY)
    return answer.text


def greet(name: Annotated[str, Arg("Whom to greet.")]) -> str:
    """Ask for a greeting."""
    return f"Write one short and friendly sentence that greets {name}."


async def personal_greeting(name: str) -> str:
    """A greeting for one person."""
    return f"Hello, {name}."


def complete_name(typed: str) -> list[str]:
    """Return the names that begin with the typed text."""
    return [name for name in NAMES if name.casefold().startswith(typed.casefold())]


def can_answer(ctx: Context, tool: Component) -> bool:
    """Return whether a client supports the request that a tool sends."""
    capability, request = NEEDED_CAPABILITY[tool.key], ctx.request
    return is_supported(capability, request.revision, request.client_capabilities)


async def add_cache_hint(
    params: Json, request: RequestContext, call_next: CallNext
) -> Json:
    """Add a cache hint to the lists."""
    result = await call_next(params, request)
    return {**result, "ttlMs": TTL_MS}


def demo_server(*, auth: ResourceServer | None = None) -> Server:
    """Return the demonstration server."""
    server = Server("mcpwire-demo", __version__, instructions=INSTRUCTIONS, auth=auth)
    for function in (echo, add, slow, order, pay, haiku):
        name = function.__name__
        server.add_tool(
            function,
            title=name.title(),
            structured=None if name == "add" else False,
            annotations=READ_ONLY,
            visible=can_answer if name in NEEDED_CAPABILITY else None,
        )
    common: Any = {"mime_type": "text/plain", "ttl_ms": TTL_MS, "cache_scope": "public"}
    server.add_resource(
        "demo://greeting",
        "Hello from mcpwire.",
        name="greeting",
        title="Greeting",
        description="A greeting for everybody.",
        **common,
    )
    template = "demo://greeting/{name}"
    server.add_resource(
        template,
        personal_greeting,
        name="personal-greeting",
        title="Personal greeting",
        **common,
    )
    server.add_prompt(greet, title="Greet")
    server.completion("greet", "name")(complete_name)
    server.completion(template, "name")(complete_name)
    for kind in ("tools", "resources", "resources/templates", "prompts"):
        server.middleware(f"{kind}/list")(add_cache_hint)
    return server


def demo_dispatcher(*, auth: ResourceServer | None = None) -> Dispatcher:
    """Return its dispatcher, for ``mcpwire.Client(demo_dispatcher())``."""
    return demo_server(auth=auth).dispatcher


def main() -> int:
    """Serve on stdin and stdout until the input ends; return the exit code."""
    from mcpwire.server.stdio import run_stdio

    return run_stdio(demo_dispatcher())


if __name__ == "__main__":
    raise SystemExit(main())
