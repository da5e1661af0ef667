"""From the lists of all servers to views: named, changed, allowed or hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcpwire.protocol.many.effects import SideEffects
from mcpwire.protocol.many.policy.extras import EXTRAS
from mcpwire.protocol.many.policy.pinning import fingerprint
from mcpwire.protocol.many.policy.rules import ServerRules, first_match
from mcpwire.protocol.many.policy.transforms import object_schema
from mcpwire.tools.view import ToolView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.many.names import NameTable, Owner
    from mcpwire.protocol.many.policy.transforms import ToolTransform
    from mcpwire.tools.options import Options
    from mcpwire.types import Tool

__all__ = ["Built", "Listed", "build", "key_of"]


@attrs.frozen
class Listed:
    """What one server has: its own tools, and what is made into tools of it."""

    tools: list[Tool]
    extras: list[Tool] = attrs.field(factory=list)
    rules: ServerRules = attrs.field(factory=ServerRules)


@attrs.frozen
class Built:
    """All tools of all servers, by name."""

    table: NameTable
    views: dict[str, ToolView]

    hidden: dict[str, str]
    """The names that nobody may call, and the rule that forbids each."""


def key_of(owner: Owner) -> str:
    """Return ``server/tool``, which is what locks and rules call it."""
    return "/".join(owner)


def build(options: Options, servers: Mapping[str, Listed]) -> Built:
    """Return what there is.

    Raises:
        NameCollision: Two tools would have one name, where that is to be raised.
    """
    return _Building(options, servers).built()


class _Building:
    def __init__(self, options: Options, servers: Mapping[str, Listed]) -> None:
        self.options = options
        self.servers = servers
        self.definitions: dict[Owner, Tool] = {}
        self.extras: set[Owner] = set()
        for server, listed in servers.items():
            for tool in listed.tools:
                self.definitions.setdefault((server, tool.name), tool)
            for tool in listed.extras:
                # A server's own tool of that name goes first.
                if self.definitions.setdefault((server, tool.name), tool) is tool:
                    self.extras.add((server, tool.name))

    def built(self) -> Built:
        """Return everything, rules applied."""
        plain, transforms = self._transforms()
        labels = {
            owner: transform.name
            for owner, transform in transforms.items()
            if transform.name is not None
        }
        table = self.options.names.table(
            self.definitions, labels=labels, reserved=self.options.reserved
        )
        built = Built(table, {}, {})
        for owner in self.definitions:
            name = table.name_of(*owner)
            if name is None:
                continue
            keys = (name, plain.get(owner, name), key_of(owner))
            view = self._view(owner, name, keys, transforms.get(owner))
            rule = self._refusal(view, keys)
            if rule is None:
                built.views[name] = view
            else:
                built.hidden[name] = rule
        return built

    def _transforms(self) -> tuple[dict[Owner, str], dict[Owner, ToolTransform]]:
        """Return the names without any renaming, and who is changed how."""
        patterns = self.options.transforms
        if not patterns:
            return {}, {}
        # Here a collision is of no concern: renaming may be what ends it.
        names = attrs.evolve(self.options.names, on_collision="suffix")
        table = names.table(self.definitions, reserved=self.options.reserved)
        plain = {owner: name for name in table if (owner := table.find(name))}
        found: dict[Owner, ToolTransform] = {}
        for owner, name in plain.items():
            pattern = first_match(patterns, (name, key_of(owner)))
            if pattern is not None:
                found[owner] = patterns[pattern]
        return plain, found

    def _view(
        self,
        owner: Owner,
        name: str,
        keys: tuple[str, ...],
        transform: ToolTransform | None,
    ) -> ToolView:
        server, tool = owner
        definition = self.definitions[owner]
        title, description = definition.display_name, definition.description
        schema = object_schema(definition.input_schema)
        if transform is not None:
            title = transform.title or title
            if transform.description is not None:
                description = transform.description
            schema = transform.outside(schema)
        group = (definition.meta or {}).get("group")
        trusted = self.options.trusts(server) or owner in self.extras
        rules = self.servers[server].rules
        # Hints of a server that is not trusted talk nobody out of being asked.
        only_reads = trusted and SideEffects.of(definition).kind == "read_only"
        return ToolView(
            name=name,
            server=server,
            tool=tool,
            definition=definition,
            title=title,
            description=description or "",
            input_schema=schema,
            group=group if isinstance(group, str) and group else server,
            needs_confirmation=self.options.rules.asks(keys, only_reads=only_reads)
            or rules.asks((*keys, tool), only_reads=only_reads),
            trusted=trusted,
            rules=rules,
            transform=transform,
            extra=EXTRAS[tool] if owner in self.extras else None,
        )

    def _refusal(self, view: ToolView, keys: tuple[str, ...]) -> str | None:
        """Return which rule hides a tool; ``None``: none does."""
        options = self.options
        rule = options.rules.refusal(keys) or view.rules.refusal((*keys, view.tool))
        if rule is not None:
            return rule
        if options.groups is not None and view.group not in options.groups:
            return "its group is none of groups"
        if options.lock is None or view.extra is not None:
            return None
        return options.lock.refusal(keys[-1], fingerprint(view.definition))
