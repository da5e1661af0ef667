"""Seeded faults: each changes what our server sends, and one case must find it.

`stdio` runs the server of `server.py` behind a relay that applies one mutant to every
message; `app` wraps its ASGI application. A mutant names the cases that may find it:
the first one must, and no other case may.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

Change = Callable[[dict[str, Any], "State"], Any]


@attrs.define
class State:
    """State of a mutant for one connection."""

    methods: dict[Any, str] = attrs.field(factory=dict)
    """Request id (as JSON text) -> method."""
    params: dict[Any, dict[str, Any]] = attrs.field(factory=dict)
    kept: dict[str, Any] = attrs.field(factory=dict)

    def method_of(self, message: dict[str, Any]) -> str | None:
        """Return the method of the request that a response answers."""
        return self.methods.get(json.dumps(message.get("id")))

    def params_of(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the params of the request that a response answers."""
        return self.params.get(json.dumps(message.get("id")), {})

    def requests(self, method: str) -> list[dict[str, Any]]:
        """Return the params of all requests of a method."""
        return [self.params[id] for id, each in self.methods.items() if each == method]

    def note(self, message: Any) -> None:
        """Record a request of the client."""
        if isinstance(message, dict) and "method" in message and "id" in message:
            self.methods[json.dumps(message["id"])] = str(message["method"])
            params = message.get("params")
            self.params[json.dumps(message["id"])] = (
                params if isinstance(params, dict) else {}
            )


@attrs.frozen
class Mutant:
    """One seeded fault."""

    name: str
    cases: tuple[str, ...]
    """The case that must find it, then those that may."""
    from_server: Change | None = None
    """Changes a message of the server: returns the message, a list of messages, octets
    (written as they are) or ``None`` (nothing is sent)."""
    from_client: Change | None = None
    """Changes a message before the server gets it, in the same way."""
    raw_from_client: Callable[[bytes, State], bytes | None] | None = None
    """Changes a line before it is decoded, even if it is not JSON."""
    revision: str = "2025-11-25"
    transport: str = "stdio"
    response: Callable[[dict[str, Any]], None] | None = None
    """Over HTTP: changes a response in place, a dict of ``request`` (method, headers,
    body), ``status``, ``headers`` (lower-case names) and ``body`` (octets). Of an event
    stream it changes the head alone."""
    request: Callable[[dict[str, Any]], Any] | None = None
    """Over HTTP: changes the head of a request in place: ``method``, ``path``,
    ``query``, ``headers`` (lower-case names; the last of equal names),
    ``given`` (an unchanged copy), ``names`` (all received names) and ``open`` (the
    number of running requests). Its result is awaited."""
    message: Callable[[Any, dict[str, Any]], Any] | None = None
    """Over HTTP: changes a JSON body; gets the message and the head of the request,
    returns the message, or an awaitable of it."""
    is_hasty: bool = False
    """Over HTTP: whether a body is complete as soon as it is valid JSON."""
    octets: Callable[[bytes], bytes | None] | None = None
    """Over HTTP: changes a chunk from the client, before it is parsed; ``None``
    closes the connection."""
    chunk: Callable[[bytes, dict[str, Any]], bytes | None] | None = None
    """Over HTTP: changes a chunk of an event stream; gets the dict of `response`;
    ``None`` ends the stream."""
    ending: Callable[[dict[str, Any]], Any] | None = None
    """Over HTTP: gets the dict of `response` before a response ends; its result is
    awaited."""
    below: str = ""
    """Over HTTP: the path below the server's URL; ``/sse`` is HTTP+SSE."""
    is_guarded: bool = False
    """Over HTTP: whether the server requires tokens; see `guarded_subject.py`."""
    server_args: tuple[str, ...] = ()
    chunk_from_client: Callable[[bytes, State], bytes] | None = None
    """Changes a chunk of input, before it is split into lines."""
    at_end: Callable[[State], int | None] | None = None
    """Called when the server has ended; may return another exit code."""


MUTANTS: Final[dict[str, Mutant]] = {}


def mutant(name: str, *cases: str, **facts: Any) -> Callable[[Change], Change]:
    """Register the decorated function as the change of a message of the server."""

    def add(change: Change) -> Change:
        register(Mutant(name, cases, change, **facts))
        return change

    return add


def register(each: Mutant) -> None:
    """Add a mutant."""
    assert each.name not in MUTANTS, each.name
    MUTANTS[each.name] = each


def http_mutant(
    name: str, *cases: str, **facts: Any
) -> Callable[[Callable[[Any, dict[str, Any]], object]], object]:
    """Register a change of our server's response to one HTTP request.

    The function gets the decoded message of the client (its octets if it is not
    JSON) and the response as of `Mutant.response`. It returns ``None`` to leave the
    response as it is, a value for the body, with the status 200, or a status alone.
    """

    def add(change: Callable[[Any, dict[str, Any]], object]) -> object:
        def response(held: dict[str, Any]) -> None:
            body = held["request"]["body"]
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                message = body
            found = change(message, held)
            if isinstance(found, int):
                held["status"], held["body"] = found, b""
                held["headers"].pop("content-type", None)
            elif found is not None:
                held["status"], held["body"] = 200, json.dumps(found).encode()
                held["headers"]["content-type"] = "application/json"

        register(Mutant(name, cases, response=response, transport="http", **facts))
        return change

    return add


def in_responses(change: Change) -> Callable[[dict[str, Any]], None]:
    """Turn a change of a message into a change of HTTP responses with one message."""
    state = State()

    def response(held: dict[str, Any]) -> None:
        try:
            state.note(json.loads(held["request"]["body"]))
            message = json.loads(held["body"])
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict):
            found = change(message, state)
            held["body"] = json.dumps(found).encode()

    return response


def load() -> dict[str, Mutant]:
    """Return all mutants; imports the modules that register them."""
    from importlib import import_module

    for path in sorted(Path(__file__).parent.glob("mutants_*.py")):
        import_module(path.stem)
    return MUTANTS


def command(*names: str) -> list[str]:
    """Return the command of our server with mutants."""
    return [sys.executable, __file__, *names]


def joined(several: list[Mutant]) -> Mutant:
    """Return one mutant that applies the changes of several in turn."""

    def change(message: dict[str, Any], state: State) -> Any:
        found: list[Any] = [message]
        for each in several:
            found = [
                each.from_server(one, state) if isinstance(one, dict) else one
                for one in found
            ]
        return found

    return several[0] if len(several) == 1 else Mutant("several", (), change)


@attrs.frozen
class Child:
    """Our server in a child process, forked from this one."""

    pid: int
    stdin: int
    stdout: int

    @classmethod
    def start(cls, arguments: tuple[str, ...]) -> Child:
        """Fork; must run before there is a loop or a thread."""
        import server

        (read, stdin), (stdout, written) = os.pipe(), os.pipe()
        if pid := os.fork():
            os.close(read)
            os.close(written)
            return cls(pid, stdin, stdout)
        os.dup2(read, 0)
        os.dup2(written, 1)
        for each in (read, stdin, stdout, written):
            os.close(each)
        sys.argv[1:] = arguments
        server.main()
        os._exit(0)

    def wait(self) -> int:
        """Return its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


async def reading(file: Any) -> asyncio.StreamReader:
    """Return a stream that reads a pipe."""
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    return reader


async def stdio(each: Mutant, child: Child) -> int:  # noqa: C901 - two directions
    """Relay stdin and stdout to the server, with a mutant."""
    state = State()
    loop = asyncio.get_running_loop()
    client_lines = await reading(sys.stdin.buffer)
    server_lines = await reading(os.fdopen(child.stdout, "rb", 0))
    stdin = asyncio.StreamWriter(
        *await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
            os.fdopen(child.stdin, "wb", 0),
        ),
        None,
        loop,
    )

    async def to_server() -> None:
        while each.chunk_from_client and (data := await client_lines.read(1 << 20)):
            stdin.write(each.chunk_from_client(data, state))
        while line := await client_lines.readline():
            if each.raw_from_client is not None:
                line = each.raw_from_client(line, state)
                if line is None:
                    continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                stdin.write(line)
                continue
            state.note(message)
            if each.from_client is not None and isinstance(message, dict):
                line = b"".join(_written(each.from_client(message, state)))
            stdin.write(line)
            await stdin.drain()
        stdin.close()

    async def to_client() -> None:
        while line := await server_lines.readline():
            if each.from_server is not None:
                message = json.loads(line)
                if isinstance(message, dict):
                    line = b"".join(_written(each.from_server(message, state)))
            os.write(1, line) if len(line) < 65_536 else _write_all(line)

    writing = asyncio.create_task(to_server())
    code = None
    try:
        await to_client()
    finally:
        writing.cancel()
        if each.at_end is not None:
            code = each.at_end(state)
    return child.wait() if code is None else code


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _written(found: Any) -> list[bytes]:
    if found is None:
        return []
    if isinstance(found, bytes):
        return [found]
    if isinstance(found, list):
        return [part for each in found for part in _written(each)]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return [text.encode("utf-8", "surrogatepass") + b"\n"]


_WHOLE: Final = 1024 * 1024  # bytes of a body that a mutant may change


def app(inner: Any, current: Callable[[], Mutant | None]) -> Any:
    """Wrap an ASGI application: applies the current mutant to its messages."""

    running: set[object] = set()

    async def mutated(scope: dict[str, Any], receive: Any, send: Any) -> None:
        each = current()
        if scope["type"] != "http" or each is None:
            await inner(scope, receive, send)
            return
        request = {
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode("latin-1"),
            "headers": {
                k.decode().lower(): v.decode("latin-1") for k, v in scope["headers"]
            },
            "body": b"",
            "open": len(running),
        }
        request["given"] = dict(request["headers"])
        request["names"] = [k.decode().lower() for k, _ in scope["headers"]]
        if each.request is not None:
            if (waiting := each.request(request)) is not None:
                await waiting
            scope = {
                **scope,
                "method": request["method"],
                "path": request["path"],
                "query_string": request["query"].encode("latin-1"),
            }
            new, old = request["headers"], request["given"]
            changed = {name for name in {*new, *old} if new.get(name) != old.get(name)}
            scope["headers"] = [
                (k, v) for k, v in scope["headers"] if k.decode().lower() not in changed
            ] + [(n.encode(), new[n].encode("latin-1")) for n in changed & new.keys()]
        token = object()
        running.add(token)
        try:
            length = request["headers"].get("content-length", "")
            is_changed = each.message is not None or each.is_hasty
            if is_changed and length.isdigit() and int(length) < _WHOLE:
                receive, scope = await _changed_body(each, scope, receive, request)
            await inner(scope, _noting(receive, request), _sending(each, request, send))
        finally:
            running.discard(token)

    return mutated


async def _changed_body(
    each: Mutant, scope: dict[str, Any], receive: Any, request: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Read a body and change it; return a receive function and the new scope."""
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
        if each.is_hasty and _as_json(body) is not None:
            break
    message = _as_json(body)
    if isinstance(message, dict) and each.message is not None:
        changed = each.message(message, request)
        changed = await changed if asyncio.iscoroutine(changed) else changed
        body = json.dumps(changed).encode()
    request["headers"]["content-length"] = str(len(body))
    headers = [(k, v) for k, v in scope["headers"] if k != b"content-length"]
    headers.append((b"content-length", str(len(body)).encode()))
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Any:
        return first.pop() if first else await receive()

    return receiving, {**scope, "headers": headers}


def _as_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _noting(receive: Any, request: dict[str, Any]) -> Any:
    async def receiving() -> Any:
        event = await receive()
        if len(request["body"]) < _WHOLE:
            request["body"] += event.get("body", b"")
        return event

    return receiving


def _sending(each: Mutant, request: dict[str, Any], send: Any) -> Any:  # noqa: C901 - streams too
    held: dict[str, Any] = {"request": request, "status": 0, "headers": {}, "body": b""}
    is_stream = is_over = False

    def change() -> None:
        if each.response is not None:
            _change(each, held)

    async def sending(event: dict[str, Any]) -> None:  # noqa: C901 - streams too
        nonlocal is_stream, is_over
        if event["type"] == "http.response.start":
            held["status"] = event["status"]
            held["headers"] = {
                k.decode().lower(): v.decode("latin-1") for k, v in event["headers"]
            }
            kind = held["headers"].get("content-type", "")
            if is_stream := kind.startswith("text/event-stream"):
                change()  # the head only: the body follows
                await send(_start(held))
            return
        if is_over:
            pass
        elif is_stream:
            body = event.get("body", b"")
            if each.chunk is not None and body:
                body = each.chunk(body, held)
                is_over = body is None
            more = event.get("more_body", False) and not is_over
            part = {"type": "http.response.body", "body": body or b""}
            await send({**part, "more_body": True})
            if not more:
                if each.ending is not None and (waiting := each.ending(held)):
                    await waiting
                await send({"type": "http.response.body", "body": b""})
        else:
            held["body"] += event.get("body", b"")
            if not event.get("more_body"):
                if each.ending is not None and (waiting := each.ending(held)):
                    await waiting
                change()
                if request["method"] != "HEAD" and held["status"] >= 200:
                    held["headers"]["content-length"] = str(len(held["body"]))
                await send(_start(held))
                await send({"type": "http.response.body", "body": held["body"]})

    return sending


async def relay(port: int, current: Callable[[], Mutant | None]) -> asyncio.Server:
    """Relay TCP connections to a port, with the octets that a mutant changes."""

    async def copy(reader: Any, writer: Any, change: Any) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1024 * 1024):
                data = data if change is None else change(data)
                if data is None:
                    break
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: Any, writer: Any) -> None:
        each = current()
        there = await asyncio.open_connection("127.0.0.1", port, limit=1024 * 1024)
        await asyncio.gather(
            copy(reader, there[1], each.octets if each else None),
            copy(there[0], writer, None),
        )

    return await asyncio.start_server(connected, "127.0.0.1", 0, limit=1024 * 1024)


def _change(each: Mutant, held: dict[str, Any]) -> None:
    # A mutant that cannot parse a deliberately broken request changes nothing.
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
        each.response(held)


def _start(held: dict[str, Any]) -> dict[str, Any]:
    headers = [(k.encode(), v.encode("latin-1")) for k, v in held["headers"].items()]
    return {"type": "http.response.start", "status": held["status"], "headers": headers}


async def serve(*, is_guarded: bool) -> None:
    """Serve over HTTP; prints the port, then reads and confirms names of mutants."""
    import guarded_subject
    import server
    import uvicorn

    current: list[Mutant | None] = [None]
    inside = socket.create_server(("127.0.0.1", 0))
    relaying = await relay(inside.getsockname()[1], lambda: current[0])
    port = relaying.sockets[0].getsockname()[1]
    made = (
        guarded_subject.make(guarded_subject.url_of(port))
        if is_guarded
        else server.server
    )
    config = uvicorn.Config(
        app(made.asgi(legacy_sse=True), lambda: current[0]),
        log_level="critical",
        lifespan="on",
    )
    serving = asyncio.create_task(uvicorn.Server(config).serve([inside]))
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while line := await asyncio.to_thread(sys.stdin.readline):
        current[0] = MUTANTS[line.strip()]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    serving.cancel()


def main() -> None:
    """Run a server with the mutants named in the arguments."""
    load()
    if sys.argv[1:2] == ["--http"]:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(serve(is_guarded="--guarded" in sys.argv))
    else:
        chosen = joined([MUTANTS[name] for name in sys.argv[1:]])
        started = Child.start(chosen.server_args)
        sys.exit(asyncio.run(stdio(chosen, started)))


if __name__ == "__main__":
    # The modules of mutants import this one by its name.
    sys.modules["mutants"] = sys.modules["__main__"]
    main()
