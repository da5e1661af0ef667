"""Counts the cost of one `tools/call` on one path, in its own interpreter.

    python child.py PATH ERA ARGUMENT

It prints one JSON object: the figures of the cheapest of some calls, the memory a call
leaves behind, and the modules loaded when the first call had been answered. Its own
imports happen as late as possible, so that they are not counted.
"""

import os
import sys

REQUEST = {"name": "echo", "arguments": {"text": "hi"}}
HEADERS = {
    "host": "127.0.0.1:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "accept-encoding": "identity",
    "user-agent": "counted",
}
VERSIONS = {"session": "2025-11-25", "stateless": "2026-07-28"}
META = {
    "io.modelcontextprotocol/protocolVersion": VERSIONS["stateless"],
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "counted", "version": "1"},
}
INITIALIZE = {
    "protocolVersion": VERSIONS["session"],
    "capabilities": {},
    "clientInfo": {"name": "counted", "version": "1"},
}
TIMEOUT_S = 30.0
TURNS_AFTER = 3
"""Iterations of the loop after which an answered call is completely finished."""


def sizes():
    """Return the sizes of the containers in our modules."""
    return {
        f"{name}.{key}": len(value)
        for name, module in sys.modules.items()
        if name.startswith("mcpwire")
        for key, value in vars(module).items()
        if isinstance(value, (dict, list, set, bytearray))
        or {"add", "append"} & vars(type(value)).keys()
    }


def print_figures(modules, left, laps, before):
    import json

    from counting import WINDOW_CALLS, cheapest

    figures = cheapest(laps, {__file__})
    names = figures.pop("names")
    objects, blocks = (1_000 * each // WINDOW_CALLS for each in left)
    figures["modules"] = sum(name.startswith("mcpwire") for name in modules)
    figures |= {"objects_left": objects, "blocks_left": blocks}
    grown = [name for name, size in sizes().items() if size != before.get(name)]
    document = {"figures": figures, "names": names, "modules": modules, "grown": grown}
    sys.stdout.write(json.dumps(document))


# The client...


def asyncio_client(target, era):
    import asyncio

    import mcpwire

    async def main():
        async with mcpwire.Client(target()) as client:

            async def call():
                return await client.call_tool("echo", {"text": "hi"})

            result = await call()
            modules = [*sys.modules]
            assert str(client.protocol_version) == VERSIONS[era]
            assert result.text == "hi"
            await counted(modules, call)

    asyncio.run(main())


async def counted(modules, call):
    import asyncio

    import counting

    async def call_and_turn():
        await call()
        await asyncio.sleep(0)  # an iteration in which the loop drops cancelled timers

    for _ in range(counting.WARM_UP_CALLS):
        await call()
    before = sizes()
    left = await counting.growth(call_and_turn)
    print_figures(modules, left, await counting.laps(call), before)


def blocking_client(target, era):
    import mcpwire.sync

    with mcpwire.sync.Client(target()) as client:

        def call():
            return client.call_tool("echo", {"text": "hi"})

        result = call()
        modules = [*sys.modules]
        import counting

        assert str(client.protocol_version) == VERSIONS[era]
        assert result.text == "hi"
        for _ in range(counting.WARM_UP_CALLS):
            call()
        before = sizes()
        left = counting.blocking_growth(call)
        print_figures(modules, left, counting.blocking_laps(call), before)


def stdio(era, program):
    asyncio_client(lambda: stdio_target(program), era)


def stdio_target(program):
    import mcpwire

    return mcpwire.Stdio(sys.executable, ["-S", "-c", program])


def http(era, url):
    asyncio_client(lambda: url, era)


def memory(era, _):
    asyncio_client(lambda: server(era), era)


def blocking_stdio(era, program):
    blocking_client(lambda: stdio_target(program), era)


def blocking_http(era, url):
    blocking_client(lambda: url, era)


# The server...


def server(era):
    import mcpwire

    made = mcpwire.Server("counted", "1", revisions=[VERSIONS[era]])

    @made.tool
    async def echo(text: str) -> str:
        """Answer with the text."""
        return text

    return made


def gateway(era):
    """Return a gateway to a server in this process; tool names are unchanged."""
    import mcpwire
    from mcpwire.gateway import Gateway

    return Gateway(
        {"counted": server(era)},
        names=mcpwire.NamePolicy.bare(),
        revisions=[VERSIONS[era]],
    )


def messages(era):
    """Yield the bytes of successive calls."""
    import itertools
    import json

    params = {**REQUEST, **({"_meta": META} if era == "stateless" else {})}
    for id in itertools.count(1):
        yield json.dumps(
            {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        ).encode()


def opening():
    import json

    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
    return [
        json.dumps(each).encode()
        for each in (first, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    ]


def server_stdio(era, _):
    over_stdio(era, server(era))


def gateway_stdio(era, _):
    over_stdio(era, gateway(era))


def over_stdio(era, served):
    """Serve on two pipes; the caller is another thread, which is not counted."""
    import asyncio
    import threading

    requests_out, to_server = os.pipe()
    from_server, answers_in = os.pipe()
    done = []

    async def main():
        loop = asyncio.get_running_loop()

        def drive():
            done.append(drive_client(era, loop, to_server, from_server))
            os.close(to_server)

        caller = threading.Thread(target=drive)
        # Before the caller starts: imports of another thread would be counted.
        serving = loop.create_task(serve(served, requests_out, answers_in))
        caller.start()
        await serving
        caller.join(TIMEOUT_S)

    asyncio.run(main())
    print_figures(*done[0])


async def serve(served, requests_out, answers_in):
    from mcpwire.server.stdio import serve_stdio

    await serve_stdio(served.dispatcher, stdin_fd=requests_out, stdout_fd=answers_in)


def in_the_loop(loop, function):
    """Call a function in the loop, from another thread, and wait for its end."""
    import threading

    is_done = threading.Event()
    loop.call_soon_threadsafe(lambda: (function(), is_done.set()))
    assert is_done.wait(TIMEOUT_S)


def settle(loop):
    for _ in range(TURNS_AFTER):
        in_the_loop(loop, int)


def drive_client(era, loop, to_server, from_server):
    import counting

    def send(message):
        os.write(to_server, message + b"\n")

    def receive():
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(from_server, 65_536)
        assert b'"result"' in answer, answer

    if era == "session":
        first, second = opening()
        send(first)
        receive()
        send(second)
    requests = messages(era)

    def call():
        send(next(requests))
        receive()

    call()
    modules = [*sys.modules]
    for _ in range(counting.WARM_UP_CALLS):
        call()
    before = sizes()

    left = counting.blocking_growth(call, lambda: settle(loop))
    profile = counting.Profile()
    in_the_loop(loop, profile.start)
    for _ in range(counting.LAPS + 2):
        call()
    in_the_loop(loop, profile.stop)
    return modules, left, between_reads(profile.recorded), before


def between_reads(recorded):
    """Return the recorded calls between consecutive reads: one request each."""
    import itertools

    places = [i for i, each in enumerate(recorded) if each is os.read]
    return [recorded[a:b] for a, b in itertools.pairwise(places)]


def server_http(era, _):
    over_asgi(era, server(era))


def gateway_http(era, _):
    over_asgi(era, gateway(era))


def over_asgi(era, served):
    """Call the ASGI application like a web server without costs."""
    import asyncio

    async def main():
        # Even on a slow machine no call takes so long that it becomes a stream.
        app = served.asgi(stream_after=TIMEOUT_S)
        await app.start()
        headers = {**HEADERS, "mcp-protocol-version": VERSIONS[era]}
        if era == "session":
            first, second = opening()
            events = await post(app, HEADERS, first)
            response_headers = dict(events[0]["headers"])
            headers["mcp-session-id"] = response_headers[b"mcp-session-id"].decode()
            await post(app, headers, second)
        else:
            headers |= {"mcp-method": "tools/call", "mcp-name": "echo"}
        requests = messages(era)

        async def call():
            events = await post(app, headers, next(requests))
            assert events[0]["status"] == 200
            assert b'"result"' in events[1]["body"]

        await call()
        await counted([*sys.modules], call)
        await app.aclose()

    asyncio.run(main())


async def post(app, headers, body):
    import asyncio

    events = []
    is_read = False

    async def receive():
        nonlocal is_read
        if is_read:  # a second receive waits for the client to disconnect
            await asyncio.get_running_loop().create_future()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event):
        events.append(event)

    fields = {**headers, "content-length": str(len(body))}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_000),
        "state": {},
    }
    await app(scope, receive, send)
    return events


PATHS = {
    "stdio": stdio,
    "http": http,
    "memory": memory,
    "blocking stdio": blocking_stdio,
    "blocking http": blocking_http,
    "server stdio": server_stdio,
    "server http": server_http,
    "gateway stdio": gateway_stdio,
    "gateway http": gateway_http,
}

if __name__ == "__main__":
    path, era, argument = sys.argv[1:]
    PATHS[path](era, argument)
