"""Clients with a seeded fault each: mcpwire's client, changed on the wire.

::

    @outgoing("C-LIFE-01.a")
    def initialize_is_second(message): ...

`outgoing` changes messages of the client, `incoming` those that it receives, and
`requests` its HTTP requests. The function returns the messages (or bytes) that take the
place of the message, or ``None`` to leave it as it is. It is made anew for each client,
if it is a class. `use=` replaces what the client does, and `faulty_use` marks a
coroutine function that uses it wrongly.
"""

import asyncio
import contextlib
import importlib
import json

import attrs
import httpx

import mcpwire
from mcpwire import types
from mcpwire.transports import Messages
from mcpwire.transports.targets import Stdio

MUTANTS = []


@attrs.frozen
class Mutant:
    """A change of a client, and the case that finds it."""

    case: str
    hook: str
    change: object
    transports: tuple[str, ...] = ("stdio", "http")
    use: object = None

    @property
    def name(self):
        return f"{self.case} {self.change.__name__}"

    def make(self):
        """Return a client function with the change."""
        hooks = {} if self.hook is None else {self.hook: self.change}
        return make_client(use=self.use, **hooks)


def _decorator(hook):
    def mutant(case, *transports, use=None):
        def add(change):
            places = transports or ("stdio", "http")
            wanted = change if hook is None else use
            MUTANTS.append(Mutant(case, hook, change, places, wanted))
            return change

        return add

    return mutant


outgoing = _decorator("outgoing")
incoming = _decorator("incoming")
requests = _decorator("requests")
faulty_use = _decorator(None)


def make_client(*, use=None, **hooks):
    """Return a client function; `use`: coroutine function that uses the client."""

    async def client(where):
        # A class makes one change for each client.
        changes = {
            hook: change() if isinstance(change, type) else change
            for hook, change in hooks.items()
        }
        wire = Wire(**changes)
        async with wire.target(where) as target:
            await (use or use_all)(target)

    return client


async def use_all(target):
    """Use each feature of the server once."""
    client = mcpwire.Client(
        target,
        sampling=lambda _: types.CreateMessageResult(
            role="assistant", content=types.TextContent("a text"), model="none"
        ),
        elicitation=lambda _: {},
        roots=["file:///tmp"],
    )
    async with client:
        await client.list_tools()
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text
        for resource in await client.list_resources():
            await client.read_resource(resource.uri)
        for prompt in await client.list_prompts():
            await client.get_prompt(prompt.name)


def _apply(change, value):
    changed = None if change is None else change(value)
    return [value] if changed is None else changed


def _encode(message):
    return message if isinstance(message, bytes) else json.dumps(message).encode()


class Wire(httpx.AsyncHTTPTransport):
    """The transport of a client, with changes."""

    def __init__(self, outgoing=None, incoming=None, requests=None):
        super().__init__()
        self.outgoing, self.incoming, self.requests = outgoing, incoming, requests

    @contextlib.asynccontextmanager
    async def target(self, where):
        """Yield the target of `mcpwire.Client` for a URL or a command."""
        if isinstance(where, Stdio):
            async with contextlib.AsyncExitStack() as stack:

                async def open():
                    return await stack.enter_async_context(self.process(where))

                # A client that stops in `incoming` opens no second connection.
                yield Messages(open=open) if self.incoming is None else await open()
        else:
            async with httpx.AsyncClient(transport=self) as http_client:
                yield mcpwire.Http(where, http_client=http_client)

    # Over stdio

    @contextlib.asynccontextmanager
    async def process(self, command):
        process = await asyncio.create_subprocess_exec(
            command.command, *command.args, stdin=-1, stdout=-1, limit=1 << 26
        )
        received = []

        async def send(line):
            for message in _apply(self.outgoing, json.loads(line)):
                process.stdin.write(_encode(message) + b"\n")
            await process.stdin.drain()

        async def receive():
            while not received:
                line = await process.stdout.readline()
                if not line:
                    return None
                if self.incoming is None:
                    return line.strip()
                received.extend(_apply(self.incoming, json.loads(line)))
            return _encode(received.pop(0))

        async def close():
            process.stdin.close()
            await process.wait()

        try:
            yield Messages(send, receive, close=close, form="bytes")
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    # Over HTTP

    async def handle_async_request(self, request):
        if self.requests is not None:
            request = self.requests(request) or request
        messages = [None]
        if request.method == "POST":
            messages = _apply(self.outgoing, json.loads(request.content))
        response = None
        for message in messages:
            response = await self._send(request, message)
        if response is None:  # the message is dropped
            return httpx.Response(202)
        return response

    async def _send(self, request, message):
        content = b"" if message is None else _encode(message)
        headers = [
            (k, v) for k, v in request.headers.raw if k.lower() != b"content-length"
        ]
        copy = httpx.Request(
            request.method,
            request.url,
            headers=headers,
            content=content or None,
            extensions=request.extensions,
        )
        response = await super().handle_async_request(copy)
        if self.incoming is None or "json" not in response.headers.get(
            "content-type", ""
        ):
            return response
        body = json.loads(await response.aread())
        (changed,) = _apply(self.incoming, body)
        headers = {k: v for k, v in response.headers.items() if k != "content-length"}
        return httpx.Response(
            response.status_code, headers=headers, content=_encode(changed)
        )


AREAS = ("lifecycle", "messages", "http", "features", "stateless", "authorization")


def load():
    """Import all mutants."""
    for area in AREAS:
        importlib.import_module(f"client_mutants_{area}")
