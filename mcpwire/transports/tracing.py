"""The one hook for watching a connection: ``trace(event, data)``.

===========  =========================================================
``open``     the target, as one line without secrets
``send``     one message, as bytes without its newline
``receive``  one line that came, as bytes without its newline
``agree``    the `Negotiation` that succeeded
``lost``     the `TransportError` that ended the connection
``close``    the target
===========  =========================================================

It is attached to a channel when that is opened; where there is no hook, nothing of this
is called.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.wire.lines import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.limits import Limits
    from mcpwire.transports._duplex import Duplex
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.targets import OpenChannel, Opener

__all__ = ["Trace"]

logger = logging.getLogger("mcpwire")


class Trace:
    """A user's hook, kept from harming what it watches."""

    def __init__(self, hook: Callable[[str, Any], Any], limits: Limits) -> None:
        if inspect.iscoroutinefunction(hook):
            raise ValueError(f"trace must be a plain function, got {hook!r}")
        self._hook = hook
        self._limits = limits

    def __call__(self, event: str, data: Any) -> None:
        """Tell the hook; what it raises is logged."""
        try:
            self._hook(event, data)
        except (Exception, asyncio.CancelledError):
            logger.exception("trace hook %r raised", self._hook)

    def watching(self, opener: Opener) -> Opener:
        """Return an opener whose channels are watched."""

        def open_watched(inbound: Inbound) -> OpenChannel:
            channel = opener.open(inbound)
            self.attach(channel)
            return channel

        return attrs.evolve(opener, open=open_watched)

    def attach(self, channel: Duplex) -> None:
        """Watch a channel that has just been opened."""
        # The channel's own methods are shadowed, so that one without a hook has no
        # branch for it.
        send, receive = channel._send, channel.receive  # noqa: SLF001 - its watcher
        lines = LineDecoder(self._limits.message)

        def traced_send(data: bytes) -> None:
            for line in data.splitlines():
                self("send", line)
            send(data)

        def traced_receive(data: bytes) -> None:
            for line in lines.feed(data):
                self("receive", line.rstrip(b"\r\n"))
            receive(data)

        channel._send = traced_send  # type: ignore[method-assign]  # noqa: SLF001 - as above
        channel.receive = traced_receive  # type: ignore[method-assign]  # as above
        self("open", channel.target)
