"""The threads a blocking client has where it was asked for: they end with a connection.

Neither keeps the interpreter from exiting, nor a forgotten client from being collected.
"""

from __future__ import annotations

import logging
import threading
import weakref
from time import monotonic
from typing import TYPE_CHECKING

from mcpwire.errors import HTTPError, MCPError, RequestTimeout, TransportError
from mcpwire.protocol.deadline import Deadline
from mcpwire.sync._lead import Waiter

if TYPE_CHECKING:
    from mcpwire.sync._bell import Bell
    from mcpwire.sync._shell.connection import Connection
    from mcpwire.sync._targets import OpenChannel

__all__ = ["keep_alive", "read_on"]

logger = logging.getLogger("mcpwire")


def read_on(connection: Connection, channel: OpenChannel) -> threading.Thread:
    """Start a thread that reads a connection while nobody calls."""
    known = weakref.ref(connection)

    def run() -> None:
        never = Waiter()
        while channel.lost is None:
            channel.wait(never, None)
        owner = known()
        if owner is None or not owner.is_wanted or not owner.is_needed():
            return
        try:
            owner.revive("notifications", None)
        except MCPError as error:
            logger.warning("%s could not be opened again: %s", owner, error)
            owner.inbound.wake()

    return _started(threading.Thread(target=run, name="mcpwire-read", daemon=True))


def keep_alive(channel: OpenChannel, seconds: float, over: Bell) -> threading.Thread:
    """Start a thread that pings a quiet server; one that does not answer is given up.

    2025-11-25 basic/utilities/ping: pings should go out periodically, and an answer
    that stays out is a failure of the connection.
    """

    def run() -> None:
        heard = channel.stats.messages
        while not over.wait(seconds):
            if channel.stats.messages == heard:
                _ping(channel, seconds)
            heard = channel.stats.messages

    return _started(threading.Thread(target=run, name="mcpwire-keepalive", daemon=True))


def _ping(channel: OpenChannel, seconds: float) -> None:
    try:
        channel.call("ping", None, deadline=Deadline(monotonic(), seconds))
    except RequestTimeout:
        channel.give_up(
            TransportError(
                f"the server did not answer a ping within {seconds:g} s",
                target=channel.target,
            )
        )
    except HTTPError:
        return  # whoever answers is there
    except TransportError as error:
        if channel.lost is None:  # it does not even read
            channel.give_up(error)
    except MCPError:
        return  # an error is an answer
    except Exception:
        # A function of the user's that makes headers raised: the next one may not.
        logger.exception("a ping could not be sent to %s", channel.target)


def _started(thread: threading.Thread) -> threading.Thread:
    thread.start()
    return thread
