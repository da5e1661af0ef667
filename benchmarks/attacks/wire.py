"""Requests as bytes, and connections that send and read only on demand."""

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
"""The source addresses; a server counts them as two clients."""

SESSION_ERA, STATELESS_ERA = "2025-11-25", "2026-07-28"
READ_SIZE = 64 * 1024
ids = count(1)
TIMEOUT_S = 20.0
ESTABLISHED = 1
"""TCP_ESTABLISHED, a value of the first byte of Linux's `tcp_info`."""

INFO = {"name": "attack", "version": "1"}
CAPABILITIES = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}


def message(method: str, params: Any = None, *, is_request: bool = True) -> bytes:
    """Return a JSON-RPC message; a request has a unique id."""
    fields: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if is_request:
        fields["id"] = next(ids)
    if params is not None:
        fields["params"] = params
    return json.dumps(fields, separators=(",", ":")).encode()


def initialize(capabilities: Any = None) -> bytes:
    """Return an `initialize` request."""
    params = {
        "protocolVersion": SESSION_ERA,
        "capabilities": {"elicitation": {}} if capabilities is None else capabilities,
        "clientInfo": INFO,
    }
    return message("initialize", params)


def call(tool: str, **arguments: Any) -> bytes:
    """Return a `tools/call` request of a session."""
    meta = {"progressToken": next(ids)}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return message("tools/call", params)


def head(port: int, fields: Iterable[tuple[str, str]] = (), verb: str = "POST") -> str:
    """Return the head of a request, without the empty line at its end.

    A field replaces the default one of its name; an empty value removes it.
    """
    defaults = {
        "host": f"127.0.0.1:{port}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    all_fields = {**defaults, **{name.lower(): value for name, value in fields}}
    lines = [f"{name}: {value}\r\n" for name, value in all_fields.items() if value]
    return f"{verb} /mcp HTTP/1.1\r\n" + "".join(lines)


def post(port: int, body: bytes, fields: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a POST request with a Content-Length."""
    return f"{head(port, fields)}content-length: {len(body)}\r\n\r\n".encode() + body


def chunked(port: int, body: bytes, fields: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a chunked POST request without trailers and final empty line."""
    head_and_size = (
        f"{head(port, fields)}transfer-encoding: chunked\r\n\r\n{len(body):x}\r\n"
    )
    return head_and_size.encode() + body + b"\r\n0\r\n"


def in_session(session: str) -> list[tuple[str, str]]:
    """Return the header fields of a request within a session."""
    return [("mcp-session-id", session), ("mcp-protocol-version", SESSION_ERA)]


def stateless(
    port: int, method: str, params: dict[str, Any], name: str = "", **fields: str
) -> bytes:
    """Return a stateless POST request; a field with an empty value is removed."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS_ERA,
        "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
        "io.modelcontextprotocol/clientInfo": INFO,
    }
    defaults = {
        "mcp-protocol-version": STATELESS_ERA,
        "mcp-method": method,
        "mcp-name": name,
    }
    overrides = {key.replace("_", "-"): value for key, value in fields.items()}
    body = message(method, {**params, "_meta": meta})
    return post(port, body, {**defaults, **overrides}.items())


@dataclass(frozen=True)
class Answer:
    """An HTTP response."""

    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def session(self) -> str:
        """The session id in the header; "" without one."""
        return self.fields.get("mcp-session-id", "")

    @property
    def message(self) -> dict[str, Any]:
        """The last JSON-RPC message of the body; empty without one."""
        text = self.body
        if self.fields.get("content-type", "").startswith("text/event-stream"):
            events = [line[5:] for line in text.splitlines() if line[:5] == b"data:"]
            text = next((data for data in reversed(events) if data.strip()), b"{}")
        with suppress(ValueError):
            message = json.loads(text)
            if isinstance(message, dict):
                return message
        return {}

    @property
    def is_result(self) -> bool:
        """Whether the message is a result without `isError`."""
        result = self.message.get("result")
        return isinstance(result, dict) and not result.get("isError")


class Connection:
    """One connection that reads only on demand: other bytes stay in the kernel."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""

    @classmethod
    async def connect(
        cls, port: int, source: str = ATTACKER, receive_buffer: int = 0
    ) -> Connection:
        """Open a connection from a source address.

        Raises:
            OSError: The server did not accept the connection in time.
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
        """Send all bytes, as fast as the server reads.

        Raises:
            OSError: The connection is lost, or the server does not read.
        """
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def read(self) -> Answer:
        """Read and return the next response.

        Raises:
            EOFError, OSError: The connection ended or failed, or the time is over.
        """
        async with asyncio.timeout(TIMEOUT_S):
            return await self._read_answer()

    async def send_request(self, request: bytes) -> Answer:
        """Send a request and return its response.

        Raises:
            EOFError, OSError: As `send` and `read` do.
        """
        await self.send(request)
        return await self.read()

    async def wait_for(self, mark: bytes) -> bool:
        """Read until the mark or an error; return whether the mark was received.

        Raises:
            EOFError, OSError: As `read` does.
        """
        async with asyncio.timeout(TIMEOUT_S):
            while mark not in self._buffer:
                if b'"error"' in self._buffer:
                    return False
                await self._receive()
        return True

    async def _receive(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self.sock, READ_SIZE)
        if not data:
            raise EOFError(
                "clean" if not self._buffer else "in the middle of an answer"
            )
        self._buffer += data

    async def _read_until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            await self._receive()
        data, _, self._buffer = self._buffer.partition(mark)
        return data

    async def _read_exactly(self, length: int) -> bytes:
        while len(self._buffer) < length:
            await self._receive()
        data, self._buffer = self._buffer[:length], self._buffer[length:]
        return data

    async def _read_answer(self) -> Answer:
        lines = (await self._read_until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        pairs = (line.partition(":") for line in lines[1:])
        fields = {name.lower(): value.strip() for name, _, value in pairs}
        if "chunked" in fields.get("transfer-encoding", ""):
            body = b""
            while size := int(await self._read_until(b"\r\n"), 16):
                body += await self._read_exactly(size)
                await self._read_exactly(2)
            await self._read_until(b"\r\n")
        else:
            body = await self._read_exactly(int(fields.get("content-length", 0)))
        return Answer(status, fields, body)

    def close(self, *, reset: bool = False) -> None:
        """Close the connection, with `reset` by a TCP reset."""
        if reset and self.sock.fileno() >= 0:
            linger = struct.pack("ii", 1, 0)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.sock.close()
