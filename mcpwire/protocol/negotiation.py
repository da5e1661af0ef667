"""What a handshake agreed on, and the record of how it came to that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from mcpwire.versions import Era, Revision

__all__ = ["Agreement", "Negotiation", "NegotiationStep", "shorten"]

TEXT_SHOWN: Final = 200


def shorten(text: str, limit: int = TEXT_SHOWN) -> str:
    """Return a peer's text cut to what a record or a message can show."""
    return text if len(text) <= limit else f"{text[:limit]}..."


@attrs.frozen
class NegotiationStep:
    """One thing that happened during the handshake."""

    at: float
    """Seconds since its start."""

    event: str
    """What happened, such as ``sent server/discover`` or ``silence``."""

    detail: str = ""
    """What was learnt from it."""

    def __str__(self) -> str:
        """Return one readable line."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.at:.3f} s  {self.event}{detail}"


@attrs.define
class Negotiation:
    """The ordered record of probes and answers, and the reason of the verdict."""

    steps: list[NegotiationStep] = attrs.field(factory=list)

    revision: Revision | None = None
    """The agreed revision; ``None`` where there was no agreement."""

    reason: str = ""
    """Why that revision, in one clause."""

    @property
    def era(self) -> Era | None:
        """How the connection keeps its state."""
        return self.revision.era if self.revision is not None else None

    def note(self, at: float, event: str, detail: str = "") -> None:
        """Add a step to the record."""
        self.steps.append(NegotiationStep(at, event, shorten(detail)))

    def __str__(self) -> str:
        """Return the verdict and the steps that led to it, a line each."""
        verdict = self.revision.name if self.revision is not None else "no agreement"
        lines = [f"{verdict}: {self.reason}" if self.reason else verdict]
        return "\n  ".join([*lines, *map(str, self.steps)])


@attrs.frozen(kw_only=True)
class Agreement:
    """What a handshake agreed on."""

    revision: Revision

    server_info: dict[str, Any] | None
    """The server's `Implementation` object, where it gave one."""

    capabilities: dict[str, Any]

    instructions: str | None

    raw: dict[str, Any]
    """The InitializeResult or DiscoverResult as it came."""

    negotiation: Negotiation
