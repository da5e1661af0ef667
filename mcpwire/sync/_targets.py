"""What a blocking client can connect to, and how each is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.transports.stdio.target import Stdio
from mcpwire.transports.targets import Target, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.limits import Limits
    from mcpwire.sync._memory import BlockingMemory
    from mcpwire.sync._stdio import BlockingStdio
    from mcpwire.transports.base import Inbound

    OpenChannel = BlockingStdio | BlockingMemory

__all__ = ["BlockingOpener", "Stdio", "Target", "blocking_opener"]


@attrs.frozen
class BlockingOpener:
    """Opens connections to one target, one after the other."""

    target: str
    """The target as one readable line."""

    open: Callable[[Inbound], OpenChannel]


def blocking_opener(target: Any, limits: Limits) -> BlockingOpener:
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

        assert not isinstance(resolved, Stdio)
        return BlockingMemory.open(resolved, inbound, limits=limits)

    if isinstance(resolved, Stdio):
        return BlockingOpener(str(resolved), open_stdio)
    return BlockingOpener(f"{type(resolved).__name__} in memory", open_memory)
