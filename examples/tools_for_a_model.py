"""One turn of a model with the tools of two servers.

The model is a function that answers in the format of Anthropic's API. In a real program
it is an HTTP request; the rest is the same.
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
    """Return the answer of a model that calls two tools, and an unknown one."""
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
    """Return the content block of a tool call."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def approve(call: mcpwire.ToolCall) -> bool:
    """Approve calls that need no confirmation; a real program would ask the user."""
    allowed = not call.needs_confirmation
    print(call.view.display_name, "->", "go on" if allowed else "no")
    return allowed


async def main() -> None:
    """Offer the tools, make the calls of the model, and print the results."""
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
