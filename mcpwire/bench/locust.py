"""A Locust user that calls an MCP server, for load from several machines.

::

    from locust import task
    from mcpwire.bench.locust import McpUser

    class Shopper(McpUser):
        target = "https://shop.example/mcp"

        @task
        def search(self):
            self.call_tool("search", {"text": "socks"})

``locust -f shopper.py --headless -u 100 -t 1m`` runs it; ``--master`` and ``--worker``
spread it over machines. Needs the extra `locust`: ``pip install ".[locust]"``.

Importing Locust replaces sockets, selectors and threads by gevent's in the whole
process, and an asyncio event loop then blocks all other users in its thread.
Therefore the clients of a worker run in a child process without gevent. The child also
measures the times of calls, which so do not include Locust's own work.
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

_REQUEST_TYPE: Final = "MCP"


class _Child:
    """The child process with the clients of all users of this process."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._pending: dict[int, AsyncResult] = {}
        self._outgoing = Queue()
        self._socket, child_end = socket.socketpair()
        command = [sys.executable, "-m", locust_child.__name__]
        with child_end:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                command, stdin=child_end.fileno(), start_new_session=True
            )
        self._error: ConnectionClosed | None = None
        gevent.spawn(self._write)
        gevent.spawn(self._read)

    def request(self, user: int, method: str, *arguments: Any) -> Answer:
        """Perform a request in the child; other greenlets continue."""
        number = next(self._numbers)
        if self._error is not None:
            return Answer(number, 0.0, 0, None, self._error)
        data = locust_child.encode_frame(Request(number, user, method, arguments))
        result = self._pending[number] = AsyncResult()
        self._outgoing.put(data)
        answer: Answer = result.get()
        return answer

    def _write(self) -> None:
        with suppress(OSError):  # `_read` reports the error
            while True:
                self._socket.sendall(self._outgoing.get())

    def _read(self) -> None:
        errors = (OSError, EOFError, struct.error, pickle.UnpicklingError)
        with suppress(*errors), self._socket.makefile("rb") as file:
            while head := file.read(LENGTH.size):
                data = file.read(*LENGTH.unpack(head))
                answer = Answer(*pickle.loads(data))  # noqa: S301 - our own child
                self._pending.pop(answer.number).set(answer)
        code = self._process.wait()
        self._error = ConnectionClosed(
            "the process that makes the calls ended", exit_code=code
        )
        for number, result in self._pending.items():
            result.set(Answer(number, 0.0, 0, None, self._error))


class McpUser(locust.User):
    """A Locust user with its own MCP session; its calls appear in Locust's statistics.

    Each method fires Locust's `request` event with the type ``MCP``, the time measured
    in the child process, and the length of the result as JSON. As with Locust's own
    users, a failure is part of the event and is not raised. A result with `is_error`
    set is a failure with a `ToolError`.

    Attributes:
        target: The target for `mcpwire.Client`; default: Locust's
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
        """Call a tool; return its result, or ``None`` if the call failed."""
        result: CallToolResult | None = self._call(
            f"tools/call {name}", "call_tool", name, arguments
        )
        return result

    def list_tools(self) -> list[Tool] | None:
        """Return all tools, or ``None`` if the request failed."""
        tools: list[Tool] | None = self._call("tools/list", "list_tools")
        return tools

    def ping(self) -> None:
        """Send a ping (`server/discover` at 2026-07-28)."""
        self._call("ping", "ping")

    def connect(self) -> bool:
        """Connect, as the first call does if needed; return whether it succeeded."""
        if not self._is_connected:
            target = self.target or self.host
            answer = self._request("connect", "connect", target, dict(self.options))
            self._is_connected = answer.error is None
        return self._is_connected

    def on_stop(self) -> None:
        """Close the session; an overriding `on_stop` must call this method."""
        self._is_connected = False
        if McpUser._child is not None:  # it may be connecting for a killed task
            McpUser._child.request(self._number, "aclose")

    def _call(self, name: str, method: str, *arguments: Any) -> Any:
        return (
            self._request(name, method, *arguments).result if self.connect() else None
        )

    def _request(self, name: str, method: str, *arguments: Any) -> Answer:
        with McpUser._starting:  # other greenlets run while the process starts
            if McpUser._child is None:
                McpUser._child = _Child()
        began = time.time()
        answer = McpUser._child.request(self._number, method, *arguments)
        self.environment.events.request.fire(
            request_type=_REQUEST_TYPE,
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
