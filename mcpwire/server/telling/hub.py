"""Tells open sessions and subscriptions that something changed.

Whoever changes a tool, a prompt or a resource says so here, from any thread. Each
listener hears it on its own loop, in the next turn, and of what happened many times in
one turn it hears once.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from mcpwire.server.request import Session

__all__ = ["PROMPTS", "RESOURCES", "TOOLS", "UPDATED", "Hub", "Listener"]

TOOLS: Final = "notifications/tools/list_changed"
PROMPTS: Final = "notifications/prompts/list_changed"
RESOURCES: Final = "notifications/resources/list_changed"
UPDATED: Final = "notifications/resources/updated"


class Listener(Protocol):
    """Somebody who may want to hear of changes. Nothing here awaits or raises."""

    def hear(self, method: str, uri: str | None) -> None:
        """Something changed; `uri` names the resource of an update."""

    def end(self) -> None:
        """Nothing comes any more."""


class _SessionListener:
    """A session hears of every list, and of the resources that it subscribed to."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def hear(self, method: str, uri: str | None) -> None:
        """Pass on what the session wants to hear."""
        session = self._session
        # 2025-11-25 basic/lifecycle, "Initialization": nothing but pings and logs
        # before the client has said that it is ready.
        if not session.is_initialized or session.is_closed:
            return
        if uri is None:
            session.send(method, {})
        elif uri in session.subscribed:
            session.send(method, {"uri": uri})

    def end(self) -> None:
        """Do nothing: a session ends with its connection."""


class _Outlet:
    """The listeners of one loop, and what they have yet to hear."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.listeners: dict[Listener, None] = {}
        self.pending: dict[tuple[str, str | None], None] = {}

    def flush(self) -> None:
        """Tell everybody; runs on the loop."""
        pending, self.pending = self.pending, {}
        for method, uri in pending:
            for listener in list(self.listeners):
                listener.hear(method, uri)

    def end(self) -> None:
        """Tell everybody that this is all; runs on the loop."""
        self.flush()
        for listener in list(self.listeners):
            listener.end()


class Hub:
    """Who listens to one server; see the module's text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outlets: dict[asyncio.AbstractEventLoop, _Outlet] = {}
        self._sessions: dict[Session, _SessionListener] = {}

    def __len__(self) -> int:
        """Return how many listen."""
        with self._lock:
            return sum(len(outlet.listeners) for outlet in self._outlets.values())

    # Who listens...

    def add(self, session: Session) -> None:
        """Let a session hear of changes, on the running loop."""
        listener = _SessionListener(session)
        with self._lock:
            self._sessions[session] = listener
        self.listen(listener)

    def remove(self, session: Session) -> None:
        """Let it hear nothing more; it is closed."""
        session.is_closed = True
        with self._lock:
            listener = self._sessions.pop(session, None)
        if listener is not None:
            self.forget(listener)

    def sessions(self) -> list[Session]:
        """Return the sessions that hear of changes."""
        with self._lock:
            return list(self._sessions)

    def listen(self, listener: Listener) -> None:
        """Let somebody hear of changes, on the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            outlet = self._outlets.get(loop)
            if outlet is None:
                outlet = self._outlets[loop] = _Outlet(loop)
            outlet.listeners[listener] = None

    def forget(self, listener: Listener) -> None:
        """Let somebody hear nothing more."""
        with self._lock:
            for loop, outlet in list(self._outlets.items()):
                outlet.listeners.pop(listener, None)
                if not outlet.listeners:
                    del self._outlets[loop]

    # What they hear...

    def tell(self, method: str, uri: str | None = None) -> None:
        """Say that something changed; from any thread."""
        with self._lock:
            for outlet in self._outlets.values():
                is_first = not outlet.pending
                outlet.pending[method, uri] = None
                if is_first:
                    _schedule(outlet.loop, outlet.flush)

    def close(self) -> None:
        """End every subscription with what was still to be said."""
        with self._lock:
            outlets = list(self._outlets.values())
        for outlet in outlets:
            _schedule(outlet.loop, outlet.end)


def _schedule(loop: asyncio.AbstractEventLoop, action: object) -> None:
    # A loop that was closed with listeners on it has nobody left to tell.
    if not loop.is_closed():
        loop.call_soon_threadsafe(action)  # type: ignore[arg-type] # a bound method
