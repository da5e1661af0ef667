"""Requests as bytes, and connections that send and read exactly what an attack says."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

HONEST, ATTACKER = "127.0.0.1", "127.0.0.2"
"""The source addresses: two clients, as a server counts them."""

SESSION_ERA, STATELESS_ERA = "2025-11-25", "2026-07-28"
READ_SIZE = 64 * 1024
ids = count(1)
TIMEOUT_S = 20.0
ESTABLISHED = 1
"""TCP_ESTABLISHED, as the first byte of Linux's `tcp_info` has it."""

INFO = {"name": "attack", "version": "1"}
CAPABILITIES = {
    "elicitation": {},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}


def message(method: str, params: Any = None, *, is_request: bool = True) -> bytes:
    """Return a JSON-RPC message; a request has an id that no other one has."""
    found: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if is_request:
        found["id"] = next(ids)
    if params is not None:
        found["params"] = params
    return json.dumps(found, separators=(",", ":")).encode()


def initialize(capabilities: Any = None) -> bytes:
    """Return the request that opens a session."""
    params = {
        "protocolVersion": SESSION_ERA,
        "capabilities": {"elicitation": {}} if capabilities is None else capabilities,
        "clientInfo": INFO,
    }
    return message("initialize", params)


def call(tool: str, **arguments: Any) -> bytes:
    """Return a call of a tool, for a session."""
    meta = {"progressToken": next(ids)}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return message("tools/call", params)


def head(port: int, fields: Iterable[tuple[str, str]] = (), verb: str = "POST") -> str:
    """Return the head of a request, without the empty line at its end.

    A field takes the place of the usual one of its name; an empty value drops it.
    """
    usual = {
        "host": f"127.0.0.1:{port}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    found = {**usual, **{name.lower(): value for name, value in fields}}
    lines = [f"{name}: {value}\r\n" for name, value in found.items() if value]
    return f"{verb} /mcp HTTP/1.1\r\n" + "".join(lines)


def post(port: int, body: bytes, fields: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a POST with its length."""
    return f"{head(port, fields)}content-length: {len(body)}\r\n\r\n".encode() + body


def chunked(port: int, body: bytes, fields: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a chunked POST up to its trailers, which have not ended."""
    begin = f"{head(port, fields)}transfer-encoding: chunked\r\n\r\n{len(body):x}\r\n"
    return begin.encode() + body + b"\r\n0\r\n"


def in_session(session: str) -> list[tuple[str, str]]:
    """Return the fields of a request of a session."""
    return [("mcp-session-id", session), ("mcp-protocol-version", SESSION_ERA)]


def stateless(
    port: int, method: str, params: dict[str, Any], name: str = "", **fields: str
) -> bytes:
    """Return a request that stands alone; a field with an empty value is dropped."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS_ERA,
        "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
        "io.modelcontextprotocol/clientInfo": INFO,
    }
    usual = {
        "mcp-protocol-version": STATELESS_ERA,
        "mcp-method": method,
        "mcp-name": name,
    }
    given = {key.replace("_", "-"): value for key, value in fields.items()}
    body = message(method, {**params, "_meta": meta})
    return post(port, body, {**usual, **given}.items())


@dataclass(frozen=True)
class Answer:
    """What a request was answered with."""

    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def session(self) -> str:
        """The id of the session that was opened."""
        return self.fields.get("mcp-session-id", "")

    @property
    def message(self) -> dict[str, Any]:
        """The last JSON-RPC message of the body."""
        text = self.body
        if self.fields.get("content-type", "").startswith("text/event-stream"):
            events = [line[5:] for line in text.splitlines() if line[:5] == b"data:"]
            text = next((data for data in reversed(events) if data.strip()), b"{}")
        with suppress(ValueError):
            found = json.loads(text)
            if isinstance(found, dict):
                return found
        return {}

    @property
    def is_result(self) -> bool:
        """Whether it is the result of a call that worked."""
        result = self.message.get("result")
        return isinstance(result, dict) and not result.get("isError")


class Peer:
    """One connection, without a buffer of its own: what is not read stays unread."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._rest = b""

    @classmethod
    async def connect(
        cls, port: int, source: str = ATTACKER, receive_buffer: int = 0
    ) -> Peer:
        """Connect from a source address.

        Raises:
            OSError: The server did not take the connection in time, or not at all.
        """
        sock = socket.socket()
        sock.setblocking(False)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if receive_buffer:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            sock.bind((source, 0))
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(TIMEOUT_S):
                await loop.sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    @property
    def is_established(self) -> bool:
        """Whether the server has neither closed nor reset the connection."""
        if self.sock.fileno() < 0:
            return False
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        return bool(info[0] == ESTABLISHED)

    async def send(self, data: bytes) -> None:
        """Send all of it, as fast as the server reads.

        Raises:
            OSError: The connection is lost, or the server does not read.
        """
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def read(self) -> Answer:
        """Return the next answer.

        Raises:
            OSError: The connection ended before its end, or it took too long.
        """
        async with asyncio.timeout(TIMEOUT_S):
            return await self._answer()

    async def ask(self, request: bytes) -> Answer:
        """Send a request and return its answer.

        Raises:
            OSError: As `send` and `read` do.
        """
        await self.send(request)
        return await self.read()

    async def has_sent(self, mark: bytes) -> bool:
        """Read until the server has sent this, or an error; tell whether it has.

        Raises:
            OSError: As `read` does.
        """
        async with asyncio.timeout(TIMEOUT_S):
            while mark not in self._rest:
                if b'"error"' in self._rest:
                    return False
                await self._more()
        return True

    async def _more(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self.sock, READ_SIZE)
        if not data:
            raise EOFError("clean" if not self._rest else "in the middle of an answer")
        self._rest += data

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            await self._more()
        found, _, self._rest = self._rest.partition(mark)
        return found

    async def _exactly(self, length: int) -> bytes:
        while len(self._rest) < length:
            await self._more()
        found, self._rest = self._rest[:length], self._rest[length:]
        return found

    async def _answer(self) -> Answer:
        lines = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        pairs = (line.partition(":") for line in lines[1:])
        fields = {name.lower(): value.strip() for name, _, value in pairs}
        if "chunked" in fields.get("transfer-encoding", ""):
            body = b""
            while size := int(await self._until(b"\r\n"), 16):
                body += await self._exactly(size)
                await self._exactly(2)
            await self._until(b"\r\n")
        else:
            body = await self._exactly(int(fields.get("content-length", 0)))
        return Answer(status, fields, body)

    def close(self, *, reset: bool = False) -> None:
        """Close it; by a reset where that is said."""
        if reset and self.sock.fileno() >= 0:
            linger = struct.pack("ii", 1, 0)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.sock.close()
