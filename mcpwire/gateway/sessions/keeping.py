"""What a gateway's dispatcher does about session ids: makes, resumes and ends them.

::

    id ──read──► kept ──same owner?──► servers are connected to ──► a session again
          │                                   │
          └─ withdrawn, too old, not ours     └─ withdrawn meanwhile: closed again
             404
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidRequest
from mcpwire.gateway.session_ids import Chosen, Kept
from mcpwire.gateway.sessions.ending import end_sessions
from mcpwire.server.auth.resource_server import HttpRefusal
from mcpwire.server.request import Session
from mcpwire.transports.http.target import Http
from mcpwire.versions import Era, find_revision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.app import Gateway
    from mcpwire.gateway.dispatcher import GatewayDispatcher
    from mcpwire.gateway.plan import Plan
    from mcpwire.server.request import Facts
    from mcpwire.versions import Revision

__all__ = ["Keeping"]

NONCE_BYTES: Final = 16

_SHOWN_OF_CLIENT: Final = ("name", "title", "version")
"""What is kept of who the client says it is."""


class _UnknownSession(HttpRefusal, InvalidRequest):
    """An id that none of our keys opens, where that is to be a 401."""

    http_status = 401


class Keeping:
    """Keeps the sessions of one dispatcher; see the module's text."""

    def __init__(self, gateway: Gateway, dispatcher: GatewayDispatcher) -> None:
        self._gateway = gateway
        self._dispatcher = dispatcher

    def new_id(self, session: Session) -> str | None:
        """Return the id that a session gets.

        Raises:
            RPCError: It cannot have one.
        """
        upstreams = self._dispatcher.upstreams_of(session)
        if upstreams is None:
            return None
        principal = session.principal
        info = session.client_info
        source = self._gateway.source
        kept = Kept(
            nonce=secrets.token_urlsafe(NONCE_BYTES),
            revision=session.revision.name,
            place=upstreams.plan.one,
            client_info={k: info[k] for k in _SHOWN_OF_CLIENT if k in info},
            client_capabilities=session.client_capabilities,
            owner=None if principal is None else principal.key,
            client=session.owner,
            servers=_chosen(upstreams.plan) if hasattr(source, "plan_of") else None,
            upstream_sessions={
                name: id
                for name, each in upstreams.members.items()
                if (id := each.client.session_id) is not None
            },
        )
        return self._gateway.sessions.issue(kept)

    def _read(self, id: str, facts: Facts) -> tuple[Kept, Revision] | None:
        """Return what is kept under an id, for whose session it is."""
        kept = self._gateway.sessions.read(id)
        if kept is None or not self._dispatcher.serves(kept.place):
            return None
        principal = facts.principal
        # 2025-11-25 security best practices, "Session Hijacking": an id proves nothing.
        if kept.owner != (None if principal is None else principal.key):
            return None
        revision = find_revision(kept.revision)
        if revision is None or revision not in self._dispatcher.revisions:
            return None
        assert revision.era is Era.SESSION  # no other is given an id
        return kept, revision

    async def resume(self, id: str, facts: Facts) -> Session | None:
        """Return the session of an id, its servers connected anew; ``None``: none.

        The servers' own sessions are begun anew, too: what they remembered is gone, and
        so are subscriptions and the log level.

        Raises:
            RPCError: It is refused, or a server could not be connected to and all of
                them are needed.
        """
        found = self._read(id, facts)
        if found is None:
            if self._gateway.sessions.undecodable == 401:
                raise _UnknownSession("the session is unknown or has ended")
            return None
        kept, revision = found
        session = Session(
            revision,
            kept.client_info,
            kept.client_capabilities,
            principal=facts.principal,
            owner=facts.owner,
        )
        await self._dispatcher.reopen(session, self._plan(kept, facts), facts)
        if self._gateway.sessions.read(id) is None:  # withdrawn meanwhile
            self._dispatcher.session_left(session)
            return None
        return session

    async def delete(self, id: str, facts: Facts) -> bool:
        """End what a session has elsewhere; tell whether there was one."""
        found = self._read(id, facts)
        if found is None:
            return False
        kept, _ = found
        self._gateway.sessions.withdraw(id)
        plan = self._plan(kept, facts)
        await end_sessions(plan, kept.upstream_sessions, self._gateway.limits)
        return True

    def _plan(self, kept: Kept, facts: Facts) -> Plan:
        if kept.servers is None:
            return self._dispatcher.plan(facts, None)
        plan_of: Any = getattr(self._gateway.source, "plan_of", None)
        if plan_of is None:
            raise InvalidRequest("the gateway does not let clients choose any more")
        try:
            return self._dispatcher.completed(plan_of(kept.servers), kept.place)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None


def _chosen(plan: Plan) -> tuple[Chosen, ...]:
    return tuple(
        Chosen(url=each.target.url, name=each.name, headers=_headers(each.target))
        for each in plan.servers
        if isinstance(each.target, Http)
    )


def _headers(target: Http) -> Mapping[str, str]:
    given = target.headers
    return {} if given is None or callable(given) else given
