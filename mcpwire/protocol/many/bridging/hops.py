"""What of a request and a result belongs to one hop, and what goes through as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.types.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ROUND_MEMBERS", "passed_meta", "passed_result", "without_rounds"]

_OF_ONE_HOP: Final = frozenset(
    {CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, "progressToken"}
)
"""What a client says of itself, and of how it wants to be answered."""

_STATELESS_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of results that no session knows (2026-07-28 basic, "Results")."""

ROUND_MEMBERS: Final = frozenset({"inputResponses", "requestState"})
"""Members of params that belong to one round (2026-07-28 basic/patterns/mrtr)."""


def passed_meta(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what of a request's `_meta` is for the server behind; ``None``: nothing.

    Trace keys and all keys that are nobody's but the two ends' go through. The token
    of progress, which is the hop's, is put there by whoever sends the request.
    """
    if not meta:
        return None
    passed = {key: value for key, value in meta.items() if key not in _OF_ONE_HOP}
    return passed or None


def without_rounds(params: dict[str, Any]) -> dict[str, Any]:
    """Return the params without what belongs to a round of the stateless era."""
    if ROUND_MEMBERS.isdisjoint(params):
        return params
    return {key: value for key, value in params.items() if key not in ROUND_MEMBERS}


def passed_result(result: dict[str, Any], came: Era, goes: Era) -> dict[str, Any]:
    """Return a complete result as the client's era has it; most often the very same.

    Args:
        result: What the server behind answered.
        came: The era that it speaks.
        goes: The era of the client.
    """
    if came is Era.SESSION:
        # Whoever answers puts its own there; a session's member of that name says
        # something else.
        if goes is Era.STATELESS and not _STATELESS_MEMBERS.isdisjoint(result):
            return _without(result, _STATELESS_MEMBERS)
        return result
    if goes is Era.SESSION and not _STATELESS_MEMBERS.isdisjoint(result):
        result = _without(result, _STATELESS_MEMBERS)
    meta = result.get("_meta")
    if type(meta) is not dict or SERVER_INFO not in meta:
        return result
    # 2026-07-28 basic, "_meta": it names who answers, and that is the gateway.
    left = _without(meta, frozenset({SERVER_INFO}))
    if left:
        return {**result, "_meta": left}
    return _without(result, frozenset({"_meta"}))


def _without(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in names}
