"""A stdio server on the official Python SDK 2.x, run by its own environment."""

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from offered import ABOUT, complete, offer

server = MCPServer("foreign-sdk", **ABOUT)
offer(server, Context, ToolError)
server.completion()(complete)

if __name__ == "__main__":
    server.run("stdio")
