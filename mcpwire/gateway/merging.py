"""Merging of the lists of many servers: items, names and owners.

`tools.names` makes the names and looks them up. Items are kept, unknown members
included; names, ambiguous URIs and what a transform changes are replaced. Items that
are no object or have no name are left out.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from operator import is_not
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import attrs

from mcpwire.errors import InvalidMessage
from mcpwire.protocol.http_headers import find_param_headers
from mcpwire.tools.names import Collision, NamePolicy, Owner
from mcpwire.tools.rules import ServerRules, first_match
from mcpwire.tools.transforms import object_schema
from mcpwire.versions import REVISIONS
from mcpwire.wire.uri_template import (
    TemplateError,
    UriMatcher,
    UriTemplate,
    encode_literal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mcpwire.protocol.http_headers import ParamHeader
    from mcpwire.tools.rules import Rules
    from mcpwire.tools.transforms import ToolTransform
    from mcpwire.versions import Revision

ALIAS_PREFIX: Final = "mcpgw://"
"""The prefix of every alias."""


def alias_of(server: str, uri: str) -> str:
    """Return the alias of a server's resource."""
    return f"{ALIAS_PREFIX}{quote(server, safe='')}/{quote(uri, safe='')}"


def read_alias(uri: str) -> tuple[str, str] | None:
    """Return the server and the URI in an alias; ``None``: not an alias."""
    if not uri.startswith(ALIAS_PREFIX):
        return None
    server, slash, inner = uri[len(ALIAS_PREFIX) :].partition("/")
    if not slash:
        return None
    try:
        parts = unquote(server, errors="strict"), unquote(inner, errors="strict")
    except UnicodeDecodeError:
        return None
    # Only the canonical spelling is an alias.
    return parts if alias_of(*parts) == uri else None


def _rename_uri(item: Any, names: Mapping[str, str]) -> Any:
    """Return an object with the alias of its ``uri``; any other value unchanged."""
    uri = item.get("uri") if type(item) is dict else None
    name = names.get(uri) if type(uri) is str else None
    return item if name is None else {**item, "uri": name}


def _rename_link(block: Any, names: Mapping[str, str]) -> Any:
    """Return a content block with the alias of its link or embedded resource."""
    block = _rename_uri(block, names)
    inner = block.get("resource") if type(block) is dict else None
    renamed = _rename_uri(inner, names)
    return block if renamed is inner else {**block, "resource": renamed}


def replace_uris(
    result: dict[str, Any],
    key: str,
    names: Mapping[str, str],
    rename: Any = _rename_uri,
) -> dict[str, Any]:
    """Return a result with aliases in the list `key`; itself if none is named."""
    items = result.get(key)
    if type(items) is not list:
        return result
    renamed = [rename(item, names) for item in items]
    return {**result, key: renamed} if any(map(is_not, renamed, items)) else result


def replace_links(result: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a tool's result with aliases in links and embedded resources."""
    return replace_uris(result, "content", names, _rename_link)


def has_links(result: dict[str, Any]) -> bool:
    """Return whether a tool's result contains resources or links to them."""
    content = result.get("content")
    return type(content) is list and any(
        type(block) is dict and ("uri" in block or "resource" in block)
        for block in content
    )


_RESERVED_META: Final = "io.modelcontextprotocol/"
"""Prefix of the `_meta` keys of the protocol, which hold for one hop only."""

NO_RULES: Final = ServerRules()


@attrs.frozen(kw_only=True)
class RawList:
    """One server's list of one kind, with all pages."""

    server: str

    items: tuple[dict[str, Any], ...] = ()

    ttl: int = 0
    """How long the list may be cached, in milliseconds."""

    is_public: bool = False
    """Whether all clients get the same list."""

    meta: Mapping[str, Any] = attrs.field(factory=dict)
    """The merged `_meta` of its pages."""

    keeps_names: bool = False
    """Whether the items keep their names."""

    rules: ServerRules = NO_RULES
    """Rules for the tools of this server, in addition to those for all."""

    extras: Sequence[dict[str, Any]] = ()
    """Tools for resources and prompts; a tool of the server with that name wins."""


@attrs.frozen(kw_only=True)
class MergedList:
    """The merged list of many servers; names are looked up, never parsed."""

    items: tuple[dict[str, Any], ...] = ()
    """The items as clients see them, sorted."""

    owners: Mapping[str, Owner] = attrs.field(factory=dict)
    """Name for clients -> the server, and the name at the server."""

    names: Mapping[Owner, str] = attrs.field(factory=dict)
    """The server, and the name at the server -> name for clients."""

    collisions: tuple[Collision, ...] = ()
    """Items that would get the same name."""

    transforms: Mapping[str, ToolTransform] = attrs.field(factory=dict)
    """Name for clients -> the transform of the arguments of its calls."""

    extras: frozenset[str] = frozenset()
    """The names of the tools for resources and prompts."""

    hints: Mapping[str, Any] = attrs.field(factory=dict)
    """`ttlMs`, `cacheScope`, and `_meta` if any."""

    def only(self, servers: Collection[str], key: str) -> MergedList:
        """Return the list with the items of these servers only."""
        selected = {name for owner, name in self.names.items() if owner[0] in servers}
        items = tuple(item for item in self.items if item[key] in selected)
        return attrs.evolve(self, items=items)

    @cached_property
    def aliases(self) -> dict[str, dict[str, str]]:
        """By server: the aliases of its resources for clients, by URI."""
        aliases: dict[str, dict[str, str]] = {}
        for (server, uri), name in self.names.items():
            if uri != name:
                aliases.setdefault(server, {})[uri] = name
        return aliases

    @cached_property
    def _matchers(self) -> list[tuple[str, Callable[[str], bool]]]:
        """Of a list of templates: each server, and the test of a template of it."""
        matchers = {template: _make_matcher(template) for _, template in self.names}
        return [(server, matchers[template]) for server, template in self.names]

    def servers_of(self, uri: str) -> list[str]:
        """Return the servers with a template that matches a URI, each once."""
        servers = (server for server, matches in self._matchers if matches(uri))
        return list(dict.fromkeys(servers))

    @cached_property
    def param_headers(self) -> dict[str, tuple[ParamHeader, ...]]:
        """By tool: the arguments that header fields mirror."""
        headers: dict[str, tuple[ParamHeader, ...]] = {}
        for tool in self.items:
            # Clients discard a tool with an invalid schema.
            with suppress(InvalidMessage):
                headers[tool["name"]] = find_param_headers(tool.get("inputSchema"))
        return headers


# Pages of one server


def combine_pages(
    server: str, pages: Sequence[Mapping[str, Any]], list_key: str, **fields: Any
) -> RawList:
    """Combine the raw results of a server's pages; `fields` are those of `RawList`."""
    items: list[dict[str, Any]] = []
    meta: dict[str, Any] = {}
    times: list[int] = []
    for page in pages:
        ttl = page.get("ttlMs")
        times.append(ttl if type(ttl) is int and ttl > 0 else 0)
        page_items = page.get(list_key)
        if type(page_items) is list:
            items += [item for item in page_items if type(item) is dict]
        page_meta = page.get("_meta")
        if type(page_meta) is dict:
            meta = {**page_meta, **meta}
    return RawList(
        server=server,
        items=tuple(items),
        ttl=min(times, default=0),
        is_public=all(page.get("cacheScope") == "public" for page in pages),
        meta=meta,
        **fields,
    )


def _hints(lists: Sequence[RawList]) -> dict[str, Any]:
    is_public = bool(lists) and all(raw_list.is_public for raw_list in lists)
    hints: dict[str, Any] = {
        "ttlMs": min((raw_list.ttl for raw_list in lists), default=0),
        "cacheScope": "public" if is_public else "private",
    }
    meta: dict[str, Any] = {}
    for raw_list in lists:
        for key, value in raw_list.meta.items():
            if not key.startswith(_RESERVED_META):
                meta.setdefault(key, value)
    if meta:
        hints["_meta"] = meta
    return hints


# Names


def merge_named(
    lists: Sequence[RawList],
    policy: NamePolicy,
    *,
    rules: Rules = NO_RULES,
    transforms: Mapping[str, ToolTransform] | None = None,
    servers: Mapping[str, str] | None = None,
) -> MergedList:
    """Merge lists of tools, or of prompts: named by the policy, sorted by name."""
    naming = _NameAssignment(lists, policy, transforms or {}, servers or {})
    owners: dict[str, Owner] = {}
    items: dict[str, dict[str, Any]] = {}
    call_transforms: dict[str, ToolTransform] = {}
    for owner, name in naming.names.items():
        raw_list, item = naming.items[owner]
        keys = (name, *naming.keys(owner))
        if rules.refusal(keys) or raw_list.rules.refusal((*keys, owner[1])):
            continue
        transform = naming.transforms.get(owner)
        if transform is not None:
            item = _transform_item(item, transform)
            if not transform.keeps_arguments:
                call_transforms[name] = transform
        owners[name] = owner
        items[name] = item if item.get("name") == name else {**item, "name": name}
    return MergedList(
        items=tuple(items[name] for name in sorted(items)),
        owners=owners,
        names={owner: name for name, owner in owners.items()},
        collisions=naming.collisions,
        transforms=call_transforms,
        extras=frozenset(n for n, owner in owners.items() if owner in naming.extras),
        hints=_hints(lists),
    )


class _NameAssignment:
    """The names of all items, hidden ones included; see `merge_named`."""

    def __init__(
        self,
        lists: Sequence[RawList],
        policy: NamePolicy,
        patterns: Mapping[str, ToolTransform],
        servers: Mapping[str, str],
    ) -> None:
        # The list and the item of each owner; of equal names the first item counts.
        self.items: dict[Owner, tuple[RawList, dict[str, Any]]] = {}
        self.extras: set[Owner] = set()
        for raw_list in lists:
            for item in (*raw_list.items, *raw_list.extras):
                name: Any = item.get("name")
                owner: Owner = (raw_list.server, name)
                if type(name) is str and owner not in self.items:
                    self.items[owner] = raw_list, item
                    if any(item is extra for extra in raw_list.extras):
                        self.extras.add(owner)
        # Of two bare items with the same name, the first one gets it.
        bare: dict[str, Owner] = {}
        policed: list[Owner] = []
        for owner, (raw_list, _) in self.items.items():
            if raw_list.keeps_names:
                bare.setdefault(owner[1], owner)
            else:
                policed.append(owner)
        # Names without transforms: collisions are ignored here, because a transform
        # may resolve them.
        plain = attrs.evolve(policy, on_collision="suffix")
        self._plain_names = plain.table(policed, servers=servers, reserved=bare)
        # Patterns also match the names that the policy would give to bare items: a
        # pattern matches the same tools at every endpoint.
        self._policy_names = (
            plain.table(self.items, servers=servers) if bare else self._plain_names
        )
        self.transforms = {
            owner: patterns[pattern]
            for owner in (self.items if patterns else ())
            if (pattern := first_match(patterns, self.keys(owner))) is not None
        }
        labels = {
            owner: transform.name
            for owner, transform in self.transforms.items()
            if transform.name is not None
        }
        table = policy.table(policed, labels=labels, servers=servers, reserved=bare)
        self.collisions = table.collisions
        self.names = {owner: labels.get(owner, name) for name, owner in bare.items()}
        for owner in policed:
            if (name := table.name_of(*owner)) is not None:
                self.names[owner] = name

    def keys(self, owner: Owner) -> tuple[str, ...]:
        """Return a tool's keys for the matching of patterns, before any transform."""
        plain_name, raw = self._plain_names.name_of(*owner), "/".join(owner)
        if plain_name is not None:
            return plain_name, raw
        return owner[1], self._policy_names.name_of(*owner) or raw, raw


def _transform_item(item: dict[str, Any], transform: ToolTransform) -> dict[str, Any]:
    """Return a tool with a transform applied."""
    texts = {"title": transform.title, "description": transform.description}
    changed = {**item, **{key: text for key, text in texts.items() if text is not None}}
    if not transform.keeps_arguments:
        schema = object_schema(item.get("inputSchema"))
        changed["inputSchema"] = transform.caller_schema(schema)
    return changed


# URIs


def merge_uris(lists: Sequence[RawList], key: str, *, has_aliases: bool) -> MergedList:
    """Merge resources, or templates, sorted by the URI that is their member `key`.

    Of items with equal URIs, the later ones get aliases or are left out.
    """
    owners: dict[str, Owner] = {}
    names: dict[Owner, str] = {}
    items: dict[str, dict[str, Any]] = {}
    shared: dict[str, list[Owner]] = {}
    for raw_list in lists:
        for item in raw_list.items:
            uri: Any = item.get(key)
            owner = (raw_list.server, uri)
            if type(uri) is not str or owner in names:
                continue
            name = uri
            if uri in owners:
                shared.setdefault(uri, [owners[uri]]).append(owner)
                if has_aliases:
                    name = alias_of(raw_list.server, uri)
                    item = {**item, key: name}  # noqa: PLW2901 - the renamed item
            names[owner] = name
            if name not in owners:
                owners[name], items[name] = owner, item
    return MergedList(
        items=tuple(items[name] for name in sorted(items)),
        owners=owners,
        names=names,
        collisions=tuple(
            Collision(name, tuple(claimants), "first")
            for name, claimants in shared.items()
        ),
        hints=_hints(lists),
    )


def _make_matcher(text: str) -> Callable[[str], bool]:
    """Return a test whether a template can produce a URI; true in case of doubt."""
    try:
        template = UriTemplate(text)
    except TemplateError:
        return lambda uri: uri == text
    try:
        # Only the server can restrict the values of variables.
        matcher = UriMatcher(template, unchecked=template.names)
    except TemplateError:
        first = template.parts[0] if template.parts else ""
        beginning = encode_literal(first) if isinstance(first, str) else ""
        return lambda uri: uri.startswith(beginning)
    return lambda uri: matcher.match(uri) is not None


# Capabilities and instructions

_NOV_2024, _MAR_2025, *_ = REVISIONS

CAPABILITIES: Final[dict[str, Any]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
"""All capabilities of a gateway, with the flags that any server can add; a client gets
those that its servers have."""


def merge_capabilities(
    declared: Iterable[Mapping[str, Any]],
    revision: Revision,
    *,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the combined capabilities of servers, in the form of a revision."""
    merged: dict[str, dict[str, Any]] = {}
    for capabilities in declared:
        for name, flags in CAPABILITIES.items():
            settings = capabilities.get(name)
            if settings is None or settings is False:
                continue
            merged_settings = merged.setdefault(name, {})
            if isinstance(settings, dict):
                merged_settings |= {
                    flag: True for flag in flags if settings.get(flag) is True
                }
    for name, settings in (extra or {}).items():
        merged[name] = {**merged.get(name, {}), **settings}
    if revision < _MAR_2025:
        # 2024-11-05 has completion without a capability for it.
        merged.pop("completions", None)
    return {name: merged[name] for name in (*CAPABILITIES, *merged) if name in merged}


def merge_instructions(instructions: Iterable[tuple[str, str | None]]) -> str | None:
    """Return the instructions of all servers in one text, each under its name."""
    texts = [(server, text) for server, text in instructions if text]
    if len(texts) == 1:
        return texts[0][1]
    return "\n\n".join(f"# {server}\n\n{text}" for server, text in texts) or None
