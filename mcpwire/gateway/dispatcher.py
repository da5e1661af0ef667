"""Lets a server's connections be answered by the servers behind a gateway.

The first session opens its servers as part of `initialize`; later ones are told what
those servers can do, and connect to theirs with the first request that needs them.
Requests that stand alone share a set where the same client asks for the same servers.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpwire.errors import InvalidRequest
from mcpwire.gateway.catalog import Descriptions
from mcpwire.gateway.downstream import SessionDownstream, StandaloneDownstream
from mcpwire.gateway.plan import BY_PATH, Plan
from mcpwire.gateway.relay import take_headers
from mcpwire.gateway.routes import CAPABILITIES, SERVED, Routes
from mcpwire.gateway.subscriptions import forget_session, roots_changed
from mcpwire.gateway.translation import TaskIds
from mcpwire.gateway.upstreams import CLOSED, Upstreams, UpstreamsBusy
from mcpwire.protocol.methods import available, declared_extensions
from mcpwire.protocol.request_state import ANONYMOUS
from mcpwire.server.dispatcher import (
    INITIALIZED,
    Dispatcher,
    capabilities_at,
    wrap,
)
from mcpwire.server.request import IN_MEMORY, RequestInfo, check_retained
from mcpwire.types._base import TRACE_KEYS
from mcpwire.versions import LATEST
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from mcpwire.gateway.gateway import Gateway
    from mcpwire.gateway.routes import Answer
    from mcpwire.gateway.sessions import Keeping
    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.server.auth.resource_server import PrincipalKey
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.request import RequestContext, Session
    from mcpwire.versions import Revision

__all__ = ["GatewayDispatcher"]

ROOTS_CHANGED: Final = "notifications/roots/list_changed"

ASKING: Final = "mcpwire.gateway"
"""Where a request keeps its client."""

DISCOVER_WAIT_S: Final = 3.0
"""How long ``server/discover`` waits for servers that are being connected to: a client
takes longer silence for a server that has sessions only."""


class _Asking(NamedTuple):
    """The client of requests that stand alone."""

    identity: Hashable
    """What is equal where the same client asks for the same servers, whatever it
    declares with a request."""

    plan: Plan
    headers: Mapping[str, str]
    capabilities: Mapping[str, Any]

    revision: Revision

    owner: PrincipalKey | None
    """The authenticated principal, if there is one."""

    def declaring(self) -> Hashable:
        """Return what is equal where it also declares the same capabilities."""
        return self.identity, encode(dict(self.capabilities))


class GatewayDispatcher(Dispatcher):
    """Answers for the servers of a gateway, or for one of them.

    Args:
        gateway: The gateway.
        only: The name of the one server, which keeps its names; ``None``: all;
            `BY_PATH`: the one that the path of a request names.
    """

    opens_later = True
    answers_cancelled = True

    def __init__(self, gateway: Gateway, *, only: str | None = None) -> None:
        self._gateway = gateway
        self.only = only
        self._kept_by: Keeping | None = None
        self._planned: tuple[Plan, str | None, Plan] = Plan(), None, Plan()
        self._descriptions = Descriptions()
        self._by_session: dict[Session, Upstreams] = {}
        self._opened: dict[Session, dict[str, Any]] = {}
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
        answers = Routes(self._gateway).methods()
        handlers: dict[str, Handler] = {
            method: partial(self._answer, answer) for method, answer in answers.items()
        }
        handlers["server/discover"] = self._discover_servers
        asked = {name: each for name, each in handlers.items() if self._is_asked(name)}
        return wrap(asked, self._gateway.around)

    def _is_asked(self, method: str) -> bool:
        """Tell whether a revision that is spoken has that request."""
        return any(
            available(
                method,
                revision,
                "client",
                declared_extensions(capabilities_at(revision, SERVED)),
            )
            is not None
            for revision in self._gateway.revisions
        )

    def redeclare(self) -> None:
        """Put the gateway's middleware around everything anew."""
        self.declare(SERVED, self._handlers())

    # The servers of a request...

    def _answer(
        self, answer: Answer, params: dict[str, Any], request: RequestContext
    ) -> Any:
        """Answer a request out of its set; returns what is to be awaited."""
        session = request.session
        if session is not None:
            upstreams = self._by_session.get(session)
            if upstreams is not None:
                if not upstreams.is_open:
                    return self._answer_first(answer, params, request, upstreams)
                self._gateway.pool.touch(upstreams)
                if self._gateway.forward_headers:
                    take_headers(upstreams, request)
                return answer(params, request, upstreams)
        return self._answer_alone(answer, params, request)

    async def _answer_first(
        self,
        answer: Answer,
        params: dict[str, Any],
        request: RequestContext,
        upstreams: Upstreams,
    ) -> dict[str, Any]:
        """Answer a request of a session after connecting to its servers."""
        if upstreams.is_closed:  # it ended for another client as its session opened
            session = request.session
            if session is not None and session.end is not None:
                session.end()
            raise UpstreamsBusy(CLOSED)
        await self._gateway.pool.open(upstreams, request.info.owner)
        # The next sessions are told what the servers can do by now.
        self._described(upstreams, request.revision)
        if self._gateway.forward_headers:
            take_headers(upstreams, request)
        return await answer(params, request, upstreams)

    async def _answer_alone(
        self, answer: Answer, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        upstreams = await self._shared(self._asking(request), request.info)
        upstreams.users += 1
        try:
            if self._gateway.forward_headers:
                take_headers(upstreams, request)
            return await answer(params, request, upstreams)
        finally:
            upstreams.users -= 1
            self._gateway.pool.left(upstreams)

    def _asking(self, request: RequestContext) -> _Asking:
        """Return the client, found out once for each request."""
        if request.info.transport != "http":
            return self._asking_of(request.info, request.client_capabilities)
        kept = request.state
        found: _Asking | None = kept.get(ASKING)
        if found is None:
            found = kept[ASKING] = self._asking_of(
                request.info, request.client_capabilities
            )
        return found

    def _asking_of(
        self,
        info: RequestInfo,
        capabilities: Mapping[str, Any],
        plan: Plan | None = None,
        revision: Revision = LATEST,
    ) -> _Asking:
        plan = plan or self.plan(info, None)
        headers = self._gateway.forwarded(info)
        owner = info.principal.key if info.principal is not None else None
        identity = (
            plan.key,
            revision.name,
            owner,
            # What tells one request from the next tells nobody from anybody.
            tuple(sorted(kv for kv in headers.items() if kv[0] not in TRACE_KEYS))
            if headers
            else (),
        )
        return _Asking(identity, plan, headers, capabilities, revision, owner)

    async def _shared(self, asking: _Asking, info: RequestInfo) -> Upstreams:
        """Return the set of the client, opened if it was not.

        A server of 2026-07-28 gets the client's capabilities with each request, so one
        set serves all of them. A session gets them once: where a server has a session,
        other capabilities need another set.
        """
        found = self._found(asking)
        if found is not None:
            return found
        check_retained("the client's capabilities", asking.capabilities)
        pool = self._gateway.pool

        def make() -> Upstreams:
            downstream = StandaloneDownstream(
                asking.capabilities,
                TaskIds(self._gateway.state_keys, asking.owner or ANONYMOUS),
                parking=self._gateway.parking,
                revision=asking.revision,
                is_one=asking.owner is not None,
            )
            return Upstreams(
                self._gateway, asking.plan, downstream, headers=asking.headers
            )

        found = await pool.open_shared(asking.identity, info.owner, make)
        if found.serves(asking.capabilities):
            return found
        return await pool.open_shared(asking.declaring(), info.owner, make)

    def _found(self, asking: _Asking) -> Upstreams | None:
        """Return the set of the client, if it is there and open."""
        pool = self._gateway.pool
        found = pool.find(asking.identity)
        if found is not None and found.serves(asking.capabilities):
            return found
        return pool.find(asking.declaring())

    def _param_headers(
        self, params: Mapping[str, Any], request: RequestContext
    ) -> tuple[ParamHeader, ...]:
        """Return which arguments of a call its header fields repeat."""
        name = params.get("name")
        upstreams = self._found(self._asking(request))
        if upstreams is None or type(name) is not str:
            return ()
        return upstreams.catalog.param_headers(name)

    def plan(self, info: RequestInfo, params: Mapping[str, Any] | None) -> Plan:
        """Return the servers for a client.

        Raises:
            RPCError: This is the answer.
        """
        found = self._gateway.source.plan(info, params)
        one = info.scope.get(BY_PATH) if self.only == BY_PATH else self.only
        known, was, plan = self._planned
        # It is the same with each request of a `Static`'s clients.
        if found is not known or one != was:
            plan = self.completed(found, one)
            self._planned = found, one, plan
        if self.only == BY_PATH and not plan.servers:
            raise InvalidRequest(f"no server that was chosen is called {one!r}")
        return plan

    def completed(self, plan: Plan, one: str | None) -> Plan:
        """Return a source's plan with the gateway's own server, or one server of it."""
        return self._gateway.completed(plan).only(one)

    def serves(self, one: str | None) -> bool:
        """Tell whether sessions with that one server, or with all, are served here."""
        return one is not None if self.only == BY_PATH else one == self.only

    def upstreams_of(self, session: Session) -> Upstreams | None:
        """Return a session's set; ``None``: it has none, or has left."""
        return self._by_session.get(session)

    # Sessions...

    async def open_session(
        self,
        params: dict[str, Any] | None,
        session: Session | None,
        info: RequestInfo = IN_MEMORY,
    ) -> tuple[Session, dict[str, Any]]:
        """Open a session; connect to its servers if it is not known what they can do.

        Raises:
            RPCError: It is refused, or a server could not be connected to and all of
                them are needed.
        """
        opened, result = super().initialize(params, session, info)
        beginning = self._begin(opened, self.plan(info, params), info)
        if self._gateway.trace is not None:
            beginning = self._gateway.trace.watch(beginning, "initialize", params)
        result |= await beginning
        self._opened[opened] = result
        return opened, result

    def initialize(
        self,
        params: dict[str, Any] | None,
        session: Session | None,
        info: RequestInfo = IN_MEMORY,
    ) -> tuple[Session, dict[str, Any]]:
        """Answer for a session that is open as when it was opened."""
        result = self._opened.get(session) if session is not None else None
        if session is not None and result is not None:
            return session, result
        return super().initialize(params, session, info)

    async def _begin(
        self, session: Session, plan: Plan, info: RequestInfo
    ) -> dict[str, Any]:
        """Give a session its servers; return what they can do.

        Raises:
            RPCError: As `open_session`.

        Cancelling it undoes it.
        """
        gateway = self._gateway
        if gateway.share == "identity":
            asking = self._asking_of(
                info, session.client_capabilities, plan, session.revision
            )
            upstreams = await self._shared(asking, info)
            upstreams.users += 1
            upstreams.sessions.add(session)
            self._by_session[session] = upstreams
            return self._described(upstreams, session.revision)
        principal = session.principal
        owner = ANONYMOUS if principal is None else principal.key
        upstreams = Upstreams(
            gateway,
            plan,
            SessionDownstream(session, TaskIds(gateway.state_keys, owner)),
            headers=gateway.forwarded(info),
        )
        upstreams.may_end = info.transport == "http"
        gateway.opened.add(upstreams)
        self._by_session[session] = upstreams
        described = self._descriptions.find(plan, session.revision, upstreams.headers)
        if described is None:
            try:
                await gateway.pool.open(upstreams, info.owner)
            except BaseException:
                self._by_session.pop(session, None)
                gateway.close_later(upstreams)
                raise
            described = self._described(upstreams, session.revision)
        return described

    async def reopen(self, session: Session, plan: Plan, info: RequestInfo) -> None:
        """Connect a session that was opened elsewhere to the servers of a plan.

        Raises:
            RPCError: As `open_session`.
        """
        self._opened[session] = {
            "protocolVersion": session.revision.name,
            **await self._begin(session, plan, info),
            "serverInfo": self._info,
        }

    @property
    def _keeping(self) -> Keeping:
        """What makes the ids of sessions, which there are over HTTP only."""
        if self._kept_by is None:
            from mcpwire.gateway.sessions import Keeping

            self._kept_by = Keeping(self._gateway, self)
        return self._kept_by

    def new_session_id(self, session: Session) -> str | None:
        """Return the id that a session gets.

        Raises:
            RPCError: It cannot have one.
        """
        return self._keeping.new_id(session)

    async def resume_session(self, id: str, info: RequestInfo) -> Session | None:
        """Return the session of an id, its servers connected anew; ``None``: none.

        Raises:
            RPCError: As `open_session`.
        """
        return await self._keeping.resume(id, info)

    async def delete_session(self, id: str, info: RequestInfo) -> bool:
        """End what a session has that another process opened."""
        return await self._keeping.delete(id, info)

    def withdraw_session_id(self, id: str) -> None:
        """Open no session again by an id."""
        self._gateway.sessions.withdraw(id)

    def sessions_of(self, id: str) -> list[Session]:
        """Return the open sessions with an id: none or one."""
        return [session for session in self._by_session if session.id == id]

    def notified(
        self, session: Session, method: str, params: dict[str, Any] | None
    ) -> None:
        """Take note of what a session's client tells, and pass on what is for all."""
        super().notified(session, method, params)
        upstreams = self._by_session.get(session)
        if upstreams is None:
            return
        if method == INITIALIZED:
            upstreams.hub.add(session)
        elif method == ROOTS_CHANGED:
            roots_changed(upstreams)

    def session_left(self, session: Session) -> None:
        """Begin to close what a session had."""
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
            self._gateway.pool.left(upstreams)
            return
        closing = self._closing[session] = self._gateway.close_later(upstreams)
        closing.add_done_callback(lambda _: self._closing.pop(session, None))

    async def session_closed(self, session: Session) -> None:
        """Wait until the servers of a session that has left are let go of."""
        closing = self._closing.get(session)
        if closing is not None:
            await asyncio.wait((closing,))

    # What the servers are together...

    async def _discover_servers(
        self, _: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Say what the servers can do; what they might, where they take too long."""
        asking, revision = self._asking(request), request.revision
        described = self._descriptions.find(asking.plan, revision, asking.headers)
        if described is None:
            described = {"capabilities": CAPABILITIES}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISCOVER_WAIT_S):
                    upstreams = await self._shared(asking, request.info)
                described = self._described(upstreams, revision)
        return {
            "supportedVersions": [each.name for each in self.revisions],
            **described,
        }

    def _described(self, upstreams: Upstreams, revision: Revision) -> dict[str, Any]:
        """Say what the servers can do; what they might, where one may yet come."""
        capabilities: Mapping[str, Any] = CAPABILITIES
        is_complete = len(upstreams.ready()) == len(upstreams.members)
        if is_complete:
            capabilities = upstreams.capabilities(revision)
        described: dict[str, Any] = {
            "capabilities": capabilities_at(revision, capabilities)
        }
        instructions = upstreams.instructions()
        if instructions is not None:
            described["instructions"] = instructions
        if self._gateway.on_error == "skip":
            self._descriptions.keep(
                upstreams.plan,
                revision,
                described,
                headers=upstreams.headers,
                is_complete=is_complete,
            )
        return described

    # The end...

    async def start(self) -> None:
        """Count one more user, which calls `aclose` at its end."""
        await super().start()
        self._gateway.hold()

    async def aclose(self) -> None:
        """Let one user go; with the last one all connections to servers are closed."""
        await super().aclose()
        await self._gateway.release()
