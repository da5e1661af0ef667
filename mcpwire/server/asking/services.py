"""What the contexts of one server's requests share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.server.asking.state import StateKeeper

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable

    from mcpwire.server.request import RequestContext

    ReadFn = Callable[[str, RequestContext], Awaitable[dict[str, Any]]]
    """Reads a resource on behalf of a request; returns the raw result."""

    CallFn = Callable[[str, dict[str, Any], RequestContext], Awaitable[dict[str, Any]]]
    """Calls a tool on behalf of a request; returns the raw result."""

__all__ = ["Services"]


@attrs.define(kw_only=True, eq=False)
class Services:
    """One for each server."""

    server: Any = None

    lifespan: Any = None
    """What the server's lifespan yielded; set when that was entered."""

    keeper: StateKeeper = attrs.field(factory=StateKeeper)

    read_resource: ReadFn | None = None

    call_tool: CallFn | None = None

    running: tuple[int, AbstractEventLoop] | None = attrs.field(
        default=None, init=False, repr=False
    )
    """The thread that made the latest context, and the loop that ran there then."""
