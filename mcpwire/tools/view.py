"""One tool as it is offered, and one call of it before it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.protocol.many.effects import SideEffects
from mcpwire.protocol.many.policy.previews import preview

if TYPE_CHECKING:
    from mcpwire.protocol.many.policy.extras import Extra
    from mcpwire.protocol.many.policy.rules import ServerRules
    from mcpwire.protocol.many.policy.transforms import ToolTransform
    from mcpwire.types import Tool

__all__ = ["ToolCall", "ToolView"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolView:
    """A tool of one of the servers, as a model sees it."""

    name: str
    """What it is called here; no other tool is called so."""

    server: str
    """The server's name here."""

    tool: str
    """What the server calls it."""

    definition: Tool
    """What the server says of it, untouched."""

    title: str
    """What to show to people."""

    description: str
    """What it does, for a model; empty where nobody says."""

    input_schema: dict[str, Any]
    """The JSON Schema of the arguments that a caller gives."""

    group: str
    """The `group` of its `_meta`, else the server's name. Each server says what it
    likes: it sorts tools, and says nothing of what they may do."""

    needs_confirmation: bool = False
    """Whether somebody has to confirm each call."""

    trusted: bool = False
    """Whether what the server says of side effects is believed."""

    rules: ServerRules
    """What holds for this server's tools alone."""

    transform: ToolTransform | None = None
    extra: Extra | None = None
    """What it really is, where it is no tool of the server."""

    @property
    def side_effects(self) -> SideEffects:
        """What it may do to the world, as far as its server says."""
        return SideEffects.of(self.definition.annotations, trusted=self.trusted)

    @property
    def display_name(self) -> str:
        """One line for people: where it is and what it is called there."""
        return f"[MCP] {self.server}.{self.tool}"

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<ToolView {self.name!r}: {self.tool!r} of {self.server!r}>"


@attrs.frozen(eq=False)
class ToolCall:
    """A call that is about to be made: what `approve` is asked about."""

    view: ToolView

    arguments: dict[str, Any] | None
    """What the server would get."""

    confirmed: bool = False
    """Whether the caller says that somebody confirmed it."""

    @property
    def needs_confirmation(self) -> bool:
        """Whether somebody has to confirm it and, so far, nobody has."""
        return self.view.needs_confirmation and not self.confirmed

    @property
    def side_effects(self) -> SideEffects:
        """What the tool may do to the world, as far as its server says."""
        return self.view.side_effects

    @property
    def preview(self) -> str:
        """The argument that says most, on one line of at most 80 characters."""
        return preview(self.arguments)

    def __str__(self) -> str:
        """Return one line for whoever is asked."""
        return f"{self.view.display_name} {self.preview}".rstrip()
