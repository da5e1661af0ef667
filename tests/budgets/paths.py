"""The paths that a call can take; each is counted in its own child process."""

import contextlib
import functools
import json
import sys
from pathlib import Path

from child_python import finished
from http_bytes import LAST_CHUNK, chunk, json_reply, sse_event, sse_head
from mcp_server import scripted_mcp
from scripted import ECHO_LOOP, scripted
from unmeasured import unmeasured

HERE = Path(__file__).parent
BOUND_S = 60.0

CLIENT_PATHS = ("stdio", "blocking stdio")
HTTP_PATHS = ("http json", "http sse", "blocking http json", "blocking http sse")
GATEWAY_PATHS = ("gateway stdio", "gateway http")
PATHS = (
    *CLIENT_PATHS,
    *HTTP_PATHS,
    "memory",
    "server stdio",
    "server http",
    *GATEWAY_PATHS,
)
ERAS = ("session", "stateless")
CELLS = [f"{path}, {era}" for path in PATHS for era in ERAS]


SIZED_LOOP = """
while True:
    m = recv()
    if "id" in m:
        wanted = m.get("params", {}).get("arguments", {})
        text(m, "x" * wanted.get("size", 0))
"""


def run(script, *arguments):
    command = (sys.executable, str(HERE / script), *arguments)
    options = {"timeout": BOUND_S, "cwd": HERE.parents[1], "env": unmeasured()}
    done = finished(*command, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def echoing_target(era):
    begin = "handshake()\n" if era == "session" else "discover()\n"
    return scripted(begin + ECHO_LOOP)


@functools.cache
def counted(cell):
    """Return the cost of a call on a path in an era: "http json, session"."""
    path, _, era = cell.partition(", ")
    with contextlib.ExitStack() as stack:
        argument = ""
        if path in CLIENT_PATHS:
            argument = echoing_target(era).args[-1]
        elif path in HTTP_PATHS:
            path, _, replies = path.rpartition(" ")
            server = stack.enter_context(scripted_mcp(era, replies=replies))
            argument = server.url
        return run("child.py", path, era, argument)


def sized(replies):
    """Return a handler of tool calls that answers with the requested size."""

    def answer(request, conn):
        size = request.json["params"]["arguments"].get("size", 0)
        text = {"type": "text", "text": "x" * size}
        result = {"content": [text]}
        message = {"jsonrpc": "2.0", "id": request.json["id"], "result": result}
        if replies == "sse":
            conn.send(sse_head() + chunk(sse_event(message)) + LAST_CHUNK)
        else:
            conn.send(json_reply(message))
        return True

    return answer


def memory_taken(path, way):
    """Return the memory held and touched for an 8 MiB message, in sizes of its text."""
    with contextlib.ExitStack() as stack:
        argument = ""
        if path in CLIENT_PATHS:
            argument = scripted("handshake()\n" + SIZED_LOOP).args[-1]
        elif path in HTTP_PATHS:
            path, _, replies = path.rpartition(" ")
            server = stack.enter_context(scripted_mcp("session", replies=replies))
            server.on["tools/call"] = sized(replies)
            argument = server.url
        return run("large_child.py", path, way, argument)
