"""Header fields of clients' requests that go along to the servers."""

from __future__ import annotations

from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import InvalidRequest, LocalProtocolError
from mcpwire.protocol.http_headers import check_headers
from mcpwire.transports.http.target import Http

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.request import RequestContext

__all__ = [
    "check_forwarded",
    "pick_headers",
    "take_headers",
    "with_forwarded_headers",
]

NEVER_FORWARDED: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "keep-alive",
        "last-event-id",
        "origin",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
"""Fields that are each connection's own, or prove an identity to one server only
(2025-11-25 basic/authorization, "Access Token Privilege Restriction")."""


def check_forwarded(
    names: Iterable[str], private: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the names of fields to forward, in lower case and each once.

    Raises:
        ValueError: One of them is no name, is private, or is never forwarded.
    """
    if isinstance(names, str):
        raise ValueError(f"the names of headers are a collection, got {names!r}")
    never = NEVER_FORWARDED.union(map(str.lower, private))
    checked: dict[str, None] = {}
    given: Iterable[Any] = names
    for name in given:
        lower = name.lower() if isinstance(name, str) else ""
        if lower in never or lower.startswith("mcp-"):
            raise ValueError(f"the header {name!r} is never forwarded")
        try:
            check_headers({name: ""})
        except LocalProtocolError as error:
            raise ValueError(str(error)) from None
        checked[lower] = None
    return tuple(checked)


def pick_headers(fields: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the fields of a request that are forwarded, under lower-case names.

    Raises:
        InvalidRequest: A value cannot be sent on.
    """
    picked = {name: value for name in names if (value := fields.get(name)) is not None}
    try:
        check_headers(picked, "the request's headers")
    except LocalProtocolError as error:
        raise InvalidRequest(str(error)) from None
    return picked


_causing: ContextVar[tuple[RequestContext, Mapping[str, str]] | None] = ContextVar(
    "mcpwire_gateway_causing", default=None
)


def take_headers(upstreams: Upstreams, request: RequestContext) -> None:
    """Let what a request causes have its fields, and what nobody causes from now on.

    As a whole: what is not sent again is not passed on. Where several clients share a
    set, what none of them causes keeps the fields by which they share it.

    Raises:
        InvalidRequest: One of them cannot be sent on.
    """
    headers = upstreams.gateway.forwarded(request.info)
    if upstreams.downstream.session is not None:
        upstreams.headers = headers
    _causing.set((request, headers))


def with_forwarded_headers(target: Any, upstreams: Upstreams) -> Any:
    """Return a target to which the set's header fields go along, with all requests.

    A field that the target itself has wins. What is no HTTP stays as it is.
    """
    if not upstreams.gateway.forward_headers or not isinstance(target, Http):
        return target
    given: Any = target.headers

    async def headers() -> Mapping[str, str]:
        own = given() if callable(given) else given
        if isawaitable(own):
            own = await own
        own = own or {}
        causing = _causing.get()
        # A task that a request has begun may go on when that is answered.
        is_caused = causing is not None and causing[0].is_open
        forwarded = causing[1] if causing and is_caused else upstreams.headers
        taken = {name.lower() for name in own}
        passed = {name: text for name, text in forwarded.items() if name not in taken}
        return {**passed, **own}

    made = attrs.evolve(target, headers=headers)
    # What was learned of the server, and the tokens for it, are the same as before.
    object.__setattr__(made, "memory", target.memory)
    object.__setattr__(made, "grant", target.grant)
    return made
