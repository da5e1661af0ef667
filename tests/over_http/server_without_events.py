"""A session server that keeps no events: a client without an open stream gets none."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final

from http_bytes import chunk, json_reply, sse_event, sse_head

if TYPE_CHECKING:
    from mcp_server import ScriptedMcp
    from raw_server import Connection, RawRequest

URI: Final = "memo://one"
UPDATED: Final = "notifications/resources/updated"

LATE_S: Final = 0.1
"""How long the GET stream takes to open: requests have completed by then."""

BOUND_S: Final = 30.0


class Forgetful:
    """Makes a `ScriptedMcp` send an update with each response to one method.

    Attributes:
        late_s: How long each GET waits for its response head.
        is_telling: Whether updates are sent.
    """

    def __init__(
        self, server: ScriptedMcp, method: str, *, late_s: float = LATE_S
    ) -> None:
        self.server = server
        self.late_s = late_s
        self.is_telling = True
        self._open: list[Connection] = []
        self._lock = threading.Lock()
        server.on["GET"] = self._get
        server.on[method] = self._answer

    def _is_known(self, request: RawRequest) -> bool:
        return request.headers.get("mcp-session-id") in self.server.sessions

    def _get(self, request: RawRequest, conn: Connection) -> bool:
        if not self._is_known(request):
            return False
        conn.wait(self.late_s)
        with self._lock:
            conn.send(sse_head())
            self._open.append(conn)
        try:
            conn.wait_closed(BOUND_S)
        finally:
            with self._lock:
                self._open.remove(conn)
        return True

    def _answer(self, request: RawRequest, conn: Connection) -> bool:
        if not self._is_known(request):
            return False
        # The state when the request came: after the response the test continues.
        message, is_telling = request.json, self.is_telling
        uri = message.get("params", {}).get("uri", URI)
        result: dict[str, Any] = {}
        if request.method == "resources/read":
            result = {"contents": [{"uri": uri, "text": "read"}]}
        elif request.method == "resources/subscribe":
            self.server.subscribed.append(uri)
        conn.send(json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        if is_telling:
            update = {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}
            with self._lock:
                for each in self._open:
                    with contextlib.suppress(ConnectionError):  # that client has left
                        each.send(chunk(sse_event(update)))
        return True

    def forget_sessions(self) -> None:
        """Drop every session, and end its stream."""
        self.server.sessions.clear()
        with self._lock:
            for conn in self._open:
                conn.cut()


def never_heads(request: RawRequest, conn: Connection) -> bool:
    """Hold the request without a response."""
    conn.wait_closed(BOUND_S)
    return True
