"""A Locust user that calls an MCP server, for load past one machine.

::

    from locust import task
    from mcpwire.bench.locust import McpUser

    class Shopper(McpUser):
        target = "https://shop.example/mcp"

        @task
        def search(self):
            self.call_tool("search", {"text": "socks"})

``locust -f shopper.py --headless -u 100 -t 1m`` runs it; ``--master`` and ``--worker``
spread it over machines. Needs ``pip install "pymcpwire[locust]"``.

Importing Locust replaces sockets, selectors and threads by gevent's in the whole
process, and an event loop of asyncio then keeps all other users of its thread waiting.
So the clients of a worker run in a child process without gevent, which also times the
calls: what Locust itself is busy with is not in the times.
"""

from __future__ import annotations

import itertools
import pickle
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

import gevent
import locust
from gevent.event import AsyncResult
from gevent.lock import BoundedSemaphore
from gevent.queue import Queue

from mcpwire.bench import locust_child
from mcpwire.bench.locust_child import LENGTH, Answer, Request
from mcpwire.errors import ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.types import CallToolResult, Tool

__all__ = ["McpUser"]

_KIND: Final = "MCP"


class _Child:
    """The process with the clients of all users of this process."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._waiting: dict[int, AsyncResult] = {}
        self._outgoing = Queue()
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", locust_child.__name__]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                command, stdin=theirs.fileno(), start_new_session=True
            )
        self._error: ConnectionClosed | None = None
        gevent.spawn(self._write)
        gevent.spawn(self._read)

    def ask(self, user: int, verb: str, *arguments: Any) -> Answer:
        """Have a request performed; other users go on meanwhile."""
        number = next(self._numbers)
        if self._error is not None:
            return Answer(number, 0.0, 0, None, self._error)
        data = locust_child.frame(Request(number, user, verb, arguments))
        result = self._waiting[number] = AsyncResult()
        self._outgoing.put(data)
        answer: Answer = result.get()
        return answer

    def _write(self) -> None:
        with suppress(OSError):  # the reader says what happened
            while True:
                self._socket.sendall(self._outgoing.get())

    def _read(self) -> None:
        torn = (OSError, EOFError, struct.error, pickle.UnpicklingError)
        with suppress(*torn), self._socket.makefile("rb") as file:
            while head := file.read(LENGTH.size):
                data = file.read(*LENGTH.unpack(head))
                answer = Answer(*pickle.loads(data))  # noqa: S301 - our own child
                self._waiting.pop(answer.number).set(answer)
        code = self._process.wait()
        self._error = ConnectionClosed(
            "the process that makes the calls ended", exit_code=code
        )
        for number, result in self._waiting.items():
            result.set(Answer(number, 0.0, 0, None, self._error))


class McpUser(locust.User):
    """A user with a session of its own; its calls appear in Locust's figures.

    Each method fires Locust's `request` event: type ``MCP``; the time, as the child
    process measured it; the length of the result as JSON. A failure is part of the
    event and is not raised, as with Locust's own users. A result that says `is_error`
    is a failure with a `ToolError`.

    Attributes:
        target: What to connect to, as `mcpwire.Client` takes it; by default Locust's
            ``--host``.
        options: Keyword arguments of `mcpwire.Client`.
    """

    abstract = True
    target: str | None = None
    options: ClassVar[Mapping[str, Any]] = {}

    _child: ClassVar[_Child | None] = None
    _starting: ClassVar = BoundedSemaphore(1)
    _count: ClassVar[itertools.count[int]] = itertools.count()

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._number = next(McpUser._count)
        self._is_connected = False

    def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None
    ) -> CallToolResult | None:
        """Call a tool; None where the call failed."""
        result: CallToolResult | None = self._timed(
            f"tools/call {name}", "call_tool", name, arguments
        )
        return result

    def list_tools(self) -> list[Tool] | None:
        """Return all tools; None where that failed."""
        tools: list[Tool] | None = self._timed("tools/list", "list_tools")
        return tools

    def ping(self) -> None:
        """Ask the server for a sign of life (at 2026-07-28 by `server/discover`)."""
        self._timed("ping", "ping")

    def connect(self) -> bool:
        """Connect; the first call does so by itself. Return whether it succeeded."""
        if not self._is_connected:
            target = self.target or self.host
            answer = self._ask("connect", "connect", target, dict(self.options))
            self._is_connected = answer.error is None
        return self._is_connected

    def on_stop(self) -> None:
        """Close the session; call it from an `on_stop` of your own."""
        if self._is_connected and McpUser._child is not None:
            self._is_connected = False
            McpUser._child.ask(self._number, "aclose")

    def _timed(self, name: str, verb: str, *arguments: Any) -> Any:
        return self._ask(name, verb, *arguments).result if self.connect() else None

    def _ask(self, name: str, verb: str, *arguments: Any) -> Answer:
        with McpUser._starting:  # other users run while a process starts
            if McpUser._child is None:
                McpUser._child = _Child()
        began = time.time()
        answer = McpUser._child.ask(self._number, verb, *arguments)
        self.environment.events.request.fire(
            request_type=_KIND,
            name=name,
            response_time=answer.seconds * 1e3,
            response_length=answer.octets,
            response=answer.result,
            exception=answer.error,
            context=self.context(),
            start_time=began,
            url=self.target or self.host,
        )
        return answer
