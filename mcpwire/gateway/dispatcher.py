"""Dispatcher that answers the requests of clients by the servers of a gateway.

`initialize` connects to the servers of a session. If their capabilities are cached
(`Descriptions`), the session connects with its first request instead. Stateless
requests of the same client for the same servers share a set of connections.

The data kept by a session id is enough to open the session again: see `session_ids`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpwire.errors import InternalError, InvalidRequest, ResourceNotFound, RPCError
from mcpwire.gateway.catalog import Descriptions
from mcpwire.gateway.forwarding import apply_headers
from mcpwire.gateway.merging import CAPABILITIES
from mcpwire.gateway.plan import BY_PATH
from mcpwire.gateway.routes import SERVED, routes
from mcpwire.gateway.session_ids import ChosenServer, SessionData
from mcpwire.gateway.subscriptions import forget_session, notify_roots_changed
from mcpwire.gateway.upstreams import CLOSED, Upstreams, UpstreamsBusy
from mcpwire.protocol.methods import available_method, declared_extensions
from mcpwire.server.dispatcher import (
    INITIALIZED,
    Dispatcher,
    HttpRefusal,
    capabilities_at,
    is_stateless_code,
    wrap_handlers,
)
from mcpwire.server.request import IN_MEMORY, RequestInfo, Session, check_retained
from mcpwire.transports.http.target import Http
from mcpwire.types._base import TRACE_KEYS
from mcpwire.versions import LATEST, find_revision
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from mcpwire.gateway.gateway import Gateway
    from mcpwire.gateway.plan import Plan
    from mcpwire.gateway.tasks import RouteHandler
    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.server.auth.resource_server import PrincipalKey
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.request import RequestContext
    from mcpwire.versions import Revision

    Json = dict[str, Any]

REQUESTER: Final = "mcpwire.gateway"
"""Key of the `Requester` in the state of a request."""

DISCOVER_WAIT_S: Final = 3.0
"""Seconds that ``server/discover`` waits for connections to servers: after a longer
silence, clients assume a server that supports sessions only."""

NONCE_BYTES: Final = 16

_CLIENT_INFO_MEMBERS: Final = ("name", "title", "version")
"""Members of the client's info that a session id keeps."""


class Requester(NamedTuple):
    """The client of requests that share a set of connections."""

    identity: Hashable
    """Key of the set: equal for requests of the same client for the same servers,
    whatever capabilities they declare."""

    plan: Plan
    headers: Mapping[str, str]
    capabilities: Mapping[str, Any]
    revision: Revision
    owner: PrincipalKey | None
    """The authenticated principal, if any."""

    def extended_key(self) -> Hashable:
        """Return the key of a set for clients that declare the same capabilities."""
        return self.identity, encode(dict(self.capabilities))


class _UnknownSession(HttpRefusal, InvalidRequest):
    """Error 401 for a session id that is unknown or has ended (`undecodable=401`)."""

    http_status = 401


class GatewayDispatcher(Dispatcher):
    """Dispatcher for the servers of a gateway, or for one of them.

    `only` is the name of the one server; its tools and prompts keep their names;
    ``None``: all servers; `BY_PATH`: the server that the path of a request names.
    """

    opens_in_task = True
    answers_cancelled = True

    def __init__(self, gateway: Gateway, *, only: str | None = None) -> None:
        self._gateway = gateway
        self.only = only
        self._descriptions = Descriptions()
        self._upstreams_by_session: dict[Session, Upstreams] = {}
        self._initialize_results: dict[Session, Json] = {}  # -> `initialize` result
        self._closing: dict[Session, asyncio.Task[None]] = {}
        if only == BY_PATH:
            self.serves_session = self._is_at_its_path
        super().__init__(
            gateway.info,
            capabilities=SERVED,
            methods=self._handlers(),
            revisions=gateway.revisions,
            limits=gateway.limits,
            auth=gateway.auth,
            param_headers=self._param_headers,
            ask_timeout=gateway.ask_timeout,
        )

    def _handlers(self) -> dict[str, Handler]:
        handlers: dict[str, Handler] = {
            method: partial(self._handle, handler)
            for method, handler in routes().items()
        }
        handlers["server/discover"] = self._discover_servers
        extensions = {
            revision: declared_extensions(capabilities_at(revision, SERVED))
            for revision in self._gateway.revisions
        }
        available_handlers = {
            method: handler
            for method, handler in handlers.items()
            if any(
                available_method(method, r, "client", extensions[r]) for r in extensions
            )
        }
        return wrap_handlers(available_handlers, self._gateway.around)

    def redeclare(self) -> None:
        """Apply the gateway's current middleware to all handlers."""
        self.declare(SERVED, self._handlers())

    # Servers of a request

    def _handle(
        self, handler: RouteHandler, params: Json, request: RequestContext
    ) -> Any:
        """Handle a request with its set; return an awaitable result."""
        session = request.session
        upstreams = None if session is None else self._upstreams_by_session.get(session)
        if session is None or upstreams is None:
            return self._handle_stateless(handler, params, request)
        if not upstreams.is_open:
            return self._handle_first(handler, params, request, upstreams)
        self._gateway.pool.touch(upstreams)
        if self._gateway.forward_headers:
            apply_headers(upstreams, request)
        return handler(params, request, upstreams)

    async def _handle_first(
        self,
        handler: RouteHandler,
        params: Json,
        request: RequestContext,
        upstreams: Upstreams,
    ) -> Json:
        """Connect to the servers of a session, then handle its request."""
        session = request.session
        if upstreams.is_closed:  # evicted for another client during `initialize`
            if session is not None and session.end is not None:
                session.end()
            raise UpstreamsBusy(CLOSED)
        await self._gateway.pool.open(upstreams, request.info.owner)
        # The next sessions get the current capabilities.
        self._describe_servers(upstreams, request.revision)
        if self._gateway.forward_headers:
            apply_headers(upstreams, request)
        return await handler(params, request, upstreams)

    async def _handle_stateless(
        self, handler: RouteHandler, params: Json, request: RequestContext
    ) -> Json:
        upstreams = await self._open_shared(self._requester(request), request.info)
        upstreams.users += 1
        try:
            if self._gateway.forward_headers:
                apply_headers(upstreams, request)
            return await handler(params, request, upstreams)
        except RPCError as error:
            if is_stateless_code(error.code) or isinstance(error, ResourceNotFound):
                raise
            # Codes that only sessions define are replaced by one of both eras.
            raise InternalError(error.message, data=error.data) from error
        finally:
            upstreams.users -= 1
            self._gateway.pool.mark_idle(upstreams)

    def _requester(self, request: RequestContext) -> Requester:
        """Return the client; kept in the request over HTTP, which needs it twice."""
        state = request.state if request.info.transport == "http" else {}
        requester: Requester | None = state.get(REQUESTER)
        if requester is None:
            requester = state[REQUESTER] = self.make_requester(
                request.info, request.client_capabilities
            )
        return requester

    def make_requester(
        self,
        info: RequestInfo,
        capabilities: Mapping[str, Any],
        plan: Plan | None = None,
        revision: Revision = LATEST,
    ) -> Requester:
        """Return the client of a request, or of a session that shares a set."""
        plan = plan or self.plan(info, None)
        headers = self._gateway.headers_to_forward(info)
        owner = info.principal.key if info.principal is not None else None
        forwarded: tuple[Any, ...] = ()
        if headers:  # trace context differs between requests, not clients
            forwarded = tuple(
                sorted(field for field in headers.items() if field[0] not in TRACE_KEYS)
            )
        identity = (plan.key, revision.name, owner, forwarded)
        return Requester(identity, plan, headers, capabilities, revision, owner)

    async def _open_shared(self, requester: Requester, info: RequestInfo) -> Upstreams:
        """Return the shared set of a client; open it if it is not open.

        A server of 2026-07-28 gets the client's capabilities with each request, so one
        set serves all of them. A server with a session gets them once, so that other
        capabilities need another set.
        """
        upstreams = self._find_shared(requester)
        if upstreams is not None:
            return upstreams
        check_retained("the client's capabilities", requester.capabilities)
        gateway = self._gateway
        make = partial(Upstreams, gateway, requester)
        upstreams = await gateway.pool.open_shared(requester.identity, info.owner, make)
        if upstreams.serves(requester.capabilities):
            return upstreams
        key = requester.extended_key()
        return await gateway.pool.open_shared(key, info.owner, make)

    def _find_shared(self, requester: Requester) -> Upstreams | None:
        """Return the shared set of a client if it is open."""
        pool = self._gateway.pool
        upstreams = pool.find(requester.identity)
        if upstreams is not None and upstreams.serves(requester.capabilities):
            return upstreams
        return pool.find(requester.extended_key())

    def _param_headers(
        self, request: RequestContext, params: Mapping[str, Any]
    ) -> tuple[ParamHeader, ...]:
        """Return the arguments of a tool call that its header fields mirror."""
        name = params.get("name")
        upstreams = self._find_shared(self._requester(request))
        if upstreams is None or type(name) is not str:
            return ()
        return upstreams.catalog.param_headers(name)

    def plan(self, info: RequestInfo, params: Mapping[str, Any] | None) -> Plan:
        """Return the plan of the servers for a client."""
        server = info.scope.get(BY_PATH) if self.only == BY_PATH else self.only
        plan = self._gateway.complete_plan(
            self._gateway.source.plan(info, params), server
        )
        if self.only == BY_PATH and not plan.servers:
            raise InvalidRequest(f"no server that was chosen is called {server!r}")
        return plan

    # Sessions

    async def open_session(
        self,
        params: Json | None,
        session: Session | None,
        info: RequestInfo = IN_MEMORY,
    ) -> tuple[Session, Json]:
        """Open a session; connect to its servers unless their description is cached."""
        new_session, result = super().initialize(params, session, info)
        opening = self._begin_session(new_session, self.plan(info, params), info)
        if self._gateway.trace is not None:
            opening = self._gateway.trace.watch(opening, "initialize", params)
        result |= await opening
        self._initialize_results[new_session] = result
        return new_session, result

    def initialize(
        self,
        params: Json | None,
        session: Session | None,
        info: RequestInfo = IN_MEMORY,
    ) -> tuple[Session, Json]:
        """Handle `initialize`; for an open session, return its first result again."""
        if session is not None and session in self._initialize_results:
            return session, self._initialize_results[session]
        return super().initialize(params, session, info)

    async def _begin_session(
        self, session: Session, plan: Plan, info: RequestInfo
    ) -> Json:
        """Assign a set to a session; return its capabilities and instructions."""
        gateway, revision = self._gateway, session.revision
        requester = self.make_requester(
            info, session.client_capabilities, plan, revision
        )
        if gateway.share == "identity":
            upstreams = await self._open_shared(requester, info)
            upstreams.users += 1
            upstreams.sessions.add(session)
            self._upstreams_by_session[session] = upstreams
            return self._describe_servers(upstreams, revision)
        upstreams = Upstreams(gateway, requester, session)
        upstreams.may_end = info.transport == "http"
        gateway.pool.session_sets.add(upstreams)
        self._upstreams_by_session[session] = upstreams
        description = self._descriptions.find(plan, revision, requester.headers)
        if description is None:
            try:
                await gateway.pool.open(upstreams, info.owner)
            except BaseException:
                self._upstreams_by_session.pop(session, None)
                gateway.pool.close(upstreams)
                raise
            description = self._describe_servers(upstreams, revision)
        return description

    def _is_at_its_path(self, session: Session, scope: Mapping[str, Any]) -> bool:
        upstreams = self._upstreams_by_session.get(session)
        return upstreams is not None and upstreams.plan.only_server == scope[BY_PATH]

    def sessions_of(self, id: str) -> list[Session]:
        """Return the open sessions with an id, one at most."""
        return [session for session in self._upstreams_by_session if session.id == id]

    def on_notification(
        self, session: Session, method: str, params: Json | None
    ) -> None:
        """Handle a client's notification; relay changes of its roots to the servers."""
        super().on_notification(session, method, params)
        upstreams = self._upstreams_by_session.get(session)
        if upstreams is None:
            return
        if method == INITIALIZED:
            upstreams.hub.add(session)
        elif method == "notifications/roots/list_changed":
            notify_roots_changed(upstreams)

    def discard_session(self, session: Session) -> None:
        """Start closing the set of an ended session, or stop using a shared one."""
        super().discard_session(session)
        self._initialize_results.pop(session, None)
        upstreams = self._upstreams_by_session.pop(session, None)
        if upstreams is None:
            return
        upstreams.hub.remove(session)
        if session in upstreams.sessions:
            upstreams.sessions.discard(session)
            forget_session(upstreams, session)
            upstreams.users -= 1
            self._gateway.pool.mark_idle(upstreams)
            return
        closing = self._closing[session] = self._gateway.pool.close(upstreams)
        closing.add_done_callback(lambda _: self._closing.pop(session, None))

    async def wait_session_closed(self, session: Session) -> None:
        """Wait until the connections of an ended session are closed."""
        closing = self._closing.get(session)
        if closing is not None:
            await asyncio.wait((closing,))

    # Session ids (HTTP only)

    def new_session_id(self, session: Session) -> str | None:
        """Return a new id for a session; ``None``: the session has no set."""
        upstreams = self._upstreams_by_session.get(session)
        if upstreams is None:
            return None
        principal, info = session.principal, session.client_info
        servers = None
        if hasattr(self._gateway.source, "plan_of"):
            servers = _chosen_servers(upstreams.plan)
        data = SessionData(
            nonce=secrets.token_urlsafe(NONCE_BYTES),
            revision=session.revision.name,
            only_server=upstreams.plan.only_server,
            client_info={k: info[k] for k in _CLIENT_INFO_MEMBERS if k in info},
            client_capabilities=session.client_capabilities,
            owner=None if principal is None else principal.key,
            client=session.owner,
            servers=servers,
            upstream_sessions={
                name: id
                for name, upstream in upstreams.members.items()
                if (id := upstream.client.session_id) is not None
            },
        )
        return self._gateway.sessions.issue(data)

    def _read_id(
        self, id: str, info: RequestInfo
    ) -> tuple[SessionData, Revision] | None:
        """Return the data of a session id, if the request is of its owner."""
        data = self._gateway.sessions.read(id)
        if data is None:
            return None
        is_served = data.only_server == info.scope.get(BY_PATH, self.only)
        # 2025-11-25 security best practices, "Session Hijacking": an id is no proof.
        owner = None if info.principal is None else info.principal.key
        revision = find_revision(data.revision)
        if not is_served or data.owner != owner or revision not in self.revisions:
            return None
        assert revision is not None
        return data, revision

    async def resume_session(self, id: str, info: RequestInfo) -> Session | None:
        """Open the session of an id again, with new connections; ``None``: unknown id.

        The sessions at the servers are new, too: their state, the subscriptions and the
        log level are lost.
        """
        stored = self._read_id(id, info)
        if stored is None:
            if self._gateway.sessions.undecodable == 401:
                raise _UnknownSession("the session is unknown or has ended")
            return None
        data, revision = stored
        session = Session(
            revision,
            data.client_info,
            data.client_capabilities,
            principal=info.principal,
            owner=info.owner,
        )
        self._initialize_results[session] = {
            "protocolVersion": revision.name,
            **await self._begin_session(session, self._plan_of(data, info), info),
            "serverInfo": self._info,
        }
        if self._gateway.sessions.read(id) is None:  # withdrawn during the await
            self.discard_session(session)
            return None
        return session

    def withdraw_session_id(self, id: str) -> None:
        """Withdraw a session id, so that it cannot open the session again."""
        self._gateway.sessions.withdraw(id)

    async def delete_session(self, id: str, info: RequestInfo) -> bool:
        """End the servers' sessions of a kept session; return whether it was known."""
        stored = self._read_id(id, info)
        if stored is None:
            return False
        from mcpwire.gateway.sessions import end_sessions

        self.withdraw_session_id(id)
        plan = self._plan_of(stored[0], info)
        await end_sessions(plan, stored[0].upstream_sessions, self._gateway.limits)
        return True

    def _plan_of(self, data: SessionData, info: RequestInfo) -> Plan:
        """Return the plan of a stored session."""
        if data.servers is None:
            return self.plan(info, None)
        plan_of: Any = getattr(self._gateway.source, "plan_of", None)
        if plan_of is None:
            raise InvalidRequest("the gateway no longer lets clients choose servers")
        try:
            return self._gateway.complete_plan(plan_of(data.servers), data.only_server)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None

    # Combined description of the servers

    async def _discover_servers(self, _: Json, request: RequestContext) -> Json:
        """Handle ``server/discover``; after a time limit, with all capabilities."""
        requester, revision = self._requester(request), request.revision
        description = self._descriptions.find(
            requester.plan, revision, requester.headers
        )
        if description is None:
            description = {"capabilities": CAPABILITIES}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISCOVER_WAIT_S):
                    upstreams = await self._open_shared(requester, request.info)
                description = self._describe_servers(upstreams, revision)
        return {
            "supportedVersions": [revision.name for revision in self.revisions],
            **description,
        }

    def _describe_servers(self, upstreams: Upstreams, revision: Revision) -> Json:
        """Return the servers' capabilities and instructions, and cache them."""
        capabilities = upstreams.capabilities(revision)
        description: Json = {"capabilities": capabilities_at(revision, capabilities)}
        instructions = upstreams.instructions()
        if instructions is not None:
            description["instructions"] = instructions
        if self._gateway.on_error == "skip":
            self._descriptions.put(
                upstreams.plan,
                revision,
                description,
                headers=upstreams.headers,
                is_complete=capabilities is not CAPABILITIES,
            )
        return description

    # Life cycle

    async def start(self) -> None:
        """Start the dispatcher, and hold the gateway until `aclose`."""
        await super().start()
        self._gateway.acquire()

    async def aclose(self) -> None:
        """Close the dispatcher; its last user closes all connections to servers."""
        await super().aclose()
        await self._gateway.release()


def _chosen_servers(plan: Plan) -> tuple[ChosenServer, ...]:
    return tuple(
        ChosenServer(
            url=planned.target.url,
            name=planned.name,
            headers={} if callable(own := planned.target.headers) else own or {},
        )
        for planned in plan.servers
        if isinstance(planned.target, Http)
    )
