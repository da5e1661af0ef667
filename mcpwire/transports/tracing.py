"""The one hook for watching a connection: ``trace(event, data)``.

===========  =========================================================
``open``     the target, as one line without secrets
``send``     one message, as bytes without its newline
``written``  how many bytes the operating system has taken since ``open``
``read``     bytes that came, as they were read
``receive``  one line that came, as bytes without its newline
``request``  over HTTP: the head of a request, as text without secrets
``response`` over HTTP: the head of an answer, as text without secrets
``agree``    the `Negotiation` that succeeded
``lost``     the `TransportError` that ended the connection
``close``    the target
===========  =========================================================

A message is queued with ``send`` and has left with the first ``written`` that counts
all the bytes of the messages up to it, newlines included. ``read`` comes before the
``receive`` of the lines that it completes. Where the peer is slow to read, ``written``
is told of what it took at once, and again when nothing waits any more.

A channel gets it when it is opened, and tells it (`watch`).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.transports.targets import Opener

__all__ = ["Trace"]

logger = logging.getLogger("mcpwire")


class Trace:
    """A user's hook, kept from harming what it watches."""

    def __init__(self, hook: Callable[[str, Any], Any]) -> None:
        if inspect.iscoroutinefunction(hook):
            raise ValueError(f"trace must be a plain function, got {hook!r}")
        self._hook = hook

    def __call__(self, event: str, data: Any) -> None:
        """Tell the hook; what it raises is logged."""
        try:
            self._hook(event, data)
        except BaseException as error:
            # A hook may have asked for the result of something cancelled.
            if not isinstance(error, (Exception, asyncio.CancelledError)):
                raise
            logger.exception("trace hook %r raised", self._hook)

    def watching(self, opener: Opener) -> Opener:
        """Return an opener that watches its channels."""
        open_it, legacy = opener.open, opener.open_legacy
        return attrs.evolve(
            opener,
            open=lambda inbound: self._watched(open_it(inbound)),
            open_legacy=None
            if legacy is None
            else lambda inbound: self._watched(legacy(inbound)),
        )

    def _watched(self, channel: Any) -> Any:
        channel.watch(self)
        self("open", channel.target)
        return channel
