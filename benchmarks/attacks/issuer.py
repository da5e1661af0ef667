"""Token issuer with slow introspection of unknown tokens (RFC 7662)."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

INTROSPECTION_DELAY_S = 1.0
GOOD = "good"


class Issuer:
    """Introspection endpoint: no delay for tokens in "good...", 1 s for others."""

    audience = ""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    @classmethod
    @asynccontextmanager
    async def run(cls) -> AsyncIterator[Issuer]:
        """Yield an issuer that listens on a free port."""
        issuers: list[Issuer] = []

        async def answer(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            with suppress(OSError, EOFError, asyncio.CancelledError):
                while True:
                    await issuers[0].answer(reader, writer)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        issuers.append(cls(server.sockets[0].getsockname()[1]))
        try:
            yield issuers[0]
        finally:
            server.close()

    async def answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Read one introspection request and write its response."""
        head = await reader.readuntil(b"\r\n\r\n")
        fields = [line.partition(b":") for line in head.lower().split(b"\r\n")]
        sizes = [int(value) for name, _, value in fields if name == b"content-length"]
        form = parse_qs((await reader.readexactly(sizes[0])).decode())
        claims: dict[str, object] = {"active": False}
        if form["token"][0].startswith(GOOD):
            claims = {"active": True, "sub": "honest", "aud": self.audience}
        else:
            await asyncio.sleep(INTROSPECTION_DELAY_S)
        body = json.dumps(claims).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        await writer.drain()
