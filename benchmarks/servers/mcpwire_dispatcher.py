"""mcpwire's bare `Dispatcher` on stdio, with handlers of plain dicts."""

import sys

from mcpwire.server.dispatcher import Dispatcher
from mcpwire.server.stdio import run_stdio
from mcpwire.types import Implementation


async def call_tool(params, _):
    """Handle ``tools/call`` of the only tool."""
    text = params["arguments"]["text"]
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"result": text},
    }


def list_tools(_params, _request):
    """Handle ``tools/list``."""
    return {"tools": []}


dispatcher = Dispatcher(
    Implementation("benchmark", "1"),
    capabilities={"tools": {}},
    methods={"tools/list": list_tools, "tools/call": call_tool},
)

if __name__ == "__main__":
    sys.exit(run_stdio(dispatcher))
