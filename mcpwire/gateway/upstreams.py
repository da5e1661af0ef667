"""One set of connections: the servers of one session, or of one identity.

A session of a client has a set of its own. Requests that stand alone share one where
the same client asks for the same servers; `sets` keeps those.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError
from mcpwire.gateway.catalog import RETRY_S, Catalog
from mcpwire.gateway.merging import merged_capabilities, merged_instructions
from mcpwire.gateway.subscriptions import follow
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.methods import capability_declared
from mcpwire.server.dispatcher import HttpRefusal
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.notifications import PROMPTS, RESOURCES, TOOLS, Hub
from mcpwire.tools.names import names_of_servers
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from mcpwire.gateway.gateway import Gateway
    from mcpwire.gateway.plan import Plan, Planned
    from mcpwire.gateway.relay import RelayClient
    from mcpwire.limits import Limits
    from mcpwire.protocol.negotiation import Agreement
    from mcpwire.server.request import Owner, Session
    from mcpwire.versions import Revision


__all__ = [
    "CLOSED",
    "Upstream",
    "UpstreamPool",
    "Upstreams",
    "UpstreamsBusy",
]

logger = LimitedLogger("mcpwire")

CHANGES: Final = {"tools": TOOLS, "prompts": PROMPTS, "resources": RESOURCES}
"""Capability -> what tells that the list of it is another."""


class Upstreams:
    """The connections of one session or identity.

    Args:
        gateway: The gateway, for its settings.
        plan: Which servers there are.
        downstream: The receiver of the servers' requests and notifications.
        headers: Header fields that go along with every request, as they came.

    Attributes:
        gateway: As given.
        plan: As given.
        downstream: As given.
        headers: As given; replaced as a whole with each request that brings others.
        members: The servers by name, in the plan's order, also those that failed.
        catalog: What they list, merged.
        hub: The receiver of their change notifications.
        users: How many requests it answers, where several share it.
        used_at: When the last of them ended, on the loop's clock.
        is_open: Whether all of them were connected to, as far as that worked.
        is_begun: Whether `open` was called.
        is_closed: Whether it is being closed, or was.
        sessions: Those that share it.
        may_end: Whether it may end while its client is there; set by its owner.
    """

    def __init__(
        self,
        gateway: Gateway,
        plan: Plan,
        downstream: Any,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.gateway = gateway
        self.plan = plan
        self.downstream = downstream
        self.headers: Mapping[str, str] = headers or {}
        self.hub = Hub()
        self.members: dict[str, Upstream] = {}
        for planned in plan.servers:
            self.members[planned.name] = gateway.make_upstream(self, planned)
        self.catalog = Catalog(self)
        self._trying: set[asyncio.Task[None]] = set()
        self.users = 0
        self.used_at = 0.0
        self.is_open = self.is_begun = self.is_closed = False
        self.sessions: set[Session] = set()
        self.may_end = True

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<Upstreams {', '.join(self.members)}>"

    # Opening and closing...

    async def open(self) -> None:
        """Connect to all of them, in parallel; call `aclose` after a failure.

        Raises:
            InternalError: One could not be connected to, and `on_error` is ``"raise"``;
                names it, without another attempt.
        """
        self.is_begun = True
        gate = asyncio.Semaphore(self.gateway.concurrency)
        tasks = [
            asyncio.create_task(self._connect_by(gate, each), name="mcpwire-upstream")
            for each in self.members.values()
        ]
        if not tasks:
            return
        try:
            if self.gateway.on_error == "raise":
                await self._wait_for_all(tasks)
            else:
                await asyncio.wait(tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            raise

    async def _wait_for_all(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait until all are connected, but not after the first that is not."""
        waiting = set(tasks)
        while waiting:
            _, waiting = await asyncio.wait(
                waiting, return_when=asyncio.FIRST_COMPLETED
            )
            for each in self.members.values():
                if each.problem is not None:
                    raise InternalError(
                        f"the server {each.name!r} could not be connected to: "
                        f"{each.problem}"
                    ) from each.problem

    async def _connect_by(self, gate: asyncio.Semaphore, upstream: Upstream) -> None:
        async with gate:
            await self._connect(upstream)

    async def _connect(self, upstream: Upstream) -> None:
        if not self._has(upstream):  # not any more, as others were connected to
            return
        try:
            await upstream.client.connect()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is that server's
            upstream.problem = error
            upstream.retry_at = asyncio.get_running_loop().time() + RETRY_S
            logger.warning(
                "the server %r could not be connected to: %s",
                upstream.name,
                error,
                kind=upstream.name,
                extra={"server": upstream.name, "error": error},
            )
        else:
            upstream.problem = None
            if not self._has(upstream):  # nobody else would ever close it
                await upstream.client.aclose()

    def _has(self, upstream: Upstream) -> bool:
        """Tell whether a server is wanted here still."""
        return not self.is_closed and self.members.get(upstream.name) is upstream

    async def replace(self, plan: Plan) -> None:
        """Have other servers: those that are as they were keep their connections.

        Listeners are told that all lists changed. A server that cannot be
        connected to is left out, whatever `on_error` says.
        """
        before, members = self.members, {}
        for planned in plan.servers:
            kept = before.get(planned.name)
            if kept is None or not kept.planned.is_as(planned):
                kept = self.gateway.make_upstream(self, planned)
            members[planned.name] = kept
        if self.is_closed:
            return
        self.plan, self.members = plan, members
        gone = [each for each in before.values() if each not in members.values()]
        new = [each for each in members.values() if each not in before.values()]
        if not self.is_begun:
            new = []
        for each in gone:
            self.catalog.forget(each)
        levels = {each.client.connection.log_level for each in before.values()}
        gate = asyncio.Semaphore(self.gateway.concurrency)
        await asyncio.gather(
            *(self._connect_by(gate, each) for each in new),
            *(each.client.aclose() for each in gone),
        )
        await follow(self, gone, new, [level for level in levels if level is not None])
        for method in CHANGES.values():
            self.hub.tell(method)

    def retry(self) -> None:
        """Try those again, beside what goes on, that could not be connected to.

        On success listeners are told that the lists changed.
        """
        now = asyncio.get_running_loop().time()
        for each in self.members.values():
            if each.problem is not None and each.retry_at <= now and not self.is_closed:
                each.retry_at = now + RETRY_S
                task = asyncio.create_task(self._again(each), name="mcpwire-upstream")
                self._trying.add(task)
                task.add_done_callback(self._trying.discard)

    async def _again(self, upstream: Upstream) -> None:
        await self._connect(upstream)
        if upstream.problem is None and self._has(upstream):
            for kind, method in CHANGES.items():
                if upstream.offers(kind):
                    self.hub.tell(method)

    async def aclose(self) -> None:
        """Close all connections, in parallel; bounded as closing a client is."""
        self.is_closed = True
        self.catalog.close()
        for task in self._trying:
            task.cancel()
        clients = [each.client for each in self.members.values()]
        outcomes = await asyncio.gather(
            self.downstream.aclose(),
            *(client.aclose() for client in clients),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                logger.warning("a server could not be let go of: %s", outcome)

    @property
    def is_busy(self) -> bool:
        """Whether closing it now would take something from a client.

        A session can be opened again: only its calls count.
        """
        if self.downstream.session is not None:
            calls = (
                each.client.relay.in_flight.calls for each in self.members.values()
            )
            return self.users > 0 or any(calls)
        return self.users > 0 or len(self.hub) > 0 or self.downstream.is_busy

    def serves(self, capabilities: Mapping[str, Any]) -> bool:
        """Tell whether requests belong here of a client that declares these.

        A session keeps what was declared when it opened, and what is not connected to
        may turn out to have one.
        """
        if capabilities == self.downstream.capabilities:
            return True
        revisions = (each.revision for each in self.members.values())
        return all(r is not None and r.era is Era.STATELESS for r in revisions)

    # What they are together...

    def ready(self) -> list[Upstream]:
        """Return the servers with a finished handshake, in their order."""
        return [each for each in self.members.values() if each.agreement is not None]

    def offering(self, capability: str) -> list[Upstream]:
        """Return those that declared a capability, in their order."""
        return [each for each in self.members.values() if each.offers(capability)]

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return what they can do together, as a revision says it."""
        return merged_capabilities(
            [each.capabilities for each in self.ready()],
            revision,
            extra=self.gateway.own_capabilities(self),
        )

    def instructions(self) -> str | None:
        """Return how they want to be used; the gateway's own words win."""
        if self.gateway.instructions is not None:
            return self.gateway.instructions
        said = [
            (each.name, each.agreement.instructions)
            for each in self.ready()
            if each.agreement is not None
        ]
        return merged_instructions(said)

    def names_of_servers(self) -> dict[str, str]:
        """Return what stands for servers in names, where it is not our name."""
        if self.gateway.server_names == "ours":
            return {}
        said = {}
        for each in self.ready():
            info = each.agreement.server_info if each.agreement is not None else None
            name, version = (
                found if type(found := (info or {}).get(key)) is str else ""
                for key in ("name", "version")
            )
            said[each.name] = name or each.name, version
        return names_of_servers(said)

    def public_uri(self, server: str, uri: str) -> str:
        """Return what a server's resource is called for clients."""
        return self.catalog.public_uri(server, uri)

    def status(self) -> dict[str, Any]:
        """Return what can be said of it, as JSON; no secrets."""
        return {
            "servers": [each.status() for each in self.members.values()],
            "collisions": self.catalog.collisions(),
        }


NOTHING: Final[Mapping[str, Any]] = {}


class Upstream:
    """One server of a set.

    Args:
        planned: What it is.
        client: The connection to it.
        timeout: How long it may take to answer, in seconds; ``None``: no limit.
        limits: What it may cost.

    Attributes:
        name: What we call it.
        planned: As given.
        client: As given.
        timeout: As given.
        limits: As given.
        problem: Why it could not be connected to, or ``None``.
        retry_at: When that is tried again, on the loop's clock.
        problems: Why a list of it is left out, by method.
        calls: How many requests it was sent.
        relay: What stands beside the connection, where anything does.
    """

    __slots__ = (
        "calls",
        "client",
        "limits",
        "name",
        "planned",
        "problem",
        "problems",
        "relay",
        "retry_at",
        "timeout",
    )

    def __init__(
        self,
        planned: Planned,
        client: RelayClient,
        *,
        timeout: float | None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.planned = planned
        self.name = planned.name
        self.client = client
        self.timeout = timeout
        self.limits = limits
        self.problem: Exception | None = None
        self.retry_at = 0.0
        self.problems: dict[str, Exception] = {}
        self.calls = 0
        self.relay: Any = None

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<Upstream {self.name!r}, {self.state}>"

    @property
    def agreement(self) -> Agreement | None:
        """What the handshake agreed; ``None`` before."""
        return self.client.profile.agreement

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it declared, as it came; empty where it is not there."""
        agreement = self.agreement
        if agreement is None or not isinstance(agreement.capabilities, dict):
            return NOTHING
        return agreement.capabilities

    @property
    def revision(self) -> Revision | None:
        """What it speaks; ``None`` where it is not there."""
        agreement = self.agreement
        return agreement.revision if agreement is not None else None

    def offers(self, capability: str) -> bool:
        """Tell whether it declared a capability, such as ``resources.subscribe``."""
        return capability_declared(self.capabilities, capability)

    @property
    def state(self) -> str:
        """``"ready"``, ``"lost"``, ``"failed"`` or ``"idle"``."""
        if self.client.is_connected:
            return "ready"
        if self.problem is not None:
            return "failed"
        return "idle" if self.agreement is None else "lost"

    def status(self) -> dict[str, Any]:
        """Return what can be said of it, as JSON; no secrets."""
        found: dict[str, Any] = {"name": self.name, "state": self.state}
        agreement = self.agreement
        if agreement is not None:
            found["protocolVersion"] = agreement.revision.name
            if isinstance(agreement.server_info, dict):
                found["serverInfo"] = agreement.server_info
            found["capabilities"] = self.capabilities
        if self.problem is not None:
            found["error"] = str(self.problem)
        if self.problems:
            found["problems"] = {m: str(e) for m, e in self.problems.items()}
        found["calls"] = self.calls
        return found


RETRY_AFTER_S: Final = 5

FULL: Final = "too many connections to servers are in use: try again later"

CLOSED: Final = "the connections to servers were closed as they opened: try again later"


class UpstreamsBusy(HttpRefusal, InternalError):
    """No more connections to servers can be opened now; over HTTP a 503."""

    http_status = 503
    http_headers = (("retry-after", str(RETRY_AFTER_S)),)


class UpstreamPool:
    """The open sets, those of sessions and those that requests share; see the module.

    Args:
        maximum: How many sets are open at once.
        idle: How long a shared set stays open without use, in seconds.
        close: Begins to close a set, and calls `discard`.
    """

    def __init__(
        self, *, maximum: int, idle: float, close: Callable[[Upstreams], object]
    ) -> None:
        self._maximum = maximum
        self._idle = idle
        self._close = close
        self._sets: FairPool[Upstreams] = FairPool()
        self._shared: dict[Hashable, Upstreams] = {}
        self._opening: dict[Upstreams, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.touch = self._sets.touch  # for each request of a session

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def shared(self) -> list[Upstreams]:
        """The shared sets, also those that are being opened."""
        return list(self._shared.values())

    def find(self, identity: Hashable) -> Upstreams | None:
        """Return the shared set of an identity if it is open."""
        found = self._shared.get(identity)
        return found if found is not None and found.is_open else None

    async def open_shared(
        self, identity: Hashable, owner: Owner, make: Callable[[], Upstreams]
    ) -> Upstreams:
        """Return the shared set of an identity; open it if it is not open.

        Raises:
            RPCError: It cannot be opened; the next caller tries again.
        """
        upstreams = self._shared.get(identity)
        if upstreams is None:
            self._make_room(owner)
            upstreams = self._shared[identity] = make()
        await self.open(upstreams, owner)
        return upstreams

    async def open(self, upstreams: Upstreams, owner: Owner) -> None:
        """Open a set if it is not open; callers at the same time share one attempt.

        Cancelling it cancels the attempt for no other caller.

        Raises:
            RPCError: It cannot be opened.
        """
        opening = self._opening.get(upstreams)
        if opening is None:
            if upstreams.is_open:
                self.touch(upstreams)
                return
            self._make_room(owner)
            self._sets.add(upstreams, owner)
            opening = asyncio.get_running_loop().create_task(
                upstreams.open(), name="mcpwire-upstreams"
            )
            self._opening[upstreams] = opening
            opening.add_done_callback(partial(self._opened, upstreams))
        # Its callers use it already: it must not end for another set in between.
        upstreams.users += 1
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise UpstreamsBusy(CLOSED) from None
            raise
        finally:
            upstreams.users -= 1
        if not upstreams.is_open:  # it ended before its callers came to use it
            raise UpstreamsBusy(CLOSED)

    def _opened(self, upstreams: Upstreams, opening: asyncio.Task[None]) -> None:
        if self._opening.pop(upstreams, None) is None:
            return
        if opening.cancelled() or opening.exception() is not None:
            self._close(upstreams)
            return
        upstreams.is_open = True
        if upstreams in self._shared.values():
            self.left(upstreams)

    def left(self, upstreams: Upstreams) -> None:
        """Count the idle time of a shared set from now on."""
        self.touch(upstreams)
        loop = asyncio.get_running_loop()
        upstreams.used_at = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._idle, self._sweep)

    # The end...

    def _make_room(self, owner: Owner) -> None:
        """Have room for one more set of a client.

        Raises:
            UpstreamsBusy: No set may end for it.
        """
        if len(self._sets) < self._maximum:
            return
        found = self._sets.to_displace(owner, self._is_idle, _may_end)
        if found is None:
            raise UpstreamsBusy(FULL)
        self._end(found)

    def _is_idle(self, upstreams: Upstreams) -> bool:
        return not upstreams.is_busy and upstreams not in self._opening

    def _end(self, upstreams: Upstreams) -> None:
        """End a set, with the sessions that it belongs to."""
        self.discard(upstreams)
        session = upstreams.downstream.session
        for each in upstreams.sessions.copy() if session is None else (session,):
            if each.end is not None:
                each.end()
        if not upstreams.is_closed:
            self._close(upstreams)

    def discard(self, upstreams: Upstreams) -> None:
        """Take a set out; an attempt to open it is cancelled."""
        self._sets.discard(upstreams)
        upstreams.is_open = False
        for identity, each in self._shared.items():
            if each is upstreams:
                del self._shared[identity]
                break
        opening = self._opening.pop(upstreams, None)
        if opening is not None:
            opening.cancel()

    def _sweep(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for upstreams in self.shared:
            if not self._is_idle(upstreams):
                upstreams.used_at = now
            elif upstreams.used_at + self._idle <= now:
                self._end(upstreams)
        if self._shared:
            first = min(each.used_at for each in self._shared.values())
            self._timer = loop.call_at(first + self._idle, self._sweep)

    def close(self) -> None:
        """Begin to close all shared sets."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for upstreams in self.shared:
            self._end(upstreams)


def _may_end(upstreams: Upstreams) -> bool:
    # A session without `end` could not go on, nor be opened again.
    shared_by = upstreams.sessions
    return upstreams.may_end and all(each.end is not None for each in shared_by)
