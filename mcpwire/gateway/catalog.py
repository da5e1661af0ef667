"""What the servers of one set list, merged and kept until one of them changes it.

Each server's list is fetched once, by one task, whoever waits. A change while it runs
(`Catalog.drop`) has it fetched once more: a reader never gets what was fetched before a
change that it could have heard of. A server that fails is left out until it is asked
again a while later.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, MCPError
from mcpwire.gateway.extras import extras_of
from mcpwire.gateway.templates import TemplateOwners
from mcpwire.protocol.many.errors import NameCollision
from mcpwire.protocol.many.gateway.merging import (
    Listed,
    Merged,
    listed,
    merge_named,
    merge_resources,
    merge_templates,
)
from mcpwire.protocol.many.gateway.uris import read_alias
from mcpwire.protocol.methods import find
from mcpwire.protocol.paging import pages

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams

__all__ = ["KINDS", "Catalog"]

logger = logging.getLogger("mcpwire")

KINDS: Final = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resources"),
}
"""Kind of list -> the request for it, and the capability that it needs."""

RETRY_S: Final = 5.0
"""How long a server whose list failed is left alone."""


class _List:
    """One list of one server.

    Attributes:
        wanted: Counts its changes.
        got: Which of them is here; -1: none yet.
        found: What it lists; ``None``: it failed.
    """

    __slots__ = (
        "_as_tools",
        "_method",
        "_retry_at",
        "_task",
        "_upstream",
        "found",
        "got",
        "wanted",
    )

    def __init__(
        self, upstream: Upstream, method: str, as_tools: Collection[str]
    ) -> None:
        self._upstream = upstream
        self._method = method
        self._as_tools = as_tools
        self._task: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self.wanted = 0
        self.got = -1
        self.found: Listed | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether what is here is what there is, as far as we know."""
        if self.got < self.wanted:
            return False
        if self.found is not None:
            return True
        return asyncio.get_running_loop().time() < self._retry_at

    async def refresh(self) -> None:
        """Have it as it was when this was called, or later."""
        if self.got >= self.wanted:
            self.wanted += 1  # it failed, and may go better now
        wanted = self.wanted
        while self.got < wanted:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(
                    self._fetch(), name="mcpwire-list"
                )
            # Whoever waits may leave; the others still want it.
            await asyncio.wait((self._task,))

    async def _fetch(self) -> None:
        upstream, version = self._upstream, self.wanted
        try:
            async with asyncio.timeout(upstream.timeout):
                found = await self._pages()
        except (MCPError, OSError) as error:
            self.found = None
            self._retry_at = asyncio.get_running_loop().time() + RETRY_S
            upstream.problems[self._method] = error
            logger.warning(
                "%s of the server %r is left out: %s",
                self._method,
                upstream.name,
                error,
                extra={"server": upstream.name, "error": error},
            )
        else:
            self.found = found
            upstream.problems.pop(self._method, None)
        finally:
            self.got, self._task = version, None

    async def _pages(self) -> Listed:
        """Fetch all pages, as they come."""
        upstream, method = self._upstream, self._method
        if self._as_tools and not upstream.offers(method.partition("/")[0]):
            return Listed(
                server=upstream.name,
                is_bare=upstream.planned.is_bare,
                rules=upstream.planned.rules,
                extras=tuple(self._extras()),
            )
        steps = pages(method, {}, limit=upstream.limits.pages)
        planned = upstream.planned
        spec = find(method)
        assert spec is not None
        assert spec.list_key is not None
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
                    step = steps.send(result)
        except StopIteration as done:
            return listed(
                upstream.name,
                done.value,
                spec.list_key,
                is_bare=planned.is_bare,
                rules=planned.rules,
                extras=self._extras(),
            )

    def _extras(self) -> list[dict[str, Any]]:
        wanted = self._as_tools if self._method == "tools/list" else ()
        return extras_of(self._upstream, wanted)

    def close(self) -> None:
        """Fetch nothing more."""
        if self._task is not None:
            self._task.cancel()


class Catalog:
    """The merged lists of one set; see the module's text.

    Attributes:
        known: What was merged last, by kind; may be older than the last change.
    """

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._lists: dict[tuple[str, str], _List] = {}
        self._states: dict[str, tuple[Any, ...]] = {}
        self._templates: tuple[Merged, TemplateOwners] | None = None
        self.known: dict[str, Merged] = {}

    def drop(self, kind: str, server: str | None = None) -> None:
        """Take note that a list is another now; the next reader has it fetched.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``, with the templates.
            server: Whose; ``None``: everybody's.
        """
        kinds = ("resources", "templates") if kind == "resources" else (kind,)
        for (name, each), found in self._lists.items():
            if each in kinds and server in (None, name):
                found.wanted += 1

    def close(self) -> None:
        """Fetch nothing more."""
        for each in self._lists.values():
            each.close()

    # Reading...

    async def get(self, kind: str) -> Merged:
        """Return one of the `KINDS`, no older than this call.

        Raises:
            InternalError: Two tools would have one name, and the policy is to refuse.
        """
        lists = [self._list_of(each, kind) for each in self._asked(kind)]
        stale = [each for each in lists if not each.is_fresh]
        if len(stale) == 1:
            await stale[0].refresh()
        elif stale:
            await asyncio.gather(*(each.refresh() for each in stale))
        state = tuple((each, each.got) for each in lists)
        if self._states.get(kind) != state:
            self.known[kind] = self._merge(
                kind, [each.found for each in lists if each.found is not None]
            )
            self._states[kind] = state
        return self.known[kind]

    def _asked(self, kind: str) -> list[Upstream]:
        """Return the servers that have such a list, or get one here."""
        upstreams = self._upstreams
        _, capability = KINDS[kind]
        if kind != "tools" or not upstreams.gateway.as_tools:
            return upstreams.offering(capability)
        wanted = {capability, *upstreams.gateway.as_tools}
        return [each for each in upstreams.ready() if any(map(each.offers, wanted))]

    def _list_of(self, upstream: Upstream, kind: str) -> _List:
        found = self._lists.get((upstream.name, kind))
        if found is None:
            found = self._lists[upstream.name, kind] = _List(
                upstream, KINDS[kind][0], self._upstreams.gateway.as_tools
            )
        return found

    async def items_of(self, kind: str, upstream: Upstream) -> list[dict[str, Any]]:
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
        try:
            if kind == "prompts":
                return merge_named(lists, gateway.names)
            return merge_named(
                lists,
                gateway.names,
                rules=gateway.rules,
                transforms=gateway.transforms,
            )
        except NameCollision as error:
            raise InternalError(str(error)) from error

    # Whose it is...

    async def owner_of(self, kind: str, name: str) -> tuple[Upstream, str] | None:
        """Return whose tool or prompt that is, and what it is called there.

        A name that is known is looked up; only another one has the lists fetched that
        have changed.
        """
        known = self.known.get(kind)
        owner = known.owners.get(name) if known is not None else None
        if owner is None:
            owner = (await self.get(kind)).owners.get(name)
        if owner is None:
            return None
        return self._upstreams.members[owner[0]], owner[1]

    async def owner_of_uri(self, uri: str) -> tuple[Upstream, str] | None:
        """Return whose resource that is, most likely, and its URI there."""
        owners = await self.owners_of_uri(uri)
        return owners[0] if owners else None

    async def owners_of_uri(self, uri: str) -> list[tuple[Upstream, str]]:
        """Return who may have a resource, the likeliest first, and its URI there.

        Who lists it has it; an alias says whose it is; else those are asked whose
        templates give it; else the only server that has resources at all.
        """
        members = self._upstreams.members
        known = self.known.get("resources")
        owner = known.owners.get(uri) if known is not None else None
        if owner is None:
            owner = (await self.get("resources")).owners.get(uri) or read_alias(uri)
        if owner is not None and owner[0] in members:
            return [(members[owner[0]], owner[1])]
        templates = await self.get("templates")
        if self._templates is None or self._templates[0] is not templates:
            self._templates = templates, TemplateOwners(templates)
        servers = self._templates[1].of(uri)
        if servers:
            return [(members[server], uri) for server in servers]
        offering = self._upstreams.offering("resources")
        return [(offering[0], uri)] if len(offering) == 1 else []

    def public_uri(self, server: str, uri: str) -> str:
        """Return what a server's resource is called for clients."""
        known = self.known.get("resources")
        if known is None:
            return uri
        return known.names.get((server, uri), uri)

    def aliases_of(self, server: str) -> dict[str, str]:
        """Return the URIs of a server that clients know by an alias."""
        known = self.known.get("resources")
        if known is None or not known.collisions:
            return {}
        return {
            uri: name
            for (owner, uri), name in known.names.items()
            if owner == server and uri != name
        }
