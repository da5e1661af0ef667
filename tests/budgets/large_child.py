"""Measures the memory that one large message takes on a path, in sizes of its text.

    python large_child.py PATH WAY ARGUMENT

WAY is "gets" or "sends". The first figure is the growth of this process's peak resident
memory during one call: buffers, copies and the value itself, but not memory that is
allocated and never touched. The second is all memory touched meanwhile, by page faults,
so that it includes copies that were freed before the peak.
"""

import asyncio
import gc
import os
import re
import resource
import sys
from pathlib import Path

import child

MIB = 1024 * 1024
SIZE = 8 * MIB
SMALL = "hi"


def memory(field):
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024


def touched_bytes():
    """Return the memory touched so far, from the number of page faults."""
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    return faults * resource.getpagesize()


def begin():
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return memory("VmRSS"), touched_bytes()


def print_figures(before):
    held, taken = before
    figures = [(memory("VmHWM") - held) / SIZE, (touched_bytes() - taken) / SIZE]
    sys.stdout.write(str(figures))


def arguments(way):
    """Return the arguments of a call; the client holds their text already."""
    return {"text": "x" * SIZE} if way == "sends" else {"text": "", "size": SIZE}


async def client(target, way):
    import mcpwire

    async with mcpwire.Client(target) as connected:
        await connected.call_tool("echo", {"text": SMALL})
        call_arguments = arguments(way)
        before = begin()
        result = await connected.call_tool("echo", call_arguments)
        assert len(result.text) == (SIZE if way == "gets" else 0)
        print_figures(before)


def blocking_client(target, way):
    import mcpwire.sync

    with mcpwire.sync.Client(target) as connected:
        connected.call_tool("echo", {"text": SMALL})
        call_arguments = arguments(way)
        before = begin()
        result = connected.call_tool("echo", call_arguments)
        assert len(result.text) == (SIZE if way == "gets" else 0)
        print_figures(before)


def server():
    import mcpwire

    limits = mcpwire.Limits(body=2 * SIZE)
    made = mcpwire.Server("large", "1", limits=limits)
    texts = {0: "", SIZE: "x" * SIZE}

    @made.tool(structured=False)
    async def echo(text: str, size: int = 0) -> str:
        """Answer with a text of this size."""
        return texts[size]

    return made


def request(way):
    """Return the bytes of a request; a server that gets much sends little."""
    import json

    call_arguments = (
        {"text": "x" * SIZE} if way == "gets" else {"text": "", "size": SIZE}
    )
    params = {"name": "echo", "arguments": call_arguments, "_meta": child.META}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    ).encode()


async def server_stdio(way):
    import threading

    requests_out, to_server = os.pipe()
    from_server, answers_in = os.pipe()
    served = server()

    def write(data):
        while data:
            data = data[os.write(to_server, data) :]

    def drive():
        small = request("sends").replace(str(SIZE).encode(), b"0") + b"\n"
        for message in (small, request(way) + b"\n"):
            before = begin()
            write(memoryview(message))
            while not os.read(from_server, 65_536).endswith(b"\n"):
                pass
        print_figures(before)
        os.close(to_server)

    caller = threading.Thread(target=drive)
    caller.start()
    await child.serve(served, requests_out, answers_in)
    caller.join(child.TIMEOUT_S)


async def server_http(way):
    app = server().asgi(stream_after=60.0)
    await app.start()
    headers = {
        **child.HEADERS,
        "mcp-protocol-version": child.VERSIONS["stateless"],
        "mcp-method": "tools/call",
        "mcp-name": "echo",
    }
    small = request("sends").replace(str(SIZE).encode(), b"0")
    for message in (small, request(way)):
        before = begin()
        events = await child.post(app, headers, message)
        assert events[0]["status"] == 200
    print_figures(before)
    await app.aclose()


def main(path, way, argument):
    if path == "server stdio":
        asyncio.run(server_stdio(way))
    elif path == "server http":
        asyncio.run(server_http(way))
    elif path == "memory":
        asyncio.run(client(server(), way))
    else:
        target = child.stdio_target(argument) if "stdio" in path else argument
        if path.startswith("blocking"):
            blocking_client(target, way)
        else:
            asyncio.run(client(target, way))


if __name__ == "__main__":
    main(*sys.argv[1:])
