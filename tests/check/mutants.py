"""Seeded faults: each changes what our server sends, and one case must find it.

`stdio` runs the server of `server.py` behind a relay that applies one mutant to every
message; `app` wraps its ASGI application. A mutant names the cases that may find it:
the first one must, and no other case may.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

Change = Callable[[dict[str, Any], "State"], Any]


@attrs.define
class State:
    """What a mutant may keep between messages of one connection."""

    methods: dict[Any, str] = attrs.field(factory=dict)
    """Request id (as JSON text) -> method."""
    params: dict[Any, dict[str, Any]] = attrs.field(factory=dict)
    kept: dict[str, Any] = attrs.field(factory=dict)

    def method_of(self, message: dict[str, Any]) -> str | None:
        """Return the method that an answer of the server belongs to."""
        return self.methods.get(json.dumps(message.get("id")))

    def params_of(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the params of the request that an answer belongs to."""
        return self.params.get(json.dumps(message.get("id")), {})

    def note(self, message: Any) -> None:
        """Remember a request of the client."""
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
    """Changes a line before it is decoded, also one that is no JSON."""
    revision: str = "2025-11-25"
    transport: str = "stdio"
    response: Callable[[dict[str, Any]], None] | None = None
    """Over HTTP: changes a response in place, a dict of ``request`` (method, headers,
    body), ``status``, ``headers`` (lower-case names) and ``body`` (octets)."""
    server_args: tuple[str, ...] = ()
    chunk_from_client: Callable[[bytes, State], bytes] | None = None
    """Changes what is read at once, before it is cut into lines."""
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
    """Register a change of what our server answers to one HTTP request.

    The function gets the decoded message of the client (its octets where it is no
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
    """Make a change of a message one of HTTP responses with one message."""
    state = State()

    def response(held: dict[str, Any]) -> None:
        try:
            message, request = json.loads(held["body"]), held["request"]["body"]
            state.note(json.loads(request))
        except ValueError:
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


def command(name: str) -> list[str]:
    """Return the command of our server with a mutant."""
    return [sys.executable, __file__, name]


async def stdio(each: Mutant) -> int:  # noqa: C901 - two directions
    """Be the server with a mutant, on stdin and stdout."""
    child = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            str(Path(__file__).with_name("server.py")),
            *each.server_args,
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    state = State()
    loop = asyncio.get_running_loop()
    ours = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(ours), sys.stdin.buffer
    )

    async def to_server() -> None:
        while each.chunk_from_client and (data := await ours.read(1 << 20)):
            child.stdin.write(each.chunk_from_client(data, state))
        while line := await ours.readline():
            if each.raw_from_client is not None:
                line = each.raw_from_client(line, state)
                if line is None:
                    continue
            try:
                message = json.loads(line)
            except ValueError:
                child.stdin.write(line)
                continue
            state.note(message)
            if each.from_client is not None and isinstance(message, dict):
                line = b"".join(_written(each.from_client(message, state)))
            child.stdin.write(line)
            await child.stdin.drain()
        child.stdin.close()

    async def to_client() -> None:
        while line := await child.stdout.readline():
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
    return await child.wait() if code is None else code


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
    return [
        json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    ]


def app(inner: Any, current: Callable[[], Mutant | None]) -> Any:
    """Wrap an ASGI application: changes each whole response that is no stream."""

    async def mutated(scope: dict[str, Any], receive: Any, send: Any) -> None:
        each = current()
        if scope["type"] != "http" or each is None or each.response is None:
            await inner(scope, receive, send)
            return
        request = {
            "method": scope["method"],
            "headers": {k.decode(): v.decode("latin-1") for k, v in scope["headers"]},
            "body": b"",
        }
        held: dict[str, Any] = {
            "request": request,
            "status": 0,
            "headers": {},
            "body": b"",
        }

        async def receiving() -> Any:
            event = await receive()
            request["body"] += event.get("body", b"")
            return event

        streaming = False

        async def sending(event: dict[str, Any]) -> None:
            nonlocal streaming
            if event["type"] == "http.response.start":
                held["status"] = event["status"]
                held["headers"] = {
                    k.decode().lower(): v.decode("latin-1") for k, v in event["headers"]
                }
                kind = held["headers"].get("content-type", "")
                if streaming := kind.startswith("text/event-stream"):
                    each.response(held)  # the head only: the body is still to come
                    await send(_start(held))
                return
            held["body"] += event.get("body", b"")
            if streaming:
                await send(event)
            elif not event.get("more_body"):
                each.response(held)
                held["headers"]["content-length"] = str(len(held["body"]))
                await send(_start(held))
                await send({"type": "http.response.body", "body": held["body"]})

        await inner(scope, receiving, sending)

    return mutated


def _start(held: dict[str, Any]) -> dict[str, Any]:
    headers = [(k.encode(), v.encode("latin-1")) for k, v in held["headers"].items()]
    return {"type": "http.response.start", "status": held["status"], "headers": headers}


if __name__ == "__main__":
    # The modules of mutants import this one by its name.
    sys.modules["mutants"] = sys.modules["__main__"]
    sys.exit(asyncio.run(stdio(load()[sys.argv[1]])))
