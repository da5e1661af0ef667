"""A stdio server on FastMCP 4 with requests to its client, run by its own environment.

FastMCP 4 has `elicit` for sessions and no `sample` at all; the rest uses the official
SDK's session below it, and at 2026-07-28 results that require input.
"""

import os
from dataclasses import dataclass
from typing import Literal

from fastmcp import Context, FastMCP
from fastmcp.server.elicitation import AcceptedElicitation
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

server = FastMCP("foreign-fastmcp-interactive", version="1.2.3")


@dataclass
class Order:
    """What somebody wants to eat."""

    name: str
    size: Literal["small", "medium"] = "medium"
    pieces: int = 3


def question(topic: str) -> CreateMessageRequestParams:
    """Return what the client's model is asked."""
    text = TextContent(text=f"A haiku on {topic}")
    return CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=text)], max_tokens=64
    )


@server.tool
async def haiku(topic: str, ctx: Context) -> str:
    """Have the client's model write one, in a session."""
    asked = question(topic)
    answer = await ctx.session.create_message(
        asked.messages, max_tokens=asked.max_tokens
    )
    return f"{answer.model}: {answer.content.text}"


@server.tool
async def order(ctx: Context) -> str:
    """Take an order, in a session."""
    outcome = await ctx.elicit("What shall it be?", Order)
    if isinstance(outcome, AcceptedElicitation):
        return f"{outcome.data.pieces} {outcome.data.size} for {outcome.data.name}"
    return outcome.action


@server.tool
async def everything(topic: str, ctx: Context) -> str | InputRequiredResult:
    """Ask three things at once, at 2026-07-28."""
    if ctx.input_responses is None:
        form = ElicitRequestFormParams(
            message="Who are you?",
            requested_schema={
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
            },
        )
        return InputRequiredResult(
            input_requests={
                "model": CreateMessageRequest(params=question(topic)),
                "user": ElicitRequest(params=form),
                "roots": ListRootsRequest(),
            },
            request_state=f"state of {topic}",
        )
    assert ctx.request_state == f"state of {topic}"
    model, user, roots = (
        ctx.input_responses[key] for key in ("model", "user", "roots")
    )
    assert isinstance(model, CreateMessageResult)
    assert isinstance(user, ElicitResult)
    assert isinstance(roots, ListRootsResult)
    name = user.content["name"] if user.content else user.action
    return f"{model.content.text}, {name}, {len(roots.roots)}"


@server.tool
async def report(ctx: Context) -> str:
    """Log at two levels."""
    await ctx.debug("in detail")
    await ctx.error("in short")
    return "logged"


@server.tool
async def work(steps: int, ctx: Context) -> str:
    """Report progress at each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


if __name__ == "__main__":
    if "PORT" in os.environ:
        server.run("http", host="127.0.0.1", port=int(os.environ["PORT"]))
    else:
        server.run("stdio")
