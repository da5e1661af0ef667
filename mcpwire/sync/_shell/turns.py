"""Whose turn it is: one thread opens the connection or closes it, the others wait.

The one lock here is never held while anything waits for the server. It is taken before
those of callbacks and handlers, and never inside a channel's mutex.
"""

from __future__ import annotations

import copy
import threading
from time import monotonic
from typing import TYPE_CHECKING

from mcpwire.errors import LocalProtocolError, MCPError
from mcpwire.sync._shell.handshake import OutOfTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.sync._shell.handshake import Handshake

__all__ = ["Closing", "Opening", "Turns"]


class Opening:
    """One thread's way to an open connection."""

    def __init__(self, handshake: Handshake) -> None:
        self.handshake = handshake
        self.thread = threading.get_ident()
        self.error: BaseException | None = None
        self.is_over = False

    @property
    def is_ours(self) -> bool:
        """Whether the calling thread is the one that opens."""
        return self.thread == threading.get_ident()


class Closing:
    """One thread's closing of the connection."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.threads: list[threading.Thread] = []
        """What it waits for."""

    @property
    def is_ours(self) -> bool:
        """Whether the calling thread is the one that closes."""
        return self.thread == threading.get_ident()


class Turns:
    """Who opens and who closes.

    An interrupt may come at any instruction: whoever took a turn, or may have, gives
    it back in a `finally`, and giving back what was not taken does nothing.

    Attributes:
        opening: The opening under way.
        closing: The closing under way.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.opening: Opening | None = None
        self.closing: Closing | None = None

    def take(
        self, opening: Opening, is_open: Callable[[], bool], until: float | None
    ) -> bool:
        """Wait for whoever opens or closes; tell whether it is ours to open.

        Raises:
            MCPError: Another thread's opening failed: as that did.
            OutOfTime: `until`, a time of `monotonic`, has passed.
        """
        with self._changed:
            while True:
                if self.closing is not None:
                    if self.closing.is_ours:  # in a signal handler, or a hook
                        raise LocalProtocolError(
                            "closing is under way in this very thread"
                        )
                    self._wait(until)
                elif self.opening is not None:
                    self._share(self.opening, until)
                elif is_open():
                    return False
                else:
                    self.opening = opening
                    return True

    def leave(self, opening: Opening) -> None:
        """Let the others go on."""
        with self._changed:
            opening.is_over = True
            if self.opening is opening:
                self.opening = None
            self._changed.notify_all()

    def _share(self, opening: Opening, until: float | None) -> None:
        """Wait for another thread's opening, and fail as it did."""
        if opening.is_ours:
            raise LocalProtocolError("connecting is under way in this very thread")
        while not opening.is_over:
            self._wait(until)
        # Where that thread was interrupted, or ran out of its own time, the next of
        # those who wait tries again.
        if isinstance(opening.error, MCPError):
            # A raised error belongs to the thread that raised it.
            raise copy.copy(opening.error) from opening.error.__cause__

    def _wait(self, until: float | None) -> None:
        left = None if until is None else until - monotonic()
        if left is not None and left <= 0:
            raise OutOfTime
        self._changed.wait(left)

    # Closing...

    def begin_closing(
        self,
        closing: Closing,
        begin: Callable[[Opening | None], list[threading.Thread] | None],
    ) -> bool:
        """Call `begin`, or wait for whoever closes already; tell whether to go on.

        What it returns are the threads to wait for; ``None``: nothing is to be closed.
        One of those threads, which closes too, does not wait for its own end; neither
        does a signal handler for the closing that it interrupts.
        """
        with self._changed:
            if self.closing is None:
                threads = begin(self.opening)
                if threads is None:
                    return False
                closing.threads = threads
                self.closing = closing
                return True
            is_waited_for = threading.current_thread() in self.closing.threads
            if not is_waited_for and not self.closing.is_ours:
                self._changed.wait_for(lambda: self.closing is None)
            return False

    def wait_for_end(self, opening: Opening) -> None:
        """Wait until that opening is over."""
        with self._changed:
            self._changed.wait_for(lambda: opening.is_over)

    def end_closing(self, closing: Closing) -> None:
        """Let the others go on."""
        with self._changed:
            if self.closing is closing:
                self.closing = None
            self._changed.notify_all()
