"""Sets of connections: the servers of one session, or of one identity.

By default, each session of a client has its own set. Stateless requests of one client
for the same servers share a set. `UpstreamPool` holds the open sets.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, TransportError
from mcpwire.gateway.catalog import RECOVERY_WAIT_S, RETRY_S, Catalog
from mcpwire.gateway.downstream import Downstream
from mcpwire.gateway.merging import CAPABILITIES, merge_capabilities, merge_instructions
from mcpwire.gateway.subscriptions import move_subscriptions
from mcpwire.gateway.tasks import task_capabilities
from mcpwire.gateway.translation import public_text
from mcpwire.gateway.upstream import LISTS, Upstream
from mcpwire.server.dispatcher import HttpRefusal
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.notifications import Hub
from mcpwire.tools.names import server_labels
from mcpwire.transports.base import wait_shared
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from mcpwire.gateway.dispatcher import Requester
    from mcpwire.gateway.gateway import Gateway
    from mcpwire.gateway.plan import Plan
    from mcpwire.gateway.subscriptions import ResourceSubscription
    from mcpwire.server.request import Owner, Session
    from mcpwire.versions import Revision

logger = LimitedLogger("mcpwire")

UNRESPONSIVE_S: Final = 3.0
"""Seconds after which a failed attempt to connect or to list counts as a delay."""

MAX_UNRESPONSIVE: Final = 1_000
"""Maximum of delays that a gateway remembers; the oldest is dropped."""


class Upstreams:
    """The connections of one session or identity.

    `headers` are forwarded to servers; the next request of a session replaces them.
    """

    def __init__(
        self, gateway: Gateway, requester: Requester, session: Session | None = None
    ) -> None:
        self.gateway = gateway
        self.plan = requester.plan
        self.downstream = Downstream(gateway, requester, session)
        self.headers = requester.headers
        self.hub = Hub()
        # In the plan's order, including failed connections.
        self.members = {each.name: Upstream(self, each) for each in self.plan.servers}
        self.catalog = Catalog(self)
        self.users = 0  # running requests, and sessions that share the set
        self.used_at = 0.0  # end of the last use, by the loop's clock
        self.sessions: set[Session] = set()  # sessions that share the set
        # By session and URI, or by the subscription itself.
        self.subscriptions: dict[object, ResourceSubscription] = {}
        self.may_end = True  # whether its session may be ended for another set
        self.is_open = self.has_started = self.is_closed = False
        self._retry_tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Upstreams {', '.join(self.members)}>"

    # Opening and closing

    async def open(self) -> None:
        """Connect to all servers, in parallel; call `aclose` after a failure.

        A server that delayed an earlier set, and failed, is connected to in the
        background after `RECOVERY_WAIT_S`.
        """
        self.has_started = True
        slots = asyncio.Semaphore(self.gateway.concurrency)
        is_strict = self.gateway.on_error == "raise"
        for upstream in () if is_strict else self.members.values():
            reason = self.gateway.unresponsive.get(upstream.planned)
            upstream.problem = None if reason is None else TransportError(reason)
        self.retry()
        tasks = [
            asyncio.create_task(self._connect(upstream, slots), name="mcpwire-upstream")
            for upstream in self.members.values()
            if upstream.problem is None
        ]
        return_when = asyncio.FIRST_COMPLETED if is_strict else asyncio.ALL_COMPLETED
        pending = set(tasks)
        try:
            if self._retry_tasks:
                await asyncio.wait(self._retry_tasks, timeout=RECOVERY_WAIT_S)
            while pending:
                _, pending = await asyncio.wait(pending, return_when=return_when)
                for upstream in self.members.values() if is_strict else ():
                    if upstream.problem is not None:
                        raise InternalError(
                            f"the server {upstream.name!r} could not be connected to: "
                            f"{public_text(upstream.problem)}"
                        ) from upstream.problem
        finally:
            for task in tasks:
                task.cancel()

    async def _connect(
        self, upstream: Upstream, slots: asyncio.Semaphore | None = None
    ) -> None:
        # Background attempts take no slot, so that they do not delay new servers.
        async with slots or nullcontext():
            if not self._is_member(upstream):  # removed while waiting for a slot
                return
            loop = asyncio.get_running_loop()
            started = loop.time()
            try:
                await upstream.client.connect()
            except asyncio.CancelledError as error:
                self.record_attempt(upstream.planned, started, error)
                raise
            except Exception as error:  # noqa: BLE001 - recorded for the server
                upstream.problem = error
                upstream.retry_at = loop.time() + RETRY_S
                self.record_attempt(upstream.planned, started, error)
                logger.warning(
                    "the server %r could not be connected to: %s",
                    upstream.name,
                    error,
                    kind=upstream.name,
                    extra={"server": upstream.name, "error": error},
                )
            else:
                upstream.problem = None
                self.record_attempt(upstream.planned, started, None)
                if not self._is_member(upstream):  # removed during the attempt
                    await upstream.client.aclose()

    def record_attempt(
        self, key: Hashable, started: float, error: BaseException | None
    ) -> None:
        """Let later sets not wait for a server, or its list, that was late and failed.

        An attempt may be cancelled because its client waits less than the gateway.
        """
        unresponsive = self.gateway.unresponsive
        is_late = asyncio.get_running_loop().time() - started > UNRESPONSIVE_S
        if error is not None and is_late:
            # The error itself would keep this set, to which its traceback refers.
            unresponsive[key] = str(error) or "it did not answer"
            if len(unresponsive) > MAX_UNRESPONSIVE:
                del unresponsive[next(iter(unresponsive))]
        elif not isinstance(error, asyncio.CancelledError):
            unresponsive.pop(key, None)

    def _is_member(self, upstream: Upstream) -> bool:
        return not self.is_closed and self.members.get(upstream.name) is upstream

    async def replace(self, plan: Plan) -> None:
        """Replace the servers; unchanged ones keep their connections.

        Listeners are notified that all lists changed. A server that cannot be
        connected to is left out, whatever `on_error` says.
        """
        before, members = self.members, {}
        for planned in plan.servers:
            upstream = before.get(planned.name)
            if upstream is None or upstream.planned != planned:
                upstream = Upstream(self, planned)
            members[planned.name] = upstream
        if self.is_closed:
            return
        self.plan, self.members = plan, members
        removed = [each for each in before.values() if each not in members.values()]
        added = [each for each in members.values() if each not in before.values()]
        for upstream in removed:
            upstream.cancel_fetches()
        if removed:
            self.catalog.forget()
        levels = {
            level
            for upstream in before.values()
            if (level := upstream.client.connection.log_level) is not None
        }
        if not self.has_started:
            added = []
        slots = asyncio.Semaphore(self.gateway.concurrency)
        await asyncio.gather(
            *(self._connect(upstream, slots) for upstream in added),
            *(upstream.client.aclose() for upstream in removed),
        )
        await move_subscriptions(self, removed, added, levels)
        for kind in LISTS:
            self.hub.notify(f"notifications/{kind}/list_changed")

    def retry(self) -> None:
        """Retry failed connections in the background, after `RETRY_S` seconds."""
        now = asyncio.get_running_loop().time()
        for upstream in self.members.values():
            is_due = upstream.problem is not None and upstream.retry_at <= now
            if is_due and not self.is_closed:
                upstream.retry_at = now + RETRY_S
                task = asyncio.create_task(
                    self._reconnect(upstream), name="mcpwire-upstream"
                )
                self._retry_tasks.add(task)
                task.add_done_callback(self._retry_tasks.discard)

    async def _reconnect(self, upstream: Upstream) -> None:
        await self._connect(upstream)
        if upstream.problem is None and self._is_member(upstream):
            upstream.on_reconnect()

    async def aclose(self) -> None:
        """Close all connections in parallel, within the time limits of a client."""
        self.is_closed = True
        for upstream in self.members.values():
            upstream.cancel_fetches()
        for task in self._retry_tasks:
            task.cancel()
        self.downstream.suspended.close()
        outcomes = await asyncio.gather(
            *(upstream.client.aclose() for upstream in self.members.values()),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                logger.warning("a server could not be released: %s", outcome)

    @property
    def is_busy(self) -> bool:
        """Whether closing the set now would interrupt a client."""
        if self.users > 0:
            return True
        if self.downstream.session is not None:
            # A session can be opened again, so that only its calls count.
            return any(upstream.in_flight.calls for upstream in self.members.values())
        return len(self.hub) > 0 or len(self.downstream.suspended) > 0

    def serves(self, capabilities: Mapping[str, Any]) -> bool:
        """Return whether the set fits a client that declares these capabilities.

        A server's session keeps the capabilities that were declared when it opened; a
        server that is not connected may turn out to have a session.
        """
        if capabilities == self.downstream.capabilities:
            return True
        revisions = (upstream.revision for upstream in self.members.values())
        return all(r is not None and r.era is Era.STATELESS for r in revisions)

    # Combined properties of the servers

    def ready(self) -> list[Upstream]:
        """Return the servers with a completed handshake, in order."""
        return [each for each in self.members.values() if each.agreement is not None]

    def servers_offering(self, capability: str) -> list[Upstream]:
        """Return the servers that declared a capability, in order."""
        return [each for each in self.members.values() if each.offers(capability)]

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the combined capabilities, or all while a server is not connected."""
        if len(self.ready()) < len(self.members):
            return CAPABILITIES
        extra = task_capabilities(self)
        if any(map(self.servers_offering, self.gateway.tool_capabilities)):
            extra["tools"] = {}
        return merge_capabilities(
            [upstream.capabilities for upstream in self.ready()], revision, extra=extra
        )

    def instructions(self) -> str | None:
        """Return the combined instructions; the gateway's own override them."""
        if self.gateway.instructions is not None:
            return self.gateway.instructions
        return merge_instructions(
            (upstream.name, upstream.agreement.instructions)
            for upstream in self.members.values()
            if upstream.agreement is not None
        )

    def server_labels(self) -> dict[str, str]:
        """Return the servers' declared names for use in names; empty for ``"ours"``."""
        if self.gateway.server_names == "ours":
            return {}
        infos = {}
        for upstream in self.ready():
            agreement = upstream.agreement
            info = agreement.server_info if agreement is not None else None
            name, version = (
                value if type(value := (info or {}).get(key)) is str else ""
                for key in ("name", "version")
            )
            infos[upstream.name] = name or upstream.name, version
        return server_labels(infos)

    def status(self) -> dict[str, Any]:
        """Return the state of the set as JSON, without secrets."""
        return {
            "servers": [upstream.status() for upstream in self.members.values()],
            "collisions": self.catalog.collisions(),
        }


RETRY_AFTER_S: Final = 5

FULL: Final = "too many connections to servers are in use: try again later"

CLOSED: Final = "the connections to servers were closed as they opened: try again later"


class UpstreamsBusy(HttpRefusal, InternalError):
    """Error for connections that cannot be opened at the moment; over HTTP a 503."""

    http_status = 503
    http_headers = (("retry-after", str(RETRY_AFTER_S)),)


class UpstreamPool:
    """The sets of sessions and the shared ones.

    At most `maximum` sets are open at once; a shared set is closed after `idle` seconds
    without use.
    """

    def __init__(self, *, maximum: int, idle: float) -> None:
        self._maximum = maximum
        self._idle = idle
        self._sets: FairPool[Upstreams] = FairPool()
        self.session_sets: set[Upstreams] = set()
        self._shared: dict[Hashable, Upstreams] = {}
        self._opening: dict[Upstreams, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.touch = self._sets.touch  # called for each request of a session

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def shared(self) -> list[Upstreams]:
        """The shared sets, including those that are being opened."""
        return list(self._shared.values())

    def find(self, identity: Hashable) -> Upstreams | None:
        """Return the shared set of an identity if it is open."""
        upstreams = self._shared.get(identity)
        return upstreams if upstreams is not None and upstreams.is_open else None

    async def open_shared(
        self, identity: Hashable, owner: Owner, make: Callable[[], Upstreams]
    ) -> Upstreams:
        """Return the shared set of an identity; open it if it is not open."""
        upstreams = self._shared.get(identity)
        if upstreams is None:
            self._evict_if_full(owner)
            upstreams = self._shared[identity] = make()
        await self.open(upstreams, owner)
        return upstreams

    async def open(self, upstreams: Upstreams, owner: Owner) -> None:
        """Open a set if it is not open; concurrent callers share one attempt."""
        opening = self._opening.get(upstreams)
        if opening is None:
            if upstreams.is_open:
                self.touch(upstreams)
                return
            self._evict_if_full(owner)
            self._sets.add(upstreams, owner)
            opening = asyncio.get_running_loop().create_task(
                upstreams.open(), name="mcpwire-upstreams"
            )
            self._opening[upstreams] = opening
            opening.add_done_callback(partial(self._on_opened, upstreams))
        # Count the callers as users, so that the set is not evicted before its use.
        upstreams.users += 1
        try:
            await wait_shared(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise UpstreamsBusy(CLOSED) from None
            raise
        finally:
            upstreams.users -= 1
        if not upstreams.is_open:  # closed before its callers could use it
            raise UpstreamsBusy(CLOSED)

    def _on_opened(self, upstreams: Upstreams, opening: asyncio.Task[None]) -> None:
        if self._opening.pop(upstreams, None) is None:
            return
        if opening.cancelled() or opening.exception() is not None:
            self.close(upstreams)
            return
        upstreams.is_open = True
        if upstreams in self._shared.values():
            self.mark_idle(upstreams)

    def mark_idle(self, upstreams: Upstreams) -> None:
        """Restart the idle time of a shared set."""
        self.touch(upstreams)
        loop = asyncio.get_running_loop()
        upstreams.used_at = loop.time()
        if self._timer is None and not upstreams.is_closed:
            self._timer = loop.call_later(self._idle, self._close_idle_sets)

    # Eviction and closing

    def _evict_if_full(self, owner: Owner) -> None:
        """At the limit, evict a set for a client's new one; raise if none can end."""
        if len(self._sets) < self._maximum:
            return
        evicted = self._sets.find_displaceable(owner, self._is_idle, _may_end)
        if evicted is None:
            raise UpstreamsBusy(FULL)
        self._end_set(evicted)

    def _is_idle(self, upstreams: Upstreams) -> bool:
        return not upstreams.is_busy and upstreams not in self._opening

    def _end_set(self, upstreams: Upstreams) -> None:
        """Close a set, and end the sessions that use it."""
        own = upstreams.downstream.session
        for session in upstreams.sessions.copy() if own is None else (own,):
            if session.end is not None:
                session.end()
        if not upstreams.is_closed:
            self.close(upstreams)

    def close(self, upstreams: Upstreams) -> asyncio.Task[None]:
        """Remove a set, also one that is being opened; close it in a new task."""
        self._sets.discard(upstreams)
        self.session_sets.discard(upstreams)
        upstreams.is_open, upstreams.is_closed = False, True
        for identity, shared in self._shared.items():
            if shared is upstreams:
                del self._shared[identity]
                break
        opening = self._opening.pop(upstreams, None)
        if opening is not None:
            opening.cancel()
        task = asyncio.get_running_loop().create_task(
            upstreams.aclose(), name="mcpwire-gateway-close"
        )
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    def _close_idle_sets(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for upstreams in self.shared:
            if not self._is_idle(upstreams):
                upstreams.used_at = now
            elif upstreams.used_at + self._idle <= now:
                self._end_set(upstreams)
        if self._shared:
            earliest = min(upstreams.used_at for upstreams in self._shared.values())
            self._timer = loop.call_at(earliest + self._idle, self._close_idle_sets)

    async def aclose(self) -> None:
        """Close all sets."""
        for upstreams in self.shared:
            self._end_set(upstreams)
        for upstreams in list(self.session_sets):
            self.close(upstreams)
        if self._timer is not None:  # last, as the end of a session sets it
            self._timer.cancel()
            self._timer = None
        if self._closing:
            await asyncio.wait(list(self._closing))


def _may_end(upstreams: Upstreams) -> bool:
    # A session without `end` can neither be ended nor opened again.
    shared_by = upstreams.sessions
    return upstreams.may_end and all(session.end is not None for session in shared_by)
