# ruff: noqa: ARG001 - it keeps the signature of what takes its place
"""The simplest way across, as long as nothing else is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import RequestContext, Session


class SessionDownstream:
    """Whom a set belongs to: one session."""

    is_busy = False

    def __init__(self, session: Session) -> None:
        self.session = session

    async def aclose(self) -> None:
        """Let go."""


class StandaloneDownstream:
    """Whom a set belongs to: requests that stand alone."""

    is_busy = False

    def __init__(self, capabilities: Mapping[str, Any]) -> None:
        self.capabilities = capabilities

    async def aclose(self) -> None:
        """Let go."""


def make_client(upstreams: Upstreams, name: str, target: Any, **options: Any) -> Client:
    """Return a client for a server of a set."""
    return Client(target, **options)


async def forward(
    upstream: Upstream,
    method: str,
    params: dict[str, Any],
    request: RequestContext,
    upstreams: Upstreams,
) -> dict[str, Any]:
    """Send a request on and return the result."""
    upstream.calls += 1
    params = {k: v for k, v in params.items() if k != "_meta"}
    return await upstream.client.request(method, params)


async def subscribe(
    upstreams: Upstreams,
    upstream: Upstream,
    raw: str,
    public: str,
    request: RequestContext,
) -> None:
    """Subscribe."""
    await upstream.client.subscribe(raw)


async def unsubscribe(
    upstreams: Upstreams,
    upstream: Upstream,
    raw: str,
    public: str,
    request: RequestContext,
) -> None:
    """Unsubscribe."""
    await upstream.client.unsubscribe(raw)


async def listen(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Listen."""
    return {}


async def set_level(
    params: dict[str, Any], request: RequestContext, upstreams: Upstreams
) -> dict[str, Any]:
    """Set the level."""
    return {}


def roots_changed(upstreams: Upstreams) -> None:
    """Pass on that the roots changed."""
