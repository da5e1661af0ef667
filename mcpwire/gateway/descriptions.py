"""What servers can do, kept so that a session need not connect to them to be told."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.gateway.upstreams import RETRY_S
from mcpwire.server.app import Server
from mcpwire.transports.http.target import Http
from mcpwire.types._base import TRACE_KEYS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from mcpwire.gateway.plan import Plan
    from mcpwire.versions import Revision

__all__ = ["Descriptions"]

MOST: Final = 1_000


@attrs.frozen
class _Kept:
    plan: Plan
    described: dict[str, Any]
    fresh_until: float


class Descriptions:
    """Capabilities and instructions of the servers of a plan, by protocol version.

    Kept for plans with a server that costs a process. A connection over HTTP is made
    with its session: its session id is a part of ids that other processes understand.
    A server over HTTP that gets a client's header fields may say something else to each
    client, so that nothing is kept of it.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def find(
        self, plan: Plan, revision: Revision, headers: Iterable[str]
    ) -> dict[str, Any] | None:
        """Return what the servers of a plan can do, if that is known.

        Args:
            plan: The servers.
            revision: The protocol version of the client.
            headers: The names of the header fields that go along to them.
        """
        if _is_personal(plan, headers):
            return None
        kept = self._kept.get((plan.key, plan.one, revision.name))
        if kept is None or not _are_same(kept.plan, plan):
            return None
        now = asyncio.get_running_loop().time()
        return dict(kept.described) if now < kept.fresh_until else None

    def keep(
        self,
        plan: Plan,
        revision: Revision,
        described: dict[str, Any],
        *,
        headers: Iterable[str],
        is_complete: bool,
    ) -> None:
        """Keep what the servers of a plan can do.

        Args:
            plan: The servers.
            revision: The protocol version of the client.
            described: Members of the answer to ``initialize``.
            headers: As for `find`.
            is_complete: Whether all servers are connected; else it is kept until those
                that failed are tried again.
        """
        if all(isinstance(each.target, (Http, Server)) for each in plan.servers):
            return
        if _is_personal(plan, headers):
            return
        while len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
        now = asyncio.get_running_loop().time()
        fresh_until = math.inf if is_complete else now + RETRY_S
        self._kept[plan.key, plan.one, revision.name] = _Kept(
            plan, dict(described), fresh_until
        )


def _is_personal(plan: Plan, headers: Iterable[str]) -> bool:
    # What tells one request from the next tells nobody from anybody.
    return any(name not in TRACE_KEYS for name in headers) and any(
        isinstance(each.target, Http) for each in plan.servers
    )


def _are_same(one: Plan, other: Plan) -> bool:
    return len(one.servers) == len(other.servers) and all(
        each.is_as(also) for each, also in zip(one.servers, other.servers, strict=True)
    )
