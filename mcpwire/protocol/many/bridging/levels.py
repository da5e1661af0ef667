"""Levels of log messages: one for a session, one for each request that stands alone."""

from __future__ import annotations

from typing import Final

from mcpwire.protocol.methods import LEVELS

__all__ = ["lowered", "reaches"]

_RANKS: Final = {level: rank for rank, level in enumerate(LEVELS)}


def reaches(level: object, wanted: str | None) -> bool:
    """Tell whether a message of that level is for who wants to hear from `wanted` on.

    What is no level reaches nobody, and who wants none hears nothing (2026-07-28
    server/utilities/logging).
    """
    if wanted is None or type(level) is not str:
        return False
    rank = _RANKS.get(level)
    return rank is not None and rank >= _RANKS[wanted]


def lowered(told: str | None, wanted: str) -> bool:
    """Tell whether a server that was told one level must be told another, lower one.

    A session has one level, and several requests that stand alone may share it: each
    hears what it asked for where the session tells the most that anybody asked for.
    """
    return told is None or _RANKS[wanted] < _RANKS[told]
