"""Clients with a seeded fault each: mcpwire's client, changed on the wire.

::

    @outgoing("C-LIFE-01.a")
    def initialize_is_second(message): ...

`outgoing` changes messages of the client, `incoming` those that it receives, and
`requests` its HTTP requests. The function returns the messages (or bytes) that take the
place of the message, or ``None`` to leave it as it is. It is made anew for each client,
if it is a class. `reader` reads a line from the server's stdout, `closer` ends its
process, and `spawner` starts it, as coroutine functions. `exchanges` gets an HTTP
request and a coroutine function that sends one; it returns the response. `use=`
replaces what the client does, and `faulty_use` marks a coroutine function that uses it
wrongly.
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
_LOG = ("C-A12.a", "C-D45.a", "C-F11.b")
_LINES = ("C-F12.a", "C-F12.b", "C-F13.a")
_STREAMS = ("C-A13.b", "C-A17.a", "C-SUB-07.a")
_ERRORS = (
    *("C-A14.a", "C-F02.a", "C-F04.a", "C-F05.a", "C-F48.a", "C-MRTR-21.a"),
    *("C-VER-03.b", "C-VER-03.d", "C-TR-STDIO-14.a"),
)
_SCOPES = tuple(f"C-FLOW-{x}" for x in ("13.a", "13.b", "17.a", "18.a"))
_LOOPS = ("C-FLOW-17.a", "C-FLOW-18.a", "C-FLOW-19.a", "C-F38.a", "C-F38.d")
RELATED = {
    "C-A12.a": (*_LOG, "C-LHTTP-11.a"),
    "C-A15.a": ("C-F14.a", "C-TR-STDIO-05.a"),
    "C-AUTH-08.a": ("C-G30.a",),
    "C-CAN-07.a": ("C-PAGE-05.a",),
    "C-CAN-06.a": ("C-CAN-08.a",),
    "C-CAN-08.a": ("C-CAN-06.a",),
    "C-D45.a": (*_LOG, "C-LHTTP-11.a"),
    "C-D72.a": ("C-LHTTP-29.b",),
    "C-ELIC-25.a": ("C-SAMP-03.a",),
    "C-F02.a": _ERRORS,
    "C-F04.a": _ERRORS,
    "C-F05.a": _ERRORS,
    "C-F11.a": ("C-F13.a",),
    "C-F11.b": (
        *_LOG,
        *_LINES,
        *_STREAMS,
        "C-F11.a",
        "C-F14.a",
        "C-CAN-06.a",
        "C-CAN-08.a",
    ),
    "C-F27.a": ("C-F26.d", "C-PAGE-04.a"),
    "C-F28.a": ("C-LHTTP-27.a",),
    **{f"C-F29.{x}": tuple(f"C-F29.{y}" for y in "abcd") for x in "abcd"},
    **{
        f"C-E04.{x}": ("C-LHTTP-24.a", "C-LHTTP-29.a", "C-E04.a", "C-E04.b", "C-E04.c")
        for x in "abc"
    },
    "C-F38.a": _LOOPS,
    "C-F38.d": ("C-REG-10.a", "C-FLOW-17.a"),
    "C-F48.a": ("C-RPC-18.a",),
    "C-FLOW-02.a": ("C-FLOW-02.b",),
    "C-FLOW-05.b": ("C-ASM-03.a",),
    "C-FLOW-09.a": ("C-FLOW-09.b",),
    "C-FLOW-10.a": ("C-FLOW-10.b",),
    "C-FLOW-13.b": _SCOPES,
    "C-FLOW-13.c": _SCOPES,
    "C-FLOW-17.a": _SCOPES,
    "C-FLOW-18.a": _SCOPES,
    "C-FLOW-19.a": _LOOPS,
    "C-FLOW-20.a": ("C-FLOW-17.a",),
    "C-HDR-02.a": ("C-HDR-04.a",),
    "C-HDR-03.a": ("C-HDR-02.a", "C-HDR-04.a"),
    "C-LHTTP-03.a": ("C-RPC-15.a",),
    "C-LHTTP-06.a": ("C-LHTTP-21.a", "C-F32.a"),
    "C-LHTTP-11.a": _LOG,
    "C-LHTTP-21.a": ("C-F32.a",),
    "C-LIFE-12.b": ("C-F05.a",),  # a shell of its server keeps the pipes open
    "C-META-06.a": ("C-SCHEMA.requests",),
    "C-PING-01.a": ("C-SCHEMA.results",),
    "C-PROG-01.a": ("C-SCHEMA.requests",),
    "C-REG-14.a": ("C-REG-14.b",),
    "C-RPC-01.a": ("C-SCHEMA.requests",),
    "C-RPC-02.a": ("C-RPC-01.a", "C-TR-HTTP-09.a"),
    "C-RPC-03.a": ("C-SCHEMA.requests",),
    "C-RPC-06.a": ("C-PROG-01.b",),
    "C-RPC-07.a": ("C-RPC-07.b", "C-PING-01.a", "C-PING-01.b"),
    "C-RPC-09.a": ("C-A13.a", "C-ELIC-25.a", "C-SCHEMA.results"),
    "C-RPC-11.a": ("C-HDR-01.a",),
    "C-RPC-12.a": ("C-TR-STDIO-08.a", "C-TR-HTTP-09.a"),
    "C-RPC-13.a": ("C-F12.b",),
    "C-S02.b": ("C-S02.c",),
    "C-S02.c": ("C-S02.b",),
    "C-S28.a": ("C-ROOT-05.a",),
    "C-SAMP-03.a": ("C-ELIC-25.a",),
    "C-SCHEMA.requests": ("C-HDR-05.a",),
    "C-SCHEMA.results": ("C-ROOT-04.a",),
    "C-SUB-01.a": ("C-SCHEMA.requests",),
    "C-SUB-13.a": ("C-SUB-11.a",),
    "C-TR-HTTP-09.a": ("C-RPC-15.a",),
    "C-TR-HTTP-13.a": ("C-F24.a", "C-LHTTP-11.a", "C-TR-HTTP-13.d"),
    "C-TR-HTTP-13.b": ("C-TR-HTTP-13.g",),
    "C-TR-HTTP-13.g": ("C-F24.b",),
    "C-TR-HTTP-13.h": _STREAMS,
    "C-TR-STDIO-05.a": ("C-A16.b",),
    "C-TR-STDIO-08.a": ("C-RPC-12.a", "C-TR-HTTP-09.a"),
    "C-TX-11.a": ("C-HDR-03.a",),
    "C-TR-STDIO-12.b": ("C-F05.a",),
    "C-VER-12.b": ("C-VER-12.a",),
    "C-VER-12.c": ("C-VER-12.a", "C-VER-12.b"),
    **{f"C-VER-13.{x}": tuple(f"C-VER-13.{y}" for y in "abc") for x in "abc"},
}
"""Case -> further cases that find the same faults."""
ENDING = []
"""Tasks that wait for the end of processes."""


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
exchanges = _decorator("exchanges")
reader = _decorator("reader")
closer = _decorator("closer")
spawner = _decorator("spawner")
faulty_use = _decorator(None)


def make_client(*, use=None, **hooks):
    """Return a client function; `use`: coroutine function that uses the client."""

    async def client(where):
        if not hooks:  # mcpwire's own transports
            await (use or use_all)(where)
            return
        # A class makes one change for each client.
        changes = {
            hook: change() if isinstance(change, type) else change
            for hook, change in hooks.items()
        }
        wire = Wire(**changes)
        async with wire.target(where) as target:
            await (use or use_all)(target)

    return client


def connect(target, **options):
    """Return a client that restarts its server at once."""
    options.setdefault("recovery", mcpwire.Recovery(backoff_initial=0.01))
    return mcpwire.Client(target, **options)


async def use_all(target, **options):
    """Use each feature of the server once."""
    client = connect(
        target,
        sampling=lambda _: types.CreateMessageResult(
            role="assistant", content=types.TextContent("a text"), model="none"
        ),
        elicitation=lambda form: dict.fromkeys(
            form.requested_schema.required or (), "a text"
        ),
        roots=["file:///tmp"],
        **options,
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


def _apply_to_octets(change, octets):
    """Return the messages in place of some octets, which stay if they hold none."""
    try:
        message = json.loads(octets)
    except ValueError:
        return [octets]
    return _apply(change, message) if isinstance(message, dict) else [octets]


def _encode(message):
    return message if isinstance(message, bytes) else json.dumps(message).encode()


async def read_line(stream):
    return await stream.readline()


async def close_input(process):
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), 2)
    except TimeoutError:
        process.kill()


class Wire(httpx.AsyncHTTPTransport):
    """The transport of a client, with changes."""

    def __init__(
        self,
        *,
        outgoing=None,
        incoming=None,
        requests=None,
        exchanges=None,
        reader=read_line,
        closer=close_input,
        spawner=asyncio.create_subprocess_exec,
    ):
        super().__init__(verify=False)  # quick: it reads no certificates
        self.outgoing, self.incoming, self.requests = outgoing, incoming, requests
        self.exchanges = exchanges
        self.reader, self.closer, self.spawner = reader, closer, spawner

    @contextlib.asynccontextmanager
    async def target(self, where):
        """Yield the target of `mcpwire.Client` for a URL or a command."""
        if isinstance(where, Stdio):
            async with contextlib.AsyncExitStack() as stack:

                async def open():
                    return await stack.enter_async_context(self.process(where))

                # A client that stops at a message opens no second connection.
                may_stop = self.incoming or self.reader is not read_line
                yield await open() if may_stop else Messages(open=open)
        else:
            async with httpx.AsyncClient(transport=self) as http_client:
                yield mcpwire.Http(where, http_client=http_client)

    # Over stdio

    @contextlib.asynccontextmanager
    async def process(self, command):
        process = await self.spawner(
            command.command, *command.args, stdin=-1, stdout=-1, limit=1 << 26
        )
        received = []

        async def send(line):
            for message in _apply(self.outgoing, json.loads(line)):
                process.stdin.write(_encode(message) + b"\n")
            await process.stdin.drain()

        async def receive():
            while not received:
                line = await self.reader(process.stdout)
                if not line:
                    return None
                if self.incoming is None:
                    return line.strip()
                received.extend(_apply_to_octets(self.incoming, line.strip()))
            return _encode(received.pop(0))

        async def close():
            await self.closer(process)

        try:
            yield Messages(send, receive, close=close, form="bytes")
        finally:
            if process.returncode is None:
                process.kill()
            # While a descendant has its stdout, it does not end.
            ENDING.append(asyncio.create_task(process.wait()))
            await asyncio.wait(ENDING[-1:], timeout=2)

    # Over HTTP

    async def handle_async_request(self, request):
        if self.requests is not None:
            request = self.requests(request) or request
        messages = [None]
        if request.method == "POST":
            messages = _apply(self.outgoing, json.loads(request.content))
        responses = [await self._send(request, message) for message in messages]
        if not responses:  # the message is dropped
            return httpx.Response(202)
        # The client gets the answer to its own message.
        id = json.loads(request.content).get("id") if request.content else None
        ids = [m.get("id") if isinstance(m, dict) else None for m in messages]
        return responses[ids.index(id) if id in ids else -1]

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
        send = super().handle_async_request
        change = self.exchanges
        response = await (change(copy, send) if change else send(copy))
        kind = response.headers.get("content-type", "")
        if self.incoming is not None and "event-stream" in kind:
            response.stream = Events(response.stream, self.incoming)
        if self.incoming is None or "json" not in kind:
            return response
        (changed,) = _apply_to_octets(self.incoming, await response.aread())
        of_transfer = {"content-length", "transfer-encoding"}
        headers = {k: v for k, v in response.headers.items() if k not in of_transfer}
        return httpx.Response(
            response.status_code, headers=headers, content=_encode(changed)
        )


class Events(httpx.AsyncByteStream):
    """An event stream with changed messages."""

    def __init__(self, stream, incoming):
        self.stream, self.incoming = stream, incoming

    async def __aiter__(self):
        rest = b""
        async for data in self.stream:
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                head, found, body = event.partition(b"data: ")
                if not found or not body:
                    yield event + b"\n\n"
                    continue
                for message in _apply_to_octets(self.incoming, body):
                    yield head + b"data: " + _encode(message) + b"\n\n"
        yield rest

    async def aclose(self):
        await self.stream.aclose()


AREAS = ("lifecycle", "messages", "http", "features", "stateless", "authorization")


def load():
    """Import all mutants."""
    for area in AREAS:
        importlib.import_module(f"client_mutants_{area}")
