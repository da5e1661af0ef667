"""Notifications as users see them: the method and its typed parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.protocol.methods import Kind, find

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Notification", "typed_notification"]


@attrs.frozen
class Notification:
    """Something the peer told us without being asked."""

    method: str
    """Its name on the wire, such as ``notifications/message``."""

    params: Any
    """The typed params, such as `LoggingMessageNotificationParams`; the plain dict (or
    ``None``) for a method that mcpwire does not know."""


def typed_notification(method: str, params: Mapping[str, Any] | None) -> Notification:
    """Decode a notification's params by the method table.

    Raises:
        InvalidMessage: They break the rules; names the path.
    """
    spec = find(method)
    if spec is None or spec.kind is not Kind.NOTIFICATION:
        return Notification(method, params)
    from mcpwire import types

    assert spec.params is not None
    return Notification(
        method, types.decode(getattr(types, spec.params), dict(params or {}))
    )
