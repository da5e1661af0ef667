"""A server over HTTP behind pipes: ``python -m mcpwire.testing.faults.http_bridge``.

Each line that comes in is a POST, and each message that comes back is a line. What is
no message of the server's, such as a 404, answers the request with an error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.testing.wire import HttpWire
from mcpwire.transports.http.target import Http
from mcpwire.transports.targets import Stdio, opener

if TYPE_CHECKING:
    from mcpwire.testing.wire import Wire

__all__ = ["bridge_command"]

OPTIONS: Final = "MCPWIRE_HTTP_BRIDGE"
"""The variable with the options of the target: they may be secret, and arguments are
seen by everybody."""


def bridge_command(target: Http) -> Stdio:
    """Return the command of a bridge to a server over HTTP.

    Raises:
        ValueError: An option of the target cannot be passed to another process.
    """
    given = {
        each.name: getattr(target, each.name)
        for each in attrs.fields(Http)
        if each.init and getattr(target, each.name) != each.default
    }
    try:
        options = json.dumps(given)
    except TypeError as error:
        names = ", ".join(sorted(set(given) - {"url"}))
        raise ValueError(
            f"options of {target} must be texts, numbers and mappings of them to "
            f"reach another process ({names}): {error}"
        ) from error
    program = ["-P", "-m", __name__]
    return Stdio(sys.executable, program, env={OPTIONS: options}, inherit_env=True)


class _Bridge:
    """Lets lines pass both ways; ends with the connection."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    def wire_received(self, wire: Wire, data: bytes) -> None:
        """Pass on what the server says."""
        del wire
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def wire_ended(self, wire: Wire) -> None:
        """End this process, too."""
        del wire
        self.is_over.set()

    async def run(self, target: Http) -> None:
        """Pass lines on until either side is through."""
        wire = HttpWire(self, answers_all=True)
        wire.attach(opener(target, DEFAULT_LIMITS).open(wire))
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=DEFAULT_LIMITS.message)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        reading = loop.create_task(self._read(reader, wire))
        await self.is_over.wait()
        reading.cancel()
        await wire.aclose()

    async def _read(self, reader: asyncio.StreamReader, wire: Wire) -> None:
        while line := await reader.readline():
            wire.put([line], 1)
        self.is_over.set()


def main() -> None:
    """Be the bridge."""
    given: dict[str, Any] = json.loads(os.environ[OPTIONS])
    asyncio.run(_Bridge().run(Http(given.pop("url"), **given)))


if __name__ == "__main__":
    main()
