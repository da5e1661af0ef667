"""Records of all exchanges of a gateway, on both sides: `Gateway(trace=...)`.

A record of a request and its response is a dict of JSON values:

============  ==================================================================
``time``      the time of the request, in UTC, as ISO 8601
``side``      ``"client"``: a client and the gateway; ``"server"``: the gateway
              and a server
``server``    the server's name; ``None`` on the client's side
``from``      the sender of the request: ``"client"``, ``"gateway"`` or ``"server"``
``session``   a hash of the client's session id; ``None`` without a session
``method``    the method
``request``   its params, with credentials masked
``response``  ``{"result": ...}`` or ``{"error": ...}``, with credentials masked
``seconds``   the time from the request to the response
============  ==================================================================
"""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import RPCError
from mcpwire.transports.http.target import is_credential
from mcpwire.wire.json import encode, loads
from mcpwire.wire.jsonrpc import failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from os import PathLike

    from mcpwire.server.dispatcher import CallNext
    from mcpwire.server.request import RequestContext, Session

    Record = dict[str, Any]
    RecordFn = Callable[[Record], object]

MASK: Final = "***"

MAX_PENDING: Final = 1_024
"""Maximum of open requests of one connection; the oldest is dropped."""

HASH_DIGITS: Final = 12


@attrs.frozen
class SentRequest:
    """A request, its connection and its sender."""

    method: str
    params: Any
    side: str
    server: str | None
    sender: str
    session: Session | None
    sent_at: datetime = attrs.field(factory=lambda: datetime.now(UTC))
    started: float = attrs.field(factory=time.monotonic)

    def record(self, response: dict[str, Any]) -> Record:
        """Return the record of the request and its response."""
        return {
            "time": self.sent_at.isoformat(timespec="milliseconds"),
            "side": self.side,
            "server": self.server,
            "from": self.sender,
            "session": session_hash(self.session),
            "method": self.method,
            "request": masked(self.params),
            "response": masked(response),
            "seconds": round(time.monotonic() - self.started, 6),
        }


class ExchangeTrace:
    """Passes records to a function; its exceptions are counted and ignored."""

    def __init__(self, write: RecordFn) -> None:
        self._write = write
        self.errors = 0

    def record(self, request: SentRequest, response: dict[str, Any]) -> None:
        """Write the record of a request and its response."""
        try:
            self._write(request.record(response))
        except Exception:  # noqa: BLE001 - a failing trace must not fail the call
            self.errors += 1

    async def around(
        self, params: dict[str, Any], request: RequestContext, call_next: CallNext
    ) -> dict[str, Any]:
        """Record a request of a client; used as middleware."""
        outcome = call_next(params, request)
        return await self.watch(outcome, request.method, params, request.session)

    async def watch(
        self,
        outcome: Awaitable[dict[str, Any]],
        method: str,
        params: Any,
        session: Session | None = None,
    ) -> dict[str, Any]:
        """Await the result of a client's request; record the result or the error."""
        sent = SentRequest(method, params, "client", None, "client", session)
        try:
            result = await outcome
        except BaseException as error:
            self.record(sent, {"error": error_object(error)})
            raise
        self.record(sent, {"result": result})
        return result


@attrs.define(eq=False, repr=False)
class ConnectionTrace:
    """The trace hook of one connection to a server: pairs requests and responses."""

    _trace: ExchangeTrace
    _server: str
    _session: Session | None
    _next_hook: Callable[[str, Any], object] | None
    _pending: dict[tuple[str, Any], SentRequest] = attrs.field(factory=dict, init=False)

    def __call__(self, event: str, data: Any) -> None:
        """Process an event of the trace hook of a client."""
        if self._next_hook is not None:
            self._next_hook(event, data)
        if event not in {"send", "receive"}:
            return
        try:
            messages = loads(data)
        except ValueError:
            return
        for message in messages if isinstance(messages, list) else [messages]:
            if isinstance(message, dict) and type(message.get("id")) in {int, str}:
                self._pair_message(event, message)

    def _pair_message(self, event: str, message: dict[str, Any]) -> None:
        if "method" in message:
            while len(self._pending) >= MAX_PENDING:
                del self._pending[next(iter(self._pending))]
            self._pending[event, message["id"]] = SentRequest(
                message["method"],
                message.get("params"),
                "server",
                self._server,
                "gateway" if event == "send" else "server",
                self._session,
            )
            return
        direction = "receive" if event == "send" else "send"
        request = self._pending.pop((direction, message["id"]), None)
        if request is not None:
            response: dict[str, Any] = {
                key: message[key] for key in ("result", "error") if key in message
            }
            self._trace.record(request, response)


def error_object(error: BaseException) -> dict[str, Any]:
    """Return the JSON-RPC object of an `RPCError`, or the type of another error."""
    if not isinstance(error, RPCError):
        return {"message": type(error).__name__}
    return dict(failure(None, error)["error"])


def session_hash(session: Session | None) -> str | None:
    """Return a hash that identifies a session, because its id is a secret."""
    if session is None or session.id is None:
        return None
    return hashlib.sha256(session.id.encode()).hexdigest()[:HASH_DIGITS]


def masked(value: Any) -> Any:
    """Return a JSON value with texts masked that are named like credentials."""
    if isinstance(value, dict):
        return {
            name: MASK
            if isinstance(item, str) and is_credential(name)
            else masked(item)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [masked(item) for item in value]
    return value


class JsonLines:
    """Appends records to a file, one line of JSON each; call it with a record.

    Args:
        path: The file; a new file is readable for its owner only.

    Raises:
        OSError: The file cannot be opened or written to.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        path = Path(path)
        path.touch(mode=0o600)
        self._file = path.open("ab", buffering=0)

    def __call__(self, record: Record) -> None:
        """Append a record."""
        self._file.write(encode(record) + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
