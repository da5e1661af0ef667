"""Sends the head of an answer together with what follows it.

uvicorn writes both by themselves, and each write is a system call, often a packet, and
wakes the client up: for small answers that is most of what they cost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Corked"]

HEAD: Final = b"HTTP/"


class Corked:
    """A transport that holds a head back until the body comes, or the turn ends.

    Whatever else is asked of it is asked of the transport within.
    """

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held = b""
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        """Return what the transport has under this name."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write bytes, or hold them back for a moment."""
        if self._held:
            data, self._held = self._held + data, b""
        elif data.startswith(HEAD):
            self._held = bytes(data)
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def writelines(self, chunks: Iterable[bytes]) -> None:
        """Write several pieces as one."""
        self.write(b"".join(chunks))

    def close(self) -> None:
        """Close it when everything is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            if not self._transport.is_closing():
                self._transport.write(data)
