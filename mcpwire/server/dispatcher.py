"""Routes requests of both eras to handlers of plain dicts, and finishes their results.

How a request opens decides its era, never its method (2026-07-28 basic/versioning)::

      _meta names a version ──► stateless: checked by itself, whatever came before
      initialize without it ──► opens a session of a revision up to 2025-11-25
      anything else ──────────► belongs to the session, or is refused without one

Both may be used on one connection. It knows no transport: a connection asks it to
`admit` a request and to `perform` it.
"""

from __future__ import annotations

from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    RPCError,
    UnsupportedVersion,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.methods import declared_extensions
from mcpwire.server.handlers import TOOLS_CALL, answer_for, check_result
from mcpwire.server.lifespan import Lifespan
from mcpwire.server.request import (
    IN_MEMORY,
    Facts,
    RequestContext,
    Session,
    check_kept,
    check_level,
)
from mcpwire.server.routes import Route, capabilities_at, check_handlers, routes_at
from mcpwire.server.telling.hub import Hub
from mcpwire.types import encode
from mcpwire.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION, SERVER_INFO
from mcpwire.versions import REVISIONS, Era, find_revision
from mcpwire.wire.json import Fragment
from mcpwire.wire.json import encode as encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.handlers import Handler
    from mcpwire.server.request import AskFn, NotifyFn
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.types.lifecycle import Implementation
    from mcpwire.versions import Revision
    from mcpwire.wire.headers import ParamHeader
    from mcpwire.wire.jsonrpc import RequestId

    HeadersFn = Callable[[Mapping[str, Any], RequestContext], tuple[ParamHeader, ...]]

__all__ = ["Dispatcher"]

_STATELESS_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of results that no revision before 2026-07-28 has."""

_CACHE_HINTS: Final = {"ttlMs": 0, "cacheScope": "private"}
"""What a cacheable result says where its handler says nothing: do not keep it."""

ASK_TIMEOUT_S: Final = 600.0
"""How long a client may take to answer: there may be a person who thinks."""

INITIALIZED: Final = "notifications/initialized"

EXCERPT: Final = 100
"""How much of a name the peer chose is repeated in an error message."""


class Dispatcher:
    """Answers the requests of any number of connections.

    Args:
        info: Who this server says it is.
        capabilities: Its `ServerCapabilities`, as a plain dict.
        methods: Handlers by method. A handler takes the params and a `RequestContext`
            and returns the result as a dict, or a coroutine of it. What it raises: an
            `RPCError` is the answer; a `ToolError` from ``tools/call`` becomes a result
            with `isError`; anything else is logged and answered with a fixed text.
        instructions: How the server wants to be used.
        revisions: What it speaks; all of them by default.
        limits: Bounds on what one client may cost.
        auth: Who may ask, over HTTP; everybody without it.
        lifespan: What handlers need while it serves.
        headers_of: Returns which arguments of a ``tools/call`` its header fields
            repeat.
        hub: Who hears that something changed; one of its own without it.
        ask_timeout: How long a client may take to answer a question, in seconds.

    Attributes:
        hub: Who hears that something changed.
        limits: As given.
        auth: As given.
        ask_timeout: As given.
        lifespan: As given, or one without anything to begin.
        revisions: What it speaks, newest first.
        is_stateless_spoken: Whether requests may stand alone.

    Raises:
        ValueError: A handler's method needs a capability that is not declared, or no
            client's request would ever reach it.
    """

    opens_later: bool = False
    """Whether a session takes time to open: it is `open_session` that does it then."""

    answers_cancelled: bool = False
    """Whether a session's request over HTTP that was cancelled is answered with the
    error -32800, for the sake of whoever waits for its POST."""

    def __init__(
        self,
        info: Implementation,
        *,
        capabilities: Mapping[str, Any],
        methods: Mapping[str, Handler],
        instructions: str | None = None,
        revisions: Iterable[Revision] = REVISIONS,
        limits: Limits = DEFAULT_LIMITS,
        auth: ResourceServer | None = None,
        lifespan: Lifespan | None = None,
        headers_of: HeadersFn | None = None,
        hub: Hub | None = None,
        ask_timeout: float | None = ASK_TIMEOUT_S,
    ) -> None:
        self._info = encode(info)
        self._stamp = {SERVER_INFO: Fragment(encode_json(self._info))}
        self._instructions = instructions
        self.revisions = tuple(sorted(revisions, reverse=True))
        self._sessions = tuple(r for r in self.revisions if r.era is Era.SESSION)
        self._alone = {r.name: r for r in self.revisions if r.era is Era.STATELESS}
        self.is_stateless_spoken = bool(self._alone)
        if not self.revisions:
            raise ValueError("a server must speak at least one revision")
        self._built_in: dict[str, Handler] = {
            "logging/setLevel": _set_level,
            "ping": _ping,
            "server/discover": self._discover,
        }
        self.hub = Hub() if hub is None else hub
        self.limits = limits
        self.auth = auth
        self.ask_timeout = ask_timeout
        self.lifespan = lifespan or Lifespan()
        self._headers_of = headers_of
        self.declare(capabilities, methods)

    def declare(
        self, capabilities: Mapping[str, Any], methods: Mapping[str, Handler]
    ) -> None:
        """Declare anew what this server can do; open sessions keep what they know.

        Raises:
            ValueError: As for the constructor; nothing has changed then.
        """
        declared = {r.name: capabilities_at(r, capabilities) for r in self.revisions}
        handlers = {**self._built_in, **methods}
        routes = {
            r.name: routes_at(r, declared[r.name], handlers, self._built_in)
            for r in self.revisions
        }
        check_handlers(methods, self.revisions, declared, routes)
        self._capabilities, self._routes = declared, routes
        self._logging = frozenset(
            n for n, each in declared.items() if "logging" in each
        )

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} {self._info['name']!r}>"

    # Requests...

    def opens_alone(self, params: Mapping[str, Any] | None) -> bool:
        """Tell whether a request opens as those of the stateless era do.

        Either required key shows it: a session's client sends neither, and a request
        with only one of them is to be refused for what it lacks.
        """
        meta = params.get("_meta") if params is not None else None
        return (
            type(meta) is dict
            and (PROTOCOL_VERSION in meta or CLIENT_CAPABILITIES in meta)
            and self.is_stateless_spoken
        )

    def admit(
        self,
        id: RequestId,
        method: str,
        params: Mapping[str, Any] | None,
        session: Session | None,
        notify: NotifyFn,
        *,
        ask: AskFn | None = None,
        facts: Facts = IN_MEMORY,
    ) -> RequestContext:
        """Decide a request's era and whether it can be answered there.

        Args:
            id: Its id.
            method: Its method.
            params: Its params.
            session: The session that its connection has, if any.
            notify: Sends what belongs to it; called on the loop's thread only.
            ask: Asks the client on its behalf, where there is a session.
            facts: What the transport knows of it.

        Raises:
            RPCError: It is refused; this is the answer.
        """
        meta = params.get("_meta") if params is not None else None
        if meta is None:
            meta = {}
        elif type(meta) is not dict:
            raise InvalidParams("params._meta must be an object")
        # As `opens_alone` tells.
        if (
            PROTOCOL_VERSION in meta or CLIENT_CAPABILITIES in meta
        ) and self.is_stateless_spoken:
            version = meta.get(PROTOCOL_VERSION)
            capabilities = meta.get(CLIENT_CAPABILITIES)
            revision = self._alone.get(version) if type(version) is str else None
            if revision is None or type(capabilities) is not dict:
                raise self._envelope_fault(version, capabilities)
            # 2026-07-28 streamable-http: a server sends no requests of its own.
            session = ask = None
        else:
            session = session or self._outside_session(method)
            revision, capabilities = session.revision, session.client_capabilities
        name = revision.name
        route = self._routes[name].get(method)
        request = RequestContext(
            id,
            method,
            meta,
            revision,
            session,
            capabilities,
            notify,
            name in self._logging,
            ask,
            params,
            facts,
            route,
        )
        if route is None or route.extension is not None:
            self._check_route(request)
        return request

    def _envelope_fault(self, version: object, capabilities: object) -> RPCError:
        """Say what is wrong; 2026-07-28 basic, "_meta", requires both on a request."""
        if type(version) is not str:
            return InvalidParams(f"params._meta needs {PROTOCOL_VERSION}, a string")
        if type(capabilities) is not dict:
            return InvalidParams(f"params._meta needs {CLIENT_CAPABILITIES}, an object")
        return self._unsupported(version)

    def _check_route(self, request: RequestContext) -> None:
        route = request.route
        if route is None:
            raise MethodNotFound(
                f"{request.method[:EXCERPT]!r} is no method of this server "
                f"at {request.revision}"
            )
        extension = route.extension
        if extension and extension not in declared_extensions(
            request.client_capabilities
        ):
            raise MissingCapability(
                f"{request.method!r} needs the extension {extension!r}",
                data={"requiredCapabilities": {"extensions": {extension: {}}}},
            )

    def _outside_session(self, method: str) -> Session:
        """Let a ping through, which 2025-11-25 basic/lifecycle allows at any time."""
        if method == "ping" and self._sessions:
            return Session(self._sessions[0], {}, {})
        raise self._no_session()

    def _no_session(self) -> RPCError:
        # On stdio nothing but `_meta` tells a request that stands alone and lacks it
        # (2026-07-28 basic, "_meta": -32602) from one that comes before its session.
        if self.is_stateless_spoken:
            hint = ", or initialize must come first" if self._sessions else ""
            return InvalidParams(
                f"params._meta needs {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}{hint}"
            )
        return InvalidRequest("initialize must come first")

    def _unsupported(self, version: str) -> UnsupportedVersion:
        return UnsupportedVersion(
            "the protocol version is not supported",
            data={
                "supported": [r.name for r in self.revisions],
                "requested": version,
            },
        )

    def is_long_lived(self, request: RequestContext) -> bool:
        """Tell whether an admitted request stays open until somebody ends it."""
        assert request.route is not None  # it is admitted
        return request.route.is_long_lived

    def param_headers(
        self, request: RequestContext, params: Mapping[str, Any]
    ) -> tuple[ParamHeader, ...]:
        """Return which arguments of an admitted request its header fields repeat."""
        if self._headers_of is None or request.method != TOOLS_CALL:
            return ()
        return self._headers_of(params, request)

    def answer_now(
        self, request: RequestContext, params: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Answer what must not wait for handlers; ``None``: `perform` it.

        Raises:
            RPCError: This is the answer.
        """
        route = request.route
        assert route is not None  # it is admitted
        if not route.is_immediate:
            return None
        result = route.handler(params, request)
        assert type(result) is dict
        request.close()
        return self._finish(request, route, result)

    async def perform(
        self, request: RequestContext, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Run the handler of an admitted request and return the finished result.

        Nothing is sent for the request afterwards.

        Raises:
            RPCError: This is the answer.
        """
        route = request.route
        assert route is not None  # it is admitted
        try:
            # As `run_handler` does it; this is for each call.
            try:
                result = route.handler(params, request)
                if type(result) is CoroutineType or isawaitable(result):
                    result = await result
            except BaseException as raised:  # noqa: BLE001 - the boundary of handlers
                result = answer_for(raised, request)
            if type(result) is not dict:
                check_result(result, request)
        finally:
            request.is_answered = True
        if request.session is not None and _STATELESS_MEMBERS.isdisjoint(result):
            return result  # as `_finish`, which has nothing to do
        return self._finish(request, route, result)

    def _finish(
        self, request: RequestContext, route: Route, result: dict[str, Any]
    ) -> dict[str, Any]:
        """Give a result what its era asks for, and nothing of another."""
        if request.session is not None:
            if _STATELESS_MEMBERS.isdisjoint(result):
                return result
            return {k: v for k, v in result.items() if k not in _STATELESS_MEMBERS}
        finished: dict[str, Any] = {"resultType": "complete", **result}
        # 2026-07-28 server/utilities/caching: hints only on complete results.
        if route.is_cacheable and finished["resultType"] == "complete":
            finished = {**_CACHE_HINTS, **finished}
            if type(finished["ttlMs"]) is not int or finished["ttlMs"] < 0:
                finished["ttlMs"] = 0  # as a client must read what is no such number
        meta = result.get("_meta")
        finished["_meta"] = {**meta, **self._stamp} if meta else self._stamp
        return finished

    # What every server answers...

    def initialize(
        self,
        params: dict[str, Any] | None,
        session: Session | None,
        facts: Facts = IN_MEMORY,
    ) -> tuple[Session, dict[str, Any]]:
        """Open a session; return it and the result.

        Whoever owns the connection sets its `send` and adds it to the `hub`.

        Raises:
            RPCError: It is refused; this is the answer.
        """
        if session is not None:
            raise InvalidRequest("the session is open already")
        fields = params or {}
        requested = _member(fields, "protocolVersion", str)
        capabilities = _member(fields, "capabilities", dict)
        client_info = _member(fields, "clientInfo", dict)
        if not self._sessions:
            # 2026-07-28 basic/versioning: name the versions in the error.
            raise self._unsupported(requested)
        check_kept(
            "params.capabilities and params.clientInfo",
            {"capabilities": capabilities, "clientInfo": client_info},
        )
        # 2025-11-25 basic/lifecycle, "Version Negotiation": that one if supported, else
        # the latest, which here is the latest that has sessions at all.
        revision = find_revision(requested)
        if revision is None or revision not in self._sessions:
            revision = self._sessions[0]
        result = {
            "protocolVersion": revision.name,
            **self._description(revision),
            "serverInfo": self._info,
        }
        session = Session(
            revision,
            client_info,
            capabilities,
            principal=facts.principal,
            owner=facts.owner,
        )
        return session, result

    def _discover(self, _: dict[str, Any], request: RequestContext) -> dict[str, Any]:
        return {
            "supportedVersions": [r.name for r in self.revisions],
            **self._description(request.revision),
        }

    def _description(self, revision: Revision) -> dict[str, Any]:
        described: dict[str, Any] = {"capabilities": self._capabilities[revision.name]}
        if self._instructions is not None:
            described["instructions"] = self._instructions
        return described

    # Sessions that take time, or outlive this process (a gateway's do)...

    async def open_session(
        self,
        params: dict[str, Any] | None,
        session: Session | None,
        facts: Facts = IN_MEMORY,
    ) -> tuple[Session, dict[str, Any]]:
        """Do what `initialize` does, in its own time; asked where `opens_later`.

        Cancelling it leaves nothing behind.

        Raises:
            RPCError: It is refused; this is the answer.
        """
        return self.initialize(params, session, facts)

    def notified(
        self, session: Session, method: str, params: dict[str, Any] | None
    ) -> None:
        """Take note of what a session's client tells; never waits or raises."""
        if method == INITIALIZED:
            session.is_initialized = True

    def session_left(self, session: Session) -> None:
        """Let go of a session, which is told once for each, however it ended."""
        self.hub.remove(session)

    async def session_closed(self, session: Session) -> None:
        """Wait until nothing goes on any more for a session that has left."""

    def new_session_id(self, session: Session) -> str | None:
        """Return the id that a session gets over HTTP; ``None``: a random one."""
        return None

    async def resume_session(self, id: str, facts: Facts) -> Session | None:
        """Return the session with an id that nobody here knows, or ``None``."""
        return None

    def withdraw_session_id(self, id: str) -> None:
        """Take note that no session is opened again by an id: its client ended it."""

    async def delete_session(self, id: str, facts: Facts) -> bool:
        """End what a session had whose id nobody here knows; tell whether it had any.

        2025-11-25 basic/transports, "Session Management": DELETE.
        """
        return False

    # Its own life...

    @property
    def needs_start(self) -> bool:
        """Whether `start` does anything."""
        return self.lifespan.is_needed

    async def start(self) -> None:
        """Be ready to perform, for one more user, who calls `aclose` when done.

        Raises:
            Exception: What the lifespan raised; there is no user more then.
        """
        await self.lifespan.start()

    async def aclose(self) -> None:
        """Let one user go; with the last one the lifespan ends."""
        await self.lifespan.aclose()

    # Connections...

    def open_in_memory(self, client: Inbound, limits: Limits) -> MemoryChannel:
        """Serve one connection in this process and return the client's end of it."""
        from mcpwire.server.connection import ServerConnection
        from mcpwire.transports.memory import memory_pair

        def contained(id: RequestId, error: BaseException) -> bool:
            return near.contained(id, error)

        connection = ServerConnection(self, contained=contained)
        near, far = memory_pair(client, connection, limits=limits)
        connection.attach(far)
        near.after_close = connection.finished
        return near


def _ping(_: dict[str, Any], __: RequestContext) -> dict[str, Any]:
    return {}


def _set_level(params: dict[str, Any], request: RequestContext) -> dict[str, Any]:
    assert request.session is not None  # the method table: sessions only
    request.session.log_level = check_level(params.get("level"))
    return {}


def _member(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if type(value) is not kind:
        expected = "a string" if kind is str else "an object"
        raise InvalidParams(f"params.{name} must be {expected}")
    return value
