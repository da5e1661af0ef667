"""A blocking connection to a `Stream` or `Messages` target.

Their functions run on asyncio, so they get a loop of their own, in a thread of its own,
for as long as the connection lives; see `_relay`.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, cast

from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.sync._memory import Host
from mcpwire.sync._relay import RelayedPipes

if TYPE_CHECKING:
    from mcpwire.errors import TransportError
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.custom.channel import LinkChannel
    from mcpwire.transports.custom.targets import Custom

__all__ = ["BlockingCustom"]

NAME: Final = "mcpwire-link"


class BlockingCustom(RelayedPipes):
    """A connection of the user's, which is moved beside it in a thread."""

    __slots__ = ()

    @classmethod
    def open(
        cls, target: Custom, inbound: Inbound, *, limits: Limits = DEFAULT_LIMITS
    ) -> BlockingCustom:
        """Begin to open a connection in a thread, and connect to that."""
        ours, theirs = socket.socketpair()
        host = _LinkHost(target, theirs, limits)
        try:
            host.start()
            return cls(inbound, ours, host, limits=limits, target=target.name)
        except BaseException:
            ours.close()
            host.join(limits)
            raise

    def _stream_ended(self, why: str, cause: BaseException | None = None) -> None:
        host = cast("_LinkHost", self._relay)
        super()._stream_ended(host.why if cause is None else why, cause)


class _LinkHost(Host):
    """The thread and the loop of one connection.

    Attributes:
        why: What ended it.
    """

    why = "the peer closed it"

    def __init__(self, target: Custom, theirs: socket.socket, limits: Limits) -> None:
        super().__init__(target, theirs, limits)
        self._target = target

    def _open(self) -> LinkChannel:
        return cast("LinkChannel", self._target.open_channel(self, self._limits))

    def lost(self, error: TransportError) -> None:
        """End with the connection, and know why it ended."""
        self.why = str(error.args[0])
        super().lost(error)
