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

import inspect
import logging
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from mcpwire.wire.lines import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.limits import Limits
    from mcpwire.transports.base import Inbound

__all__ = ["Trace"]

logger = logging.getLogger("mcpwire")


class _Watched(Protocol):
    """A channel of either shell: all its bytes pass these two."""

    target: str | None
    _send: Callable[[bytes], None]
    receive: Callable[[bytes], None]


class _Opener(Protocol):
    """What opens channels, an attrs class."""

    @property
    def open(self) -> Callable[[Inbound], Any]: ...


O = TypeVar("O", bound=_Opener)  # noqa: E741 - for an opener


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
        except BaseException as error:
            # asyncio's, from a hook that asked for the result of something cancelled;
            # by name, for the blocking client does without asyncio.
            is_cancelled = type(error).__name__ == "CancelledError"
            if not isinstance(error, Exception) and not is_cancelled:
                raise
            logger.exception("trace hook %r raised", self._hook)

    def watching(self, opener: O) -> O:
        """Return an opener whose channels are watched."""

        def open_watched(inbound: Inbound) -> Any:
            channel = opener.open(inbound)
            self.attach(channel)
            return channel

        watched: O = attrs.evolve(opener, open=open_watched)  # type: ignore[misc]  # an attrs class
        return watched

    def attach(self, channel: _Watched) -> None:
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

        channel._send = traced_send  # noqa: SLF001 - as above
        channel.receive = traced_receive
        self("open", channel.target)
