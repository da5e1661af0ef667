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

It is attached to a channel when that is opened; where there is no hook, nothing of this
is called.
"""

from __future__ import annotations

import inspect
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from mcpwire.wire.jsonrpc import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.limits import Limits
    from mcpwire.transports.base import Inbound

__all__ = ["Trace"]

logger = logging.getLogger("mcpwire")


_LATER: Final = ("_writing_done", "_all_written")
"""What a channel of the one or the other shell calls once nothing waits any more."""


class _Watched(Protocol):
    """A channel of either shell: all its bytes pass these three."""

    target: str | None
    _send: Callable[[bytes], None]
    _write: Callable[[bytes], None]
    receive: Callable[[bytes], None]

    @property
    def bytes_sent(self) -> int: ...


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
        """Return an opener that watches its channels."""

        def open_watched(inbound: Inbound) -> Any:
            return self._watched(opener.open(inbound))

        changes: dict[str, Any] = {"open": open_watched}
        legacy = getattr(opener, "open_legacy", None)
        if legacy is not None:
            changes["open_legacy"] = lambda inbound: self._watched(legacy(inbound))
        watched: O = attrs.evolve(opener, **changes)  # type: ignore[misc]  # an attrs class
        return watched

    def _watched(self, channel: Any) -> Any:
        self.attach(channel)
        return channel

    def attach(self, channel: Any) -> None:
        """Watch a channel that has just been opened."""
        if hasattr(channel, "watch"):  # one over HTTP tells by itself
            channel.watch(self)
            self("open", channel.target)
            return
        # The channel's own methods are shadowed, so that one without a hook has no
        # branch for it.
        send, receive = channel._send, channel.receive  # noqa: SLF001 - its watcher
        lines = LineDecoder(self._limits.message)

        def traced_send(data: bytes) -> None:
            for line in data.splitlines():
                self("send", line)
            send(data)

        def traced_receive(data: bytes) -> None:
            self("read", data)
            for line in lines.feed(data):
                self("receive", bytes(line.rstrip(b"\r\n")))
            receive(data)

        channel._send = traced_send  # noqa: SLF001 - as above
        channel.receive = traced_receive
        self._attach_to_writing(channel)
        self("open", channel.target)
        if hasattr(channel, "watch_heads"):  # messages that travel as HTTP all the same
            channel.watch_heads(self)

    def _attach_to_writing(self, channel: _Watched) -> None:
        write = channel._write  # noqa: SLF001 - its watcher
        told = 0

        def tell() -> None:
            nonlocal told
            count = channel.bytes_sent
            if count > told:
                told = count
                self("written", count)

        def traced_write(data: bytes) -> None:
            write(data)
            tell()

        channel._write = traced_write  # noqa: SLF001 - as above
        for name in _LATER:
            done = getattr(channel, name, None)
            if done is not None:
                setattr(channel, name, partial(_both, done, tell))


def _both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()
