"""Sends the head of an answer together with what follows it.

uvicorn writes both by themselves, and each write is a system call, often a packet, and
wakes the client up: for small answers that is most of what they cost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Corked", "Turn"]

HEAD: Final = b"HTTP/"

HELD_MOST: Final = 65_536
"""How many bytes are held back: to copy more costs more than another write."""


class Turn:
    """Writes what several transports hold back, when the loop's turn ends.

    Each write wakes a client up; one after the other, they find it awake.
    """

    __slots__ = ("_loop", "_waiting")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Corked] = []

    def add(self, corked: Corked) -> None:
        """Have this one write at the end of the turn."""
        if not self._waiting:
            self._loop.call_soon(self._end)
        self._waiting.append(corked)

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        for corked in waiting:
            corked.flush()


class Corked:
    """A transport that holds a head back until the body comes, or the turn ends.

    Between `begin` and `end` everything is held back, until the turn ends. Whatever
    else is asked of it is asked of the transport within.

    Args:
        transport: It.
        turn: That of all transports of one server; one of its own without it.
    """

    __slots__ = ("_held", "_is_within", "_transport", "_turn")

    def __init__(self, transport: asyncio.Transport, turn: Turn | None = None) -> None:
        self._transport = transport
        self._turn = Turn() if turn is None else turn
        self._held = b""
        self._is_within = False

    def __getattr__(self, name: str) -> Any:
        """Return what the transport has under this name."""
        return getattr(self._transport, name)

    def begin(self) -> None:
        """Hold back what is written from here on."""
        self._is_within = True

    def end(self) -> None:
        """Write what was held back, and what follows it, when the turn ends."""
        self._is_within = False
        if self._held:
            self._turn.add(self)

    def is_closing(self) -> bool:
        """Tell whether the transport is closed or about to be."""
        return self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Write bytes, or hold them back for a moment."""
        if self._is_within or self._held or data.startswith(HEAD):
            if len(self._held) + len(data) > HELD_MOST:
                self.flush()
            elif self._is_within or not self._held:
                self._hold(data)
                return
            else:
                data, self._held = self._held + data, b""
        self._transport.write(data)

    def _hold(self, data: bytes) -> None:
        if not (self._is_within or self._held):
            self._turn.add(self)
        self._held = self._held + data if self._held else bytes(data)

    def writelines(self, chunks: Iterable[bytes]) -> None:
        """Write several pieces as one."""
        self.write(b"".join(chunks))

    def close(self) -> None:
        """Close it when everything is written."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Write what is held back."""
        if self._held:
            data, self._held = self._held, b""
            if not self._transport.is_closing():
                self._transport.write(data)
