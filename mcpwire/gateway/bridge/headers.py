"""Header fields of the client's requests that go along to the servers.

What a request causes has its fields, also where others are under way; what none of them
causes, such as the stream on which a server speaks unasked, has those of the last.
"""

from __future__ import annotations

from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import RequestContext
    from mcpwire.transports.http.target import Http

__all__ = ["forwarding", "take_headers"]

_causing: ContextVar[tuple[RequestContext, Mapping[str, str]] | None] = ContextVar(
    "mcpwire_gateway_causing", default=None
)


def take_headers(upstreams: Upstreams, request: RequestContext) -> None:
    """Let what a request causes have its fields, and what nobody causes from now on.

    As a whole, whatever came before: what is not sent again is not passed on. Where
    several clients share a set, what none of them causes keeps the fields by which they
    share it.

    Raises:
        InvalidRequest: One of them cannot be sent on.
    """
    headers = upstreams.gateway.forwarded(request.info)
    if upstreams.downstream.session is not None:
        upstreams.headers = headers
    _causing.set((request, headers))


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
        return _merged(_current(upstreams), own or {})

    made = attrs.evolve(target, headers=headers)
    # What was learned of the server, and the tokens for it, are the same as before.
    object.__setattr__(made, "memory", target.memory)
    object.__setattr__(made, "grant", target.grant)
    return made


def _current(upstreams: Upstreams) -> Mapping[str, str]:
    causing = _causing.get()
    # A task that a request has begun may go on when that is answered.
    if causing is not None and causing[0].is_open:
        return causing[1]
    return upstreams.headers


def _merged(forwarded: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    taken = {name.lower() for name in own}
    passed = {name: value for name, value in forwarded.items() if name not in taken}
    return {**passed, **own}
