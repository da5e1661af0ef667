"""A lightweight client, of which a thousand fit: HTTP/1.1 on raw sockets.

It can open a session and call a tool, and it checks the id and the content of each
response.
"""

import asyncio
import json
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

TIMEOUT_S = 120.0
"""No response takes longer, even on a loaded machine."""

ACCEPT = "application/json, text/event-stream"
CLIENT = {"name": "load", "version": "1"}
LATER = "2026-07-28"
STAMP = {
    "io.modelcontextprotocol/protocolVersion": LATER,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}


class Crossed(Exception):
    """A client got the response to another client's call."""


class Reply(NamedTuple):
    status: int
    fields: dict[str, str]
    messages: list[dict[str, Any]]


class Wire:
    """One connection, for sequential requests."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            # The peer may have closed first.
            await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)
            self._writer = None

    async def begin(
        self, verb: str, fields: dict[str, str], body: bytes = b""
    ) -> tuple[int, dict[str, str]]:
        url = self._url
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                url.hostname, url.port
            )
        head = {"host": url.netloc, "content-length": str(len(body)), **fields}
        lines = [f"{verb} {url.path} HTTP/1.1", *(f"{k}: {v}" for k, v in head.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        assert self._reader is not None
        async with asyncio.timeout(TIMEOUT_S):
            answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = answer.strip().split("\r\n")
        pairs = (line.partition(": ") for line in rest)
        return int(first.split()[1]), {k.lower(): v for k, _, v in pairs}

    async def body(self, fields: dict[str, str]) -> bytes:
        assert self._reader is not None
        async with asyncio.timeout(TIMEOUT_S):
            if fields.get("transfer-encoding") != "chunked":
                size = int(fields.get("content-length", "0"))
                return await self._reader.readexactly(size)
            parts = []
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                parts.append(await self._reader.readexactly(size))
                await self._reader.readexactly(2)
            await self._reader.readexactly(2)
            return b"".join(parts)

    async def send(
        self, verb: str, fields: dict[str, str], message: dict[str, Any] | None = None
    ) -> Reply:
        """Send one message; return the whole response."""
        sent = b"" if message is None else json.dumps(message).encode()
        status, found = await self.begin(verb, fields, sent)
        body = await self.body(found)
        kind = found.get("content-type", "")
        if kind.startswith("text/event-stream"):
            lines = [line[6:] for line in body.splitlines() if line[:6] == b"data: "]
            return Reply(status, found, [json.loads(line) for line in lines if line])
        return Reply(status, found, [json.loads(body)] if body else [])


class Caller:
    """Calls tools, in a session or without; its ids count from 0."""

    def __init__(self, url: str, *, is_later: bool = False) -> None:
        self.wire = Wire(url)
        self.url = url
        self.is_later = is_later
        self.last_id = -1
        version = LATER if is_later else "2025-11-25"
        self.fields = {
            "accept": ACCEPT,
            "content-type": "application/json",
            "mcp-protocol-version": version,
        }

    async def __aenter__(self) -> Self:
        if not self.is_later:
            await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.is_later:
            await self.end()
        await self.wire.close()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.last_id += 1
        if self.is_later:
            params = {**params, "_meta": STAMP}
        return {
            "jsonrpc": "2.0",
            "id": self.last_id,
            "method": method,
            "params": params,
        }

    async def open(self) -> None:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": CLIENT,
        }
        opening = self.request("initialize", params)
        reply = await self.wire.send("POST", self.fields, opening)
        assert reply.status == 200, reply
        self.fields["mcp-session-id"] = reply.fields["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.wire.send("POST", self.fields, ready)).status == 202

    async def end(self) -> int:
        return (await self.wire.send("DELETE", self.fields)).status

    async def listen(self) -> Wire:
        """Open the session's stream; the caller closes it."""
        wire = Wire(self.url)
        status, _ = await wire.begin("GET", self.fields)
        assert status == 200, status
        return wire

    async def post(self, tool: str, **arguments: Any) -> Reply:
        params = {"name": tool, "arguments": arguments}
        named = {"mcp-method": "tools/call", "mcp-name": tool} if self.is_later else {}
        message = self.request("tools/call", params)
        return await self.wire.send("POST", {**self.fields, **named}, message)

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool; return its structured result; check that it is for this call."""
        reply = await self.post(tool, **arguments)
        assert reply.status == 200, reply
        if [message.get("id") for message in reply.messages] != [self.last_id]:
            raise Crossed(f"call {self.last_id} was answered by {reply.messages!r}")
        result = reply.messages[0]["result"]
        assert not result.get("isError"), result
        return result["structuredContent"]

    async def check_secret(self, tool: str, secret: str) -> None:
        """Call a tool that returns the secret, and check that it is this one."""
        text = (await self.call(tool, text=secret))["result"]
        if text != secret:
            raise Crossed(f"{secret!r} was answered by {text!r}")
