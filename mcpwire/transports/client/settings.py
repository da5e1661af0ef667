"""What a client was made with, as its connection needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.limits import DEFAULT_LIMITS, DEFAULT_RECOVERY, Limits, Recovery

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.protocol.host.features import HostFeatures
    from mcpwire.protocol.lifecycle import Identity
    from mcpwire.protocol.notifications import Notification
    from mcpwire.versions import Revision

__all__ = ["Settings"]


@attrs.frozen(kw_only=True)
class Settings:
    """The options of a client that are its connection's; times in seconds."""

    identity: Identity

    allowed: tuple[Revision, ...]
    """The revisions that may be spoken, newest first."""

    connect_timeout: float | None

    probe_timeout: float

    keepalive: float | None = None

    reset_on_progress: bool = False
    """Whether progress starts a call's timeout again."""

    limits: Limits = DEFAULT_LIMITS

    recovery: Recovery = DEFAULT_RECOVERY

    features: HostFeatures | None = None
    """What the server may ask of us."""

    on_notification: Callable[[Notification], Any] | None = None

    trace: Callable[[str, Any], Any] | None = None
