"""What a handler knows of its request, and what it tells the client meanwhile.

Nothing here waits for the client. Everything that sends may be called from any thread
and never blocks.
"""

from __future__ import annotations

from asyncio import CancelledError, get_running_loop
from math import isfinite
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError
from mcpwire.server.asking.asking import can_ask
from mcpwire.server.request import LEVELS
from mcpwire.transports.base import runs_here
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping
    from contextvars import Token

    from mcpwire.server.asking.blocking import Blocking
    from mcpwire.server.asking.context import Context
    from mcpwire.server.asking.outbox import Outbox
    from mcpwire.server.asking.services import Services
    from mcpwire.server.auth.resource_server import Principal
    from mcpwire.server.request import RequestContext
    from mcpwire.wire.json import Json
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["Telling"]

_COMPLETED: Final = "notifications/elicitation/complete"
_NOV_2025: Final = REVISIONS[3]


class _Sent:
    """What there is to await of something that is sent: nothing."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


_SENT: Final = _Sent()


class Telling:
    """The half of `Context` that never waits; see the module's text."""

    __slots__ = (
        "_blocking",
        "_loop",
        "_outbox",
        "_services",
        "_tokens",
        "request",
    )

    def __init__(self, request: RequestContext, services: Services) -> None:
        self.request = request
        self._services = services
        # Told here, on the loop's thread: a worker thread could not tell. And not asked
        # of asyncio for each call: that is a system call.
        home = request.facts.home
        if home is None:
            thread = get_ident()
            home = services.running
            if home is None or home[0] != thread or not home[1].is_running():
                services.running = home = (thread, get_running_loop())
        self._loop = home[1]
        self._outbox: Outbox | None = None
        # The other half's, which has no constructor of its own: there is one of these
        # for each call.
        self._blocking: Blocking | None = None
        self._tokens: tuple[Token[Context], Any] | None = None

    def __repr__(self) -> str:
        """Return one readable line."""
        request = self.request
        return f"<Context {request.method} {request.id!r}, {request.revision}>"

    # What is known...

    @property
    def request_id(self) -> RequestId:
        """Its id on the wire."""
        return self.request.id

    @property
    def method(self) -> str:
        """Its method, such as ``tools/call``."""
        return self.request.method

    @property
    def meta(self) -> Mapping[str, Any]:
        """Its `_meta`, empty where it had none."""
        return self.request.meta

    @property
    def headers(self) -> Mapping[str, str]:
        """Its header fields, by lower-case name; empty off HTTP."""
        return self.request.facts.headers

    @property
    def principal(self) -> Principal | None:
        """Who asks, where that was proved; over HTTP with authorization."""
        return self.request.facts.principal

    @property
    def session(self) -> dict[str, Any]:
        """What handlers keep for a session; empty where requests stand alone."""
        return self.request.state

    @property
    def client_info(self) -> Mapping[str, Any] | None:
        """Who the client says it is, where it said so; for display only."""
        return self.request.client_info

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """What the client declared."""
        return self.request.client_capabilities

    @property
    def protocol_version(self) -> str:
        """The revision that governs the request, such as ``"2026-07-28"``."""
        return self.request.revision.name

    @property
    def lifespan(self) -> Any:
        """What the server's lifespan yielded."""
        return self._services.lifespan

    @property
    def server(self) -> Any:
        """The `Server`."""
        return self._services.server

    @property
    def is_cancelled(self) -> bool:
        """Whether the client withdrew the request, or is gone."""
        return self.request.is_cancelled

    def raise_if_cancelled(self) -> None:
        """Stop a plain function whose request was withdrawn; an async one is stopped.

        Raises:
            CancelledError: It was.
        """
        if self.request.is_cancelled:
            raise CancelledError

    def can(self, what: str) -> bool:
        """Tell whether the client can be asked for something here.

        Args:
            what: ``"sampling"``, ``"sampling.tools"``, ``"elicitation"``,
                ``"elicitation.form"``, ``"elicitation.url"`` or ``"roots"``.
        """
        return can_ask(self.request, what)

    # What is told the client...

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Tell the client how far the work is, if it asked to hear.

        A value that is not above the one before is passed over. Of values that come
        faster than a few at once, the newest is sent. Awaiting it waits for nothing.

        Raises:
            LocalProtocolError: A value is no finite number.
        """
        if "progressToken" not in self.request.meta:
            return _SENT
        for value in (progress, total):
            if value is not None and not _is_number(value):
                raise LocalProtocolError(
                    f"progress must be a finite number, got {value!r}"
                )
        self._sending().put(progress, total, message, is_log=False)
        return _SENT

    report_progress = progress
    """Another name of `progress`, the one that other libraries have."""

    def log(self, level: str, data: Json, logger: str | None = None) -> Awaitable[None]:
        """Send a log message, if the client wants to hear of that severity.

        Awaiting it waits for nothing.

        Raises:
            LocalProtocolError: The level is none of syslog's, or `data` is not JSON.
        """
        from mcpwire.server.asking.outbox import is_wanted
        from mcpwire.wire.json import Fragment, encode

        if level not in LEVELS:
            raise LocalProtocolError(
                f"the log level must be one of {', '.join(LEVELS)}, got {level!r}"
            )
        if is_wanted(level, self.request):
            # Written here, so that whoever gave it hears of it, and can change it now.
            text = Fragment(encode(data))
            self._sending().put(level, text, logger, is_log=True)
        return _SENT

    def debug(self, data: Json) -> Awaitable[None]:
        """Send a log message of that severity."""
        return self.log("debug", data)

    def info(self, data: Json) -> Awaitable[None]:
        """Send a log message of that severity."""
        return self.log("info", data)

    def warning(self, data: Json) -> Awaitable[None]:
        """Send a log message of that severity."""
        return self.log("warning", data)

    def error(self, data: Json) -> Awaitable[None]:
        """Send a log message of that severity."""
        return self.log("error", data)

    def close_stream(self, retry: float | None = None) -> None:
        """End the stream of this call, so that the client comes back for the rest.

        For work that takes long (2025-11-25 basic/transports, "Sending Messages to the
        Server"); nothing where no stream can be taken up again.

        Args:
            retry: How long the client should wait, in seconds.
        """
        close = self.request.facts.close_stream
        if close is not None:
            self._on_loop(close, retry)

    def elicitation_complete(self, elicitation_id: str | None) -> None:
        """Tell the client that its user is done at a URL; at any time, even later.

        Nothing at revisions that have no such notification.

        Args:
            elicitation_id: As `elicit_url` returned it.
        """
        session = self.request.session
        if session is None or elicitation_id is None:
            return
        if session.revision == _NOV_2025:
            params = {"elicitationId": elicitation_id}
            self._on_loop(session.send, _COMPLETED, params)

    def _sending(self) -> Outbox:
        if self._outbox is None:
            from mcpwire.server.asking.outbox import Outbox

            self._outbox = Outbox(self.request, self._loop)
        return self._outbox

    def _on_loop(self, function: Callable[..., object], *values: Any) -> None:
        if runs_here(self._loop):
            function(*values)
        else:
            from mcpwire.server.asking.outbox import call_soon

            call_soon(self._loop, function, *values)


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, float) and isfinite(value))
