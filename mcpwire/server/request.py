"""One request while it is answered, its session, and the transport's data about it.

In the stateless era a request contains all of this; in a session, `initialize` fixed it
before. Handlers need not distinguish: they get one `RequestContext`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from mcpwire.errors import InvalidParams, LocalProtocolError
from mcpwire.protocol.methods import LEVELS
from mcpwire.types._base import CLIENT_INFO, LOG_LEVEL
from mcpwire.versions import REVISIONS, Era, Revision
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import RequestId, is_request_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcpwire.server.auth.resource_server import Principal, PrincipalKey
    from mcpwire.server.dispatcher import Route
    from mcpwire.server.input_rounds import InputRounds

    NotifyFn = Callable[[str, dict[str, Any]], None]
    """Sends a notification that belongs to one request. Must not block or raise."""

    AskFn = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
    """Sends a request to the client and returns its result."""

    NamedAskFn = Callable[[str, dict[str, Any], str | None], Awaitable[dict[str, Any]]]
    """The same, with an optional key for the question."""

    Owner: TypeAlias = PrincipalKey | str
    """A principal's key, or the network of an address."""

EXCERPT: Final = 100
"""How many characters of a client's name logs and errors repeat."""

T = TypeVar("T")

# 2024-11-05 has progress without a message.
_MESSAGES_SINCE: Final = REVISIONS[1]

RETAINED_BYTES: Final = 64 * 1024
"""How many bytes of a client's own data outlive the request."""

_VALUE_BYTES: Final = 64
"""The memory of a value in addition to its text, as of an empty object."""


# Frozen by a setter: one is created for each call over HTTP, and attrs creates frozen
# objects five times as slowly.
@attrs.define(kw_only=True, eq=False, on_setattr=attrs.setters.frozen)
class RequestInfo:
    """The transport's data about a request, in addition to its message."""

    transport: str = "memory"
    """``"stdio"``, ``"memory"`` or ``"http"``."""

    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """The header fields by lower-case name, without credentials."""

    principal: Principal | None = None
    """The authenticated principal, if any."""

    scope: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """The ASGI scope of the request; empty on other transports."""

    close_stream: Callable[[float | None], None] | None = None
    """Ends the response stream of this request, so that the client reconnects for the
    rest; takes the delay in seconds. ``None``: the stream cannot be resumed."""

    on_error: Callable[[RequestId, BaseException], bool] | None = None
    """Gets exceptions that the client must not see; returns whether it raised them in
    the caller, which runs in the same process."""

    @property
    def address(self) -> str | None:
        """The IP address of the client, from the web server; ``None`` without HTTP."""
        client = self.scope.get("client")
        return client[0] if client else None

    @property
    def owner(self) -> Owner:
        """The client that a request counts for in shared pools.

        Its principal, else the network of its address: a /64 for IPv6.
        """
        if self.principal is not None:
            return self.principal.key
        if self.address is None:
            return ""
        from mcpwire.wire.urls import network_of  # not needed on stdio

        return network_of(self.address)


IN_MEMORY: Final = RequestInfo()


@attrs.define(eq=False)
class Session:
    """The outcome of `initialize` for one connection (revisions up to 2025-11-25)."""

    revision: Revision

    client_info: Mapping[str, Any]

    client_capabilities: Mapping[str, Any]

    # 2025-11-25 server/utilities/logging: until the client sets a level, the server
    # chooses.
    log_level: str = "info"
    """The minimum severity of log messages; `logging/setLevel` changes it."""

    is_initialized: bool = False
    """Whether the client has sent `notifications/initialized`."""

    id: str | None = attrs.field(default=None, repr=False)
    """Its id over HTTP, which is a secret; ``None`` on other transports."""

    principal: Principal | None = None
    """The authenticated principal that opened it, if any."""

    owner: Owner = ""
    """The client that it counts for: `RequestInfo.owner`."""

    state: dict[str, Any] = attrs.field(factory=dict, repr=False)
    """The state of handlers for it."""

    subscribed: frozenset[str] = attrs.field(default=frozenset(), repr=False)
    """The URIs of the resources that the client subscribed to."""

    send: NotifyFn = attrs.field(default=lambda *_: None, repr=False)
    """Sends a notification that belongs to no request."""

    ask: AskFn | None = attrs.field(default=None, repr=False)
    """Sends a request outside of any call; ``None`` if the connection cannot."""

    end: Callable[[], object] | None = attrs.field(default=None, repr=False)
    """Ends it as its client could; ``None`` on transports without session ids."""

    is_closed: bool = False
    """Whether it has ended."""

    def on_change(self, method: str, uri: str | None) -> None:
        """Notify the client of a changed list, or of a subscribed resource."""
        # 2025-11-25 basic/lifecycle, "Initialization": only pings and logs before
        # the client's `initialized` notification.
        if not self.is_initialized or self.is_closed:
            return
        if uri is None:
            self.send(method, {})
        elif uri in self.subscribed:
            self.send(method, {"uri": uri})


class UnsendableResult(LocalProtocolError):
    """A result without a JSON form; its text is for the client, too."""


def check_retained(what: str, value: Mapping[str, Any]) -> None:
    """Refuse a client's object that is too large to outlive its request.

    Its size is the length of its JSON text and 64 bytes for each value in it.
    """
    try:
        size = len(encode(value))
    except LocalProtocolError as error:
        raise InvalidParams(
            f"{what} cannot be kept: it is nested too deeply"
        ) from error
    pending: list[Any] = [value] if size <= RETAINED_BYTES else []
    while pending:
        size += _VALUE_BYTES
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, (list, tuple)):
            pending += item
    if size > RETAINED_BYTES:
        raise InvalidParams(
            f"{what} must take at most {RETAINED_BYTES} bytes, got {size} "
            f"({_VALUE_BYTES} for each value and the length of the JSON text): send "
            "less of it"
        )


def member_of(
    members: Mapping[str, Any], name: str, kind: type[T], where: str = "params"
) -> T:
    """Return a required member of params, which must be of that type."""
    value = members.get(name)
    if type(value) is not kind:
        expected = "a string" if kind is str else "an object"
        raise InvalidParams(f"{where}.{name} must be {expected}")
    return value


def check_level(level: object) -> str:
    """Return a checked log level. Raises `InvalidParams`."""
    if type(level) is not str or level not in LEVELS:
        raise InvalidParams(f"the log level must be one of {', '.join(LEVELS)}")
    return level


# The fields are positional for speed: one is created for each call.
@attrs.define(eq=False, repr=False)
class RequestContext:
    """One request while it is answered."""

    id: RequestId
    method: str
    meta: Mapping[str, Any]
    """Its `_meta`; empty if it has none."""

    revision: Revision
    session: Session | None
    """Its session; ``None`` in the stateless era."""

    client_capabilities: Mapping[str, Any]
    """The capabilities that the client declared, for this request or the session."""

    _notify: NotifyFn
    _can_log: bool
    route: Route
    """How the request is handled."""

    _ask: AskFn | None = None
    params: Mapping[str, Any] = attrs.field(factory=dict)
    """Its params; empty if it has none."""

    info: RequestInfo = IN_MEMORY
    rounds: InputRounds | None = attrs.field(default=None, init=False)
    """Its questions and answers so far, if there are any and the client answers with
    the next request (2026-07-28 basic/patterns/mrtr)."""

    is_answered: bool = attrs.field(default=False, init=False)
    """Whether the response is ready or being sent."""

    is_cancelled: bool = attrs.field(default=False, init=False)
    """Whether the request was cancelled, or the client has disconnected."""

    _named_ask: NamedAskFn | None = attrs.field(default=None, init=False)
    _state: dict[str, Any] | None = attrs.field(default=None, init=False)
    _progress: float | None = attrs.field(default=None, init=False)

    def __repr__(self) -> str:
        return f"<RequestContext {self.method} {self.id!r}, {self.revision}>"

    @property
    def era(self) -> Era:
        """The era of the request: with a session or stateless."""
        return self.revision.era

    @property
    def client_info(self) -> Mapping[str, Any] | None:
        """The client's name and version, if it sent them; for display only."""
        if self.session is not None:
            return self.session.client_info
        info = self.meta.get(CLIENT_INFO)
        return info if type(info) is dict else None

    @property
    def is_open(self) -> bool:
        """Whether the response is pending; after it nothing is sent."""
        return not (self.is_answered or self.is_cancelled)

    def close(self) -> None:
        """Send nothing more for this request: its response is ready."""
        self.is_answered = True

    @property
    def state(self) -> dict[str, Any]:
        """The state of handlers: for the session, or for a stateless request."""
        if self.session is not None:
            return self.session.state
        if self._state is None:
            self._state = {}
        return self._state

    @property
    def can_ask(self) -> bool:
        """Whether `ask` reaches the client before this request is answered."""
        return self._ask is not None or self._named_ask is not None

    def for_task(self, *, ask: NamedAskFn | None, notify: NotifyFn) -> RequestContext:
        """Return a copy for a handler that runs on after this request is answered."""
        # The response stream of this request does not belong to the copy.
        info = attrs.evolve(self.info, close_stream=None)
        copy: RequestContext = attrs.evolve(self, ask=None, notify=notify, info=info)
        copy._named_ask = ask
        copy.rounds = self.rounds
        copy._state = self._state
        return copy

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification that belongs to this request, while it is open."""
        if self.is_open:
            self._notify(method, params)

    async def ask(
        self, method: str, params: dict[str, Any], *, key: str | None = None
    ) -> dict[str, Any]:
        """Send a request to the client; return its result.

        Args:
            method: The method.
            params: Its params.
            key: The question's key, which tasks use.

        Raises:
            LocalProtocolError: The revision has no requests of servers: answer with
                an input-required result instead.
            RPCError: The client returned an error.
            RequestTimeout: The client did not answer in time; the request is cancelled.
        """
        if self._named_ask is not None:
            return await self._named_ask(method, params, key)
        if self._ask is None:
            raise LocalProtocolError(
                f"{self.method}: a server may not ask {method!r} of its own at "
                f"{self.revision}"
            )
        return await self._ask(method, params)

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification, if the client requested progress.

        A value that is not above the previous one is dropped, and so is every value
        after the response.

        Raises:
            LocalProtocolError: A value is not finite.
        """
        token = self.meta.get("progressToken")
        if not is_request_id(token) or not self.is_open:
            return
        if self._progress is not None and not progress > self._progress:
            # 2026-07-28 basic/patterns/progress: the value MUST increase each time.
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and self.revision >= _MESSAGES_SINCE:
            params["message"] = message
        self._notify("notifications/progress", params)
        self._progress = progress

    def wants_log(self, level: str) -> bool:
        """Return whether the client requested log messages of that severity.

        2026-07-28 server/utilities/logging: a server that does not declare `logging`
        sends none, and a request that names no level gets none. In a session the level
        of the session applies.

        Raises:
            LocalProtocolError: The level is not one of `LEVELS`.
        """
        if level not in LEVELS:
            raise LocalProtocolError(
                f"the log level must be one of {', '.join(LEVELS)}, got {level!r}"
            )
        session = self.session
        minimum = self.meta.get(LOG_LEVEL) if session is None else session.log_level
        return (
            minimum is not None
            and self._can_log
            and self.is_open
            and LEVELS.index(level) >= LEVELS.index(minimum)
        )

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message, if the client requested messages of that severity.

        Raises:
            LocalProtocolError: The level is not one of `LEVELS`, or `data` is not JSON.
        """
        if self.wants_log(level):
            fields = {} if logger is None else {"logger": logger}
            self._notify(
                "notifications/message", {"level": level, **fields, "data": data}
            )
