"""Fetches documents of authorization in the thread that calls.

`mcpwire.transports.oauth.plan` decides where from. The resolver cannot be interrupted,
so a thread of its own waits for it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectionClosed, MCPError
from mcpwire.protocol.deadline import Deadline
from mcpwire.sync._http.httpx_engine import BlockingHttpxEngine
from mcpwire.transports.oauth.document import too_late
from mcpwire.transports.oauth.plan import Pinned, Planner, Resolve, Send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.auth.steps import Answer, Fetch
    from mcpwire.limits import Limits
    from mcpwire.transports.http._sockets import Address
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.plan import Plan

__all__ = ["BlockingFetcher"]

SLICE_S: Final = 0.25
"""How soon the end of everything is noticed while a name is resolved."""


class BlockingFetcher:
    """Performs the `Fetch` steps of one operation.

    Each has a connection of its own, so that no two hosts at one address ever share
    one. Interrupting a fetch closes it.

    Args:
        target: The MCP server.
        limits: What an answer may cost.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self._planner = Planner(target, limits)
        self._limits = limits
        self._engine: BlockingHttpxEngine | None = None
        self._is_closed = False

    def fetch(self, step: Fetch) -> Answer:
        """Return the answer to a request, whatever its status.

        Raises:
            UrlRefused: It leads where we must not go.
            AuthTemporarilyUnavailable: No answer came, or not in time.
            DiscoveryError: What came is no document, or too large; in its place
                `TokenError` and `RegistrationError` where something was posted.
        """
        deadline = Deadline(monotonic(), self._limits.oauth_timeout)
        plan: Plan = self._planner.fetch(step)
        outcome: Any = None
        error: Exception | None = None
        with contextlib.closing(plan):
            while True:
                try:
                    wanted = plan.send(outcome) if error is None else plan.throw(error)
                except StopIteration as done:
                    answer: Answer = done.value
                    return answer
                outcome = error = None
                if deadline.expired(monotonic()):
                    raise too_late(step, self._limits)
                try:
                    outcome = self._perform(wanted, step, deadline)
                except (MCPError, OSError, UnicodeError) as raised:
                    error = raised

    def _perform(self, wanted: Resolve | Send, step: Fetch, deadline: Deadline) -> Any:
        if isinstance(wanted, Resolve):
            return self._resolve(wanted, step, deadline)
        self._send(wanted, deadline)
        return None

    def _resolve(
        self, wanted: Resolve, step: Fetch, deadline: Deadline
    ) -> Sequence[Address]:
        found = _Resolution(wanted)
        while not found.is_done(min(SLICE_S, max(deadline.at - monotonic(), 0))):
            self._check_open(wanted.host)
            if deadline.expired(monotonic()):
                raise too_late(step, self._limits)
        return found.addresses()

    def _send(self, send: Send, deadline: Deadline) -> None:
        engine = BlockingHttpxEngine(send.target, self._limits)
        engine.requests = Pinned(send, engine.library)
        if send.connect_timeout is not None:
            engine.connect_timeout = send.connect_timeout
        self._engine = engine
        try:
            self._check_open(send.target.parsed.host)
            engine.exchange(send.request, send.document, deadline)
        finally:
            self._engine = None
            engine.close()

    def _check_open(self, host: str) -> None:
        if self._is_closed:
            raise ConnectionClosed(f"{host!r}: closed by this side", sent=False)

    def close(self) -> None:
        """End the fetch that runs, from any thread; there will be no other."""
        self._is_closed = True
        engine = self._engine
        if engine is not None:
            engine.close()


class _Resolution:
    """One question to the resolver, and the thread that waits for its answer."""

    def __init__(self, wanted: Resolve) -> None:
        self._wanted = wanted
        self._addresses: Sequence[Address] = ()
        self._error: Exception | None = None
        # Not an Event: interrupted in the middle of its wait it would stay locked.
        self._done = threading.Lock()
        self._done.acquire()
        threading.Thread(target=self._ask, name="mcpwire-resolver", daemon=True).start()

    def _ask(self) -> None:
        try:
            self._addresses = socket.getaddrinfo(
                self._wanted.host, self._wanted.port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError) as error:
            self._error = error
        finally:
            self._done.release()

    def is_done(self, timeout: float) -> bool:
        """Wait so long at most; return whether the answer is there."""
        return self._done.acquire(timeout=timeout)

    def addresses(self) -> Sequence[Address]:
        """Return the answer, or raise it."""
        if self._error is not None:
            raise self._error
        return self._addresses
