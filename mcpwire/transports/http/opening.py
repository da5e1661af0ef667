"""Which engine moves the bytes of a target; each is imported only where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpwire.limits import Limits
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.authorizer import Authorizer

__all__ = ["open_engine"]


def open_engine(
    target: Http, limits: Limits, authorizer: Authorizer | None = None
) -> Engine:
    """Return a new engine for a target, whose requests carry its tokens."""
    engine = _open_engine(target, limits)
    if authorizer is None:
        return engine
    from mcpwire.transports.oauth.engine import AuthEngine

    return AuthEngine(engine, authorizer)


def _open_engine(target: Http, limits: Limits) -> Engine:
    from mcpwire.transports.http._httpx_common import choose_engine

    if choose_engine(target) == "direct":
        from mcpwire.transports.http.direct import DirectEngine

        return DirectEngine(target, limits)
    from mcpwire.transports.http.httpx_engine import HttpxEngine

    return HttpxEngine(target, limits)
