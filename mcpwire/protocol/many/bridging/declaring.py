"""Client capabilities on their way to another revision.

A server behind a gateway may ask for what the gateway's own client can answer, so what
that one declared is declared again, as the revision of the next hop spells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.protocol.methods import TASKS
from mcpwire.versions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.versions import Revision

__all__ = ["can_be_asked", "declared_again"]

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, *_ = REVISIONS


def declared_again(
    declared: Mapping[str, Any], came: Revision, goes: Revision
) -> dict[str, Any]:
    """Return what to declare at a revision for a client that declared this at its own.

    Experimental capabilities stay behind, and so do the tasks that a client of
    2025-11-25 holds itself: nothing carries them any further.
    """
    made = {
        "roots": _roots(declared.get("roots"), came, goes),
        "sampling": _sampling(declared.get("sampling"), came, goes),
        "elicitation": _elicitation(declared.get("elicitation"), came, goes),
        "extensions": _extensions(declared.get("extensions"), came, goes),
    }
    return {name: settings for name, settings in made.items() if settings is not None}


def can_be_asked(declared: Mapping[str, Any]) -> bool:
    """Tell whether a client with these capabilities can be asked for anything."""
    return any(
        type(declared.get(name)) is dict
        for name in ("roots", "sampling", "elicitation")
    )


def _roots(given: Any, came: Revision, goes: Revision) -> dict[str, Any] | None:
    if type(given) is not dict:
        return None
    # 2026-07-28 client/roots: nobody tells that they changed.
    tells = came.era is Era.SESSION and given.get("listChanged") is True
    return {"listChanged": True} if tells and goes.era is Era.SESSION else {}


def _sampling(given: Any, came: Revision, goes: Revision) -> dict[str, Any] | None:
    if type(given) is not dict:
        return None
    if goes < _NOV_2025 or came < _NOV_2025:  # which made kinds of it
        return {}
    return {kind: given[kind] for kind in ("context", "tools") if kind in given}


def _elicitation(given: Any, came: Revision, goes: Revision) -> dict[str, Any] | None:
    if type(given) is not dict or came < _JUN_2025 or goes < _JUN_2025:
        return None
    if came < _NOV_2025 or not given:
        return {}  # forms, and nothing else
    kinds = {kind: given[kind] for kind in ("form", "url") if kind in given}
    if goes >= _NOV_2025:
        return kinds
    # 2025-06-18 knows forms only, and an empty capability means forms.
    return {} if "form" in kinds else None


def _extensions(given: Any, came: Revision, goes: Revision) -> dict[str, Any] | None:
    # The extensions of the stateless era, tasks first of all, are other ones than what
    # sessions call so (SEP-2663, "Backward Compatibility").
    if type(given) is not dict or not given:
        return None
    if came.era is not goes.era or goes < _NOV_2025:
        return None
    if goes.era is Era.SESSION:
        return {id: each for id, each in given.items() if id != TASKS} or None
    return dict(given)
