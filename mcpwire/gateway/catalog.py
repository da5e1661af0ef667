"""Merged lists of the servers of one set, cached until a server changes its list.

Stale lists are fetched in parallel. A known name is looked up without any request.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpwire.errors import (
    InternalError,
    InvalidParams,
    MCPError,
    NameCollision,
    RemoteProtocolError,
    RequestTimeout,
)
from mcpwire.gateway.forwarding import forward
from mcpwire.gateway.merging import (
    MergedList,
    RawList,
    combine_pages,
    merge_named,
    merge_uris,
    read_alias,
)
from mcpwire.gateway.translation import ROUND_MEMBERS
from mcpwire.protocol.multistep import fetch_pages
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.request import member_of
from mcpwire.server.server import Server
from mcpwire.tools.results import EXTRAS
from mcpwire.transports.http.target import Http
from mcpwire.types import encode
from mcpwire.types._base import TRACE_KEYS
from mcpwire.versions import Era
from mcpwire.wire.json import encode as encode_json

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from mcpwire.gateway.plan import Plan
    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.server.request import RequestContext
    from mcpwire.versions import Revision

    Json = dict[str, Any]

logger = LimitedLogger("mcpwire")


class Kind(NamedTuple):
    """A kind of list."""

    method: str
    capability: str
    """The capability that it requires."""

    key: str
    """The member of results with the items."""

    name: str
    """The member of an item that identifies it."""


KINDS: Final = {
    "tools": Kind("tools/list", "tools", "tools", "name"),
    "prompts": Kind("prompts/list", "prompts", "prompts", "name"),
    "resources": Kind("resources/list", "resources", "resources", "uri"),
    "templates": Kind(
        "resources/templates/list", "resources", "resourceTemplates", "uriTemplate"
    ),
}


class Catalog:
    """The merged lists of the servers of one set."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._states: dict[str, list[tuple[ServerList, int]]] = {}
        # The last merged list of each kind; may be older than the last change.
        self.known: dict[str, MergedList] = {}

    def forget(self) -> None:
        """Discard the merged lists after a server was removed from the set."""
        self.known.clear()
        self._states.clear()

    # Merged lists

    async def get_current(self, kind: str, *, renew: bool) -> tuple[MergedList, float]:
        """Return a merged list for a client, and for how many seconds it is current.

        2026-07-28 server/utilities/caching: lists of servers that report no changes are
        fetched again after their lifetime, with `renew`: not between pages.
        """
        loop = asyncio.get_running_loop()
        for server_list in self._lists_of(kind) if renew else ():
            if server_list.fresh_until <= loop.time():
                server_list.fresh_until = math.inf
                server_list.version += 1
        merged = await self.get(kind)
        ends = (each.fresh_until for each in self._lists_of(kind))
        return merged, min(ends, default=math.inf) - loop.time()

    async def get(self, kind: str) -> MergedList:
        """Return the merged list of a kind; fetch stale lists of servers first."""
        self._upstreams.retry()
        stale = [each for each in self._lists_of(kind) if not each.is_fresh]
        await asyncio.gather(*(each.refresh() for each in stale))
        lists = self._lists_of(kind)  # the servers may have changed
        state = [(server_list, server_list.fetched_version) for server_list in lists]
        if self._states.get(kind) != state:
            self.known[kind] = self._merge(
                kind, [each.contents for each in lists if each.contents is not None]
            )
            self._states[kind] = state
        return self.known[kind]

    def _lists_of(self, kind: str) -> list[ServerList]:
        """Return a kind's lists of all servers that offer it or get extra tools."""
        capabilities = {KINDS[kind].capability}
        if kind == "tools":
            capabilities |= self._upstreams.gateway.tool_capabilities
        return [
            upstream.lists[kind]
            for upstream in self._upstreams.members.values()
            if any(map(upstream.offers, capabilities))
        ]

    async def items_of(self, kind: str, upstream: Upstream) -> list[Json]:
        """Return one server's items of a kind, unchanged."""
        if not upstream.offers(KINDS[kind].capability):
            return []
        server_list = upstream.lists[kind]
        if not server_list.is_fresh:
            await server_list.refresh()
        return [] if server_list.contents is None else list(server_list.contents.items)

    def _merge(self, kind: str, lists: list[RawList]) -> MergedList:
        if kind in {"resources", "templates"}:
            name, has_aliases = KINDS[kind].name, kind == "resources"
            return merge_uris(lists, name, has_aliases=has_aliases)
        gateway = self._upstreams.gateway
        servers = self._upstreams.server_labels()
        try:
            if kind == "prompts":
                return merge_named(lists, gateway.names, servers=servers)
            return merge_named(
                lists,
                gateway.names,
                rules=gateway.rules,
                transforms=gateway.transforms,
                servers=servers,
            )
        except NameCollision as error:
            raise InternalError(str(error)) from error

    def collisions(self) -> dict[str, list[str]]:
        """Return descriptions of the known name collisions, by kind of list."""
        return {
            kind: [str(collision) for collision in merged.collisions]
            for kind, merged in self.known.items()
            if merged.collisions
        }

    def param_headers(self, name: str) -> tuple[ParamHeader, ...]:
        """Return the arguments of a tool that headers mirror; empty if unknown."""
        tools = self.known.get("tools")
        return () if tools is None else tools.param_headers.get(name, ())

    # Owners of names and URIs

    async def owner_of(self, kind: str, name: str) -> tuple[Upstream, str] | None:
        """Return the server of a tool or prompt and its name there, or ``None``."""
        known = self.known.get(kind)
        owner = known.owners.get(name) if known is not None else None
        if owner is None:
            owner = (await self.get(kind)).owners.get(name)
        upstream = self._upstreams.members.get(owner[0]) if owner is not None else None
        if upstream is None or owner is None:
            return None
        return upstream, owner[1]

    async def owners_of_uri(self, uri: str) -> list[tuple[Upstream, str]]:
        """Return the servers that may have a resource, most likely first, with its URI.

        The server that lists the resource, or else the server that an alias names, or
        else all servers with a matching template, or else the only one with resources.
        """
        known = self.known.get("resources")
        owner = known.owners.get(uri) if known is not None else None
        if owner is None:
            owner = (await self.get("resources")).owners.get(uri) or read_alias(uri)
        members = self._upstreams.members
        if owner is not None and owner[0] in members:
            return [(members[owner[0]], owner[1])]
        templates = await self.get("templates")
        members = self._upstreams.members  # may have changed during the await
        servers = [server for server in templates.servers_of(uri) if server in members]
        if servers:
            return [(members[server], uri) for server in servers]
        offering = self._upstreams.servers_offering("resources")
        return [(offering[0], uri)] if len(offering) == 1 else []

    async def aliases_of(self, server: str) -> Mapping[str, str]:
        """Return the aliases that clients see of a server's resources, by URI."""
        if len(self._upstreams.servers_offering("resources")) < 2:
            return {}
        return (await self.get("resources")).aliases.get(server, {})


MAX_LIST_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a cached list, all pages together, in bytes of JSON."""

RETRY_S: Final = 30.0
"""Seconds until a server that could not be connected to is tried again."""

RECOVERY_WAIT_S: Final = 1.0
"""Seconds that a new set waits for a server, or for a list of it, that delayed an
earlier set and failed; it may answer again."""

LIST_RETRY_S: Final = 5.0
"""Seconds until a list is fetched again after a failure."""


class ServerList:
    """One cached list of one server."""

    def __init__(self, upstream: Upstream, kind: str) -> None:
        self.upstream = upstream
        self._method, self._capability, self._list_key, _ = KINDS[kind]
        self._key = upstream.planned, self._method
        self._task: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self.fresh_until = math.inf
        self.version = 0  # incremented at each change
        self.fetched_version = -1  # `version` at the start of the last fetch
        self.contents: RawList | None = None  # None: the fetch failed
        self._is_slow = False  # callers do not wait for the next fetch

    @property
    def is_fresh(self) -> bool:
        """Whether no fetch is due: unchanged, or failed within `LIST_RETRY_S`."""
        if self.fetched_version < self.version:
            return False
        if self.contents is not None:
            return True
        return asyncio.get_running_loop().time() < self._retry_at

    async def refresh(self) -> None:
        """Fetch the list, so that it is no older than this call.

        After a timeout, callers do not wait for the next fetch, and those of other sets
        wait `RECOVERY_WAIT_S`. Clients are notified when a missing list is available.
        """
        is_late = self._key in self.upstream.upstreams.gateway.unresponsive
        if self.fetched_version >= self.version:
            self.version += 1  # retry after a failure
        version = self.version
        while self.fetched_version < version:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(
                    self._fetch(), name="mcpwire-list"
                )
            if self._is_slow:
                return
            task = self._task
            # A cancelled caller must not cancel the fetch for the others.
            await asyncio.wait((task,), timeout=RECOVERY_WAIT_S if is_late else None)
            if task.cancelled():  # `close`, maybe before the first step of the task
                return
            if not task.done():
                self._is_slow = True

    async def _fetch(self) -> None:
        upstream, version = self.upstream, self.version
        was_left_out = self.contents is None and self.fetched_version >= 0
        started = asyncio.get_running_loop().time()
        record = partial(upstream.upstreams.record_attempt, self._key, started)
        try:
            contents = await self._fetch_in_time()
        except asyncio.CancelledError as error:
            record(error)
            raise
        except (MCPError, OSError) as error:
            record(error)
            self.contents = None
            self._is_slow = isinstance(error, RequestTimeout)
            self._retry_at = asyncio.get_running_loop().time() + LIST_RETRY_S
            upstream.problems[self._method] = error
            logger.warning(
                "%s of the server %r is left out: %s",
                self._method,
                upstream.name,
                error,
                kind=(self._method, upstream.name),
                extra={"server": upstream.name, "error": error},
            )
        else:
            record(None)
            was_left_out |= self._is_slow
            self.contents, self._is_slow = contents, False
            is_stateless = upstream.client.connection.profile.era is Era.STATELESS
            if is_stateless and not upstream.offers(f"{self._capability}.listChanged"):
                now = asyncio.get_running_loop().time()
                self.fresh_until = now + contents.ttl / 1000
            upstream.problems.pop(self._method, None)
        finally:
            self.fetched_version, self._task = version, None
        if was_left_out and self.contents is not None:
            upstream.change_throttle.notify(
                f"notifications/{self._capability}/list_changed"
            )

    async def _fetch_in_time(self) -> RawList:
        timeout = self.upstream.timeout
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._fetch_list()
        except TimeoutError as error:  # of all pages, of one, of the OS
            if timeout is None or not limit.expired():
                raise
            raise RequestTimeout(
                method=self._method, timeout=timeout, elapsed=timeout
            ) from error

    async def _fetch_list(self) -> RawList:
        """Fetch all pages unchanged; no request if there are extra tools only."""
        upstream = self.upstream
        pages: list[Json] = [{}]  # an empty page, private and not cacheable
        if upstream.offers(self._capability):
            pages = await self._fetch_pages()
        planned = upstream.planned
        return combine_pages(
            upstream.name,
            pages,
            self._list_key,
            keeps_names=planned.keeps_names,
            rules=planned.rules,
            extras=self._extras(),
        )

    async def _fetch_pages(self) -> list[Json]:
        upstream, method, remaining = self.upstream, self._method, MAX_LIST_BYTES
        steps = fetch_pages(method, {}, limit=upstream.limits.pages)
        try:
            step: Any = next(steps)
            while True:
                try:
                    result = await upstream.client.request(
                        method, dict(step.params), timeout=upstream.timeout
                    )
                except MCPError as error:
                    step = steps.throw(error)
                else:
                    remaining -= len(encode_json(result))
                    if remaining < 0:
                        raise RemoteProtocolError(
                            f"{method}: the list has more than {MAX_LIST_BYTES} bytes"
                        )
                    step = steps.send(result)
        except StopIteration as done:
            return list(done.value)

    def _extras(self) -> list[Json]:
        """Return the tools that the gateway adds to the server's own."""
        if self._method != "tools/list":
            return []
        capabilities = self.upstream.upstreams.gateway.tool_capabilities
        return [
            encode(extra.tool)
            for extra in EXTRAS.values()
            if extra.capability in capabilities
            and self.upstream.offers(extra.capability)
        ]

    def close(self) -> None:
        """Cancel the running fetch."""
        if self._task is not None:
            self._task.cancel()


async def call_extra(
    upstream: Upstream, name: str, arguments: Any, request: RequestContext
) -> Json:
    """Handle a call of a tool in `EXTRAS`."""
    arguments = {} if arguments is None else arguments
    if type(arguments) is not dict:
        raise InvalidParams("params.arguments must be an object")
    if name.startswith("mcp_list_"):  # answered from the catalog
        kind = name.removeprefix("mcp_list_")
        items = await upstream.upstreams.catalog.items_of(kind, upstream)
        return EXTRAS[name].result(items)
    is_prompt = name == "mcp_get_prompt"
    method, key = ("prompts/get", "name") if is_prompt else ("resources/read", "uri")
    member_of(arguments, key, str, "params.arguments")
    # Arguments, which a model writes, cannot be the answers to input requests.
    params = {k: arguments[k] for k in EXTRAS[name].parameters if k in arguments}
    params |= {k: request.params[k] for k in ROUND_MEMBERS if k in request.params}
    # Links in results of tools have aliases.
    owner = None if is_prompt else read_alias(params["uri"])
    if owner is not None and owner[0] == upstream.name:
        params["uri"] = owner[1]
    result = await forward(upstream, method, params, request)
    if result.get("resultType", "complete") != "complete":
        return result
    return EXTRAS[name].result(result)


MAX_PLANS: Final = 1_000


class Descriptions:
    """Cache of the capabilities and instructions of plans, by protocol version.

    Only plans with a server in a child process, or on a custom transport, are cached.
    HTTP connections are opened with the session, because their session ids are a part
    of the gateway's session ids, which other processes read. A plan with a server over
    HTTP that gets header fields of the client is not cached: the server may answer each
    client differently.
    """

    def __init__(self) -> None:
        # The plan, its description, and the time when that expires.
        self._entries: dict[Hashable, tuple[Plan, Json, float]] = {}

    def find(
        self, plan: Plan, revision: Revision, headers: Iterable[str]
    ) -> Json | None:
        """Return the cached capabilities and instructions of a plan, if any."""
        entry = self._entries.get((plan.key, plan.only_server, revision.name))
        if entry is None or _is_personal(plan, headers):
            return None
        cached_plan, description, fresh_until = entry
        is_fresh = asyncio.get_running_loop().time() < fresh_until
        is_same = cached_plan.servers == plan.servers
        return dict(description) if is_fresh and is_same else None

    def put(
        self,
        plan: Plan,
        revision: Revision,
        description: Json,
        *,
        headers: Iterable[str],
        is_complete: bool,
    ) -> None:
        """Cache the capabilities and instructions of a plan."""
        if all(isinstance(planned.target, (Http, Server)) for planned in plan.servers):
            return
        if _is_personal(plan, headers):
            return
        while len(self._entries) >= MAX_PLANS:
            del self._entries[next(iter(self._entries))]
        now = asyncio.get_running_loop().time()
        fresh_until = math.inf if is_complete else now + RETRY_S
        key = (plan.key, plan.only_server, revision.name)
        self._entries[key] = (plan, dict(description), fresh_until)


def _is_personal(plan: Plan, headers: Iterable[str]) -> bool:
    # Trace context differs between requests, not between clients.
    return any(name not in TRACE_KEYS for name in headers) and any(
        isinstance(planned.target, Http) for planned in plan.servers
    )
