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
from mcpwire.gateway.downstream import Downstream
from mcpwire.gateway.forwarding import take_headers
from mcpwire.gateway.plan import BY_PATH
from mcpwire.gateway.routes import CAPABILITIES, SERVED, routes
from mcpwire.gateway.session_ids import Chosen, Kept
from mcpwire.gateway.subscriptions import forget_session, roots_changed
from mcpwire.gateway.translation import TaskIds
from mcpwire.gateway.upstreams import CLOSED, Upstreams, UpstreamsBusy
from mcpwire.protocol.methods import available, declared_extensions
from mcpwire.protocol.request_state import ANONYMOUS
from mcpwire.server.dispatcher import (
    INITIALIZED,
    Dispatcher,
    HttpRefusal,
    capabilities_at,
    is_stateless_code,
    wrap,
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
    from mcpwire.gateway.tasks import Answer
    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.server.auth.resource_server import PrincipalKey
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.request import RequestContext
    from mcpwire.versions import Revision

    Json = dict[str, Any]

ROOTS_CHANGED: Final = "notifications/roots/list_changed"

REQUESTER: Final = "mcpwire.gateway"
"""Key of the `Requester` in the state of a request."""

DISCOVER_WAIT_S: Final = 3.0
"""Seconds that ``server/discover`` waits for connections to servers: after a longer
silence, clients assume a server that supports sessions only."""

NONCE_BYTES: Final = 16

_SHOWN_OF_CLIENT: Final = ("name", "title", "version")
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

    def declaring(self) -> Hashable:
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

    opens_later = True
    answers_cancelled = True

    def __init__(self, gateway: Gateway, *, only: str | None = None) -> None:
        self._gateway = gateway
        self.only = only
        self._descriptions = Descriptions()
        self._by_session: dict[Session, Upstreams] = {}
        self._opened: dict[Session, Json] = {}  # -> `initialize` result
        self._closing: dict[Session, asyncio.Task[None]] = {}
        super().__init__(
            gateway.info,
            capabilities=SERVED,
            methods=self._handlers(),
            revisions=gateway.revisions,
            limits=gateway.limits,
            auth=gateway.auth,
            headers_of=self._param_headers,
            ask_timeout=gateway.ask_timeout,
        )

    def _handlers(self) -> dict[str, Handler]:
        handlers: dict[str, Handler] = {
            method: partial(self._answer, answer) for method, answer in routes().items()
        }
        handlers["server/discover"] = self._discover_servers
        extensions = {
            revision: declared_extensions(capabilities_at(revision, SERVED))
            for revision in self._gateway.revisions
        }
        asked = {
            method: handler
            for method, handler in handlers.items()
            if any(available(method, r, "client", extensions[r]) for r in extensions)
        }
        return wrap(asked, self._gateway.around)

    def redeclare(self) -> None:
        """Apply the gateway's current middleware to all handlers."""
        self.declare(SERVED, self._handlers())

    # Servers of a request

    def _answer(self, answer: Answer, params: Json, request: RequestContext) -> Any:
        """Handle a request with its set; return an awaitable result."""
        session = request.session
        upstreams = None if session is None else self._by_session.get(session)
        if session is None or upstreams is None:
            return self._answer_alone(answer, params, request)
        if not upstreams.is_open:
            return self._answer_first(answer, params, request, upstreams)
        self._gateway.pool.touch(upstreams)
        if self._gateway.forward_headers:
            take_headers(upstreams, request)
        return answer(params, request, upstreams)

    async def _answer_first(
        self,
        answer: Answer,
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
        self._described(upstreams, request.revision)
        if self._gateway.forward_headers:
            take_headers(upstreams, request)
        return await answer(params, request, upstreams)

    async def _answer_alone(
        self, answer: Answer, params: Json, request: RequestContext
    ) -> Json:
        upstreams = await self._shared(self._requester(request), request.info)
        upstreams.users += 1
        try:
            if self._gateway.forward_headers:
                take_headers(upstreams, request)
            return await answer(params, request, upstreams)
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
        kept = request.state if request.info.transport == "http" else {}
        found: Requester | None = kept.get(REQUESTER)
        if found is None:
            found = kept[REQUESTER] = self.requester(
                request.info, request.client_capabilities
            )
        return found

    def requester(
        self,
        info: RequestInfo,
        capabilities: Mapping[str, Any],
        plan: Plan | None = None,
        revision: Revision = LATEST,
    ) -> Requester:
        """Return the client of a request, or of a session that shares a set."""
        plan = plan or self.plan(info, None)
        headers = self._gateway.forwarded(info)
        owner = info.principal.key if info.principal is not None else None
        told: tuple[Any, ...] = ()
        if headers:  # trace context differs between requests, not clients
            told = tuple(
                sorted(each for each in headers.items() if each[0] not in TRACE_KEYS)
            )
        identity = (plan.key, revision.name, owner, told)
        return Requester(identity, plan, headers, capabilities, revision, owner)

    async def _shared(self, requester: Requester, info: RequestInfo) -> Upstreams:
        """Return the shared set of a client; open it if it is not open.

        A server of 2026-07-28 gets the client's capabilities with each request, so one
        set serves all of them. A server with a session gets them once, so that other
        capabilities need another set.
        """
        found = self._found(requester)
        if found is not None:
            return found
        check_retained("the client's capabilities", requester.capabilities)
        gateway = self._gateway

        def make() -> Upstreams:
            downstream = Downstream(
                requester.revision,
                requester.capabilities,
                TaskIds(gateway.state_keys, requester.owner or ANONYMOUS),
                gateway.suspension,
                is_one=requester.owner is not None,
            )
            return Upstreams(
                gateway, requester.plan, downstream, headers=requester.headers
            )

        found = await gateway.pool.open_shared(requester.identity, info.owner, make)
        if found.serves(requester.capabilities):
            return found
        return await gateway.pool.open_shared(requester.declaring(), info.owner, make)

    def _found(self, requester: Requester) -> Upstreams | None:
        """Return the shared set of a client if it is open."""
        pool = self._gateway.pool
        found = pool.find(requester.identity)
        if found is not None and found.serves(requester.capabilities):
            return found
        return pool.find(requester.declaring())

    def _param_headers(
        self, params: Mapping[str, Any], request: RequestContext
    ) -> tuple[ParamHeader, ...]:
        """Return the arguments of a tool call that its header fields mirror."""
        name = params.get("name")
        upstreams = self._found(self._requester(request))
        if upstreams is None or type(name) is not str:
            return ()
        return upstreams.catalog.param_headers(name)

    def plan(self, info: RequestInfo, params: Mapping[str, Any] | None) -> Plan:
        """Return the plan of the servers for a client."""
        one = info.scope.get(BY_PATH) if self.only == BY_PATH else self.only
        plan = self._gateway.completed(self._gateway.source.plan(info, params), one)
        if self.only == BY_PATH and not plan.servers:
            raise InvalidRequest(f"no server that was chosen is called {one!r}")
        return plan

    # Sessions

    async def open_session(
        self,
        params: Json | None,
        session: Session | None,
        info: RequestInfo = IN_MEMORY,
    ) -> tuple[Session, Json]:
        """Open a session; connect to its servers unless their description is cached."""
        opened, result = super().initialize(params, session, info)
        beginning = self._begin(opened, self.plan(info, params), info)
        if self._gateway.trace is not None:
            beginning = self._gateway.trace.watch(beginning, "initialize", params)
        result |= await beginning
        self._opened[opened] = result
        return opened, result

    def initialize(
        self,
        params: Json | None,
        session: Session | None,
        info: RequestInfo = IN_MEMORY,
    ) -> tuple[Session, Json]:
        """Handle `initialize`; for an open session, return its first result again."""
        if session is not None and session in self._opened:
            return session, self._opened[session]
        return super().initialize(params, session, info)

    async def _begin(self, session: Session, plan: Plan, info: RequestInfo) -> Json:
        """Assign a set to a session; return its capabilities and instructions."""
        gateway, revision = self._gateway, session.revision
        capabilities = session.client_capabilities
        if gateway.share == "identity":
            requester = self.requester(info, capabilities, plan, revision)
            upstreams = await self._shared(requester, info)
            upstreams.users += 1
            upstreams.sessions.add(session)
            self._by_session[session] = upstreams
            return self._described(upstreams, revision)
        principal = session.principal
        owner = ANONYMOUS if principal is None else principal.key
        downstream = Downstream(
            revision,
            capabilities,
            TaskIds(gateway.state_keys, owner),
            gateway.suspension,
            session=session,
        )
        headers = gateway.forwarded(info)
        upstreams = Upstreams(gateway, plan, downstream, headers=headers)
        upstreams.may_end = info.transport == "http"
        gateway.opened.add(upstreams)
        self._by_session[session] = upstreams
        described = self._descriptions.find(plan, revision, headers)
        if described is None:
            try:
                await gateway.pool.open(upstreams, info.owner)
            except BaseException:
                self._by_session.pop(session, None)
                gateway.close_later(upstreams)
                raise
            described = self._described(upstreams, revision)
        return described

    def sessions_of(self, id: str) -> list[Session]:
        """Return the open sessions with an id, one at most."""
        return [session for session in self._by_session if session.id == id]

    def notified(self, session: Session, method: str, params: Json | None) -> None:
        """Handle a client's notification; relay changes of its roots to the servers."""
        super().notified(session, method, params)
        upstreams = self._by_session.get(session)
        if upstreams is None:
            return
        if method == INITIALIZED:
            upstreams.hub.add(session)
        elif method == ROOTS_CHANGED:
            roots_changed(upstreams)

    def session_left(self, session: Session) -> None:
        """Start closing the set of an ended session, or stop using a shared one."""
        super().session_left(session)
        self._opened.pop(session, None)
        upstreams = self._by_session.pop(session, None)
        if upstreams is None:
            return
        upstreams.hub.remove(session)
        if session in upstreams.sessions:
            upstreams.sessions.discard(session)
            forget_session(upstreams, session)
            upstreams.users -= 1
            self._gateway.pool.mark_idle(upstreams)
            return
        closing = self._closing[session] = self._gateway.close_later(upstreams)
        closing.add_done_callback(lambda _: self._closing.pop(session, None))

    async def session_closed(self, session: Session) -> None:
        """Wait until the connections of an ended session are closed."""
        closing = self._closing.get(session)
        if closing is not None:
            await asyncio.wait((closing,))

    # Session ids (HTTP only)

    def new_session_id(self, session: Session) -> str | None:
        """Return a new id for a session; ``None``: the session has no set."""
        upstreams = self._by_session.get(session)
        if upstreams is None:
            return None
        principal, info = session.principal, session.client_info
        servers = None
        if hasattr(self._gateway.source, "plan_of"):
            servers = _chosen(upstreams.plan)
        kept = Kept(
            nonce=secrets.token_urlsafe(NONCE_BYTES),
            revision=session.revision.name,
            place=upstreams.plan.one,
            client_info={k: info[k] for k in _SHOWN_OF_CLIENT if k in info},
            client_capabilities=session.client_capabilities,
            owner=None if principal is None else principal.key,
            client=session.owner,
            servers=servers,
            upstream_sessions={
                name: id
                for name, each in upstreams.members.items()
                if (id := each.client.session_id) is not None
            },
        )
        return self._gateway.sessions.issue(kept)

    def _kept(self, id: str, info: RequestInfo) -> tuple[Kept, Revision] | None:
        """Return the data kept by a session id, if the request is of its owner."""
        kept = self._gateway.sessions.read(id)
        if kept is None:
            return None
        is_here = kept.place == self.only
        if self.only == BY_PATH:
            is_here = kept.place is not None
        # 2025-11-25 security best practices, "Session Hijacking": an id is no proof.
        owner = None if info.principal is None else info.principal.key
        revision = find_revision(kept.revision)
        if not is_here or kept.owner != owner or revision not in self.revisions:
            return None
        assert revision is not None
        return kept, revision

    async def resume_session(self, id: str, info: RequestInfo) -> Session | None:
        """Open the session of an id again, with new connections; ``None``: unknown id.

        The sessions at the servers are new, too: their state, the subscriptions and the
        log level are lost.
        """
        found = self._kept(id, info)
        if found is None:
            if self._gateway.sessions.undecodable == 401:
                raise _UnknownSession("the session is unknown or has ended")
            return None
        kept, revision = found
        session = Session(
            revision,
            kept.client_info,
            kept.client_capabilities,
            principal=info.principal,
            owner=info.owner,
        )
        self._opened[session] = {
            "protocolVersion": revision.name,
            **await self._begin(session, self._plan_of(kept, info), info),
            "serverInfo": self._info,
        }
        if self._gateway.sessions.read(id) is None:  # withdrawn during the await
            self.session_left(session)
            return None
        return session

    def withdraw_session_id(self, id: str) -> None:
        """Withdraw a session id, so that it cannot open the session again."""
        self._gateway.sessions.withdraw(id)

    async def delete_session(self, id: str, info: RequestInfo) -> bool:
        """End the servers' sessions of a kept session; return whether it was known."""
        found = self._kept(id, info)
        if found is None:
            return False
        from mcpwire.gateway.sessions import end_sessions

        self.withdraw_session_id(id)
        plan = self._plan_of(found[0], info)
        await end_sessions(plan, found[0].upstream_sessions, self._gateway.limits)
        return True

    def _plan_of(self, kept: Kept, info: RequestInfo) -> Plan:
        """Return the plan of a kept session."""
        if kept.servers is None:
            return self.plan(info, None)
        plan_of: Any = getattr(self._gateway.source, "plan_of", None)
        if plan_of is None:
            raise InvalidRequest("the gateway does not let clients choose any more")
        try:
            return self._gateway.completed(plan_of(kept.servers), kept.place)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None

    # Combined description of the servers

    async def _discover_servers(self, _: Json, request: RequestContext) -> Json:
        """Handle ``server/discover``; after a time limit, with all capabilities."""
        requester, revision = self._requester(request), request.revision
        described = self._descriptions.find(requester.plan, revision, requester.headers)
        if described is None:
            described = {"capabilities": CAPABILITIES}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISCOVER_WAIT_S):
                    upstreams = await self._shared(requester, request.info)
                described = self._described(upstreams, revision)
        return {
            "supportedVersions": [each.name for each in self.revisions],
            **described,
        }

    def _described(self, upstreams: Upstreams, revision: Revision) -> Json:
        """Return the servers' capabilities, or all while a server is not connected."""
        capabilities: Mapping[str, Any] = CAPABILITIES
        is_complete = len(upstreams.ready()) == len(upstreams.members)
        if is_complete:
            capabilities = upstreams.capabilities(revision)
        described: Json = {"capabilities": capabilities_at(revision, capabilities)}
        instructions = upstreams.instructions()
        if instructions is not None:
            described["instructions"] = instructions
        if self._gateway.on_error == "skip":
            self._descriptions.put(
                upstreams.plan,
                revision,
                described,
                headers=upstreams.headers,
                is_complete=is_complete,
            )
        return described

    # Life cycle

    async def start(self) -> None:
        """Start the dispatcher, and hold the gateway until `aclose`."""
        await super().start()
        self._gateway.hold()

    async def aclose(self) -> None:
        """Close the dispatcher; its last user closes all connections to servers."""
        await super().aclose()
        await self._gateway.release()


def _chosen(plan: Plan) -> tuple[Chosen, ...]:
    return tuple(
        Chosen(
            url=each.target.url,
            name=each.name,
            headers={} if callable(given := each.target.headers) else given or {},
        )
        for each in plan.servers
        if isinstance(each.target, Http)
    )
