"""A stdio server on FastMCP 4, run by its own environment."""

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from offered import ABOUT, complete, offer

server = FastMCP("foreign-fastmcp", **ABOUT)
offer(server, Context, ToolError)
server.completion(complete)

if __name__ == "__main__":
    server.run("stdio")
