"""What a tool may do to the world, as far as its server says; pure.

Annotations are hints of whoever runs the server: they help to ask the right question,
and prove nothing. So a hint may make a tool look more dangerous whoever gave it, and
less dangerous only where the server is trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from mcpwire.types.tools import Tool

if TYPE_CHECKING:
    from mcpwire.types.tools import ToolAnnotations

__all__ = ["EffectKind", "Risk", "SideEffects"]

EffectKind: TypeAlias = Literal["read_only", "mutating", "unknown"]
"""Whether a tool changes anything; unknown where its server says nothing of it."""

Risk: TypeAlias = Literal["low", "medium", "high"]
"""How much thought a call deserves."""


@attrs.frozen(kw_only=True)
class SideEffects:
    """The four hints of a tool, with the specification's defaults filled in."""

    kind: EffectKind = "unknown"
    """What the hints say: ``"unknown"`` where none of them tells."""

    is_destructive: bool = True
    """Whether what is there may be lost; never of a tool that only reads."""

    is_idempotent: bool = False
    """Whether calling it again changes nothing more; always of one that only reads."""

    is_open_world: bool = True
    """Whether it reaches beyond a closed domain, such as into the web."""

    trusted: bool = False
    """Whether the caller trusts the server that gave the hints."""

    @classmethod
    def of(
        cls, source: Tool | ToolAnnotations | None, *, trusted: bool = False
    ) -> SideEffects:
        """Read the hints of a tool, or of its annotations.

        Args:
            source: A tool, its annotations, or ``None`` where it has none.
            trusted: Whether the server is trusted to tell the truth.
        """
        hints = source.annotations if isinstance(source, Tool) else source
        if hints is None:
            return cls(trusted=trusted)
        # 2026-07-28 schema, ToolAnnotations: readOnlyHint false, destructiveHint true,
        # idempotentHint false, openWorldHint true; the two in the middle mean
        # something only where the tool does not merely read.
        is_open_world = hints.open_world_hint is not False
        if hints.read_only_hint is True:
            return cls(
                kind="read_only",
                is_destructive=False,
                is_idempotent=True,
                is_open_world=is_open_world,
                trusted=trusted,
            )
        says = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
        return cls(
            kind="unknown" if says == (None, None, None) else "mutating",
            is_destructive=hints.destructive_hint is not False,
            is_idempotent=hints.idempotent_hint is True,
            is_open_world=is_open_world,
            trusted=trusted,
        )

    @property
    def may_change(self) -> bool:
        """Whether it may change anything, taking the hints at their word."""
        return self.kind != "read_only"

    @property
    def is_assured_read_only(self) -> bool:
        """Whether a trusted server says that it only reads."""
        return self.kind == "read_only" and self.trusted

    @property
    def risk(self) -> Risk:
        """How much thought a call deserves.

        ``"high"`` where the tool changes things and may lose what is there;
        ``"low"`` where a trusted server says that it only reads, or that it changes
        a closed domain, idempotently, without losing anything; else ``"medium"``.
        """
        if self.kind == "mutating" and self.is_destructive:
            return "high"
        # 2026-07-28 server/tools, "Tool": annotations are untrusted unless they come
        # from a trusted server, so that nobody is talked out of being asked.
        if not self.trusted or self.kind == "unknown":
            return "medium"
        harmless = self.is_idempotent and not self.is_open_world
        return "low" if self.kind == "read_only" or harmless else "medium"
