"""The same two tools over each transport, and the calls that the server received.

`echo` answers its text; calls that are in flight together are answered in any order.
`slow` is never answered.
"""

import asyncio
import contextlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fakes import SILENCE, FakeServer, text
from http_bytes import reply
from legacy_server import legacy_server
from mcp_server import scripted_mcp
from scripted import scripted

from mcpwire.transports.memory import MemoryChannel

TRANSPORTS = ("stdio", "session", "stateless", "legacy", "memory")

SHUFFLED_WITHIN_S = 0.001
"""The longest delay of a response of an HTTP server, so that others overtake it."""

STDIO = r"""
import random, select
handshake()
seen = open(sys.argv[1], "a", buffering=1)
rest, waiting, hanging, is_first = b"", [], set(), True
while True:
    ready = is_first or select.select([0], [], [], 0 if waiting else None)[0]
    is_first = False  # what was read with the handshake is in no pipe any more
    if ready:
        data = sys.stdin.buffer.read1(65536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for m in map(json.loads, lines):
            params = m.get("params", {})
            if params.get("name") == "slow":
                hanging.add(m["id"])
                print("slow", file=seen)
            elif params.get("requestId") in hanging:
                print("cancelled", file=seen)
            elif "id" in m:
                waiting.append(m)
    if not ready or len(waiting) > 100:
        random.shuffle(waiting)
        for m in waiting:
            text(m, m.get("params", {}).get("arguments", {}).get("text", ""))
        waiting.clear()
"""


class Echo:
    """A server over one transport.

    Attributes:
        name: The name of the transport.
        target: The target of clients.
    """

    def __init__(self, name: str, target: Any, raw: Any = None) -> None:
        self.name = name
        self.target = target
        self._raw = raw

    @property
    def address(self) -> str:
        """The argument of `reachable` in another process."""
        return str(self._raw) if self.name == "stdio" else str(self.target)

    @property
    def slow(self) -> int:
        """The number of received calls of `slow`."""
        if self.name in {"session", "stateless"}:
            return sum(name == "slow" for name, *_ in tuple(self._raw.executed))
        return self._lines().count("slow")

    @property
    def cancelled(self) -> int:
        """The number of calls that the client has cancelled."""
        if self.name in {"session", "stateless"}:
            return len(self._raw.cancelled)
        return self._lines().count("cancelled")

    def _lines(self) -> list[str]:
        if isinstance(self._raw, Path):
            return self._raw.read_text().split() if self._raw.exists() else []
        return list(self._raw)


class MemoryEcho(FakeServer):
    """A server that runs on the event loop of its client."""

    def __init__(self) -> None:
        super().__init__({"tools/call": self.call})
        self.seen: list[str] = []
        self.hanging: set[int] = set()
        self.waiting: list[tuple[int, str]] = []

    def open_in_memory(self, client: Any, limits: Any) -> MemoryChannel:
        self.waiting.clear()  # an abandoned loop does not flush them
        return super().open_in_memory(client, limits)

    def call(self, params: dict[str, Any], _: object) -> object:
        if params["name"] == "slow":
            self.seen.append("slow")
            self.hanging.add(self.current["id"])
            return SILENCE
        if not self.waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self.waiting.append((self.current["id"], params["arguments"]["text"]))
        return SILENCE

    def flush(self) -> None:
        random.shuffle(self.waiting)
        for id, message in self.waiting:
            self.send({"jsonrpc": "2.0", "id": id, "result": text(message)})
        self.waiting.clear()

    def receive(self, data: bytes) -> None:
        super().receive(data)
        last = self.received[-1]
        if last.get("params", {}).get("requestId") in self.hanging:
            self.seen.append("cancelled")


def delay_response(_: object, conn: Any) -> bool:
    """Delay a response a little."""
    conn.wait(random.random() * SHUFFLED_WITHIN_S)
    return False


@contextlib.contextmanager
def serving(name: str, seen: Path) -> Iterator[Echo]:
    """Serve over one transport; a child process writes received calls to a file."""
    if name == "stdio":
        yield Echo(name, scripted(STDIO, str(seen)), seen)
    elif name == "memory":
        server = MemoryEcho()
        yield Echo(name, server, server.seen)
    elif name == "legacy":
        with _legacy() as echo:
            yield echo
    else:
        with scripted_mcp(name, replies="sse", complains=False) as mcp:
            mcp.on["tools/call"] = delay_response
            yield Echo(name, mcp.url, mcp)
            mcp.release()


@contextlib.contextmanager
def _legacy() -> Iterator[Echo]:
    lines: list[str] = []
    hanging = set()

    def call(request: Any, conn: Any) -> bool:
        if request.json["params"]["name"] != "slow":
            return delay_response(request, conn)
        hanging.add(request.json["id"])
        conn.send(reply(202))
        lines.append("slow")
        return True

    def cancelled(request: Any, _: object) -> None:
        if request.json["params"]["requestId"] in hanging:
            lines.append("cancelled")

    with legacy_server() as server:
        server.on = {"tools/call": call, "notifications/cancelled": cancelled}
        yield Echo("legacy", server.url, lines)


@contextlib.contextmanager
def reachable(name: str, address: str) -> Iterator[Any]:
    """Yield the target for its address, in another process."""
    if name == "stdio":
        yield scripted(STDIO, address)
    elif name == "memory":
        yield MemoryEcho()
    else:
        yield address


def command(program: str, *args: str) -> list[str]:
    """Return the command line of a Python program that can import this module."""
    folders = [str(Path(__file__).parents[1] / "over_http"), str(Path(__file__).parent)]
    head = (
        f"import sys; sys.path[:0] = {[*folders, str(Path(__file__).parents[1])]!r}\n"
    )
    return [sys.executable, "-c", head + program, *args]
