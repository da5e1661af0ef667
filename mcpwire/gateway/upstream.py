"""One server behind the gateway, as one session of a client sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.methods import capability_declared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.bridge.client import RelayClient
    from mcpwire.gateway.plan import Planned
    from mcpwire.limits import Limits
    from mcpwire.protocol.negotiation import Agreement
    from mcpwire.versions import Revision

__all__ = ["Upstream"]

NOTHING: Final[Mapping[str, Any]] = {}


class Upstream:
    """One server of a set.

    Args:
        planned: What it is.
        client: The connection to it.
        timeout: How long it may take to answer, in seconds; ``None``: no limit.
        limits: What it may cost.

    Attributes:
        name: What we call it.
        planned: As given.
        client: As given.
        timeout: As given.
        limits: As given.
        problem: Why it could not be connected to, or ``None``.
        retry_at: When that is tried again, on the loop's clock.
        problems: Why a list of it is left out, by method.
        calls: How many requests it was sent.
        relay: What stands beside the connection, where anything does.
    """

    __slots__ = (
        "calls",
        "client",
        "limits",
        "name",
        "planned",
        "problem",
        "problems",
        "relay",
        "retry_at",
        "timeout",
    )

    def __init__(
        self,
        planned: Planned,
        client: RelayClient,
        *,
        timeout: float | None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.planned = planned
        self.name = planned.name
        self.client = client
        self.timeout = timeout
        self.limits = limits
        self.problem: Exception | None = None
        self.retry_at = 0.0
        self.problems: dict[str, Exception] = {}
        self.calls = 0
        self.relay: Any = None

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<Upstream {self.name!r}, {self.state}>"

    @property
    def agreement(self) -> Agreement | None:
        """What the handshake agreed; ``None`` before."""
        return self.client.profile.agreement

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it declared, as it came; empty where it is not there."""
        agreement = self.agreement
        if agreement is None or not isinstance(agreement.capabilities, dict):
            return NOTHING
        return agreement.capabilities

    @property
    def revision(self) -> Revision | None:
        """What it speaks; ``None`` where it is not there."""
        agreement = self.agreement
        return agreement.revision if agreement is not None else None

    def offers(self, capability: str) -> bool:
        """Tell whether it declared a capability, such as ``resources.subscribe``."""
        return capability_declared(self.capabilities, capability)

    @property
    def state(self) -> str:
        """``"ready"``, ``"lost"``, ``"failed"`` or ``"idle"``."""
        if self.client.is_connected:
            return "ready"
        if self.problem is not None:
            return "failed"
        return "idle" if self.agreement is None else "lost"

    def status(self) -> dict[str, Any]:
        """Return what can be said of it, as JSON; no secrets."""
        found: dict[str, Any] = {"name": self.name, "state": self.state}
        agreement = self.agreement
        if agreement is not None:
            found["protocolVersion"] = agreement.revision.name
            if isinstance(agreement.server_info, dict):
                found["serverInfo"] = agreement.server_info
            found["capabilities"] = self.capabilities
        if self.problem is not None:
            found["error"] = str(self.problem)
        if self.problems:
            found["problems"] = {m: str(e) for m, e in self.problems.items()}
        found["calls"] = self.calls
        return found
