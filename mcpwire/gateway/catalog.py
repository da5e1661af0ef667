"""What the servers of one set list, merged and kept until one of them changes it.

What of it has to be fetched is fetched in parallel (`lists.one`). A name that is known
is looked up without asking anybody.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, InvalidMessage, NameCollision
from mcpwire.gateway.lists.one import ServerList
from mcpwire.gateway.lists.templates import TemplateOwners
from mcpwire.gateway.merging import (
    Merged,
    merge_named,
    merge_resources,
    merge_templates,
    read_alias,
)
from mcpwire.protocol.http_headers import find_param_headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.merging import Listed
    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.protocol.http_headers import ParamHeader

__all__ = ["KINDS", "Catalog"]

logger = logging.getLogger("mcpwire")

KINDS: Final = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resources"),
}
"""Kind of list -> the request for it, and the capability that it needs."""


class Catalog:
    """The merged lists of one set; see the module's text.

    Attributes:
        known: What was merged last, by kind; may be older than the last change.
    """

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._lists: dict[tuple[str, str], ServerList] = {}
        self._states: dict[str, tuple[Any, ...]] = {}
        self._aliases: tuple[Merged, dict[str, dict[str, str]]] | None = None
        self._templates: tuple[Merged, TemplateOwners] | None = None
        self._headers: tuple[Merged, dict[str, tuple[ParamHeader, ...]]] | None = None
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

    def forget(self, upstream: Upstream) -> None:
        """Know nothing more of a server that is not there any more."""
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
        """Return one of the `KINDS`, no older than this call.

        Raises:
            InternalError: Two tools would have one name, and the policy is to refuse.
        """
        self._upstreams.retry()
        lists = [self._list_of(each, kind) for each in self._asked(kind)]
        stale = [each for each in lists if not each.is_fresh]
        if len(stale) == 1:
            await stale[0].refresh()
        elif stale:
            await asyncio.gather(*(each.refresh() for each in stale))
        if stale:  # others may be there by now
            lists = [self._list_of(each, kind) for each in self._asked(kind)]
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

    def _list_of(self, upstream: Upstream, kind: str) -> ServerList:
        found = self._lists.get((upstream.name, kind))
        if found is None:
            found = self._lists[upstream.name, kind] = ServerList(
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
        """Return who would have had the same name, by kind, as far as is known."""
        found = {
            kind: [str(each) for each in merged.collisions]
            for kind, merged in self.known.items()
        }
        return {kind: said for kind, said in found.items() if said}

    def param_headers(self, name: str) -> tuple[ParamHeader, ...]:
        """Return which arguments of a tool header fields repeat, as far as is known."""
        tools = self.known.get("tools")
        if tools is None:
            return ()
        if self._headers is None or self._headers[0] is not tools:
            self._headers = tools, {}
        known = self._headers[1]
        if name in tools.owners and name not in known:
            known[name] = _param_headers(tools, name)
        return known.get(name, ())

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
        upstream = self._upstreams.members.get(owner[0]) if owner is not None else None
        if upstream is None or owner is None:
            return None
        return upstream, owner[1]

    async def owner_of_uri(self, uri: str) -> tuple[Upstream, str] | None:
        """Return whose resource that is, most likely, and its URI there."""
        owners = await self.owners_of_uri(uri)
        return owners[0] if owners else None

    async def owners_of_uri(self, uri: str) -> list[tuple[Upstream, str]]:
        """Return who may have a resource, the likeliest first, and its URI there.

        Who lists it has it; an alias says whose it is; else those are asked whose
        templates give it; else the only server that has resources at all.
        """
        known = self.known.get("resources")
        owner = known.owners.get(uri) if known is not None else None
        if owner is None:
            owner = (await self.get("resources")).owners.get(uri) or read_alias(uri)
        members = self._upstreams.members
        if owner is not None and owner[0] in members:
            return [(members[owner[0]], owner[1])]
        templates = await self.get("templates")
        if self._templates is None or self._templates[0] is not templates:
            self._templates = templates, TemplateOwners(templates)
        members = self._upstreams.members  # there may be others by now
        servers = [each for each in self._templates[1].of(uri) if each in members]
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

    async def aliases_of(self, server: str) -> Mapping[str, str]:
        """Return the URIs of a server that clients know by an alias."""
        if len(self._upstreams.offering("resources")) < 2:
            return {}
        resources = await self.get("resources")
        if self._aliases is None or self._aliases[0] is not resources:
            found: dict[str, dict[str, str]] = {}
            for (owner, uri), name in resources.names.items():
                if uri != name:
                    found.setdefault(owner, {})[uri] = name
            self._aliases = resources, found
        return self._aliases[1].get(server, {})


def _param_headers(tools: Merged, name: str) -> tuple[ParamHeader, ...]:
    schema = next(t.get("inputSchema") for t in tools.items if t["name"] == name)
    try:
        return find_param_headers(schema)
    except InvalidMessage:  # clients leave such a tool out
        return ()
