"""Which engine moves the bytes of a target; each is imported only where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpwire.limits import Limits
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.target import Http

__all__ = ["open_engine"]


def open_engine(target: Http, limits: Limits) -> Engine:
    """Return a new engine for a target."""
    from mcpwire.transports.http._httpx_common import choose_engine

    if choose_engine(target) == "direct":
        from mcpwire.transports.http.direct import DirectEngine

        return DirectEngine(target, limits)
    from mcpwire.transports.http.httpx_engine import HttpxEngine

    return HttpxEngine(target, limits)
