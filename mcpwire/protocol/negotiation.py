"""The words of a handshake: what it is given, what it asks, what it agreed on.

`mcpwire.protocol.lifecycle` puts them together. A step goes from there to the shell,
which sends the outcome back; the record tells afterwards how it went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.errors import (
    HTTPError,
    InvalidMessage,
    RPCError,
    TransportError,
    shorten,
)
from mcpwire.versions import Era, find_revision, revisions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.errors import MCPError
    from mcpwire.versions import Revision

__all__ = [
    "ENDPOINT_EVENT",
    "META",
    "METHOD_NOT_FOUND",
    "MODERN_ERRORS",
    "MODES",
    "Agreement",
    "Answer",
    "Downgrade",
    "Identity",
    "Negotiation",
    "NegotiationStep",
    "Notify",
    "Receive",
    "Reopen",
    "Send",
    "Silence",
    "Step",
    "is_internal",
    "is_refusal",
    "older_transport",
    "parse_mode",
    "request_meta",
]

META: Final = "io.modelcontextprotocol/"

MODES: Final = ("auto", "session", "stateless", "prefer-session")
"""`mode=` takes one of these, or the name of the one revision to speak."""

MODERN_ERRORS: Final = frozenset({-32020, -32021, -32022})
"""Codes that only revisions from 2026-07-28 on define, so they prove the era."""

METHOD_NOT_FOUND: Final = -32601

REFUSING_STATUSES: Final = frozenset(range(400, 500)) - {401, 403, 407, 408, 425, 429}
"""What may mean that a server does not know the era; the others say nothing of it."""

ENDPOINT_EVENT: Final = "'endpoint'"
"""How an error tells that an event came with which HTTP+SSE begins."""

TEXT_SHOWN: Final = 200


def is_refusal(error: MCPError) -> bool:
    """Tell whether an error of the handshake may mean that the era is another one.

    A lost connection does not, and over HTTP neither does a status that speaks of who
    asks, how often, or of trouble that will pass, whatever the body says beside it; but
    a server that knows its methods has read the request.
    """
    if isinstance(error, RPCError):
        return (
            error.status is None
            or error.status in REFUSING_STATUSES
            or error.code == METHOD_NOT_FOUND
            or error.code in MODERN_ERRORS
        )
    if isinstance(error, HTTPError):
        return error.status in REFUSING_STATUSES
    return not isinstance(error, TransportError)


def is_internal(error: MCPError) -> bool:
    """Tell whether a server's program has answered that it failed.

    Servers that know no probe fail so over HTTP, with 500.
    """
    return isinstance(error, RPCError) and error.status == 500


def older_transport(error: MCPError | None) -> str | None:
    """Return what came for `initialize` that points to HTTP+SSE; ``None``: nothing."""
    if isinstance(error, InvalidMessage) and error.got == ENDPOINT_EVENT:
        return "with an endpoint event"
    status = getattr(error, "status", None)
    return str(status) if status is not None and 400 <= status < 500 else None


# What it is given...


@attrs.frozen
class Identity:
    """Who we are and what we can do."""

    info: Mapping[str, Any]
    """Our `Implementation` object."""

    capabilities: Mapping[str, Any] | Callable[[Revision], Mapping[str, Any]]
    """Our `ClientCapabilities` object, or what makes it for a revision."""

    def capabilities_at(self, revision: Revision) -> dict[str, Any]:
        """Return what we declare where that revision is spoken."""
        declared = self.capabilities
        return dict(declared(revision) if callable(declared) else declared)


def parse_mode(mode: str) -> tuple[Revision, ...]:
    """Return the revisions a mode allows: the era to try first, then newest first.

    Raises:
        ValueError: It is no mode and names no revision.
    """
    if mode == "auto":
        return revisions_of(Era.STATELESS) + revisions_of(Era.SESSION)
    if mode == "prefer-session":
        return revisions_of(Era.SESSION) + revisions_of(Era.STATELESS)
    if mode in MODES:
        return revisions_of(Era(mode))
    revision = find_revision(mode)
    if revision is None:
        raise ValueError(
            f"mode must be one of {', '.join(MODES)} or a revision, got {mode!r}"
        )
    return (revision,)


def request_meta(revision: Revision, identity: Identity) -> dict[str, Any]:
    """Return the `_meta` that every request of a stateless revision carries.

    2026-07-28 basic, "_meta": version and capabilities on every request, clientInfo
    where nothing speaks against it.
    """
    return {
        META + "protocolVersion": revision.name,
        META + "clientCapabilities": identity.capabilities_at(revision),
        META + "clientInfo": dict(identity.info),
    }


# Steps...


@attrs.frozen
class Send:
    """Send a request and go on; its answer comes by `Receive`."""

    method: str
    params: dict[str, Any]


@attrs.frozen
class Receive:
    """Wait for the next answer, or for silence of so many seconds."""

    patience: float | None
    """``None``: until the answer comes or the whole handshake runs out of time."""


@attrs.frozen
class Notify:
    """Send a notification; the revision is agreed by then."""

    method: str
    revision: Revision


@attrs.frozen
class Reopen:
    """Open a new connection to the same target in place of the one that ended."""

    reason: str


@attrs.frozen
class Downgrade:
    """Open HTTP+SSE, the transport of 2024-11-05, to the same target instead.

    The outcome is ``None``, or the `MCPError` that says why that is not to be had.
    """

    reason: str


# Outcomes of `Receive`...


@attrs.frozen
class Answer:
    """A request got its result or its error (a `TransportError`: none will come)."""

    method: str
    outcome: dict[str, Any] | MCPError
    at: float
    """Seconds since the handshake began."""


@attrs.frozen
class Silence:
    """Nothing came within the patience."""

    at: float


Step: TypeAlias = Send | Receive | Notify | Reopen | Downgrade


# What it agreed on...


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
        self.steps.append(NegotiationStep(at, event, shorten(detail, TEXT_SHOWN)))

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
