"""Transforms of tools: other names, descriptions and arguments.

A model sees the outside of a tool; its server receives the inside. Only the top level
of a schema's ``properties`` and ``required`` is changed; all other keywords stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.json_schema import inline_references, resolve_pointer, walk
from mcpwire.tools.catalog import SideEffects
from mcpwire.tools.lock import fingerprint
from mcpwire.tools.results import EXTRAS
from mcpwire.tools.rules import ServerRules, as_patterns, first_match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.tools.names import NameTable, Owner
    from mcpwire.tools.options import Options
    from mcpwire.tools.results import Extra
    from mcpwire.types import Tool

EMPTY_SCHEMA: Final = {"type": "object", "properties": {}}

JSON_TYPE_NAMES: Final = {
    list: "an array",
    tuple: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
"""The JSON names of types that are not objects."""


def check_transforms(given: Mapping[str, Any]) -> dict[str, ToolTransform]:
    """Return the transforms by pattern."""
    for pattern, transform in given.items():
        if not isinstance(transform, ToolTransform):
            raise TypeError(
                f"transforms[{pattern!r}] must be a ToolTransform, got {transform!r}"
            )
    return dict(given)


def object_schema(schema: Any) -> dict[str, Any]:
    """Return a tool's input schema, or an empty one."""
    return schema if isinstance(schema, dict) and schema else dict(EMPTY_SCHEMA)


def check_arguments(arguments: Any) -> dict[str, Any] | None:
    """Return a copy of a tool's arguments, or ``None`` without any."""
    from collections.abc import Mapping

    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        kind = JSON_TYPE_NAMES.get(type(arguments), type(arguments).__name__)
        raise LocalProtocolError(f"arguments must be an object or null, got {kind}")
    for key in arguments:
        if not isinstance(key, str):
            raise LocalProtocolError(f"arguments must have string keys, got {key!r}")
    return dict(arguments)


def remove_arguments(
    arguments: dict[str, Any] | None, names: tuple[str, ...]
) -> dict[str, Any] | None:
    """Return the arguments without those with the given names."""
    if arguments is None or not names:
        return arguments
    return {key: value for key, value in arguments.items() if key not in names}


def _copy(given: Mapping[str, Any]) -> dict[str, Any]:
    return dict(given)


@attrs.frozen(kw_only=True)
class ToolTransform:
    """The changes of one tool.

    In `hide`, `fixed` and `defaults` arguments have the server's names. A call with a
    hidden or fixed argument is refused.

    Raises:
        ValueError: Two changes contradict each other; the message names the argument.
    """

    name: str | None = None
    """The text for the template in place of the tool's own name."""

    title: str | None = None
    description: str | None = None

    hide: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    """Arguments that are neither offered nor sent."""

    fixed: Mapping[str, Any] = attrs.field(factory=dict, converter=_copy)
    """Arguments that are not offered and are always sent with these values."""

    rename: Mapping[str, str] = attrs.field(factory=dict, converter=_copy)
    """Maps names outside to names inside."""

    defaults: Mapping[str, Any] = attrs.field(factory=dict, converter=_copy)
    """Values of arguments that a caller leaves out."""

    def __attrs_post_init__(self) -> None:
        renamed = list(self.rename.values())
        not_offered = {*self.hide, *self.fixed}
        for problem, names in (
            ("both hidden and fixed", set(self.hide) & set(self.fixed)),
            ("the inside of two names", {n for n in renamed if renamed.count(n) > 1}),
            ("not offered, so it cannot be renamed", not_offered & set(renamed)),
            (
                "not offered, so it cannot have a default",
                not_offered & set(self.defaults),
            ),
        ):
            if names:
                raise ValueError(f"the argument {min(names)!r} is {problem}")

    @property
    def keeps_arguments(self) -> bool:
        """Whether the arguments stay unchanged."""
        return not (self.hide or self.fixed or self.rename or self.defaults)

    def caller_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema that a caller sees."""
        if self.keeps_arguments:
            return schema
        outer = {inner: outer for outer, inner in self.rename.items()}
        properties = schema.get("properties")
        required = schema.get("required")
        changed = dict(schema)
        if isinstance(properties, dict):
            changed["properties"] = {
                outer.get(name, name): self._add_default(name, property_)
                for name, property_ in properties.items()
                if self._is_offered(name)
            }
        if isinstance(required, list):
            changed["required"] = [
                outer.get(name, name)
                for name in required
                if self._is_offered(name) and name not in self.defaults
            ]
        for each in walk(schema):
            if not isinstance(reference := each.get("$ref"), str) or reference == "#":
                continue
            target = resolve_pointer(schema, reference)
            if target not in (None, resolve_pointer(changed, reference)):
                return self.caller_schema(inline_references(schema))
        return changed

    def server_arguments(
        self, arguments: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """Return the arguments that the server receives.

        Raises:
            LocalProtocolError: An argument is not offered.
        """
        if self.keeps_arguments:
            return arguments
        refused = {*self.hide, *self.fixed, *self.rename.values()} - set(self.rename)
        sent = dict(self.defaults)
        for name, value in (arguments or {}).items():
            if name in refused:
                raise LocalProtocolError(f"the tool takes no argument {name!r}")
            sent[self.rename.get(name, name)] = value
        sent |= self.fixed
        return sent if sent or arguments is not None else None

    def _is_offered(self, name: Any) -> bool:
        # A name outside may be that of another argument inside, which it covers.
        is_covered = name in self.rename and name not in self.rename.values()
        return not is_covered and name not in self.hide and name not in self.fixed

    def _add_default(self, name: str, property_: Any) -> Any:
        if name not in self.defaults or not isinstance(property_, dict):
            return property_
        return {**property_, "default": self.defaults[name]}


MAX_PREVIEW_LENGTH: Final = 80
"""The number of characters of an argument that are shown."""

PREVIEWED: Final = ("path", "query", "sql", "url", "name", "id", "command", "input")
"""Names of arguments for the preview of a call, by priority."""


def preview(arguments: Mapping[str, Any]) -> str:
    """Return the argument that says most, on one line; empty where there is none."""
    texts = [arguments.get(name) for name in PREVIEWED] + list(arguments.values())
    value = next((text for text in texts if isinstance(text, str) and text), "")
    # Names and texts from models and servers may contain terminal escapes.
    start = value[: 4 * MAX_PREVIEW_LENGTH]
    line = "".join(character if character.isprintable() else " " for character in start)
    line = " ".join(line.split())
    is_whole = len(line) <= MAX_PREVIEW_LENGTH and len(value) == len(start)
    return line if is_whole else f"{line[: MAX_PREVIEW_LENGTH - 3]}..."


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolView:
    """A tool of a server, as a model sees it."""

    name: str
    """The unique name in the set."""

    server: str
    """The server's name in the group."""

    tool: str
    """The server's name of the tool."""

    definition: Tool
    """The server's definition, unchanged."""

    title: str
    """The title for people."""

    description: str
    """The description for a model; empty without one."""

    input_schema: dict[str, Any]
    """The JSON Schema of the arguments of a caller."""

    group: str
    """The `group` of its `_meta`, else the server's name. Servers choose it freely: it
    is for sorting and not for permissions."""

    needs_confirmation: bool = False
    """Whether each call needs confirmation."""

    trusted: bool = False
    """Whether the server's annotations are trusted."""

    rules: ServerRules
    """The rules of its server."""

    transform: ToolTransform | None = None
    extra: Extra | None = None
    """The request behind it, if it is not a tool of the server."""

    @property
    def side_effects(self) -> SideEffects:
        """The side effects that its server declares."""
        return SideEffects.of(self.definition.annotations, trusted=self.trusted)

    @property
    def display_name(self) -> str:
        """One line for people: server and tool."""
        return f"[MCP] {self.server}.{self.tool}"

    def __repr__(self) -> str:
        return f"<ToolView {self.name!r}: {self.tool!r} of {self.server!r}>"


@attrs.frozen(eq=False)
class ToolCall:
    """A call before it is sent, as `approve` gets it."""

    view: ToolView

    arguments: dict[str, Any]
    """What the server would get."""

    confirmed: bool = False
    """Whether the caller passed ``confirmed=True``."""

    @property
    def needs_confirmation(self) -> bool:
        """Whether it needs confirmation and is not confirmed."""
        return self.view.needs_confirmation and not self.confirmed

    @property
    def side_effects(self) -> SideEffects:
        """The side effects that the tool's server declares."""
        return self.view.side_effects

    @property
    def preview(self) -> str:
        """The most informative argument, on one line of at most 80 characters."""
        return preview(self.arguments)

    def __str__(self) -> str:
        return f"{self.view.display_name} {self.preview}".rstrip()


@attrs.frozen
class ServerTools:
    """The tools of one server: its own, and resources and prompts as tools."""

    tools: list[Tool]
    extras: list[Tool] = attrs.field(factory=list)
    rules: ServerRules = attrs.field(factory=ServerRules)


@attrs.frozen
class ToolIndex:
    """All tools of all servers, by name."""

    table: NameTable
    views: dict[str, ToolView]

    hidden: dict[str, str]
    """The names of the hidden tools, and the rule that hides each."""


def tool_key(owner: Owner) -> str:
    """Return ``server/tool``, the key of a tool in locks and rules."""
    return "/".join(owner)


def build_index(options: Options, servers: Mapping[str, ServerTools]) -> ToolIndex:
    """Return all tools of the servers, with rules applied."""
    definitions: dict[Owner, Tool] = {}
    extras: set[Owner] = set()
    for server, listed in servers.items():
        for tool in listed.tools:
            definitions.setdefault((server, tool.name), tool)
        for tool in listed.extras:
            # A server's own tool with that name has priority.
            if definitions.setdefault((server, tool.name), tool) is tool:
                extras.add((server, tool.name))
    plain_names, transforms = _match_transforms(options, definitions)
    labels = {
        owner: transform.name
        for owner, transform in transforms.items()
        if transform.name is not None
    }
    table = options.names.table(definitions, labels=labels, reserved=options.reserved)
    index = ToolIndex(table, {}, {})
    for owner, definition in definitions.items():
        name = table.name_of(*owner)
        if name is None:
            continue
        keys = (name, plain_names.get(owner, name), tool_key(owner))
        view = _make_view(
            definition,
            owner,
            keys,
            options=options,
            rules=servers[owner[0]].rules,
            transform=transforms.get(owner),
            extra=EXTRAS[owner[1]] if owner in extras else None,
        )
        rule = _hiding_rule(view, keys, options)
        if rule is None:
            index.views[name] = view
        else:
            index.hidden[name] = rule
    return index


def _match_transforms(
    options: Options, owners: Iterable[Owner]
) -> tuple[dict[Owner, str], dict[Owner, ToolTransform]]:
    """Return the names without renaming, and the transforms of tools."""
    patterns = options.transforms
    if not patterns:
        return {}, {}
    # Collisions are ignored here: a transform may resolve them.
    names = attrs.evolve(options.names, on_collision="suffix")
    table = names.table(owners, reserved=options.reserved)
    plain_names = {owner: name for name in table if (owner := table.find(name))}
    transforms = {
        owner: patterns[pattern]
        for owner, name in plain_names.items()
        if (pattern := first_match(patterns, (name, tool_key(owner)))) is not None
    }
    return plain_names, transforms


def _make_view(
    definition: Tool,
    owner: Owner,
    keys: tuple[str, ...],
    *,
    options: Options,
    rules: ServerRules,
    transform: ToolTransform | None,
    extra: Extra | None,
) -> ToolView:
    server, tool = owner
    title, description = definition.display_name, definition.description
    schema = object_schema(definition.input_schema)
    if transform is not None:
        title = transform.title or title
        if transform.description is not None:
            description = transform.description
        schema = transform.caller_schema(schema)
    group = (definition.meta or {}).get("group")
    trusted = options.trusts(server) or extra is not None
    # Hints of an untrusted server must not suppress a confirmation.
    only_reads = trusted and SideEffects.of(definition).kind == "read_only"
    return ToolView(
        name=keys[0],
        server=server,
        tool=tool,
        definition=definition,
        title=title,
        description=description or "",
        input_schema=schema,
        group=group if isinstance(group, str) and group else server,
        needs_confirmation=options.rules.needs_confirmation(keys, only_reads=only_reads)
        or rules.needs_confirmation((*keys, tool), only_reads=only_reads),
        trusted=trusted,
        rules=rules,
        transform=transform,
        extra=extra,
    )


def _hiding_rule(view: ToolView, keys: tuple[str, ...], options: Options) -> str | None:
    """Return the rule that hides a tool, or ``None``."""
    rule = options.rules.refusal(keys) or view.rules.refusal((*keys, view.tool))
    if rule is not None:
        return rule
    if options.groups is not None and view.group not in options.groups:
        return "its group is not in groups"
    if options.lock is None or view.extra is not None:
        return None
    return options.lock.refusal(keys[-1], fingerprint(view.definition))
