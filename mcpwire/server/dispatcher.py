"""Routing of requests of both eras to handlers, which take and return plain dicts.

The params of a request decide its era, never its method (2026-07-28 basic/versioning)::

      _meta names a version ──► stateless: independent of earlier requests
      initialize without it ──► opens a session of a revision up to 2025-11-25
      any other request ──────► belongs to the session; refused if there is no session

One connection may use both. The dispatcher is independent of transports: a connection
calls `admit` and then `perform` for each request.

2025-11-25 server/tools, "Error Handling": an error inside a tool is returned as a
result, which a model can read; every other error is a JSON-RPC error. The text of an
unexpected exception may contain data that clients must not see, so it is only logged.
"""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    ResourceNotFound,
    RPCError,
    ToolError,
    UnsupportedVersion,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.methods import (
    TASKS,
    Kind,
    available_method,
    declared_extensions,
    find_method,
    is_declared,
)
from mcpwire.server.input_rounds import InputNeeded, deciding_error, finish_round
from mcpwire.server.lifespan import Lifespan
from mcpwire.server.log_limit import LimitedLogger, authors_traceback, error_kind
from mcpwire.server.notifications import Hub, subscription_result
from mcpwire.server.request import (
    EXCERPT,
    IN_MEMORY,
    RequestContext,
    RequestInfo,
    Session,
    UnsendableResult,
    check_level,
    check_retained,
    member_of,
)
from mcpwire.transports.base import Inbound, is_cancelled_here
from mcpwire.types import encode
from mcpwire.types._base import (
    CLIENT_CAPABILITIES,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from mcpwire.versions import REVISIONS, Era, Revision, find_revision
from mcpwire.wire.json import Fragment
from mcpwire.wire.json import encode as encode_json
from mcpwire.wire.jsonrpc import escape_surrogates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.request import AskFn, NotifyFn
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.types.lifecycle import Implementation
    from mcpwire.wire.jsonrpc import RequestId

    HeadersFn = Callable[[RequestContext, Mapping[str, Any]], tuple[ParamHeader, ...]]

    Answer = dict[str, Any] | Awaitable[dict[str, Any]]

    Handler = Callable[[dict[str, Any], RequestContext], Answer]

    """Takes a request's params and context; returns the result, or raises."""

    Json = dict[str, Any]

    CallNext = Callable[[Json, RequestContext], Awaitable[Json]]

    AroundRequest = Callable[[Json, RequestContext, CallNext], Awaitable[Json]]

    """Takes the params, the request and the next handler; returns the result."""

INITIALIZE: Final = "initialize"
"""The one request without a handler: it opens the session that handlers run in."""

INITIALIZED: Final = "notifications/initialized"

TOOLS_CALL: Final = "tools/call"

ASK_TIMEOUT_S: Final = 600.0
"""How long a client may take to answer, in seconds: its user may have to think."""

logger = LimitedLogger("mcpwire")

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, _JUL_2026, *_ = REVISIONS

_CAPABILITY_REVISIONS: Final = {
    "completions": (_MAR_2025, None),
    "extensions": (_JUL_2026, None),
    "tasks": (_NOV_2025, _NOV_2025),
}
"""Capabilities that not all revisions have, with the first and the last that does."""

_NEGOTIATED: Final = frozenset({TASKS})
"""Extensions that the client must declare, too, or their requests are refused. Skills
are not included: reading them needs no support by the client (SEP-2640)."""

_STATELESS_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of results that no revision before 2026-07-28 has."""

_CACHE_HINTS: Final = {"ttlMs": 0, "cacheScope": "private"}
"""The default hints of a cacheable result: do not cache."""

_STATELESS_CODES: Final = frozenset(
    {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
)
"""The codes from -32768 to -32000, the reserved range, that JSON-RPC and 2026-07-28
define; an application's own codes are outside the range."""


# Routes: the methods of each revision, computed when capabilities are declared


@attrs.frozen
class Route:
    """The handling of one method at one revision."""

    handler: Handler

    is_cacheable: bool = False
    """Whether a complete result contains cache hints."""

    extension: str | None = None
    """The extension that the client must have declared, too."""

    is_long_lived: bool = False
    """Whether it is answered only when the server or the client ends it."""

    is_immediate: bool = False
    """Whether it is answered at once, before requests that wait for handlers."""


def capabilities_at(
    revision: Revision, capabilities: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the capabilities that a revision defines."""
    supported = {}
    for name, settings in capabilities.items():
        since, until = _CAPABILITY_REVISIONS.get(name, (_NOV_2024, None))
        if since <= revision and (until is None or revision <= until):
            supported[name] = settings
    return supported


def _routes_at(
    revision: Revision,
    capabilities: Mapping[str, Any],
    handlers: Mapping[str, Handler],
    built_in: Mapping[str, Handler],
) -> dict[str, Route]:
    """Return the routes of a revision with these capabilities."""
    extensions = declared_extensions(capabilities)
    routes = {}
    for method, handler in handlers.items():
        spec = available_method(method, revision, "client", extensions)
        if spec is None:
            if find_method(method) is None:  # a method outside the protocol
                routes[method] = Route(handler)
        elif spec.kind is Kind.REQUEST and is_declared(spec, capabilities):
            routes[method] = Route(
                handler,
                is_cacheable=spec.cacheable,
                extension=spec.extension if spec.extension in _NEGOTIATED else None,
                is_long_lived=spec.long_lived,
                is_immediate=built_in.get(method) is handler,
            )
    return routes


# Handlers: return values and exceptions become responses


class HttpRefusal(Exception):
    """Mixin of errors that HTTP answers with a specific status.

    Attributes:
        http_status: The status.
        http_headers: Header fields of the response: lower-case names, and values.
    """

    http_status: int
    http_headers: tuple[tuple[str, str], ...] = ()


async def run_handler(
    handler: Handler, params: dict[str, Any], request: RequestContext
) -> dict[str, Any]:
    """Return the result of a handler, or the error result of a tool."""
    try:
        result = handler(params, request)
        if type(result) is CoroutineType or isawaitable(result):
            result = await result
    except BaseException as raised:  # noqa: BLE001 - the boundary of handlers
        return _answer_exception(raised, request)
    if type(result) is not dict:
        logger.error(
            "the handler of %s returned a %s, not a dict",
            _describe_request(request),
            type(result).__name__,
            kind=request.method,
        )
        raise InternalError("the handler failed")
    return result


def _answer_exception(raised: BaseException, request: RequestContext) -> dict[str, Any]:
    """Return the result for an exception of a handler, or raise the error response."""
    error = deciding_error(raised) if isinstance(raised, BaseExceptionGroup) else raised
    answer: RPCError | None = None
    try:
        if isinstance(error, InputNeeded):
            return finish_round(request)
        if isinstance(error, RPCError):
            answer = _convert_error(error, request)
            if answer is error:  # as its own cause it would form a reference cycle
                raise answer
            raise answer from raised
        if isinstance(error, ToolError) and request.method == TOOLS_CALL:
            return tool_failure(str(error))
        if isinstance(error, asyncio.CancelledError):
            # A cancelled request cancels its task. Any other `CancelledError` is an
            # error of the handler, and its request must get a response.
            if is_cancelled_here():
                raise error
        elif isinstance(error, (GeneratorExit, KeyboardInterrupt)):
            raise error  # the loop is shutting down
        return _hide_error(raised, request)
    finally:
        # The raised error's traceback contains this frame: these references would keep
        # the request alive until the garbage collector runs.
        del raised, error, answer


def _hide_error(error: BaseException, request: RequestContext) -> dict[str, Any]:
    """Log an unexpected error; return or raise a text for the client.

    The text is fixed, except for the reason why a result cannot be sent.
    """
    on_error = request.info.on_error
    if on_error is None or not on_error(request.id, error):
        message, kind = "the handler of %s raised", error_kind(error)
        exc_info = type(error), error, authors_traceback(error)
        logger.error(message, _describe_request(request), kind=kind, exc_info=exc_info)
    reason = str(error) if isinstance(error, UnsendableResult) else None
    if request.method == TOOLS_CALL:
        return tool_failure(reason or "the tool failed")
    raise InternalError(reason or "the handler failed") from error


def _describe_request(request: RequestContext) -> str:
    """Return a request's method, with the component that it names."""
    name = request.params.get("name", request.params.get("uri"))
    target = f" of {name[:EXCERPT]!r}" if type(name) is str else ""
    return f"{request.method!r}{target}"


def tool_failure(text: str) -> dict[str, Any]:
    """Return the result of a failed tool, with a text for the model."""
    content = [{"type": "text", "text": escape_surrogates(text)}]
    return {"content": content, "isError": True}


def is_stateless_code(code: int) -> bool:
    """Tell whether 2026-07-28 lets a server send an error code."""
    return not -32768 <= code <= -32000 or code in _STATELESS_CODES


def _convert_error(error: RPCError, request: RequestContext) -> RPCError:
    """Return an error with a code that is valid in the era of the request.

    2026-07-28 basic, "Error Codes": -32602 replaces -32002, -32042 is removed, and
    undefined codes of the reserved range MUST NOT be sent.
    """
    code = error.code
    if request.session is not None or is_stateless_code(code):
        return error
    if code == ResourceNotFound.default_code:
        return InvalidParams(error.message, data=error.data)
    logger.error("%r: a server must not send the error code %d", request.method, code)
    return InternalError("the handler failed")


def wrap_handlers(
    methods: Mapping[str, Handler],
    middleware: Sequence[tuple[str | None, AroundRequest]],
) -> dict[str, Handler]:
    """Return the handlers wrapped in middleware; the first one is the outermost.

    A middleware with a method wraps that method only, one without wraps all methods.
    """
    wrapped = dict(methods)
    for selected, around in reversed(middleware):
        for method in wrapped if selected is None else {selected} & wrapped.keys():
            wrapped[method] = _wrap_handler(around, wrapped[method])
    return wrapped


def _wrap_handler(around: AroundRequest, handler: Handler) -> Handler:
    async def call_next(params: Json, request: RequestContext) -> Json:
        result = handler(params, request)
        return await result if isawaitable(result) else result

    async def handle(params: Json, request: RequestContext) -> Json:
        return await around(params, request, call_next)

    return handle


class Dispatcher:
    """Answers the requests of any number of connections.

    A handler takes the params and a `RequestContext` and returns the result as a dict,
    or a coroutine of it. If it raises an `RPCError`, that is the response; a
    `ToolError` from ``tools/call`` becomes a result with `isError`; any other exception
    is logged and answered with a fixed text. Raises `ValueError` for a handler if its
    method needs an undeclared capability, or is not a request from clients.
    """

    opens_in_task: bool = False
    """Whether opening a session needs an await: then `open_session` must be used."""

    answers_cancelled: bool = False
    """Whether a cancelled request of a session over HTTP is answered with the error
    -32800, because its client may wait for the response to the POST."""

    serves_session: Callable[[Session, Mapping[str, Any]], bool] | None = None
    """Returns whether a request with this ASGI scope may use an open session of its
    client; ``None``: always."""

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
        param_headers: HeadersFn = lambda _, __: (),
        hub: Hub | None = None,
        ask_timeout: float | None = ASK_TIMEOUT_S,
    ) -> None:
        self._info = encode(info)
        self._server_meta = {SERVER_INFO: Fragment(encode_json(self._info))}
        self._instructions = instructions
        self.revisions = tuple(sorted(revisions, reverse=True))
        self._session_revisions = tuple(
            r for r in self.revisions if r.era is Era.SESSION
        )
        self._stateless_revisions = {
            r.name: r for r in self.revisions if r.era is Era.STATELESS
        }
        self.supports_stateless = bool(self._stateless_revisions)
        if not self.revisions:
            raise ValueError("a server needs at least one revision")
        self._built_in_handlers: dict[str, Handler] = {
            "logging/setLevel": _set_level,
            "ping": lambda _, __: {},
            "server/discover": self._discover,
        }
        self.hub = Hub() if hub is None else hub
        self.limits = limits
        self.auth = auth
        self.ask_timeout = ask_timeout
        self.lifespan = lifespan or Lifespan()
        # The arguments of a tool's call that header fields repeat.
        self.param_headers = param_headers
        self.declare(capabilities, methods)

    def declare(
        self, capabilities: Mapping[str, Any], methods: Mapping[str, Handler]
    ) -> None:
        """Replace capabilities and handlers; open sessions keep the declared ones."""
        declared = {r.name: capabilities_at(r, capabilities) for r in self.revisions}
        handlers = {**self._built_in_handlers, **methods}
        routes = {
            r.name: _routes_at(r, declared[r.name], handlers, self._built_in_handlers)
            for r in self.revisions
        }
        for method in methods:
            self._check_reachable(method, declared, routes)
        self._capabilities, self._routes = declared, routes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._info['name']!r}>"

    def _check_reachable(
        self,
        method: str,
        capabilities: Mapping[str, Mapping[str, Any]],
        routes: Mapping[str, Mapping[str, Route]],
    ) -> None:
        """Refuse a handler that the newest revision with its method cannot reach."""
        spec = find_method(method)
        if spec is None:
            return
        for revision in self.revisions:
            extensions = declared_extensions(capabilities[revision.name])
            if available_method(method, revision, "client", extensions) is not None:
                if method in routes[revision.name] and method != INITIALIZE:
                    return
                break
        needed = spec.extension or spec.capability
        if needed is None or "client" not in spec.senders:
            raise ValueError(f"{method!r} is not a request that a handler can answer")
        raise ValueError(
            f"the handler of {method!r} needs the capability {needed!r} to be declared"
        )

    # Requests

    def is_stateless_request(self, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request has the `_meta` of the stateless era.

        One of the two required keys suffices: clients with a session send neither, and
        a request with only one is refused because the other one is missing.
        """
        meta = params.get("_meta") if params is not None else None
        return (
            type(meta) is dict
            and (PROTOCOL_VERSION in meta or CLIENT_CAPABILITIES in meta)
            and self.supports_stateless
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
        info: RequestInfo = IN_MEMORY,
    ) -> RequestContext:
        """Determine the era of a request; raise an `RPCError` if it is refused."""
        meta = params.get("_meta") if params is not None else None
        if meta is None:
            meta = {}
        elif type(meta) is not dict:
            raise InvalidParams("params._meta must be an object")
        if self.is_stateless_request(params):
            version = meta.get(PROTOCOL_VERSION)
            capabilities = meta.get(CLIENT_CAPABILITIES)
            revision = (
                self._stateless_revisions.get(version) if type(version) is str else None
            )
            if revision is None or type(capabilities) is not dict:
                raise self._meta_error(version, capabilities)
            if LOG_LEVEL in meta:
                # 2026-07-28 server/utilities/logging: unknown levels: invalid params.
                check_level(meta[LOG_LEVEL])
            # 2026-07-28 streamable-http: a server sends no requests.
            session = ask = None
        else:
            session = session or self._ping_session(method)
            revision, capabilities = session.revision, session.client_capabilities
        name = revision.name
        route = self._routes[name].get(method)
        if route is None:
            raise MethodNotFound(
                f"{method[:EXCERPT]!r} is not a method of this server at {revision}"
            )
        if route.extension is not None:
            _check_extension(route.extension, method, capabilities)
        return RequestContext(
            id,
            method,
            meta,
            revision,
            session,
            capabilities,
            notify,
            "logging" in self._capabilities[name],
            route,
            ask,
            params or {},
            info,
        )

    def _meta_error(self, version: object, capabilities: object) -> RPCError:
        """Return the fault: 2026-07-28 basic, "_meta", requires both keys."""
        if type(version) is not str:
            return InvalidParams(f"params._meta needs {PROTOCOL_VERSION}, a string")
        if type(capabilities) is not dict:
            return InvalidParams(f"params._meta needs {CLIENT_CAPABILITIES}, an object")
        return self._unsupported_version(version)

    def _ping_session(self, method: str) -> Session:
        """Return a session for a ping, always allowed by 2025-11-25 basic/lifecycle."""
        if method == "ping" and self._session_revisions:
            return Session(self._session_revisions[0], {}, {})
        # 2026-07-28 basic, "_meta": -32602 for a stateless request without its `_meta`,
        # which on stdio looks the same as a request before its session.
        if self.supports_stateless:
            hint = ", or initialize must come first" if self._session_revisions else ""
            raise InvalidParams(
                f"params._meta needs {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}{hint}"
            )
        raise InvalidRequest("initialize must come first")

    def _unsupported_version(self, version: str) -> UnsupportedVersion:
        return UnsupportedVersion(
            "the protocol version is not supported",
            data={"supported": [r.name for r in self.revisions], "requested": version},
        )

    def answer_now(
        self, request: RequestContext, params: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return the result of an immediate route; ``None``: `perform` the request."""
        route = request.route
        if not route.is_immediate:
            return None
        result = route.handler(params, request)
        assert type(result) is dict
        request.close()
        return self._finish_result(request, result)

    async def perform(
        self, request: RequestContext, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Run the handler of a request; afterwards nothing more is sent for it."""
        try:
            result = await run_handler(request.route.handler, params, request)
        finally:
            request.is_answered = True
        return self._finish_result(request, result)

    def end_subscription(self, request: RequestContext) -> dict[str, Any]:
        """Return the result of a long-lived request that the server ends now."""
        request.close()
        return self._finish_result(request, subscription_result(request))

    def _finish_result(
        self, request: RequestContext, result: dict[str, Any]
    ) -> dict[str, Any]:
        """Add the members of a result that its era requires; remove invalid ones."""
        if request.session is not None:
            if _STATELESS_MEMBERS.isdisjoint(result):
                return result
            return {k: v for k, v in result.items() if k not in _STATELESS_MEMBERS}
        finished: dict[str, Any] = {"resultType": "complete", **result}
        # 2026-07-28 server/utilities/caching: hints only on complete results.
        if request.route.is_cacheable and finished["resultType"] == "complete":
            finished = {**_CACHE_HINTS, **finished}
            if type(finished["ttlMs"]) is not int or finished["ttlMs"] < 0:
                finished["ttlMs"] = 0  # clients must read an invalid number as 0
        meta = result.get("_meta")
        finished["_meta"] = {**meta, **self._server_meta} if meta else self._server_meta
        return finished

    # Opening of sessions, discovery

    def initialize(
        self,
        params: dict[str, Any] | None,
        session: Session | None,
        info: RequestInfo = IN_MEMORY,
    ) -> tuple[Session, dict[str, Any]]:
        """Open a session; the caller sets its `send` and adds it to the `hub`."""
        if session is not None:
            raise InvalidRequest("the session is already open")
        fields = params or {}
        requested = member_of(fields, "protocolVersion", str)
        capabilities: dict[str, Any] = member_of(fields, "capabilities", dict)
        client_info: dict[str, Any] = member_of(fields, "clientInfo", dict)
        if not self._session_revisions:
            # 2026-07-28 basic/versioning: the error names the versions.
            raise self._unsupported_version(requested)
        check_retained(
            "params.capabilities and params.clientInfo",
            {"capabilities": capabilities, "clientInfo": client_info},
        )
        # 2025-11-25 basic/lifecycle, "Version Negotiation": the requested revision if
        # supported, else the latest one, here the latest one with sessions.
        revision = find_revision(requested)
        if revision is None or revision not in self._session_revisions:
            revision = self._session_revisions[0]
        result = {
            "protocolVersion": revision.name,
            **self._description(revision),
            "serverInfo": self._info,
        }
        session = Session(
            revision,
            client_info,
            capabilities,
            principal=info.principal,
            owner=info.owner,
        )
        return session, result

    def _discover(self, _: dict[str, Any], request: RequestContext) -> dict[str, Any]:
        return {
            "supportedVersions": [r.name for r in self.revisions],
            **self._description(request.revision),
        }

    def _description(self, revision: Revision) -> dict[str, Any]:
        result: dict[str, Any] = {"capabilities": self._capabilities[revision.name]}
        if self._instructions is not None:
            result["instructions"] = self._instructions
        return result

    # Hooks for a gateway, with sessions that open asynchronously or outlive the process

    async def open_session(
        self,
        params: dict[str, Any] | None,
        session: Session | None,
        info: RequestInfo = IN_MEMORY,
    ) -> tuple[Session, dict[str, Any]]:
        """Open a session asynchronously; if cancelled, leave no state behind."""
        return self.initialize(params, session, info)

    def on_notification(
        self, session: Session, method: str, params: dict[str, Any] | None
    ) -> None:
        """Handle a notification of a session's client; must not wait or raise."""
        if method == INITIALIZED:
            session.is_initialized = True

    def discard_session(self, session: Session) -> None:
        """Discard a session; called once for each, however it ended."""
        session.is_closed = True
        self.hub.remove(session)

    async def wait_session_closed(self, session: Session) -> None:
        """Wait for the cleanup of a session that has ended."""

    def new_session_id(self, session: Session) -> str | None:
        """Return the HTTP session id of a session; ``None``: a random id."""
        return None

    async def resume_session(self, id: str, info: RequestInfo) -> Session | None:
        """Return a session by an id that this process does not know, or ``None``."""
        return None

    def withdraw_session_id(self, id: str) -> None:
        """Prevent the resumption of a session that its client has ended."""

    async def delete_session(self, id: str, info: RequestInfo) -> bool:
        """End a session that this process does not know; return whether it existed."""
        return False

    # Lifespan

    async def start(self) -> None:
        """Enter the lifespan for one more user, which later calls `aclose`."""
        await self.lifespan.start()

    async def aclose(self) -> None:
        """Release one user; after the last one the lifespan is exited."""
        await self.lifespan.aclose()

    # Connections in memory

    def open_in_memory(self, client: Inbound, limits: Limits) -> MemoryChannel:
        """Serve one connection in this process; return the client's end of it."""
        from mcpwire.server.connection import ServerConnection
        from mcpwire.transports.memory import memory_pair

        connection = ServerConnection(self)
        client_end, server_end = memory_pair(client, connection, limits=limits)
        connection.attach(server_end)
        connection.request_info = RequestInfo(on_error=client_end.raise_in_call)
        client_end.after_close = connection.finished
        return client_end


def _check_extension(
    extension: str, method: str, capabilities: Mapping[str, Any]
) -> None:
    if extension not in declared_extensions(capabilities):
        raise MissingCapability(
            f"{method!r} needs the extension {extension!r}",
            data={"requiredCapabilities": {"extensions": {extension: {}}}},
        )


def _set_level(params: dict[str, Any], request: RequestContext) -> dict[str, Any]:
    assert request.session is not None  # the method exists in sessions only
    request.session.log_level = check_level(params.get("level"))
    return {}
