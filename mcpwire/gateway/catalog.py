"""What the servers of one set list, merged and kept until one of them changes it.

What of it has to be fetched is fetched in parallel. A name that is known is looked up
without asking anybody.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

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
    Listed,
    Merged,
    listed,
    merge_named,
    merge_resources,
    merge_templates,
    read_alias,
)
from mcpwire.protocol.methods import find
from mcpwire.protocol.multistep import pages
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.server import Server
from mcpwire.tools.results import EXTRAS
from mcpwire.transports.http.target import Http
from mcpwire.types import encode
from mcpwire.types._base import TRACE_KEYS
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

__all__ = ["RETRY_S", "Catalog", "Descriptions", "call_extra"]

logger = LimitedLogger("mcpwire")

KINDS: Final = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resources"),
}
"""Kind of list -> the request for it, and the capability that it needs."""


class Catalog:
    """The merged lists of one set."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._lists: dict[tuple[str, str], ServerList] = {}
        self._states: dict[str, list[tuple[ServerList, int]]] = {}
        # What was merged last, by kind; may be older than the last change.
        self.known: dict[str, Merged] = {}

    def drop(self, kind: str, server: str) -> None:
        """Have a server's list fetched again by the next reader."""
        for each in ("resources", "templates") if kind == "resources" else (kind,):
            if found := self._lists.get((server, each)):
                found.wanted += 1

    def forget(self, upstream: Upstream) -> None:
        """Forget the lists of a server that has left."""
        for kind in KINDS:
            found = self._lists.get((upstream.name, kind))
            if found is not None and found.upstream is upstream:
                self._lists.pop((upstream.name, kind)).close()
        self.known.clear()
        self._states.clear()

    def close(self) -> None:
        """Fetch nothing more."""
        for each in self._lists.values():
            each.close()

    # Reading...

    async def get(self, kind: str) -> Merged:
        """Return one of the `KINDS`, no older than this call."""
        self._upstreams.retry()
        stale = [each for each in self._lists_of(kind) if not each.is_fresh]
        await asyncio.gather(*(each.refresh() for each in stale))
        lists = self._lists_of(kind)  # others may be there by now
        state = [(each, each.got) for each in lists]
        if self._states.get(kind) != state:
            self.known[kind] = self._merge(
                kind, [each.found for each in lists if each.found is not None]
            )
            self._states[kind] = state
        return self.known[kind]

    def _lists_of(self, kind: str) -> list[ServerList]:
        """Return the lists of the servers that have such one, or get one here."""
        wanted = {KINDS[kind][1]}
        if kind == "tools":
            wanted |= self._upstreams.gateway.as_tools
        return [
            self._list_of(each, kind)
            for each in self._upstreams.members.values()
            if any(map(each.offers, wanted))
        ]

    def _list_of(self, upstream: Upstream, kind: str) -> ServerList:
        found = self._lists.get((upstream.name, kind))
        if found is None:
            found = self._lists[upstream.name, kind] = ServerList(upstream, kind)
        return found

    async def items_of(self, kind: str, upstream: Upstream) -> list[Json]:
        """Return what one server lists of a kind, as it came."""
        if not upstream.offers(KINDS[kind][1]):
            return []
        found = self._list_of(upstream, kind)
        if not found.is_fresh:
            await found.refresh()
        return [] if found.found is None else list(found.found.items)

    def _merge(self, kind: str, lists: list[Listed]) -> Merged:
        if kind == "resources":
            return merge_resources(lists)
        if kind == "templates":
            return merge_templates(lists)
        gateway = self._upstreams.gateway
        servers = self._upstreams.names_of_servers()
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
        """Return the servers with name collisions, by kind, as far as is known."""
        return {
            kind: [str(each) for each in merged.collisions]
            for kind, merged in self.known.items()
            if merged.collisions
        }

    def param_headers(self, name: str) -> tuple[ParamHeader, ...]:
        """Return which arguments of a tool header fields repeat, as far as is known."""
        tools = self.known.get("tools")
        return () if tools is None else tools.param_headers.get(name, ())

    # Owners...

    async def owner_of(self, kind: str, name: str) -> tuple[Upstream, str] | None:
        """Return the server of a tool or prompt, and its name there."""
        known = self.known.get(kind)
        owner = known.owners.get(name) if known is not None else None
        if owner is None:
            owner = (await self.get(kind)).owners.get(name)
        upstream = self._upstreams.members.get(owner[0]) if owner is not None else None
        if upstream is None or owner is None:
            return None
        return upstream, owner[1]

    async def owner_of_uri(self, uri: str) -> tuple[Upstream, str] | None:
        """Return the likeliest server of a resource, and its URI there."""
        owners = await self.owners_of_uri(uri)
        return owners[0] if owners else None

    async def owners_of_uri(self, uri: str) -> list[tuple[Upstream, str]]:
        """Return the servers that may have a resource, likeliest first, with its URI.

        The server that lists it; or the one named by an alias; or those with a matching
        template; or the only server that has resources at all.
        """
        known = self.known.get("resources")
        owner = known.owners.get(uri) if known is not None else None
        if owner is None:
            owner = (await self.get("resources")).owners.get(uri) or read_alias(uri)
        members = self._upstreams.members
        if owner is not None and owner[0] in members:
            return [(members[owner[0]], owner[1])]
        templates = (await self.get("templates")).templates
        members = self._upstreams.members  # there may be others by now
        servers = [each for each in templates.of(uri) if each in members]
        if servers:
            return [(members[server], uri) for server in servers]
        offering = self._upstreams.offering("resources")
        return [(offering[0], uri)] if len(offering) == 1 else []

    async def aliases_of(self, server: str) -> Mapping[str, str]:
        """Return the URIs of a server that clients know by an alias."""
        if len(self._upstreams.offering("resources")) < 2:
            return {}
        return (await self.get("resources")).aliases.get(server, {})


MAX_LIST: Final = 16 * 1024 * 1024
"""How long all pages of one list may be together, in bytes of JSON: they are kept."""

RETRY_S: Final = 30.0
"""How long a server that could not be connected to is left alone."""

LIST_RETRY_S: Final = 5.0
"""Seconds until a server is asked again after its list failed."""


class ServerList:
    """One list of one server."""

    def __init__(self, upstream: Upstream, kind: str) -> None:
        self.upstream = upstream
        self._method, self._capability = KINDS[kind]
        self._task: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self.wanted = 0  # counts its changes
        self.got = -1  # the change after which it was fetched
        self.found: Listed | None = None  # None: that failed
        self._is_slow = False  # it failed because it took too long

    @property
    def is_fresh(self) -> bool:
        """Whether it is as the server has it, as far as we know."""
        if self.got < self.wanted:
            return False
        if self.found is not None:
            return True
        return asyncio.get_running_loop().time() < self._retry_at

    async def refresh(self) -> None:
        """Have it as it was when this was called, or later.

        No request waits again for a list that took too long. Clients are notified when
        a list that was left out is available.
        """
        if self.got >= self.wanted:
            self.wanted += 1  # it failed, and may go better now
        wanted = self.wanted
        while self.got < wanted:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(
                    self._fetch(), name="mcpwire-list"
                )
            if self._is_slow:
                return
            # One caller may be cancelled; the others still want it.
            await asyncio.wait((self._task,))

    async def _fetch(self) -> None:
        upstream, version = self.upstream, self.wanted
        was_left_out = self.found is None and self.got >= 0
        try:
            found = await self._in_time()
        except (MCPError, OSError) as error:
            self.found = None
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
            self.found, self._is_slow = found, False
            upstream.problems.pop(self._method, None)
        finally:
            self.got, self._task = version, None
        if was_left_out and self.found is not None:
            upstream.changes.tell(f"notifications/{self._capability}/list_changed")

    async def _in_time(self) -> Listed:
        timeout = self.upstream.timeout
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._pages()
        except TimeoutError as error:  # of all pages together, of one, of the system
            if timeout is None or not limit.expired():
                raise
            raise RequestTimeout(
                method=self._method, timeout=timeout, elapsed=timeout
            ) from error

    async def _pages(self) -> Listed:
        """Fetch all pages, as they come; none where it has extra tools alone."""
        upstream, method = self.upstream, self._method
        spec = find(method)
        assert spec is not None
        assert spec.list_key is not None
        found: list[Json] = [{}]  # which is private, and is not kept
        if upstream.offers(self._capability):
            found = await self._fetched()
        planned = upstream.planned
        return listed(
            upstream.name,
            found,
            spec.list_key,
            is_bare=planned.is_bare,
            rules=planned.rules,
            extras=self._extras(),
        )

    async def _fetched(self) -> list[Json]:
        upstream, method, room = self.upstream, self._method, MAX_LIST
        steps = pages(method, {}, limit=upstream.limits.pages)
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
                    room -= len(encode_json(result))
                    if room < 0:
                        raise RemoteProtocolError(
                            f"{method}: the list has more than {MAX_LIST} bytes"
                        )
                    step = steps.send(result)
        except StopIteration as done:
            found: list[Json] = done.value
            return found

    def _extras(self) -> list[Json]:
        """Return the tools that a server gets beside its own."""
        if self._method != "tools/list":
            return []
        wanted = self.upstream.upstreams.gateway.as_tools
        return [
            encode(extra.tool)
            for extra in EXTRAS.values()
            if extra.needs in wanted and self.upstream.offers(extra.needs)
        ]

    def close(self) -> None:
        """Fetch nothing more."""
        if self._task is not None:
            self._task.cancel()


async def call_extra(
    upstream: Upstream,
    name: str,
    arguments: Any,
    request: RequestContext,
    upstreams: Upstreams,
) -> Json:
    """Answer the call of a tool of `EXTRAS`."""
    if arguments is None:
        arguments = {}
    if type(arguments) is not dict:
        raise InvalidParams("params.arguments must be an object")
    if name.startswith("mcp_list_"):  # what the gateway knows already
        kind = name.removeprefix("mcp_list_")
        found = {kind: await upstreams.catalog.items_of(kind, upstream)}
        block = {"type": "text", "text": encode_json(found).decode()}
        return {"content": [block], "structuredContent": found}
    is_prompt = name == "mcp_get_prompt"
    method, key = ("prompts/get", "name") if is_prompt else ("resources/read", "uri")
    if type(arguments.get(key)) is not str:
        raise InvalidParams(f"params.arguments.{key} must be a string")
    result = await forward(upstream, method, dict(arguments), request, upstreams)
    if result.get("resultType", "complete") != "complete":
        return result
    return _prompted(result) if is_prompt else _read(result)


def _read(result: Json) -> Json:
    contents = result.get("contents")
    blocks = [
        {"type": "text", "text": part["text"]}
        if type(part.get("text")) is str
        else {"type": "resource", "resource": part}
        for part in (contents if type(contents) is list else ())
        if type(part) is dict
    ]
    return {"content": blocks}


def _prompted(result: Json) -> Json:
    messages = result.get("messages")
    found = [m for m in (messages if type(messages) is list else ()) if type(m) is dict]
    return {
        "content": [m["content"] for m in found if type(m.get("content")) is dict],
        "structuredContent": {"messages": found},
    }


MOST: Final = 1_000


class Descriptions:
    """Capabilities and instructions of the servers of a plan, by protocol version.

    Kept for plans with a server that costs a process. A connection over HTTP is made
    with its session: its session id is a part of ids that other processes understand.
    A server over HTTP that gets a client's header fields may say something else to each
    client, so that nothing is kept of it.
    """

    def __init__(self) -> None:
        # The plan, what it was described as, and until when that is good.
        self._kept: dict[Hashable, tuple[Plan, Json, float]] = {}

    def find(
        self, plan: Plan, revision: Revision, headers: Iterable[str]
    ) -> Json | None:
        """Return what the servers of a plan can do, if that is known."""
        kept = self._kept.get((plan.key, plan.one, revision.name))
        if kept is None or _is_personal(plan, headers):
            return None
        known, described, fresh_until = kept
        is_fresh = asyncio.get_running_loop().time() < fresh_until
        return dict(described) if is_fresh and known.servers == plan.servers else None

    def keep(
        self,
        plan: Plan,
        revision: Revision,
        described: Json,
        *,
        headers: Iterable[str],
        is_complete: bool,
    ) -> None:
        """Keep what the servers of a plan can do."""
        if all(isinstance(each.target, (Http, Server)) for each in plan.servers):
            return
        if _is_personal(plan, headers):
            return
        while len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]
        now = asyncio.get_running_loop().time()
        fresh_until = math.inf if is_complete else now + RETRY_S
        key = (plan.key, plan.one, revision.name)
        self._kept[key] = (plan, dict(described), fresh_until)


def _is_personal(plan: Plan, headers: Iterable[str]) -> bool:
    # What tells one request from the next tells nobody from anybody.
    return any(name not in TRACE_KEYS for name in headers) and any(
        isinstance(each.target, Http) for each in plan.servers
    )
