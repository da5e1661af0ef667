"""mcpwire's bare `Dispatcher`: the protocol, and a handler of plain dicts on stdio."""

import sys

from mcpwire.server.dispatcher import Dispatcher
from mcpwire.server.stdio import run_stdio
from mcpwire.types import Implementation


async def call_tool(params, _):
    """Answer ``tools/call`` for the one tool there is."""
    text = params["arguments"]["text"]
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"result": text},
    }


def list_tools(_params, _request):
    """Answer ``tools/list``."""
    return {"tools": []}


dispatcher = Dispatcher(
    Implementation("benchmark", "1"),
    capabilities={"tools": {}},
    methods={"tools/list": list_tools, "tools/call": call_tool},
)

if __name__ == "__main__":
    sys.exit(run_stdio(dispatcher))
