"""What a blocking client can connect to, and how each is opened."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.limits import DEFAULT_RECOVERY
from mcpwire.transports.stdio.target import Stdio
from mcpwire.transports.targets import Target, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.limits import Limits, Recovery
    from mcpwire.sync._custom import BlockingCustom
    from mcpwire.sync._http.channel import BlockingHttp
    from mcpwire.sync._http.engine import BlockingEngine
    from mcpwire.sync._http.httpx_engine import BlockingHttpxEngine
    from mcpwire.sync._http.legacy import BlockingLegacy
    from mcpwire.sync._http.seam import Engine
    from mcpwire.sync._memory import BlockingMemory
    from mcpwire.sync._oauth.authorizer import BlockingAuthorizer
    from mcpwire.sync._stdio import BlockingStdio
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.http.target import Http, Memory
    from mcpwire.transports.oauth.patience import Patience

    OpenChannel = (
        BlockingStdio | BlockingMemory | BlockingCustom | BlockingHttp | BlockingLegacy
    )

__all__ = ["BlockingOpener", "Stdio", "Target", "blocking_opener"]


@attrs.frozen
class BlockingOpener:
    """Opens connections to one target, one after the other."""

    target: str
    """The target as one readable line."""

    open: Callable[[Inbound], OpenChannel]

    memory: Memory | None = None
    """What is remembered of an HTTP server; ``None``: the target is no URL."""

    open_legacy: Callable[[Inbound], BlockingLegacy] | None = None
    """Opens the transport of 2024-11-05 to the same URL."""

    patience: Patience | None = None
    """Whose clocks stand still while a user logs in; ``None``: nobody ever does."""


def blocking_opener(
    target: Any, limits: Limits, recovery: Recovery = DEFAULT_RECOVERY
) -> BlockingOpener:
    """Return what opens connections to that target.

    Raises:
        ValueError: It is nothing that a client can connect to.
    """
    resolved: Any = resolve(target)

    def open_stdio(inbound: Inbound) -> OpenChannel:
        # Spawning is imported with the first child, not with the client.
        from mcpwire.sync._stdio import BlockingStdio

        assert isinstance(resolved, Stdio)
        return BlockingStdio.open(resolved, inbound, limits=limits)

    def open_memory(inbound: Inbound) -> OpenChannel:
        from mcpwire.sync._memory import BlockingMemory

        server: Any = resolved
        return BlockingMemory.open(server, inbound, limits=limits)

    if isinstance(resolved, Stdio):
        return BlockingOpener(str(resolved), open_stdio)
    if not hasattr(resolved, "open_in_memory"):
        if hasattr(resolved, "open_channel"):
            return _custom_opener(resolved, limits)
        return _http_opener(resolved, limits, recovery)
    return BlockingOpener(f"{type(resolved).__name__} in memory", open_memory)


def _custom_opener(target: Any, limits: Limits) -> BlockingOpener:
    from mcpwire.transports.custom.targets import Messages, Stream

    if not isinstance(target, Stream | Messages):
        raise ValueError(
            f"a {type(target).__name__} belongs to one event loop: use mcpwire.Client"
        )

    def open_custom(inbound: Inbound) -> OpenChannel:
        from mcpwire.sync._custom import BlockingCustom

        return BlockingCustom.open(target, inbound, limits=limits)

    return BlockingOpener(str(target), open_custom)


def _http_opener(target: Http, limits: Limits, recovery: Recovery) -> BlockingOpener:
    authorizer = _authorizer(target, limits)

    def open_http(inbound: Inbound) -> OpenChannel:
        from mcpwire.sync._http.channel import BlockingHttp

        engine: Engine = _engine(target, limits)
        if authorizer is not None:
            from mcpwire.sync._oauth.engine import BlockingAuthEngine

            engine = BlockingAuthEngine(engine, authorizer)
        return BlockingHttp(target, engine, inbound, limits=limits, recovery=recovery)

    def open_legacy(inbound: Inbound) -> BlockingLegacy:
        from mcpwire.sync._http.legacy import BlockingLegacy

        open_engine = None
        if authorizer is not None:
            from mcpwire.sync._oauth.engine import open_with_tokens

            open_engine = partial(open_with_tokens, patience=authorizer.patience)
        return BlockingLegacy.open(
            target,
            inbound,
            limits=limits,
            open_engine=open_engine,
            patience=patience,
        )

    patience = authorizer.patience if authorizer is not None else None
    return BlockingOpener(str(target), open_http, target.memory, open_legacy, patience)


def _authorizer(target: Http, limits: Limits) -> BlockingAuthorizer | None:
    """Return what gets the tokens for a target, for all connections to it."""
    if target.grant is None:
        return None
    from mcpwire.sync._oauth.authorizer import BlockingAuthorizer

    return BlockingAuthorizer(target.grant, target, limits)


def _engine(target: Http, limits: Limits) -> BlockingEngine | BlockingHttpxEngine:
    """Return what moves the bytes; each is imported only where it is used."""
    from mcpwire.transports.http._httpx_common import choose_engine

    if choose_engine(target) == "direct":
        from mcpwire.sync._http.engine import BlockingEngine

        return BlockingEngine(target, limits)
    from mcpwire.sync._http.httpx_engine import BlockingHttpxEngine

    return BlockingHttpxEngine(target, limits)
