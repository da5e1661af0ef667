"""Header fields of the client's requests that go along to the servers."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.transports.http.target import Http

__all__ = ["forwarding"]


def forwarding(target: Any, upstreams: Upstreams) -> Any:
    """Return a target to which the set's header fields go along, with all requests.

    Also with those that connect, and with what answers a server. A field that the
    target itself has wins over the client's. What is no HTTP stays as it is.
    """
    if not upstreams.gateway.forward_headers:
        return target
    from mcpwire.transports.http.target import Http

    return _with(target, upstreams) if isinstance(target, Http) else target


def _with(target: Http, upstreams: Upstreams) -> Http:
    given: Any = target.headers

    async def headers() -> Mapping[str, str]:
        own = given() if callable(given) else given
        if isawaitable(own):
            own = await own
        return _merged(upstreams.headers, own or {})

    made = attrs.evolve(target, headers=headers)
    # What was learned of the server, and the tokens for it, are the same as before.
    object.__setattr__(made, "memory", target.memory)
    object.__setattr__(made, "grant", target.grant)
    return made


def _merged(forwarded: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    taken = {name.lower() for name in own}
    passed = {name: value for name, value in forwarded.items() if name not in taken}
    return {**passed, **own}
