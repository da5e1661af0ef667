"""A server on the official Python SDK 2.x with requests and notifications to clients.

It serves standard input and output, or HTTP on the port that PORT names.

Elicitations use `Resolve`, which serves both eras; where that does not exist, a tool
sends the request itself. Features that `MCPServer` lacks in a session are added to the
server below it.
"""

import os
from typing import Annotated, Any, Literal
from uuid import uuid4

import anyio
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    MCPServer,
    Resolve,
    Sample,
)
from mcp.server.stdio import stdio_server
from mcp_types import (
    LATEST_PROTOCOL_VERSION,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmptyResult,
    InputRequiredResult,
    ListRootsResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    Tool,
    ToolChoice,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

LEVELS = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
MODERN = "2026-07-28"

server = MCPServer(
    "foreign-sdk-interactive",
    version="1.2.3",
    cache_hints={"tools/list": CacheHint(ttl_ms=600_000, scope="public")},
)
abandoned: list[str] = []
subscribed: list[str] = []
note = {"text": "first"}
minimum = {"level": "debug"}


# --- requests


class Order(BaseModel):
    """What somebody wants to eat."""

    name: str = Field(description="Who it is for", min_length=2)
    size: Literal["small", "medium", "large"] = "medium"
    pieces: int = Field(default=3, ge=1, le=9)
    hot: bool = True
    note: str | None = None


def ask_model(topic: str) -> Sample:
    """Ask the client's model for a haiku."""
    message = SamplingMessage(
        role="user", content=TextContent(text=f"A haiku on {topic}")
    )
    return Sample(
        [message],
        max_tokens=64,
        system_prompt="Be brief.",
        temperature=0.5,
        stop_sequences=["END"],
        metadata={"trace": 7},
        model_preferences=ModelPreferences(
            hints=[ModelHint(name="small")], speed_priority=0.9
        ),
    )


def ask_with_tools(topic: str) -> Sample:
    """Ask the client's model, which may use a tool."""
    lookup = Tool(
        name="lookup",
        description="Look something up.",
        input_schema={"type": "object", "properties": {"word": {"type": "string"}}},
    )
    message = SamplingMessage(role="user", content=TextContent(text=topic))
    return Sample(
        [message], max_tokens=9, tools=[lookup], tool_choice=ToolChoice(mode="required")
    )


def ask_order() -> Elicit[Order]:
    """Ask the user for an order."""
    return Elicit("What shall it be?", Order)


class Confirmation(BaseModel):
    """Whether an order stands."""

    sure: bool


def ask_whether_sure(
    order: Annotated[Order, Resolve(ask_order)],
) -> Elicit[Confirmation]:
    """Ask the user about what they ordered."""
    return Elicit(f"{order.pieces} for {order.name}?", Confirmation)


def ask_roots() -> ListRoots:
    """Ask for the client's folders."""
    return ListRoots()


@server.tool()
def haiku(
    topic: str, answer: Annotated[CreateMessageResult, Resolve(ask_model)]
) -> dict[str, Any]:
    """Have the client's model write one."""
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


@server.tool()
def research(
    topic: str, answer: Annotated[CreateMessageResultWithTools, Resolve(ask_with_tools)]
) -> dict[str, Any]:
    """Have the client's model use a tool."""
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


@server.tool()
def order(
    outcome: Annotated[ElicitationResult[Order], Resolve(ask_order)],
) -> dict[str, Any]:
    """Take an order."""
    if isinstance(outcome, AcceptedElicitation):
        return outcome.data.model_dump()
    return {"action": outcome.action}


@server.tool()
def order_carefully(
    order: Annotated[Order, Resolve(ask_order)],
    confirmation: Annotated[Confirmation, Resolve(ask_whether_sure)],
) -> str:
    """Take an order and ask once more."""
    return f"{order.size} for {order.name}: {confirmation.sure}"


@server.tool()
def folders(found: Annotated[ListRootsResult, Resolve(ask_roots)]) -> list[str]:
    """Name the client's folders."""
    return [f"{root.name}={root.uri}" for root in found.roots]


@server.tool()
def everything(
    topic: str,
    answer: Annotated[CreateMessageResult, Resolve(ask_model)],
    order: Annotated[Order, Resolve(ask_order)],
    found: Annotated[ListRootsResult, Resolve(ask_roots)],
) -> str:
    """Ask all three at once."""
    return f"{answer.content.text}, {order.name}, {len(found.roots)}"


@server.tool()
async def sign_in(url: str, ctx: Context) -> str | InputRequiredResult:
    """Have the user visit a URL, and tell that they are done."""
    message = "Please sign in."
    if ctx.protocol_version != MODERN:
        id = str(uuid4())
        outcome = await ctx.elicit_url(message, url, id)
        if outcome.action == "accept":
            await ctx.session.send_elicit_complete("somebody else's")
            await ctx.session.send_elicit_complete(id)
        return outcome.action
    if ctx.input_responses is None:
        request = ElicitRequest(params=ElicitRequestURLParams(message=message, url=url))
        return InputRequiredResult(
            input_requests={"sign in": request}, request_state="waiting for the user"
        )
    response = ctx.input_responses["sign in"]
    assert isinstance(response, ElicitResult)
    assert ctx.request_state == "waiting for the user"
    return response.action


def ask_name(ctx: Context) -> InputRequiredResult:
    """Ask for a name, by hand: `Resolve` is for tools."""
    form = ElicitRequestFormParams(
        message=f"Your name, for {ctx.request_context.method}?",
        requested_schema={
            "type": "object",
            "properties": {"name": {"type": "string", "default": "Anonymous"}},
        },
    )
    return InputRequiredResult(input_requests={"name": ElicitRequest(params=form)})


def given_name(ctx: Context) -> str:
    """Return the name that was given."""
    response = ctx.input_responses["name"]
    assert isinstance(response, ElicitResult)
    return response.content["name"] if response.content else response.action


@server.prompt()
async def letter(to: str, ctx: Context) -> str | InputRequiredResult:
    """Write a letter; asks who writes it, from 2026-07-28 on."""
    if ctx.input_responses is None:
        return ask_name(ctx)
    return f"Dear {to}, yours, {given_name(ctx)}"


@server.resource("vault://{box}", name="vault", mime_type="text/plain")
async def vault(box: str, ctx: Context) -> str | InputRequiredResult:
    """Open a box; asks who wants that, from 2026-07-28 on."""
    if ctx.input_responses is None:
        return ask_name(ctx)
    return f"{box} for {given_name(ctx)}"


# --- notifications


@server.tool()
async def work(steps: int, ctx: Context) -> str:
    """Report progress and log at each step, then at each level."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
        await log(ctx, "info", {"step": step})
    for level in LEVELS:
        await log(ctx, level, f"about {level}")
    return f"{steps} steps"


async def log(ctx: Context, level: str, data: object) -> None:
    """Log from the client's level on; at 2026-07-28 the SDK itself drops the rest."""
    if ctx.protocol_version == MODERN or LEVELS.index(level) >= LEVELS.index(
        minimum["level"]
    ):
        await ctx.log(level, data, logger_name="work")


@server.resource("note://shared", name="shared", mime_type="text/plain")
def shared() -> str:
    """What `write` wrote last."""
    return note["text"]


@server.tool()
async def write(text: str, ctx: Context) -> str:
    """Change the note and tell who listens."""
    note["text"] = text
    await ctx.notify_resource_updated("note://shared")
    if "note://shared" in subscribed:
        await ctx.session.send_resource_updated("note://shared")
    return "written"


@server.tool()
def subscriptions() -> list[str]:
    """Name what was subscribed to in this session."""
    return subscribed


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Offer one more tool, prompt and resource, and tell who listens."""
    server.add_tool(lambda: name, name=name)
    for publish in (
        ctx.notify_tools_changed,
        ctx.notify_prompts_changed,
        ctx.notify_resources_changed,
    ):
        await publish()
    if ctx.protocol_version != MODERN:
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()
    return "grown"


@server.tool()
def hush() -> str:
    """End all subscriptions of 2026-07-28, in order."""
    entry = server._lowlevel_server.get_request_handler("subscriptions/listen")
    entry.handler.close()
    return "hushed"


@server.tool()
async def hang(name: str, ctx: Context) -> str:
    """Never answer; tell that it runs, remember who was cancelled."""
    try:
        await ctx.report_progress(1, message=name)
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        abandoned.append(name)
        raise
    return name


@server.tool()
def cancelled() -> list[str]:
    """Name the calls of `hang` that were cancelled."""
    return abandoned


# --- features that MCPServer lacks in a session


async def set_level(_, params: SetLevelRequestParams) -> EmptyResult:
    """Store the log level of the client."""
    minimum["level"] = params.level
    return EmptyResult()


async def subscribe(_, params: SubscribeRequestParams) -> EmptyResult:
    """Add the subscription of the client to a resource."""
    subscribed.append(params.uri)
    return EmptyResult()


async def unsubscribe(_, params: UnsubscribeRequestParams) -> EmptyResult:
    """Remove it."""
    subscribed.remove(params.uri)
    return EmptyResult()


async def main() -> None:
    """Serve."""
    assert LATEST_PROTOCOL_VERSION == MODERN
    low = server._lowlevel_server
    low.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    low.add_request_handler(
        "resources/unsubscribe", UnsubscribeRequestParams, unsubscribe
    )
    changes = NotificationOptions(
        prompts_changed=True, resources_changed=True, tools_changed=True
    )
    if "PORT" in os.environ:
        await server.run_streamable_http_async(port=int(os.environ["PORT"]))
        return
    async with stdio_server() as (read, write):
        await low.run(read, write, low.create_initialization_options(changes))


if __name__ == "__main__":
    anyio.run(main)
