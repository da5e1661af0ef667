"""One turn of a model with the tools of two servers, whatever the model's API is.

The model here is a function that answers like one of Anthropic's would. In a program of
yours it is a request over HTTP; nothing else changes.
"""

import asyncio

import mcpwire

shop = mcpwire.Server("shop", "1.0")
clock = mcpwire.Server("clock", "1.0")


@shop.tool(annotations={"readOnlyHint": True})
def price(tea: str) -> str:
    """Tell what a tea costs."""
    return f"{tea} costs 3.50"


@shop.tool
def order(tea: str, grams: int) -> str:
    """Order a tea."""
    return f"ordered {grams} g of {tea}"


@clock.tool
def now() -> str:
    """Tell the time."""
    return "10:36"


def model(tools: list, messages: list) -> dict:
    """Answer like a model that wants to call two tools, and one that is not there."""
    assert messages[-1]["role"] == "user"
    offered = [tool["name"] for tool in tools]
    assert offered == ["mcp__shop__price", "mcp__shop__order", "mcp__clock__now"]
    return {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me see."},
            use("1", "mcp__shop__price", tea="sencha"),
            use("2", "mcp__shop__order", tea="sencha", grams=100),
            use("3", "mcp__shop__refund"),
        ],
    }


def use(id: str, name: str, **arguments: object) -> dict:
    """Return what such a model says to call a tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def approve(call: mcpwire.ToolCall) -> bool:
    """Ask a person; here only what may change nothing is let through."""
    allowed = not call.needs_confirmation
    print(call.view.display_name, "->", "go on" if allowed else "no")
    return allowed


async def main() -> None:
    """Offer the tools, make the calls that the model wants, and show the messages."""
    async with mcpwire.Group({"shop": shop, "clock": clock}) as group:
        tools = await group.tools(
            confirm="mutating", trusted=["shop"], approve=approve, errors="result"
        )
        offered = tools.to_anthropic()
        messages = [{"role": "user", "content": "Order me some sencha."}]
        answer = model(offered, messages)
        messages.append(answer)
        outcomes = []
        for call in offered.calls(answer):
            try:
                outcome = await tools.call(call.name, call.arguments)
            except mcpwire.GroupError as error:
                outcome = error
            outcomes.append((call, outcome))
        messages += offered.results(outcomes)
        for block in messages[-1]["content"]:
            print(block["tool_use_id"], block["content"])


asyncio.run(main())
